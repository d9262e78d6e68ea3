package provider_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"authgate/upstream/provider"
)

// A complete login of each user, for several kinds of clients.
func TestLogin(t *testing.T) {
	w := start(t, nil)
	users := map[string]map[string]any{
		"alice": {"sub": "1001", "name": "Alice Example", "preferred_username": "alice", "email": "alice@example.org", "email_verified": true, "roles": []any{"user", "admin"}},
		"bob":   {"sub": "1002", "name": "Bob Example", "preferred_username": "bob", "email": "bob@example.org", "email_verified": true, "roles": []any{"user"}},
	}
	for _, tt := range []struct {
		c        *client
		style    oauth2.AuthStyle
		username string
	}{{w.shop, oauth2.AuthStyleInHeader, "alice"}, {w.shop, oauth2.AuthStyleInParams, "bob"}, {w.phone, oauth2.AuthStyleInParams, "alice"}} {
		tt.c.oauth.Endpoint.AuthStyle = tt.style
		back := w.browser().signIn(tt.c.url(), tt.username)
		if back.status != 303 || !strings.HasPrefix(back.left, tt.c.oauth.RedirectURL) || back.query.Get("state") != state || back.query.Get("iss") != w.issuer {
			t.Errorf("sent back with %d to %s", back.status, back.left)
		}
		token := must(tt.c.exchange(back.query.Get("code")))
		if token.Type() != "Bearer" || token.ExpiresIn != 300 || token.RefreshToken == "" {
			t.Errorf("type %s, expires in %d s", token.Type(), token.ExpiresIn)
		}
		user, now, id := users[tt.username], float64(w.clock.Now().Unix()), tt.c.idToken(token)
		want := map[string]any{
			"iss": w.issuer, "aud": tt.c.oauth.ClientID, "sub": user["sub"], "nonce": nonce, "auth_time": now, "iat": now, "exp": now + 300,
			"at_hash": id["at_hash"], "sid": id["sid"],
		}
		if diff := cmp.Diff(want, id); diff != "" || id["at_hash"] == nil || id["sid"] == nil {
			t.Errorf("the ID token (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(user, tt.c.userinfo(token.AccessToken)); diff != "" {
			t.Errorf("userinfo (-want +got):\n%s", diff)
		}
	}
}

// A signed-in user gets to a second client without a page, in the same session. A
// client can require the password, or forbid a page.
func TestSingleSignOn(t *testing.T) {
	w := start(t, nil)
	shop, phone, b := w.shop, w.phone, w.browser()
	if p := b.open(shop.url("prompt", "none")); p.query.Get("error") != "login_required" || p.query.Get("state") != state {
		t.Errorf("prompt=none before the login: %s", p.left)
	}
	first := shop.login(b)
	w.clock.Advance(time.Minute)
	for _, tt := range []struct {
		pairs []string
		page  bool
	}{
		{nil, false}, {[]string{"prompt", "none"}, false}, {[]string{"prompt", "consent", "scope", "openid offline_access"}, false},
		{[]string{"max_age", "60"}, false}, {[]string{"max_age", "59"}, true}, // since a minute ago
		{[]string{"prompt", "login"}, true}, {[]string{"prompt", "select_account"}, true},
	} {
		p := b.open(phone.url(tt.pairs...))
		if asked := p.asksPassword(); asked != tt.page || !asked && p.query.Get("code") == "" {
			t.Errorf("%q: sign-in page %v, want %v, sent to %q", tt.pairs, asked, tt.page, p.left)
		}
	}
	again := must(phone.exchange(phone.code(b, "prompt", "login")))
	if phone.idToken(again)["sid"] != shop.idToken(first)["sid"] || b.open(phone.url("max_age", "0")).query.Get("code") == "" {
		t.Error("the same person signed in again, but in another session, or it does not count as recent")
	}
	b.signIn(phone.url("prompt", "login"), "bob")
	shop.wantOpens("bob has signed in instead", first, false)
}

// Codes, tokens and sessions expire.
func TestLifetimes(t *testing.T) {
	w := start(t, func(o *provider.Options) {
		o.CodeLifetime, o.AccessTokenLifetime, o.SessionLifetime = 10*time.Second, time.Minute, 90*time.Second
	})
	c, b := w.shop, w.browser()
	slow := c.code(b)
	w.clock.Advance(9 * time.Second)
	token := c.login(b)
	w.clock.Advance(time.Second)
	_, err := c.exchange(slow)
	wantFailed(t, "a code of 10 s", err)
	w.clock.Advance(58 * time.Second)
	c.wantOpens("after 59 s", token, true)
	w.clock.Advance(time.Second)
	c.wantOpens("after a minute", token, false)
	if token = must(c.refresh(token.RefreshToken)); token.ExpiresIn != 21 {
		t.Errorf("an access token lasts %d s, but the session 21", token.ExpiresIn)
	}
	w.clock.Advance(21 * time.Second)
	_, err = c.refresh(token.RefreshToken)
	wantFailed(t, "a refresh token after the session", err)
	if p := b.open(c.url()); p.query != nil {
		t.Error("signed in after the session")
	}
}

func TestSignInPage(t *testing.T) {
	w := start(t, nil)
	c, b := w.shop, w.browser()
	form := b.open(c.url("login_hint", `"><script>x`))
	if strings.Contains(form.body, "<script") || !strings.Contains(form.body, "&lt;script&gt;") {
		t.Errorf("the page does not escape:\n%s", form.body)
	}
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self' https://shop.example"} {
		if policy := form.header.Get("Content-Security-Policy"); !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
			t.Errorf("Content-Security-Policy %q, want %s", policy, want)
		}
	}
	for _, wrong := range [][2]string{{"alice", "builder"}, {"nobody", "wonderland"}, {"", ""}} {
		p := b.post(form.url, url.Values{"username": {wrong[0]}, "password": {wrong[1]}})
		if p.query != nil || !strings.Contains(p.body, "Wrong user name or password") || !p.asksPassword() || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%q: %d, sent to %q:\n%s", wrong, p.status, p.left, p.body)
		}
	}
	r := request("POST", form.url, credentials("bob"))
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if p := b.do(r); p.status != 403 || p.header.Get("Set-Cookie") != "" {
		t.Errorf("from another site: %d", p.status)
	}
	cookie := b.signIn(c.url(), "alice").header.Get("Set-Cookie")
	if _, attributes, _ := strings.Cut(cookie, "; "); !strings.HasPrefix(cookie, "demo_provider_session=") || attributes != "Path=/; HttpOnly; SameSite=Lax" {
		t.Errorf("the cookie is %s", cookie)
	}
}

// A request with a wrong client or redirect URI ends with a page, even for a user who
// is signed in. The client gets every other mistake (RFC 6749, section 4.1.2.1).
func TestAuthorizeRefuses(t *testing.T) {
	w := start(t, nil)
	c, b := w.phone, w.browser()
	c.login(b)
	const evil, invalid = "https://evil.example/callback", "invalid_request"
	for target, code := range map[string]string{ // empty: a page
		c.url("client_id", "nobody"):                                        "",
		c.url() + "&client_id=shop":                                         "",
		c.url("redirect_uri", ""):                                           "",
		c.url() + "&redirect_uri=" + evil:                                   "",
		c.url("redirect_uri", evil):                                         "",
		c.url("redirect_uri", shopCallback+"/"):                             "",
		w.shop.url("redirect_uri", phoneCallback):                           "",
		c.url() + "&%zz":                                                    "",
		c.url("redirect_uri", evil, "response_type", "token"):               "",
		c.url("response_type", ""):                                          invalid,
		c.url("response_type", "code id_token"):                             "unsupported_response_type",
		c.url("response_mode", "fragment"):                                  invalid,
		c.url("request", "e30.e30."):                                        "request_not_supported",
		c.url("request_uri", "http://169.254.169.254/"):                     "request_uri_not_supported",
		c.url("scope", "profile email"):                                     "invalid_scope",
		c.url("code_challenge_method", ""):                                  invalid,
		c.url("code_challenge_method", "plain", "code_challenge", verifier): invalid,
		c.url("code_challenge", "c2hvcnQ"):                                  invalid, // not of 32 bytes
		c.url("prompt", "create"):                                           invalid,
		c.url("prompt", "none login"):                                       invalid,
		c.url("max_age", "-1"):                                              invalid,
		c.url() + "&nonce=other":                                            invalid,
	} {
		for _, path := range []string{"/authorize", "/signin"} {
			p := b.open(strings.Replace(target, "/authorize", path, 1))
			ok := p.status == 400 && p.left == "" && strings.Contains(p.body, "This does not work")
			if q := p.query; code != "" { // beside that of the redirect URI
				ok = strings.HasPrefix(p.left, phoneCallback+"&") && q.Get("tenant") == "a b" &&
					q.Get("error") == code && q.Get("state") == state && q.Get("iss") == w.issuer && !q.Has("code")
			}
			if !ok {
				t.Errorf("%s at %s: %d, sent to %q, want %q", target, path, p.status, p.left, code)
			}
		}
	}
}

// A request can be posted, and unknown parameters are ignored.
func TestAuthorizePost(t *testing.T) {
	w := start(t, nil)
	b := w.browser()
	form := b.post(w.issuer+"/authorize", must(url.Parse(w.shop.url("scope", "openid address", "claims", "{}", "ui_locales", "de"))).Query())
	token := must(w.shop.exchange(b.post(form.url, credentials("alice")).query.Get("code")))
	if scope := token.Extra("scope"); scope != "openid" {
		t.Errorf("the scope %q was granted, want openid", scope)
	}
}
