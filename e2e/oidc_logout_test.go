package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// logoutHere: a logout ends the session here and the grant at the provider, which
// has a revocation endpoint (RFC 7009). While a provider is down, logouts
// still end sessions here.
func logoutHere(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	b, second, third := d.signedIn("alice"), d.signedIn("alice"), d.signedIn("alice")
	alice := d.session(b)
	a := d.do(b.c, "GET", "/logout", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	if a.status != http.StatusOK || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a link of another site: %d, %q", a.status, a.header.Get("Set-Cookie"))
	}
	d.lives(t, alice)
	signsOut := func(b *browser) answer {
		t.Helper()
		session := d.session(b)
		a := d.do(b.c, "GET", "/logout", "")
		if a.status != http.StatusFound || a.header.Get("Location") != "/" {
			t.Errorf("/logout: %d to %q", a.status, a.header.Get("Location"))
		}
		d.ended(t, session)
		return a
	}
	if cleared := cookieNamed(t, signsOut(b), "session"); cleared.Value != "" || cleared.MaxAge >= 0 {
		t.Errorf("the cookie is not cleared: %s", cleared)
	}
	d.lives(t, d.session(second))
	if got := len(d.p.state().Grants); got != 2 {
		t.Errorf("the provider has %d grants, expected those of the other two browsers", got)
	}
	d.p.do("down", nil)
	signsOut(second)
	session := d.session(third)
	if got := d.status(third.c, "POST", "/logout"); got != http.StatusOK {
		t.Errorf("POST /logout: %d", got)
	}
	d.ended(t, session)
}

// logoutRedirects: with logout: redirect the browser goes on to the provider's
// page for logout and comes back.
func logoutRedirects(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{more: ", logout: redirect"}, "")
	b := d.signedIn("alice")
	alice := d.session(b)
	b.open(d.base + "/logout")
	d.ended(t, alice)
	if got := b.url.Scheme + "://" + b.url.Host + b.url.Path; got != d.p.issuer+"/session/end" {
		t.Fatalf("the browser is not sent to the provider: %s", b.describe())
	}
	query := b.url.Query()
	if query.Get("client_id") != "gateway" || query.Get("post_logout_redirect_uri") != d.base+"/" || strings.Count(query.Get("id_token_hint"), ".") != 2 {
		t.Errorf("the request for logout: %s", b.url)
	}
	b.send(map[string]string{"logout": "yes"})
	if b.url.String() != d.base+"/" {
		t.Errorf("the browser does not come back: %s", b.describe())
	}
	b.open(d.base + "/login")
	if f, _ := b.form(); !f.fields.Has("login") {
		t.Errorf("the person is still signed in at the provider: %s", b.describe())
	}
}

// logoutAtProvider: a logout at the provider ends the session that its token
// names and no other; a token without a session ends all of the person's, but
// none that begins later; and a frame of the provider's page ends the session
// that it names. Each token works once.
func logoutAtProvider(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	b := d.signedIn("alice")
	first, second, bob := d.session(b), d.session(d.signedIn("alice")), d.session(d.signedIn("bob"))
	token := d.logoutToken(t, b)
	if claims := claimsOf(t, token); claims["sid"] == nil || claims["sub"] != "alice" {
		t.Fatalf("the logout token names no session: %v", claims)
	}
	d.ended(t, first)
	d.refuses(t, map[string]string{
		"used again":       token,
		"another's claims": forged(t, token, map[string]any{"jti": "2", "sub": "alice", "sid": nil}),
		"no signature":     unsigned(token),
		"nonsense":         "nonsense",
		"nothing":          "",
	})
	d.framedLogout(t, second, bob)

	d.p.register(d.instance, client{name: "certified", metadata: map[string]any{"backchannel_logout_session_required": false}})
	b = d.signedIn("alice")
	third, fourth := d.session(b), d.session(d.signedIn("alice"))
	token = d.logoutToken(t, b)
	if claims := claimsOf(t, token); claims["sid"] != nil || claims["sub"] != "alice" {
		t.Fatalf("the logout token names a session: %v", claims)
	}
	d.ended(t, third)
	d.ended(t, fourth)
	d.lives(t, bob)
	later := d.session(d.signedIn("alice"))
	d.refuses(t, map[string]string{"used again": token})
	d.lives(t, later)
}

// framedLogout ends a session as a page of a provider does by a frame.
// oidc-provider has no such page any more.
func (d *delegated) framedLogout(t *testing.T, session, other string) {
	t.Helper()
	sid := ""
	for _, grant := range d.p.state().Grants {
		if grant.Account == "alice" {
			sid = grant.SID // of the last login
		}
	}
	frame := func(iss, sid string) int {
		query := url.Values{"iss": {iss}, "sid": {sid}}.Encode()
		return d.status(d.stranger(), "GET", "/frontchannel-logout/certified?"+query,
			"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe")
	}
	if got := frame("https://evil.example", sid); got != http.StatusBadRequest {
		t.Errorf("a frame of another issuer: %d", got)
	}
	frame(d.p.issuer, "unknown")
	d.lives(t, session)
	if got := frame(d.p.issuer, sid); got != http.StatusOK {
		t.Errorf("/frontchannel-logout is %d", got)
	}
	d.ended(t, session)
	d.lives(t, other)
}

// logoutToken signs the person out on the provider's own page and returns the
// logout token that the provider sent.
func (d *delegated) logoutToken(t *testing.T, b *browser) string {
	t.Helper()
	before := len(d.p.state().LogoutTokens)
	b.open(d.p.issuer + "/session/end")
	b.send(map[string]string{"logout": "yes"})
	after := d.p.state().LogoutTokens
	if len(after) != before+1 {
		t.Fatalf("the provider sent %d logout tokens: %s", len(after)-before, b.describe())
	}
	return after[before]
}

// refuses sends logout tokens that are not valid.
func (d *delegated) refuses(t *testing.T, tokens map[string]string) {
	t.Helper()
	for name, token := range tokens {
		a := d.do(d.stranger(), "POST", "/backchannel-logout/certified", url.Values{"logout_token": {token}}.Encode(),
			"Content-Type", "application/x-www-form-urlencoded")
		if a.status != http.StatusBadRequest || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("a logout token, %s: %d %s, Cache-Control %q", name, a.status, a.body, a.header.Get("Cache-Control"))
		}
	}
}

// claimsOf returns the claims of a token without a look at its signature.
func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// forged returns a token with other claims under the same signature; nil removes
// a claim.
func forged(t *testing.T, token string, changes map[string]any) string {
	t.Helper()
	claims := claimsOf(t, token)
	for name, value := range changes {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	return parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + parts[2]
}
