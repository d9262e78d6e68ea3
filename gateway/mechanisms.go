package gateway

import (
	"fmt"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/login"
	"authgate/gateway/store"
)

// mechanisms are how users prove their identity to the gateway itself. Their
// caches are new with each state, so that they hold nothing that was verified
// under other accounts or keys.
type mechanisms struct {
	endpoint.Local
	basic  *auth.Basic
	decoys *auth.DecoyKey // of both kinds of users
	jwks   []byte         // the public keys of access tokens
}

// newMechanisms makes the mechanisms of a configuration and its users, with their
// logins in s, whose clock is now. old, if not nil, is of the state that runs.
func newMechanisms(
	cfg *config.Config, u users, s store.Store, now func() time.Time, verifier *auth.Verifier, old *mechanisms,
) (*mechanisms, error) {
	keys, err := login.LoadKeys(cfg.Token.Algorithm, cfg.Token.Secret.Reveal(), cfg.Token.PrivateKey, cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	jwks, err := keys.JWKS()
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	decoys := auth.NewDecoyKey(keys.Derive("decoys"))
	if old != nil {
		decoys = old.decoys // a reload may change the keys of tokens
	}
	accounts, basic := auth.NewAccounts(u.local, decoys), auth.NewAccounts(u.basic, decoys)
	logins := login.NewLogins(s, now)
	return &mechanisms{
		Local: endpoint.Local{
			Accounts: accounts, Verifier: verifier, Logins: logins, Tickets: login.NewTickets(s, now),
			Sessions: login.NewSessions(login.SessionOptions{
				Lifetime: cfg.Session.Lifetime, Remember: cfg.Session.Remember, Idle: cfg.Session.IdleTimeout,
			}, accounts, logins),
			Bearer: login.NewAccessTokens(login.AccessTokenOptions{
				Issuer: cfg.Token.Issuer, Audience: cfg.Token.Audience,
				Lifetime: cfg.Token.AccessLifetime, Realm: cfg.Basic.Realm,
			}, keys, accounts, logins),
			API: login.NewAPITokens(accounts, logins),
			Refresh: login.NewRefreshTokens(login.RefreshOptions{
				Lifetime: cfg.Token.RefreshLifetime, Remember: cfg.Session.Remember,
				Leeway: cfg.Token.ReuseLeeway, Bind: traits(cfg.Token.BindRefresh),
			}, accounts, logins),
		},
		basic:  auth.NewBasic(cfg.Basic.Realm, basic, verifier),
		decoys: decoys,
		jwks:   jwks,
	}, nil
}

// traits returns what refresh tokens are bound to.
func traits(words []string) []login.Trait {
	known := map[string]login.Trait{config.BindUserAgent: login.BindUserAgent, config.BindIP: login.BindIP}
	list := make([]login.Trait, len(words))
	for i, word := range words {
		list[i] = known[word]
	}
	return list
}

func localAccounts(users []config.Account) []auth.Account {
	accounts := make([]auth.Account, len(users))
	for i, u := range users {
		accounts[i] = auth.Account{
			Username: u.Username, PasswordHash: u.Hash,
			Name: u.Name, Email: u.Email, Roles: u.Roles, Disabled: u.Disabled,
		}
	}
	return accounts
}

func basicUsers(users []config.BasicUser) []auth.Account {
	accounts := make([]auth.Account, len(users))
	for i, u := range users {
		accounts[i] = auth.Account{Username: u.Username, PasswordHash: u.Hash}
	}
	return accounts
}
