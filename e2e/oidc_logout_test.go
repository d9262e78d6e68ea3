package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// logoutRevokes: GET /logout ends the session here, and the grant at the
// provider, which has a revocation endpoint (RFC 7009).
func logoutRevokes(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	b, other := d.signedIn("alice"), d.signedIn("alice")
	alice := d.session(b)
	if got := len(d.p.state().Grants); got != 2 {
		t.Fatalf("the provider has %d grants, expected two", got)
	}
	a := d.do(b.c, "GET", "/logout", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	if a.status != http.StatusOK || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a link of another site: %d, %q", a.status, a.header.Get("Set-Cookie"))
	}
	d.lives(t, alice)

	a = d.do(b.c, "GET", "/logout", "")
	if a.status != http.StatusFound || a.header.Get("Location") != "/" {
		t.Errorf("/logout: %d to %q", a.status, a.header.Get("Location"))
	}
	if cleared := cookieNamed(t, a, "session"); cleared.Value != "" || cleared.MaxAge >= 0 {
		t.Errorf("the cookie is not cleared: %s", cleared)
	}
	d.ended(t, alice)
	d.lives(t, d.session(other))
	if got := len(d.p.state().Grants); got != 1 {
		t.Errorf("the provider has %d grants, expected that of the other browser", got)
	}
}

// logoutRedirects: where configured so, the browser goes on to the provider's
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
		t.Errorf("the provider knows the person still: %s", b.describe())
	}
}

// logoutWithoutProvider: a provider that is down keeps nobody signed in.
func logoutWithoutProvider(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	first, second := d.signedIn("alice"), d.signedIn("alice")
	d.p.do("down", nil)
	s := d.session(first)
	if a := d.do(first.c, "GET", "/logout", ""); a.status != http.StatusFound || a.header.Get("Location") != "/" {
		t.Errorf("GET /logout: %d to %q", a.status, a.header.Get("Location"))
	}
	d.ended(t, s)
	s = d.session(second)
	if got := d.status(second.c, "POST", "/logout"); got != http.StatusOK {
		t.Errorf("POST /logout: %d", got)
	}
	d.ended(t, s)
}

// backChannelLogout: a logout at the provider ends the session that belongs
// to it and no other, and its token is good once.
func backChannelLogout(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	b := d.signedIn("alice")
	first, second, bob := d.session(b), d.session(d.signedIn("alice")), d.session(d.signedIn("bob"))
	token := d.logoutAtProvider(t, b)
	if claims := claimsOf(t, token); claims["sid"] == nil || claims["sub"] != "alice" {
		t.Fatalf("the logout token is another than this test is about: %v", claims)
	}
	d.ended(t, first)
	d.lives(t, second)
	d.lives(t, bob)
	d.refuses(t, map[string]string{
		"used again":       token,
		"another's claims": forged(t, token, map[string]any{"jti": "2", "sub": "alice", "sid": nil}),
		"no signature":     unsigned(token),
		"nonsense":         "nonsense",
		"nothing":          "",
	})
	d.lives(t, second)
	d.lives(t, bob)
}

// backChannelLogoutOfPerson: a logout token without a session ends all of the
// person's, but none of those that begin after it.
func backChannelLogoutOfPerson(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{metadata: map[string]any{"backchannel_logout_session_required": false}}, "")
	b := d.signedIn("alice")
	first, second, bob := d.session(b), d.session(d.signedIn("alice")), d.session(d.signedIn("bob"))
	token := d.logoutAtProvider(t, b)
	if claims := claimsOf(t, token); claims["sid"] != nil || claims["sub"] != "alice" {
		t.Fatalf("the logout token is another than this test is about: %v", claims)
	}
	d.ended(t, first)
	d.ended(t, second)
	d.lives(t, bob)
	again := d.session(d.signedIn("alice"))
	d.lives(t, again)
	d.refuses(t, map[string]string{"used again": token})
	d.lives(t, again)
}

// logoutAtProvider signs the person out on the provider's own page, and
// returns the logout token that it sent.
func (d *delegated) logoutAtProvider(t *testing.T, b *browser) string {
	t.Helper()
	b.open(d.p.issuer + "/session/end")
	b.send(map[string]string{"logout": "yes"})
	tokens := d.p.state().LogoutTokens
	if len(tokens) != 1 {
		t.Fatalf("the provider sent %d logout tokens: %s", len(tokens), b.describe())
	}
	return tokens[0]
}

// refuses sends logout tokens that are not good, by their names.
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

// claimsOf are the claims of a token, whoever signed it.
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

// forged is a token with other claims under the same signature; nil removes
// one.
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

// frontChannelLogout: the provider's page ends the session by a frame, which
// names the provider and its session. oidc-provider has no such page any more.
func frontChannelLogout(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	first := d.session(d.signedIn("alice"))
	sid := d.p.state().Grants[0].SID
	second := d.session(d.signedIn("alice"))
	frame := func(iss, sid string) int {
		query := url.Values{"iss": {iss}, "sid": {sid}}.Encode()
		return d.status(d.stranger(), "GET", "/frontchannel-logout/certified?"+query,
			"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe")
	}
	if got := frame("https://evil.example", sid); got != http.StatusBadRequest {
		t.Errorf("of another issuer: %d", got)
	}
	frame(d.p.issuer, "unknown")
	d.lives(t, first)
	d.lives(t, second)
	if got := frame(d.p.issuer, sid); got != http.StatusOK {
		t.Errorf("/frontchannel-logout is %d", got)
	}
	d.ended(t, first)
	d.lives(t, second)
}
