// Package provider is a small OpenID provider for the demonstration and for
// tests. Users sign in at its page, and clients get tokens by the authorization
// code flow (OpenID Connect Core 1.0 on OAuth 2.0, RFC 6749).
//
// It has everything that the gateway uses: discovery, PKCE (RFC 7636, always
// S256), the parameter iss in answers (RFC 9207), userinfo, refresh tokens that
// work once, revocation (RFC 7009), introspection (RFC 7662), logout as in
// Keycloak and as RP-Initiated Logout 1.0, and Back-Channel Logout 1.0. A
// signed-in user is signed in for every client. There is no consent page.
//
// # Limits and threats
//
// It is not for production. Its passwords are in the source code and in memory
// in the clear. Nothing slows down guessing. It speaks plain HTTP. Its key and
// sessions are gone when it stops. So it works only on loopback: [Listen] opens
// no other address, and a [Provider] refuses a request that arrived at another
// address, whatever serves it. It also refuses requests for a host other than
// the issuer's, so that web sites cannot reach it under their own names.
//
// Within these limits it follows the standards strictly, because a lax provider
// would prove nothing about the gateway. Redirect URIs match exactly. A second
// use of a code or refresh token ends everything that came from it. All its
// memory is bounded.
package provider

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
)

// Limits of memory and requests. Over the limit, the oldest entry is removed.
const (
	maxSessions = 1000
	maxHandles  = 10000 // each of codes, refresh tokens, access tokens
	maxRequest  = 16 << 10
)

// Provider is an OpenID provider. It is an http.Handler for its issuer and keeps
// everything in memory.
type Provider struct {
	options Options
	host    string // of the issuer
	clients map[string]*Client
	users   map[string]*User
	signer  *signer
	pages   *pages
	mux     *http.ServeMux
	notices *notices

	mu       sync.Mutex // guards the fields below
	sessions *expiringMap[*session]
	grants   *expiringMap[*grant]
	codes    *expiringMap[*code]
	refresh  *expiringMap[*refreshToken]
	access   *expiringMap[*accessToken]
}

// New returns a provider with a new signing key. It returns an error if the
// options have a mistake. Call Close after the last request.
func New(o Options) (*Provider, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	o.complete()
	issuer, err := url.Parse(o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("provider: issuer: %w", err)
	}
	p := &Provider{
		options: o, host: issuer.Host,
		clients: map[string]*Client{}, users: map[string]*User{},
		sessions: newExpiringMap[*session](maxSessions, o.Now),
		grants:   newExpiringMap[*grant](maxHandles, o.Now),
		codes:    newExpiringMap[*code](maxHandles, o.Now),
		refresh:  newExpiringMap[*refreshToken](maxHandles, o.Now),
		access:   newExpiringMap[*accessToken](maxHandles, o.Now),
		notices:  newNotices(o.HTTPClient, o.Logger),
	}
	for _, c := range o.Clients {
		p.clients[c.ID] = &c
	}
	for _, u := range o.Users {
		p.users[u.Username] = &u
	}
	if p.signer, err = newSigner(&p.options); err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	if p.pages, err = newPages(); err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	p.mux = p.routes()
	return p, nil
}

// The paths of the endpoints, as the discovery document names them.
const (
	pathDiscovery     = "/.well-known/openid-configuration"
	pathKeys          = "/jwks"
	pathAuthorization = "/authorize"
	pathSignIn        = "/signin"
	pathToken         = "/token"
	pathUserinfo      = "/userinfo"
	pathRevocation    = "/revoke"
	pathIntrospection = "/introspect"
	pathLogout        = "/logout"
)

func (p *Provider) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.home)
	mux.HandleFunc("GET "+pathDiscovery, p.metadata)
	mux.HandleFunc("GET "+pathKeys, p.signer.jwks)
	mux.HandleFunc("GET "+pathAuthorization, p.authorize)
	mux.HandleFunc("POST "+pathAuthorization, p.authorize)
	mux.HandleFunc("GET "+pathSignIn, p.showSignIn)
	mux.Handle("POST "+pathSignIn, http.NewCrossOriginProtection().Handler(http.HandlerFunc(p.signIn)))
	mux.HandleFunc("POST "+pathToken, p.token)
	mux.HandleFunc("GET "+pathUserinfo, p.userinfo)
	mux.HandleFunc("POST "+pathUserinfo, p.userinfo)
	mux.HandleFunc("POST "+pathRevocation, p.revoke)
	mux.HandleFunc("POST "+pathIntrospection, p.introspect)
	mux.HandleFunc("GET "+pathLogout, p.logout)
	mux.HandleFunc("POST "+pathLogout, p.logout)
	mux.HandleFunc("HEAD "+pathLogout, noHead)
	return mux
}

// ServeHTTP implements http.Handler. It answers 403 to a request that did not
// arrive at a loopback address, and 421 to a request for another host than the
// issuer's.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	switch {
	case !cameByLoopback(r):
		http.Error(w, "This provider is for demonstrations and serves only loopback addresses.", http.StatusForbidden)
	case r.Host != p.host:
		http.Error(w, "This provider is "+p.options.Issuer+" and has no other name.", http.StatusMisdirectedRequest)
	case len(r.URL.RawQuery) > maxRequest:
		http.Error(w, "The query is too long.", http.StatusRequestURITooLong)
	case malformed(r.URL.RawQuery):
		p.pages.failure(w, http.StatusBadRequest, "The query of the address is malformed.")
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		p.mux.ServeHTTP(w, r)
	}
}

func malformed(query string) bool {
	_, err := url.ParseQuery(query)
	return err != nil
}

// Close cancels deliveries of logout tokens and waits for them.
func (p *Provider) Close() { p.notices.close() }
