package policy_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/policy"
)

func parse(tb testing.TB, target string) policy.Path {
	tb.Helper()
	p, err := policy.ParseTarget(target)
	if err != nil {
		tb.Fatalf("ParseTarget(%q): %v", target, err)
	}
	return p
}

// request returns the canonical form of a request.
func request(tb testing.TB, method, host, target string) *policy.Request {
	tb.Helper()
	canonical, err := policy.CanonicalHost(host)
	if err != nil {
		tb.Fatal(err)
	}
	return &policy.Request{Method: method, Host: canonical, Path: parse(tb, target), Client: netip.MustParseAddr("192.0.2.1")}
}

func compile(tb testing.TB, specs map[string]*policy.Spec) *policy.Set {
	tb.Helper()
	set, err := policy.Compile(specs)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func newTable(tb testing.TB, routes ...policy.Route) *policy.Table {
	tb.Helper()
	table, err := policy.NewTable(routes)
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

// diffErrors compares an Errors with want, which has "PATH: PART OF THE MESSAGE"
// for each error. It returns the difference.
func diffErrors(err error, want ...string) string {
	var errs policy.Errors
	if err != nil && !errors.As(err, &errs) {
		return "not an Errors: " + err.Error()
	}
	got := make([]string, len(errs))
	for i, e := range errs {
		got[i] = e.Error()
		if i < len(want) {
			path, part, _ := strings.Cut(want[i], ": ")
			if e.Path == path && strings.Contains(e.Msg, part) {
				got[i] = want[i]
			}
		}
	}
	if want == nil {
		want = []string{}
	}
	return cmp.Diff(want, got)
}

func names(names ...string) []policy.Ref {
	refs := make([]policy.Ref, len(names))
	for i, n := range names {
		refs[i].Name = n
	}
	return refs
}

func inline(s policy.Spec) policy.Ref { return policy.Ref{Spec: &s} }

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		specs map[string]*policy.Spec
		want  []string
	}{
		{"no policies", nil, nil},
		{"no rules", map[string]*policy.Spec{"a": nil, "b": {}},
			[]string{"policies.a: has no rules", "policies.b: has no rules"}},
		{"no name", map[string]*policy.Spec{"": {Roles: []string{"a"}}},
			[]string{"policies: name of a policy is empty"}},
		{"empty lists", map[string]*policy.Spec{"p": {
			Roles: []string{}, AllRoles: []string{}, Users: []string{}, EmailDomains: []string{}, Scopes: []string{},
			Mechanisms: []string{}, Providers: []string{}, Networks: []string{}, Methods: []string{},
			Claims: map[string][]string{}, Any: []policy.Ref{}, All: []policy.Ref{}, None: []policy.Ref{},
		}}, []string{
			"policies.p.roles: list is empty", "policies.p.all_roles: list is empty", "policies.p.users: list is empty",
			"policies.p.email_domains: list is empty", "policies.p.scopes: list is empty", "policies.p.mechanisms: list is empty",
			"policies.p.providers: list is empty", "policies.p.networks: list is empty", "policies.p.methods: list is empty",
			"policies.p.claims: no claim is named", "policies.p.any: list is empty", "policies.p.all: list is empty",
			"policies.p.none: list is empty",
		}},
		{"roles", map[string]*policy.Spec{"p": {Roles: []string{"ok", ""}, AllRoles: []string{" a", "a\t", "a,b", "a\x00b"}}},
			[]string{
				"policies.p.roles[1]: is empty", "policies.p.all_roles[0]: begins or ends with a space", "policies.p.all_roles[1]: begins or ends with a space",
				"policies.p.all_roles[2]: contains a comma", "policies.p.all_roles[3]: control character",
			}},
		{"users", map[string]*policy.Spec{"p": {Users: []string{"alice", "g:bob", "", ":", "g:", ":bob", "g: bob", " g:bob", "al\nice"}}},
			[]string{
				"policies.p.users[2]: is empty", "policies.p.users[3]: lacks a part", "policies.p.users[4]: lacks a part",
				"policies.p.users[5]: lacks a part", "policies.p.users[6]: begins or ends with a space", "policies.p.users[7]: begins or ends with a space",
				"policies.p.users[8]: control character",
			}},
		{"email domains", map[string]*policy.Spec{"p": {EmailDomains: []string{
			"Example.ORG", "", "a@example.org", "@example.org", "example.org.", ".example.org", "*.example.org", "exämple.org", "a b",
		}}}, []string{
			"policies.p.email_domains[1]: is empty", "policies.p.email_domains[2]: contains an @", "policies.p.email_domains[3]: contains an @",
			"policies.p.email_domains[4]: empty label", "policies.p.email_domains[5]: empty label",
			"policies.p.email_domains[6]: expected a domain", "policies.p.email_domains[7]: expected a domain",
			"policies.p.email_domains[8]: expected a domain",
		}},
		{"scopes", map[string]*policy.Spec{"p": {Scopes: []string{"read", "", "read write", `a"b`, `a\b`, "é", "a\x7f"}}},
			[]string{
				"policies.p.scopes[1]: is empty", "policies.p.scopes[2]: not one scope", "policies.p.scopes[3]: not one scope",
				"policies.p.scopes[4]: not one scope", "policies.p.scopes[5]: not one scope", "policies.p.scopes[6]: not one scope",
			}},
		{"mechanisms", map[string]*policy.Spec{"p": {Mechanisms: []string{"basic", "session", "bearer", "oidc", "none", "Basic", ""}}},
			[]string{
				"policies.p.mechanisms[4]: proves no identity", "policies.p.mechanisms[5]: not a mechanism",
				"policies.p.mechanisms[6]: not a mechanism",
			}},
		{"providers", map[string]*policy.Spec{"p": {Providers: []string{"local", "", "a "}}},
			[]string{"policies.p.providers[1]: is empty", "policies.p.providers[2]: begins or ends with a space"}},
		{"networks", map[string]*policy.Spec{"p": {Networks: []string{
			"192.0.2.1", "10.0.0.0/8", "::1", "2001:db8::/32", "::ffff:192.0.2.1", "::ffff:10.0.0.0/104", "0.0.0.0/0",
			"", "office", "10.0.0.0/33", "10.0.0.0/", "10.1.0.0/8", "fe80::1%eth0", "fe80::%eth0/10", "10.0.0.0/08", "1.2.3", "::ffff:0.0.0.0/90",
		}}}, []string{
			"policies.p.networks[7]: neither an address nor a CIDR", "policies.p.networks[8]: neither an address nor a CIDR",
			"policies.p.networks[9]: neither an address nor a CIDR", "policies.p.networks[10]: neither an address nor a CIDR",
			"policies.p.networks[11]: did you mean 10.0.0.0/8?", "policies.p.networks[12]: has a zone",
			"policies.p.networks[13]: neither an address nor a CIDR", "policies.p.networks[14]: neither an address nor a CIDR",
			"policies.p.networks[15]: neither an address nor a CIDR", "policies.p.networks[16]: bits set beyond",
		}},
		{"methods", map[string]*policy.Spec{"p": {Methods: []string{"GET", "VERSION-CONTROL", "A`09~Z", "", "get", "Get", "a", "z", "GET ", "G/T", "GÉT", "{", "@", "[", ":"}}},
			[]string{
				"policies.p.methods[3]: is empty", "policies.p.methods[4]: did you mean GET?", "policies.p.methods[5]: did you mean GET?",
				"policies.p.methods[6]: did you mean A?", "policies.p.methods[7]: did you mean Z?",
				"policies.p.methods[8]: is not a method", "policies.p.methods[9]: is not a method", "policies.p.methods[10]: is not a method",
				"policies.p.methods[11]: is not a method", "policies.p.methods[12]: is not a method", "policies.p.methods[13]: is not a method",
				"policies.p.methods[14]: is not a method",
			}},
		{"claims", map[string]*policy.Spec{"p": {Claims: map[string][]string{"": {"a"}, "..": {"a"}, "ok": {"a"}, "x": nil, "y": {}, "z": {"a", ""}}}},
			[]string{
				"policies.p.claims.: not the name of a claim", "policies.p.claims...: not the name of a claim",
				"policies.p.claims.x: list is empty", "policies.p.claims.y: list is empty", "policies.p.claims.z[1]: is empty",
			}},
		{"references", map[string]*policy.Spec{
			"p": {
				Any:  []policy.Ref{{}, {Name: "q", Spec: &policy.Spec{Roles: []string{"a"}}}, {Name: "missing"}, inline(policy.Spec{})},
				All:  []policy.Ref{inline(policy.Spec{Any: []policy.Ref{inline(policy.Spec{Networks: []string{"x"}})}})},
				None: names("Q"),
			},
			"q": {Roles: []string{"a"}},
		}, []string{
			"policies.p.any[0]: expected the name of a policy", "policies.p.any[1]: expected the name of a policy",
			`policies.p.any[2]: there is no policy "missing"; expected one of p, q`, "policies.p.any[3]: has no rules",
			"policies.p.all[0].any[0].networks[0]: neither an address nor a CIDR", `policies.p.none[0]: there is no policy "Q"`,
		}},
		{"cycle of one", map[string]*policy.Spec{"a": {Any: names("a")}},
			[]string{"policies.a.any[0]: a -> a"}},
		{"cycle of three", map[string]*policy.Spec{
			"a": {Any: names("b")},
			"b": {All: []policy.Ref{inline(policy.Spec{None: names("c")})}},
			"c": {Roles: []string{"x"}, None: names("d", "a")},
			"d": {Roles: []string{"x"}},
		}, []string{"policies.c.none[1]: a -> b -> c -> a"}},
		{"two ways to one policy are no cycle", map[string]*policy.Spec{
			"a": {Any: names("b", "c")}, "b": {All: names("d")}, "c": {All: names("d")}, "d": {Roles: []string{"x"}},
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := policy.Compile(tt.specs)
			if diff := diffErrors(err, tt.want...); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetPolicyErrors(t *testing.T) {
	t.Parallel()
	set := compile(t, map[string]*policy.Spec{"admin": {Roles: []string{"admin"}}})
	tests := []struct {
		name string
		set  *policy.Set
		refs []policy.Ref
		want []string
	}{
		{"a name", set, names("admin"), nil},
		{"a list", set, append(names("admin"), inline(policy.Spec{Methods: []string{"GET"}})), nil},
		{"no key", set, nil, nil},
		{"an empty list", set, []policy.Ref{}, []string{"routes[3].policy: list is empty"}},
		{"an unknown name", set, names("admn"), []string{`routes[3].policy: no policy "admn"; expected one of admin`}},
		{"unknown names in a list", set, names("x", "admin", "y"),
			[]string{`routes[3].policy[0]: no policy "x"`, `routes[3].policy[2]: no policy "y"`}},
		{"a bad one in place", set, []policy.Ref{inline(policy.Spec{Any: names("admin", "z")})},
			[]string{`routes[3].policy.any[1]: no policy "z"`}},
		{"a bad one in a list", set, append(names("admin"), inline(policy.Spec{Roles: []string{""}})),
			[]string{"routes[3].policy[1].roles[0]: is empty"}},
		{"nothing", set, []policy.Ref{{}}, []string{"routes[3].policy: expected the name of a policy"}},
		{"the zero set", new(policy.Set), names("admin"), []string{"routes[3].policy: none is defined"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := tt.set.Policy("routes[3].policy", tt.refs)
			if diff := diffErrors(err, tt.want...); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if wantNil := tt.want != nil || tt.refs == nil; (p == nil) != wantNil {
				t.Errorf("policy = %v, want nil: %t", p, wantNil)
			}
		})
	}
}

// A set with an error still has policies for the routes, but they allow nothing:
// neither the valid ones, nor those with none of an invalid one.
func TestBrokenSetRefuses(t *testing.T) {
	t.Parallel()
	set, err := policy.Compile(map[string]*policy.Spec{
		"good":   {Roles: []string{"user"}},
		"broken": {Networks: []string{"nowhere"}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, refs := range [][]policy.Ref{
		names("good"), names("broken"), names("good", "broken"), {inline(policy.Spec{None: names("broken")})},
	} {
		p, err := set.Policy("routes[0].policy", refs)
		if err != nil {
			t.Errorf("%v: %v", refs, err)
		}
		route := policy.Route{Mechanisms: []policy.Mechanism{policy.Session}, Policy: p}
		id := &policy.Identity{Roles: []string{"user"}, Mechanism: policy.Session}
		if d := route.Decide(id, request(t, "GET", "example.org", "/")); d.Outcome != policy.Forbid {
			t.Errorf("%v: %v, want forbid", refs, d)
		}
	}
	if diff := diffErrors(func() error { _, err := set.Policy("routes[0].policy", names("other")); return err }(),
		`routes[0].policy: there is no policy "other"; expected one of broken, good`); diff != "" {
		t.Error(diff)
	}
}
