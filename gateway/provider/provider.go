// Package provider is one identity provider as its relying party sees it
// (OpenID Connect Core 1.0, OAuth 2.0), and one outside token issuer as a
// resource server sees it.
//
// golang.org/x/oauth2 and go-oidc do the protocol. Around them stands what
// they leave to their users: a cache of discovery and keys with limits,
// checks of the tokens' form, the profile that is made of claims, the ways to
// log out, and introspection.
//
// # A login
//
//	AuthorizationURL ── browser ── CheckIssuer ── Exchange ─┬─ token endpoint ── ID token ── userinfo ── Profile
//	                                              Refresh  ─┘
//
// State, nonce and verifier are the caller's to make, keep, and compare.
// Nothing here remembers a login or a token.
//
// # Limits
//
// Nothing is asked before it is needed. However many need metadata or keys at
// once, they are fetched once, and old ones serve while they are renewed:
// metadata after an hour, keys after ten minutes and never for longer than an
// hour. Each call has the configured time, each answer 1 MiB after
// decompression, and no redirect is followed. A kid that is not known leads to
// a fetch of the keys, three at once and then one each ten seconds; for that
// long a new key may be refused, after somebody has sent made-up ones.
//
// # Threats
//
// A provider may be wrong, broken or hostile to this gateway's other
// providers, and a token may come from anybody. So a token is verified by a
// key of its issuer that its kid names without doubt, with an asymmetric
// algorithm, and read in one meaning alone; keys and addresses in the token
// count for nothing. The ID token, userinfo and the login that is refreshed
// must be about the same subject. An address that the provider calls
// unverified is nobody's, not even as the name of a user. What is said of
// roles in a form that is not understood is an error, not no roles. Errors
// never hold tokens, codes or secrets, even those that a provider sends back.
//
// What is not defended against: a provider lies about its own users; that is
// what it is trusted with.
package provider

import (
	"log/slog"
	"net/http"
	"time"
)

// Options is everything that a Provider needs to know. It comes from the
// configuration.
type Options struct {
	Name         string // of the provider in the configuration
	Issuer       string // exact issuer identifier; may be empty only for a provider without OpenID Connect (see Endpoints)
	ClientID     string
	ClientSecret string // empty: a public client, PKCE alone

	// AuthMethod is client_secret_basic or client_secret_post (OpenID Connect
	// Core 1.0, section 9). Empty: the one that is announced, and basic where
	// none is (RFC 8414, section 2).
	AuthMethod          string
	Scopes              []string
	AuthorizationParams map[string]string // further parameters of the authorization request

	RolesClaim    string // a dotted path; empty: no roles
	UsernameClaim string // a dotted path; empty: the e-mail address, else sub
	SubjectClaim  string // default sub; another only without OpenID Connect

	RedirectURL   string // redirect_uri
	PostLogoutURL string // post_logout_redirect_uri; may be empty
	LogoutURL     string // instead of the announced end_session_endpoint
	Logout        string // auto, form, revoke or redirect; empty: auto

	Timeout   time.Duration     // of each call to the provider, body included; 0: 10 s
	Endpoints Endpoints         // given by hand; the zero value means discovery
	Trusted   http.RoundTripper // transport of every call; nil: one of the package's own

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: none

	// Observe is told of each call: discovery, keys, token, userinfo, logout or
	// introspection. It may be called by several goroutines at once, and be nil.
	Observe func(operation string, took time.Duration, err error)
}

// Endpoints of a provider without discovery. Without Keys it is one of plain
// OAuth 2.0, as GitHub: there is no ID token, and userinfo tells who it is.
type Endpoints struct{ Authorization, Token, Userinfo, Keys string }

// Provider is one identity provider. It is safe for concurrent use.
type Provider struct {
	*issuer
	options Options
	mapping mapping
}

// Attempt holds the secrets of one attempt to log in: state (RFC 6749, section
// 10.12), nonce (OpenID Connect Core 1.0, section 3.1.2.1) and code verifier
// (RFC 7636).
type Attempt struct{ State, Nonce, Verifier string }

// Grant is what a login or a refresh yields.
type Grant struct {
	Profile Profile
	Tokens  Tokens
	Session string // the provider's sid; may be empty
}

// New makes a Provider. It never touches the network.
func New(o Options) *Provider {
	if o.SubjectClaim == "" {
		o.SubjectClaim = "sub"
	}
	i := newIssuer(o.Issuer, connection{
		name: o.Name, timeout: o.Timeout, transport: o.Trusted, now: o.Now, logger: o.Logger, observe: o.Observe,
	}, "authorization_endpoint", "token_endpoint", "jwks_uri")
	if o.Endpoints != (Endpoints{}) {
		i.given = &metadata{
			Authorization: o.Endpoints.Authorization, Token: o.Endpoints.Token,
			Userinfo: o.Endpoints.Userinfo, Keys: o.Endpoints.Keys,
		}
		if o.Endpoints.Keys != "" {
			i.given.keys = i.newKeySet(o.Endpoints.Keys)
		}
	}
	return &Provider{issuer: i, options: o, mapping: mapping{roles: o.RolesClaim, username: o.UsernameClaim, logger: i.logger}}
}

// Close stops renewals, retries and calls that several share, and closes idle
// connections. It is for when nobody uses the Provider any more: a login that
// still needs metadata or keys fails.
func (p *Provider) Close() { p.close() }

// Name is the provider's name in the configuration.
func (p *Provider) Name() string { return p.options.Name }

// Issuer is the provider's issuer identifier. It may be empty.
func (p *Provider) Issuer() string { return p.options.Issuer }

// openID reports whether the provider issues ID tokens.
func (p *Provider) openID() bool { return p.given == nil || p.given.Keys != "" }

// fault is the error for what the provider did wrong.
func (p *Provider) fault(operation string, err error) error {
	return fail(p.options.Name, operation, ErrFault, err)
}
