// Package provider is a small OpenID provider for the demonstration and for
// tests: people sign in at a page of it, and clients get tokens by the
// authorization code flow (OpenID Connect Core 1.0 on OAuth 2.0, RFC 6749).
//
// It does what the gateway asks of a provider: discovery, PKCE (RFC 7636,
// always S256), the parameter iss in its answers (RFC 9207), userinfo, refresh
// tokens that are used once, revocation (RFC 7009), introspection (RFC 7662),
// logout in the form of Keycloak and as RP-Initiated Logout 1.0, and
// Back-Channel Logout 1.0. Who signs in once is signed in for every client,
// and no client's wishes are put to them for consent.
//
// # Limits and threats
//
// It is not for production. Its passwords are in the source of whoever uses
// it and are kept in clear, nothing slows down guessing, it speaks plain HTTP,
// its key and everybody's sessions are gone when it stops, and nobody is asked
// whether a client may know them. So it works on loopback alone: [Listen] opens
// no other address, and a [Provider] refuses a request that came in by one,
// however it is served. A request for another host than the issuer's is
// refused too, which keeps web sites from reaching it under names of theirs.
//
// Within that it means to be correct, since a gateway that gets along with a
// lax provider proves nothing: a redirect URI is one that was registered to
// the byte, a code or refresh token that comes twice ends everything that came
// from it, and all that it keeps is bounded.
package provider

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/go-jose/go-jose/v4"
)

// What it keeps and reads at most. Above, the oldest is forgotten.
const (
	maxSessions = 1000
	maxHandles  = 10000 // codes, refresh tokens, access tokens: of each
	maxRequest  = 16 << 10
)

// Provider is an OpenID provider. It serves its issuer as an http.Handler and
// keeps everything in memory.
type Provider struct {
	options Options
	host    string // of the issuer
	clients map[string]*Client
	users   map[string]*User
	key     *rsa.PrivateKey
	keys    jose.JSONWebKeySet
	pages   *pages
	mux     *http.ServeMux
	notices *notices

	mu       sync.Mutex // of all below
	sessions *shelf[*session]
	grants   *shelf[*grant]
	codes    *shelf[*code]
	refresh  *shelf[*refreshToken]
	access   *shelf[*accessToken]
}

// New makes a provider and its signing key. The error names what is wrong with
// the options. Close must be called once no more requests are served.
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
		sessions: newShelf[*session](maxSessions, o.Now),
		grants:   newShelf[*grant](maxHandles, o.Now),
		codes:    newShelf[*code](maxHandles, o.Now),
		refresh:  newShelf[*refreshToken](maxHandles, o.Now),
		access:   newShelf[*accessToken](maxHandles, o.Now),
		notices:  newNotices(o.HTTPClient, o.Logger),
	}
	for _, c := range o.Clients {
		p.clients[c.ID] = &c
	}
	for _, u := range o.Users {
		p.users[u.Username] = &u
	}
	if p.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return nil, fmt.Errorf("provider: making a key: %w", err)
	}
	if p.keys, err = publicKeys(p.key); err != nil {
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
	mux.HandleFunc("GET "+pathKeys, p.jwks)
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

// ServeHTTP implements http.Handler. A request that did not come in by a
// loopback address is answered 403, one for another host than the issuer's 421.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	switch {
	case !cameByLoopback(r):
		http.Error(w, "This provider is for demonstrations and serves loopback addresses alone.", http.StatusForbidden)
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

// Close gives up logout tokens that are still on their way and waits for that.
func (p *Provider) Close() { p.notices.close() }
