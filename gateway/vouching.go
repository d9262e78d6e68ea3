package gateway

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/keyfile"
	"authgate/gateway/login"
	"authgate/gateway/provider"
	"authgate/gateway/seal"
)

// storeKeyFile is where the encryption key is kept that nobody has configured.
const storeKeyFile = "store.key"

// vouching is what others vouch for: logins at providers, and tokens of
// outside issuers. Both know things that must outlive a configuration, such
// as keys, so what stays the same is taken over from one state to the next.
type vouching struct {
	providers []*relyingParty // in the order of the configuration
	issuers   []*resourceServer

	users     *login.Users // nil without providers, as what follows
	delegated *login.Sessions
	attempts  *login.Attempts
}

// relyingParty is the gateway as a client of one provider.
type relyingParty struct {
	*provider.Provider
	config config.Provider
	origin string // of the redirect URIs, with the prefix of own endpoints
}

// Issuer says who the provider is. One without OpenID Connect has no issuer,
// and is known by where its tokens come from.
func (p *relyingParty) Issuer() string {
	if p.config.Issuer == "" {
		return p.config.TokenURL
	}
	return p.config.Issuer
}

// resourceServer is the gateway as one that takes the tokens of one issuer.
type resourceServer struct {
	*provider.Trusted
	config config.TrustedIssuer
}

// provider returns the provider of that name, nil if there is none.
func (v *vouching) provider(name string) *relyingParty {
	for _, p := range v.providers {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// defaultProvider is where GET /login goes without being told, nil if the
// person has to choose.
func (st *state) defaultProvider() *relyingParty {
	if len(st.providers) == 1 {
		return st.providers[0]
	}
	return st.provider(st.config.Delegated.DefaultProvider)
}

// buildVouching makes the state's providers and trusted issuers.
func (g *Gateway) buildVouching(st, old *state) error {
	var before vouching
	if old != nil {
		before = old.vouching
	}
	if err := g.buildTrusting(st, &before); err != nil {
		return err
	}
	if len(st.config.Providers) == 0 {
		return nil
	}
	st.cookies.Delegated, st.cookies.Browser = st.config.Delegated.Cookie, config.CookieLogin
	box, err := storeBox(st.config)
	if err != nil {
		return err
	}
	byName := map[string]login.Provider{}
	for _, cfg := range st.config.Providers {
		party := &relyingParty{config: cfg, origin: st.config.PublicURL.String() + st.config.Endpoints.Prefix}
		if known := before.provider(cfg.Name); known != nil && known.origin == party.origin && reflect.DeepEqual(known.config, cfg) {
			party = known
		} else {
			party.Provider = provider.New(g.providerOptions(st, cfg))
		}
		st.providers = append(st.providers, party)
		byName[cfg.Name] = party
	}
	st.users = login.NewUsers(login.UsersOptions{
		Providers: byName, Lifetime: st.config.Delegated.Lifetime, Box: box, Now: g.now, Report: g.reportRenewal,
	}, st.logins)
	st.delegated = login.NewDelegatedSessions(st.users)
	st.attempts = login.NewAttempts(st.store, box, g.shared)
	return nil
}

func (g *Gateway) buildTrusting(st *state, before *vouching) error {
	var issuers []login.TrustedIssuer
	for _, cfg := range st.config.Token.TrustedIssuers {
		server := &resourceServer{config: cfg}
		for _, known := range before.issuers {
			if reflect.DeepEqual(known.config, cfg) {
				server = known
			}
		}
		if server.Trusted == nil {
			server.Trusted = provider.NewTrusted(g.trustedOptions(cfg))
		}
		st.issuers = append(st.issuers, server)
		issuers = append(issuers, login.TrustedIssuer{Name: cfg.Name, Opaque: cfg.Introspection != nil, TokenIssuer: server})
	}
	var outside *login.TrustedTokens
	if len(issuers) > 0 {
		var err error
		if outside, err = login.NewTrustedTokens(issuers, st.logins, g.now); err != nil {
			return fmt.Errorf("token.trusted_issuers: %w", err)
		}
	}
	st.bearers = login.NewBearerTokens(st.bearer, outside)
	return nil
}

// storeBox seals what the store holds of providers' tokens, with the key of
// the configuration or one that is generated once.
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

func (g *Gateway) providerOptions(st *state, cfg config.Provider) provider.Options {
	return provider.Options{
		Name: cfg.Name, Issuer: cfg.Issuer,
		ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret.Reveal(), AuthMethod: cfg.TokenEndpointAuthMethod,
		Scopes: cfg.Scopes, AuthorizationParams: cfg.AuthorizationParams,
		RolesClaim: cfg.RolesClaim, UsernameClaim: cfg.UsernameClaim, SubjectClaim: cfg.SubjectClaim,
		RedirectURL:   st.config.PublicURL.String() + st.own(cfg.Callback),
		PostLogoutURL: st.config.PublicURL.String() + "/",
		LogoutURL:     cfg.LogoutURL, Logout: cfg.Logout,
		Timeout: cfg.Timeout,
		Endpoints: provider.Endpoints{
			Authorization: cfg.AuthorizationURL, Token: cfg.TokenURL, Userinfo: cfg.UserinfoURL, Keys: cfg.JWKSURL,
		},
		Now: g.now, Logger: g.logger, Observe: g.metrics.observeProvider(cfg.Name),
	}
}

func (g *Gateway) trustedOptions(cfg config.TrustedIssuer) provider.TrustedOptions {
	o := provider.TrustedOptions{
		Issuer: cfg.Issuer, Audience: cfg.Audience, Algorithms: cfg.Algorithms,
		RolesClaim: cfg.RolesClaim, UsernameClaim: cfg.UsernameClaim,
		Timeout: cfg.Timeout,
		Now:     g.now, Logger: g.logger, Observe: g.metrics.observeProvider(cfg.Name),
	}
	if in := cfg.Introspection; in != nil {
		o.Introspection = &provider.Introspection{URL: in.URL, ClientID: in.ClientID, ClientSecret: in.ClientSecret.Reveal()}
	}
	return o
}

// reportRenewal tells operators that the tokens of a provider could not be
// refreshed, and whether the provider thereby ended the login.
func (g *Gateway) reportRenewal(login *login.Login, ended bool, err error) {
	attrs := []any{
		slog.String("subject", login.Subject()), slog.String("login", login.ID), slog.String("error", err.Error()),
	}
	if ended {
		g.logger.Info("audit", append([]any{slog.String("event", "login_ended_by_provider")}, attrs...)...)
		return
	}
	g.logger.Warn("refreshing a provider's tokens failed; the login goes on with what is known", attrs...)
}

// observeProvider returns what measures the calls to a provider.
func (m *metrics) observeProvider(name string) func(operation string, took time.Duration, err error) {
	return func(operation string, took time.Duration, err error) {
		result := "success"
		switch {
		case errors.Is(err, provider.ErrTimeout):
			result = "timeout"
		case errors.Is(err, provider.ErrRefused), errors.Is(err, provider.ErrInvalid):
			result = "refused"
		case err != nil:
			result = "failure"
		}
		m.providerDuration.WithLabelValues(name, operation, result).Observe(took.Seconds())
	}
}

// close ends the background work of what but has not taken over.
func (v *vouching) close(but *vouching) {
	for _, p := range v.providers {
		if kept := but.provider(p.Name()); kept == nil || kept.Provider != p.Provider {
			p.Close()
		}
	}
	for _, t := range v.issuers {
		kept := false
		for _, other := range but.issuers {
			kept = kept || other.Trusted == t.Trusted
		}
		if !kept {
			t.Close()
		}
	}
}
