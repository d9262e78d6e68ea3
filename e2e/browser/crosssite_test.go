package browser

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/chromedp/chromedp"
)

// otherSiteRoutes are a public one and two for sessions, of which one accepts state
// changes of other sites.
const otherSiteRoutes = world.People + `
routes:
  - {match: '/{$}', upstream: app, auth: [none]}
  - {match: /profile, upstream: app, auth: [session]}
  - {match: /open, upstream: app, auth: [session], cross_origin: allow}
`

// strangerPage returns the URL of a page of another site with some HTML.
func strangerPage(address, html string) string {
	return address + "/?" + url.Values{"html": {html}}.Encode()
}

// serveStranger serves the pages of strangerPage.
func serveStranger(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<!DOCTYPE html><script>const done = () => document.title = "+
		"'done'</script>"+r.FormValue("html")) // an error means that the browser is gone
}

// attack is the HTML of another site's page that makes the browser send a request to
// the gateway. After that the title is "done", or the page is the gateway's.
type attack struct {
	method, path string // of the request at the gateway
	html         string // with GATEWAY for its address
}

// attacks returns the attacks on a path.
func attacks(path string) map[string]attack {
	return map[string]attack{
		"form": {"POST", path, `<form method="post" action="GATEWAY` + path + `"><input name="x" value="stolen"></form>` +
			`<script>document.forms[0].submit()</script>`},
		"fetch": {"POST", path, `<script>fetch("GATEWAY` + path + `", ` +
			`{method: "POST", mode: "no-cors", credentials: "include", body: "x=stolen"}).then(done, done)</script>`},
		"socket": {"GET", path, `<script>new WebSocket("GATEWAY` + path +
			`".replace("https:", "wss:")).onerror = done</script>`},
	}
}

// attacksOnLogin would sign the person out, or in as another person. A navigation leads
// to a page that asks for confirmation.
var attacksOnLogin = map[string]attack{
	"logout by form": {"POST", "/logout", `<form method="post" action="GATEWAY/logout"></form>` +
		`<script>document.forms[0].submit()</script>`},
	"logout by fetch": {"POST", "/logout", `<script>fetch("GATEWAY/logout", ` +
		`{method: "POST", mode: "no-cors", credentials: "include"}).then(done, done)</script>`},
	"logout by image": {"GET", "/logout", `<img src="GATEWAY/logout" onerror="done()">`},
	"logout by frame": {"GET", "/logout", `<iframe src="GATEWAY/logout" onload="done()"></iframe>`},
	"logout by page":  {"GET", "/logout", `<script>location = "GATEWAY/logout"</script>`},
	"login by form": {"POST", "/login", `<form method="post" action="GATEWAY/login"><input name="username" value="bob">` +
		`<input name="password" value="builder"></form>
		<script>document.forms[0].submit()</script>`},
}

// attacker is another site and its victim.
type attacker struct {
	address string
	g       *world.Instance
	up      *world.Recorder
	b       *tab // of the victim, alice
	session string
}

// attackers starts a gateway, where alice signs in, and two other sites (see
// otherSites).
func (c *chromium) attackers(t *testing.T, config string) (far, near *attacker) {
	t.Helper()
	g, up := c.gateway(t, config+otherSiteRoutes)
	b := c.tab(t)
	b.open(g.Base + "/profile")
	b.signIn("alice")
	wantAsked(t, up, "GET", "/profile", "alice")
	world.Until(t, "the log to have that", func() bool { // so that tries does not find it
		return slices.ContainsFunc(g.Log.Records(t, "request"),
			func(r map[string]any) bool { return r["path"] == "/profile" && r["status"] == 200.0 })
	})
	session := b.cookies()["session_id"].Value
	farAddress, nearAddress := c.otherSites(t, http.HandlerFunc(serveStranger))
	return &attacker{farAddress, g, up, b, session}, &attacker{nearAddress, g, up, b, session}
}

// tries opens the page of an attack, waits until the gateway has answered its
// request, and returns the status.
func (o *attacker) tries(t *testing.T, name string, a attack) (status int) {
	t.Helper()
	before := len(o.g.Log.Records(t, "request"))
	page := strangerPage(o.address, strings.ReplaceAll(a.html, "GATEWAY", o.g.Base))
	o.b.goesTo(page)
	world.Until(t, name+" from "+o.address, func() bool {
		for _, r := range o.g.Log.Records(t, "request")[before:] {
			if r["method"] == a.method && r["path"] == a.path {
				status = int(r["status"].(float64))
			}
		}
		through, err := chromedp.Run(o.b.ctx, chromedp.Evaluate[bool](
			"document.readyState == 'complete' && (document.title == 'done' || location.origin == '"+o.g.Base+"')"))
		return status != 0 && err == nil && through
	})
	return status
}

// unharmed fails the test if a request reached the upstream or alice's session is
// not what it was.
func (o *attacker) unharmed(t *testing.T) {
	t.Helper()
	o.up.None(t)
	if got := o.b.cookies()["session_id"]; got == nil || got.Value != o.session {
		t.Error("the browser has another session, or none")
	}
	a := o.g.Do(o.g.Stranger(), "GET", "/me", "", "Cookie", "session_id="+o.session)
	if a.Status != http.StatusOK || !strings.Contains(a.Body, `"username":"alice"`) {
		t.Errorf("the session is not what it was: %d %s", a.Status, a.Body)
	}
}

// fails tries all attacks. Those on the route must be answered with want.
func (o *attacker) fails(t *testing.T, want int) {
	t.Helper()
	all := attacks("/profile")
	maps.Copy(all, attacksOnLogin)
	for name, a := range all {
		want := want
		if a.path != "/profile" {
			want = map[string]int{"POST": http.StatusForbidden, "GET": http.StatusOK}[a.method]
			if name == "logout by image" {
				want = http.StatusForbidden
			}
		}
		if got := o.tries(t, name, a); got != want {
			t.Errorf("%s from %s is %d, expected %d", name, o.address, got, want)
		}
		o.unharmed(t)
	}
}

// succeeds tries an attack on the route that allows it.
func (o *attacker) succeeds(t *testing.T, name string) {
	t.Helper()
	a := attacks("/open")[name]
	o.tries(t, name, a)
	m := wantAsked(t, o.up, a.method, a.path, "alice")
	if a.method == "POST" && m.Body != "x=stolen" {
		t.Errorf("%s from %s: the upstream gets %q", name, o.address, m.Body)
	}
}

// otherSitesLax: by default the browser does not send the session for other sites.
// It does for another port of the host, and the gateway refuses state changes.
func otherSitesLax(t *testing.T, c *chromium) {
	far, near := c.attackers(t, "")
	far.fails(t, http.StatusUnauthorized)
	near.fails(t, http.StatusForbidden)
	for name := range attacks("/open") {
		near.succeeds(t, name)
	}
	far.logoutByLink(t)
}

// otherSitesNone: when the browser sends the session for other sites, the gateway
// refuses state changes by Fetch Metadata, except on the route that allows them.
func otherSitesNone(t *testing.T, c *chromium) {
	far, _ := c.attackers(t, "session: {same_site: none}\n")
	far.fails(t, http.StatusForbidden)
	for name := range attacks("/open") {
		far.succeeds(t, name)
	}
}

// logoutByLink: a link of another site to /logout leads to a page that asks for
// confirmation.
func (o *attacker) logoutByLink(t *testing.T) {
	page := strangerPage(o.address, `<a href="`+o.g.Base+`/logout">A present for you</a>`)
	o.b.open(page)
	o.b.click("a")
	o.b.shows("/logout", http.StatusOK, "Sign out?")
	o.unharmed(t)
	o.b.open(page)
	o.b.click("a")
	o.b.click("button")
	o.b.is(o.g.Base + signedOutPage)
	if got := o.b.cookies(); len(got) > 0 {
		t.Errorf("after signing out the browser has cookies: %v", got)
	}
}
