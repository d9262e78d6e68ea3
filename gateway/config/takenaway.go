package config

import (
	"fmt"
	"slices"

	"authgate/gateway/config/issuers"
	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// takenAway finds the conditions of policies that a user of a provider can take away:
// what a provider does not say, or says of an unverified address, meets no condition.
// Every user can prove less in a login. Under none, that lets the user pass.
type takenAway struct {
	report   *section.Report
	policies map[string]*policy.Spec
	seen     map[seenPolicy]bool
	warned   map[string]bool // of what a login proves, by path
	others   bool            // the route is open to users of providers or other issuers
}

type seenPolicy struct {
	name            string
	negated, others bool
}

// warnOfTakenAway warns about the policies of routes and clients.
func (k *checker) warnOfTakenAway() {
	c := k.cfg
	t := &takenAway{report: k.report, policies: c.Policies, seen: map[seenPolicy]bool{}, warned: map[string]bool{}}
	others := len(c.Providers) > 0 || len(issuers.Opening(c.Token.TrustedIssuers)) > 0
	for i, route := range c.Routes {
		t.others = slices.Contains(route.Auth, policy.OIDC) || others && slices.Contains(route.Auth, policy.Bearer)
		for j, ref := range route.Policy {
			t.ref(indexed(fmt.Sprintf("routes[%d].policy", i), j, len(route.Policy)), ref, false)
		}
	}
	for i, client := range c.OAuth.Clients {
		t.others = len(c.Providers) > 0
		t.ref(fmt.Sprintf("oauth.clients[%d].policy", i), policy.Ref{Name: client.Policy}, false)
	}
}

// ref looks at a policy in place, or at a named one once. negated tells that the policy
// refuses whom it matches.
func (t *takenAway) ref(path string, ref policy.Ref, negated bool) {
	if ref.Spec != nil {
		t.spec(path, ref.Spec, negated)
		return
	}
	id := seenPolicy{ref.Name, negated, t.others}
	if spec := t.policies[ref.Name]; spec != nil && !t.seen[id] {
		t.seen[id] = true
		t.spec(strictyaml.Join("policies", ref.Name), spec, negated)
	}
}

func (t *takenAway) spec(path string, spec *policy.Spec, negated bool) {
	if negated {
		t.proof(path, spec)
	}
	if negated && t.others {
		for _, condition := range []struct {
			key, says string
			given     bool
		}{
			{"email_domains", "gives no address, or one that is not verified", spec.EmailDomains != nil},
			{"claims", "does not give the claim", spec.Claims != nil},
		} {
			if condition.given {
				t.report.Warn(path+"."+condition.key, "is under none, which does not refuse a user whose provider %s; "+
					"list who may pass instead of who may not", condition.says)
			}
		}
	}
	for i, ref := range spec.Next {
		t.ref(indexed(path+".next", i, len(spec.Next)), ref, negated)
	}
	for _, group := range []struct {
		key     string
		refs    []policy.Ref
		negated bool
	}{{"any", spec.Any, negated}, {"all", spec.All, negated}, {"none", spec.None, !negated}} {
		for i, ref := range group.refs {
			t.ref(fmt.Sprintf("%s.%s[%d]", path, group.key, i), ref, group.negated)
		}
	}
}

// proof warns about what a policy under none demands of a login. Two kinds of routes may
// lead to a named policy.
func (t *takenAway) proof(path string, spec *policy.Spec) {
	for _, demand := range []struct {
		key   string
		given bool
	}{{"factors", spec.Factors != 0}, {"max_age", spec.MaxAge != 0}} {
		if at := path + "." + demand.key; demand.given && !t.warned[at] {
			t.warned[at] = true
			t.report.Warn(at,
				"is under none, which refuses users who have proved more and lets in those who have proved less; "+
					"list who may pass instead of who may not")
		}
	}
}
