package mechanism

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"authgate/gateway/audit"
	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/login/apitokens"
	"authgate/gateway/login/journey"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/invitations"
	"authgate/gateway/people/proofs"
	"authgate/gateway/store"
	"authgate/gateway/wire/clientcert"
	"authgate/gateway/wire/jose"
)

// Options are the parts of the mechanisms of a configuration.
type Options struct {
	Config               *config.Config
	Accounts, BasicUsers []accounts.Account // of the configuration, as far as they count
	Store                store.Store
	Now                  func() time.Time // the clock of Store
	LocalNow             func() time.Time // the clock of this process
	Verifier             *auth.Verifier
	Logger               *slog.Logger
	Events               *audit.Recorder
	// Observe returns the function that measures calls to the provider or issuer of that name.
	Observe func(name string) func(operation string, took time.Duration, err error)
	// Explains tells that the mechanisms only explain: keys that no application trusts sign
	// assertions.
	Explains bool
}

// Local has the mechanisms of users with local accounts. Its caches are new with each
// configuration, so that they hold nothing that was verified under other accounts or keys.
type Local struct {
	Accounts *accounts.Set
	Verifier *auth.Verifier
	Logins   *login.Logins
	Tickets  *journey.Tickets
	Sessions *login.Sessions
	Bearer   *login.AccessTokens // the gateway's own tokens
	Refresh  *login.RefreshTokens
	API      *apitokens.Set
	Proofs   *proofs.Proofs // with factors, beside the password
	Invited  *invitations.Invitations
	Basic    *auth.Basic // its users have no logins
	// Certificates is for local accounts without a login. It accepts none without tls.client_ca.
	Certificates auth.Certificates
	Decoys       *accounts.DecoyKey // of both kinds of users
	JWKS         []byte             // the public keys
	// PublicKeys sign ID tokens and assertions, which others verify. They are the keys of access
	// tokens, unless those are secret and others verify something.
	PublicKeys *jose.Keys

	keys    *jose.Keys          // of access tokens
	proxied *clientcert.Proxied // certificates that proxies describe
}

// NewLocal makes the mechanisms of local accounts. running, if not nil, are those of the
// configuration that runs.
func NewLocal(o *Options, running *Local) (*Local, error) {
	cfg, now := o.Config, o.Now
	keys, err := jose.Load(cfg.Token.Algorithm, cfg.Token.Secret.Reveal(), cfg.Token.PrivateKey, cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	public, err := publicKeys(o, keys)
	if err != nil {
		return nil, err
	}
	jwks, err := public.JWKS()
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	decoys := accounts.NewDecoyKey(keys.Derive("decoys"))
	if running != nil {
		decoys = running.Decoys // a reload may change the keys of tokens
	}
	local, logins := accounts.New(o.Accounts, decoys, now), login.NewLogins(o.Store, now)
	proved, err := newProofs(o, local)
	if err != nil {
		return nil, err
	}
	verifier, err := newCertificates(o, local)
	if err != nil {
		return nil, err
	}
	return &Local{
		Certificates: auth.Certificates{Verifier: verifier}, proxied: clientcert.NewProxied(),
		Accounts: local, Verifier: o.Verifier, Logins: logins, Tickets: journey.NewTickets(o.Store, now),
		Sessions: login.NewSessions(login.SessionOptions{
			Lifetime: cfg.Session.Lifetime, Remember: cfg.Session.Remember, Idle: cfg.Session.IdleTimeout,
		}, local, logins),
		Bearer: login.NewAccessTokens(login.AccessTokenOptions{
			Issuer: cfg.Token.Issuer, Audience: cfg.Token.Audience,
			Lifetime: cfg.Token.AccessLifetime, Realm: cfg.Basic.Realm,
		}, keys, local, logins),
		API: apitokens.New(local, o.Store, now),
		Refresh: login.NewRefreshTokens(login.RefreshOptions{
			Lifetime: cfg.Token.RefreshLifetime, Remember: cfg.Session.Remember,
			Leeway: cfg.Token.ReuseLeeway, Bind: traits(cfg.Token.BindRefresh),
		}, local, logins),
		Proofs: proved,
		Invited: invitations.New(invitations.Options{
			Store: o.Store, Now: now, Accounts: local,
			Base: strings.TrimSuffix(cfg.PublicURL.String(), "/") + cfg.Endpoints.Prefix,
		}),
		Basic:  auth.NewBasic(cfg.Basic.Realm, accounts.New(o.BasicUsers, decoys, now), o.Verifier),
		Decoys: decoys,
		JWKS:   jwks,
		keys:   keys, PublicKeys: public,
	}, nil
}

// publicKeys returns the keys for ID tokens and assertions.
func publicKeys(o *Options, keys *jose.Keys) (*jose.Keys, error) {
	cfg := o.Config
	switch {
	case !cfg.PublishesKeys():
		return keys, nil
	case o.Explains:
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, err
		}
		return jose.NewRS256(key)
	case keys.Algorithm() == config.AlgorithmRS256:
		return keys, nil
	}
	public, err := jose.Load(config.AlgorithmRS256, "", cfg.Token.PrivateKey, cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("token.private_key: %w", err)
	}
	return public, nil
}

// newProofs returns the proofs of factors of the local accounts.
func newProofs(o *Options, local *accounts.Set) (*proofs.Proofs, error) {
	cfg := o.Config
	key, err := proofs.NewKey(cfg.Store.EncryptionKey.Reveal(), cfg.Accounts.File)
	if err != nil {
		return nil, err
	}
	issuer := ""
	if cfg.Factors.TOTP {
		issuer = cfg.Site.Title
	}
	return proofs.New(proofs.Options{
		Store: o.Store, Now: o.Now, Accounts: local, File: cfg.AccountsFile(), Key: key,
		Site: cfg.RelyingParty(), Issuer: issuer,
	}), nil
}

// traits returns the traits of a client to which refresh tokens are bound.
func traits(words []string) []login.Trait {
	known := map[string]login.Trait{config.BindUserAgent: login.BindUserAgent, config.BindIP: login.BindIP}
	list := make([]login.Trait, len(words))
	for i, word := range words {
		list[i] = known[word]
	}
	return list
}

// BasicUsers returns the users of Basic of a configuration.
func BasicUsers(cfg *config.Config) []accounts.Account {
	all := make([]accounts.Account, len(cfg.Basic.Users))
	for i, u := range cfg.Basic.Users {
		all[i] = accounts.Account{Username: u.Username, Hash: u.Hash}
	}
	return all
}
