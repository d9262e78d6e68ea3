package provider_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"authgate/upstream/provider"

	"golang.org/x/oauth2"
)

// TestLogoutByRefreshToken: a client posts its refresh token, as with Keycloak, and
// the session ends.
func TestLogoutByRefreshToken(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for name, clients := range map[string][2]*client{"confidential": {w.shop(), w.phone()}, "public": {w.phone(), w.shop()}} {
		c, other, b := clients[0], clients[1], w.browser()
		token, others := c.login(b), other.login(b)
		if p := other.fetch("/logout", url.Values{"refresh_token": {token.RefreshToken}}); p.status != 400 || errorOf(t, p) != "invalid_grant" {
			t.Errorf("%s: by another client: %d %s", name, p.status, p.body)
		}
		if !c.opens(token) {
			t.Fatalf("%s: logged out too early", name)
		}
		if p := c.fetch("/logout", url.Values{"refresh_token": {token.RefreshToken}}); p.status != 204 || p.body != "" {
			t.Errorf("%s: %d %q, want 204", name, p.status, p.body)
		}
		if c.opens(token) || other.opens(others) {
			t.Errorf("%s: the access tokens live on", name)
		}
		if _, err := other.refresh(others.RefreshToken); failed(err) != "invalid_grant" {
			t.Errorf("%s: the refresh token of the other client: %v", name, err)
		}
		if p := b.open(c.url()); p.query != nil {
			t.Errorf("%s: the browser is still signed in", name)
		}
		if p := c.fetch("/logout", url.Values{"refresh_token": {token.RefreshToken}}); errorOf(t, p) != "invalid_grant" {
			t.Errorf("%s: once more: %s", name, p.body)
		}
	}
	token := w.shop().login(w.browser())
	form := url.Values{"client_id": {"shop"}, "refresh_token": {token.RefreshToken}}
	if p := w.browser().post(w.issuer+"/logout", form); p.status != 401 {
		t.Errorf("without the client's secret: %d", p.status)
	}
}

// TestLogoutByBrowser: a client sends the browser (RP-Initiated Logout 1.0), which
// returns to the client.
func TestLogoutByBrowser(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	shop := w.shop()
	id := func(token *oauth2.Token) string { raw, _ := token.Extra("id_token").(string); return raw }
	for _, tt := range []struct {
		name   string
		form   func(*oauth2.Token) url.Values
		status int
		to     string
	}{
		{"with a hint", func(token *oauth2.Token) url.Values {
			return url.Values{"id_token_hint": {id(token)}, "post_logout_redirect_uri": {shopBye}, "state": {"s 1"}}
		}, 303, shopBye + "?state=s+1"},
		{"with a hint and a client", func(token *oauth2.Token) url.Values {
			return url.Values{"id_token_hint": {id(token)}, "client_id": {"shop"}, "post_logout_redirect_uri": {shopBye}}
		}, 303, shopBye},
		{"with a client", func(*oauth2.Token) url.Values {
			return url.Values{"client_id": {"shop"}, "post_logout_redirect_uri": {shopBye}}
		}, 303, shopBye},
		{"with nothing", func(*oauth2.Token) url.Values { return url.Values{} }, 200, ""},
	} {
		for _, method := range []string{"GET", "POST"} {
			b := w.browser()
			token := shop.login(b)
			var p page
			if form := tt.form(token); method == "POST" {
				p = b.post(w.issuer+"/logout", form)
			} else {
				p = b.open(w.issuer + "/logout?" + form.Encode())
			}
			if p.status != tt.status || p.left != tt.to {
				t.Errorf("%s by %s: %d, sent to %q, want %d and %q", tt.name, method, p.status, p.left, tt.status, tt.to)
			}
			if !strings.Contains(p.header.Get("Set-Cookie"), "Max-Age=0") {
				t.Errorf("%s by %s: the cookie stays", tt.name, method)
			}
			if shop.opens(token) || b.open(shop.url()).query != nil {
				t.Errorf("%s by %s: still signed in", tt.name, method)
			}
		}
	}
}

// TestLogoutRefuses: a request with an unregistered address or a wrong hint does
// not redirect and ends no session.
func TestLogoutRefuses(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *provider.Options) { o.AccessTokenAudience = []string{"api"} })
	shop, b := w.shop(), w.browser()
	token := shop.login(b)
	id, _ := token.Extra("id_token").(string)
	stranger := start(t, nil)
	forged, _ := stranger.shop().login(stranger.browser()).Extra("id_token").(string)
	for name, form := range map[string]url.Values{
		"an address elsewhere":         {"id_token_hint": {id}, "post_logout_redirect_uri": {"https://evil.example/"}},
		"a longer address":             {"id_token_hint": {id}, "post_logout_redirect_uri": {shopBye + "/"}},
		"an address of another client": {"client_id": {"phone"}, "post_logout_redirect_uri": {shopBye}},
		"an address without a client":  {"post_logout_redirect_uri": {shopBye}},
		"an unknown client":            {"client_id": {"nobody"}, "post_logout_redirect_uri": {shopBye}},
		"a hint for another client":    {"id_token_hint": {id}, "client_id": {"phone"}},
		"a hint of another provider":   {"id_token_hint": {forged}},
		"a hint that is no ID token":   {"id_token_hint": {token.AccessToken}},
		"a hint without a signature":   {"id_token_hint": {id[:strings.LastIndex(id, ".")+1]}},
	} {
		if p := b.open(w.issuer + "/logout?" + form.Encode()); p.status != 400 || p.left != "" {
			t.Errorf("%s: %d, sent to %q", name, p.status, p.left)
		}
	}
	if !shop.opens(token) {
		t.Error("a refused request has logged alice out")
	}
}

// TestLogoutOfAnotherSession: the session of the hint ends, not the browser's.
func TestLogoutOfAnotherSession(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	shop, here, elsewhere := w.shop(), w.browser(), w.browser()
	mine, other := shop.login(here), shop.login(elsewhere)
	id, _ := other.Extra("id_token").(string)
	p := here.open(w.issuer + "/logout?" + url.Values{"id_token_hint": {id}}.Encode())
	if p.status != 200 || p.header.Get("Set-Cookie") != "" {
		t.Errorf("%d, cookie %q", p.status, p.header.Get("Set-Cookie"))
	}
	if shop.opens(other) || !shop.opens(mine) {
		t.Error("the wrong session has ended")
	}
}

// TestLogoutAsks: a link on another site without a hint shows a confirmation page.
func TestLogoutAsks(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	shop, b := w.shop(), w.browser()
	token := shop.login(b)
	target := w.issuer + "/logout?" + url.Values{"client_id": {"shop"}, "post_logout_redirect_uri": {shopBye}}.Encode()
	for _, site := range []string{"cross-site", "same-site"} {
		r := request(t, "GET", target, nil)
		r.Header.Set("Sec-Fetch-Site", site)
		p := b.do(r)
		if p.status != 200 || !strings.Contains(p.body, "Sign out?") || !shop.opens(token) {
			t.Errorf("from a %s page: %d, still signed in: %v", site, p.status, shop.opens(token))
		}
		if !strings.HasSuffix(p.header.Get("Content-Security-Policy"), "form-action 'self' https://shop.example") {
			t.Errorf("its form may not go on to the client: %q", p.header.Get("Content-Security-Policy"))
		}
	}
	if p := b.do(request(t, "HEAD", target, nil)); p.status != 405 || !shop.opens(token) {
		t.Errorf("HEAD: %d, still signed in: %v", p.status, shop.opens(token))
	}
	r := request(t, "POST", target, url.Values{})
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if p := b.do(r); p.left != shopBye || shop.opens(token) {
		t.Errorf("after the click: %d, sent to %q", p.status, p.left)
	}
}

// TestLogoutBeforeExchange: a code does not work after its session has ended.
func TestLogoutBeforeExchange(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	shop, b := w.shop(), w.browser()
	code := b.signIn(shop.url(), "alice", "wonderland").query.Get("code")
	b.open(w.issuer + "/logout")
	if _, err := shop.exchange(code); failed(err) != "invalid_grant" {
		t.Errorf("the code after the logout: %v", err)
	}
}

// The provider's own page has the link to sign out.
func TestHome(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	shop, b := w.shop(), w.browser()
	if p := b.open(w.issuer + "/"); !strings.Contains(p.body, "not signed in") {
		t.Errorf("before the login:\n%s", p.body)
	}
	token := shop.login(b)
	if p := b.open(w.issuer + "/"); !strings.Contains(p.body, "signed in as alice") || !strings.Contains(p.body, `href="/logout"`) {
		t.Errorf("after the login:\n%s", p.body)
	}
	b.open(w.issuer + "/logout")
	if shop.opens(token) {
		t.Error("the link does not sign out")
	}
}

// told starts an endpoint of a client that collects logout tokens.
func told(t *testing.T, status int) (string, chan string) {
	t.Helper()
	tokens := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			tokens <- r.PostFormValue("logout_token")
		}
		w.Header().Set("Location", "/elsewhere") // where a redirect is not followed to
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/backchannel-logout", tokens
}

// receive returns the next logout token.
func receive(t *testing.T, tokens chan string) string {
	t.Helper()
	select {
	case token := <-tokens:
		return token
	case <-await(t, patience).Done():
		t.Fatal("the client got no logout token")
		return ""
	}
}

// TestBackchannelLogout: however a session ends, each of its clients gets a logout
// token that go-oidc accepts (Back-Channel Logout 1.0).
func TestBackchannelLogout(t *testing.T) {
	t.Parallel()
	shopURI, shopTold := told(t, 200)
	phoneURI, phoneTold := told(t, 204)
	absentURI, absentTold := told(t, 200)
	w := start(t, func(o *provider.Options) {
		o.Clients[0].BackchannelLogoutURI, o.Clients[1].BackchannelLogoutURI = shopURI, phoneURI
		o.Clients = append(o.Clients, provider.Client{
			ID: "absent", RedirectURIs: []string{shopCallback}, BackchannelLogoutURI: absentURI,
		})
	})
	shop, phone := w.shop(), w.phone()
	seen := map[string]bool{}
	check := func(way string, c *client, tokens chan string, sid string) {
		t.Helper()
		token, err := c.verifier.VerifyLogout(t.Context(), receive(t, tokens))
		if err != nil {
			t.Fatalf("%s: %s is told: %v", way, c.oauth.ClientID, err)
		}
		if token.SessionID != sid || token.Subject != "1001" || seen[token.TokenID] {
			t.Errorf("%s: the session %s of %s, jti seen before: %v", way, token.SessionID, token.Subject, seen[token.TokenID])
		}
		seen[token.TokenID] = true
	}
	for way, end := range map[string]func(*browser, *oauth2.Token){
		"its own link":   func(b *browser, _ *oauth2.Token) { b.open(w.issuer + "/logout") },
		"another person": func(b *browser, _ *oauth2.Token) { b.signIn(shop.url("prompt", "login"), "bob", "builder") },
		"a refresh token": func(_ *browser, token *oauth2.Token) {
			shop.fetch("/logout", url.Values{"refresh_token": {token.RefreshToken}})
		},
		"an ID token": func(b *browser, token *oauth2.Token) {
			raw, _ := token.Extra("id_token").(string)
			b.open(w.issuer + "/logout?id_token_hint=" + raw)
		},
	} {
		b := w.browser()
		token := shop.login(b)
		phone.login(b)
		sid := sessionOf(t, shop, token)
		end(b, token)
		check(way, shop, shopTold, sid)
		check(way, phone, phoneTold, sid)
	}
	w.provider.Close()
	if n := len(absentTold) + len(shopTold) + len(phoneTold); n != 0 {
		t.Errorf("%d clients more are told", n)
	}
}

// TestBackchannelLogoutFails: a client that refuses a logout token does not keep the
// user signed in.
func TestBackchannelLogoutFails(t *testing.T) {
	t.Parallel()
	refusing, refusingTold := told(t, 400)
	redirecting, redirectingTold := told(t, 307)
	log := &strings.Builder{}
	w := start(t, func(o *provider.Options) {
		o.Clients[0].BackchannelLogoutURI, o.Clients[1].BackchannelLogoutURI = refusing, redirecting
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	shop, phone, b := w.shop(), w.phone(), w.browser()
	token := shop.login(b)
	phone.login(b)
	if p := b.open(w.issuer + "/logout"); p.status != 200 || shop.opens(token) {
		t.Errorf("%d, still signed in: %v", p.status, shop.opens(token))
	}
	raw := receive(t, refusingTold)
	if len(redirectingTold) != 1 {
		t.Errorf("%d logout tokens for the client that redirects, want 1", len(redirectingTold))
	}
	if p := b.open(w.issuer + "/logout?id_token_hint=" + raw); p.status != 400 {
		t.Errorf("a logout token for an ID token: %d", p.status)
	}
	if strings.Count(log.String(), "logout token not delivered") != 2 || strings.Contains(log.String(), raw) {
		t.Errorf("the log: %s", log)
	}
}

// TestNoBackchannelLogout: a client without an endpoint gets no logout token.
func TestNoBackchannelLogout(t *testing.T) {
	t.Parallel()
	log := &strings.Builder{}
	w := start(t, func(o *provider.Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	b := w.browser()
	w.shop().login(b)
	b.open(w.issuer + "/logout")
	if log.Len() > 0 {
		t.Errorf("the log: %s", log)
	}
}

// TestClose: Close does not wait for a client that does not answer.
func TestClose(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server sees the connection close
		close(reached)
		<-r.Context().Done()
	}))
	defer server.Close()
	log := &strings.Builder{}
	w := start(t, func(o *provider.Options) {
		o.Clients[0].BackchannelLogoutURI = server.URL
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	shop := w.shop()
	token := shop.login(w.browser())
	shop.fetch("/logout", url.Values{"refresh_token": {token.RefreshToken}})
	select {
	case <-reached:
	case <-await(t, patience).Done():
		t.Fatal("the client is not told")
	}
	closed, done := context.WithCancel(context.Background())
	go func() { w.provider.Close(); done() }()
	select {
	case <-closed.Done():
	case <-await(t, patience).Done():
		t.Fatal("Close waits")
	}
	if !strings.Contains(log.String(), context.Canceled.Error()) { // rather than given up some time later
		t.Errorf("the log: %s", log)
	}
}
