package mechanism

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/config/issuers"
	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/identity/trusted"
	"authgate/gateway/login"
	"authgate/gateway/login/apitokens"
	"authgate/gateway/login/grants"
	"authgate/gateway/login/journey"
	"authgate/gateway/store/seal"
	"authgate/policy"
)

// Federation verifies the proofs of others for the gateway: logins at identity providers, and tokens
// of trusted issuers. Both hold things that must outlive a configuration, such as keys, so one
// configuration takes over the unchanged parts of another.
type Federation struct {
	Bearers *apitokens.Bearers // the gateway's own tokens, and those of trusted issuers

	// Without providers, the rest is nil.
	Providers []*Provider // in the order of the configuration
	Default   *Provider   // where GET /login goes without a choice; nil if the user has to choose
	Chosen    bool        // the configuration names Default
	Users     *login.Users
	Delegated *login.Sessions
	Attempts  *journey.Attempts

	issuers []*resourceServer // of trusted tokens
}

// Provider is an identity provider as users sign in there.
type Provider struct {
	*provider.Provider
	Identifier string        // its issuer; without OpenID Connect, where its tokens come from
	Title      string        // what users call it
	Timeout    time.Duration // of each call
	Callback   string        // the path of its redirect URI

	config issuers.Provider
	origin string // of the redirect URIs, with the prefix of own endpoints
}

// Issuer returns the identifier.
func (p *Provider) Issuer() string { return p.Identifier }

// resourceServer is the gateway as a recipient of the tokens of one issuer.
type resourceServer struct {
	*provider.Trusted
	config issuers.TrustedIssuer
}

// NewFederation makes the federation of a configuration, whose local mechanisms are
// given. It takes over the providers that are the same in running, the federation of the
// configuration that runs. running may be nil.
func NewFederation(o *Options, local *Local, running *Federation) (*Federation, error) {
	if running == nil {
		running = &Federation{}
	}
	cfg := o.Config
	providers, err := newProviders(o, running.Providers)
	if err != nil {
		return nil, err
	}
	trusting, err := newIssuers(o, running.issuers)
	if err != nil {
		return nil, err
	}
	f := &Federation{issuers: trusting, Providers: providers}
	f.Bearers = apitokens.NewBearers(local.API, login.NewBearerTokens(local.Bearer, newTrusted(f.issuers, o)),
		grants.ContainsOwn)
	if len(f.Providers) == 0 {
		return f, nil
	}
	box, err := seal.ForStore(cfg.Store.EncryptionKey.Reveal(), cfg.DataDir)
	if err != nil {
		return nil, err
	}
	byName := map[string]login.Provider{}
	for _, p := range f.Providers {
		byName[p.Name()] = p
	}
	f.Default, f.Chosen = f.Provider(cfg.Delegated.DefaultProvider), cfg.Delegated.DefaultProvider != ""
	if len(f.Providers) == 1 {
		f.Default = f.Providers[0]
	}
	f.Users = login.NewUsers(login.UsersOptions{
		Providers: byName, Lifetime: cfg.Delegated.Lifetime, Remember: cfg.Delegated.APITokens,
		Box: box, Now: o.LocalNow,
		Report: func(login *login.Login, ended bool, err error) { reportRenewal(o, login, ended, err) },
	}, local.Logins)
	local.API.ServeUsers(f.Users, cfg.Delegated.APITokens)
	f.Delegated = login.NewDelegatedSessions(f.Users)
	f.Attempts = journey.NewAttempts(o.Store, box, o.Now)
	return f, nil
}

// Authenticators returns the verifier of each mechanism's credentials.
func Authenticators(local *Local, f *Federation) map[policy.Mechanism]auth.Authenticator {
	return map[policy.Mechanism]auth.Authenticator{
		policy.Basic: local.Basic, policy.Bearer: f.Bearers, policy.Session: local.Sessions,
		policy.OIDC: f.Delegated, policy.Certificate: local.Certificates,
	}
}

// Provider returns the provider of that name, nil if there is none.
func (f *Federation) Provider(name string) *Provider {
	for _, p := range f.Providers {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// Title returns the title of a provider, or its name where it has none.
func (f *Federation) Title(name string) string {
	if p := f.Provider(name); p != nil {
		return p.Title
	}
	return name
}

// Trusts reports whether tokens of a trusted issuer of that name are accepted.
func (f *Federation) Trusts(name string) bool {
	return slices.ContainsFunc(f.issuers, func(i *resourceServer) bool {
		return i.config.Name == name && i.config.Opens()
	})
}

// Described returns the identity of a token of a trusted issuer with these claims, as Bearers does for a
// signed one. The error is an *auth.Rejection.
func (f *Federation) Described(issuer string, claims map[string]any) (*policy.Identity, error) {
	if !f.Trusts(issuer) {
		return nil, trusted.Rejected(fmt.Sprintf("the trusted issuer %q has no audience, so its tokens open no route",
			issuer))
	}
	at := slices.IndexFunc(f.issuers, func(i *resourceServer) bool { return i.config.Name == issuer })
	access, err := f.issuers[at].Describe(claims)
	if err != nil {
		return nil, trusted.Rejected(err.Error())
	}
	return access.Identity(issuer), nil
}

// SignOut signs out at the identity provider of a login that has ended here. It
// returns where a browser must go for that, "" if nowhere.
func (f *Federation) SignOut(ctx context.Context, ended *login.Login) (redirect string, err error) {
	if ended.Delegated == nil {
		return "", nil
	}
	p := f.Provider(ended.Delegated.Provider)
	if p == nil || p.Issuer() != ended.Delegated.Issuer {
		return "", nil
	}
	tokens, err := f.Users.Tokens(ended)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	return p.Logout(ctx, tokens)
}

// Overview returns the users' overview of their logins.
func Overview(local *Local, federation *Federation) *login.Overview {
	return &login.Overview{
		Logins: local.Logins, Accounts: local.Accounts, Sessions: local.Sessions,
		Users: federation.Users, Delegated: federation.Delegated,
	}
}

// Origins returns where browsers are sent to sign in at the providers, as far as
// that is known.
func (f *Federation) Origins() []string {
	var origins []string
	for _, p := range f.Providers {
		if origin := p.AuthorizationOrigin(); origin != "" {
			origins = append(origins, origin)
		}
	}
	return origins
}

// newProviders returns the identity providers of a configuration, in its order. Those
// that are the same before are taken over.
func newProviders(o *Options, before []*Provider) ([]*Provider, error) {
	cfg := o.Config
	var providers []*Provider
	origin := cfg.PublicURL.String() + cfg.Endpoints.Prefix
	for _, p := range cfg.Providers {
		known := slices.IndexFunc(before, func(b *Provider) bool {
			return b.origin == origin && reflect.DeepEqual(b.config, p)
		})
		if known >= 0 {
			providers = append(providers, before[known])
			continue
		}
		options, err := providerOptions(o, &p)
		if err != nil {
			return nil, fmt.Errorf("providers[%s].trusted_roots: %w", p.Name, err)
		}
		made := &Provider{
			config: p, origin: origin,
			Provider:   provider.New(options),
			Identifier: p.Issuer, Title: p.Title, Timeout: p.Timeout,
			Callback: config.OwnPath(cfg.Endpoints.Prefix, p.Callback),
		}
		if p.Issuer == "" {
			made.Identifier = p.TokenURL
		}
		providers = append(providers, made)
	}
	return providers, nil
}

func providerOptions(o *Options, p *issuers.Provider) (provider.Options, error) {
	cfg := o.Config
	public, connection := cfg.PublicURL.String(), o.connectionTo(p.Name, p.Timeout)
	var err error
	if connection.Roots, err = p.Roots(); err != nil {
		return provider.Options{}, err
	}
	return provider.Options{
		Name: p.Name, Issuer: p.Issuer,
		Client: provider.Client{ID: p.ClientID, Secret: p.ClientSecret.Reveal(), AuthMethod: p.AuthMethod},
		Scopes: p.Scopes, AuthorizationParams: p.AuthorizationParams,
		Mapping: provider.Mapping{Roles: p.RolesClaim, Username: p.UsernameClaim}, SubjectClaim: p.SubjectClaim,
		RedirectURL:   public + config.OwnPath(cfg.Endpoints.Prefix, p.Callback),
		PostLogoutURL: public + "/",
		LogoutURL:     p.LogoutURL, Logout: p.Logout,
		TwoFactors: provider.TwoFactors{AMR: p.TwoFactors.AMR, ACR: p.TwoFactors.ACR}, StepUpACR: p.StepUp.ACRValues,
		Endpoints: provider.Endpoints{
			Authorization: p.AuthorizationURL, Token: p.TokenURL, Userinfo: p.UserinfoURL, Keys: p.JWKSURL,
		},
		Connection: connection,
	}, nil
}

// connectionTo returns how the provider or issuer of that name is called.
func (o *Options) connectionTo(name string, timeout time.Duration) provider.Connection {
	return provider.Connection{
		Timeout: timeout, Now: o.LocalNow, Logger: o.Logger, Observe: o.Observe(name),
	}
}

// newIssuers returns the trusted issuers of a configuration. Those that are the
// same before are taken over.
func newIssuers(o *Options, before []*resourceServer) ([]*resourceServer, error) {
	var issuers []*resourceServer
	for _, t := range o.Config.Token.TrustedIssuers {
		known := slices.IndexFunc(before, func(b *resourceServer) bool { return reflect.DeepEqual(b.config, t) })
		if known >= 0 {
			issuers = append(issuers, before[known])
			continue
		}
		options, err := trustedOptions(o, &t)
		if err != nil {
			return nil, err
		}
		issuers = append(issuers, &resourceServer{config: t, Trusted: provider.NewTrusted(options)})
	}
	return issuers, nil
}

func trustedOptions(o *Options, t *issuers.TrustedIssuer) (provider.TrustedOptions, error) {
	connection := o.connectionTo(t.Name, t.Timeout)
	var err error
	if connection.Roots, err = t.Roots(); err != nil {
		return provider.TrustedOptions{}, err
	}
	trusted := provider.TrustedOptions{
		Issuer: t.Issuer, Audience: t.Audience, Algorithms: t.Algorithms,
		Mapping: provider.Mapping{Roles: t.RolesClaim, Username: t.UsernameClaim},
		KeysURL: t.JWKSURL, CredentialFile: t.CredentialFile, Connection: connection,
	}
	if in := t.Introspection; in != nil {
		client := provider.Client{ID: in.ClientID, Secret: in.ClientSecret.Reveal()}
		trusted.Introspection = &provider.Introspection{URL: in.URL, Client: client}
	}
	return trusted, nil
}

// newTrusted returns the verifier of tokens of trusted issuers that open routes, nil if there are none.
func newTrusted(issuers []*resourceServer, o *Options) *trusted.Tokens {
	var all []trusted.Issuer
	for _, i := range issuers {
		if !i.config.Opens() {
			continue
		}
		all = append(all, trusted.Issuer{
			Name: i.config.Name, Opaque: i.config.Introspection != nil, Verifier: i,
		})
	}
	if len(all) == 0 {
		return nil
	}
	return trusted.New(all, o.Store, o.Now, o.LocalNow)
}

// reportRenewal logs that a login could not be renewed at its provider, or not in all
// parts, and whether this ended the login.
func reportRenewal(o *Options, login *login.Login, ended bool, err error) {
	attrs := []slog.Attr{
		slog.String("subject", login.Subject()), slog.String("login", login.ID), slog.String("error", err.Error()),
	}
	if ended {
		o.Events.Record("login_ended_by_provider", attrs...)
		return
	}
	if errors.Is(err, provider.ErrClient) {
		o.Logger.LogAttrs(context.Background(), slog.LevelError,
			"the provider does not accept the gateway as its client; logins go on and roles get old "+
				"until client_id, client_secret and token_endpoint_auth_method are right",
			attrs...)
		return
	}
	o.Logger.LogAttrs(context.Background(), slog.LevelWarn,
		"refreshing a provider's tokens failed; the login goes on with what is known", attrs...)
}

// Unused returns functions that end the background work of everything that kept does not use.
func (f *Federation) Unused(kept *Federation) (closes []func()) {
	for _, p := range f.Providers {
		if !slices.Contains(kept.Providers, p) {
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
