package mechanism

import (
	"context"
	"slices"

	"authgate/gateway/config"
	"authgate/gateway/identity/assertions"
	"authgate/gateway/identity/clients"
	"authgate/gateway/login"
	"authgate/gateway/login/grants"
	"authgate/policy"
)

// OAuth has the parts of the authorization server of a configuration.
type OAuth struct {
	Clients    *clients.Set
	Assertions *assertions.Set
	Grants     *grants.Grants
	Consents   *grants.Consents
	Devices    *grants.Devices
}

// NewOAuth makes the parts of the authorization server, nil if the configuration has none.
func NewOAuth(o *Options, local *Local, f *Federation) (*OAuth, error) {
	cfg := o.Config
	if !cfg.OAuth.Enabled {
		return nil, nil
	}
	proofs := assertions.New(assertions.Options{
		Config: cfg, Issuers: f.assertionIssuers(), Vouching: f.vouching(), Verifier: o.Verifier,
	})
	set, err := clients.New(clients.Options{
		Config: cfg, Store: o.Store, Now: o.Now, Verifier: o.Verifier, Assertions: proofs,
	})
	if err != nil {
		return nil, err
	}
	holders := &login.Holders{Logins: local.Logins, Accounts: local.Accounts, Users: f.Users}
	lent := grants.New(grants.Options{
		Store: o.Store, Now: o.Now, Logins: local.Logins, Keys: local.keys,
		Holders: holders, Issuer: cfg.Token.Issuer, Audience: cfg.Token.Audience, Leeway: cfg.Token.ReuseLeeway,
		Lend: lend(cfg.OAuth.Scopes), Client: actsForItself(cfg.OAuth.Clients), Counts: set.Counts,
		Admits: set.Admits, CodeLifetime: cfg.OAuth.CodeLifetime, Federated: proofs.Holds, Vouches: cfg.OAuth.Vouches,
		Exchanges: func(client string) bool { return cfg.OAuth.ExchangeOf(client) != nil },
	})
	consents := grants.NewConsents(o.Store, o.Now, holders)
	if f.Users != nil {
		f.Users.OnLogout(func(ctx context.Context, name, subject string) error {
			if !slices.Contains(cfg.OAuth.Vouching(), name) {
				return nil
			}
			_, err := consents.EndVouchedOf(ctx, name+":"+subject)
			return err
		})
	}
	return &OAuth{
		Clients: set, Assertions: proofs, Grants: lent, Consents: consents,
		Devices: grants.NewDevices(lent, cfg.OAuth.DeviceLifetime),
	}, nil
}

// assertionIssuers returns the trusted issuers by name.
func (f *Federation) assertionIssuers() map[string]assertions.Issuer {
	all := map[string]assertions.Issuer{}
	for _, i := range f.issuers {
		all[i.config.Name] = i
	}
	return all
}

// vouching returns the providers of users.
func (f *Federation) vouching() (all []assertions.Vouching) {
	for _, p := range f.Providers {
		all = append(all, p.Provider)
	}
	return all
}

// lend returns a function that reduces an identity to the roles of its scopes. If no scopes are
// configured, they limit nothing.
func lend(configured map[string][]string) func([]string, *policy.Identity) *policy.Identity {
	return func(scopes []string, id *policy.Identity) *policy.Identity {
		if len(configured) == 0 {
			return id
		}
		var lent []string
		for _, scope := range scopes {
			roles, ok := configured[scope]
			if ok && len(roles) == 0 {
				return id
			}
			lent = append(lent, roles...)
		}
		return id.Reduced(lent)
	}
}

// actsForItself returns the roles of the clients that get tokens of their own.
func actsForItself(configured []config.OAuthClient) func(string) ([]string, bool) {
	roles := map[string][]string{}
	for i := range configured {
		if c := &configured[i]; c.ActsForItself() {
			roles[c.ID] = c.Roles
		}
	}
	return func(id string) ([]string, bool) {
		own, ok := roles[id]
		return own, ok
	}
}
