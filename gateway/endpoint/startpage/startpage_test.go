package startpage_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// appsConfig has an application for each way in which a route decides.
var appsConfig = strings.Replace(rig.Base, "policies:", "policies:\n  near: {networks: [192.0.2.7]}", 1) +
	strings.ReplaceAll(`
  - {match: wiki.example.org/, VIA auth: [session], app: {title: Wiki, description: What we know}}
  - {match: "mail.example.org/in/{rest...}", VIA auth: [session, bearer], policy: admin, app: {title: Mail}}
  - {match: "*.apps.example.org/", VIA auth: [session], app: {title: Builds, url: "https://ci.example.net/#/all"}}
  - {match: hidden.example.org/, VIA auth: [session]}
  - {match: open.example.org/, VIA auth: [none], app: {title: Status}}
  - {match: vault.example.org/, VIA auth: [session], policy: {roles: [user], factors: 2}, app: {title: Vault}}
  - {match: bank.example.org/, VIA auth: [session], policy: {max_age: 1m}, app: {title: Bank}}
  - {match: safe.example.org/, VIA auth: [session], policy: {roles: [none], factors: 2}, app: {title: Safe}}
  - {match: lab.example.org/, VIA auth: [session], policy: {networks: [198.51.100.0/24]}, app: {title: Lab}}
  - {match: read.example.org/, VIA auth: [session], policy: {methods: [GET]}, app: {title: Read}}
  - {match: here.example.org/, VIA auth: [session, bearer], policy: {mechanisms: [session]}, app: {title: Here}}
  - {match: api.example.org/, VIA auth: [bearer], app: {title: API}}
  - {match: kiosk.example.org/, VIA auth: [bearer, none], app: {title: Kiosk}}
  - {match: porch.example.org/, VIA auth: [bearer, none], policy: admin, app: {title: Porch}}
  - {match: shared.example.org/, VIA auth: [session, none], policy: {any: [near, admin]}, app: {title: Shared}}
  - {match: staff.example.org/, VIA auth: [session, none], policy: admin, app: {title: Staff}}
  - {match: old.example.org/, VIA auth: [basic], app: {title: Old}}
  - {match: partner.example.org/, VIA auth: [oidc], app: {title: Partner}}
  - {match: "GET /notes%20here/{$}", VIA auth: [session], app: {title: Notes}}
providers: [{name: small, issuer: "http://127.0.0.1:9", client_id: gateway}]
`, "VIA", "upstream: app,")

// listed is an application as programs see it.
type listed struct{ Title, Description, URL, Icon string }

// list returns the applications of a user, and their titles in one text.
func list(t testing.TB, w *httptest.ResponseRecorder) (apps []listed, titles string) {
	t.Helper()
	var body struct{ Apps []listed }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Apps == nil {
		t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	all := []string{}
	for _, a := range body.Apps {
		all = append(all, a.Title)
	}
	return body.Apps, strings.Join(all, " ")
}

// The policy of an application's route decides who sees it, in the order of the configuration.
// One that needs a sign-in that proves more is there. A token sees what its user may open.
func TestApps(t *testing.T) {
	t.Parallel()
	r := rig.New(t, appsConfig)
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	r.Clock.Advance(2 * time.Minute)
	const all = "Wiki Mail Builds Status Vault Bank Read Here Kiosk Shared Staff Notes"
	bobs := strings.NewReplacer("Mail ", "", "Staff ", "").Replace(all)
	want := map[string]string{
		alice.Cookie: all, alice.Bearer: all,
		bob.Cookie: bobs, bob.Bearer: bobs,
	}
	for line, want := range want {
		if _, got := list(t, r.Want(200, "GET", "/account/apps", "", line)); got != want {
			t.Errorf("with %.20s: %s; want %s", line, got, want)
		}
	}
	apps, _ := list(t, r.Want(200, "GET", "/account/apps", "", alice.Cookie))
	for i, want := range []listed{
		{"Wiki", "What we know", "https://wiki.example.org/", ""},
		{"Mail", "", "https://mail.example.org/in/", ""},
		{"Builds", "", "https://ci.example.net/#/all", ""},
		{"Status", "", "https://open.example.org/", ""},
	} {
		if apps[i] != want {
			t.Errorf("%+v, want %+v", apps[i], want)
		}
	}
	if got := apps[len(apps)-1].URL; got != "https://gw.example/notes%20here/" {
		t.Errorf("without a host: %s", got)
	}
	head := r.Want(200, "HEAD", "/account/apps", "", alice.Cookie)
	get := r.Want(200, "GET", "/account/apps", "", alice.Cookie)
	if a, b := head.Header().Get("Content-Length"), get.Header().Get("Content-Length"); a != b || a == "" {
		t.Errorf("HEAD tells %q bytes, and GET %q", a, b)
	}
	r.Want(405, "POST", "/account/apps", "{}", rig.JSON, alice.Cookie)
}

// An API token sees what both its roles and those of its owner open. Without roles it sees
// nothing of the account, the icons included.
func TestAppsOfTokens(t *testing.T) {
	t.Parallel()
	r := rig.New(t, appsConfig)
	alice := r.Login(rig.Alice)
	for roles, want := range map[string]string{
		``:                   "Wiki Mail Builds Status Vault Bank Read Here Kiosk Shared Staff Notes",
		`,"roles":["user"]`:  "Wiki Builds Status Vault Bank Read Here Kiosk Shared Notes",
		`,"roles":["admin"]`: "Wiki Mail Builds Status Bank Read Here Kiosk Shared Staff Notes",
	} {
		line := "Authorization: Bearer " + r.NewToken(alice.Cookie, roles).Token
		if _, got := list(t, r.Want(200, "GET", "/account/apps", "", line)); got != want {
			t.Errorf("%s: %s; want %s", roles, got, want)
		}
	}
	none := "Authorization: Bearer " + r.NewToken(alice.Cookie, `,"roles":[]`).Token
	r.Want(200, "GET", "/me", "", none)
	r.Want(403, "GET", "/account/apps", "", none)
	r.Want(403, "GET", "/account/apps/icon?id=x", "", none)
	for _, target := range []string{"/account/apps", "/account/apps/icon?id=x"} {
		r.Want(401, "GET", target, "")
		r.Want(401, "GET", target, "", "Authorization: Bearer x")
		r.Want(401, "GET", target, "", rig.Basic("alice", "wonderland"))
		r.Want(401, "GET", target, "", rig.Basic("service", "s3rvice"))
	}
	r.Store.BreakIf(func(string, int64, string) bool { return true })
	r.Want(503, "GET", "/account/apps", "", alice.Cookie)
}

// Users of a provider see what they may open with their sign-in there, by their tokens too. An
// issuer without a sign-in here proves what a token opens, and no more.
func TestAppsOfProviders(t *testing.T) {
	t.Parallel()
	const routes = `
  - {match: wiki.example.org/, upstream: app, auth: [session], app: {title: Wiki}}
  - {match: shop.example.org/, upstream: app, auth: [oidc], policy: {roles: [user]}, app: {title: Shop}}
  - {match: api.example.org/, upstream: app, auth: [bearer], policy: {users: ["machines:carol"]}, app: {title: API}}
  - {match: open.example.org/, upstream: app, auth: [none], app: {title: Status}}
  - {match: read.example.org/, upstream: app, auth: [oidc], policy: {scopes: [read]}, app: {title: Read}}
`
	p := rig.NewProvider(t)
	r := p.Rig(rig.Base+routes, `token:
  trusted_issuers: [{name: machines, issuer: "`+p.Issuer+`", audience: [gateway]}]
delegated: {api_tokens: 24h}
`)
	carol := r.Carol()
	token := "Authorization: Bearer " + r.NewToken(carol, "").Token
	foreign := p.Bearer(map[string]any{"scope": "read"})
	for line, want := range map[string]string{carol: "Shop Status", token: "Shop Status", foreign: "API Status"} {
		if _, got := list(t, r.Want(200, "GET", "/account/apps", "", line)); got != want {
			t.Errorf("with %.30s: %s, want %s", line, got, want)
		}
	}
	own := strings.Replace(routes, `"machines:carol"`, "alice", 1)
	r.Reload(p.Config(rig.Base+own, `token: {trusted_issuers: [{issuer: "`+p.Issuer+`", audience: [gateway]}]}
`))
	if _, got := list(t, r.Want(200, "GET", "/account/apps", "", foreign)); got != "Shop Status" {
		t.Errorf("a token of the provider itself: %s", got)
	}
}

// A browser gets a page with links, by a sign-in if it has no session, from where it comes back.
func TestAppsPage(t *testing.T) {
	t.Parallel()
	r := rig.New(t, appsConfig)
	bob := r.Login(rig.Bob)
	rig.WantPage(t, r.Want(200, "GET", "/account/apps", "", rig.Browser, bob.Cookie),
		`href="https://wiki.example.org/"`,
		"What we know", `href="https://ci.example.net/#/all"`, "not Mail", `href="/account"`, "<strong>bob</strong>",
		"not <script")
	w := r.Want(302, "GET", "/account/apps", "", rig.Browser)
	if got := w.Header().Get("Location"); got != "/signin?return_to=%2Faccount%2Fapps" {
		t.Errorf("without a session: %s", got)
	}
	w = r.Want(303, "POST", "/login", "username=bob&password=builder&return_to=/account/apps", rig.Form, rig.Browser)
	if got := w.Header().Get("Location"); got != "/account/apps" {
		t.Errorf("after the sign-in: %s", got)
	}
	r.Want(401, "GET", "/account/apps", "", rig.Browser, "X-Requested-With: XMLHttpRequest")
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, bob.Cookie), `href="/account/apps"`)

	// Only the host of public_url tells a user's applications.
	w = r.WantAt("wiki.example.org", 302, "GET", "/account/apps", "", rig.Browser)
	if got := w.Header().Get("Location"); got != "https://gw.example/account/apps" {
		t.Errorf("at another host: %s", got)
	}
	r.WantAt("wiki.example.org", 403, "GET", "/account/apps", "", bob.Bearer)
	r.WantAt("wiki.example.org", 403, "GET", "/account/apps/icon?id=x", "", bob.Bearer)

	none := rig.Base + "  - {match: x.example/, upstream: app, auth: [session], policy: admin, app: {title: Admin}}\n"
	r.Reload(none)
	bob = r.Login(rig.Bob)
	rig.WantPage(t, r.Want(200, "GET", "/account/apps", "", rig.Browser, bob.Cookie), "no application here",
		"not Admin")
	if _, got := list(t, r.Want(200, "GET", "/account/apps", "", bob.Cookie)); got != "" {
		t.Errorf("bob sees %s", got)
	}
}

// Without applications there are no endpoints for them, and no page names them.
func TestWithoutApps(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base+"  - {match: /account/apps, upstream: app, auth: [none]}\n")
	if w := r.Want(200, "GET", "/account/apps", ""); w.Body.String() != "hello" {
		t.Errorf("the application's own path: %s", w.Body)
	}
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, r.Login(rig.Bob).Cookie), "not /account/apps")
}

// An icon is an image and nothing else, for those who see its application. Another content has
// another address.
func TestIcons(t *testing.T) {
	t.Parallel()
	const routes = rig.Base + `
  - {match: wiki.example.org/, upstream: app, auth: [session], app: {title: Wiki, icon: ICON}}
  - {match: mail.example.org/, upstream: app, auth: [session], policy: admin, app: {title: Mail, icon: MAIL}}
`
	svg := func(inside string) string { return `<svg xmlns="http://www.w3.org/2000/svg">` + inside + `</svg>` }
	attack := svg(`<script>alert(1)</script>`)
	dir := t.TempDir()
	write := func(content string) (yaml string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, "wiki.svg"), []byte(content), 0o600))
		must.Do(t, os.WriteFile(filepath.Join(dir, "mail.svg"), []byte(svg("mail")), 0o600))
		return strings.NewReplacer("ICON", filepath.Join(dir, "wiki.svg"), "MAIL",
			filepath.Join(dir, "mail.svg")).Replace(routes)
	}
	r := rig.New(t, write(attack))
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	apps, _ := list(t, r.Want(200, "GET", "/account/apps", "", alice.Cookie))
	path := func(a listed) string {
		path, ok := strings.CutPrefix(a.Icon, "https://gw.example")
		if !ok {
			t.Fatalf("the icon is %s", a.Icon)
		}
		return path
	}
	wiki, mail := path(apps[0]), path(apps[1])
	for _, line := range []string{alice.Cookie, alice.Bearer, bob.Cookie} {
		w := r.Want(200, "GET", wiki, "", line, "Accept: image/avif,image/webp,*/*")
		if w.Body.String() != attack || w.Header().Get("Content-Type") != "image/svg+xml" {
			t.Errorf("%s: %s", w.Header().Get("Content-Type"), w.Body)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control": "private, max-age=31536000, immutable",
			"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; " +
				"frame-ancestors 'none'; base-uri 'none'",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
	r.Want(404, "GET", mail, "", bob.Cookie) // its application is not bob's
	r.Want(200, "GET", mail, "", alice.Cookie)
	r.Want(404, "GET", "/account/apps/icon", "", alice.Cookie)
	r.Want(404, "GET", wiki+"x", "", alice.Cookie)
	r.Want(401, "GET", wiki, "")
	page := r.Want(200, "GET", "/account/apps", "", rig.Browser, bob.Cookie)
	rig.WantPage(t, page, `src="`+wiki+`"`)
	if got := page.Header().Get("Content-Security-Policy"); !strings.Contains(got, "; img-src 'self'; ") ||
		strings.Contains(got, "script-src") {
		t.Errorf("the policy of the page: %s", got)
	}

	r.Reload(write(svg("new")))
	alice = r.Login(rig.Alice)
	apps, _ = list(t, r.Want(200, "GET", "/account/apps", "", alice.Cookie))
	if path(apps[0]) == wiki || path(apps[1]) != mail {
		t.Errorf("after another content: %s, %s", apps[0].Icon, apps[1].Icon)
	}
	r.Want(404, "GET", wiki, "", alice.Cookie)
}
