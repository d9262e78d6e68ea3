package provider_test

import (
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
// session of the hint ends, if it is not the browser's. A link on another site without a
// hint shows a confirmation page, whose form is posted.
func TestLogoutByBrowser(t *testing.T) {
	w := start(t, nil)
	shop, hint := w.shop, "&id_token_hint=ID"
	const bye = "post_logout_redirect_uri=" + shopBye
	for _, tt := range []struct {
		method, site, query string
		status              int
		to                  string
	}{
		{"GET", "cross-site", bye + "&state=s+1" + hint, 303, shopBye + "?state=s+1"},
		{"GET", "none", bye + "&client_id=shop" + hint, 303, shopBye},
		{"POST", "same-origin", bye + "&client_id=shop", 303, shopBye},
		{"GET", "", "", 200, ""},
		{"GET", "cross-site", bye + "&client_id=shop", 200, "Sign out?"},
		{"GET", "same-site", bye + "&client_id=shop", 200, "Sign out?"},
		{"HEAD", "none", "", 405, ""},
	} {
		b := w.browser()
		token := shop.login(b)
		r := request(tt.method, w.issuer+"/logout?"+strings.Replace(tt.query, "ID", rawIDToken(token), 1), nil)
		r.Header.Set("Sec-Fetch-Site", tt.site)
		p := b.do(r)
		asks := strings.Contains(p.body, "Sign out?") && strings.HasSuffix(p.header.Get("Content-Security-Policy"), "form-action 'self' https://shop.example")
		if p.status != tt.status || p.left != tt.to && !(asks && tt.to == "Sign out?") {
			t.Errorf("%v: %d, sent to %q:\n%s", tt, p.status, p.left, p.body)
		}
		open := tt.to == "Sign out?" || tt.status == 405
		shop.wantOpens(tt.method+" "+tt.site+" "+tt.query, token, open)
		home := b.open(w.issuer + "/").body
		if strings.Contains(p.header.Get("Set-Cookie"), "Max-Age=0") == open || strings.Contains(home, "signed in as alice") != open || strings.Contains(home, "not signed in") == open {
			t.Errorf("%v: the cookie %q, and the page of the provider:\n%s", tt, p.header.Get("Set-Cookie"), home)
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
// accepts (Back-Channel Logout 1.0). One that refuses it does not keep the user signed
// in. One without an endpoint gets none.
func TestBackchannelLogout(t *testing.T) {
	shopURI, shopTold := told(t, 200)
	phoneURI, phoneTold := told(t, 204)
	refusingURI, refusingTold := told(t, 400)
	redirectingURI, redirectingTold := told(t, 307)
	w := start(t, func(o *provider.Options) {
		o.Clients[0].BackchannelLogoutURI, o.Clients[1].BackchannelLogoutURI = shopURI, phoneURI
		for id, uri := range map[string]string{"refusing": refusingURI, "redirecting": redirectingURI, "plain": ""} {
			o.Clients = append(o.Clients, provider.Client{ID: id, RedirectURIs: []string{shopCallback}, BackchannelLogoutURI: uri})
		}
	})
	shop, phone, raw, seen := w.shop, w.phone, "", map[string]bool{}
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
			raw = <-tokens
			got := must(c.verifier.VerifyLogout(t.Context(), raw))
			if got.SessionID != shop.idToken(token)["sid"] || got.Subject != "1001" || seen[got.TokenID] {
				t.Errorf("%s: the session %s of %s, jti seen before: %v", way, got.SessionID, got.Subject, seen[got.TokenID])
			}
			seen[got.TokenID] = true
		}
		shop.wantOpens(way, token, false)
	}
	if p := w.browser().open(w.issuer + "/logout?id_token_hint=" + raw); p.status != 400 {
		t.Errorf("a logout token for an ID token: %d", p.status)
	}
	b := w.browser()
	for _, id := range []string{"refusing", "redirecting", "plain"} {
		w.client(id, "", shopCallback).login(b)
	}
	if p := b.open(w.issuer + "/logout"); p.status != 200 || len(refusingTold) != 1 || len(redirectingTold) != 1 || len(shopTold)+len(phoneTold) != 0 {
		t.Errorf("%d; %d and %d tokens are refused, want one each; others get %d", p.status, len(refusingTold), len(redirectingTold), len(shopTold)+len(phoneTold))
	}
	if failed := w.log.Records(t, "logout token not delivered"); len(failed) != 2 || strings.Contains(w.log.String(), <-refusingTold) {
		t.Errorf("the log: %s", &w.log)
	}
}
