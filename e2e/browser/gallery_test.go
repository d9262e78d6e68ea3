package browser

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
	"authgate/upstream"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
)

// picturesVariable is the environment variable with which TestBrowser writes the
// pictures of docs/pages.md.
const picturesVariable = "AUTHGATE_PICTURES"

// picturesFolder has the pictures.
var picturesFolder = world.Path("docs/pages")

// exhibit is a page of the gateway as users get to see it.
type exhibit struct {
	name   string // of its picture
	status int
	en, de string // what it says
	open   func(b *tab)
}

// gallery shows each page of the gateway in both languages, light and dark, on a wide
// and a narrow screen. Each keeps its policy and breaks no rule of axe-core. With the
// environment variable AUTHGATE_PICTURES it writes the pictures in docs/pages.
func gallery(t *testing.T, c *chromium) {
	g, demo := c.exhibition(t)
	busy := c.busy(t)
	alice, bob, wall := c.tab(t), c.tab(t), c.tab(t)
	for user, b := range map[string]*tab{"alice": alice, "bob": bob} {
		b.open(g.Public + "/signin")
		b.signIn(user)
	}
	for _, e := range slices.Concat(exhibitsOfStrangers(g, busy), exhibitsOf(g, alice, bob), exhibitsOfLinks(g, alice),
		exhibitsOfFactors(t, g, bob)) {
		e.show(t, wall)
	}
	for _, e := range []exhibit{
		{"demonstration", 200, "Four ways to prove who you are", "", func(b *tab) { b.open(demo + "/") }},
		{"demonstration-resource", 200, "local:alice", "", func(b *tab) {
			b.keep(alice.cookies())
			b.open(g.Public + "/secure-resource")
		}},
	} {
		e.show(t, wall)
	}
	// Last, because the address of the browser is refused from here on.
	throttled := exhibit{"throttled", 429, "Too many failed logins. Try again in",
		"Zu viele fehlgeschlagene Anmeldungen.", func(b *tab) {
			b.open(g.Public + "/signin")
			for b.status != http.StatusTooManyRequests {
				b.write("#username", "mallory")
				b.write("#password", "guess")
				b.click("button[type=submit]")
			}
		}}
	throttled.show(t, wall)
}

// exhibition starts a gateway that can fail in all ways, with the application of the
// demonstration.
func (c *chromium) exhibition(t *testing.T) (g *world.Instance, demo string) {
	t.Helper()
	g = c.prepared(t)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(slow.CloseClientConnections)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(conn, "what?\r\n\r\n")
			conn.Close()
		}
	}))
	t.Cleanup(broken.Close)
	app := httptest.NewServer(upstream.Handler())
	t.Cleanup(app.Close)
	g.Public = strings.Replace(g.Base, "localhost", "id.example.test", 1)
	g.Configure(`
site: {title: Example, help: 'mailto:help@example.test'}
limits: {login_failures: 6}
session: {remember: 30d}
providers:
  - {name: company, title: Company account, issuer: 'http://127.0.0.1:9', client_id: shop}
upstreams:
  slow: {url: "` + slow.URL + `", timeout: 20ms}
  gone: {url: "http://127.0.0.1:9"}
  broken: {url: "` + broken.URL + `"}
  demo: {url: "` + app.URL + `"}
policies: {admin: {roles: [admin]}}
routes:
  - {match: /secure-resource, upstream: demo, auth: [session, oidc]}
  - {match: /admin-resource, upstream: gone, auth: [session, oidc], policy: admin}
  - {match: /slow, upstream: slow, auth: [none]}
  - {match: /gone, upstream: gone, auth: [none]}
  - {match: /broken, upstream: broken, auth: [none]}
  - {match: wiki.example.test/, upstream: gone, auth: [session, oidc]}
  - {match: /often, upstream: gone, auth: [none], rate: {requests: 1, per: 10m}}
accounts: {file: accounts.yaml, admins: {roles: [admin]}}
oauth:
  enabled: true
  clients: [{id: wiki, name: Wiki, redirect_uris: ["https://wiki.example.net/cb"]}]
`)
	g.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, ", name: Alice Example, email: "+
		"alice@example.org, roles: [user, admin]")+world.Person("bob", world.BuilderHash, ", roles: [user]"))
	g.Run()
	return g, app.URL
}

// busy starts a gateway that serves one request already, and returns its URL.
func (c *chromium) busy(t *testing.T) string {
	t.Helper()
	g := c.prepared(t)
	begun, wait := make(chan bool), make(chan bool)
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(begun)
		<-wait
	}))
	t.Cleanup(up.Close)
	t.Cleanup(func() { close(wait) })
	g.Configure("upstreams: {app: {url: '" + up.URL + "', timeout: 1h}}\nlimits: {in_flight: 1}\nsite: {title: " +
		"Example}\nroutes: [{match: /, upstream: app, auth: [none]}]\n")
	g.Run()
	client := g.Client()
	client.Timeout = 0 // the request goes on to the end of the test
	go func() {
		if response, err := client.Get(g.Base + "/"); err == nil {
			response.Body.Close()
		}
	}()
	<-begun
	return g.Base
}

// exhibitsOfStrangers are the pages that need no sign-in.
func exhibitsOfStrangers(g *world.Instance, busy string) []exhibit {
	at := func(path string) func(b *tab) { return func(b *tab) { b.open(g.Public + path) } }
	return []exhibit{
		{"signin", 200, "Sign in to id.example.test", "Anmelden bei id.example.test", at("/secure-resource")},
		{"languages", 200, "Nederlands", "", func(b *tab) {
			b.open(g.Public + "/secure-resource")
			inTab(b, chromedp.Evaluate[chromedp.Void]("document.querySelector('.languages').open = true"))
		}},
		{"wrong-password", 401, "Invalid username or password.", "Benutzername oder Passwort ist falsch.", func(b *tab) {
			b.open(g.Public + "/secure-resource")
			b.write("#username", "alice")
			b.write("#password", "guess")
			inTab(b, chromedp.Evaluate[chromedp.Void]("document.querySelector('#remember').click()"))
			b.click("button[type=submit]")
		}},
		{"session-ended", 200, "Your session has ended.", "Ihre Sitzung ist beendet.", at("/signin?reason=ended")},
		{"signed-out", 200, "You are signed out", "Sie sind abgemeldet", at("/signin?reason=signed_out")},
		{"start", 200, "You are not signed in.", "Sie sind nicht angemeldet.", at("/")},
		{"confirm-sign-out", 200, "Sign out?", "Abmelden?", func(b *tab) {
			b.open(g.Public + "/")
			b.goesTo(g.Base + "/logout") // another site
		}},
		{"bad-request", 400, "The query is malformed.", "Diese Anfrage ist nicht lesbar", at("/login?provider=x;y")},
		{"no-cookie", 400, "Your browser did not keep a cookie",
			"Ihr Browser hat ein Cookie nicht behalten", at("/callback?code=x&state=y")},
		{"invalid-link", 400, "This link is not valid any more", "Dieser Link", at("/signin/invite?token=x")},
		{"forgotten", 200, "Ask the administrator of this service for a new one.", "", func(b *tab) {
			b.open(g.Public + "/signin")
			inTab(b, chromedp.Evaluate[chromedp.Void]("document.querySelector('main details').open = true"))
		}},
		{"unauthorized", 401, "Please sign in", "Bitte melden Sie sich an", at("/me")},
		{"not-found", 404, "There is nothing here", "Hier ist nichts", at("/nothing")},
		{"other-host", 421, "This address is not set up", "Diese Adresse ist nicht eingerichtet", func(b *tab) {
			b.open(strings.Replace(g.Base, "localhost", "other.test", 1) + "/")
		}},
		{"too-many-requests", 429, "Try again in ", "Versuchen Sie es in ", func(b *tab) {
			b.open(g.Public + "/often")
			b.open(g.Public + "/often")
		}},
		{"unreachable", 502, "The application does not answer", "Die Anwendung antwortet nicht", at("/gone")},
		{"broken", 502, "The application failed", "Die Anwendung hat einen Fehler", at("/broken")},
		{"provider-unreachable", 502, "Sign-in is not possible for the moment", "Anmelden ist im Moment nicht möglich",
			at("/login?provider=company")},
		{"busy", 503, "Many people are here right now", "Gerade sind viele Menschen hier",
			func(b *tab) { b.open(busy + "/page") }},
		{"too-slow", 504, "The application is too slow", "Die Anwendung ist zu langsam", at("/slow")},
	}
}

// exhibitsOf are the pages of users who are signed in.
func exhibitsOf(g *world.Instance, alice, bob *tab) []exhibit {
	as := func(user *tab, path string) func(b *tab) {
		return func(b *tab) {
			b.keep(user.cookies())
			b.open(g.Public + path)
		}
	}
	return []exhibit{
		{"start-signed-in", 200, "You are signed in as Alice Example (alice).",
			"Sie sind angemeldet als Alice Example (alice).", as(alice, "/")},
		{"already-signed-in", 200, "Use another account", "Anderes Konto verwenden",
			as(alice, "/signin?return_to=/secure-resource")},
		{"another-account", 200, "that session ends.", "endet diese Sitzung.", as(alice, "/signin?switch=1")},
		{"account", 200, "Your account", "Ihr Konto", as(alice, "/account")},
		{"account-password", 200, "Current password", "Aktuelles Passwort", as(alice, "/account?part=password")},
		{"account-factors", 200, "Add a passkey", "Passkey hinzufügen", as(alice, "/account?part=factors")},
		{"account-new-token", 201, "agt_", "agt_", func(b *tab) {
			as(alice, "/account?part=programs")(b)
			b.write("#name", "backup")
			b.click("form[action$='/account/tokens'] button")
		}},
		{"account-mistake", 403, "The current password is wrong.", "Das aktuelle Passwort ist falsch.", func(b *tab) {
			as(alice, "/account?part=password")(b)
			b.write("#current", "guess")
			b.write("#new", "looking-glass")
			b.write("#again", "looking-glass")
			b.click("form[action$='/account/password'] button")
		}},
		{"consent", 200, "Allow access for Wiki?", "Wiki", as(alice, "/oauth/authorize?"+url.Values{
			"client_id": {"wiki"}, "redirect_uri": {"https://wiki.example.net/cb"}, "response_type": {"code"},
			"scope": {"openid email"}, "code_challenge_method": {"S256"},
			"code_challenge": {"mXLNl79P-3x1Ifs1GS0iwa-SZmql10ohU-7s2oqIDSo"},
		}.Encode())},
		{"device", 200, "Connect a device", "Ein Gerät verbinden", as(alice, "/device")},
		{"people", 200, "Add a person", "Konten", as(alice, "/account/people")},
		{"forbidden", 403, "You are signed in as bob.", "Sie sind angemeldet als bob.", as(bob, "/admin-resource")},
		{"sign-in-again", 200, "Sign in again to go on.", "Melden Sie sich wieder an, um fortzufahren.",
			as(alice, "/signin?reason=fresh&return_to=/account")},
		{"two-cookies", 400, "Two cookies have the same name", "Zwei Cookies haben denselben Namen", func(b *tab) {
			as(alice, "/secure-resource")(b)
			// Not by document.cookie, for which the next request does not wait.
			b.keep(map[string]*network.Cookie{"session_id": {Name: "session_id", Value: "other",
				Domain: "id.example.test", Path: "/secure-resource", Secure: true}})
			b.open(g.Public + "/secure-resource")
		}},
	}
}

// exhibitsOfFactors are the pages of a user who adds a second factor, and needs it then.
func exhibitsOfFactors(t *testing.T, g *world.Instance, bob *tab) []exhibit {
	setUp := func(b *tab) {
		b.keep(bob.cookies())
		b.open(g.Public + "/account?part=factors")
		b.click(totpForm + " button")
	}
	return []exhibit{
		{"second-factor-needed", 200, "you need a second factor.", "einen zweiten Faktor", func(b *tab) {
			b.keep(bob.cookies())
			b.open(g.Public + "/account?return_to=/secure-resource&factors=2")
		}},
		{"second-factor-app", 201, "Open your app for codes", "Öffnen Sie Ihre App", setUp},
		{"recovery-codes", 200, "Keep these codes", "Bewahren Sie diese Codes", func(b *tab) {
			setUp(b)
			b.confirms(codeOf(t, b.value("document.querySelector('#setup code').innerText"), 0))
		}},
		{"second-step", 200, "You are signing in as bob.", "Sie melden sich an als bob.", func(b *tab) {
			b.open(g.Public + "/secure-resource")
			b.signIn("bob")
		}},
	}
}

// exhibitsOfLinks are the pages of users whom a link led to the gateway.
func exhibitsOfLinks(g *world.Instance, alice *tab) []exhibit {
	wiki := url.QueryEscape(strings.Replace(g.Base, "localhost", "wiki.example.test", 1) + "/page")
	return []exhibit{
		{"not-begun", 200, "A link led you here.", "Ein Link hat Sie hierher geleitet.", func(b *tab) {
			b.keep(alice.cookies())
			b.open(g.Public + "/signin?reason=unbegun&return_to=" + wiki)
		}},
		{"asked-by-a-site", 200, "Another site asks you to sign in with Company account.", "Eine andere Website möchte",
			func(b *tab) {
				b.keep(alice.cookies())
				b.open(g.Base + "/nothing") // at another site
				b.goesTo(g.Public + "/login?provider=company")
			}},
		{"continue", 200, "Continue?", "Weiter?", func(b *tab) {
			b.open(g.Public + "/signin?return_to=/secure-resource&elsewhere=1")
			b.signIn("alice")
		}},
	}
}

// keep gives the tab the cookies of another one.
func (b *tab) keep(cookies map[string]*network.Cookie) {
	b.t.Helper()
	for _, cookie := range cookies {
		inTab(b, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, network.SetCookie, network.SetCookieParams{
				Name: cookie.Name, Value: cookie.Value, Domain: cookie.Domain, Path: cookie.Path, Secure: &cookie.Secure,
				HTTPOnly: &cookie.HTTPOnly,
			})
			return err
		}))
	}
}

// show checks the page in each language, in a tab of a person who is new each time. A new tab for
// each page would be a new process that has to read axe-core again.
func (e exhibit) show(t *testing.T, b *tab) {
	t.Helper()
	for language, says := range map[string]string{"en": e.en, "de": e.de} {
		if says != "" { // else not in this language
			t.Run(e.name+" "+language, func(t *testing.T) {
				b.t = t
				b.forgets()
				e.showIn(t, b, language, says)
			})
		}
	}
}

func (e exhibit) showIn(t *testing.T, b *tab, language, says string) {
	b.speaks(language)
	e.open(b)
	if got := b.value("document.documentElement.lang"); b.status != e.status || got != language ||
		!strings.Contains(b.text(), says) {
		t.Fatalf("expected %d and %q in the language %s, not %s: %s", e.status, says, language, got, b.describe())
	}
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the browser complains: %q", got)
	}
	b.fits()
	b.isDark()
	b.coloursLinks()
	for _, form := range forms {
		if name := e.name + form.suffix; form.language == language && pictured(name) {
			b.prefers(form.scheme)
			inTab(b, chromedp.EmulateViewport(form.width, form.height))
			b.obeysAxe(name)
			b.draw(name)
		}
	}
}

// coloursLinks fails the test if a link in the text has another colour than the accent, such as the blue of
// the browser.
func (b *tab) coloursLinks() {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.prefers(scheme)
		if got := b.value(`(() => {
			const accent = document.createElement("i")
			accent.style.color = "var(--accent)"
			document.querySelector("main").append(accent)
			const want = getComputedStyle(accent).color
			accent.remove()
			return [...document.querySelectorAll("main a:not(.button, .app, [aria-current])")].map(
				a => getComputedStyle(a).color).filter(color => color != want).join(" ")
		})()`); got != "" {
			b.t.Errorf("%s: with %s colours, links have the colours %s", b.url(), scheme, got)
		}
	}
}

// forms are the forms in which axe-core checks pages, and pictures are made.
var forms = []struct {
	language, scheme string
	width, height    int64
	suffix           string // of the picture's name
}{
	{"en", "light", 640, 560, ""},
	{"en", "dark", 640, 560, "-dark"},
	{"de", "light", 360, 560, "-de"},
}

// pictured reports whether docs/pages.md shows the picture of that name: each page
// once, and three in all forms.
func pictured(name string) bool {
	page := strings.TrimSuffix(strings.TrimSuffix(name, "-dark"), "-de")
	return page == name || page == "signin" || page == "forbidden" || page == "applications"
}

// forgets makes the tab that of a new person, without cookies and in a window as it comes.
func (b *tab) forgets() {
	b.t.Helper()
	own := chromedp.FromContext(b.ctx).BrowserContextID
	world.Must(chromedp.CallBrowser(b.ctx, storage.ClearCookies, storage.ClearCookiesParams{BrowserContextID: own}))(b.t)
	inTab(b, chromedp.EmulateReset())
}

// speaks makes the browser ask for a language.
func (b *tab) speaks(language string) {
	b.t.Helper()
	inTab(b, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetExtraHTTPHeaders,
			network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": language}})
		return err
	}))
}

// prefers makes the browser prefer a scheme of colours, light or dark.
func (b *tab) prefers(scheme string) {
	b.t.Helper()
	inTab(b, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// obeysAxe fails the test if axe-core finds that the page excludes somebody.
func (b *tab) obeysAxe(what string) {
	b.t.Helper()
	script, err := os.ReadFile(world.Path("e2e/provider/node_modules/axe-core/axe.min.js"))
	if err != nil {
		b.t.Fatalf("axe-core is not installed, run make deps: %v", err)
	}
	inTab(b, chromedp.Evaluate[chromedp.Void]("void (window.axe || (() => {"+string(script)+"\n})())"))
	found := inTab(b, chromedp.Evaluate[[]string](`axe.run({resultTypes: ["violations"], preload: false}).then(
		result => result.violations.map(violation => violation.id + ": " + violation.help + ": " +
			violation.nodes.map(node => node.html + " " + node.failureSummary).join("; ")))`,
		chromedp.EvalAwaitPromise))
	for _, violation := range found {
		b.t.Errorf("%s: %s", what, violation)
	}
}

// draw writes a picture of the page if the environment asks for that, and checks that
// docs/pages.md shows it.
func (b *tab) draw(name string) {
	b.t.Helper()
	index, err := os.ReadFile(picturesFolder + ".md")
	if err != nil {
		b.t.Fatal(err)
	}
	if !bytes.Contains(index, []byte("pages/"+name+".png")) {
		b.t.Errorf("docs/pages.md does not show %s.png", name)
	}
	if os.Getenv(picturesVariable) == "" {
		return
	}
	size := inTab(b, chromedp.Evaluate[[]int64]("[innerWidth, document.documentElement.scrollHeight]"))
	keepPicture(b.t, name, b.picture(size[0], size[1]))
}

// picture is the page as it looks in a window of that size.
func (b *tab) picture(width, height int64) image.Image {
	b.t.Helper()
	inTab(b, chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()")) // no blinking cursor
	inTab(b, chromedp.EmulateViewport(width, height))
	return world.Must(png.Decode(bytes.NewReader(inTab(b, chromedp.CaptureScreenshot()))))(b.t)
}

// keepPicture writes a picture into docs/pages.
func keepPicture(t testing.TB, name string, picture image.Image) {
	t.Helper()
	world.NoError(t, os.WriteFile(filepath.Join(picturesFolder, name+".png"), small(t, picture), 0o644))
}

// small returns a PNG with the 256 colours that are most frequent.
func small(t testing.TB, picture image.Image) []byte {
	t.Helper()
	bounds, frequency := picture.Bounds(), map[color.Color]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			frequency[picture.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(frequency), func(a, b color.Color) int { return frequency[b] - frequency[a] })
	reduced := image.NewPaletted(bounds, color.Palette(colours[:min(256, len(colours))]))
	draw.Draw(reduced, bounds, picture, bounds.Min, draw.Src)
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, reduced); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
