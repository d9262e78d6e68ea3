package gateway

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/keyfile"
	"authgate/gateway/login"
	"authgate/gateway/provider"
	"authgate/gateway/seal"
	"authgate/gateway/store"
	"authgate/gateway/web"
)

// storeKeyFile is where a generated encryption key is kept.
const storeKeyFile = "store.key"

// federation is what others prove for the gateway: logins at identity providers,
// and tokens of trusted issuers. Both hold things that must outlive a
// configuration, such as keys, so one state takes over from another what stays
// the same.
type federation struct {
	endpoint.Federation
	parties []*relyingParty     // those of Federation.Providers
	issuers []*resourceServer   // of trusted tokens
	bearers *login.BearerTokens // the gateway's own access tokens, and trusted ones
}

// relyingParty is the gateway as a client of one identity provider.
type relyingParty struct {
	endpoint.Provider
	config config.Provider
	origin string // of the redirect URIs, with the prefix of own endpoints
}

// resourceServer is the gateway as a recipient of the tokens of one issuer.
type resourceServer struct {
	*provider.Trusted
	config config.TrustedIssuer
}

// newFederation makes the federation of a configuration, with its logins in s,
// whose clock is now.
func newFederation(cfg *config.Config, m *mechanisms, s store.Store, now func() time.Time, service *web.Service, old *state) (*federation, error) {
	before := &federation{}
	if old != nil {
		before = old.federation
	}
	f := &federation{issuers: newIssuers(cfg, service, before.issuers), parties: newParties(cfg, service, before.parties)}
	trusted, err := newTrustedTokens(f.issuers, m.Logins, service.Now)
	if err != nil {
		return nil, err
	}
	f.bearers = login.NewBearerTokens(m.Bearer, m.API, trusted)
	if len(f.parties) == 0 {
		return f, nil
	}
	box, err := storeBox(cfg)
	if err != nil {
		return nil, err
	}
	byName := map[string]login.Provider{}
	for _, p := range f.parties {
		f.Providers = append(f.Providers, &p.Provider)
		byName[p.Name()] = &p.Provider
	}
	f.Default = f.Provider(cfg.Delegated.DefaultProvider)
	if len(f.Providers) == 1 {
		f.Default = f.Providers[0]
	}
	f.Users = login.NewUsers(login.UsersOptions{
		Providers: byName, Lifetime: cfg.Delegated.Lifetime, APITokens: cfg.Delegated.APITokens, Box: box, Now: service.Now,
		Report: func(login *login.Login, ended bool, err error) { reportRenewal(service.Logger, login, ended, err) },
	}, m.Logins)
	m.API.ServeUsers(f.Users)
	f.Delegated = login.NewDelegatedSessions(f.Users)
	f.Attempts = login.NewAttempts(s, box, now)
	return f, nil
}

// origins returns where browsers are sent to sign in at the providers, as far as
// that is known.
func (f *federation) origins() []string {
	var origins []string
	for _, p := range f.parties {
		if origin := p.AuthorizationOrigin(); origin != "" {
			origins = append(origins, origin)
		}
	}
	return origins
}

// newParties returns the identity providers of a configuration, in its order.
// Those that are the same before are taken over.
func newParties(cfg *config.Config, service *web.Service, before []*relyingParty) []*relyingParty {
	var parties []*relyingParty
	origin := cfg.PublicURL.String() + cfg.Endpoints.Prefix
	for _, p := range cfg.Providers {
		known := slices.IndexFunc(before, func(b *relyingParty) bool {
			return b.origin == origin && reflect.DeepEqual(b.config, p)
		})
		if known >= 0 {
			parties = append(parties, before[known])
			continue
		}
		party := &relyingParty{config: p, origin: origin, Provider: endpoint.Provider{
			Provider:   provider.New(providerOptions(cfg, &p, service)),
			Identifier: p.Issuer, Title: p.Title, Timeout: p.Timeout,
			Callback: web.OwnPath(cfg.Endpoints.Prefix, p.Callback),
		}}
		if p.Issuer == "" {
			party.Identifier = p.TokenURL
		}
		parties = append(parties, party)
	}
	return parties
}

func providerOptions(cfg *config.Config, p *config.Provider, service *web.Service) provider.Options {
	public := cfg.PublicURL.String()
	return provider.Options{
		Name: p.Name, Issuer: p.Issuer,
		Client: provider.Client{ID: p.ClientID, Secret: p.ClientSecret.Reveal(), AuthMethod: p.TokenEndpointAuthMethod},
		Scopes: p.Scopes, AuthorizationParams: p.AuthorizationParams,
		Mapping: provider.Mapping{Roles: p.RolesClaim, Username: p.UsernameClaim}, SubjectClaim: p.SubjectClaim,
		RedirectURL:   public + web.OwnPath(cfg.Endpoints.Prefix, p.Callback),
		PostLogoutURL: public + "/",
		LogoutURL:     p.LogoutURL, Logout: p.Logout,
		Endpoints: provider.Endpoints{
			Authorization: p.AuthorizationURL, Token: p.TokenURL, Userinfo: p.UserinfoURL, Keys: p.JWKSURL,
		},
		Connection: connectionTo(p.Name, p.Timeout, service),
	}
}

// connectionTo returns how the provider or issuer of that name is called.
func connectionTo(name string, timeout time.Duration, service *web.Service) provider.Connection {
	return provider.Connection{Timeout: timeout, Now: service.Now, Logger: service.Logger, Observe: service.Metrics.Provider(name)}
}

// newIssuers returns the trusted issuers of a configuration. Those that are the
// same before are taken over.
func newIssuers(cfg *config.Config, service *web.Service, before []*resourceServer) []*resourceServer {
	var issuers []*resourceServer
	for _, t := range cfg.Token.TrustedIssuers {
		known := slices.IndexFunc(before, func(b *resourceServer) bool { return reflect.DeepEqual(b.config, t) })
		if known >= 0 {
			issuers = append(issuers, before[known])
			continue
		}
		issuers = append(issuers, &resourceServer{config: t, Trusted: provider.NewTrusted(trustedOptions(&t, service))})
	}
	return issuers
}

func trustedOptions(t *config.TrustedIssuer, service *web.Service) provider.TrustedOptions {
	o := provider.TrustedOptions{
		Issuer: t.Issuer, Audience: t.Audience, Algorithms: t.Algorithms,
		Mapping:    provider.Mapping{Roles: t.RolesClaim, Username: t.UsernameClaim},
		Connection: connectionTo(t.Name, t.Timeout, service),
	}
	if in := t.Introspection; in != nil {
		o.Introspection = &provider.Introspection{URL: in.URL, Client: provider.Client{ID: in.ClientID, Secret: in.ClientSecret.Reveal()}}
	}
	return o
}

// newTrustedTokens returns the mechanism for tokens of trusted issuers, nil if
// there are none.
func newTrustedTokens(issuers []*resourceServer, logins *login.Logins, now func() time.Time) (*login.TrustedTokens, error) {
	if len(issuers) == 0 {
		return nil, nil
	}
	var trusted []login.TrustedIssuer
	for _, i := range issuers {
		trusted = append(trusted, login.TrustedIssuer{Name: i.config.Name, Opaque: i.config.Introspection != nil, TokenIssuer: i})
	}
	return login.NewTrustedTokens(trusted, logins, now)
}

// storeBox returns what encrypts providers' tokens in the store, with the key of
// the configuration, or one that is generated once.
func storeBox(cfg *config.Config) (*seal.Box, error) {
	secret := []byte(cfg.Store.EncryptionKey.Reveal())
	if len(secret) == 0 {
		var err error
		secret, err = keyfile.Keep(filepath.Join(cfg.DataDir, storeKeyFile), func() ([]byte, error) {
			key := make([]byte, seal.MinSecret)
			rand.Read(key) // never fails: crypto/rand
			return key, nil
		})
		if err != nil {
			return nil, fmt.Errorf("store.encryption_key: %w", err)
		}
	}
	box, err := seal.New(secret)
	if err != nil {
		return nil, fmt.Errorf("store.encryption_key: %w", err)
	}
	return box, nil
}

// reportRenewal logs that a login could not be renewed at its provider, or not in all
// parts, and whether this ended the login.
func reportRenewal(logger *slog.Logger, login *login.Login, ended bool, err error) {
	attrs := []any{
		slog.String("subject", login.Subject()), slog.String("login", login.ID), slog.String("error", err.Error()),
	}
	if ended {
		logger.Info("audit", append([]any{slog.String("event", "login_ended_by_provider")}, attrs...)...)
		return
	}
	if errors.Is(err, provider.ErrClient) {
		logger.Error("the provider does not accept the gateway as its client; logins go on and roles get old until "+
			"client_id, client_secret and token_endpoint_auth_method are right", attrs...)
		return
	}
	logger.Warn("refreshing a provider's tokens failed; the login goes on with what is known", attrs...)
}

// unused returns what ends the background work of everything that kept does not use.
func (f *federation) unused(kept *federation) (closes []func()) {
	for _, p := range f.parties {
		if !slices.Contains(kept.parties, p) {
			closes = append(closes, p.Close)
		}
	}
	for _, i := range f.issuers {
		if !slices.Contains(kept.issuers, i) {
			closes = append(closes, i.Close)
		}
	}
	return closes
}
