package oidc

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/google/go-cmp/cmp"
)

// logoutHere: a logout ends the session here and the grant at the provider, which
// has a revocation endpoint (RFC 7009). The session ends before the provider
// answers, and also while it is down.
func logoutHere(t *testing.T, c *world.Certified) {
	d := c.Start(t, world.ProviderOptions{}, world.ProviderClient{}, "")
	first, second, third := signedIn(d, "alice"), signedIn(d, "alice"), signedIn(d, "alice")
	signsOut := func(b *browser, method string, meanwhile func(session string)) {
		t.Helper()
		session, answered := sessionOf(d, b), make(chan world.Answer, 1)
		go func() {
			a, err := d.Try(b.Client, method, "/logout", "")
			if err != nil {
				t.Error(err)
			}
			answered <- a
		}()
		if meanwhile != nil {
			meanwhile(session)
		}
		a := <-answered
		if cleared := world.CookieNamed(t, a, "session"); a.Status >= 400 || cleared.Value != "" || cleared.MaxAge >= 0 {
			t.Errorf("%s /logout: %d, %s", method, a.Status, cleared)
		}
		if to := a.Header.Get("Location"); method == "GET" && to != "/" {
			t.Errorf("the browser is sent to %q", to)
		}
		wantOut(t, d, session)
	}
	signsOut(first, "GET", nil)
	wantIn(t, d, sessionOf(d, second))
	if got := len(d.Provider.State().Grants); got != 2 {
		t.Errorf("the provider has %d grants, expected those of the other two browsers", got)
	}
	d.Provider.Do("hold", true)
	signsOut(second, "GET", func(session string) {
		world.Until(t, "the session to end", func() bool {
			return d.Status(d.Stranger(), "GET", "/secure-resource", "Cookie", session) == http.StatusUnauthorized
		})
		d.Provider.Do("down", nil)
	})
	signsOut(third, "POST", nil)
}

// logoutRedirects: with logout: redirect the browser goes on to the provider's
// page for logout and comes back. POST /logout tells the client where to go on.
func logoutRedirects(t *testing.T, c *world.Certified) {
	d := c.Start(t, world.ProviderOptions{}, world.ProviderClient{More: ", logout: redirect"}, "")
	b := signedIn(d, "alice")
	alice := sessionOf(d, b)
	b.Open(d.Base + "/logout")
	wantOut(t, d, alice)
	asksToSignOut(t, d, b.URL.String())
	b.Send(map[string]string{"logout": "yes"})
	if b.URL.String() != d.Base+"/" {
		t.Errorf("the browser does not come back: %s", b.Describe())
	}
	b.Open(d.Base + "/login")
	if f, _ := b.Form(); !f.Fields.Has("login") {
		t.Errorf("the person is still signed in at the provider: %s", b.Describe())
	}

	b.consent(d.Provider, "alice")
	alice = sessionOf(d, b)
	var said struct {
		ContinueAt string `json:"continue_at"`
	}
	a := d.Do(b.Client, "POST", "/logout", "", "Accept", world.TypeJSON)
	if err := json.Unmarshal([]byte(a.Body), &said); err != nil || a.Status != http.StatusOK {
		t.Errorf("POST /logout: %d, %v", a.Status, err)
	}
	asksToSignOut(t, d, said.ContinueAt)
	wantOut(t, d, alice)
}

// asksToSignOut checks a logout request (OpenID Connect RP-Initiated Logout 1.0,
// section 2). No other token than the ID token is in it.
func asksToSignOut(t *testing.T, d *world.Delegated, address string) {
	t.Helper()
	query := world.QueryOf(address)
	hint := query.Get("id_token_hint")
	query.Del("id_token_hint")
	want := url.Values{"client_id": {"gateway"}, "post_logout_redirect_uri": {d.Base + "/"}}
	if diff := cmp.Diff(want, query); diff != "" || strings.Count(hint, ".") != 2 ||
		!strings.HasPrefix(address, d.Provider.Issuer+"/session/end?") {
		t.Errorf("the browser is sent to %s (-want +got):\n%s", address, diff)
	}
}

// logoutAtProvider: a logout at the provider ends the session that its token
// names and no other; a token without a session ends all of the person's, but
// none that begins later. Each token works once.
func logoutAtProvider(t *testing.T, c *world.Certified) {
	d := c.Start(t, world.ProviderOptions{}, world.ProviderClient{}, "")
	b := signedIn(d, "alice")
	first, second, bob := sessionOf(d, b), sessionOf(d, signedIn(d, "alice")), sessionOf(d, signedIn(d, "bob"))
	token := logoutToken(t, d, b)
	if claims := world.ClaimsOf(t, token); claims["sid"] == nil || claims["sub"] != "alice" {
		t.Fatalf("the logout token names no session: %v", claims)
	}
	wantOut(t, d, first)
	for _, refused := range []string{token, forged(t, token, map[string]any{"jti": "2", "sub": "alice", "sid": nil}),
		unsigned(token)} {
		refuses(t, d, refused)
	}
	wantIn(t, d, second)

	d.Provider.Register(d.Instance, world.ProviderClient{Name: "certified",
		Metadata: map[string]any{"backchannel_logout_session_required": false}})
	b = signedIn(d, "alice")
	third := sessionOf(d, b)
	token = logoutToken(t, d, b)
	if claims := world.ClaimsOf(t, token); claims["sid"] != nil || claims["sub"] != "alice" {
		t.Fatalf("the logout token names a session: %v", claims)
	}
	wantOut(t, d, second)
	wantOut(t, d, third)
	wantIn(t, d, bob)
	later := sessionOf(d, signedIn(d, "alice"))
	refuses(t, d, token)
	wantIn(t, d, later)
}

// logoutToken signs the person out on the provider's own page and returns the
// logout token that the provider sent.
func logoutToken(t *testing.T, d *world.Delegated, b *browser) string {
	t.Helper()
	before := len(d.Provider.State().LogoutTokens)
	b.Open(d.Provider.Issuer + "/session/end")
	b.Send(map[string]string{"logout": "yes"})
	after := d.Provider.State().LogoutTokens
	if len(after) != before+1 {
		t.Fatalf("the provider sent %d logout tokens: %s", len(after)-before, b.Describe())
	}
	return after[before]
}

// refuses sends a logout token that is not valid, or that was used.
func refuses(t *testing.T, d *world.Delegated, token string) {
	t.Helper()
	a := d.Do(d.Stranger(), "POST", "/backchannel-logout/certified", url.Values{"logout_token": {token}}.Encode(),
		"Content-Type", world.TypeForm)
	if a.Status != http.StatusBadRequest {
		t.Errorf("the logout token %.20s... is answered %d %s", token, a.Status, a.Body)
	}
}

// forged returns a token with other claims under the same signature; nil removes
// a claim.
func forged(t *testing.T, token string, changes map[string]any) string {
	t.Helper()
	claims := world.ClaimsOf(t, token)
	for name, value := range changes {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	parts := strings.Split(token, ".")
	return parts[0] + "." + base64.RawURLEncoding.EncodeToString(payloadOf(claims)) + "." + parts[2]
}
