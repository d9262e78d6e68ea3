package provider_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"authgate/internal/test/clocktest"
	"authgate/internal/test/logtest"
	"authgate/upstream/provider"
)

// The clients: shop has a secret that form-encoding changes, phone has none.
const (
	shopSecret    = "s3cret/+ %&="
	shopCallback  = "https://shop.example/callback"
	shopBye       = "https://shop.example/bye"
	phoneCallback = "https://phone.example/callback?tenant=a+b"

	state    = "state <&> of shop"
	nonce    = "nonce of shop"
	verifier = "a-verifier-of-43-characters-or-more-as-it-must-be"
)

// must returns value, where err would be a fault of the test.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// world is a provider that is served, with the clock that it goes by.
type world struct {
	t           *testing.T
	issuer      string
	provider    *provider.Provider
	clock       *clocktest.Clock
	log         logtest.Buffer
	shop, phone *client
}

func start(t *testing.T, change func(*provider.Options)) *world {
	t.Helper()
	listener := must(provider.Listen("127.0.0.1:0"))
	w := &world{t: t, issuer: "http://" + listener.Addr().String(), clock: clocktest.New()}
	o := provider.Options{Issuer: w.issuer, Now: w.clock.Now, Logger: slog.New(slog.NewJSONHandler(&w.log, nil)), Clients: []provider.Client{
		{ID: "shop", Secret: shopSecret, RedirectURIs: []string{shopCallback}, PostLogoutRedirectURIs: []string{shopBye}},
		{ID: "phone", RedirectURIs: []string{phoneCallback, shopCallback}},
	}}
	if change != nil {
		change(&o)
	}
	w.provider = must(provider.New(o))
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: w.provider}}
	server.Start()
	t.Cleanup(w.provider.Close)
	t.Cleanup(server.Close)
	w.shop, w.phone = w.client("shop", shopSecret, shopCallback), w.client("phone", "", phoneCallback)
	return w
}

// browser is one person's: it keeps cookies and follows redirects as long as
// they stay at the provider.
type browser struct{ *http.Client }

func (w *world) browser() browser {
	return browser{&http.Client{Jar: must(cookiejar.New(nil)), CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), w.issuer+"/") {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

// page is where a browser ended up.
type page struct {
	status int
	header http.Header
	body   string
	url    string     // of the page
	query  url.Values // of the client's URL that the browser was sent to; nil: it was not
	left   string     // that URL
}

func (b browser) do(r *http.Request) page {
	response := must(b.Do(r))
	defer response.Body.Close()
	p := page{status: response.StatusCode, header: response.Header, body: string(must(io.ReadAll(response.Body))), url: response.Request.URL.String()}
	if target, err := response.Location(); err == nil {
		p.left, p.query = target.String(), target.Query()
	}
	return p
}

func (b browser) open(target string) page { return b.do(request("GET", target, nil)) }

func request(method, target string, form url.Values) *http.Request {
	r := must(http.NewRequest(method, target, strings.NewReader(form.Encode())))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

func (p page) asksPassword() bool { return strings.Contains(p.body, `name="password"`) }

// signIn opens a URL and fills in the sign-in page, if that is shown.
func (b browser) signIn(target, username, password string) page {
	p := b.open(target)
	if p.asksPassword() {
		p = b.do(request("POST", p.url, url.Values{"username": {username}, "password": {password}}))
	}
	return p
}

// client is a relying party made of the libraries that many are made of.
type client struct {
	*world
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
}

func (w *world) client(id, secret, redirect string) *client {
	found := must(oidc.NewProvider(w.t.Context(), w.issuer))
	scopes := []string{"openid", "profile", "email", "address"} // the last one is unknown
	return &client{
		world: w, verifier: found.Verifier(&oidc.Config{ClientID: id, Now: w.clock.Now}),
		oauth: oauth2.Config{ClientID: id, ClientSecret: secret, Endpoint: found.Endpoint(), RedirectURL: redirect, Scopes: scopes},
	}
}

// url is that of an authorization request, with further parameters or others
// instead, in pairs.
func (c *client) url(pairs ...string) string {
	options := []oauth2.AuthCodeOption{oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)}
	for i := 0; i < len(pairs); i += 2 {
		options = append(options, oauth2.SetAuthURLParam(pairs[i], pairs[i+1]))
	}
	return c.oauth.AuthCodeURL(state, options...)
}

// code is one for alice, who may be signed in already.
func (c *client) code(b browser, pairs ...string) string {
	return b.signIn(c.url(pairs...), "alice", "wonderland").query.Get("code")
}

func (c *client) exchange(code string) (*oauth2.Token, error) {
	return c.oauth.Exchange(c.t.Context(), code, oauth2.VerifierOption(verifier))
}

// login is a whole login of alice.
func (c *client) login(b browser) *oauth2.Token { return must(c.exchange(c.code(b))) }

func rawIDToken(token *oauth2.Token) string { return token.Extra("id_token").(string) }

// idToken returns the claims of a verified ID token.
func (c *client) idToken(token *oauth2.Token) (claims map[string]any) {
	verified := must(c.verifier.Verify(c.t.Context(), rawIDToken(token)))
	if err := errors.Join(verified.Claims(&claims), verified.VerifyAccessToken(token.AccessToken)); err != nil {
		c.t.Error(err)
	}
	return claims
}

// userinfo returns nil for an access token that opens nothing.
func (c *client) userinfo(access string) (claims map[string]any) {
	r := request("GET", c.issuer+"/userinfo", nil)
	r.Header.Set("Authorization", "Bearer "+access)
	if p := c.browser().do(r); p.status == 200 {
		claims = p.json()
	}
	return claims
}

func (p page) json() (object map[string]any) {
	_ = json.Unmarshal([]byte(p.body), &object) // what is no object is nil
	return object
}

func (c *client) wantOpens(what string, token *oauth2.Token, want bool) {
	c.t.Helper()
	if got := c.userinfo(token.AccessToken) != nil; got != want {
		c.t.Errorf("%s: the access token opens userinfo: %t, want %t", what, got, want)
	}
}

func (c *client) refresh(token string) (*oauth2.Token, error) {
	return c.oauth.TokenSource(c.t.Context(), &oauth2.Token{RefreshToken: token}).Token()
}

// fetch sends a form with the client's authentication.
func (c *client) fetch(path string, form url.Values) page {
	if c.oauth.ClientSecret == "" {
		form.Set("client_id", c.oauth.ClientID)
	}
	r := request("POST", c.issuer+path, form)
	if c.oauth.ClientSecret != "" {
		r.SetBasicAuth(url.QueryEscape(c.oauth.ClientID), url.QueryEscape(c.oauth.ClientSecret))
	}
	return c.browser().do(r)
}

// wantFailed fails the test unless the exchange or refresh of value is an
// invalid_grant.
func wantFailed(t *testing.T, what string, use func(string) (*oauth2.Token, error), value string) {
	t.Helper()
	_, err := use(value)
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); !ok || answer.ErrorCode != "invalid_grant" {
		t.Errorf("%s: %v, want invalid_grant", what, err)
	}
}

// wantRefused fails the test unless p is an error for a client (RFC 6749, section 5.2).
func wantRefused(t *testing.T, what string, p page, status int, code string) {
	t.Helper()
	answer, challenged := p.json(), p.header.Get("WWW-Authenticate") != ""
	if p.status != status || answer["error"] != code || answer["error_description"] == nil || p.header.Get("Cache-Control") != "no-store" || challenged != (status == 401) {
		t.Errorf("%s: %d %q, challenged %t, want %d %s", what, p.status, p.body, challenged, status, code)
	}
}
