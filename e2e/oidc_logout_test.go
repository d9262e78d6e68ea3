package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// logoutHere: a logout ends the session here and the grant at the provider, which
// has a revocation endpoint (RFC 7009). The session ends before the provider
// answers, and also while it is down.
func logoutHere(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	first, second, third := d.signedIn("alice"), d.signedIn("alice"), d.signedIn("alice")
	signsOut := func(b *browser, method string, meanwhile func(session string)) {
		t.Helper()
		session, answered := d.session(b), make(chan answer, 1)
		go func() {
			a, err := d.try(b.c, method, "/logout", "")
			if err != nil {
				t.Error(err)
			}
			answered <- a
		}()
		if meanwhile != nil {
			meanwhile(session)
		}
		a := <-answered
		if cleared := cookieNamed(t, a, "session"); a.status >= 400 || cleared.Value != "" || cleared.MaxAge >= 0 {
			t.Errorf("%s /logout: %d, %s", method, a.status, cleared)
		}
		if to := a.header.Get("Location"); method == "GET" && to != "/" {
			t.Errorf("the browser is sent to %q", to)
		}
		d.ended(t, session)
	}
	signsOut(first, "GET", nil)
	d.lives(t, d.session(second))
	if got := len(d.p.state().Grants); got != 2 {
		t.Errorf("the provider has %d grants, expected those of the other two browsers", got)
	}
	d.p.do("hold", true)
	signsOut(second, "GET", func(session string) {
		until(t, "the session to end", func() bool {
			return d.status(d.stranger(), "GET", "/secure-resource", "Cookie", session) == http.StatusUnauthorized
		})
		d.p.do("down", nil)
	})
	signsOut(third, "POST", nil)
}

// logoutRedirects: with logout: redirect the browser goes on to the provider's
// page for logout and comes back. POST /logout tells the client where to go on.
func logoutRedirects(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{more: ", logout: redirect"}, "")
	b := d.signedIn("alice")
	alice := d.session(b)
	b.open(d.base + "/logout")
	d.ended(t, alice)
	d.asksToSignOut(t, b.url.String())
	b.send(map[string]string{"logout": "yes"})
	if b.url.String() != d.base+"/" {
		t.Errorf("the browser does not come back: %s", b.describe())
	}
	b.open(d.base + "/login")
	if f, _ := b.form(); !f.fields.Has("login") {
		t.Errorf("the person is still signed in at the provider: %s", b.describe())
	}

	b.consent(d.p, "alice")
	alice = d.session(b)
	var said struct {
		ContinueAt string `json:"continue_at"`
	}
	a := d.do(b.c, "POST", "/logout", "", "Accept", typeJSON)
	if err := json.Unmarshal([]byte(a.body), &said); err != nil || a.status != http.StatusOK {
		t.Errorf("POST /logout: %d, %v", a.status, err)
	}
	d.asksToSignOut(t, said.ContinueAt)
	d.ended(t, alice)
}

// asksToSignOut checks a logout request (OpenID Connect RP-Initiated Logout 1.0,
// section 2). No other token than the ID token is in it.
func (d *delegated) asksToSignOut(t *testing.T, address string) {
	t.Helper()
	query := queryOf(address)
	hint := query.Get("id_token_hint")
	query.Del("id_token_hint")
	want := url.Values{"client_id": {"gateway"}, "post_logout_redirect_uri": {d.base + "/"}}
	if diff := cmp.Diff(want, query); diff != "" || strings.Count(hint, ".") != 2 || !strings.HasPrefix(address, d.p.issuer+"/session/end?") {
		t.Errorf("the browser is sent to %s (-want +got):\n%s", address, diff)
	}
}

// logoutAtProvider: a logout at the provider ends the session that its token
// names and no other; a token without a session ends all of the person's, but
// none that begins later. Each token works once.
func logoutAtProvider(t *testing.T, c *certified) {
	d := c.gateway(t, openIDOptions{}, client{}, "")
	b := d.signedIn("alice")
	first, second, bob := d.session(b), d.session(d.signedIn("alice")), d.session(d.signedIn("bob"))
	token := d.logoutToken(t, b)
	if claims := claimsOf(t, token); claims["sid"] == nil || claims["sub"] != "alice" {
		t.Fatalf("the logout token names no session: %v", claims)
	}
	d.ended(t, first)
	for _, refused := range []string{token, forged(t, token, map[string]any{"jti": "2", "sub": "alice", "sid": nil}), unsigned(token)} {
		d.refuses(t, refused)
	}
	d.lives(t, second)

	d.p.register(d.instance, client{name: "certified", metadata: map[string]any{"backchannel_logout_session_required": false}})
	b = d.signedIn("alice")
	third := d.session(b)
	token = d.logoutToken(t, b)
	if claims := claimsOf(t, token); claims["sid"] != nil || claims["sub"] != "alice" {
		t.Fatalf("the logout token names a session: %v", claims)
	}
	d.ended(t, second)
	d.ended(t, third)
	d.lives(t, bob)
	later := d.session(d.signedIn("alice"))
	d.refuses(t, token)
	d.lives(t, later)
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

// refuses sends a logout token that is not valid, or that was used.
func (d *delegated) refuses(t *testing.T, token string) {
	t.Helper()
	a := d.do(d.stranger(), "POST", "/backchannel-logout/certified", url.Values{"logout_token": {token}}.Encode(), "Content-Type", typeForm)
	if a.status != http.StatusBadRequest {
		t.Errorf("the logout token %.20s... is answered %d %s", token, a.status, a.body)
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
	parts := strings.Split(token, ".")
	return parts[0] + "." + base64.RawURLEncoding.EncodeToString(payloadOf(claims)) + "." + parts[2]
}
