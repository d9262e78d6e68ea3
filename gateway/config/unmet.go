package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"authgate/gateway/config/issuers"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Rules that no user can meet are warnings, and not errors: an account may come later, and a part of
// the configuration may be for a while.

// checkRole warns of a role that no account has. Providers and other issuers can give any role.
func (r *references) checkRole(path, role string) {
	if !r.others && !slices.Contains(r.roles, role) {
		r.report.Warn(path, "no account has the role %q; %s", role, strictyaml.Hint(role, "roles of accounts", r.roles))
	}
}

// checkAccount warns of a name that no local account has. Who looks after accounts may add any
// that is not a mistyped one.
func (r *references) checkAccount(path, name string) {
	if r.isAccount(name) || name == "" {
		return
	}
	var names, providers []string
	for _, account := range r.cfg.Accounts.Users {
		names = append(names, account.Username)
	}
	for _, p := range r.cfg.Providers {
		providers = append(providers, p.Name+":"+name)
	}
	near, found := strictyaml.Nearest(name, names)
	switch {
	case found:
		r.report.Warn(path, "no local account has the name %q; did you mean %q?", name, near)
	case len(providers) > 0:
		r.report.Warn(path, "no local account has the name %q; write a user of a provider as %s", name,
			strings.Join(providers, " or "))
	case r.cfg.Accounts.Admins == nil:
		r.report.Warn(path, "no local account has the name %q; add the account, or correct the name", name)
	}
}

// checkBasicUser warns of a name that no user of basic has.
func (r *references) checkBasicUser(path, name string) {
	if r.isBasicUser(name) {
		return
	}
	var names []string
	for _, user := range r.cfg.Basic.Users {
		names = append(names, user.Username)
	}
	r.report.Warn(path, "basic has no user %q; %s", name, strictyaml.Hint(name, "users of basic", names))
}

// warnOfUnmet warns of the other keys of a policy that no user can meet. What a login proves has a
// warning of its own under none.
func (r *references) warnOfUnmet(path string, spec *policy.Spec, negated bool) {
	for i, domain := range spec.EmailDomains {
		if !r.others && !slices.Contains(r.domains, strings.ToLower(domain)) {
			r.report.Warn(fmt.Sprintf("%s.email_domains[%d]", path, i), "no account has an address at %q; %s", domain,
				strictyaml.Hint(domain, "domains of their addresses", r.domains))
		}
	}
	if len(spec.Claims) > 0 && !r.others {
		r.report.Warn(path+".claims",
			"no user has claims, because there are no providers and no token.trusted_issuers; accounts have roles")
	}
	for i, scope := range spec.Scopes {
		r.checkScope(fmt.Sprintf("%s.scopes[%d]", path, i), scope)
	}
	if at := path + ".factors"; spec.Factors == 2 && !negated && !r.cfg.twoFactors() {
		r.report.Warn(at, "no user can prove two factors; %s", whoHasTwoFactors)
	}
	for i, text := range spec.Networks {
		network, err := policy.ParseNetwork(text)
		if why := noClient(network); err == nil && why != "" {
			r.report.Warn(fmt.Sprintf("%s.networks[%d]", path, i), "no client has the address %s: %s", text, why)
		}
	}
}

// checkScope warns of a scope that no token has. Other issuers can give any scope.
func (r *references) checkScope(path, scope string) {
	o := &r.cfg.OAuth
	known := o.AllScopes()
	switch {
	case len(issuers.Opening(r.cfg.Token.TrustedIssuers)) > 0:
	case !o.Enabled:
		r.report.Warn(path, "no token has scopes; those of OAuth clients have with oauth.enabled, and those of "+
			"token.trusted_issuers")
	case !slices.Contains(known, scope):
		r.report.Warn(path, "no token has the scope %q, because oauth.scopes does not; %s", scope,
			strictyaml.Hint(scope, "scopes", known))
	}
}

// warnOfMCP warns of lists of mcp that match no name, or no message with which a session begins.
func (r *references) warnOfMCP(path string, mcp *policy.MCP) {
	if mcp == nil {
		return
	}
	includes := func(pattern string) bool { return !strings.HasPrefix(pattern, "!") }
	for key, patterns := range map[string][]string{
		"methods": mcp.Methods, "tools": mcp.Tools, "prompts": mcp.Prompts, "resources": mcp.Resources,
	} {
		switch at := path + "." + key; {
		case len(patterns) == 0:
		case !slices.ContainsFunc(patterns, includes):
			r.report.Warn(at, `matches nothing, because each pattern excludes; begin with "*" to match all others`)
		case key == "methods" && !policy.MatchesPatterns(patterns, "initialize") &&
			!policy.MatchesPatterns(patterns, "server/discover"):
			r.report.Warn(at, "matches neither initialize nor server/discover, with one of which each client begins")
		}
	}
}

// noClient returns why no client has an address of a network, empty if one can.
func noClient(network netip.Prefix) string {
	switch addr := network.Addr(); {
	case addr.IsUnspecified() && network.IsSingleIP():
		return fmt.Sprintf("all addresses are %s/0", addr)
	case addr.IsMulticast():
		return "it is for groups (multicast)"
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "it is for all (broadcast)"
	}
	return ""
}

// localTwoFactors reports whether local accounts can have a second factor: those of the file.
func (c *Config) localTwoFactors() bool {
	if c.Accounts.File == "" {
		return false
	}
	if c.Factors.TOTP || c.PublicURL != nil && c.RelyingParty() != nil {
		return true
	}
	for i := range c.Accounts.Users {
		if c.Accounts.Users[i].Factors.Any() {
			return true
		}
	}
	return false
}

// twoFactors reports whether some user can prove two factors.
func (c *Config) twoFactors() bool {
	return c.localTwoFactors() || slices.ContainsFunc(c.Providers, func(p issuers.Provider) bool {
		_, two := p.Tells()
		return two
	})
}

// whoHasTwoFactors tells who can meet factors: 2.
const whoHasTwoFactors = "only accounts of accounts.file can, with factors.totp or factors.passkeys, and " +
	"users of providers with two_factors"

// warnOfClosed warns of policies that hold for no credentials which they can be asked about, and of
// roles that an application has other names for, and no account has.
func (k *checker) warnOfClosed() {
	c := k.cfg
	if c.table != nil {
		for i, rule := range c.table.Routes() {
			k.closed(fmt.Sprintf("routes[%d].policy", i), rule, "change the policy, auth or match")
		}
	}
	k.closed("accounts.admins", c.admins, "only a session counts here")
	for i := range c.OAuth.Clients {
		k.closed(fmt.Sprintf("oauth.clients[%d].policy", i), c.clientPolicies[c.OAuth.Clients[i].ID],
			"users sign in to it with a session")
	}
	for name, upstream := range c.Upstreams {
		for role, here := range upstream.Roles {
			k.mappedRole(strictyaml.Join(strictyaml.Join("upstreams", name)+".roles", role), role, here)
		}
	}
}

// mappedRole checks the name of a role here, to which an upstream gives another.
func (k *checker) mappedRole(path, role, there string) {
	if slices.Contains(k.refs.roles, there) && !slices.Contains(k.refs.roles, role) && !k.refs.others {
		k.report.Warn(path, "no account has the role %q; the name here comes first: write %s: %s", role, there, role)
		return
	}
	k.refs.checkRole(path, role)
}

// closed warns of a policy that holds for none of the credentials that a route accepts.
func (k *checker) closed(path string, rule *policy.Route, advice string) {
	if rule == nil {
		return
	}
	if why := rule.Closed(k.kinds(rule.Mechanisms)); why != "" {
		if strings.Contains(why, "2 factors") {
			advice = whoHasTwoFactors
		}
		k.report.Warn(path, "no request can meet it: %s; %s", why, advice)
	}
}
