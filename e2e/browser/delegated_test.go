package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/google/go-cmp/cmp"
)

// delegatedInBrowser are people who sign in at a provider, at one gateway.
func delegatedInBrowser(t *testing.T, c *chromium) {
	s := c.shopfront(t, ", logout: redirect")
	signInAtProvider(t, c.tab(t), s)
	signOutByRedirect(t, s.signedIn(t, c, "alice"), s)
	frontChannelInBrowser(t, c, s)
}

// signInAtProvider: a page leads to the provider and back.
func signInAtProvider(t *testing.T, b *tab, s *shopfront) {
	const page, binding = "/secure-resource?x=1&y=a%20b", "__Host-authgate_login"
	b.open(s.Base + page)
	b.atProvider(s)
	s.up.None(t)
	want := cookieFacts{"localhost", "/", true, true, network.CookieSameSiteLax}
	if diff := cmp.Diff(want, factsOf(b.cookies()[binding])); diff != "" {
		t.Errorf("the cookie of the attempt (-want +got):\n%s", diff)
	}
	b.signIn("alice")
	b.is(s.Base + page)
	m := wantAsked(t, s.up, "GET", page, "alice")
	for name, want := range map[string]string{
		"X-Auth-Subject": "demo:alice", "X-Auth-Name": "Alice Example", "X-Auth-Email": "alice@example.org",
		"X-Auth-Roles": "user,admin", "X-Auth-Mechanism": "oidc", "X-Auth-Provider": "demo",
	} {
		if got := m.Value(t, name); got != want {
			t.Errorf("the upstream gets %s %q, expected %q", name, got, want)
		}
	}
	if diff := cmp.Diff(want, factsOf(b.cookies()["session"])); diff != "" {
		t.Errorf("the cookie of the session (-want +got):\n%s", diff)
	}
	if got := b.value("document.cookie"); got != "" {
		t.Errorf("a script reads the cookies %q", got)
	}
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the browser complains: %q", got)
	}
}

// signOutByRedirect: with logout: redirect the button leads to the provider, though
// the policy of the page allows its form no other target, and back.
func signOutByRedirect(t *testing.T, b *tab, s *shopfront) {
	b.open(s.Base + "/me")
	b.asked()
	b.click("button")
	b.arrives(s.Base + "/")
	wantAsked(t, s.up, "GET", "/", "")
	var way []string
	for _, r := range b.asked() {
		if !r.page {
			continue // the icon of the last one
		}
		place, _, _ := strings.Cut(r.url, "?")
		way = append(way, r.method+" "+place)
		if place == s.issuer.Base+"/oauth/logout" && r.referer != "" {
			t.Errorf("the provider gets the referer %s", r.referer)
		}
	}
	want := []string{"POST " + s.Base + "/logout", "GET " + s.issuer.Base + "/oauth/logout", "GET " + s.Base + "/"}
	if diff := cmp.Diff(want, way); diff != "" {
		t.Errorf("the requests of the browser (-want +got):\n%s", diff)
	}
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the browser complains: %q", got)
	}
	if b.cookies()["session"] != nil {
		t.Error("the browser still has a session")
	}
	b.open(s.Base + "/secure-resource") // asks for a password again
	b.atProvider(s)
	s.up.None(t)
}

// frontChannelInBrowser: a page of the provider ends the session by a frame, also in
// a browser without cookies.
func frontChannelInBrowser(t *testing.T, c *chromium, s *shopfront) {
	for user, from := range map[string]func(*tab) *tab{"alice": (*tab).another,
		"bob": func(*tab) *tab { return c.tab(t) }} {
		person := s.signedIn(t, c, user)
		where := from(person)
		where.open(s.frontChannel(t, person))
		if got := where.value("document.title"); got != "done" {
			t.Errorf("the frame is not there: %s", where.describe())
		}
		if got := where.complained(); len(got) > 0 {
			t.Errorf("the browser complains: %q", got)
		}
		session := person.cookies()["session"]
		if session == nil {
			t.Fatal("the browser has no session cookie")
		}
		if status := s.Status(s.Stranger(), "GET", "/secure-resource", "Cookie",
			"session="+session.Value); status != http.StatusUnauthorized {
			t.Errorf("the session that should have ended: %d", status)
		}
		s.up.None(t)
	}
}
