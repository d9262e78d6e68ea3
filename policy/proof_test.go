package policy_test

import (
	"slices"
	"testing"
	"time"

	"authgate/policy"
)

// now is the time of the requests of these tests.
var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// proved returns an identity with roles whose login proved so much, so long ago.
func proved(factors int, age time.Duration, roles ...string) policy.Identity {
	id := policy.Identity{Mechanism: policy.Session, Roles: roles}
	id.AMR, id.AuthTime = []string{"pwd"}, now.Add(-age)
	if factors == 2 {
		id.AMR = append(id.AMR, "otp", policy.TwoFactors)
	}
	return id
}

// unknown returns an identity of which it is not known when the user proved who they are.
func unknown(roles ...string) policy.Identity {
	return policy.Identity{Mechanism: policy.Session, Roles: roles}
}

const week = 7 * 24 * time.Hour

// A policy that lacks nothing but proof leads to a step-up, which asks for all that the
// policy demands. What no sign-in can bring is refused before.
func TestStepUp(t *testing.T) {
	t.Parallel()
	two, fresh := inline(spec{Factors: 2}), inline(spec{MaxAge: 15 * time.Minute})
	admin := inline(spec{Roles: []string{"admin"}})
	vault := spec{Roles: []string{"admin"}, Factors: 2, MaxAge: 15 * time.Minute}
	whole := policy.Demand{Factors: 2, MaxAge: 15 * time.Minute}
	allow, forbid := policy.Decision{Outcome: policy.Allow}, policy.Decision{Outcome: policy.Forbid}
	stepUp := func(d policy.Demand) policy.Decision { return policy.Decision{Outcome: policy.StepUp, Demand: d} }
	for _, c := range []struct {
		name string
		spec spec
		id   policy.Identity
		want policy.Decision
		rule string // empty: that of the whole policy
	}{
		{"all is there", vault, proved(2, time.Minute, "admin"), allow, ""},
		{"to the last second", vault, proved(2, 15*time.Minute, "admin"), allow, ""},
		{"a second later", vault, proved(2, 15*time.Minute+time.Second, "admin"), stepUp(whole), "policy: max_age"},
		{"one factor", vault, proved(1, time.Minute, "admin"), stepUp(whole), "policy: factors"},
		{"no time", vault, unknown("admin"), stepUp(whole), "policy: factors"},
		{"a time ahead, as clocks are", vault, proved(2, -4*time.Second, "admin"), allow, ""},
		{"a time to come", vault, proved(2, -time.Minute, "admin"), stepUp(whole), "policy: max_age"},
		{"no role", vault, proved(1, week), forbid, "policy: roles"},
		{"no role, and all of the proof", vault, proved(2, 0), forbid, "policy: roles"},
		{"one factor is what everybody has", spec{Factors: 1}, unknown(), allow, ""},
		{"a word like mfa", spec{Factors: 2}, policy.Identity{Mechanism: policy.Session,
			Proof: policy.Proof{AMR: []string{"MFA", "mfa ", "pwd mfa", "otp", "hwk"}}},
			stepUp(policy.Demand{Factors: 2}), "policy: factors"},

		{"a role after the proof", spec{All: []policy.Ref{two, admin}}, proved(1, 0), forbid, "policy: all[1].roles"},
		{"the stricter of two", spec{MaxAge: time.Hour, All: []policy.Ref{fresh, two}}, proved(2, 30*time.Minute),
			stepUp(whole), "policy: all[0].max_age"},
		{"an alternative that is met", spec{Any: []policy.Ref{two, admin}}, proved(1, 0, "admin"), allow, ""},
		{"an alternative that proof would meet", spec{Any: []policy.Ref{two, admin}}, proved(1, 0),
			stepUp(policy.Demand{Factors: 2}), "policy: any"},
		{"an alternative without the role", spec{Any: []policy.Ref{inline(vault), inline(spec{Roles: []string{"root"}})}},
			proved(1, 0), forbid, "policy: any"},
		{"the alternative that asks for less", spec{Any: []policy.Ref{two, inline(spec{MaxAge: time.Minute}), fresh}},
			proved(1, time.Hour), stepUp(policy.Demand{MaxAge: 15 * time.Minute}), "policy: any"},
		{"and it comes first", spec{Any: []policy.Ref{fresh, inline(spec{MaxAge: time.Minute}), two}},
			proved(1, time.Hour), stepUp(policy.Demand{MaxAge: 15 * time.Minute}), "policy: any"},
		{"an alternative, and a role besides", spec{Roles: []string{"admin"}, Any: []policy.Ref{two, fresh}},
			proved(1, time.Hour), forbid, "policy: roles"},
		{"the only alternative", spec{Any: []policy.Ref{two}}, proved(1, 0),
			stepUp(policy.Demand{Factors: 2}), "policy: any[0].factors"},
		{"one factor is an alternative that is met", spec{Factors: 2, Any: []policy.Ref{inline(spec{Factors: 1}),
			inline(spec{MaxAge: time.Minute})}}, proved(1, 2*time.Hour), stepUp(policy.Demand{Factors: 2}), "policy: factors"},
		{"and so it is with others", spec{Factors: 2, Any: []policy.Ref{inline(spec{MaxAge: time.Minute}),
			inline(spec{Factors: 1, Any: []policy.Ref{admin, inline(spec{Factors: 1})}})}}, proved(1, 2*time.Hour),
			stepUp(policy.Demand{Factors: 2}), "policy: factors"},
		{"the factors that the login has come first", spec{MaxAge: time.Hour, Any: []policy.Ref{two,
			inline(spec{MaxAge: time.Minute})}}, proved(2, 2*time.Hour),
			stepUp(policy.Demand{Factors: 2, MaxAge: time.Hour}), "policy: max_age"},
		{"unless they are not needed", spec{MaxAge: time.Minute, Any: []policy.Ref{two, fresh}}, proved(2, 2*time.Hour),
			stepUp(policy.Demand{MaxAge: time.Minute}), "policy: max_age"},
		{"an alternative that is demanded besides", spec{Factors: 2, Any: []policy.Ref{fresh, two}}, proved(1, 2*time.Hour),
			stepUp(policy.Demand{Factors: 2}), "policy: factors"},
		{"alternatives of which one helps with both", spec{All: []policy.Ref{
			inline(spec{Any: []policy.Ref{two, fresh}}), inline(spec{Any: []policy.Ref{two, admin}})}},
			proved(1, 2*time.Hour), stepUp(policy.Demand{Factors: 2}), "policy: all[0].any"},

		{"none refuses who has the proof", spec{None: []policy.Ref{two}}, proved(2, 0), forbid, "policy: none[0]"},
		{"none lets others pass", spec{None: []policy.Ref{two}}, proved(1, 0), allow, ""},
		{"none of none is a way to step up", spec{None: []policy.Ref{inline(spec{None: []policy.Ref{two}})}},
			proved(1, 0), stepUp(policy.Demand{Factors: 2}), "policy: none[0]"},
		{"none refuses a sign-in for other proof", spec{Factors: 2, None: []policy.Ref{fresh}}, proved(1, time.Hour),
			forbid, "policy: factors"},
		{"none beside proof lets who can leave a factor out", spec{MaxAge: time.Minute, None: []policy.Ref{two}},
			proved(1, time.Hour), stepUp(policy.Demand{MaxAge: time.Minute}), "policy: max_age"},
		{"and is met by proof all the same", spec{None: []policy.Ref{inline(spec{None: []policy.Ref{two}})}},
			proved(2, 0), allow, ""},
		{"none beside proof", spec{Factors: 2, None: []policy.Ref{admin}}, proved(1, 0, "admin"), forbid, "policy: none[0]"},
	} {
		route := policyRoute(t, nil, inline(c.spec))
		req := request(t, "GET", "example.org", "/")
		req.Now = now
		got := route.Decide(&c.id, req)
		if c.rule == "" {
			c.rule = "policy"
		}
		if got.Outcome != c.want.Outcome || got.Demand != c.want.Demand || got.Rule != c.rule {
			t.Errorf("%s: got %v %+v by %q, want %v %+v by %q",
				c.name, got.Outcome, got.Demand, got.Rule, c.want.Outcome, c.want.Demand, c.rule)
		}
	}
}

// Without a clock nothing is recent.
func TestNoClock(t *testing.T) {
	t.Parallel()
	route := policyRoute(t, nil, inline(spec{MaxAge: time.Hour}))
	for _, at := range []time.Time{{}, now, time.Unix(0, 0)} {
		id := &policy.Identity{Mechanism: policy.Session, Proof: policy.Proof{AuthTime: at}}
		if d := route.Decide(id, request(t, "GET", "example.org", "/")); d.Outcome != policy.StepUp {
			t.Errorf("a sign-in at %v: %v", at, d.Outcome)
		}
	}
}

// The owner of a token proves no more than the token.
func TestStepUpOfOwners(t *testing.T) {
	t.Parallel()
	owner := policy.Identity{Mechanism: policy.Bearer, Roles: []string{"admin", "user"}}
	route := policyRoute(t, nil, inline(spec{Roles: []string{"admin"}, Factors: 2}))
	req := request(t, "GET", "example.org", "/")
	want := policy.Demand{Factors: 2}
	if d := route.Decide(owner.Reduced([]string{"admin"}), req); d.Outcome != policy.StepUp || d.Demand != want {
		t.Errorf("a token with the role: %+v", d)
	}
	if d := route.Decide(owner.Reduced([]string{"user"}), req); d.Outcome != policy.Forbid {
		t.Errorf("a token without the role: %+v", d)
	}
	// A role of the owner that the token does not have can make the policy stricter.
	noAdmin := inline(spec{None: []policy.Ref{inline(spec{Roles: []string{"admin"}})}})
	for _, c := range []struct {
		spec spec
		want policy.Decision
	}{
		{spec{Factors: 2, All: []policy.Ref{noAdmin}}, policy.Decision{Outcome: policy.Forbid}},
		{spec{Any: []policy.Ref{noAdmin, inline(spec{Factors: 2})}}, policy.Decision{Outcome: policy.StepUp, Demand: want}},
		{spec{Any: []policy.Ref{inline(spec{MaxAge: time.Minute, All: []policy.Ref{noAdmin}}), inline(spec{Factors: 2})}},
			policy.Decision{Outcome: policy.StepUp, Demand: want}},
	} {
		d := policyRoute(t, nil, inline(c.spec)).Decide(owner.Reduced([]string{"user"}), req)
		if d.Outcome != c.want.Outcome || d.Demand != c.want.Demand || d.Rule == "policy" {
			t.Errorf("%+v: got %+v", c.spec, d)
		}
	}
}

// What operators read says what is demanded.
func TestWordsOfProof(t *testing.T) {
	t.Parallel()
	route := policyRoute(t, nil, inline(spec{Factors: 2, MaxAge: 90 * time.Minute}))
	req := request(t, "GET", "example.org", "/")
	req.Now = now
	id := proved(1, time.Minute)
	want := []policy.Condition{
		{Rule: "auth", Needs: "needs authentication by one of basic, session, bearer, oidc, certificate", Holds: true},
		{Rule: "policy: factors", Needs: "needs a sign-in with 2 factors"},
		{Rule: "policy: max_age", Needs: "needs a sign-in at most 1h30m ago", Holds: true},
	}
	if got := route.Conditions(&id, req); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	const reason = "route r: policy: factors: needs a sign-in with 2 factors"
	if got := route.Decide(&id, req); got.Reason != reason || got.Outcome.String() != "challenge" {
		t.Errorf("got %+v, want the reason %q", got, reason)
	}
}

// What a policy demands of every login is known before there is one: not what only one
// alternative asks for.
func TestDemandOfARoute(t *testing.T) {
	t.Parallel()
	two, fresh := inline(spec{Factors: 2}), inline(spec{MaxAge: 15 * time.Minute})
	admin := inline(spec{Roles: []string{"admin"}})
	for _, c := range []struct {
		name string
		spec spec
		want policy.Demand
	}{
		{"a role", spec{Roles: []string{"admin"}}, policy.Demand{}},
		{"both", spec{Factors: 2, MaxAge: time.Hour}, policy.Demand{Factors: 2, MaxAge: time.Hour}},
		{"the younger age", spec{MaxAge: time.Hour, All: []policy.Ref{two, fresh}},
			policy.Demand{Factors: 2, MaxAge: 15 * time.Minute}},
		{"alternatives", spec{Any: []policy.Ref{two, fresh}}, policy.Demand{}},
		{"alternatives beside a demand", spec{Factors: 2, Any: []policy.Ref{admin, fresh}}, policy.Demand{Factors: 2}},
		{"the only alternative", spec{Any: []policy.Ref{two}}, policy.Demand{Factors: 2}},
		{"one factor", spec{Factors: 1}, policy.Demand{}},
		{"what must not be met", spec{None: []policy.Ref{two}}, policy.Demand{}},
	} {
		if got := policyRoute(t, nil, inline(c.spec)).Demand(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := (&policy.Route{}).Demand(); got != (policy.Demand{}) {
		t.Errorf("without a policy: %v", got)
	}
}
