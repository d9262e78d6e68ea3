package policy_test

import (
	"strings"
	"testing"

	"authgate/policy"
)

// A route has a next if its policy leads to a policy with one, now or once every next is in place, and
// is then decided with all of them.
func TestNext(t *testing.T) {
	t.Parallel()
	staff, two := spec{Roles: []string{"staff"}}, spec{Factors: 2}
	name := func(n string) policy.Ref { return policy.Ref{Name: n} }
	all := specs{
		"staff":   &spec{Roles: []string{"staff"}, Next: []policy.Ref{inline(staff), inline(two)}},
		"by":      &spec{Any: []policy.Ref{name("staff"), inline(spec{Roles: []string{"admin"}})}},
		"renamed": &spec{Roles: []string{"user"}, Next: []policy.Ref{name("by")}},
		"plain":   &staff,
	}
	id := func(roles ...string) *policy.Identity {
		return &policy.Identity{Provider: "local", Username: "u", Mechanism: policy.Session, Roles: roles}
	}
	for _, c := range []struct {
		ref       policy.Ref
		names     string
		roles     string
		now, next policy.Outcome
		rule      string
	}{
		{name("staff"), "staff", "staff", policy.Allow, policy.StepUp, "policy staff: next[1].factors"},
		{name("staff"), "staff", "admin", policy.Forbid, policy.Forbid, "policy staff: next[0].roles"},
		{name("by"), "staff", "staff", policy.Allow, policy.StepUp, "policy by: any"},
		{name("by"), "staff", "admin", policy.Allow, policy.Allow, "policy by"},
		{name("renamed"), "renamed,staff", "user", policy.Allow, policy.Forbid, "policy by: any"},
		{name("renamed"), "renamed,staff", "admin", policy.Forbid, policy.Allow, "policy renamed: next"},
		{inline(spec{None: []policy.Ref{name("staff")}}), "staff", "staff", policy.Forbid, policy.Allow, "policy"},
		{name("plain"), "", "staff", policy.Allow, policy.Allow, ""},
	} {
		route := policyRoute(t, all, c.ref)
		if got := route.Decide(id(c.roles), &policy.Request{}).Outcome; got != c.now {
			t.Errorf("%+v, %s: now %v, want %v", c.ref, c.roles, got, c.now)
		}
		planned, names := route.Next()
		if names != c.names || (planned == nil) != (c.names == "") {
			t.Fatalf("%+v leads to %q, want %q", c.ref, names, c.names)
		}
		if planned == nil {
			continue
		}
		got := planned.Decide(id(c.roles), &policy.Request{})
		if got.Outcome != c.next || got.Rule != c.rule || !strings.HasPrefix(got.Reason, "route r: "+c.rule+": ") {
			t.Errorf("%+v, %s: next %+v, want %v by %q", c.ref, c.roles, got, c.next, c.rule)
		}
	}
}

// A decision with a next in place allocates nothing, also if a sign-in could prove more.
func TestNextAllocatesNothing(t *testing.T) {
	all := specs{"staff": &spec{Roles: []string{"staff"}, Next: []policy.Ref{inline(spec{Roles: []string{"staff"}, Factors: 2})}}}
	planned, _ := policyRoute(t, all, policy.Ref{Name: "staff"}).Next()
	req := &policy.Request{Method: "GET", Now: now}
	for _, roles := range [][]string{{"staff"}, {"user"}} {
		id := &policy.Identity{Provider: "local", Username: "u", Mechanism: policy.Session, Roles: roles}
		if n := testing.AllocsPerRun(100, func() { planned.Decide(id, req) }); n >= 1 {
			t.Errorf("%q: %v allocations", roles, n)
		}
	}
}
