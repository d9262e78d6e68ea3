package policy_test

import (
	"fmt"
	"net/netip"
	"testing"

	"authgate/policy"
)

// BenchmarkMatch parses a target and finds its route among n.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{1, 100} {
		patterns := make([]string, n)
		for i := range patterns {
			patterns[i] = fmt.Sprintf("/app%d/", i)
		}
		table := newTable(b, routes(patterns...)...)
		for _, target := range []string{"/app0/items/42?page=2", "/app0/annual%20report.pdf", "/app0/100%2525"} {
			req := request(b, "GET", "example.org", target)
			b.Run(fmt.Sprintf("%s/%d routes", target, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					req.Path = parse(b, target)
					if _, ok := table.Match(req); !ok {
						b.Fatal("no match")
					}
				}
			})
		}
	}
}

// decisions are identities for decisionRoute, one for each kind of outcome.
var decisions = map[string]struct {
	id   *policy.Identity
	want policy.Outcome
}{
	"allow by role":       {&policy.Identity{Roles: []string{"user", "admin"}, Mechanism: policy.Session}, policy.Allow},
	"allow by claim":      {&policy.Identity{Claims: map[string]any{"org": map[string]any{"level": 3.0}}, Mechanism: policy.Session}, policy.Allow},
	"forbid by policy":    {&policy.Identity{Roles: []string{"user"}, Mechanism: policy.Bearer}, policy.Forbid},
	"forbid by mechanism": {&policy.Identity{Mechanism: policy.None}, policy.Forbid},
	"challenge":           {nil, policy.Challenge},
}

func decisionRoute(tb testing.TB) (*policy.Route, *policy.Request) {
	tb.Helper()
	route := policyRoute(tb, specs{
		"admin":  {Roles: []string{"admin"}},
		"office": {Networks: []string{"192.0.2.0/24", "2001:db8::/32"}},
		"leads":  {Claims: map[string][]string{"org.level": {"3", "4"}}},
		"staff":  {Any: names("admin", "leads"), All: names("office"), None: []policy.Ref{inline(spec{EmailDomains: []string{"example.net"}})}},
	}, names("staff")...)
	req := request(tb, "GET", "example.org", "/a")
	req.Client = netip.MustParseAddr("192.0.2.7")
	return route, req
}

func BenchmarkDecide(b *testing.B) {
	route, req := decisionRoute(b)
	for name, d := range decisions {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := route.Decide(d.id, req); got.Outcome != d.want {
					b.Fatal(got)
				}
			}
		})
	}
}

// Neither a plain request nor a decision allocates.
func TestAllocations(t *testing.T) {
	route, req := decisionRoute(t)
	work := map[string]func(){
		"ParseTarget": func() { parse(t, "/api/v1/accounts?page=2") },
		"CanonicalHost": func() {
			if _, err := policy.CanonicalHost("example.org:8443"); err != nil {
				t.Error(err)
			}
		},
	}
	for name, d := range decisions {
		work[name] = func() { route.Decide(d.id, req) }
	}
	for name, f := range work {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}
