package provider_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"authgate/upstream/provider"
)

// TestLogin: a complete login, for several kinds of clients.
func TestLogin(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	clients := map[string]*client{
		"client_secret_basic": w.shop(), "client_secret_post": w.shop(), "public": w.phone(),
	}
	clients["client_secret_basic"].oauth.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	clients["client_secret_post"].oauth.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			back := w.browser().signIn(c.url(), "alice", "wonderland")
			if back.status != 303 || !strings.HasPrefix(back.left, c.oauth.RedirectURL) {
				t.Fatalf("sent back with %d to %s", back.status, back.left)
			}
			if back.query.Get("state") != state || back.query.Get("iss") != w.issuer {
				t.Errorf("sent back with %v, want the state and the issuer", back.query)
			}
			token, err := c.exchange(back.query.Get("code"))
			if err != nil {
				t.Fatal(err)
			}
			if token.Type() != "Bearer" || token.ExpiresIn != 300 || token.RefreshToken == "" {
				t.Errorf("type %s, expires in %d s", token.Type(), token.ExpiresIn)
			}
			checkIDToken(t, w, c, token)
			checkUserinfo(t, c, token)
		})
	}
}

func checkIDToken(t *testing.T, w *world, c *client, token *oauth2.Token) {
	t.Helper()
	id := c.idToken(token)
	if id.Subject != "1001" || id.Nonce != nonce || !cmp.Equal(id.Audience, []string{c.oauth.ClientID}) {
		t.Errorf("the ID token is of %s for %v with the nonce %q", id.Subject, id.Audience, id.Nonce)
	}
	if err := id.VerifyAccessToken(token.AccessToken); err != nil {
		t.Errorf("at_hash: %v", err)
	}
	var claims struct {
		Session  string `json:"sid"`
		AuthTime int64  `json:"auth_time"`
	}
	if err := id.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	if claims.Session == "" || claims.AuthTime != w.clock.Now().Unix() {
		t.Errorf("sid %q, auth_time %d", claims.Session, claims.AuthTime)
	}
}

func checkUserinfo(t *testing.T, c *client, token *oauth2.Token) {
	t.Helper()
	info, err := c.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := info.Claims(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"sub": "1001", "name": "Alice Example", "preferred_username": "alice",
		"email": "alice@example.org", "email_verified": true, "roles": []any{"user", "admin"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("userinfo (-want +got):\n%s", diff)
	}
}

// TestDemoUsers: bob can sign in and has his role.
func TestDemoUsers(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.shop()
	token, err := c.exchange(w.browser().signIn(c.url(), "bob", "builder").query.Get("code"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
	if err != nil {
		t.Fatal(err)
	}
	var bob struct {
		Username string   `json:"preferred_username"`
		Roles    []string `json:"roles"`
	}
	if err := info.Claims(&bob); err != nil {
		t.Fatal(err)
	}
	if bob.Username != "bob" || !cmp.Equal(bob.Roles, []string{"user"}) || info.Subject != "1002" {
		t.Errorf("userinfo tells of %+v, subject %s", bob, info.Subject)
	}
}

// TestSingleSignOn: a signed-in user gets to a second client without a page, in the
// same session. A client can require the password, or forbid a page.
func TestSingleSignOn(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	shop, phone, b := w.shop(), w.phone(), w.browser()
	if p := b.open(shop.url("prompt", "none")); p.query.Get("error") != "login_required" || p.query.Get("state") != state {
		t.Errorf("prompt=none before the login: %s", p.left)
	}
	first := shop.login(b)
	sid := sessionOf(t, shop, first)
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
		if asked := strings.Contains(p.body, `name="password"`); asked != tt.page || !asked && p.query.Get("code") == "" {
			t.Errorf("%s: sign-in page %v, want %v, sent to %q", tt.name, asked, tt.page, p.left)
		}
	}
	again, err := phone.exchange(b.signIn(phone.url("prompt", "login"), "alice", "wonderland").query.Get("code"))
	if err != nil {
		t.Fatal(err)
	}
	if got := sessionOf(t, phone, again); got != sid {
		t.Error("the same person signed in again, but in another session")
	}
	if p := b.open(phone.url("max_age", "0")); p.query.Get("code") == "" {
		t.Error("signing in again does not count as recent")
	}
	b.signIn(phone.url("prompt", "login"), "bob", "builder")
	if shop.opens(first) {
		t.Error("bob has signed in instead, but alice's session goes on")
	}
}

func sessionOf(t *testing.T, c *client, token *oauth2.Token) string {
	t.Helper()
	var claims struct {
		Session string `json:"sid"`
	}
	if err := c.idToken(token).Claims(&claims); err != nil {
		t.Fatal(err)
	}
	return claims.Session
}

// TestLifetimes: codes, tokens and sessions expire.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *provider.Options) {
		o.CodeLifetime, o.AccessTokenLifetime, o.SessionLifetime = 10*time.Second, time.Minute, 90*time.Second
	})
	c, b := w.shop(), w.browser()
	slow := b.signIn(c.url(), "alice", "wonderland").query.Get("code")
	w.clock.Advance(9 * time.Second)
	token := c.login(b)
	w.clock.Advance(time.Second)
	if _, err := c.exchange(slow); failed(err) != "invalid_grant" {
		t.Errorf("a code of 10 s: %v", err)
	}
	w.clock.Advance(58 * time.Second)
	if !c.opens(token) {
		t.Error("an access token of 59 s does not open userinfo")
	}
	w.clock.Advance(time.Second)
	if c.opens(token) {
		t.Error("an access token of a minute opens userinfo")
	}
	token, err := c.refresh(token.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	if token.ExpiresIn != 21 {
		t.Errorf("an access token lasts %d s, but the session 21", token.ExpiresIn)
	}
	w.clock.Advance(21 * time.Second)
	if _, err := c.refresh(token.RefreshToken); failed(err) != "invalid_grant" {
		t.Errorf("a refresh token after the session: %v", err)
	}
	if p := b.open(c.url()); p.query != nil {
		t.Error("signed in after the session")
	}
}

// failed is the code in an error answer of the token endpoint.
func failed(err error) string {
	var answer *oauth2.RetrieveError
	if errors.As(err, &answer) {
		return answer.ErrorCode
	}
	return ""
}

func TestSignInPage(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c, b := w.shop(), w.browser()
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
		if p.query != nil || !strings.Contains(p.body, "Wrong user name or password") || !strings.Contains(p.body, `name="password"`) {
			t.Errorf("%q: %d, sent to %q:\n%s", wrong, p.status, p.left, p.body)
		}
		if p.header.Get("Set-Cookie") != "" {
			t.Errorf("%q: a cookie", wrong)
		}
	}
	if p := b.open(c.url()); p.query != nil {
		t.Error("signed in by a wrong password")
	}
}

// TestSignInCrossSite: another site cannot sign a user in.
func TestSignInCrossSite(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	form := w.browser().open(w.shop().url())
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		r := request(t, "POST", form.url, url.Values{"username": {"bob"}, "password": {"builder"}})
		r.Header.Set(header, value)
		if p := w.browser().do(r); p.status != 403 || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%s %s: %d", header, value, p.status)
		}
	}
}

func TestSessionCookie(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	p := w.browser().signIn(w.shop().url(), "alice", "wonderland")
	cookie := p.header.Get("Set-Cookie")
	name, rest, _ := strings.Cut(cookie, "=")
	_, attributes, _ := strings.Cut(rest, "; ")
	if name != "demo_provider_session" || attributes != "Path=/; HttpOnly; SameSite=Lax" {
		t.Errorf("the cookie is %s with %s", name, attributes)
	}
}
