package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"authgate/gateway/config/issuers"
	"authgate/gateway/config/section"
	"authgate/gateway/people/accounts"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// references compiles policies, and checks that the names in them refer to parts of the
// configuration.
type references struct {
	report *section.Report
	cfg    *Config
	named  *policy.Set // of Config.Policies, once they are compiled
	// roles are those of accounts and of clients that act for themselves, in the order of the text, and
	// domains those of the addresses of accounts. They are made once, because accounts may be many.
	roles, domains []string
	// others tells that there are providers or other issuers, whose users can have any role, address and
	// claim.
	others bool
}

func newReferences(r *section.Report, c *Config) *references {
	var roles, domains []string
	for _, account := range c.Accounts.Users {
		roles = append(roles, account.Roles...)
		if _, domain, found := strings.Cut(account.Email, "@"); found {
			domains = append(domains, strings.ToLower(domain))
		}
	}
	for i := range c.OAuth.Clients {
		if client := &c.OAuth.Clients[i]; client.ActsForItself() {
			roles = append(roles, client.Roles...)
		}
	}
	return &references{
		report: r, cfg: c, roles: unique(roles), domains: unique(domains),
		others: len(c.Providers) > 0 || len(issuers.Opening(c.Token.TrustedIssuers)) > 0,
	}
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
		r.checkNames(path, policies[name], false)
	}
}

// compile compiles the policies under a key, which has one or several. It checks the names in
// those that are written in place. messages tells that requests may have messages for MCP servers.
func (r *references) compile(path string, refs []policy.Ref, messages bool) *policy.Policy {
	compiled, err := r.named.Policy(path, refs)
	r.report.PolicyErrors(err)
	if !messages && r.named.LooksAtMessages(refs) {
		r.report.Fault(path, "the policy has the key mcp, about messages for MCP servers, and there are none here; "+
			"only routes with mcp: true can have such a policy")
	}
	for i, ref := range refs {
		r.checkNames(indexed(path, i, len(refs)), ref.Spec, false)
	}
	return compiled
}

// indexed returns the path of one of several policies under a key. A single one has that of the key.
func indexed(path string, i, several int) string {
	if several > 1 {
		return fmt.Sprintf("%s[%d]", path, i)
	}
	return path
}

// checkNames checks the names in a policy, at any depth. negated tells that it is under none.
func (r *references) checkNames(path string, spec *policy.Spec, negated bool) {
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
		r.checkUser(fmt.Sprintf("%s.users[%d]", path, i), user)
	}
	for i, actor := range spec.Actors {
		r.checkActor(fmt.Sprintf("%s.actors[%d]", path, i), actor)
	}
	r.warnOfUnmet(path, spec, negated)
	r.warnOfMCP(path+".mcp", spec.MCP)
	for i, ref := range spec.Next {
		r.checkNames(indexed(path+".next", i, len(spec.Next)), ref.Spec, negated)
	}
	for key, refs := range map[string][]policy.Ref{"any": spec.Any, "all": spec.All, "none": spec.None} {
		for i, ref := range refs {
			r.checkNames(fmt.Sprintf("%s.%s[%d]", path, key, i), ref.Spec, negated != (key == "none"))
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

// checkRoles checks roles.
func (r *references) checkRoles(path string, roles []string) {
	for i, role := range roles {
		r.checkRole(fmt.Sprintf("%s[%d]", path, i), role)
	}
}

// checkSource checks the name of a provider or an issuer.
func (r *references) checkSource(path, name string) {
	if r.report.Broken("providers") || r.report.Broken("token.trusted_issuers") || r.report.Broken("oauth.clients") {
		return // the name may come from there
	}
	known := slices.Concat(issuers.Names(r.cfg.Providers), issuers.TrustedNames(r.cfg.Token.TrustedIssuers),
		[]string{policy.LocalProvider, policy.BasicProvider})
	if slices.ContainsFunc(r.cfg.OAuth.Clients, OAuthClient.ActsForItself) {
		known = append(known, policy.ClientProvider)
	}
	if name != "" && !slices.Contains(known, name) {
		r.report.Fault(path, "there is no provider %q; %s", name, strictyaml.Hint(name, "providers", known))
	}
}

// checkUser checks the name of a user.
func (r *references) checkUser(path, user string) {
	provider, name, found := strings.Cut(user, ":")
	switch {
	case found && name == "": // package policy reports it
	case !found && r.isBasicUser(user) && !r.isAccount(user):
		r.report.Fault(path,
			"%q is a user of basic and not a local account; write %q", user, policy.BasicProvider+":"+user)
	case !found:
		r.checkAccount(path, user)
	case provider == policy.LocalProvider:
		r.checkAccount(path, name)
	case provider == policy.BasicProvider:
		r.checkBasicUser(path, name)
	case provider == policy.ClientProvider:
		r.checkClient(path, name)
	default:
		r.checkSource(path, provider)
	}
}

// checkActor checks the name of an OAuth client that acts for users. One with a document about itself
// may be in no configuration.
func (r *references) checkActor(path, actor string) {
	id, found := strings.CutPrefix(actor, policy.ClientProvider+":")
	if !found || id == "" || r.report.Broken("oauth.clients") { // package policy reports it, or the client may be there
		return
	}
	o, ids := &r.cfg.OAuth, clientIDs(r.cfg.OAuth.Clients)
	if document := o.MetadataClients.Enabled && strings.Contains(id, "://"); !document && !slices.Contains(ids, id) {
		r.report.Fault(path, "there is no OAuth client %q; %s", id, strictyaml.Hint(id, "oauth.clients", ids))
		return
	}
	vouched := func(x CrossApp) bool { return slices.Contains(x.Clients, id) }
	if o.ExchangeOf(id) == nil && !slices.ContainsFunc(o.CrossApp, vouched) {
		r.report.Warn(path, "the OAuth client %q acts for no user: it has no token_exchange, and oauth.cross_app does "+
			"not name it", id)
	}
}

// clientIDs returns the identifiers of the clients.
func clientIDs(clients []OAuthClient) (ids []string) {
	for i := range clients {
		ids = append(ids, clients[i].ID)
	}
	return ids
}

// checkClient checks the identifier of an OAuth client that acts for itself.
func (r *references) checkClient(path, id string) {
	if r.report.Broken("oauth.clients") {
		return // the client may be there
	}
	ids := clientIDs(r.cfg.OAuth.Clients)
	switch i := slices.Index(ids, id); {
	case i < 0:
		r.report.Fault(path, "there is no OAuth client %q; %s", id, strictyaml.Hint(id, "oauth.clients", ids))
	case !r.cfg.OAuth.Clients[i].ActsForItself():
		r.report.Fault(path, "the OAuth client %q never acts for itself; add %s to its grants, or name its users", id,
			ownGrants)
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
