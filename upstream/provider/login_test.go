package provider_test

import (
	"net/url"
	"regexp"
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
	alice := map[string]any{"sub": "1001", "name": "Alice Example", "preferred_username": "alice", "email": "alice@example.org", "email_verified": true, "roles": []any{"user", "admin"}}
	bob := map[string]any{"sub": "1002", "name": "Bob Example", "preferred_username": "bob", "email": "bob@example.org", "email_verified": true, "roles": []any{"user"}}
	for _, tt := range []struct {
		c                  *client
		style              oauth2.AuthStyle
		username, password string
		user               map[string]any
	}{
		{w.shop, oauth2.AuthStyleInHeader, "alice", "wonderland", alice},
		{w.phone, oauth2.AuthStyleInParams, "bob", "builder", bob},
	} {
		tt.c.oauth.Endpoint.AuthStyle = tt.style
		back := w.browser().signIn(tt.c.url(), tt.username, tt.password)
		if back.status != 303 || !strings.HasPrefix(back.left, tt.c.oauth.RedirectURL) || back.query.Get("state") != state || back.query.Get("iss") != w.issuer {
			t.Errorf("sent back with %d to %s", back.status, back.left)
		}
		token := must(tt.c.exchange(back.query.Get("code")))
		if token.Type() != "Bearer" || token.ExpiresIn != 300 || token.RefreshToken == "" || token.Extra("scope") != "openid profile email" {
			t.Errorf("type %s, expires in %d s, scope %q", token.Type(), token.ExpiresIn, token.Extra("scope"))
		}
		now, id := float64(w.clock.Now().Unix()), tt.c.idToken(token)
		want := map[string]any{
			"iss": w.issuer, "aud": tt.c.oauth.ClientID, "sub": tt.user["sub"], "nonce": nonce, "auth_time": now, "iat": now, "exp": now + 300,
			"at_hash": id["at_hash"], "sid": id["sid"],
		}
		if diff := cmp.Diff(want, id); diff != "" || id["at_hash"] == nil || id["sid"] == nil {
			t.Errorf("the ID token (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(tt.user, tt.c.userinfo(token.AccessToken)); diff != "" {
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
	for pair, page := range map[[2]string]bool{
		{"prompt", "none"}: false, {"prompt", "consent"}: false, {"prompt", "login"}: true, {"prompt", "select_account"}: true,
		{"max_age", "60"}: false, {"max_age", "59"}: true, // since a minute ago
	} {
		p := b.open(phone.url(pair[0], pair[1]))
		if asked := p.asksPassword(); asked != page || !asked && p.query.Get("code") == "" {
			t.Errorf("%s: sign-in page %v, want %v, sent to %q", pair, asked, page, p.left)
		}
	}
	again := must(phone.exchange(phone.code(b, "prompt", "login")))
	if phone.idToken(again)["sid"] != shop.idToken(first)["sid"] || b.open(phone.url("max_age", "0")).query.Get("code") == "" {
		t.Error("the same person signed in again, but in another session, or it does not count as recent")
	}
	b.signIn(phone.url("prompt", "login"), "bob", "builder")
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
	wantFailed(t, "a code of 10 s", c.exchange, slow)
	w.clock.Advance(58 * time.Second)
	c.wantOpens("after 59 s", token, true)
	w.clock.Advance(time.Second)
	c.wantOpens("after a minute", token, false)
	if token = must(c.refresh(token.RefreshToken)); token.ExpiresIn != 21 {
		t.Errorf("an access token lasts %d s, but the session 21", token.ExpiresIn)
	}
	w.clock.Advance(21 * time.Second)
	wantFailed(t, "a refresh token after the session", c.refresh, token.RefreshToken)
	if p := b.open(c.url()); p.query != nil {
		t.Error("signed in after the session")
	}
}

func TestSignInPage(t *testing.T) {
	w := start(t, nil)
	b, target := w.browser(), w.shop.url("login_hint", `"><script>x`)
	form := b.open(target)
	policy := regexp.MustCompile(`^default-src 'none'; style-src 'sha256-[^']*'; frame-ancestors 'none'; base-uri 'none'; form-action 'self' https://shop.example$`)
	if got := form.header.Get("Content-Security-Policy"); !policy.MatchString(got) || strings.Contains(form.body, "<script") {
		t.Errorf("the page does not escape, or its policy is %q:\n%s", got, form.body)
	}
	for username, password := range map[string]string{"alice": "builder", "stranger": "wonderland", "": ""} {
		p := b.signIn(target, username, password)
		if p.query != nil || !strings.Contains(p.body, "Wrong user name or password") || !p.asksPassword() || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%q: %d, sent to %q:\n%s", username, p.status, p.left, p.body)
		}
	}
	r := request("POST", form.url, url.Values{"username": {"bob"}, "password": {"builder"}})
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if p := b.do(r); p.status != 403 || p.header.Get("Set-Cookie") != "" {
		t.Errorf("from another site: %d", p.status)
	}
	cookie := b.signIn(target, "alice", "wonderland").header.Get("Set-Cookie")
	if !regexp.MustCompile(`^demo_provider_session=\w+; Path=/; HttpOnly; SameSite=Lax$`).MatchString(cookie) {
		t.Errorf("the cookie is %s", cookie)
	}
}

// A request with a wrong client or redirect URI ends with a page, even for a user who
// is signed in. The client gets every other mistake (RFC 6749, section 4.1.2.1).
func TestAuthorizeRefuses(t *testing.T) {
	w := start(t, nil)
	c, b := w.phone, w.browser()
	c.login(b)
	const invalid = "invalid_request"
	for target, code := range map[string]string{ // empty: a page
		c.url("client_id", "stranger"):                                      "",
		c.url() + "&client_id=shop":                                         "",
		c.url() + "&redirect_uri=https://evil.example/":                     "",
		c.url("redirect_uri", shopCallback+"/", "response_type", "token"):   "",
		w.shop.url("redirect_uri", phoneCallback):                           "",
		c.url() + "&%zz":                                                    "",
		c.url("response_type", ""):                                          invalid,
		c.url("response_type", "code id_token"):                             "unsupported_response_type",
		c.url("response_mode", "fragment"):                                  invalid,
		c.url("request", "e30.e30."):                                        "request_not_supported",
		c.url("request_uri", "http://169.254.169.254/"):                     "request_uri_not_supported",
		c.url("scope", "profile email"):                                     "invalid_scope",
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
