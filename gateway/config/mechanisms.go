package config

import (
	"authgate/gateway/config/issuers"
	"authgate/gateway/config/section"
	"authgate/policy"
)

// checkHasUsers checks that a mechanism has users. A file of users may be empty:
// its last user may be removed while the gateway runs.
func checkHasUsers(r *section.Report, path string, m policy.Mechanism, c *Config) {
	noAccounts := len(c.Accounts.Users) == 0 && c.Accounts.File == "" && !r.Broken("accounts")
	switch m {
	case policy.Basic:
		if len(c.Basic.Users) == 0 && c.Basic.Htpasswd == "" && !r.Broken("basic") {
			r.Fault(path, "basic has no users; give basic.users or basic.htpasswd")
		}
	case policy.Session:
		if noAccounts {
			r.Fault(path, "session has no users; give accounts.users or accounts.file")
		}
	case policy.Bearer:
		lends := c.OAuth.Enabled && (len(c.Providers) > 0 || len(c.OAuth.Clients) > 0) // or clients act for themselves
		trusts := len(issuers.Opening(c.Token.TrustedIssuers)) > 0 || r.Broken("token.trusted_issuers")
		if noAccounts && !lends && !trusts {
			r.Fault(path, "bearer has no users; give accounts.users, accounts.file or token.trusted_issuers")
		}
	case policy.Certificate:
		c.TLS.CheckHasClients(r, path, noAccounts)
	case policy.OIDC:
		if len(c.Providers) == 0 && !r.Broken("providers") {
			r.Fault(path, "oidc has no users; give providers")
		}
	}
}

// kinds returns the kinds of credentials that mechanisms take.
func (k *checker) kinds(mechanisms []policy.Mechanism) (kinds []policy.Kind) {
	c := k.cfg
	scopes := c.OAuth.Enabled
	for _, m := range mechanisms {
		local := policy.Kind{Provider: policy.LocalProvider, Login: true, TwoFactors: c.localTwoFactors()}
		switch m {
		case policy.Basic:
			kinds = append(kinds, policy.Kind{Mechanism: m, Provider: policy.BasicProvider})
		case policy.Certificate:
			kinds = append(kinds, policy.Kind{Mechanism: m, Provider: policy.LocalProvider})
		case policy.Session:
			local.Mechanism = m
			kinds = append(kinds, local)
		case policy.OIDC:
			kinds = append(kinds, k.usersOfProviders(m, false)...)
		case policy.Bearer:
			local.Mechanism, local.Scopes, local.Actor = m, scopes, scopes
			kinds = append(kinds, local)
			for _, name := range issuers.TrustedNames(issuers.Opening(c.Token.TrustedIssuers)) {
				kinds = append(kinds, policy.Kind{Mechanism: m, Provider: name, Scopes: true})
			}
			if scopes {
				kinds = append(kinds, k.usersOfProviders(m, true)...)
				kinds = append(kinds, policy.Kind{Mechanism: m, Provider: policy.ClientProvider, Scopes: true,
					Actor: true})
			}
		}
	}
	return kinds
}

// usersOfProviders returns the kinds of credentials of users who sign in at providers.
func (k *checker) usersOfProviders(m policy.Mechanism, scopes bool) (kinds []policy.Kind) {
	for i := range k.cfg.Providers {
		p := &k.cfg.Providers[i]
		kind := policy.Kind{Mechanism: m, Provider: p.Name, Scopes: scopes, Actor: scopes}
		kind.Login, kind.TwoFactors = p.Tells()
		kinds = append(kinds, kind)
	}
	return kinds
}
