package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"authgate/gateway/accounts"
	"authgate/gateway/config/issuers"
	"authgate/gateway/config/section"
	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// references compiles policies, and checks that the names in them refer to parts of the
// configuration.
type references struct {
	report *section.Report
	cfg    *Config
	named  *policy.Set // of Config.Policies, once they are compiled
	roles  []string    // of accounts, in the order of the text; made once, because accounts may be many
}

func newReferences(r *section.Report, c *Config) *references {
	var roles []string
	for _, account := range c.Accounts.Users {
		roles = append(roles, account.Roles...)
	}
	return &references{report: r, cfg: c, roles: unique(roles)}
}

// compileNamed compiles the named policies and checks the names in them.
func (r *references) compileNamed() {
	policies := r.cfg.Policies
	var err error
	r.named, err = policy.Compile(policies)
	r.report.PolicyErrors(err)
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		path := strictyaml.Join("policies", name)
		if err := policy.CheckName(name); err != nil && name != "" {
			r.report.Fault(path, "the name of the policy %v", err)
		}
		r.check(path, policies[name])
	}
}

// compile compiles the policies under a key, which has one or several. It checks the names in
// those that are written in place.
func (r *references) compile(path string, refs []policy.Ref) *policy.Policy {
	compiled, err := r.named.Policy(path, refs)
	r.report.PolicyErrors(err)
	for i, ref := range refs {
		at := path
		if len(refs) > 1 {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		r.check(at, ref.Spec)
	}
	return compiled
}

// check checks the providers, users and roles in a policy, at any depth.
func (r *references) check(path string, spec *policy.Spec) {
	if spec == nil {
		return
	}
	r.checkProof(path, spec)
	r.checkRoles(path+".roles", spec.Roles)
	r.checkRoles(path+".all_roles", spec.AllRoles)
	for i, provider := range spec.Providers {
		r.checkSource(fmt.Sprintf("%s.providers[%d]", path, i), provider)
	}
	for i, user := range spec.Users {
		at := fmt.Sprintf("%s.users[%d]", path, i)
		if provider, name, found := strings.Cut(user, ":"); name == "" && found {
			continue // package policy reports it
		} else if provider == policy.ClientProvider && found {
			r.checkClient(at, name)
		} else if found {
			r.checkSource(at, provider)
		} else if r.isBasicUser(user) && !r.isAccount(user) {
			r.report.Fault(at, "%q is a user of basic and not a local account; write %q", user, policy.BasicProvider+":"+user)
		}
	}
	for key, refs := range map[string][]policy.Ref{"any": spec.Any, "all": spec.All, "none": spec.None} {
		for i, ref := range refs {
			r.check(fmt.Sprintf("%s.%s[%d]", path, key, i), ref.Spec)
		}
	}
}

// checkProof refuses zeros, which for package policy are keys that are not given.
func (r *references) checkProof(path string, spec *policy.Spec) {
	if at := path + ".factors"; spec.Factors == 0 && r.report.Given(at) && !r.report.Broken(at) {
		r.report.Fault(at, "%v", policy.CheckFactors(0))
	}
	if at := path + ".max_age"; spec.MaxAge == 0 && r.report.Given(at) && !r.report.Broken(at) {
		r.report.Fault(at, "%v", policy.CheckMaxAge(0))
	}
}

// checkRoles warns about roles that no account has. Providers and other issuers
// can give any role.
func (r *references) checkRoles(path string, roles []string) {
	if len(r.cfg.Providers) > 0 || len(r.cfg.Token.TrustedIssuers) > 0 {
		return
	}
	for i, role := range roles {
		if slices.Contains(r.roles, role) {
			continue
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		r.report.Warn(at, "no account has the role %q; %s", role, strictyaml.Hint(role, "roles of accounts", r.roles))
	}
}

// checkSource checks the name of a provider or an issuer.
func (r *references) checkSource(path, name string) {
	if r.report.Broken("providers") || r.report.Broken("token.trusted_issuers") || r.report.Broken("oauth.clients") {
		return // the name may come from there
	}
	known := slices.Concat(issuers.Names(r.cfg.Providers), issuers.TrustedNames(r.cfg.Token.TrustedIssuers),
		[]string{policy.LocalProvider, policy.BasicProvider})
	if slices.ContainsFunc(r.cfg.OAuth.Clients, OAuthClient.actsForItself) {
		known = append(known, policy.ClientProvider)
	}
	if name != "" && !slices.Contains(known, name) {
		r.report.Fault(path, "there is no provider %q; %s", name, strictyaml.Hint(name, "providers", known))
	}
}

// checkClient checks the identifier of an OAuth client that acts for itself.
func (r *references) checkClient(path, id string) {
	if r.report.Broken("oauth.clients") {
		return // the client may be there
	}
	var ids []string
	for i := range r.cfg.OAuth.Clients {
		ids = append(ids, r.cfg.OAuth.Clients[i].ID)
	}
	switch i := slices.Index(ids, id); {
	case i < 0:
		r.report.Fault(path, "there is no OAuth client %q; %s", id, strictyaml.Hint(id, "oauth.clients", ids))
	case !r.cfg.OAuth.Clients[i].actsForItself():
		r.report.Fault(path, "the OAuth client %q never acts for itself; add %s to its grants, or name its users", id,
			GrantClientCredentials)
	}
}

func (r *references) isBasicUser(name string) bool {
	name = policy.NormalName(name)
	return slices.ContainsFunc(r.cfg.Basic.Users, func(u accounts.BasicUser) bool {
		return policy.NormalName(u.Username) == name
	})
}

func (r *references) isAccount(name string) bool {
	name = policy.NormalName(name)
	return slices.ContainsFunc(r.cfg.Accounts.Users, func(u accounts.Account) bool {
		return policy.NormalName(u.Username) == name
	})
}
