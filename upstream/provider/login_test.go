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
		client   *client
		style    oauth2.AuthStyle
		username string
	}{{w.shop, oauth2.AuthStyleInHeader, "alice"}, {w.shop, oauth2.AuthStyleInParams, "bob"}, {w.phone, oauth2.AuthStyleInParams, "alice"}} {
		c := tt.client
		c.oauth.Endpoint.AuthStyle = tt.style
		back := w.browser().signIn(c.url(), tt.username)
		if back.status != 303 || !strings.HasPrefix(back.left, c.oauth.RedirectURL) || back.query.Get("state") != state || back.query.Get("iss") != w.issuer {
			t.Fatalf("sent back with %d to %s", back.status, back.left)
		}
		token, err := c.exchange(back.query.Get("code"))
		if err != nil {
			t.Fatal(err)
		}
		if token.Type() != "Bearer" || token.ExpiresIn != 300 || token.RefreshToken == "" {
			t.Errorf("type %s, expires in %d s", token.Type(), token.ExpiresIn)
		}
		user, now, id := users[tt.username], float64(w.clock.Now().Unix()), c.idToken(token)
		want := map[string]any{
			"iss": w.issuer, "aud": c.oauth.ClientID, "sub": user["sub"], "nonce": nonce, "auth_time": now, "iat": now, "exp": now + 300,
			"at_hash": id["at_hash"], "sid": id["sid"],
		}
		if diff := cmp.Diff(want, id); diff != "" || id["at_hash"] == nil || id["sid"] == nil {
			t.Errorf("the ID token (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(user, c.userinfo(token)); diff != "" {
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
		name  string
		pairs []string
		page  bool
	}{
		{"nothing more", nil, false},
		{"consent, which has no page", []string{"prompt", "consent", "scope", "openid offline_access"}, false},
		{"prompt=none", []string{"prompt", "none"}, false},
		{"recent enough", []string{"max_age", "60"}, false},
		{"too long ago", []string{"max_age", "59"}, true},
		{"prompt=login", []string{"prompt", "login"}, true},
		{"prompt=select_account", []string{"prompt", "select_account"}, true},
	} {
		p := b.open(phone.url(tt.pairs...))
		if asked := p.asksPassword(); asked != tt.page || !asked && p.query.Get("code") == "" {
			t.Errorf("%s: sign-in page %v, want %v, sent to %q", tt.name, asked, tt.page, p.left)
		}
	}
	again, err := phone.exchange(b.signIn(phone.url("prompt", "login"), "alice").query.Get("code"))
	if err != nil || phone.session(again) != shop.session(first) {
		t.Errorf("the same person signed in again, but in another session: %v", err)
	}
	if p := b.open(phone.url("max_age", "0")); p.query.Get("code") == "" {
		t.Error("signing in again does not count as recent")
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
	wantFailed(t, "a code of 10 s", err, "invalid_grant")
	w.clock.Advance(58 * time.Second)
	c.wantOpens("after 59 s", token, true)
	w.clock.Advance(time.Second)
	c.wantOpens("after a minute", token, false)
	token, err = c.refresh(token.RefreshToken)
	if err != nil || token.ExpiresIn != 21 {
		t.Fatalf("%v: an access token lasts %d s, but the session 21", err, token.ExpiresIn)
	}
	w.clock.Advance(21 * time.Second)
	_, err = c.refresh(token.RefreshToken)
	wantFailed(t, "a refresh token after the session", err, "invalid_grant")
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
	policy := form.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self' https://shop.example"} {
		if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
			t.Errorf("Content-Security-Policy %q, want %s", policy, want)
		}
	}
	for _, wrong := range [][2]string{{"alice", "builder"}, {"alice", ""}, {"nobody", "wonderland"}, {"", ""}} {
		p := b.post(form.url, url.Values{"username": {wrong[0]}, "password": {wrong[1]}})
		if p.query != nil || !strings.Contains(p.body, "Wrong user name or password") || !p.asksPassword() || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%q: %d, sent to %q:\n%s", wrong, p.status, p.left, p.body)
		}
	}
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		r := request("POST", form.url, credentials("bob"))
		r.Header.Set(header, value)
		if p := b.do(r); p.status != 403 || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%s %s: %d", header, value, p.status)
		}
	}
	cookie := b.signIn(c.url(), "alice").header.Get("Set-Cookie")
	if _, attributes, _ := strings.Cut(cookie, "; "); !strings.HasPrefix(cookie, "demo_provider_session=") || attributes != "Path=/; HttpOnly; SameSite=Lax" {
		t.Errorf("the cookie is %s", cookie)
	}
}
