package policy_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"authgate/policy"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	var zero policy.Outcome
	for outcome, want := range map[policy.Outcome]string{
		zero: "forbid", policy.Challenge: "challenge", policy.Allow: "allow", policy.Outcome(7): "forbid",
	} {
		if got := outcome.String(); got != want {
			t.Errorf("Outcome(%d).String() = %q, want %q", int(outcome), got, want)
		}
	}
}

func TestDecideByMechanism(t *testing.T) {
	t.Parallel()
	bySession := &policy.Identity{Username: "alice", Mechanism: policy.Session}
	list := func(m ...policy.Mechanism) []policy.Mechanism { return m }
	tests := []struct {
		name  string
		route policy.Route
		id    *policy.Identity
		want  policy.Decision
	}{
		{"zero route, no identity", policy.Route{}, nil,
			policy.Decision{Outcome: policy.Forbid, Rule: "auth", Reason: "route : auth: accepts no mechanism"}},
		{"zero route, an identity", policy.Route{}, bySession,
			policy.Decision{Outcome: policy.Forbid, Rule: "auth", Reason: "route : auth: accepts no mechanism"}},
		{"public, no identity", policy.Route{Name: "home", Mechanisms: list(policy.None)}, nil,
			policy.Decision{Outcome: policy.Allow, Rule: "public", Reason: "route home: public: open to all"}},
		{"public, an identity", policy.Route{Pattern: "/", Mechanisms: list(policy.None)}, bySession,
			policy.Decision{Outcome: policy.Allow, Rule: "public", Reason: "route /: public: open to all"}},
		{"no identity", policy.Route{Name: "r", Mechanisms: list(policy.Session, policy.Bearer)}, nil,
			policy.Decision{Outcome: policy.Challenge, Rule: "auth", Reason: "route r: auth: no identity is proved; accepts session, bearer"}},
		{"accepted", policy.Route{Name: "r", Mechanisms: list(policy.Session, policy.Bearer)}, bySession,
			policy.Decision{Outcome: policy.Allow, Rule: "auth", Reason: "route r: auth: open to every identity proved by session, bearer"}},
		{"not accepted", policy.Route{Name: "r", Mechanisms: list(policy.Basic)}, bySession,
			policy.Decision{Outcome: policy.Forbid, Rule: "auth", Reason: "route r: auth: the mechanism is not accepted; accepts basic"}},
		{"zero policy", policy.Route{Name: "r", Mechanisms: list(policy.Session), Policy: &policy.Policy{}}, bySession,
			policy.Decision{Outcome: policy.Forbid, Rule: "policy", Reason: "route r: policy: has no rules, so it allows nothing"}},
		{"an identity without mechanism", policy.Route{Name: "r", Mechanisms: list("")}, &policy.Identity{},
			policy.Decision{Outcome: policy.Forbid, Rule: "auth", Reason: "route r: auth: the mechanism is not accepted; accepts "}},
		{"none proves nothing", policy.Route{Name: "r", Mechanisms: list(policy.None, policy.Basic)}, &policy.Identity{Mechanism: policy.None},
			policy.Decision{Outcome: policy.Forbid, Rule: "auth", Reason: "route r: auth: the mechanism is not accepted; accepts none, basic"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.route.Decide(tt.id, request(t, "GET", "example.org", "/")); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestRoutePublicAndAccepts(t *testing.T) {
	t.Parallel()
	all := []policy.Mechanism{policy.None, policy.Basic, policy.Session, policy.Bearer, policy.OIDC, ""}
	for _, m := range all {
		r := policy.Route{Mechanisms: []policy.Mechanism{m}}
		if r.Public() != (m == policy.None) {
			t.Errorf("a route for %q is public: %t", m, r.Public())
		}
		for _, other := range all {
			if got := r.Accepts(other); got != (m == other && m != policy.None && m != "") {
				t.Errorf("a route for %q accepts %q: %t", m, other, got)
			}
		}
	}
	if r := (policy.Route{Mechanisms: []policy.Mechanism{policy.None, policy.None}}); r.Public() {
		t.Error("a route with none twice is public")
	}
}

// Each rule with identities that satisfy it and identities that almost do.
func TestRules(t *testing.T) {
	t.Parallel()
	type ids []policy.Identity
	roles := func(roles ...string) policy.Identity { return policy.Identity{Roles: roles} }
	user := func(provider, name string) policy.Identity {
		return policy.Identity{Provider: provider, Username: name}
	}
	email := func(email string) policy.Identity { return policy.Identity{Email: email} }
	scopes := func(scopes ...string) policy.Identity { return policy.Identity{Scopes: scopes} }
	claim := func(text string) policy.Identity {
		var claims map[string]any
		if err := json.Unmarshal([]byte(text), &claims); err != nil {
			t.Fatal(err)
		}
		return policy.Identity{Claims: claims}
	}
	claims := func(path string, values ...string) policy.Spec {
		return policy.Spec{Claims: map[string][]string{path: values}}
	}
	tests := []struct {
		name   string
		spec   policy.Spec
		allow  ids
		forbid ids
	}{
		{"roles", policy.Spec{Roles: []string{"staff", "admin"}},
			ids{roles("admin"), roles("user", "staff")},
			ids{{}, roles(), roles(""), roles("Admin"), roles("admin "), roles("adm", "in"), roles("staff,admin")}},
		{"all roles", policy.Spec{AllRoles: []string{"staff", "admin"}},
			ids{roles("admin", "staff"), roles("staff", "user", "admin")},
			ids{{}, roles("admin"), roles("staff"), roles("", "admin")}},
		{"a local user", policy.Spec{Users: []string{"alice"}},
			ids{user("local", "alice")},
			ids{{}, user("local", "Alice"), user("basic", "alice"), user("google", "alice"), user("", "alice"), user("local", "")}},
		{"a local user by the provider's name", policy.Spec{Users: []string{"local:alice"}},
			ids{user("local", "alice")},
			ids{user("local", "local:alice"), user("basic", "alice")}},
		{"a Basic user", policy.Spec{Users: []string{"basic:service"}},
			ids{user("basic", "service")},
			ids{user("local", "service"), user("local", "basic:service"), user("google", "service")}},
		{"a delegated user", policy.Spec{Users: []string{"google:bob", "google:a:b"}},
			ids{user("google", "bob"), user("google", "a:b")},
			ids{user("local", "bob"), user("local", "google:bob"), user("google:a", "b"), user("keycloak", "bob")}},
		{"email domains", policy.Spec{EmailDomains: []string{"example.org", "Kelvin.example", "az.example", "BY.example"}},
			ids{email("a@example.org"), email("a@EXAMPLE.Org"), email("a@kelvin.EXAMPLE"), email("a@AZ.example"), email("a@by.example")},
			ids{{}, email("example.org"), email("@example.org"), email("a@b@example.org"), email("a@example.org@b"), email("a@example.org@"),
				email("a@sub.example.org"), email("a@example.org."), email("a@example.org "), email("a@notexample.org"),
				email("a@\u212aelvin.example")}},
		{"scopes", policy.Spec{Scopes: []string{"read", "write"}},
			ids{scopes("read"), scopes("x", "write")},
			ids{{}, scopes("read write"), scopes("READ"), scopes("")}},
		{"mechanisms", policy.Spec{Mechanisms: []string{"basic", "session"}}, ids{{}}, nil},
		{"other mechanisms", policy.Spec{Mechanisms: []string{"basic", "oidc"}}, nil, ids{{}}},
		{"providers", policy.Spec{Providers: []string{"local", "google"}},
			ids{user("local", "a"), user("google", "a")},
			ids{{}, user("basic", "a"), user("Google", "a")}},
		{"a claim", claims("dept", "eng", "ops"),
			ids{claim(`{"dept":"eng"}`), claim(`{"dept":["x","ops"]}`)},
			ids{{}, claim(`{"dept":"Eng"}`), claim(`{"dept":["eng "]}`), claim(`{"dept":[["eng"]]}`), claim(`{"dept":{"eng":true}}`),
				claim(`{"dept":null}`), claim(`{"dept":[]}`), claim(`{"x":{"dept":"eng"}}`)}},
		{"a claim of other types", claims("v", "true", "42", "0.5", "-7", "9007199254740991", "9007199254740992", "-9007199254740991", "-9007199254740992"),
			ids{claim(`{"v":true}`), claim(`{"v":"true"}`), claim(`{"v":42}`), claim(`{"v":42.0}`), claim(`{"v":0.5}`), claim(`{"v":[1,-7]}`),
				claim(`{"v":9007199254740991}`), claim(`{"v":-9007199254740991}`),
				{Claims: map[string]any{"v": json.Number("42")}}, {Claims: map[string]any{"v": []string{"42"}}}},
			ids{claim(`{"v":false}`), claim(`{"v":1}`), claim(`{"v":420}`), claim(`{"v":null}`), claim(`{"v":9007199254740992}`), claim(`{"v":-9007199254740992}`),
				claim(`{"v":9007199254740993}`), {Claims: map[string]any{"v": []string{"4", "2"}}}}},
		{"a claim by path", claims("realm_access.roles", "admin"),
			ids{claim(`{"realm_access":{"roles":["admin"]}}`), claim(`{"realm_access.roles":"admin"}`),
				claim(`{"realm_access.roles":null,"realm_access":{"roles":["admin"]}}`)},
			ids{claim(`{"realm_access":"admin"}`), claim(`{"realm_access":{"roles":["user"]}}`), claim(`{"roles":["admin"]}`),
				// the exact name decides, even where it denies
				claim(`{"realm_access.roles":"user","realm_access":{"roles":["admin"]}}`)}},
		{"a claim by a path with dotted names", claims("resource_access.app.example.roles", "admin"),
			ids{claim(`{"resource_access":{"app.example":{"roles":["admin"]}}}`), claim(`{"resource_access":{"app.example.roles":"admin"}}`),
				claim(`{"resource_access":{"app":{"x":1},"app.example":{"roles":"admin"}}}`)},
			ids{claim(`{"resource_access":{"app":{"roles":["admin"]}}}`)}},
		{"all keys", policy.Spec{Roles: []string{"a"}, Users: []string{"alice"}},
			ids{{Roles: []string{"a"}, Provider: "local", Username: "alice"}},
			ids{roles("a"), user("local", "alice"), {}}},
		{"any", policy.Spec{Any: []policy.Ref{inline(policy.Spec{Roles: []string{"a"}}), inline(policy.Spec{Users: []string{"alice"}})}},
			ids{roles("a"), user("local", "alice")},
			ids{roles("b"), user("local", "bob"), {}}},
		{"all", policy.Spec{All: []policy.Ref{inline(policy.Spec{Roles: []string{"a"}}), inline(policy.Spec{Roles: []string{"b"}})}},
			ids{roles("a", "b")},
			ids{roles("a"), roles("b"), {}}},
		{"none", policy.Spec{None: []policy.Ref{inline(policy.Spec{Roles: []string{"a"}}), inline(policy.Spec{Roles: []string{"b"}})}},
			ids{{}, roles("c")},
			ids{roles("a"), roles("b"), roles("a", "b")}},
		{"none of none", policy.Spec{None: []policy.Ref{inline(policy.Spec{None: []policy.Ref{inline(policy.Spec{Roles: []string{"a"}})}})}},
			ids{roles("a")},
			ids{{}, roles("b")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			route := policyRoute(t, nil, inline(tt.spec))
			check := func(id policy.Identity, want policy.Outcome) {
				id.Mechanism = policy.Session
				if d := route.Decide(&id, request(t, "GET", "example.org", "/")); d.Outcome != want {
					t.Errorf("%+v: %v by %q, want %v", id, d.Outcome, d.Rule, want)
				}
			}
			for _, id := range tt.allow {
				check(id, policy.Allow)
			}
			for _, id := range tt.forbid {
				check(id, policy.Forbid)
			}
		})
	}
}

// policyRoute returns a route named r, for all mechanisms, with a policy.
func policyRoute(tb testing.TB, specs map[string]*policy.Spec, refs ...policy.Ref) *policy.Route {
	tb.Helper()
	p, err := compile(tb, specs).Policy("routes[0].policy", refs)
	if err != nil {
		tb.Fatal(err)
	}
	table := newTable(tb, policy.Route{Name: "r", Pattern: "/", Policy: p,
		Mechanisms: []policy.Mechanism{policy.Basic, policy.Session, policy.Bearer, policy.OIDC}})
	match, ok := table.Match(request(tb, "GET", "example.org", "/"))
	if !ok {
		tb.Fatal("no match")
	}
	return match.Route
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	route := policyRoute(t, nil, inline(policy.Spec{Networks: []string{
		"192.0.2.0/24", "198.51.100.7", "::ffff:203.0.113.0/120", "::ffff:10.0.0.1", "2001:db8::/32", "fe80::1",
	}}))
	tests := []struct {
		client netip.Addr
		want   policy.Outcome
	}{
		{netip.MustParseAddr("192.0.2.0"), policy.Allow},
		{netip.MustParseAddr("192.0.2.255"), policy.Allow},
		{netip.MustParseAddr("192.0.3.0"), policy.Forbid},
		{netip.MustParseAddr("198.51.100.7"), policy.Allow},
		{netip.MustParseAddr("198.51.100.8"), policy.Forbid},
		{netip.MustParseAddr("203.0.113.0"), policy.Allow},
		{netip.MustParseAddr("203.0.113.255"), policy.Allow},
		{netip.MustParseAddr("203.0.112.255"), policy.Forbid},
		{netip.MustParseAddr("203.0.114.0"), policy.Forbid},
		{netip.MustParseAddr("10.0.0.1"), policy.Allow},
		{netip.MustParseAddr("::ffff:192.0.2.9"), policy.Allow},
		{netip.MustParseAddr("::192.0.2.9"), policy.Forbid},
		{netip.MustParseAddr("2001:db8::1"), policy.Allow},
		{netip.MustParseAddr("2001:db9::1"), policy.Forbid},
		{netip.MustParseAddr("fe80::1%eth0"), policy.Allow},
		{netip.Addr{}, policy.Forbid},
	}
	for _, tt := range tests {
		req := request(t, "GET", "example.org", "/")
		req.Client = tt.client
		if d := route.Decide(&policy.Identity{Mechanism: policy.Session}, req); d.Outcome != tt.want {
			t.Errorf("%v: %v, want %v", tt.client, d.Outcome, tt.want)
		}
	}
	everywhere := policyRoute(t, nil, inline(policy.Spec{Networks: []string{"0.0.0.0/0", "::/0"}}))
	if d := everywhere.Decide(&policy.Identity{Mechanism: policy.Session}, &policy.Request{Method: "GET"}); d.Outcome != policy.Forbid {
		t.Errorf("a request without an address: %v, want forbid", d.Outcome)
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	route := policyRoute(t, nil, inline(policy.Spec{Methods: []string{"GET", "PROPFIND"}}))
	for method, want := range map[string]policy.Outcome{
		"GET": policy.Allow, "PROPFIND": policy.Allow, "HEAD": policy.Forbid, "get": policy.Forbid, "": policy.Forbid,
	} {
		req := request(t, method, "example.org", "/")
		if d := route.Decide(&policy.Identity{Mechanism: policy.Session}, req); d.Outcome != want {
			t.Errorf("%q: %v, want %v", method, d.Outcome, want)
		}
	}
}

// A decision names the rule that decided.
func TestDecideNamesTheRule(t *testing.T) {
	t.Parallel()
	specs := map[string]*policy.Spec{
		"admin":  {Roles: []string{"admin", "root"}},
		"office": {Networks: []string{"192.0.2.0/24"}, Methods: []string{"GET"}},
		"one":    {Any: []policy.Ref{inline(policy.Spec{Networks: []string{"10.0.0.0/8"}})}},
		"some":   {Any: []policy.Ref{{Name: "admin"}, inline(policy.Spec{Scopes: []string{"write"}, All: names("office")})}},
		"every":  {All: []policy.Ref{{Name: "office"}, inline(policy.Spec{AllRoles: []string{"x", "y"}}), {Name: "admin"}}},
		"not":    {None: []policy.Ref{{Name: "admin"}, inline(policy.Spec{Roles: []string{"guest"}})}},
		"claims": {Claims: map[string][]string{"org.dept": {"eng"}}},
	}
	tests := []struct {
		name   string
		refs   []policy.Ref
		roles  string
		rule   string
		reason string
	}{
		{"met", names("admin"), "root", "policy admin", "met"},
		{"a key", names("admin"), "user", "policy admin: roles", "needs one of admin, root"},
		{"the first key that fails", names("admin", "office"), "user", "policy admin: roles", "needs one of admin, root"},
		{"the only alternative", names("one"), "", "policy one: any[0].networks", "needs a client in one of 10.0.0.0/8"},
		{"several alternatives", names("some"), "", "policy some: any",
			"needs at least one of policy admin, (scopes needs one of write and all[0] needs policy office)"},
		{"in place under all", names("every"), "admin,x", "policy every: all[1].all_roles", "needs all of x, y"},
		{"by name under all", names("every"), "x,y", "policy admin: roles", "needs one of admin, root"},
		{"by name under none", names("not"), "admin", "policy not: none[0]", "must not be met: policy admin"},
		{"in place under none", names("not"), "guest", "policy not: none[1]", "must not be met: (roles needs one of guest)"},
		{"a claim", names("claims"), "", "policy claims: claims.org.dept", "needs one of eng"},
		{"in the route", []policy.Ref{inline(policy.Spec{Roles: []string{"x"}})}, "", "policy: roles", "needs one of x"},
		{"in the route, met", []policy.Ref{inline(policy.Spec{Roles: []string{"x"}})}, "x", "policy", "met"},
		{"in the route's list", append(names("admin"), inline(policy.Spec{Roles: []string{"x"}})), "admin", "policy[1]: roles", "needs one of x"},
		{"a list, met", append(names("admin", "office"), inline(policy.Spec{Roles: []string{"x"}})), "admin,x", "policy admin, policy office, policy[2]", "met"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			route := policyRoute(t, specs, tt.refs...)
			id := &policy.Identity{Mechanism: policy.Session, Roles: strings.Split(tt.roles, ",")}
			want := policy.Decision{Outcome: policy.Forbid, Rule: tt.rule, Reason: "route r: " + tt.rule + ": " + tt.reason}
			if tt.reason == "met" {
				want.Outcome = policy.Allow
			}
			req := request(t, "GET", "example.org", "/")
			if got := route.Decide(id, req); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			byHand := policy.Route{Name: "r", Mechanisms: route.Mechanisms, Policy: route.Policy}
			if got := byHand.Decide(id, req); got != want {
				t.Errorf("outside of a table: got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// A compiled policy does not share memory with its Spec.
func TestCompiledIsIndependent(t *testing.T) {
	t.Parallel()
	spec := policy.Spec{Roles: []string{"admin"}, Claims: map[string][]string{"a": {"b"}}}
	route := policyRoute(t, nil, policy.Ref{Spec: &spec})
	spec.Roles[0], spec.Claims["a"][0] = "user", "c"
	id := &policy.Identity{Mechanism: policy.Session, Roles: []string{"admin"}, Claims: map[string]any{"a": "b"}}
	if d := route.Decide(id, request(t, "GET", "example.org", "/")); d.Outcome != policy.Allow {
		t.Errorf("got %+v, want allow", d)
	}
}
