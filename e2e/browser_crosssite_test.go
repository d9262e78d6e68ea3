package e2e

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// otherSiteRoutes are the same twice: one takes state changes of other sites.
const otherSiteRoutes = people + `
routes:
  - {match: '/{$}', upstream: app, auth: [none]}
  - {match: /account, upstream: app, auth: [session]}
  - {match: /open, upstream: app, auth: [session], cross_origin: allow}
`

// strangerPage is a page of another site, at address, that holds what html says.
func strangerPage(address, html string) string {
	return address + "/?" + url.Values{"html": {html}}.Encode()
}

// serveStranger serves the pages of strangerPage.
func serveStranger(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<!DOCTYPE html><script>const done = () => document.title = 'done'</script>"+r.FormValue("html")) // the browser is gone if this fails
}

// attack is what a page of another site holds, to make the browser ask the
// gateway for something. When it is through with that, the title is "done",
// unless the page is the gateway's then.
type attack struct {
	method, path string // of the request at the gateway
	html         string // GATEWAY stands for its address
}

// attacks are those on a path.
func attacks(path string) map[string]attack {
	return map[string]attack{
		"form":   {"POST", path, `<form method="post" action="GATEWAY` + path + `"><input name="x" value="stolen"></form><script>document.forms[0].submit()</script>`},
		"fetch":  {"POST", path, `<script>fetch("GATEWAY` + path + `", {method: "POST", mode: "no-cors", credentials: "include", body: "x=stolen"}).then(done, done)</script>`},
		"socket": {"GET", path, `<script>new WebSocket("GATEWAY` + path + `".replace("https:", "wss:")).onerror = done</script>`},
	}
}

// attacksOnLogin would sign the person out, or in as somebody else.
func attacksOnLogin() map[string]attack {
	return map[string]attack{
		"logout by form":  {"POST", "/logout", `<form method="post" action="GATEWAY/logout"></form><script>document.forms[0].submit()</script>`},
		"logout by fetch": {"POST", "/logout", `<script>fetch("GATEWAY/logout", {method: "POST", mode: "no-cors", credentials: "include"}).then(done, done)</script>`},
		"logout by image": {"GET", "/logout", `<img src="GATEWAY/logout" onerror="done()">`},
		"logout by frame": {"GET", "/logout", `<iframe src="GATEWAY/logout" onload="done()"></iframe>`},
		"logout by page":  {"GET", "/logout", `<script>location = "GATEWAY/logout"</script>`},
		"login by form": {"POST", "/login", `<form method="post" action="GATEWAY/login"><input name="username" value="bob"><input name="password" value="builder"></form>
			<script>document.forms[0].submit()</script>`},
	}
}

// attacker is another site, and the person who comes by.
type attacker struct {
	address string
	g       *instance
	up      *recorder
	b       *tab // of alice
	session string
}

// attackers starts a gateway, where alice signs in, and two other sites (see
// otherSites).
func (c *chromium) attackers(t *testing.T, config string) (far, near *attacker) {
	t.Helper()
	g, up := c.gateway(t, config+otherSiteRoutes)
	b := c.tab(t)
	b.open(g.base + "/account")
	b.signIn("alice")
	up.wants(t, "GET", "/account", "alice")
	until(t, "the log of that", func() bool { // which tries must not take for an attack
		return slices.ContainsFunc(g.entriesOf("request"), func(r map[string]any) bool { return r["path"] == "/account" && r["status"] == 200.0 })
	})
	session := b.cookies()["session_id"].Value
	farAddress, nearAddress := c.otherSites(t, http.HandlerFunc(serveStranger))
	return &attacker{farAddress, g, up, b, session}, &attacker{nearAddress, g, up, b, session}
}

// tries has the person open the attack's page and waits until the gateway has
// answered the request. It returns how.
func (o *attacker) tries(t *testing.T, name string, a attack) (status int) {
	t.Helper()
	before := len(o.g.entriesOf("request"))
	page := strangerPage(o.address, strings.ReplaceAll(a.html, "GATEWAY", o.g.base))
	o.b.load(chromedp.Evaluate[chromedp.Void]("void (location = '" + page + "')"))
	until(t, name+" from "+o.address, func() bool {
		for _, r := range o.g.entriesOf("request")[before:] {
			if r["method"] == a.method && r["path"] == a.path {
				status = int(r["status"].(float64))
			}
		}
		through, err := chromedp.Run(o.b.ctx, chromedp.Evaluate[bool](
			"document.readyState == 'complete' && (document.title == 'done' || location.origin == '"+o.g.base+"')"))
		return status != 0 && err == nil && through
	})
	return status
}

// unharmed fails the test if anything reached the upstream, or the person is
// signed in no more, or as somebody else.
func (o *attacker) unharmed(t *testing.T) {
	t.Helper()
	o.up.none(t)
	if got := o.b.cookies()["session_id"]; got == nil || got.Value != o.session {
		t.Error("the browser has another session, or none")
	}
	a := o.g.do(o.g.stranger(), "GET", "/me", "", "Cookie", "session_id="+o.session)
	if a.status != http.StatusOK || !strings.Contains(a.body, `"username":"alice"`) {
		t.Errorf("the session is not what it was: %d %s", a.status, a.body)
	}
}

// fails tries all attacks. want is what those on the route are answered with.
func (o *attacker) fails(t *testing.T, want int) {
	t.Helper()
	for name, a := range attacks("/account") {
		if got := o.tries(t, name, a); got != want {
			t.Errorf("%s from %s is %d, expected %d", name, o.address, got, want)
		}
		o.unharmed(t)
	}
	for name, a := range attacksOnLogin() {
		want := http.StatusForbidden
		if a.method == "GET" {
			want = http.StatusOK // a page that asks
		}
		if got := o.tries(t, name, a); got != want {
			t.Errorf("%s from %s is %d, expected %d", name, o.address, got, want)
		}
		o.unharmed(t)
	}
}

// succeeds tries an attack on the route that is open to it.
func (o *attacker) succeeds(t *testing.T, name string) {
	t.Helper()
	a := attacks("/open")[name]
	o.tries(t, name, a)
	m := o.up.wants(t, a.method, a.path, "alice")
	if a.method == "POST" && m.body != "x=stolen" {
		t.Errorf("%s from %s: the upstream gets %q", name, o.address, m.body)
	}
}

// otherSitesLax: by default the browser itself keeps the session from other
// sites. From another port of the host it comes along, and the gateway refuses
// what would change something.
func otherSitesLax(t *testing.T, c *chromium) {
	far, near := c.attackers(t, "")
	far.fails(t, http.StatusUnauthorized)
	near.fails(t, http.StatusForbidden)
	for name := range attacks("/open") {
		near.succeeds(t, name)
	}
	far.logoutByLink(t)
}

// otherSitesNone: where the session goes along with what other sites ask for,
// the gateway refuses that by Fetch Metadata, but on the route that is open.
func otherSitesNone(t *testing.T, c *chromium) {
	far, _ := c.attackers(t, "session: {same_site: none}\n")
	far.fails(t, http.StatusForbidden)
	for name := range attacks("/open") {
		far.succeeds(t, name)
	}
}

// logoutByLink: a link of another site to /logout leads to a page that asks.
func (o *attacker) logoutByLink(t *testing.T) {
	page := strangerPage(o.address, `<a href="`+o.g.base+`/logout">A present for you</a>`)
	o.b.open(page)
	o.b.click("a")
	o.b.shows("/logout", http.StatusOK, "Sign out?")
	o.unharmed(t)
	o.b.open(page)
	o.b.click("a")
	o.b.click("button")
	o.b.is(o.g.base + "/")
	o.up.wants(t, "GET", "/", "")
	if got := o.b.cookies(); len(got) > 0 {
		t.Errorf("after signing out the browser has cookies: %v", got)
	}
}

// framedSignIn: no site can show the sign-in page in a frame and have people
// write into it.
func framedSignIn(t *testing.T, c *chromium) {
	g, _ := c.gateway(t, browserRoutes)
	far, near := c.otherSites(t, http.HandlerFunc(serveStranger))
	for _, address := range []string{far, near} {
		b := c.tab(t)
		b.open(strangerPage(address, `<iframe src="`+g.base+`/signin"></iframe>`))
		until(t, "the browser to block the frame", func() bool {
			return slices.ContainsFunc(b.complained(), func(complaint string) bool {
				return strings.Contains(complaint, g.base) && strings.Contains(complaint, "frame-ancestors 'none'") && strings.Contains(complaint, "has been blocked")
			})
		})
	}
}
