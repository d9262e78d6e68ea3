package policy_test

import (
	"fmt"
	"net/netip"
	"testing"

	"authgate/policy"
)

func BenchmarkParseTarget(b *testing.B) {
	for _, bb := range []struct{ name, target string }{
		{"plain", "/api/v1/accounts/42/invoices?page=2&sort=date"},
		{"escaped", "/files/annual%20report%202025.pdf"},
		{"escaped twice", "/files/100%2525"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := policy.ParseTarget(bb.target); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{1, 100} {
		for _, bb := range []struct{ name, pattern, target string }{
			{"exact", "/app%d", "/app0"},
			{"subtree", "/app%d/", "/app0/items/42"},
		} {
			patterns := make([]string, n)
			for i := range patterns {
				patterns[i] = fmt.Sprintf(bb.pattern, i)
			}
			table := newTable(b, routes(patterns...)...)
			req := request(b, "GET", "example.org", bb.target)
			b.Run(fmt.Sprintf("%s/%d routes", bb.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if m, ok := table.Match(req); !ok || m.Index != 0 {
						b.Fatal("no match")
					}
				}
			})
		}
	}
}

// decisions are identities for decisionRoute, one for each kind of outcome.
var decisions = []struct {
	name string
	id   *policy.Identity
	want policy.Outcome
}{
	{"allow by role", &policy.Identity{Roles: []string{"user", "admin"}, Mechanism: policy.Session}, policy.Allow},
	{"allow by claim", &policy.Identity{Claims: map[string]any{"org": map[string]any{"level": 3.0}}, Mechanism: policy.Session}, policy.Allow},
	{"forbid by policy", &policy.Identity{Roles: []string{"user"}, Mechanism: policy.Bearer}, policy.Forbid},
	{"forbid by mechanism", &policy.Identity{Mechanism: policy.Basic}, policy.Forbid},
	{"challenge", nil, policy.Challenge},
}

func decisionRoute(tb testing.TB) (*policy.Route, *policy.Request) {
	tb.Helper()
	set := compile(tb, map[string]*policy.Spec{
		"admin":  {Roles: []string{"admin"}},
		"office": {Networks: []string{"192.0.2.0/24", "2001:db8::/32"}},
		"leads":  {Claims: map[string][]string{"org.level": {"3", "4"}}},
		"staff": {
			Any:  []policy.Ref{{Name: "admin"}, {Name: "leads"}},
			All:  []policy.Ref{{Name: "office"}},
			None: []policy.Ref{{Spec: &policy.Spec{EmailDomains: []string{"example.net"}}}},
		},
	})
	staff, err := set.Policy("routes[0].policy", []policy.Ref{{Name: "staff"}})
	if err != nil {
		tb.Fatal(err)
	}
	table := newTable(tb, policy.Route{Pattern: "/", Mechanisms: []policy.Mechanism{policy.Session, policy.Bearer}, Policy: staff})
	req := request(tb, "GET", "example.org", "/a")
	req.Client = netip.MustParseAddr("192.0.2.7")
	match, ok := table.Match(req)
	if !ok {
		tb.Fatal("no match")
	}
	return match.Route, req
}

func BenchmarkDecide(b *testing.B) {
	route, req := decisionRoute(b)
	for _, d := range decisions {
		b.Run(d.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := route.Decide(d.id, req); got.Outcome != d.want {
					b.Fatal(got)
				}
			}
		})
	}
}

func TestDecideDoesNotAllocate(t *testing.T) {
	route, req := decisionRoute(t)
	for _, d := range decisions {
		if n := testing.AllocsPerRun(100, func() { route.Decide(d.id, req) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", d.name, n)
		}
	}
}

func TestPlainRequestDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { parse(t, "/api/v1/accounts?page=2") }); n != 0 {
		t.Errorf("ParseTarget of a plain path: %v allocations, want none", n)
	}
	host := func() {
		if _, err := policy.CanonicalHost("example.org:8443"); err != nil {
			t.Error(err)
		}
	}
	if n := testing.AllocsPerRun(100, host); n != 0 {
		t.Errorf("CanonicalHost of a plain host: %v allocations, want none", n)
	}
}
