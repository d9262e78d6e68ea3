package provider_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"authgate/gateway/clocktest"
	"authgate/upstream/provider"
)

// world is a provider that is served, with the clock that it goes by.
type world struct {
	t        *testing.T
	issuer   string
	provider *provider.Provider
	clock    *clocktest.Clock
}

// The clients: shop has a secret that form-encoding changes, phone has none.
const (
	shopSecret    = "s3cret/+ %&="
	shopCallback  = "https://shop.example/callback"
	shopBye       = "https://shop.example/bye"
	phoneCallback = "https://phone.example/callback?tenant=a+b"
)

func start(t *testing.T, change func(*provider.Options)) *world {
	t.Helper()
	listener, err := provider.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, issuer: "http://" + listener.Addr().String(), clock: clocktest.New()}
	o := provider.Options{
		Issuer: w.issuer,
		Clients: []provider.Client{
			{ID: "shop", Secret: shopSecret, RedirectURIs: []string{shopCallback}, PostLogoutRedirectURIs: []string{shopBye}},
			{ID: "phone", RedirectURIs: []string{phoneCallback, shopCallback}},
		},
		Now: w.clock.Now,
	}
	if change != nil {
		change(&o)
	}
	if w.provider, err = provider.New(o); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: w.provider}
	go func() { _ = server.Serve(listener) }() // until Close
	t.Cleanup(func() {
		server.Close()
		w.provider.Close()
	})
	return w
}

// browser is one person's: it keeps cookies and follows redirects as long as
// they stay at the provider.
type browser struct {
	t      *testing.T
	client *http.Client
}

func (w *world) browser() *browser {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &browser{w.t, &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
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

func (b *browser) do(r *http.Request) page {
	b.t.Helper()
	response, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	p := page{status: response.StatusCode, header: response.Header, body: string(body), url: response.Request.URL.String()}
	if target, err := response.Location(); err == nil {
		p.left, p.query = target.String(), target.Query()
	}
	return p
}

func (b *browser) open(target string) page {
	b.t.Helper()
	return b.do(request(b.t, "GET", target, nil))
}

func (b *browser) post(target string, form url.Values) page {
	b.t.Helper()
	return b.do(request(b.t, "POST", target, form))
}

// signIn opens a URL that leads to the sign-in page and fills in its form.
func (b *browser) signIn(target, username, password string) page {
	b.t.Helper()
	form := b.open(target)
	if form.left != "" || !strings.Contains(form.body, `name="password"`) {
		b.t.Fatalf("no sign-in page but %d, sent to %q:\n%s", form.status, form.left, form.body)
	}
	return b.post(form.url, url.Values{"username": {username}, "password": {password}})
}

func request(t *testing.T, method, target string, form url.Values) *http.Request {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// client is a relying party made of the libraries that many are made of.
type client struct {
	t        *testing.T
	issuer   string
	oauth    oauth2.Config
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
}

func (w *world) client(id, secret, redirect string) *client {
	w.t.Helper()
	discovered, err := oidc.NewProvider(w.t.Context(), w.issuer)
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{
		t: w.t, issuer: w.issuer, provider: discovered,
		oauth: oauth2.Config{
			ClientID: id, ClientSecret: secret, Endpoint: discovered.Endpoint(), RedirectURL: redirect,
			Scopes: []string{"openid", "profile", "email"},
		},
		verifier: discovered.Verifier(&oidc.Config{ClientID: id, Now: w.clock.Now}),
	}
}

func (w *world) shop() *client {
	w.t.Helper()
	return w.client("shop", shopSecret, shopCallback)
}

func (w *world) phone() *client {
	w.t.Helper()
	return w.client("phone", "", phoneCallback)
}

const (
	state    = "state <&> of shop"
	nonce    = "nonce of shop"
	verifier = "a-verifier-of-43-characters-or-more-as-it-must-be"
)

// url is that of an authorization request, with further parameters or others
// instead, in pairs.
func (c *client) url(pairs ...string) string {
	options := []oauth2.AuthCodeOption{oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)}
	for i := 0; i < len(pairs); i += 2 {
		options = append(options, oauth2.SetAuthURLParam(pairs[i], pairs[i+1]))
	}
	return c.oauth.AuthCodeURL(state, options...)
}

func (c *client) exchange(code string) (*oauth2.Token, error) {
	return c.oauth.Exchange(c.t.Context(), code, oauth2.VerifierOption(verifier))
}

// login is a whole login of alice, for whom a browser may be signed in already.
func (c *client) login(b *browser) *oauth2.Token {
	c.t.Helper()
	p := b.open(c.url())
	if p.query == nil {
		p = b.post(p.url, url.Values{"username": {"alice"}, "password": {"wonderland"}})
	}
	token, err := c.exchange(p.query.Get("code"))
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

func (c *client) idToken(token *oauth2.Token) *oidc.IDToken {
	c.t.Helper()
	raw, _ := token.Extra("id_token").(string)
	verified, err := c.verifier.Verify(c.t.Context(), raw)
	if err != nil {
		c.t.Fatal(err)
	}
	return verified
}

// opens reports whether an access token still opens userinfo.
func (c *client) opens(token *oauth2.Token) bool {
	c.t.Helper()
	_, err := c.provider.UserInfo(c.t.Context(), oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token.AccessToken}))
	if err != nil && !strings.Contains(err.Error(), "401") {
		c.t.Fatal(err)
	}
	return err == nil
}

func (c *client) refresh(token string) (*oauth2.Token, error) {
	return c.oauth.TokenSource(c.t.Context(), &oauth2.Token{RefreshToken: token}).Token()
}

// fetch sends a form as a client does and returns status, header and body.
func (c *client) fetch(path string, form url.Values) page {
	c.t.Helper()
	r := request(c.t, "POST", c.issuer+path, form)
	if c.oauth.ClientSecret != "" {
		r.SetBasicAuth(url.QueryEscape(c.oauth.ClientID), url.QueryEscape(c.oauth.ClientSecret))
	} else {
		form.Set("client_id", c.oauth.ClientID)
		r = request(c.t, "POST", c.issuer+path, form)
	}
	return (&browser{c.t, &http.Client{}}).do(r)
}

// patience bounds what never takes long, so that a hang fails a test.
const patience = 2 * time.Minute

// await is a context that ends if a test hangs.
func await(t *testing.T, atMost time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	t.Cleanup(cancel)
	return ctx
}
