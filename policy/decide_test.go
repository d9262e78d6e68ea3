package policy_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authgate/policy"
)

func TestDecideByMechanism(t *testing.T) {
	t.Parallel()
	if zero := policy.Outcome(0); zero != policy.Forbid || policy.Outcome(7).String() != "forbid" {
		t.Errorf("the zero Outcome is %v, and an unknown one %v", zero, policy.Outcome(7))
	}
	bySession := &policy.Identity{Username: "alice", Mechanism: policy.Session}
	route := func(name string, ms ...policy.Mechanism) policy.Route {
		return policy.Route{Name: name, Mechanisms: ms}
	}
	for _, c := range []struct {
		route policy.Route
		id    *policy.Identity
		want  policy.Outcome
		why   string // the rule and the reason
	}{
		{policy.Route{}, nil, policy.Forbid, "auth: accepts no mechanism"},
		{policy.Route{}, bySession, policy.Forbid, "auth: accepts no mechanism"},
		{route("home", policy.None), nil, policy.Allow, "public: open to all"},
		{policy.Route{Pattern: "/", Mechanisms: []policy.Mechanism{policy.None}},
			bySession, policy.Allow, "public: open to all"},
		{route("r", policy.Session, policy.Bearer), nil, policy.Challenge,
			"auth: no identity is proved; accepts session, bearer"},
		{route("r", policy.Session, policy.Bearer), bySession, policy.Allow,
			"auth: open to every identity proved by session, bearer"},
		{route("r", policy.Basic), bySession, policy.Forbid, "auth: the mechanism is not accepted; accepts basic"},
		{policy.Route{Mechanisms: session, Policy: &policy.Policy{}}, bySession, policy.Forbid,
			"policy: has no rules, so it allows nothing"},
		{route("r", policy.None, policy.None), nil, policy.Challenge, "auth: no identity is proved; accepts none, none"},
		{route("r", ""), &policy.Identity{}, policy.Forbid, "auth: the mechanism is not accepted; accepts "},
		{route("r", policy.None, policy.Basic), &policy.Identity{Mechanism: policy.None}, policy.Forbid,
			"auth: the mechanism is not accepted; accepts none, basic"},
	} {
		rule, _, _ := strings.Cut(c.why, ": ")
		want := policy.Decision{Outcome: c.want, Rule: rule, Reason: "route " + c.route.Name + c.route.Pattern + ": " + c.why}
		if got := c.route.Decide(c.id, request(t, "GET", "example.org", "/")); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
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
	claims := func(path string, values ...string) spec { return spec{Claims: map[string][]string{path: values}} }
	roleA, roleB := inline(spec{Roles: []string{"a"}}), inline(spec{Roles: []string{"b"}})
	for _, c := range []struct {
		name          string
		spec          spec
		allow, forbid ids
	}{
		{"roles", spec{Roles: []string{"staff", "admin"}},
			ids{roles("admin"), roles("user", "staff")},
			ids{{}, roles(), roles(""), roles("Admin"), roles("admin "), roles("adm", "in"), roles("staff,admin")}},
		{"all roles", spec{AllRoles: []string{"staff", "admin"}},
			ids{roles("admin", "staff"), roles("staff", "user", "admin")},
			ids{{}, roles("admin"), roles("staff"), roles("", "admin")}},
		{"a local user", spec{Users: []string{"alice"}},
			ids{user("local", "alice")},
			ids{{}, user("local", "Alice"), user("basic", "alice"),
				user("google", "alice"), user("", "alice"), user("local", "")}},
		{"users of providers", spec{Users: []string{"local:carol", "basic:service", "google:bob", "google:a:b"}},
			ids{user("local", "carol"), user("basic", "service"), user("google", "bob"), user("google", "a:b")},
			ids{user("local", "local:carol"), user("basic", "carol"), user("local", "service"),
				user("local", "basic:service"), user("google", "service"),
				user("local", "bob"), user("local", "google:bob"), user("google:a", "b"), user("keycloak", "bob")}},
		{"OAuth clients", spec{Users: []string{"client:backup"}}, ids{user("client", "client:backup")},
			ids{user("client", "backup"), user("local", "client:backup"), user("client", "client:x")}},
		{"users in another normalization", spec{Users: []string{"Jose\u0301", "basic:\u212bke", "google:Zoe\u0308"}},
			ids{user("local", "Jos\u00e9"), user("local", "Jose\u0301"),
				user("basic", "\u00c5ke"), user("basic", "A\u030ake"), user("google", "Zo\u00eb")},
			ids{user("local", "Jose"), user("local", "jos\u00e9"),
				user("google", "Jos\u00e9"), user("local", "\uff2aos\u00e9")}},
		{"email domains", spec{EmailDomains: []string{"example.org", "Kelvin.example", "az.example", "BY.example"}},
			ids{email("a@example.org"), email("a@EXAMPLE.Org"), email("a@kelvin.EXAMPLE"),
				email("a@AZ.example"), email("a@by.example")},
			ids{{}, email("example.org"), email("@example.org"), email("a@b@example.org"), email("a@example.org@b"),
				email("a@example.org@"), email("a@sub.example.org"), email("a@example.org."), email("a@example.org "),
				email("a@notexample.org"), email("a@\u212aelvin.example")}},
		{"actors", spec{Actors: []string{"client:agent", "client:bot"}},
			ids{{Actor: "client:agent"}, {Actor: "client:bot", EarlierActors: []string{"client:x"}}},
			ids{{}, {Username: "client:agent", Subject: "client:agent", Provider: "client"}, {Actor: "client:Agent"},
				{Actor: "client:x", EarlierActors: []string{"client:agent"}}}},
		{"scopes", spec{Scopes: []string{"read", "write"}},
			ids{scopes("read"), scopes("x", "write")},
			ids{{}, scopes("read write"), scopes("READ"), scopes("")}},
		{"mechanisms", spec{Mechanisms: []string{"basic", "session"}}, ids{{}}, nil},
		{"other mechanisms", spec{Mechanisms: []string{"basic", "oidc"}}, nil, ids{{}}},
		{"providers", spec{Providers: []string{"local", "google"}},
			ids{user("local", "a"), user("google", "a")},
			ids{{}, user("basic", "a"), user("Google", "a")}},
		{"a claim", claims("dept", "eng", "ops"),
			ids{claim(`{"dept":"eng"}`), claim(`{"dept":["x","ops"]}`)},
			ids{{}, claim(`{"dept":"Eng"}`), claim(`{"dept":["eng "]}`), claim(`{"dept":[["eng"]]}`),
				claim(`{"dept":{"eng":true}}`), claim(`{"dept":null}`), claim(`{"dept":[]}`), claim(`{"x":{"dept":"eng"}}`)}},
		{"a claim of other types", claims("v", "true", "42", "0.5", "-7",
			"9007199254740991", "9007199254740992", "-9007199254740991", "-9007199254740992"),
			ids{claim(`{"v":true}`), claim(`{"v":"true"}`), claim(`{"v":42}`), claim(`{"v":42.0}`), claim(`{"v":0.5}`),
				claim(`{"v":[1,-7]}`), claim(`{"v":9007199254740991}`), claim(`{"v":-9007199254740991}`),
				{Claims: map[string]any{"v": json.Number("42")}}, {Claims: map[string]any{"v": json.Number("4.20e1")}},
				{Claims: map[string]any{"v": []string{"42"}}}},
			ids{claim(`{"v":false}`), claim(`{"v":1}`), claim(`{"v":420}`), claim(`{"v":null}`),
				claim(`{"v":9007199254740992}`), claim(`{"v":-9007199254740992}`), claim(`{"v":9007199254740993}`),
				{Claims: map[string]any{"v": []string{"4", "2"}}}}},
		{"a claim by path", claims("realm_access.roles", "admin"),
			ids{claim(`{"realm_access":{"roles":["admin"]}}`), claim(`{"realm_access.roles":"admin"}`),
				claim(`{"realm_access.roles":null,"realm_access":{"roles":["admin"]}}`)},
			ids{claim(`{"realm_access":"admin"}`), claim(`{"realm_access":{"roles":["user"]}}`), claim(`{"roles":["admin"]}`),
				// The exact name decides, even where it denies.
				claim(`{"realm_access.roles":"user","realm_access":{"roles":["admin"]}}`)}},
		{"a claim by a path with dotted names", claims("resource_access.app.example.roles", "admin"),
			ids{claim(`{"resource_access":{"app.example":{"roles":["admin"]}}}`),
				claim(`{"resource_access":{"app.example.roles":"admin"}}`),
				claim(`{"resource_access":{"app":{"x":1},"app.example":{"roles":"admin"}}}`)},
			ids{claim(`{"resource_access":{"app":{"roles":["admin"]}}}`)}},
		{"all keys", spec{Roles: []string{"a"}, Users: []string{"alice"}},
			ids{{Roles: []string{"a"}, Provider: "local", Username: "alice"}}, ids{roles("a"), user("local", "alice"), {}}},
		{"any", spec{Any: []policy.Ref{roleA, inline(spec{Users: []string{"alice"}})}},
			ids{roles("a"), user("local", "alice")}, ids{roles("b"), {}}},
		{"all", spec{All: []policy.Ref{roleA, roleB}}, ids{roles("a", "b")}, ids{roles("a"), roles("b"), {}}},
		{"none", spec{None: []policy.Ref{roleA, roleB}}, ids{{}, roles("c")}, ids{roles("a"), roles("b"), roles("a", "b")}},
		{"none of none", spec{None: []policy.Ref{inline(spec{None: []policy.Ref{roleA}})}},
			ids{roles("a")}, ids{{}, roles("b")}},
	} {
		route := policyRoute(t, nil, inline(c.spec))
		for want, all := range map[policy.Outcome]ids{policy.Allow: c.allow, policy.Forbid: c.forbid} {
			for _, id := range all {
				id.Mechanism = policy.Session
				if d := route.Decide(&id, request(t, "GET", "example.org", "/")); d.Outcome != want {
					t.Errorf("%s: %+v: %v by %q, want %v", c.name, id, d.Outcome, d.Rule, want)
				}
			}
		}
	}
}

// Networks and methods are those of the request. An address that is unknown or
// in another form than a network is in no network.
func TestRequestRules(t *testing.T) {
	t.Parallel()
	networks := policyRoute(t, nil, inline(spec{Networks: []string{
		"192.0.2.0/24", "198.51.100.7", "::ffff:203.0.113.0/120", "::ffff:10.0.0.1", "2001:db8::/32", "fe80::1",
	}}))
	everywhere := policyRoute(t, nil, inline(spec{Networks: []string{"0.0.0.0/0", "::/0"}}))
	methods := policyRoute(t, nil, inline(spec{Methods: []string{"GET", "PROPFIND"}}))
	for _, c := range []struct {
		route    *policy.Route
		want     policy.Outcome
		requests []string // a method or an address; - for none
	}{
		{networks, policy.Allow, []string{"192.0.2.0", "192.0.2.255", "198.51.100.7", "203.0.113.0", "203.0.113.255",
			"10.0.0.1", "::ffff:192.0.2.9", "2001:db8::1", "fe80::1%eth0"}},
		{networks, policy.Forbid, []string{"192.0.3.0", "198.51.100.8", "203.0.112.255", "203.0.114.0",
			"::192.0.2.9", "2001:db9::1", "-"}},
		{everywhere, policy.Forbid, []string{"-"}},
		{methods, policy.Allow, []string{"GET", "PROPFIND"}},
		{methods, policy.Forbid, []string{"HEAD", "get", ""}},
	} {
		for _, r := range c.requests {
			req := &policy.Request{Method: r}
			if addr, err := netip.ParseAddr(r); err == nil {
				req = &policy.Request{Method: "GET", Client: addr}
			}
			if d := c.route.Decide(&policy.Identity{Mechanism: policy.Session}, req); d.Outcome != c.want {
				t.Errorf("%q: %v by %s, want %v", r, d.Outcome, d.Rule, c.want)
			}
		}
	}
}

// A decision names the rule that decided, on a route of a table and on any other.
func TestDecideNamesTheRule(t *testing.T) {
	t.Parallel()
	named := specs{
		"admin":  {Roles: []string{"admin", "root"}},
		"office": {Networks: []string{"192.0.2.0/24"}, Methods: []string{"GET"}},
		"one":    {Any: []policy.Ref{inline(spec{Networks: []string{"10.0.0.0/8"}})}},
		"some":   {Any: []policy.Ref{{Name: "admin"}, inline(spec{Scopes: []string{"write"}, All: names("office")})}},
		"every":  {All: []policy.Ref{{Name: "office"}, inline(spec{AllRoles: []string{"x", "y"}}), {Name: "admin"}}},
		"not":    {None: []policy.Ref{{Name: "admin"}, inline(spec{Roles: []string{"guest"}})}},
		"claims": {Claims: map[string][]string{"org.dept": {"eng"}}},
		"deep0":  {Roles: []string{"admin"}},
	}
	for i := range 64 { // a policy that many references reach is described once
		below := "deep" + strconv.Itoa(i)
		named["deep"+strconv.Itoa(i+1)] = &spec{All: names(below, below)}
	}
	inPlace := inline(spec{Roles: []string{"x"}})
	for _, c := range []struct {
		refs                []policy.Ref
		roles, rule, reason string
	}{
		{names("admin"), "root", "policy admin", "met"},
		{names("admin", "office"), "user", "policy admin: roles", "needs one of admin, root"},
		{names("one"), "", "policy one: any[0].networks", "needs a client in one of 10.0.0.0/8"},
		{names("some"), "", "policy some: any",
			"needs at least one of policy admin, (scopes needs one of write and all[0] needs policy office)"},
		{names("every"), "admin,x", "policy every: all[1].all_roles", "needs all of x, y"},
		{names("every"), "x,y", "policy admin: roles", "needs one of admin, root"},
		{names("not"), "admin", "policy not: none[0]", "must not be met: policy admin"},
		{names("not"), "guest", "policy not: none[1]", "must not be met: (roles needs one of guest)"},
		{names("claims"), "", "policy claims: claims.org.dept", "needs one of eng"},
		{names("deep64"), "", "policy deep0: roles", "needs one of admin"},
		{[]policy.Ref{inPlace}, "", "policy: roles", "needs one of x"},
		{[]policy.Ref{inPlace}, "x", "policy", "met"},
		{append(names("admin"), inPlace), "admin", "policy[1]: roles", "needs one of x"},
		{append(names("admin", "office"), inPlace), "admin,x", "policy admin, policy office, policy[2]", "met"},
	} {
		route := policyRoute(t, named, c.refs...)
		want := policy.Decision{Outcome: policy.Forbid, Rule: c.rule, Reason: "route r: " + c.rule + ": " + c.reason}
		if c.reason == "met" {
			want.Outcome = policy.Allow
		}
		for _, r := range []*policy.Route{route, {Name: "r", Mechanisms: route.Mechanisms, Policy: route.Policy}} {
			id := &policy.Identity{Mechanism: policy.Session, Roles: strings.Split(c.roles, ",")}
			if got := r.Decide(id, request(t, "GET", "example.org", "/")); got != want {
				t.Errorf("%v with %q:\ngot  %+v\nwant %+v", c.refs, c.roles, got, want)
			}
			wantConditions(t, r, id, request(t, "GET", "example.org", "/"))
		}
	}
}

// byOwner ends a reason that holds for the owner of a credential with fewer roles.
const byOwner = ", judged by all roles of the owner of the token"

// A credential with fewer roles opens nothing that its owner cannot open: the policy
// must hold with both.
func TestDerivedCredentials(t *testing.T) {
	t.Parallel()
	noUser := spec{None: []policy.Ref{inline(spec{Roles: []string{"user"}})}}
	named := specs{
		"admin":     {Roles: []string{"admin"}},
		"employees": {Roles: []string{"user"}, None: []policy.Ref{inline(spec{Roles: []string{"contractor"}})}},
		"plain":     {None: names("admin")},
		"odd":       {Any: []policy.Ref{{Name: "admin"}, inline(noUser)}},
		"not twice": {None: []policy.Ref{inline(spec{None: names("admin")})}},
	}
	const contractor = "policy employees: none[0]: must not be met: (roles needs one of contractor)"
	owner := func(roles ...string) *policy.Identity {
		return &policy.Identity{Mechanism: policy.Bearer, Roles: roles}
	}
	for _, c := range []struct {
		policy string
		id     *policy.Identity
		why    string // the reason to forbid; empty: allow
	}{
		{"admin", owner("user", "admin").Reduced([]string{"admin"}), ""},
		{"admin", owner("user", "admin").Reduced([]string{"user"}), "policy admin: roles: needs one of admin"},
		{"employees", owner("user", "admin").Reduced([]string{"user"}), ""},
		{"employees", owner("user", "contractor").Reduced([]string{"user"}), contractor + byOwner},
		{"employees", owner("user", "contractor").Reduced([]string{"user", "contractor"}), contractor},
		{"employees", owner("user", "contractor").Reduced(nil), "policy employees: roles: needs one of user"},
		{"plain", owner("admin").Reduced(nil), "policy plain: none[0]: must not be met: policy admin" + byOwner},
		{"plain", owner("user").Reduced(nil), ""},
		{"odd", owner("user", "admin").Reduced(nil), ""},
		{
			"odd", owner("user").Reduced(nil), "policy odd: any: needs at least one of policy admin, " +
				"(none[0] must not be met: (roles needs one of user))" + byOwner,
		},
		{
			"not twice", owner("admin").Reduced(nil),
			"policy not twice: none[0]: must not be met: (none[0] must not be met: policy admin)",
		},
	} {
		table := policyRoute(t, named, names(c.policy)...)
		for _, r := range []*policy.Route{table, {Name: "r", Mechanisms: table.Mechanisms, Policy: table.Policy}} {
			req := request(t, "GET", "example.org", "/")
			got := r.Decide(c.id, req)
			if allowed := got.Outcome == policy.Allow; allowed != (c.why == "") || !allowed && got.Reason != "route r: "+c.why {
				t.Errorf("%s with %v of %v: got %+v, want %q", c.policy, c.id.Roles, c.id.Owner, got, c.why)
			}
			wantConditions(t, r, c.id, req)
		}
	}
}

// An identity that loses no role is not a reduced one. Roles that its owner does not
// have are not added.
func TestReduced(t *testing.T) {
	t.Parallel()
	id := &policy.Identity{Username: "alice", Roles: []string{"a", "b"}}
	for _, roles := range [][]string{{"a", "b"}, {"b", "c", "a", "a"}} {
		if got := id.Reduced(roles); got != id {
			t.Errorf("%q: got %+v, want the identity itself", roles, got)
		}
	}
	got := id.Reduced([]string{"c", "b"})
	if !slices.Equal(got.Roles, []string{"b"}) || got.Owner != id || got.Username != "alice" || len(id.Roles) != 2 {
		t.Errorf("got %+v of %+v", got, id)
	}
	if again := got.Reduced(nil); len(again.Roles) != 0 || again.Roles == nil || again.Owner != id {
		t.Errorf("reduced again: %+v", again)
	}
}

// The conditions of a credential with fewer roles tell those apart that do not hold
// with all roles of its owner.
func TestConditionsOfDerivedCredentials(t *testing.T) {
	t.Parallel()
	route := policyRoute(t, specs{
		"employees": {Roles: []string{"user"}, None: []policy.Ref{inline(spec{Roles: []string{"contractor"}})}},
	}, names("employees")...)
	id := (&policy.Identity{Mechanism: policy.Bearer, Roles: []string{"user", "contractor"}}).Reduced([]string{"user"})
	want := []policy.Condition{
		{Rule: "auth", Needs: "needs authentication by one of basic, session, bearer, oidc, certificate", Holds: true},
		{Rule: "policy employees: roles", Needs: "needs one of user", Holds: true},
		{Rule: "policy employees: none[0]", Needs: "must not be met: (roles needs one of contractor)", Holds: true},
		{Rule: "policy employees: none[0].roles", Needs: "needs one of contractor", Depth: 1},
		{Rule: "policy employees: none[0]", Needs: "must not be met: (roles needs one of contractor)" + byOwner},
		{Rule: "policy employees: none[0].roles", Needs: "needs one of contractor" + byOwner, Holds: true, Depth: 1},
	}
	if got := route.Conditions(id, request(t, "GET", "example.org", "/")); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// The conditions of a route are all evaluated, whatever the first is.
func TestConditions(t *testing.T) {
	t.Parallel()
	route := policyRoute(t, specs{
		"admin": {Roles: []string{"admin"}},
		"staff": {Any: []policy.Ref{{Name: "admin"}, inline(spec{Methods: []string{"GET"}})},
			None: names("admin"), All: names("admin")},
	}, names("staff")...)
	want := []policy.Condition{
		{Rule: "auth", Needs: "needs authentication by one of basic, session, bearer, oidc, certificate"},
		{Rule: "policy staff: any", Needs: "needs at least one of policy admin, (methods needs one of GET)", Holds: true},
		{Rule: "policy admin: roles", Needs: "needs one of admin", Depth: 1},
		{Rule: "policy staff: any[1].methods", Needs: "needs one of GET", Holds: true, Depth: 1},
		{Rule: "policy admin: roles", Needs: "needs one of admin"},
		{Rule: "policy staff: none[0]", Needs: "must not be met: policy admin", Holds: true},
	}
	if got := route.Conditions(nil, request(t, "GET", "example.org", "/")); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A compiled policy does not share memory with its Spec, nor a table with the
// routes of NewTable.
func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	s := spec{Roles: []string{"admin"}, Claims: map[string][]string{"a": {"b"}}}
	route := policyRoute(t, nil, policy.Ref{Spec: &s})
	s.Roles[0], s.Claims["a"][0] = "user", "c"
	id := &policy.Identity{Mechanism: policy.Session, Roles: []string{"admin"}, Claims: map[string]any{"a": "b"}}
	if d := route.Decide(id, request(t, "GET", "example.org", "/")); d.Outcome != policy.Allow {
		t.Errorf("got %+v, want allow", d)
	}
	mine := []policy.Route{{Name: "r", Pattern: "/", Mechanisms: []policy.Mechanism{policy.Session}}}
	table := newTable(t, mine...)
	mine[0].Name, mine[0].Mechanisms[0] = "other", policy.None
	if r := table.Routes()[0]; r.Name != "r" || r.Public() {
		t.Errorf("got %+v", r)
	}
}

// plainWork is what each request needs: to be read, and a decision of each kind.
func plainWork(tb testing.TB) map[string]func() {
	tb.Helper()
	route := policyRoute(tb, specs{
		"admin":  {Roles: []string{"admin"}},
		"office": {Networks: []string{"192.0.2.0/24", "2001:db8::/32"}},
		"leads":  {Claims: map[string][]string{"org.level": {"3", "4"}}},
		"staff": {Any: names("admin", "leads"), All: names("office"),
			None: []policy.Ref{inline(spec{EmailDomains: []string{"example.net"}})}},
	}, names("staff")...)
	req := request(tb, "GET", "example.org", "/a")
	decide := func(id *policy.Identity, want policy.Outcome) func() {
		return func() {
			if got := route.Decide(id, req); got.Outcome != want {
				tb.Errorf("%+v: %+v, want %v", id, got, want)
			}
		}
	}
	return map[string]func(){
		"a request":     func() { parse(tb, "/api/v1/accounts?page=2") },
		"a host":        func() { _, _ = policy.CanonicalHost("example.org:8443") },
		"allow by role": decide(&policy.Identity{Roles: []string{"user", "admin"}, Mechanism: policy.Session}, policy.Allow),
		"allow by claim": decide(&policy.Identity{Claims: map[string]any{"org": map[string]any{"level": 3.0}},
			Mechanism: policy.Session}, policy.Allow),
		"forbid by policy":    decide(&policy.Identity{Roles: []string{"user"}, Mechanism: policy.Bearer}, policy.Forbid),
		"forbid by mechanism": decide(&policy.Identity{Mechanism: policy.None}, policy.Forbid),
		"challenge":           decide(nil, policy.Challenge),
		"allow fewer roles": decide((&policy.Identity{Roles: []string{"user", "admin"}, Mechanism: policy.Bearer}).
			Reduced([]string{"admin"}), policy.Allow),
	}
}

func TestPlainWorkDoesNotAllocate(t *testing.T) {
	for name, f := range plainWork(t) {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

func BenchmarkPolicy(b *testing.B) {
	work, table, req := plainWork(b), newTable(b, routes("/app/", "/app/{x}/{y}", "/")...),
		request(b, "GET", "example.org", "/app/items/42")
	work["match"] = func() { table.Match(req) }
	for name, f := range work {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
