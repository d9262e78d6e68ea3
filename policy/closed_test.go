package policy_test

import (
	"testing"

	"authgate/policy"
)

// A policy is closed if none of the credentials that a route accepts can meet it, by what each kind
// of them never has, or if its rules exclude each other.
func TestClosed(t *testing.T) {
	t.Parallel()
	local := policy.Kind{Mechanism: policy.Session, Provider: policy.LocalProvider, Login: true, TwoFactors: true}
	passwords := policy.Kind{Mechanism: policy.Session, Provider: policy.LocalProvider, Login: true}
	corp := policy.Kind{Mechanism: policy.OIDC, Provider: "corp", Login: true}
	basic := policy.Kind{Mechanism: policy.Basic, Provider: policy.BasicProvider}
	token := policy.Kind{Mechanism: policy.Bearer, Provider: policy.LocalProvider, Scopes: true, Login: true}
	client := policy.Kind{Mechanism: policy.Bearer, Provider: policy.ClientProvider, Scopes: true}
	machines := policy.Kind{Mechanism: policy.Bearer, Provider: "machines", Scopes: true}
	type kinds []policy.Kind
	networks := func(list ...string) policy.Ref { return inline(spec{Networks: list}) }
	methods := func(list ...string) policy.Ref { return inline(spec{Methods: list}) }
	scoped := inline(spec{Scopes: []string{"x"}})
	for _, c := range []struct {
		name, match string
		spec        spec
		kinds       kinds
		want        string
	}{
		{"roles", "/", spec{Roles: []string{"a"}}, kinds{basic}, "policy: roles: needs one of a"},
		{"roles of others", "/", spec{Roles: []string{"a"}}, kinds{basic, client}, ""},
		{"all roles", "/", spec{AllRoles: []string{"a"}}, kinds{basic}, "policy: all_roles: needs all of a"},
		{"a mechanism", "/", spec{Mechanisms: []string{"bearer"}}, kinds{local, basic},
			"policy: mechanisms: needs authentication by one of bearer"},
		{"a mechanism that is accepted", "/", spec{Mechanisms: []string{"bearer"}}, kinds{local, token}, ""},
		{"a mechanism that must not be", "/", spec{None: []policy.Ref{inline(spec{Mechanisms: []string{"session"}})}},
			kinds{local}, "policy: none[0]: must not be met: (mechanisms needs authentication by one of session)"},
		{"providers", "/", spec{Providers: []string{"corp", "basic"}}, kinds{local, machines},
			"policy: providers: needs an account at one of corp, basic"},
		{"the provider", "/", spec{Providers: []string{"corp"}}, kinds{local, corp}, ""},
		{"no provider may", "/", spec{None: []policy.Ref{inline(spec{Providers: []string{"local"}})}}, kinds{local},
			"policy: none[0]: must not be met: (providers needs an account at one of local)"},
		{"users", "/", spec{Users: []string{"corp:eve", "client:x"}}, kinds{local, basic, machines},
			"policy: users: needs one of corp:eve, client:x"},
		{"a client", "/", spec{Users: []string{"client:x"}}, kinds{local, client}, ""},
		{"scopes", "/", spec{Scopes: []string{"read"}}, kinds{local, corp}, "policy: scopes: needs one of read"},
		{"actors", "/", spec{Actors: []string{"client:x"}}, kinds{local, basic, machines},
			"policy: actors: needs one of client:x"},
		{"actors of tokens", "/", spec{Actors: []string{"client:x"}}, kinds{basic, {Mechanism: "bearer", Actor: true}}, ""},
		{"scopes of tokens", "/", spec{Scopes: []string{"read"}}, kinds{local, token}, ""},
		{"addresses", "/", spec{EmailDomains: []string{"a.example"}}, kinds{basic, client},
			"policy: email_domains: needs an address at one of a.example"},
		{"addresses of accounts", "/", spec{EmailDomains: []string{"a.example"}}, kinds{basic, local}, ""},
		{"claims", "/", spec{Claims: map[string][]string{"dept": {"x"}}}, kinds{local, basic, client},
			"policy: claims.dept: needs one of x"},
		{"claims of an issuer", "/", spec{Claims: map[string][]string{"dept": {"x"}}}, kinds{local, machines}, ""},
		{"two factors", "/", spec{Factors: 2}, kinds{passwords, corp, basic, machines},
			"policy: factors: needs a sign-in with 2 factors"},
		{"two factors, which accounts have", "/", spec{Factors: 2}, kinds{local}, ""},
		{"one factor", "/", spec{Factors: 1}, kinds{basic}, ""},
		{"a time", "/", spec{MaxAge: week}, kinds{basic, machines, client},
			"policy: max_age: needs a sign-in at most 168h ago"},
		{"a time of a login", "/", spec{MaxAge: week}, kinds{basic, corp}, ""},
		{"an alternative", "/", spec{Any: []policy.Ref{scoped, inline(spec{Roles: []string{"a"}})}}, kinds{local}, ""},
		{"no alternative", "/", spec{Any: []policy.Ref{scoped, inline(spec{Providers: []string{"p"}})}}, kinds{local},
			"policy: any: needs at least one of (scopes needs one of x), (providers needs an account at one of p)"},

		{"the method of the route", "GET /", *methods("POST").Spec, kinds{local}, "policy: methods: needs one of POST"},
		{"HEAD for GET", "GET /", *methods("HEAD").Spec, kinds{local}, ""},
		{"all methods", "/", *methods("POST").Spec, kinds{local}, ""},
		{"two methods", "/", spec{Methods: []string{"POST"}, All: []policy.Ref{methods("GET")}}, kinds{local},
			"policy: methods: needs one of POST"},
		{"no method", "GET /", spec{None: []policy.Ref{methods("GET", "HEAD")}}, kinds{local},
			"policy: none[0]: must not be met: (methods needs one of GET, HEAD)"},
		{"another method", "/", spec{None: []policy.Ref{methods("GET", "HEAD")}}, kinds{local}, ""},

		{"a network", "/", *networks("10.0.0.0/8").Spec, kinds{local}, ""},
		{"two networks", "/", spec{Networks: []string{"10.0.0.0/8", "::1"}, All: []policy.Ref{networks("192.0.2.0/24")}},
			kinds{local}, "policy: networks: needs a client in one of 10.0.0.0/8, ::1"},
		{"one in the other", "/", spec{Networks: []string{"10.0.0.0/8"}, All: []policy.Ref{networks("10.1.0.0/16")}},
			kinds{local}, ""},
		{"all but a part", "/", spec{Networks: []string{"10.0.0.0/8"}, None: []policy.Ref{networks("10.0.0.0/9")}},
			kinds{local}, ""},
		{"all but all of it", "/", spec{Networks: []string{"10.0.0.0/8"},
			None: []policy.Ref{networks("10.0.0.0/9", "10.128.0.0/9")}}, kinds{local},
			"policy: networks: needs a client in one of 10.0.0.0/8"},
		{"none at all", "/", spec{None: []policy.Ref{networks("0.0.0.0/0", "::/0")}}, kinds{local},
			"policy: none[0]: must not be met: (networks needs a client in one of 0.0.0.0/0, ::/0)"},
	} {
		r := *policyRoute(t, nil, inline(c.spec))
		r.Pattern = c.match
		if got := r.Closed(c.kinds); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := (&policy.Route{}).Closed(kinds{local}); got != "" {
		t.Errorf("without a policy: %q", got)
	}
}
