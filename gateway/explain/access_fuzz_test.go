package explain_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"authgate/gateway"
	"authgate/gateway/explain"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// throws makes choices from fuzzed bytes. After the last byte it returns 0.
type throws struct{ data []byte }

func (d *throws) roll(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return int(b) % n
}

// policy returns a policy in YAML.
func (d *throws) policy(depth int) string {
	part := func(n int) string {
		if depth == 0 {
			n %= 7
		}
		switch n {
		case 0:
			return "roles: " + []string{"[user]", "[admin]", "[user, admin]"}[d.roll(3)]
		case 1:
			return "users: " + []string{"[alice]", "[bob]", `["corp:dave"]`}[d.roll(3)]
		case 2:
			return "networks: " + []string{"[10.0.0.0/8]", "[10.1.0.0/16]", "[192.0.2.0/24, 10.1.0.0/16]"}[d.roll(3)]
		case 3:
			return "methods: " + []string{"[GET]", "[GET, POST]", "[DELETE]"}[d.roll(3)]
		case 4:
			return "claims: {dept: " + []string{"[a]", "[b]", "[a, b]"}[d.roll(3)] + "}"
		case 5:
			return "factors: 2"
		case 6:
			return "max_age: " + []string{"1m", "1h"}[d.roll(2)]
		}
		if n == 7 {
			return "mcp: {tools: " + []string{"[get_*]", `["get_*", "!*_all"]`, `["*_*"]`}[d.roll(3)] + "}"
		}
		parts := depth - 1
		if n == 10 {
			parts = 0 // which has no mcp: that must not be under none
		}
		return []string{"any", "all", "none"}[n-8] + ": [" + d.policy(parts) + ", " + d.policy(parts) + "]"
	}
	first := d.roll(11)
	second := d.roll(11)
	if depth == 0 {
		first, second = first%7, second%7
	}
	text := part(first)
	if second != first {
		text += ", " + part(second)
	}
	return "{" + text + "}"
}

// config returns a configuration with three routes, one of them by method.
func (d *throws) config() string {
	roles := func() string { return []string{"[user]", "[admin]", "[user, admin]"}[d.roll(3)] }
	auth := func() string {
		return []string{"[session, bearer, oidc]", "[session, oidc, none]", "[basic]", "[none]", "[oidc]"}[d.roll(5)]
	}
	yaml := `
public_url: https://gw.example
data_dir: not/here
basic: {users: [{username: service, password_hash: "` + rig.AliceHash + `"}]}
accounts:
  users:
    - {username: alice, roles: ` + roles() + `, password_hash: "` + rig.AliceHash + `"}
    - {username: bob, roles: ` + roles() + []string{"", ", disabled: true"}[d.roll(4)/3] +
		`, password_hash: "` + rig.AliceHash + `"}
providers:
  - {name: corp, issuer: "https://id.invalid", client_id: authgate}
upstreams: {app: {url: "http://app.invalid"}}
policies:
  one: ` + strings.TrimSuffix(d.policy(1), "}") + []string{"", ", next: " + d.policy(1)}[d.roll(2)] + `}
  two: {any: [one, ` + d.policy(1) + `]}
routes:
`
	for i, method := range []string{"", "", "POST "} {
		policy, by := "", auth()
		if by != "[none]" {
			policy = ", policy: " + []string{"one", "two", d.policy(2)}[d.roll(3)]
		}
		yaml += fmt.Sprintf("  - {name: r%d, match: \"%s/r%[1]d/\", upstream: app, mcp: true, auth: %[3]s%s}\n",
			i, method, by, policy)
	}
	return yaml
}

// sample has a request of each kind that policies of throws can tell apart, for each user of accessRows.
func sample(row *explain.Row, route int) (all []explain.Request) {
	claims := []map[string][]string{nil}
	if row.User == "" {
		claims = append(claims, map[string][]string{"dept": {"a"}}, map[string][]string{"dept": {"b"}},
			map[string][]string{"dept": {"a", "b"}})
	}
	calls := []string{
		"GET", "OPTIONS", "DELETE", "POST", "POST get_x", "POST get_all", "POST x_all", "POST x_y", "POST x",
	}
	if route == 2 {
		calls = calls[3:]
	}
	for _, call := range calls {
		method, tool, _ := strings.Cut(call, " ")
		mcpMethod := ""
		if tool != "" {
			mcpMethod = "tools/call"
		}
		for _, from := range []string{"10.0.0.1", "10.1.0.1", "192.0.2.1", "198.51.100.1"} {
			for _, claim := range claims {
				all = append(all, explain.Request{
					Method: method, MCPMethod: mcpMethod, MCPName: tool,
					URL: fmt.Sprintf("/r%d/", route), From: netip.MustParseAddr(from),
					Caller: &explain.Caller{User: row.User, Roles: row.Roles, Provider: row.Provider, Claims: claim},
				})
			}
		}
	}
	return all
}

var accessRows = []explain.Row{{User: "alice"}, {User: "bob"}, {Roles: []string{"user"}, Provider: "corp"}}

// decided returns the answers of the gateway to a sample. A disabled account is refused.
func decided(t *testing.T, e *gateway.Explainer, row *explain.Row, requests []explain.Request) (all []string) {
	t.Helper()
	for i := range requests {
		x, err := e.Explain(&requests[i])
		switch {
		case err != nil && row.User == "bob" && strings.Contains(err.Error(), "disabled"):
			all = append(all, "forbid ")
		case err != nil:
			t.Fatal(err)
		default:
			outcome := x.Outcome
			if outcome == explain.OutcomeChallenge && x.StepUp.String() != "" {
				outcome = "step-up"
			}
			all = append(all, outcome+" "+x.StepUp.String())
		}
	}
	return all
}

// inPlace matches the policy that has a next, and finds that next.
var inPlace = regexp.MustCompile(`(?m)one: .*, next: (.*)\}\n`)

// With every next in place, the cells are those of a configuration that has it as its policy.
func wantNext(t *testing.T, now *gateway.Explainer, first string) {
	t.Helper()
	e := must.Get(gateway.NewExplainer(rig.Parse(t, t.TempDir(), inPlace.ReplaceAllString(first, "one: $1\n"))))(t)
	defer e.Close()
	next, changed := now.Access(), e.Access()
	next.UseNext()
	for i := range accessRows {
		for route := range 3 {
			name := fmt.Sprintf("r%d", route)
			got := must.Get(next.Cell(&accessRows[i], next.Route(name)))(t)
			want := must.Get(changed.Cell(&accessRows[i], changed.Route(name)))(t)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %s: with next %+v, changed %+v, of\n%s", accessRows[i], name, got, want, first)
			}
		}
	}
}

// The cells and the differences of random configurations are those of the gateway's own decisions about
// requests: a cell with one outcome has it for all of them, another depends; without a difference no request
// is decided otherwise, and with one some request is.
func FuzzAccess(f *testing.F) {
	f.Add([]byte{})
	random := rand.NewChaCha8([32]byte{3})
	for range 60 {
		seed := make([]byte, 120)
		random.Read(seed) // never fails
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &throws{data}
		first := d.config()
		second := first
		switch d.roll(4) {
		case 0:
		case 1:
			second = inPlace.ReplaceAllString(first, "one: $1\n")
		default:
			second = d.config()
		}
		now := must.Get(gateway.NewExplainer(rig.Parse(t, t.TempDir(), first)))(t)
		defer now.Close()
		other := must.Get(gateway.NewExplainer(rig.Parse(t, t.TempDir(), second)))(t)
		defer other.Close()
		wantNext(t, now, first)
		a, b := now.Access(), other.Access()
		for i := range accessRows {
			for route := range 3 {
				row, name := &accessRows[i], fmt.Sprintf("r%d", route)
				requests := sample(row, route)
				was, is := decided(t, now, row, requests), decided(t, other, row, requests)
				cell := must.Get(a.Cell(row, a.Route(name)))(t)
				wantCell(t, &cell, was)
				diff := must.Get(a.Compare(b, row, name))(t)
				wantChange(t, diff.Change, was, is)
				if t.Failed() {
					t.Fatalf("%+v, %s: %+v, %+v\n%q\n%q\nof\n%s\nand\n%s", row, name, cell, diff, was, is, first, second)
				}
			}
		}
	})
}

// wantCell fails the test unless a cell says what the decisions are.
func wantCell(t *testing.T, cell *explain.Cell, decided []string) {
	t.Helper()
	same := true
	for _, one := range decided {
		same = same && one == decided[0]
	}
	if depends := cell.Outcome == explain.OutcomeDepends; depends == same {
		t.Errorf("depends: %t", depends)
	}
	outcome := strings.Replace(cell.Outcome, "sign-in", "challenge", 1)
	if want := outcome + " " + cell.StepUp.String(); same && want != decided[0] {
		t.Errorf("the cell has %q, the requests %q", want, decided[0])
	}
}

// wantChange fails the test unless a change says how decisions differ.
func wantChange(t *testing.T, change string, was, is []string) {
	t.Helper()
	differs, allows, refuses := false, false, false
	for i := range was {
		differs = differs || was[i] != is[i]
		allows = allows || was[i] != is[i] && is[i] == "allow "
		refuses = refuses || was[i] != is[i] && was[i] == "allow "
	}
	switch {
	case (change != "") != differs:
		t.Errorf("the change is %q, and some request differs: %t", change, differs)
	case allows && change != explain.ChangeOpens:
		t.Errorf("a request is let in now, and the change is %q", change)
	case refuses && change == explain.ChangeOther:
		t.Errorf("a request is refused now, and the change is %q", change)
	}
}

// If a route asks for a sign-in before and after a change, the change opens it to each sign-in that is enough only
// now: a password of a minute ago, where there was a second factor to prove.
func TestStepUpsCompared(t *testing.T) {
	t.Parallel()
	access := func(policy string) *explain.Access {
		e := must.Get(gateway.NewExplainer(rig.Parse(t, t.TempDir(), `
public_url: https://gw.example
accounts: {users: [{username: alice, password_hash: "`+rig.AliceHash+`"}]}
upstreams: {app: {url: "http://app.invalid"}}
routes: [{name: vault, match: /, upstream: app, auth: [session], policy: {`+policy+`}}]
`)))(t)
		t.Cleanup(func() { must.Do(t, e.Close()) })
		return e.Access()
	}
	for _, c := range []struct{ now, other, want string }{
		{"factors: 2", "max_age: 5m", explain.ChangeOpens},
		{"max_age: 5m", "factors: 2", explain.ChangeOpens},
		{"factors: 2, max_age: 5m", "factors: 2", explain.ChangeOpens},
		{"max_age: 5m", "max_age: 1h", explain.ChangeOpens},
		{"max_age: 1h", "max_age: 5m", explain.ChangeCloses},
		{"factors: 2", "factors: 2, max_age: 5m", explain.ChangeCloses},
		{"factors: 2", "factors: 2", ""},
	} {
		diff := must.Get(access(c.now).Compare(access(c.other), &explain.Row{User: "alice"}, "vault"))(t)
		if diff.Change != c.want {
			t.Errorf("%s to %s: %q, want %q", c.now, c.other, diff.Change, c.want)
		}
	}
}
