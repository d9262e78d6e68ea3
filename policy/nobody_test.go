package policy_test

import (
	"net/netip"
	"testing"

	"authgate/policy"
)

// admitting returns a route that admits requests without credentials, beside sessions of local
// accounts and others.
func admitting(tb testing.TB, named specs, refs ...policy.Ref) *policy.Route {
	tb.Helper()
	r := *policyRoute(tb, named, refs...)
	r.Mechanisms = append(r.Mechanisms, policy.None)
	return newTable(tb, r).Routes()[0]
}

// A policy holds for a request without credentials if it holds without an identity.
func TestNobody(t *testing.T) {
	t.Parallel()
	staff, office := inline(spec{Roles: []string{"staff"}}), inline(spec{Networks: []string{"192.0.2.0/24"}})
	reads, everywhere := inline(spec{Methods: []string{"GET"}}), inline(spec{Networks: []string{"0.0.0.0/0"}})
	all := func(refs ...policy.Ref) spec { return spec{All: refs} }
	either := func(refs ...policy.Ref) spec { return spec{Any: refs} }
	none := func(refs ...policy.Ref) spec { return spec{None: refs} }
	for _, c := range []struct {
		name         string
		spec         spec
		from, method string
		want         policy.Outcome
		rule         string
	}{
		{"inside", either(office, staff), "192.0.2.1", "GET", policy.Allow, "policy"},
		{"outside", either(office, staff), "10.0.0.1", "GET", policy.Challenge, "policy: any"},
		{"an alternative alone", either(office), "10.0.0.1", "GET", policy.Challenge, "policy: any[0].networks"},
		{"a method", either(reads, staff), "10.0.0.1", "GET", policy.Allow, "policy"},
		{"another method", either(reads, staff), "10.0.0.1", "POST", policy.Challenge, "policy: any"},
		{"a role", *staff.Spec, "192.0.2.1", "GET", policy.Challenge, "policy: roles"},
		{"all", all(office, reads), "192.0.2.1", "GET", policy.Allow, "policy"},
		{"all, with a role", all(staff, office), "192.0.2.1", "GET", policy.Challenge, "policy: all[0].roles"},
		{"what is unmet first", all(staff, office), "10.0.0.1", "GET", policy.Challenge, "policy: all[1].networks"},
		{"a negated role", none(staff), "192.0.2.1", "GET", policy.Challenge, "policy: none[0]"},
		{"a negated role twice", none(inline(none(staff))), "192.0.2.1", "GET", policy.Challenge, "policy: none[0]"},
		{"a negated network", none(office), "10.0.0.1", "GET", policy.Allow, "policy"},
		{"a negated network, inside", none(office), "192.0.2.1", "GET", policy.Challenge, "policy: none[0]"},
		{"negated alternatives", none(inline(either(office, staff))), "10.0.0.1", "GET", policy.Challenge,
			"policy: none[0]"},
		{"negated proof", none(inline(spec{Factors: 2})), "10.0.0.1", "GET", policy.Challenge, "policy: none[0]"},
		{"a negated mechanism", none(inline(spec{Mechanisms: []string{"basic"}})), "10.0.0.1", "GET", policy.Challenge,
			"policy: none[0]"},
		{"everyone", either(negated(staff), everywhere), "10.0.0.1", "GET", policy.Allow, "policy"},
	} {
		req := request(t, c.method, "example.org", "/")
		req.Client = netip.MustParseAddr(c.from)
		route := admitting(t, nil, inline(c.spec))
		d := route.Decide(nil, req)
		if d.Outcome != c.want || d.Rule != c.rule {
			t.Errorf("%s: %+v, want %v by %s", c.name, d, c.want, c.rule)
		}
		wantConditions(t, route, nil, req)
		if d := policyRoute(t, nil, inline(c.spec)).Decide(nil, req); d.Outcome != policy.Challenge {
			t.Errorf("%s, without none: %+v", c.name, d)
		}
	}
}

func negated(refs ...policy.Ref) policy.Ref { return inline(spec{None: refs}) }

// A route without a policy admits requests without credentials, and the reason says so.
func TestNobodyWithoutPolicy(t *testing.T) {
	t.Parallel()
	req := request(t, "GET", "example.org", "/")
	route := policy.Route{Name: "r", Mechanisms: []policy.Mechanism{policy.Session, policy.None}}
	want := policy.Decision{Outcome: policy.Allow, Rule: "auth",
		Reason: "route r: auth: open to requests without credentials"}
	if got := route.Decide(nil, req); got != want {
		t.Errorf("got %+v", got)
	}
	other := &policy.Identity{Mechanism: policy.Basic}
	if got := route.Decide(other, req); got.Outcome != policy.Forbid {
		t.Errorf("another mechanism: %+v", got)
	}
	wantConditions(t, &route, nil, req)
	for _, ms := range [][]policy.Mechanism{{policy.None}, {policy.None, policy.None}, {policy.None, policy.Session},
		nil} {
		if (&policy.Route{Mechanisms: ms}).AdmitsNobody() {
			t.Errorf("%q admits requests without credentials beside users", ms)
		}
	}
}

// NoSignIn tells where no sign-in in a browser would help.
func TestNoSignIn(t *testing.T) {
	t.Parallel()
	far := spec{Networks: []string{"192.0.2.0/24"}}
	both := []policy.Mechanism{policy.Session, policy.OIDC, policy.None}
	local := []policy.Mechanism{policy.Session, policy.Bearer, policy.None}
	for _, c := range []struct {
		spec spec
		auth []policy.Mechanism
		want bool
	}{
		{spec{Roles: []string{"staff"}}, both, false},
		{spec{Factors: 2}, both, false},
		{far, both, true},
		{spec{Any: []policy.Ref{inline(far), inline(spec{Roles: []string{"staff"}})}}, both, false},
		{spec{Any: []policy.Ref{inline(far), inline(spec{Scopes: []string{"read"}})}}, both, true},
		{spec{Roles: []string{"staff"}, All: []policy.Ref{inline(far)}}, both, true},
		{spec{Roles: []string{"staff"}}, []policy.Mechanism{policy.Bearer, policy.None}, true},
		{spec{Mechanisms: []string{"bearer"}}, local, true},
		{spec{Mechanisms: []string{"bearer", "session"}}, local, false},
		{spec{Mechanisms: []string{"oidc"}}, local, true},
		{spec{None: []policy.Ref{inline(spec{Mechanisms: []string{"session"}})}}, local, true},
		{spec{None: []policy.Ref{inline(spec{Mechanisms: []string{"session"}})}}, both, false},
		{spec{Providers: []string{"idp"}}, local, true},
		{spec{Providers: []string{"idp"}}, both, false},
		{spec{Providers: []string{"basic"}}, both, true},
		{spec{Users: []string{"alice", "idp:bob"}}, local, false},
		{spec{Users: []string{"idp:bob", "basic:service"}}, local, true},
	} {
		route := policyRoute(t, nil, inline(c.spec))
		route.Mechanisms = c.auth
		req := request(t, "GET", "example.org", "/")
		req.Client = netip.MustParseAddr("10.0.0.1")
		if d := route.Decide(nil, req); d.Outcome != policy.Challenge || d.NoSignIn != c.want {
			t.Errorf("%+v with %q: %+v, want NoSignIn: %t", c.spec, c.auth, d, c.want)
		}
	}
}

// A policy that looks at addresses anywhere is known, for caches.
func TestLooksAtClient(t *testing.T) {
	t.Parallel()
	office := inline(spec{Networks: []string{"192.0.2.0/24"}})
	named := specs{"office": office.Spec}
	role := inline(spec{Roles: []string{"a"}})
	for want, all := range map[bool][]policy.Ref{
		true: {
			office, {Name: "office"}, inline(spec{All: []policy.Ref{{Name: "office"}}}),
			inline(spec{None: []policy.Ref{office}}), inline(spec{Any: []policy.Ref{role, office}}),
		},
		false: {role, inline(spec{Methods: []string{"GET"}}), inline(spec{Any: []policy.Ref{role, role}})},
	} {
		for _, ref := range all {
			if got := admitting(t, named, ref).LooksAtClient(); got != want {
				t.Errorf("%+v: %t", ref, got)
			}
		}
	}
	if (&policy.Route{Mechanisms: session}).LooksAtClient() {
		t.Error("a route without a policy")
	}
}

// Every user may do what a request without credentials may. Signing out opens nothing. And where
// no sign-in helps, no user who signs in is let in.
func FuzzNobody(f *testing.F) {
	addThrows(f, 500, 60, [32]byte{3})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		id, req := d.identity(), d.request()
		var named []meaning
		all := specs{}
		for i, name := range []string{"0", "1"} {
			named = append(named, d.policy(2, named))
			all[name] = &named[i].spec
		}
		m := d.policy(3, named)
		route := admitting(t, all, inline(m.spec))
		nobody, user := route.Decide(nil, req), route.Decide(id, req)
		if nobody.Outcome == policy.Allow && user.Outcome != policy.Allow {
			t.Errorf("%+v: a request without credentials is allowed, but %+v is not: %+v", m.spec, id, user)
		}
		wantConditions(t, route, nil, req)
		switch id.Scopes = nil; id.Provider {
		case policy.LocalProvider:
			id.Mechanism = policy.Session
		case "idp":
			id.Mechanism = policy.OIDC
		default:
			return
		}
		if user := route.Decide(id, req); nobody.NoSignIn && user.Outcome == policy.Allow {
			t.Errorf("%+v: no sign-in helps, but %+v is let in", m.spec, id)
		}
	})
}
