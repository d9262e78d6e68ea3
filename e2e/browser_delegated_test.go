package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

// delegatedInBrowser: a page leads to the provider and back to it.
func delegatedInBrowser(t *testing.T, c *chromium) {
	const page, binding = "/secure-resource?x=1&y=a%20b", "__Host-authgate_login"
	s := c.shopfront(t, "")
	b := c.tab(t)
	b.open(s.base + page)
	b.atProvider(s)
	s.up.none(t)
	want := cookieFacts{"localhost", "/", true, true, network.CookieSameSiteLax}
	if diff := cmp.Diff(want, factsOf(b.cookies()[binding])); diff != "" {
		t.Errorf("the cookie of the attempt (-want +got):\n%s", diff)
	}
	b.signIn("alice")
	b.is(s.base + page)
	m := s.up.wants(t, "GET", page, "alice")
	for name, want := range map[string]string{
		"X-Auth-Subject": "demo:1001", "X-Auth-Name": "Alice Example", "X-Auth-Email": "alice@example.org",
		"X-Auth-Roles": "user,admin", "X-Auth-Mechanism": "oidc", "X-Auth-Provider": "demo",
	} {
		if got := m.value(t, name); got != want {
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

// twoTabsInBrowser: two tabs of one person sign in at once, and each comes back to its
// own page.
func twoTabsInBrowser(t *testing.T, c *chromium) {
	s := c.shopfront(t, "")
	first := c.tab(t)
	first.open(s.base + "/secure-resource?tab=1")
	second := first.another()
	second.open(s.base + "/secure-resource?tab=2")
	first.atProvider(s)
	second.atProvider(s)
	first.signIn("alice")
	first.is(s.base + "/secure-resource?tab=1")
	s.up.wants(t, "GET", "/secure-resource?tab=1", "alice")
	second.signIn("alice")
	second.is(s.base + "/secure-resource?tab=2")
	s.up.wants(t, "GET", "/secure-resource?tab=2", "alice")
	first.load(chromedp.Reload())
	first.is(s.base + "/secure-resource?tab=1")
	s.up.wants(t, "GET", "/secure-resource?tab=1", "alice")
}

// backToCallback: who goes back to the provider and signs in once more brings
// an answer that was used. It is refused, and the session goes on.
func backToCallback(t *testing.T, c *chromium) {
	s := c.shopfront(t, "")
	b := s.signedIn(t, c, "alice")
	session := b.cookies()["session"].Value
	b.back()
	b.atProvider(s)
	b.signIn("alice")
	b.shows("/callback", http.StatusBadRequest, "Please start again.")
	b.load(chromedp.Reload())
	b.shows("/callback", http.StatusBadRequest, "Please start again.")
	s.up.none(t)
	if got := b.cookies()["session"]; got == nil || got.Value != session {
		t.Error("the session is another")
	}
	b.open(s.base + "/secure-resource")
	s.up.wants(t, "GET", "/secure-resource", "alice")
	b.back()
	b.shows("/callback", http.StatusBadRequest, "Please start again.")
	b.click("a.button")
	b.shows("/signin", http.StatusOK, "Continue with demo")
	b.click("a.button")
	b.is(s.base + "/")
	s.up.wants(t, "GET", "/", "")
	if got := b.cookies()["session"]; got == nil || got.Value == session {
		t.Error("the new sign-in gave no session of its own")
	}
}

// refusedInBrowser: the words of a provider that refuses are shown and nothing
// in them is done.
func refusedInBrowser(t *testing.T, c *chromium) {
	const words = `<script>document.title="owned"</script><img src="/owned" onerror="document.title='owned'">`
	s := c.shopfront(t, "")
	b := c.tab(t)
	b.open(s.base + "/secure-resource")
	b.atProvider(s)
	request, err := url.Parse(b.url())
	if err != nil {
		t.Fatal(err)
	}
	refusal := s.base + "/callback?" + url.Values{
		"state": {request.Query().Get("state")}, "iss": {s.issuer}, "error": {"access_denied"}, "error_description": {words},
	}.Encode()
	b.asked()
	b.load(chromedp.Evaluate[chromedp.Void]("void (location = '" + refusal + "')"))
	b.shows("/callback", http.StatusUnauthorized, "The identity provider refused the sign-in: access_denied ("+words+").")
	if got := b.value("document.title"); got != "Unauthorized" {
		t.Errorf("the title is %q", got)
	}
	if got := b.value("document.querySelectorAll('script, img').length"); got != "0" {
		t.Errorf("the page has %s elements of the provider's making", got)
	}
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the browser complains: %q", got)
	}
	if got := b.asked(); len(got) != 1 {
		t.Errorf("the page asks for something: %v", got)
	}
	if b.cookies()["session"] != nil {
		t.Error("there is a session")
	}
	b.open(s.base + "/secure-resource")
	b.atProvider(s)
	s.up.none(t)
}

// signOutAtProvider: the button ends the session here and the one at the
// provider.
func signOutAtProvider(t *testing.T, c *chromium) {
	s := c.shopfront(t, "")
	b := s.signedIn(t, c, "alice")
	b.open(s.base + "/me")
	b.shows("/me", http.StatusOK, "Alice Example", "demo")
	b.click("button")
	b.is(s.base + "/")
	s.up.wants(t, "GET", "/", "")
	b.isSignedOut(s)
}

// isSignedOut fails the test unless the person has to give a password again.
func (b *tab) isSignedOut(s *shopfront) {
	b.t.Helper()
	if b.cookies()["session"] != nil {
		b.t.Error("the browser has a session still")
	}
	b.open(s.base + "/secure-resource")
	b.atProvider(s)
	s.up.none(b.t)
}

// signOutByRedirect: where the browser itself has to go to the provider, it
// gets there from the button, though the policy of the page lets its form go
// nowhere else, and comes back.
func signOutByRedirect(t *testing.T, c *chromium) {
	s := c.shopfront(t, ", logout: redirect")
	b := s.signedIn(t, c, "alice")
	b.open(s.base + "/me")
	b.asked()
	b.click("button")
	b.arrives(s.base + "/")
	s.up.wants(t, "GET", "/", "")
	var way []string
	for _, r := range b.asked() {
		if !r.page {
			continue // the icon of the last one
		}
		place, _, _ := strings.Cut(r.url, "?")
		way = append(way, r.method+" "+place)
		if place == s.issuer+"/logout" && r.referer != "" {
			t.Errorf("the provider is told where the browser comes from: %s", r.referer)
		}
	}
	if diff := cmp.Diff([]string{"POST " + s.base + "/logout", "GET " + s.issuer + "/logout", "GET " + s.base + "/"}, way); diff != "" {
		t.Errorf("the browser's way (-want +got):\n%s", diff)
	}
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the browser complains: %q", got)
	}
	b.isSignedOut(s)
}

// backChannelInBrowser: who signs out at the provider is signed out here, and
// nobody else is.
func backChannelInBrowser(t *testing.T, c *chromium) {
	s := c.shopfront(t, "")
	alice, bob := s.signedIn(t, c, "alice"), s.signedIn(t, c, "bob")
	there := alice.another()
	there.open(s.issuer + "/")
	there.click("main a")
	there.shows("/logout", http.StatusOK, "Signed out")
	alice.lost(s)
	alice.load(chromedp.Reload()) // as without the cookie, which is cleared
	alice.atProvider(s)
	bob.load(chromedp.Reload())
	s.up.wants(t, "GET", "/secure-resource", "bob")
}

// lost fails the test unless the session has ended that the tab has a cookie of.
func (b *tab) lost(s *shopfront) {
	b.t.Helper()
	session := b.cookies()["session"]
	if session == nil {
		b.t.Fatal("the browser has no session cookie")
	}
	if status := s.status(s.stranger(), "GET", "/secure-resource", "Cookie", "session="+session.Value); status != http.StatusUnauthorized {
		b.t.Errorf("the session that should have ended: %d", status)
	}
	s.up.none(b.t)
}

// frontChannelInBrowser: a page of the provider ends the session by a frame.
// That takes no cookies: in a browser that has none it does so, too.
func frontChannelInBrowser(t *testing.T, c *chromium) {
	s := c.shopfront(t, "")
	alice, bob := s.signedIn(t, c, "alice"), s.signedIn(t, c, "bob")
	for _, logout := range []struct {
		person, where *tab
		sub           string
	}{{alice, alice.another(), "1001"}, {bob, c.tab(t), "1002"}} {
		logout.person.load(chromedp.Reload())
		s.up.one(t)
		logout.where.open(s.frontChannel(logout.sub))
		if got := logout.where.value("document.title"); got != "done" {
			t.Errorf("the frame is not there: %s", logout.where.describe())
		}
		if got := logout.where.complained(); len(got) > 0 {
			t.Errorf("the browser complains: %q", got)
		}
		logout.person.lost(s)
	}
}
