package provider_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"authgate/upstream/provider"
)

// logout posts a refresh token, as with Keycloak.
func (c *client) logout(token *oauth2.Token) page {
	return c.fetch("/logout", url.Values{"refresh_token": {token.RefreshToken}})
}

// A client posts its refresh token, and the session ends.
func TestLogoutByRefreshToken(t *testing.T) {
	w := start(t, nil)
	c, other, b := w.shop, w.phone, w.browser()
	token, others := c.login(b), other.login(b)
	wantRefused(t, "by another client", other.logout(token), 400, "invalid_grant")
	form := url.Values{"client_id": {"shop"}, "refresh_token": {token.RefreshToken}}
	wantRefused(t, "without the client's secret", b.do(request("POST", w.issuer+"/logout", form)), 401, "invalid_client")
	c.wantOpens("after refusals", token, true)
	if p := c.logout(token); p.status != 204 || p.body != "" {
		t.Errorf("%d %q, want 204", p.status, p.body)
	}
	c.wantOpens("this client", token, false)
	other.wantOpens("the other client", others, false)
	wantFailed(t, "the other client", other.refresh, others.RefreshToken)
	if p := b.open(c.url()); p.query != nil {
		t.Error("the browser is still signed in")
	}
	wantRefused(t, "once more", c.logout(token), 400, "invalid_grant")
}

// A client sends the browser (RP-Initiated Logout 1.0), which returns to the client. The
// session of the hint ends, if it is not the browser's.
func TestLogoutByBrowser(t *testing.T) {
	w := start(t, nil)
	shop, bye := w.shop, url.Values{"post_logout_redirect_uri": {shopBye}}.Encode()
	for _, tt := range []struct {
		name, query string
		status      int
		to          string
	}{
		{"with a hint", bye + "&state=s+1&id_token_hint=ID", 303, shopBye + "?state=s+1"},
		{"with a hint and a client", bye + "&client_id=shop&id_token_hint=ID", 303, shopBye},
		{"with a client", bye + "&client_id=shop", 303, shopBye},
		{"with nothing", "", 200, ""},
	} {
		b := w.browser()
		token := shop.login(b)
		p := b.open(w.issuer + "/logout?" + strings.Replace(tt.query, "ID", rawIDToken(token), 1))
		if cookie := p.header.Get("Set-Cookie"); p.status != tt.status || p.left != tt.to || !strings.Contains(cookie, "Max-Age=0") {
			t.Errorf("%s: %d, sent to %q, want %d and %q; cookie %s", tt.name, p.status, p.left, tt.status, tt.to, cookie)
		}
		shop.wantOpens(tt.name, token, false)
		if b.open(shop.url()).query != nil {
			t.Errorf("%s: still signed in", tt.name)
		}
	}

	b := w.browser()
	mine, other := shop.login(b), shop.login(w.browser())
	if p := b.open(w.issuer + "/logout?id_token_hint=" + rawIDToken(other)); p.status != 200 || p.header.Get("Set-Cookie") != "" {
		t.Errorf("with the hint of another session: %d, cookie %q", p.status, p.header.Get("Set-Cookie"))
	}
	shop.wantOpens("of the hint", other, false)
	shop.wantOpens("of the browser", mine, true)
}

// A request with an unregistered address or a wrong hint does not redirect and ends
// no session.
func TestLogoutRefuses(t *testing.T) {
	w := start(t, func(o *provider.Options) { o.AccessTokenAudience = []string{"api"} })
	shop, b, stranger := w.shop, w.browser(), start(t, nil).shop
	token := shop.login(b)
	id := rawIDToken(token)
	for name, query := range map[string]string{
		"an address that is not registered": "id_token_hint=" + id + "&post_logout_redirect_uri=" + shopBye + "/",
		"an address of another client":      "client_id=phone&post_logout_redirect_uri=" + shopBye,
		"an address without a client":       "post_logout_redirect_uri=" + shopBye,
		"a hint for another client":         "client_id=phone&id_token_hint=" + id,
		"a hint of another provider":        "id_token_hint=" + rawIDToken(stranger.login(stranger.browser())),
		"a hint that is no ID token":        "id_token_hint=" + token.AccessToken,
		"a hint without a signature":        "id_token_hint=" + id[:strings.LastIndex(id, ".")+1],
	} {
		if p := b.open(w.issuer + "/logout?" + query); p.status != 400 || p.left != "" {
			t.Errorf("%s: %d, sent to %q", name, p.status, p.left)
		}
	}
	shop.wantOpens("refused requests", token, true)
}

// A link on another site without a hint shows a confirmation page. The provider's own
// page shows who is signed in.
func TestLogoutAsks(t *testing.T) {
	w := start(t, nil)
	b := w.browser()
	token := w.shop.login(b)
	target := w.issuer + "/logout?client_id=shop&post_logout_redirect_uri=" + shopBye
	from := func(site, method string) page {
		r := request(method, target, nil)
		r.Header.Set("Sec-Fetch-Site", site)
		return b.do(r)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		p := from(site, "GET")
		if p.status != 200 || !strings.Contains(p.body, "Sign out?") || !strings.HasSuffix(p.header.Get("Content-Security-Policy"), "form-action 'self' https://shop.example") {
			t.Errorf("from a %s page: %d, policy %q", site, p.status, p.header.Get("Content-Security-Policy"))
		}
	}
	if p := from("none", "HEAD"); p.status != 405 {
		t.Errorf("HEAD: %d", p.status)
	}
	w.shop.wantOpens("before the click", token, true)
	if p := b.open(w.issuer + "/"); !strings.Contains(p.body, "signed in as alice") || !strings.Contains(p.body, `href="/logout"`) {
		t.Errorf("the page of the provider before the click:\n%s", p.body)
	}
	if p := from("same-origin", "POST"); p.left != shopBye {
		t.Errorf("after the click: %d, sent to %q", p.status, p.left)
	}
	w.shop.wantOpens("after the click", token, false)
	if p := b.open(w.issuer + "/"); !strings.Contains(p.body, "not signed in") {
		t.Errorf("the page of the provider after the click:\n%s", p.body)
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

// However a session ends, each of its clients gets a logout token that go-oidc
// accepts (Back-Channel Logout 1.0).
func TestBackchannelLogout(t *testing.T) {
	shopURI, shopTold := told(t, 200)
	phoneURI, phoneTold := told(t, 204)
	w := start(t, func(o *provider.Options) {
		o.Clients[0].BackchannelLogoutURI, o.Clients[1].BackchannelLogoutURI = shopURI, phoneURI
	})
	shop, phone, seen := w.shop, w.phone, map[string]bool{}
	for way, end := range map[string]func(browser, *oauth2.Token){
		"its own link":    func(b browser, _ *oauth2.Token) { b.open(w.issuer + "/logout") },
		"another person":  func(b browser, _ *oauth2.Token) { b.signIn(shop.url("prompt", "login"), "bob", "builder") },
		"a refresh token": func(_ browser, token *oauth2.Token) { shop.logout(token) },
		"an ID token":     func(b browser, token *oauth2.Token) { b.open(w.issuer + "/logout?id_token_hint=" + rawIDToken(token)) },
	} {
		b := w.browser()
		token := shop.login(b)
		phone.login(b)
		end(b, token)
		for c, tokens := range map[*client]chan string{shop: shopTold, phone: phoneTold} {
			got := must(c.verifier.VerifyLogout(t.Context(), <-tokens))
			if got.SessionID != shop.idToken(token)["sid"] || got.Subject != "1001" || seen[got.TokenID] {
				t.Errorf("%s: the session %s of %s, jti seen before: %v", way, got.SessionID, got.Subject, seen[got.TokenID])
			}
			seen[got.TokenID] = true
		}
	}
	phone.logout(phone.login(w.browser()))
	<-phoneTold
	w.provider.Close()
	if n := len(shopTold) + len(phoneTold); n != 0 {
		t.Errorf("%d logout tokens more, perhaps for a client without tokens", n)
	}
}

// A client that refuses a logout token does not keep the user signed in. One without
// an endpoint gets no logout token.
func TestBackchannelLogoutFails(t *testing.T) {
	refusing, refusingTold := told(t, 400)
	redirecting, redirectingTold := told(t, 307)
	w := start(t, func(o *provider.Options) {
		o.Clients[0].BackchannelLogoutURI, o.Clients[1].BackchannelLogoutURI = refusing, redirecting
		o.Clients = append(o.Clients, provider.Client{ID: "plain", RedirectURIs: []string{shopCallback}})
	})
	b := w.browser()
	token := w.shop.login(b)
	w.phone.login(b)
	w.client("plain", "", shopCallback).login(b)
	if p := b.open(w.issuer + "/logout"); p.status != 200 || len(redirectingTold) != 1 {
		t.Errorf("the logout: %d, and %d logout tokens for the client that redirects, want 1", p.status, len(redirectingTold))
	}
	w.shop.wantOpens("after the logout", token, false)
	raw := <-refusingTold
	if p := b.open(w.issuer + "/logout?id_token_hint=" + raw); p.status != 400 {
		t.Errorf("a logout token for an ID token: %d", p.status)
	}
	if failed := w.log.Records(t, "logout token not delivered"); len(failed) != 2 || strings.Contains(w.log.String(), raw) {
		t.Errorf("the log: %s", &w.log)
	}
}

// Close does not wait for a client that does not answer.
func TestClose(t *testing.T) {
	reached := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server sees the connection close
		close(reached)
		<-r.Context().Done()
	}))
	defer server.Close()
	w := start(t, func(o *provider.Options) { o.Clients[0].BackchannelLogoutURI = server.URL })
	w.shop.logout(w.shop.login(w.browser()))
	<-reached
	w.provider.Close()
	if !strings.Contains(w.log.String(), context.Canceled.Error()) { // rather than given up some time later
		t.Errorf("the log: %s", &w.log)
	}
}
