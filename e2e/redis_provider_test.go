package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"authgate/upstream/provider"
)

// startDelegatedPair is startPair with a provider, which knows the address of
// A alone, as it would know that of the service.
func startDelegatedPair(t *testing.T) (p *pair, issuer string) {
	t.Helper()
	listener, err := provider.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	issuer = "http://" + listener.Addr().String()
	redis := startRedis(t)
	p = &pair{a: prepared(t), b: prepared(t), up: record(t), redis: redis}
	p.b.public = p.a.base
	for _, g := range p.both() {
		g.configure(shared + "  - {match: /delegated-resource, upstream: app, auth: [oidc]}\n" + app(p.up.url) + onRedis(redis.Address) +
			"providers: [{name: demo, issuer: '" + issuer + "', client_id: pair, client_secret: s3cret}]\n")
	}
	p.a.run()
	p.b.run()
	served, err := provider.New(provider.Options{
		Issuer: issuer,
		Clients: []provider.Client{{
			ID: "pair", Secret: "s3cret", RedirectURIs: []string{p.a.base + "/callback"},
			BackchannelLogoutURI: p.a.base + "/backchannel-logout/demo",
		}},
		HTTPClient: p.a.stranger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(served)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(func() {
		server.Close()
		served.Close()
	})
	return p, issuer
}

// signInAtProvider begins a delegated login on one instance, and finishes it
// on another. It returns the session as a Cookie header.
func (p *pair) signInAtProvider(t *testing.T, c *http.Client, begun, finished *instance) string {
	t.Helper()
	authorization := begun.do(c, "GET", "/login", "").header.Get("Location")
	form := url.Values{"username": {"alice"}, "password": {passwords["alice"]}}
	response, err := c.PostForm(strings.Replace(authorization, "/authorize?", "/signin?", 1), form)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	callback, ours := strings.CutPrefix(response.Header.Get("Location"), p.a.base)
	if !ours {
		t.Fatalf("the provider: %d to %q", response.StatusCode, response.Header.Get("Location"))
	}
	a := finished.do(c, "GET", callback, "")
	if a.status != http.StatusFound || a.header.Get("Location") != "/" {
		t.Fatalf("the callback: %d to %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.Name == "session" {
			return "session=" + cookie.Value
		}
	}
	t.Fatal("there is no session")
	return ""
}

// TestRedisDelegated: a login at a provider is begun on A, finished on B, good
// on both, and ended on both by a logout token that A gets.
func TestRedisDelegated(t *testing.T) {
	t.Parallel()
	p, issuer := startDelegatedPair(t)
	c, strangers := p.browser(t), map[*instance]*http.Client{p.a: p.a.stranger(), p.b: p.b.stranger()}
	session := p.signInAtProvider(t, c, p.a, p.b)
	ask := func(g *instance) int {
		target := "/delegated-resource?n=" + newRequestID()
		got := g.status(strangers[g], "GET", target, "Cookie", session)
		if reached := len(p.up.askedFor(target)); (got == http.StatusOK) != (reached == 1) {
			t.Errorf("%d, and %d requests reached the upstream", got, reached)
		}
		return got
	}
	for range 2 { // cold, then warm
		for name, g := range p.both() {
			if got := ask(g); got != http.StatusOK {
				t.Fatalf("the session on %s: %d", name, got)
			}
		}
	}
	response, err := c.Get(issuer + "/logout") // waits until A has been told
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	for name, g := range p.both() {
		until(t, name+" to refuse", func() bool { return ask(g) != http.StatusOK })
		if got := ask(g); got != http.StatusUnauthorized {
			t.Errorf("the session on %s after the logout at the provider: %d", name, got)
		}
	}
}
