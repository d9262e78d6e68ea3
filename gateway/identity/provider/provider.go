// Package provider is the client of one identity provider (OpenID Connect Core
// 1.0, OAuth 2.0), and verifies the access tokens of one outside issuer.
//
// golang.org/x/oauth2 and go-oidc make authorization requests and read metadata, and golang-jwt
// verifies signatures. This package adds a bounded cache of metadata and keys, rules for tokens,
// and token answers as providers write them. It also adds the profile made from claims, the methods
// of logging out, and introspection.
//
// # Three kinds of answers
//
// At a renewal the package tells three outcomes apart. An answer ends the login (ErrEnded), or it
// says less than before (a Grant, whose Said has each source by itself), or there is none (any
// other error).
//
// # A login
//
//	AuthorizationURL ── browser ── CheckIssuer ── Exchange ─┬─ token endpoint ── ID token ── userinfo ── Profile
//	                                              Refresh  ─┘
//
// The caller creates, stores and compares state, nonce and verifier. The package
// stores no login and no token.
//
// # Limits
//
// The package calls a provider only when it needs an answer. Concurrent callers
// share one request for metadata or keys. While these are renewed, the old ones
// are used: metadata is renewed after an hour; keys are renewed after ten minutes
// and used for an hour at most. Each call ends after the configured time, an
// answer has at most 1 MiB after decompression, and redirects are not followed. A
// token with an unknown kid causes a request for the keys, and so does one without kid
// whose signature does not verify: at most three at once and then one in ten seconds.
// So after an attacker has sent tokens with invented kids, a new key may be refused
// for that long.
//
// # Threats
//
// A provider may be wrong, broken or hostile to the other providers, and anyone
// can send a token. So a token must be signed with an asymmetric algorithm by the
// one key of its issuer that has its kid, and must have only one meaning. Keys and
// addresses in the token are ignored. The ID token, userinfo and the refreshed
// login must name the same subject. An address that the provider calls unverified
// is not used, not even as a user name. A claim that cannot be used counts as absent.
// Errors never contain tokens, codes or secrets, even if a provider sends them
// back.
//
// The package trusts a provider to tell the truth about its own users.
package provider

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"time"

	"authgate/policy"
)

// Options configure a Provider.
type Options struct {
	Name   string // of the provider in the configuration
	Issuer string // exact issuer identifier; may be empty only for a provider without OpenID Connect (see Endpoints)
	Client Client
	Scopes []string

	AuthorizationParams map[string]string // further parameters of the authorization request

	TwoFactors TwoFactors
	StepUpACR  string // acr_values of a request for two factors; empty: none

	Mapping      Mapping
	SubjectClaim string // default sub; another one only without OpenID Connect

	RedirectURL   string // redirect_uri
	PostLogoutURL string // post_logout_redirect_uri; may be empty
	LogoutURL     string // instead of the announced end_session_endpoint
	Logout        string // auto, form, revoke or redirect; empty: auto

	Endpoints  Endpoints // instead of discovery, unless it is the zero value
	Connection           // to the provider
}

// Client is the gateway's registration at a provider.
type Client struct {
	ID     string
	Secret string // empty: a public client, which uses PKCE only

	// AuthMethod is client_secret_basic or client_secret_post (OpenID Connect
	// Core 1.0, section 9). Empty means an announced one, or basic if none is
	// announced (RFC 8414, section 2).
	AuthMethod string
}

// Mapping names the claims that a profile is made from, as dotted paths (see
// policy.LookupClaim).
type Mapping struct {
	Roles    string // empty: no roles
	Username string // empty: the email address, else sub
}

// Connection is how an issuer is called. The zero value can be used.
type Connection struct {
	Timeout   time.Duration     // of each call, body included; 0: 10 s
	Transport http.RoundTripper // of every call; nil: one of the package's own
	Roots     *x509.CertPool    // of the issuer's certificate; nil: those of the system. Transport has its own
	Now       func() time.Time  // nil: time.Now
	Logger    *slog.Logger      // nil: none

	// Observe is called after each call: discovery, keys, token, userinfo, logout
	// or introspection. It may be nil, and must be safe for concurrent use.
	Observe func(operation string, took time.Duration, err error)
}

// Endpoints are those of a provider without discovery. Without Keys, the provider
// has OAuth 2.0 only, as GitHub has: there is no ID token, and userinfo names the
// user.
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
type Attempt struct {
	State, Nonce, Verifier string
	// Another asks the provider for credentials even if the user has a session there
	// (OpenID Connect Core 1.0, section 3.1.2.1), so that they can take another account.
	Another bool `json:"-"`
	// Hint tells the provider which user is expected (login_hint); may be empty.
	Hint string `json:"-"`
	// Demand is the proof that this login needs. The provider is asked for it; whether the Proof of
	// the grant meets it is for the caller to find out.
	Demand policy.Demand `json:"demand,omitzero"`
	// Wish is asked of the provider, too. The login may have proved less, or a session at the
	// provider may answer.
	Wish policy.Demand `json:"-"`
}

// Grant is the result of a login or a refresh.
type Grant struct {
	Tokens Tokens
	Said   Said // what the profile is made of

	// Of a login.
	Profile Profile
	Session string // the provider's sid; may be empty
	Proof   policy.Proof

	// Before has the claims of the ID token that the login had before a refresh. It counts if
	// nothing else is known.
	Before Said
}

// New returns a Provider. It does not use the network.
func New(o Options) *Provider {
	if o.SubjectClaim == "" {
		o.SubjectClaim = "sub"
	}
	i := newIssuer(o.Issuer, o.Name, o.Connection, "authorization_endpoint", "token_endpoint", "jwks_uri")
	if o.Endpoints != (Endpoints{}) {
		i.needed = []string{"authorization_endpoint", "token_endpoint"}
		i.given = &metadata{
			Authorization: o.Endpoints.Authorization, Token: o.Endpoints.Token,
			Userinfo: o.Endpoints.Userinfo, Keys: o.Endpoints.Keys,
		}
		if o.Endpoints.Keys != "" {
			i.given.keys = i.newKeySet(o.Endpoints.Keys)
		}
	}
	return &Provider{issuer: i, options: o, mapping: mapping{o.Mapping, i.logger}}
}

// Close stops renewals, retries and shared calls, and closes idle connections.
// After it, a login that still needs metadata or keys fails.
func (p *Provider) Close() { p.close() }

// Name returns the provider's name in the configuration.
func (p *Provider) Name() string { return p.options.Name }

// Issuer returns the provider's issuer identifier. It may be empty.
func (p *Provider) Issuer() string { return p.options.Issuer }

// openID reports whether the provider issues ID tokens.
func (p *Provider) openID() bool { return p.given == nil || p.given.Keys != "" }

// fault returns an error of the kind ErrFault.
func (p *Provider) fault(operation string, err error) error {
	return fail(p.options.Name, operation, ErrFault, err)
}
