package oidc

import (
	"encoding/json"
	"net/http"
	"testing"

	"authgate/e2e/world"
)

// TestCertifiedProvider signs people in at oidc-provider, which the OpenID
// Foundation has certified, on its own pages. Each story has its own gateway and
// providers; one process holds all providers.
func TestCertifiedProvider(t *testing.T) {
	t.Parallel()
	c := world.StartCertified(t)
	for name, story := range map[string]func(*testing.T, *world.Certified){
		"kinds of clients":     delegatedLogin,
		"pages":                delegatedPages,
		"prefix":               ownPrefix,
		"a session goes on":    sessionGoesOn,
		"down at start":        providerDownAtStart,
		"logout here":          logoutHere,
		"logout redirects":     logoutRedirects,
		"logout at provider":   logoutAtProvider,
		"bearer tokens":        bearerOfTrustedIssuer,
		"a session of its own": applicationSession,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, c)
		})
	}
}

// signedIn is a new browser in which a user has signed in.
func signedIn(d *world.Delegated, user string) *browser {
	d.T.Helper()
	b := browse(d.Instance)
	b.signIn(d.Base+"/login", d.Provider, user)
	return b
}

// sessionOf is the cookie of the browser's session.
func sessionOf(d *world.Delegated, b *browser) string {
	d.T.Helper()
	value := b.Cookie(d.Base, "session")
	if value == "" {
		d.T.Fatalf("there is no session: %s\n%s", b.Describe(), d.Log)
	}
	return "session=" + value
}

// wantIn fails the test unless a session gives access to the upstream.
func wantIn(t *testing.T, d *world.Delegated, session string) {
	t.Helper()
	d.Up.All()
	if got := d.Status(d.Stranger(), "GET", "/secure-resource", "Cookie", session); got != http.StatusOK {
		t.Fatalf("with a valid session, /secure-resource is %d\n%s", got, d.Log)
	}
	d.Up.One(t)
}

// wantOut fails the test if a session gives access to anything.
func wantOut(t *testing.T, d *world.Delegated, session string) {
	t.Helper()
	d.Up.All()
	for _, path := range []string{"/secure-resource", "/me"} {
		if got := d.Status(d.Stranger(), "GET", path, "Cookie", session); got != http.StatusUnauthorized {
			t.Errorf("with a session that has ended, %s is %d", path, got)
		}
	}
	d.Up.None(t)
}

// wantReached fails the test unless the browser shows a page for which the upstream saw the
// user. It returns what the upstream saw.
func wantReached(t *testing.T, d *world.Delegated, b *browser, page, user string) world.Message {
	t.Helper()
	if b.URL.String() != d.Base+page || b.Page.Status != http.StatusOK {
		t.Fatalf("expected %s: %s\n%s", page, b.Describe(), d.Log)
	}
	m := d.Up.One(t)
	if got := m.Value(t, "X-Auth-User"); got != user {
		t.Errorf("at %s the upstream gets the user %q", page, got)
	}
	return m
}

// proofOf returns what the gateway knows of the login of a browser.
func proofOf(t *testing.T, d *world.Delegated, b *browser) (known struct {
	AMR      []string `json:"amr"`
	AuthTime int64    `json:"auth_time"`
},
) {
	t.Helper()
	world.NoError(t, json.Unmarshal([]byte(d.Do(b.Client, "GET", "/me", "").Body), &known))
	return known
}
