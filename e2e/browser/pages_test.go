package browser

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"authgate/e2e/world"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// pagesInBrowser checks each of the gateway's own pages: it loads nothing, breaks no
// rule of its policy, fits on the smallest screen, has a dark form, and names its
// controls for screen readers. No other site can show the sign-in page in a frame.
func pagesInBrowser(t *testing.T, c *chromium) {
	g, up := c.gateway(t, browserRoutes+`
providers:
  - {name: demo, title: Identitätsverwaltungsdienstleistungsgesellschaft, issuer: 'http://127.0.0.1:9', client_id: shop}
`)
	far, near := c.otherSites(t, http.HandlerFunc(serveStranger))
	b := c.tab(t)
	shown := func(path string, status int, controls ...string) {
		t.Helper()
		b.shows(path, status)
		b.asksNothing(g.Base, far)
		b.fits()
		b.isDark()
		b.hasControls(controls...)
	}
	const provider = "link: Continue with Identitätsverwaltungsdienstleistungsgesellschaft"
	b.open(g.Base + "/admin-resource")
	shown("/signin", http.StatusOK, "textbox: User name", "textbox: Password", "button: Sign in")
	b.open(g.Base + "/signin")
	shown("/signin", http.StatusOK, "textbox: User name", "textbox: Password", "button: Sign in", provider)
	b.write("#username", strings.Repeat("w", 300))
	b.write("#password", "x")
	b.click("button")
	shown("/login", http.StatusUnauthorized, "textbox: User name", "textbox: Password", "button: Sign in", provider)
	b.open(g.Base + "/callback?code=x&state=y")
	shown("/callback", http.StatusBadRequest, "link: Sign in")
	b.open(g.Base + "/me")
	shown("/me", http.StatusUnauthorized, "link: Sign in")
	long := "/" + strings.Repeat("w", 300)
	b.open(g.Base + long)
	shown(long, http.StatusNotFound, "link: Go to the start page")
	b.open(g.Base + "/admin-resource")
	b.signIn("bob")
	b.shows("/admin-resource", http.StatusForbidden, "You are signed in, but not allowed to do this.")
	shown("/admin-resource", http.StatusForbidden, "link: Use another account", "link: Go to the start page",
		"button: Sign out")
	up.None(t)
	b.open(g.Base + "/me")
	shown("/me", http.StatusOK, "button: Sign out")
	b.open(strangerPage(far, `<link rel="icon" href="data:,"><a href="`+g.Base+`/logout">A present for you</a>`))
	b.click("a")
	shown("/logout", http.StatusOK, "button: Sign out")
	for _, address := range []string{far, near} {
		b := c.tab(t)
		b.open(strangerPage(address, `<iframe src="`+g.Base+`/signin"></iframe>`))
		world.Until(t, "the browser to block the frame", func() bool {
			return slices.ContainsFunc(b.complained(), func(complaint string) bool {
				return strings.Contains(complaint, g.Base) && strings.Contains(complaint, "frame-ancestors 'none'") &&
					strings.Contains(complaint, "has been blocked")
			})
		})
	}
}

// asksNothing fails the test if the browser complained about the page or loaded
// anything but pages of these origins, and what it needs to offer passkeys on the sign-in page.
func (b *tab) asksNothing(origins ...string) {
	b.t.Helper()
	if got := b.complained(); len(got) > 0 {
		b.t.Errorf("%s: the browser complains: %q", b.url(), got)
	}
	for _, r := range b.asked() {
		wanted := r.page || strings.HasSuffix(r.url, "/signin/passkey/options")
		if !wanted || !slices.ContainsFunc(origins,
			func(origin string) bool { return strings.HasPrefix(r.url, origin+"/") }) {
			b.t.Errorf("%s: the browser requests %s", b.url(), r.url)
		}
	}
}

// slippedIn: if a page of the gateway held what an attacker wrote, the browser would
// run none of it and send nothing to another site.
func slippedIn(t *testing.T, c *chromium) {
	g, up := c.gateway(t, browserRoutes)
	var reached atomic.Int64
	far, _ := c.otherSites(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	b := c.tab(t)
	b.open(g.Base + "/secure-resource")
	b.signIn("alice")
	up.All()
	b.open(g.Base + "/me")
	b.complained()
	const intruders = 8
	got := b.value(`(() => {
		const slip = (name, set) => document.body.append(Object.assign(document.createElement(name), set))
		slip("script", {textContent: "document.title = 'owned'"})
		slip("script", {src: "` + far + `/script"})
		slip("img", {src: "` + far + `/image"})
		slip("img", {src: "/secure-resource"})
		slip("style", {textContent: "body { visibility: hidden }"})
		slip("iframe", {src: "` + far + `/frame"})
		slip("base", {href: "` + far + `/"})
		slip("form", {action: "` + far + `/form"})
		document.body.lastChild.submit()
		return document.title + ", " + getComputedStyle(document.body).visibility + ", " + document.baseURI
	})()`)
	if want := "Your account · localhost, visible, " + g.Base + "/me"; got != want {
		t.Errorf("what was slipped in changed the page: %s", got)
	}
	blocked := 0
	world.Until(t, "the browser to block all of it", func() bool {
		for _, complaint := range b.complained() {
			if strings.Contains(complaint, "Content Security Policy") && strings.Contains(complaint, "has been blocked") {
				blocked++
			}
		}
		return blocked >= intruders
	})
	b.shows("/me", http.StatusOK, "Alice Example")
	up.None(t)
	if got := reached.Load(); got > 0 {
		t.Errorf("%d requests went to another site", got)
	}
}

// fits fails the test if the page has to be scrolled sideways at a width of 320
// pixels (WCAG 2.2, 1.4.10).
func (b *tab) fits() {
	b.t.Helper()
	inTab(b, chromedp.EmulateViewport(320, 256))
	if got := b.value("innerWidth + ' ' + document.documentElement.scrollWidth"); got != "320 320" {
		b.t.Errorf("%s: width of the window and of the page: %s", b.url(), got)
	}
	inTab(b, chromedp.EmulateReset())
}

// isDark fails the test unless the page is dark on light, or light on dark where the
// browser prefers that.
func (b *tab) isDark() {
	b.t.Helper()
	for scheme, want := range map[string]string{"light": "false", "dark": "true"} {
		b.prefers(scheme)
		got := b.value(`(() => {
			const light = color => color.match(/\d+/g).slice(0, 3).reduce((sum, channel) => sum + Number(channel), 0)
			const page = getComputedStyle(document.querySelector("main"))
			return light(page.backgroundColor) < light(page.color)
		})()`)
		if got != want {
			b.t.Errorf("%s: with %s colours, light on dark is %s", b.url(), scheme, got)
		}
	}
}

// hasControls fails the test unless the page has these controls, by the roles and
// names that the browser gives to screen readers.
func (b *tab) hasControls(want ...string) {
	b.t.Helper()
	tree := inTab(b, func(ctx context.Context, t *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	var got []string
	for _, node := range tree.Nodes {
		var role, name string
		if node.Ignored || json.Unmarshal(node.Role.Value, &role) != nil || node.Name == nil ||
			json.Unmarshal(node.Name.Value, &name) != nil {
			continue
		}
		switch role {
		case "textbox", "button", "link":
			got = append(got, role+": "+name)
		}
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("%s: the controls are %q, expected %q", b.url(), got, want)
	}
}

// keyboardOnly: a person signs in and out without a mouse, and the focus is
// visible.
func keyboardOnly(t *testing.T, b *tab, g *world.Instance, up *world.Recorder) {
	focused := func(want string) {
		t.Helper()
		world.Until(t, "the focus on "+want, func() bool {
			return b.value("document.activeElement.id || document.activeElement.localName") == want
		})
		if got := b.value("document.activeElement.matches(':focus-visible') + ' ' + " +
			"getComputedStyle(document.activeElement).outlineStyle"); got != "true solid" {
			t.Errorf("the focus on %s is not visible: %s", want, got)
		}
	}
	b.open(g.Base + "/secure-resource")
	focused("username")
	inTab(b, chromedp.KeyEvent("alice\t"))
	focused("password")
	inTab(b, chromedp.KeyEvent("wonderland\t"))
	focused("button")
	b.load(chromedp.KeyEvent("\r"))
	b.is(g.Base + "/secure-resource")
	wantAsked(t, up, "GET", "/secure-resource", "alice")
	b.open(g.Base + "/me")
	inTab(b, chromedp.KeyEvent("\t"))
	focused("button")
	b.load(chromedp.KeyEvent("\r"))
	b.is(g.Base + signedOutPage)
	if got := b.cookies(); len(got) > 0 {
		t.Errorf("after signing out the browser has cookies: %v", got)
	}
}
