package config

import (
	"fmt"
	"slices"

	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// takenAway finds the conditions of policies that a user of a provider can take away:
// what a provider does not say, or says of an unverified address, meets no condition.
// Under none, that lets the user pass.
type takenAway struct {
	report   *report
	policies map[string]*policy.Spec
	seen     map[seenPolicy]bool
}

type seenPolicy struct {
	name    string
	negated bool
}

// warnOfTakenAway warns about the policies of the routes that users of providers and
// other issuers can open.
func (c *Config) warnOfTakenAway(r *report) {
	t := &takenAway{r, c.Policies, map[seenPolicy]bool{}}
	others := len(c.Providers) > 0 || len(c.Token.TrustedIssuers) > 0
	for i, route := range c.Routes {
		if !slices.Contains(route.Auth, policy.OIDC) && !(others && slices.Contains(route.Auth, policy.Bearer)) {
			continue
		}
		for j, ref := range route.Policy {
			at := fmt.Sprintf("routes[%d].policy", i)
			if len(route.Policy) > 1 {
				at = fmt.Sprintf("%s[%d]", at, j)
			}
			t.ref(at, ref, false)
		}
	}
}

// ref looks at a policy in place, or at a named one once. negated tells that the policy
// refuses whom it matches.
func (t *takenAway) ref(path string, ref policy.Ref, negated bool) {
	if ref.Spec != nil {
		t.spec(path, ref.Spec, negated)
		return
	}
	id := seenPolicy{ref.Name, negated}
	if spec := t.policies[ref.Name]; spec != nil && !t.seen[id] {
		t.seen[id] = true
		t.spec(strictyaml.Join("policies", ref.Name), spec, negated)
	}
}

func (t *takenAway) spec(path string, spec *policy.Spec, negated bool) {
	if negated {
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
