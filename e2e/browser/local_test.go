package browser

import (
	"net/http"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

// browserRoutes are pages for local accounts, and a public one.
const browserRoutes = world.People + `
policies: {admin: {roles: [admin]}}
routes:
  - {match: '/{$}', upstream: app, auth: [none]}
  - {match: /secure-resource, upstream: app, auth: [session]}
  - {match: /admin-resource, upstream: app, auth: [session], policy: admin}
`

// signedOutPage is where a browser is after signing out.
const signedOutPage = "/signin?reason=signed_out"

// localAccountsInBrowser are people with local accounts, at one gateway.
func localAccountsInBrowser(t *testing.T, c *chromium) {
	g, up := c.gateway(t, browserRoutes)
	signInAndOut(t, c.tab(t), g, up)
	cookiesInBrowser(t, c.tab(t), g, up)
	keyboardOnly(t, c.tab(t), g, up)
}

// signInAndOut: a page leads to the sign-in page and back. After signing out, no
// page shows the person, not even behind the back button.
func signInAndOut(t *testing.T, b *tab, g *world.Instance, up *world.Recorder) {
	const page = "/admin-resource?x=1&y=a%20b"
	b.open(g.Base + page)
	b.shows("/signin", http.StatusOK, "User name")
	b.write("#username", "alice")
	b.write("#password", "not this")
	b.click("button")
	b.shows("/login", http.StatusUnauthorized, "Invalid username or password.")
	if got := b.cookies(); len(got) > 0 {
		t.Errorf("after a wrong password the browser has cookies: %v", got)
	}
	up.None(t)
	b.write("#password", "wonderland")
	b.click("button")
	b.is(g.Base + page)
	wantAsked(t, up, "GET", page, "alice")
	other := b.another()
	other.open(g.Base + page)
	wantAsked(t, up, "GET", page, "alice")

	b.open(g.Base + "/me")
	b.shows("/me", http.StatusOK, "Alice Example", "alice@example.org", "admin")
	b.click("button")
	b.is(g.Base + signedOutPage)
	if got := b.cookies(); len(got) > 0 {
		t.Errorf("after signing out the browser has cookies: %v", got)
	}
	b.back()
	b.shows("/me", http.StatusUnauthorized, "You are not signed in")
	if text := strings.ToLower(b.text()); strings.Contains(text, "alice") || strings.Contains(text, "admin") {
		t.Errorf("the back button shows the person: %s", text)
	}
	other.load(chromedp.Reload())
	other.shows("/signin", http.StatusOK, "User name")
	up.None(t)
}

// cookieFacts are the attributes of a cookie in the browser.
type cookieFacts struct {
	Domain, Path     string
	HTTPOnly, Secure bool
	SameSite         network.CookieSameSite
}

func factsOf(c *network.Cookie) cookieFacts {
	if c == nil {
		return cookieFacts{}
	}
	return cookieFacts{c.Domain, c.Path, c.HTTPOnly, c.Secure, c.SameSite}
}

// cookiesInBrowser: scripts can neither read nor write the session's cookie.
func cookiesInBrowser(t *testing.T, b *tab, g *world.Instance, up *world.Recorder) {
	b.open(g.Base + "/secure-resource")
	b.signIn("alice")
	session := b.cookies()["session_id"]
	if diff := cmp.Diff(cookieFacts{"localhost", "/", true, true, network.CookieSameSiteLax},
		factsOf(session)); diff != "" {
		t.Fatalf("the cookie of the session (-want +got):\n%s", diff)
	}
	if got := b.value("document.cookie"); got != "" {
		t.Errorf("a script reads the cookies %q", got)
	}
	b.value("document.cookie = 'session_id=of-another-person; path=/; secure'")
	b.value("document.cookie = 'session_id=; path=/; max-age=0'")
	if got := b.cookies()["session_id"]; got == nil || got.Value != session.Value {
		t.Error("a script has changed the session")
	}
	up.All()
	b.load(chromedp.Reload())
	wantAsked(t, up, "GET", "/secure-resource", "alice")
}
