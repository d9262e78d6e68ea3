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

	"golang.org/x/oauth2"

	"authgate/gateway/logtest"
	"authgate/upstream/provider"
)

func refreshOf(token *oauth2.Token) url.Values {
	return url.Values{"refresh_token": {token.RefreshToken}}
}

// A client posts its refresh token, as with Keycloak, and the session ends.
func TestLogoutByRefreshToken(t *testing.T) {
	w := start(t, nil)
	for name, clients := range map[string][2]*client{"confidential": {w.shop, w.phone}, "public": {w.phone, w.shop}} {
		c, other, b := clients[0], clients[1], w.browser()
		token, others := c.login(b), other.login(b)
		wantRefused(t, name+": by another client", other.fetch("/logout", refreshOf(token)), 400, "invalid_grant")
		c.wantOpens(name, token, true)
		if p := c.fetch("/logout", refreshOf(token)); p.status != 204 || p.body != "" {
			t.Errorf("%s: %d %q, want 204", name, p.status, p.body)
		}
		c.wantOpens(name, token, false)
		other.wantOpens(name+": the other client", others, false)
		_, err := other.refresh(others.RefreshToken)
		wantFailed(t, name+": the other client", err)
		if p := b.open(c.url()); p.query != nil {
			t.Errorf("%s: the browser is still signed in", name)
		}
		wantRefused(t, name+": once more", c.fetch("/logout", refreshOf(token)), 400, "invalid_grant")
	}
	form := refreshOf(w.shop.login(w.browser()))
	form.Set("client_id", "shop")
	wantRefused(t, "without the client's secret", w.browser().post(w.issuer+"/logout", form), 401, "invalid_client")
}

// A client sends the browser (RP-Initiated Logout 1.0), which returns to the client. The
// session of the hint ends, if it is not the browser's.
func TestLogoutByBrowser(t *testing.T) {
	w := start(t, nil)
	shop, bye := w.shop, url.Values{"post_logout_redirect_uri": {shopBye}}.Encode()
	for _, tt := range []struct{ name, query, to string }{
		{"with a hint", bye + "&state=s+1&id_token_hint=ID", shopBye + "?state=s+1"},
		{"with a hint and a client", bye + "&client_id=shop&id_token_hint=ID", shopBye},
		{"with a client", bye + "&client_id=shop", shopBye},
		{"with nothing", "", ""},
	} {
		for _, method := range []string{"GET", "POST"} {
			b := w.browser()
			token := shop.login(b)
			form := must(url.ParseQuery(strings.Replace(tt.query, "ID", rawIDToken(token), 1)))
			r := request(method, w.issuer+"/logout", form)
			if method == "GET" {
				r = request(method, w.issuer+"/logout?"+form.Encode(), nil)
			}
			p := b.do(r)
			if want := map[bool]int{true: 200, false: 303}[tt.to == ""]; p.status != want || p.left != tt.to || !strings.Contains(p.header.Get("Set-Cookie"), "Max-Age=0") {
				t.Errorf("%s by %s: %d, sent to %q, want %d and %q; cookie %s", tt.name, method, p.status, p.left, want, tt.to, p.header.Get("Set-Cookie"))
			}
			shop.wantOpens(tt.name, token, false)
			if b.open(shop.url()).query != nil {
				t.Errorf("%s by %s: still signed in", tt.name, method)
			}
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
	shop, b := w.shop, w.browser()
	token := shop.login(b)
	id := rawIDToken(token)
	stranger := start(t, nil).shop
	for name, form := range map[string]url.Values{
		"an address elsewhere":         {"id_token_hint": {id}, "post_logout_redirect_uri": {"https://evil.example/"}},
		"a longer address":             {"id_token_hint": {id}, "post_logout_redirect_uri": {shopBye + "/"}},
		"an address of another client": {"client_id": {"phone"}, "post_logout_redirect_uri": {shopBye}},
		"an address without a client":  {"post_logout_redirect_uri": {shopBye}},
		"a hint for another client":    {"id_token_hint": {id}, "client_id": {"phone"}},
		"a hint of another provider":   {"id_token_hint": {rawIDToken(stranger.login(stranger.browser()))}},
		"a hint that is no ID token":   {"id_token_hint": {token.AccessToken}},
		"a hint without a signature":   {"id_token_hint": {id[:strings.LastIndex(id, ".")+1]}},
	} {
		if p := b.open(w.issuer + "/logout?" + form.Encode()); p.status != 400 || p.left != "" {
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
	target := w.issuer + "/logout?" + url.Values{"client_id": {"shop"}, "post_logout_redirect_uri": {shopBye}}.Encode()
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
	absentURI, absentTold := told(t, 200)
	w := start(t, func(o *provider.Options) {
		o.Clients[0].BackchannelLogoutURI, o.Clients[1].BackchannelLogoutURI = shopURI, phoneURI
		o.Clients = append(o.Clients, provider.Client{ID: "absent", RedirectURIs: []string{shopCallback}, BackchannelLogoutURI: absentURI})
	})
	seen := map[string]bool{}
	for way, end := range map[string]func(browser, *oauth2.Token){
		"its own link":    func(b browser, _ *oauth2.Token) { b.open(w.issuer + "/logout") },
		"another person":  func(b browser, _ *oauth2.Token) { b.signIn(w.shop.url("prompt", "login"), "bob") },
		"a refresh token": func(_ browser, token *oauth2.Token) { w.shop.fetch("/logout", refreshOf(token)) },
		"an ID token":     func(b browser, token *oauth2.Token) { b.open(w.issuer + "/logout?id_token_hint=" + rawIDToken(token)) },
	} {
		b := w.browser()
		token := w.shop.login(b)
		w.phone.login(b)
		end(b, token)
		for c, tokens := range map[*client]chan string{w.shop: shopTold, w.phone: phoneTold} {
			got, err := c.verifier.VerifyLogout(t.Context(), <-tokens)
			if err != nil {
				t.Fatalf("%s: %s is told: %v", way, c.oauth.ClientID, err)
			}
			if got.SessionID != w.shop.idToken(token)["sid"] || got.Subject != "1001" || seen[got.TokenID] {
				t.Errorf("%s: the session %s of %s, jti seen before: %v", way, got.SessionID, got.Subject, seen[got.TokenID])
			}
			seen[got.TokenID] = true
		}
	}
	w.provider.Close()
	if n := len(absentTold) + len(shopTold) + len(phoneTold); n != 0 {
		t.Errorf("%d clients more are told", n)
	}
}

// A client that refuses a logout token does not keep the user signed in. One without
// an endpoint gets no logout token.
func TestBackchannelLogoutFails(t *testing.T) {
	refusing, refusingTold := told(t, 400)
	redirecting, redirectingTold := told(t, 307)
	var log logtest.Buffer
	w := start(t, func(o *provider.Options) {
		o.Clients[0].BackchannelLogoutURI, o.Clients[1].BackchannelLogoutURI = refusing, redirecting
		o.Clients = append(o.Clients, provider.Client{ID: "plain", RedirectURIs: []string{shopCallback}})
		o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	})
	b := w.browser()
	token := w.shop.login(b)
	w.phone.login(b)
	w.client("plain", "", shopCallback).login(b)
	if p := b.open(w.issuer + "/logout"); p.status != 200 {
		t.Errorf("the logout: %d", p.status)
	}
	w.shop.wantOpens("after the logout", token, false)
	raw := <-refusingTold
	if len(redirectingTold) != 1 {
		t.Errorf("%d logout tokens for the client that redirects, want 1", len(redirectingTold))
	}
	if p := b.open(w.issuer + "/logout?id_token_hint=" + raw); p.status != 400 {
		t.Errorf("a logout token for an ID token: %d", p.status)
	}
	if failed := log.Records(t, "logout token not delivered"); len(failed) != 2 || strings.Contains(log.String(), raw) {
		t.Errorf("the log: %s", &log)
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
	var log logtest.Buffer
	w := start(t, func(o *provider.Options) {
		o.Clients[0].BackchannelLogoutURI = server.URL
		o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	})
	w.shop.fetch("/logout", refreshOf(w.shop.login(w.browser())))
	<-reached
	w.provider.Close()
	if !strings.Contains(log.String(), context.Canceled.Error()) { // rather than given up some time later
		t.Errorf("the log: %s", &log)
	}
}
