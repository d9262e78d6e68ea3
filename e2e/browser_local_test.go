package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

// browserRoutes are pages for local accounts, and one for everybody.
const browserRoutes = people + `
policies: {admin: {roles: [admin]}}
routes:
  - {match: '/{$}', upstream: app, auth: [none]}
  - {match: /secure-resource, upstream: app, auth: [session]}
  - {match: /admin-resource, upstream: app, auth: [session], policy: admin}
`

// signInAndOut: a page leads to the sign-in page and back; after signing out,
// nothing of the person is to be seen, neither here nor behind the back button.
func signInAndOut(t *testing.T, c *chromium) {
	const page = "/admin-resource?x=1&y=a%20b"
	g, up := c.gateway(t, browserRoutes)
	b := c.tab(t)
	b.open(g.base + page)
	b.shows("/signin", http.StatusOK, "User name")
	b.write("#username", "alice")
	b.write("#password", "not this")
	b.click("button")
	b.shows("/login", http.StatusUnauthorized, "Invalid username or password.")
	if got := b.cookies(); len(got) > 0 {
		t.Errorf("after a wrong password the browser has cookies: %v", got)
	}
	up.none(t)
	b.write("#password", "wonderland")
	b.click("button")
	b.is(g.base + page)
	up.wants(t, "GET", page, "alice")
	other := b.another()
	other.open(g.base + page)
	up.wants(t, "GET", page, "alice")

	b.open(g.base + "/me")
	b.shows("/me", http.StatusOK, "Alice Example", "alice@example.org", "admin")
	b.click("button")
	b.is(g.base + "/")
	up.wants(t, "GET", "/", "")
	if got := b.cookies(); len(got) > 0 {
		t.Errorf("after signing out the browser has cookies: %v", got)
	}
	b.back()
	b.shows("/me", http.StatusUnauthorized, "Not signed in.")
	if text := strings.ToLower(b.text()); strings.Contains(text, "alice") || strings.Contains(text, "admin") {
		t.Errorf("the back button shows the person: %s", text)
	}
	other.load(chromedp.Reload())
	other.shows("/signin", http.StatusOK, "User name")
	up.none(t)
}

// wrongRole: who may not see a page is told so after the sign-in.
func wrongRole(t *testing.T, c *chromium) {
	g, up := c.gateway(t, browserRoutes)
	b := c.tab(t)
	b.open(g.base + "/admin-resource")
	b.signIn("bob")
	b.shows("/admin-resource", http.StatusForbidden, "You are signed in, but not allowed to do this.")
	up.none(t)
	b.open(g.base + "/secure-resource")
	up.wants(t, "GET", "/secure-resource", "bob")
}

// cookieFacts are what the browser keeps of a cookie beside its value.
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

// cookiesInBrowser: the session is out of reach of scripts, to read and to
// write.
func cookiesInBrowser(t *testing.T, c *chromium) {
	g, up := c.gateway(t, browserRoutes)
	b := c.tab(t)
	b.open(g.base + "/secure-resource")
	b.signIn("alice")
	session := b.cookies()["session_id"]
	if diff := cmp.Diff(cookieFacts{"localhost", "/", true, true, network.CookieSameSiteLax}, factsOf(session)); diff != "" {
		t.Fatalf("the cookie of the session (-want +got):\n%s", diff)
	}
	if got := b.value("document.cookie"); got != "" {
		t.Errorf("a script reads the cookies %q", got)
	}
	b.value("document.cookie = 'session_id=of somebody else; path=/; secure'")
	b.value("document.cookie = 'session_id=; path=/; max-age=0'")
	if got := b.cookies()["session_id"]; got == nil || got.Value != session.Value {
		t.Error("a script has changed the session")
	}
	up.all()
	b.load(chromedp.Reload())
	up.wants(t, "GET", "/secure-resource", "alice")
}

// named is a gateway at a host of its own: browsers take no cleartext for
// secure there, as they do on localhost, and heed what it asks of them.
func (c *chromium) named(t *testing.T, config string) (g *instance, up *recorder) {
	t.Helper()
	g, up = c.prepared(t), record(t)
	g.public = strings.Replace(g.base, "localhost", "gateway.test", 1)
	g.configure(app(up.url) + config)
	g.run()
	return g, up
}

// strictTransport: with tls.hsts the browser comes by https alone, once it has
// been there.
func strictTransport(t *testing.T, c *chromium) {
	g, up := c.named(t, "tls: {hsts: 48h}\n"+browserRoutes)
	b := c.tab(t)
	cleartext := strings.Replace(g.public, "https:", "http:", 1) + "/"
	b.open(cleartext)
	b.shows("/", http.StatusBadRequest, "HTTPS") // for it has no idea yet
	up.none(t)
	b.open(g.public + "/")
	b.open(cleartext)
	b.is(g.public + "/")
	if got := len(up.all()); got != 2 {
		t.Errorf("%d requests reached the upstream, expected two", got)
	}
}

// cleartextLink: a link to http leads to https. The browser does not show the
// session before, or the gateway would refuse the request.
func cleartextLink(t *testing.T, c *chromium) {
	g, up := c.named(t, browserRoutes)
	b := c.tab(t)
	b.open(g.public + "/secure-resource")
	b.signIn("alice")
	up.wants(t, "GET", "/secure-resource", "alice")
	b.open(strings.Replace(g.http, "localhost", "gateway.test", 1) + "/secure-resource?x=1")
	b.is(g.public + "/secure-resource?x=1")
	up.wants(t, "GET", "/secure-resource?x=1", "alice")
}
