package policy_test

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/policy"
)

// Short names for the tables of tests.
type (
	spec  = policy.Spec
	specs = map[string]*policy.Spec
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
	return &policy.Request{
		Method: method, Host: canonical, Path: parse(tb, target), Client: netip.MustParseAddr("192.0.2.1"),
	}
}

func newTable(tb testing.TB, routes ...policy.Route) *policy.Table {
	tb.Helper()
	table, err := policy.NewTable(routes)
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

// policyRoute returns a route named r, for all mechanisms, with a policy.
func policyRoute(tb testing.TB, named specs, refs ...policy.Ref) *policy.Route {
	tb.Helper()
	set, err := policy.Compile(named)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := set.Policy("routes[0].policy", refs)
	if err != nil {
		tb.Fatal(err)
	}
	all := []policy.Mechanism{policy.Basic, policy.Session, policy.Bearer, policy.OIDC, policy.Certificate}
	return newTable(tb, policy.Route{Name: "r", Pattern: "/", Policy: p, Mechanisms: all}).Routes()[0]
}

// diffErrors compares an Errors with want, which has "PATH: PART OF THE MESSAGE"
// for each error. It returns the difference.
func diffErrors(err error, want ...string) string {
	var errs policy.Errors
	if err != nil && !errors.As(err, &errs) {
		return "not an Errors: " + err.Error()
	}
	var got []string
	for i, e := range errs {
		got = append(got, e.Error())
		if i < len(want) {
			path, part, _ := strings.Cut(want[i], ": ")
			if e.Path == path && strings.Contains(e.Msg, part) {
				got[i] = want[i]
			}
		}
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

func inline(s spec) policy.Ref { return policy.Ref{Spec: &s} }

// list returns the list of a key.
func list(s *spec, key string) *[]string {
	for i, field := range reflect.VisibleFields(reflect.TypeFor[spec]()) {
		if field.Tag.Get("yaml") == key {
			return reflect.ValueOf(s).Elem().Field(i).Addr().Interface().(*[]string)
		}
	}
	panic("no key " + key)
}

// Each list refuses values that cannot mean anything, and to be empty.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, want string // empty for valid values
		values    []string
	}{
		{"roles", "is empty", []string{""}},
		{"all_roles", "begins or ends with a space", []string{" a", "a\t"}},
		{"all_roles", "contains a comma", []string{"a,b"}},
		{"all_roles", "control character", []string{"a\x00b"}},
		{"users", "", []string{"alice", "g:bob"}},
		{"users", "is empty", []string{""}},
		{"users", "lacks a part", []string{":", "g:", ":bob"}},
		{"users", "begins or ends with a space", []string{"g: bob", " g:bob"}},
		{"users", "control character", []string{"al\nice"}},
		{"email_domains", "", []string{"Example.ORG"}},
		{"email_domains", "is empty", []string{""}},
		{"email_domains", "contains an @", []string{"a@example.org", "@example.org"}},
		{"email_domains", "empty label", []string{"example.org.", ".example.org"}},
		{"email_domains", "expected a domain", []string{"*.example.org", "a b"}},
		{"email_domains", "write it as xn--exmple-cua.org", []string{"exämple.org"}},
		{"actors", "expected client:ID", []string{"", "agent", "client:", "corp:agent"}},
		{"scopes", "is empty", []string{""}},
		{"scopes", "not one scope", []string{"read write", `a"b`, `a\b`, "é", "a\x7f"}},
		{"mechanisms", "", []string{"basic", "session", "bearer", "oidc"}},
		{"mechanisms", "proves no identity", []string{"none"}},
		{"mechanisms", "not a mechanism", []string{"Basic", ""}},
		{"providers", "is empty", []string{""}},
		{"providers", "begins or ends with a space", []string{"a "}},
		{"networks", "", []string{"192.0.2.1", "::1", "2001:db8::/32",
			"::ffff:192.0.2.1", "::ffff:10.0.0.0/104", "0.0.0.0/0"}},
		{"networks", "neither an address nor a CIDR",
			[]string{"", "office", "10.0.0.0/33", "10.0.0.0/", "fe80::%eth0/10", "10.0.0.0/08", "1.2.3"}},
		{"networks", "did you mean 10.0.0.0/8?", []string{"10.1.0.0/8"}},
		{"networks", "has a zone", []string{"fe80::1%eth0"}},
		{"networks", "bits set beyond", []string{"::ffff:0.0.0.0/90"}},
		{"methods", "", []string{"GET", "VERSION-CONTROL", "A`09~Z!"}},
		{"methods", "is empty", []string{""}},
		{"methods", "did you mean GET?", []string{"get", "Get"}},
		{"methods", "did you mean Z?", []string{"z"}},
		{"methods", "did you mean A?", []string{"a"}},
		{"methods", "is not a method", []string{"GET ", "G/T", "GÉT", "{", "@", "[", ":"}},
	} {
		s := &spec{}
		*list(s, c.key) = c.values
		var want []string
		for i := range c.values {
			if c.want != "" {
				want = append(want, fmt.Sprintf("policies.p.%s[%d]: %s", c.key, i, c.want))
			}
		}
		if _, err := policy.Compile(specs{"p": s}); diffErrors(err, want...) != "" {
			t.Errorf("%s %q (-want +got):\n%s", c.key, c.values, diffErrors(err, want...))
		}
		*list(s, c.key) = []string{}
		if _, err := policy.Compile(specs{"p": s}); diffErrors(err, "policies.p."+c.key+": list is empty") != "" {
			t.Errorf("%s without an entry: %v", c.key, err)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	user := []string{"a"}
	for _, c := range []struct {
		name  string
		specs specs
		want  []string
	}{
		{"no policies", nil, nil},
		{"no rules", specs{"a": nil, "b": {}}, []string{"policies.a: has no rules", "policies.b: has no rules"}},
		{"no name", specs{"": {Roles: user}}, []string{"policies: name of a policy is empty"}},
		{"empty keys", specs{"p": {
			Claims: map[string][]string{}, Any: []policy.Ref{}, All: []policy.Ref{}, None: []policy.Ref{},
		}}, []string{
			"policies.p.claims: no claim is named", "policies.p.any: list is empty",
			"policies.p.all: list is empty", "policies.p.none: list is empty",
		}},
		{"one bad value of several", specs{"p": {Roles: []string{"ok", ""}}}, []string{"policies.p.roles[1]: is empty"}},
		{"claims", specs{"p": {
			Claims: map[string][]string{"": user, "..": user, "ok": user, "x": nil, "y": {}, "z": {"a", ""}},
		}}, []string{
			"policies.p.claims.: not the name of a claim", "policies.p.claims...: not the name of a claim",
			"policies.p.claims.x: list is empty", "policies.p.claims.y: list is empty", "policies.p.claims.z[1]: is empty",
		}},
		{"references", specs{
			"p": {
				Any:  []policy.Ref{{}, {Name: "q", Spec: &spec{Roles: user}}, {Name: "missing"}, inline(spec{})},
				All:  []policy.Ref{inline(spec{Any: []policy.Ref{inline(spec{Networks: []string{"x"}})}})},
				None: names("Q"),
			},
			"q": {Roles: user},
		}, []string{
			"policies.p.any[0]: expected the name of a policy", "policies.p.any[1]: expected the name of a policy",
			`policies.p.any[2]: there is no policy "missing"; expected one of p, q`, "policies.p.any[3]: has no rules",
			"policies.p.all[0].any[0].networks[0]: neither an address nor a CIDR", `policies.p.none[0]: there is no policy "Q"`,
		}},
		{"cycle of one", specs{"a": {Any: names("a")}}, []string{"policies.a.any[0]: a -> a"}},
		{"cycle of three", specs{
			"a": {Any: names("b")}, "b": {All: []policy.Ref{inline(spec{None: names("c")})}},
			"c": {Roles: user, None: names("d", "a")}, "d": {Roles: user},
		}, []string{"policies.c.none[1]: a -> b -> c -> a"}},
		{"two ways to one policy", specs{
			"a": {Any: names("b", "c")}, "b": {All: names("d")}, "c": {All: names("d")}, "d": {Roles: user},
		}, nil},
	} {
		_, err := policy.Compile(c.specs)
		if diff := diffErrors(err, c.want...); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestSetPolicyErrors(t *testing.T) {
	t.Parallel()
	set, err := policy.Compile(specs{"admin": {Roles: []string{"admin"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  *policy.Set
		refs []policy.Ref
		want []string
	}{
		{set, names("admin"), nil},
		{set, append(names("admin"), inline(spec{Methods: []string{"GET"}})), nil},
		{set, nil, nil},
		{set, []policy.Ref{}, []string{"routes[3].policy: list is empty"}},
		{set, names("admn"), []string{`routes[3].policy: no policy "admn"; expected one of admin`}},
		{set, names("x", "admin", "y"), []string{`routes[3].policy[0]: no policy "x"`, `routes[3].policy[2]: no policy "y"`}},
		{set, []policy.Ref{inline(spec{Any: names("admin", "z")})}, []string{`routes[3].policy.any[1]: no policy "z"`}},
		{set, append(names("admin"), inline(spec{Roles: []string{""}})), []string{"routes[3].policy[1].roles[0]: is empty"}},
		{set, []policy.Ref{{}}, []string{"routes[3].policy: expected the name of a policy"}},
		{new(policy.Set), names("admin"), []string{"routes[3].policy: none is defined"}},
	} {
		p, err := c.set.Policy("routes[3].policy", c.refs)
		if diff := diffErrors(err, c.want...); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.refs, diff)
		}
		if wantNil := c.want != nil || c.refs == nil; (p == nil) != wantNil {
			t.Errorf("%v: policy %v, want nil: %t", c.refs, p, wantNil)
		}
	}
}

// A set with an error still has policies for the routes, but they allow nothing:
// neither the valid ones, nor those with none of an invalid one.
func TestBrokenSetRefuses(t *testing.T) {
	t.Parallel()
	set, err := policy.Compile(specs{"good": {Roles: []string{"user"}}, "broken": {Networks: []string{"nowhere"}}})
	if err == nil {
		t.Fatal("no error")
	}
	id := &policy.Identity{Roles: []string{"user"}, Mechanism: policy.Session}
	for _, refs := range [][]policy.Ref{
		names("good"), names("broken"), names("good", "broken"), {inline(spec{None: names("broken")})},
	} {
		p, err := set.Policy("routes[0].policy", refs)
		route := policy.Route{Mechanisms: session, Policy: p}
		if d := route.Decide(id, request(t, "GET", "example.org", "/")); err != nil || d.Outcome != policy.Forbid {
			t.Errorf("%v: %v, %v, want forbid", refs, d, err)
		}
	}
	_, err = set.Policy("routes[0].policy", names("other"))
	if diff := diffErrors(err, `routes[0].policy: there is no policy "other"; expected one of broken, good`); diff != "" {
		t.Error(diff)
	}
}
