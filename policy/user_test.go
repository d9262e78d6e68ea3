package policy_test

import (
	"testing"
	"time"

	"authgate/policy"
)

// A policy lets a user in by who they are. What it demands of the request, the credential and the
// sign-in decides nothing, also under none and beside another condition.
func TestAllowsUser(t *testing.T) {
	t.Parallel()
	admin := inline(spec{Roles: []string{"admin"}})
	staff, office := inline(spec{Roles: []string{"staff"}}), inline(spec{Networks: []string{"192.0.2.0/24"}})
	none := func(s spec) spec { return spec{None: []policy.Ref{inline(s)}} }
	carol := &policy.Identity{
		Username: "carol", Provider: "corp", Email: "carol@example.org", Roles: []string{"staff"},
		Claims: map[string]any{"level": "3"}, Mechanism: policy.Bearer,
	}
	for name, c := range map[string]struct {
		spec spec
		want bool
	}{
		"a role":                    {*staff.Spec, true},
		"another role":              {*admin.Spec, false},
		"all roles":                 {spec{AllRoles: []string{"staff", "admin"}}, false},
		"a name":                    {spec{Users: []string{"corp:carol"}}, true},
		"a namesake":                {spec{Users: []string{"carol"}}, false},
		"an address":                {spec{EmailDomains: []string{"example.org"}}, true},
		"another address":           {spec{EmailDomains: []string{"example.com"}}, false},
		"another provider":          {spec{Providers: []string{"local"}}, false},
		"a claim":                   {spec{Claims: map[string][]string{"level": {"3"}}}, true},
		"another claim":             {spec{Claims: map[string][]string{"level": {"4"}}}, false},
		"a network":                 {*office.Spec, true},
		"a method":                  {spec{Methods: []string{"GET"}}, true},
		"a mechanism":               {spec{Mechanisms: []string{"session"}}, true},
		"a scope":                   {spec{Scopes: []string{"read"}}, true},
		"proof":                     {spec{Factors: 2, MaxAge: time.Second}, true},
		"a role and a network":      {spec{Roles: []string{"admin"}, Networks: []string{"192.0.2.0/24"}}, false},
		"a role or a network":       {spec{Any: []policy.Ref{admin, office}}, true},
		"either of two roles":       {spec{Any: []policy.Ref{admin, staff}}, true},
		"neither a role nor a name": {spec{Any: []policy.Ref{admin, inline(spec{Users: []string{"bob"}})}}, false},
		"not the role":              {none(*staff.Spec), false},
		"not another role":          {none(*admin.Spec), true},
		"not the network":           {none(*office.Spec), true},
		"not the role there":        {none(spec{Roles: []string{"staff"}, Methods: []string{"PUT"}}), true},
		"not not another role":      {none(none(*admin.Spec)), false},
		"a role in a reference":     {spec{All: []policy.Ref{admin}}, false},
	} {
		if got := policyRoute(t, nil, inline(c.spec)).AllowsUser(carol); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	token := carol.Reduced(nil)
	if !policyRoute(t, nil, staff).AllowsUser(token) {
		t.Error("a token without the role counts, instead of its owner")
	}
	if !(&policy.Route{}).AllowsUser(carol) || (&policy.Route{Policy: &policy.Policy{}}).AllowsUser(carol) {
		t.Error("no policy lets every user in, and one without rules no user")
	}
}
