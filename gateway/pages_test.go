package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// Without a route for /, browsers get a start page there, at the host where users
// sign in, and programs get 404 as for other paths.
func TestStartPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	ownrig.WantPage(t, r.want(200, "GET", "/", "", browser), "You are not signed in.", `href="/signin"`,
		"not "+ownrig.LogoutButton)
	ownrig.WantPage(t, r.want(200, "GET", "/", "", browser, alice.cookie), "Alice Example", `href="/account"`,
		ownrig.LogoutButton)
	ownrig.WantPage(t, r.want(404, "GET", "/x", "", browser), `href="/">Go to the start page`)
	ownrig.WantPage(t, r.want(404, "POST", "/", "", browser), "not Go to the start page")
	if got := detailOf(t, r.want(404, "GET", "/", "")); got != "There is nothing here." {
		t.Errorf("a program is told %q", got)
	}
	if line := r.log.Last(t, "request"); line["route"] == "authgate/home" {
		t.Errorf("logged %v", line)
	}
	r.mustReload(edit(t, baseConfig, "routes:", "routes:\n  - {match: '/{$}', upstream: app, auth: [none]}"))
	r.want(200, "GET", "/", "", browser)
	if got := r.upstream.Last(); got == nil || got.RequestURI != "/" {
		t.Errorf("the route for / is not asked: %v", got)
	}
	r = newRig(t, edit(t, baseConfig, "routes:", "routes:\n  - {match: wiki.example/wiki, upstream: app, auth: [none]}"))
	r.client.WantAt("wiki.example", 404, "GET", "/", "", browser)
	ownrig.WantPage(t, r.client.WantAt("gw.example", 200, "GET", "/", "", browser), "Welcome")
}

// The start page leads to the applications that the user may open, and to no other. A reload
// applies to it. TestApps of package startpage has the rules.
func TestStartPageOfApps(t *testing.T) {
	t.Parallel()
	yaml := edit(t, baseConfig, "routes:", `routes:
  - {match: wiki.example/, upstream: app, auth: [session, bearer], app: {title: Wiki}}
  - {match: admin.example/, upstream: app, auth: [session, bearer], policy: admin, app: {title: Machines}}`)
	r := newRig(t, yaml)
	bob := r.login(bobIn)
	ownrig.WantPage(t, r.want(200, "GET", "/", "", browser), "Sign in to see your applications", "not Wiki")
	ownrig.WantPage(t, r.want(200, "GET", "/", "", browser, bob.cookie), `href="https://wiki.example/"`, "not Machines")
	r.mustReload(edit(t, yaml, "policy: admin, app", "app"))
	ownrig.WantPage(t, r.want(200, "GET", "/", "", browser, bob.cookie), "Wiki", "Machines")
}

// A user who is not allowed in sees who they are, and can use another account or sign
// out. A user without a session can do neither.
func TestForbiddenPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "auth: [session, bearer], policy: admin", "auth: [session, basic], policy: admin"))
	bob := r.login(bobIn)
	ownrig.WantPage(t, r.want(403, "GET", "/admin/x?y", "", browser, bob.cookie),
		"<strong>bob</strong>", `href="/signin?switch=1&amp;return_to=%2Fadmin%2Fx%3Fy"`, ownrig.LogoutButton, "Error 403")
	ownrig.WantPage(t, r.want(403, "GET", "/admin/", "", browser, basicHeader("service", "s3rvice")),
		"<strong>service</strong>", "not switch", "not "+ownrig.LogoutButton)
	ownrig.WantPage(t, r.want(403, "POST", "/session/", "", browser, bob.cookie, "Origin: https://evil.example"),
		"Another site", "not <strong>bob", "not switch")
}

// Who may not do something is led to a place where they may: the page of their applications, or
// without one the first page of the host.
func TestForbiddenLeadsOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	bob := r.login(bobIn)
	const label = `>Go to the start page</a>`
	ownrig.WantPage(t, r.want(403, "GET", "/admin/", "", browser, bob.cookie), `href="/"`+label)
	r.mustReload(edit(t, baseConfig, "routes:", `routes:
  - {match: wiki.example/, upstream: app, auth: [session], app: {title: Wiki}}
  - {match: admin.example/, upstream: app, auth: [session], policy: admin}`) + "endpoints: {prefix: /.authgate/}\n")
	const applications = `href="https://gw.example/.authgate/account/apps"` + label
	ownrig.WantPage(t, r.want(403, "GET", "/admin/", "", browser, bob.cookie), applications)
	ownrig.WantPage(t, r.want(403, "POST", "/session/", "", browser, bob.cookie, "Origin: https://evil.example"),
		applications)
	ownrig.WantPage(t, r.want(404, "GET", "/nothing", "", browser), `href="/"`+label)
}

// A proxy that does not say that a request came over https is named to operators, and
// to users in words that they can use.
func TestProxyWithoutProto(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:",
		"tls: {mode: \"off\"}\nlisten: {https: \"\", http: \":80\", trusted_proxies: [192.0.2.1]}\nstore:"))
	for header, logged := range map[string]string{
		"X-Other: x": "let it set X-Forwarded-Proto", "X-Forwarded-Proto: http": "came over http",
		"Forwarded: proto=http": "came over http",
	} {
		q := httptest.NewRequest(http.MethodGet, "/public/", nil)
		q.Host, q.RemoteAddr = "gw.example", "192.0.2.1:1"
		name, value, _ := strings.Cut(header, ": ")
		q.Header.Set(name, value)
		q.Header.Set("Accept", "text/html")
		ownrig.WantPage(t, r.wantOf(403, q), "If the address already begins with https, the service is not set up "+
			"completely.")
		if line := r.log.Last(t, "request"); !strings.Contains(line["error"].(string), logged) {
			t.Errorf("%s: logged %v", header, line)
		}
	}
}

// What an operator changes under site is on the pages after a reload.
func TestSiteReloads(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	ownrig.WantPage(t, r.want(200, "GET", "/signin", "", browser), `<p class="brand">gw.example</p>`)
	r.mustReload(edit(t, baseConfig, "store:", "site: {title: Example & Co, help: 'https://help.example/'}\nstore:"))
	ownrig.WantPage(t, r.want(200, "GET", "/signin", "", browser), `<p class="brand">Example &amp; Co</p>`,
		`href="https://help.example/"`)
}

// A page has the choice of a language only where the gateway can be asked for it: at its own hosts,
// in its own answers, and not where a proxy asks.
func TestLanguageIsOfferedHere(t *testing.T) {
	t.Parallel()
	const form = `action="/signin/language"`
	r := newVerifyRig(t)
	ownrig.WantPage(t, r.want(404, "GET", "/nothing", "", browser), form)
	const chosen = "Cookie: __Host-authgate_language=de"
	unknown := r.asks(404, asTraefik("GET", "gw.example", "/nothing"), browser, chosen)
	ownrig.WantPage(t, unknown, "not "+form, "Hier ist nichts")
	r = newRig(t, ownrig.HostsConfig+"listen: {any_host: true}\n")
	ownrig.WantPage(t, r.client.WantAt("gw.example", 404, "GET", "/nothing", "", browser), form)
	ownrig.WantPage(t, r.client.WantAt("evil.example", 404, "GET", "/nothing", "", browser), "not "+form)
	r.client.WantAt("evil.example", 421, "POST", "/signin/language", "language=de", formType)
}
