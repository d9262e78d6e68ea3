package browser

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// languagesInBrowser chooses the language of the pages by keyboard, signs in, and sees each page
// in it. The choice does not reach the application. Times are in the zone of the browser.
func languagesInBrowser(t *testing.T, c *chromium) {
	g, up := c.gateway(t, browserRoutes)
	b := c.tab(t)
	b.speaks("en")
	b.open(g.Base + "/secure-resource")
	at := b.url()
	b.shows("/signin", http.StatusOK, "Sign in to localhost", "Language: English")
	inTab(b, chromedp.Evaluate[chromedp.Void]("document.querySelector('.languages summary').focus()"))
	inTab(b, chromedp.KeyEvent("\r"))
	b.fits()
	b.obeysAxe("the choice of a language")
	inTab(b, chromedp.Evaluate[chromedp.Void]("document.querySelector('.languages [lang=de]').focus()"))
	b.load(chromedp.KeyEvent("\r"))
	b.is(at)
	b.shows("/signin", http.StatusOK, "Anmelden bei localhost", "Sprache: Deutsch")
	if strings.Contains(b.text(), "Cookies") {
		t.Errorf("the page takes the user for one whose browser keeps no cookies:\n%s", b.text())
	}
	b.signIn("alice")
	b.is(g.Base + "/secure-resource")
	wantAsked(t, up, "GET", "/secure-resource", "alice")
	b.open(g.Base + "/nothing")
	b.shows("/nothing", http.StatusNotFound, "Hier ist nichts")

	b.lives("Asia/Kolkata")
	b.open(g.Base + "/account")
	b.shows("/account", http.StatusOK, "Ihr Konto")
	const times = "[...document.querySelectorAll('time')].map(t => t.textContent + ', ' + t.title).join()"
	if got := b.value(times); !strings.Contains(got, " um ") || !strings.Contains(got, "GMT+5:30") ||
		strings.Contains(got, "UTC") {
		t.Errorf("in German and in India the times are %s", got)
	}
	inTab(b, chromedp.Evaluate[chromedp.Void]("document.querySelector('.languages').open = true"))
	b.click(".languages [lang=en]")
	b.shows("/account", http.StatusOK, "Your account")
	if got := b.value(times); !strings.Contains(got, " at ") || !strings.Contains(got, "GMT+5:30") {
		t.Errorf("in English and in India the times are %s", got)
	}
	noComplaints(t, b)
}

// languagesFit opens pages with many buttons in each language, and looks whether they fit on a small
// screen.
func languagesFit(t *testing.T, c *chromium) {
	g, _ := c.gateway(t, browserRoutes)
	b := c.tab(t)
	b.open(g.Base + "/signin")
	languages := strings.Fields(b.value("[...document.querySelectorAll('.languages button')].map(b => b.value).join(' ')"))
	if len(languages) < 8 {
		t.Fatalf("the languages are %q", languages)
	}
	b.signIn("bob")
	for _, language := range languages {
		b.speaks(language)
		for _, path := range []string{"/signin", "/signin?switch=1", "/account", "/account?part=programs",
			"/admin-resource", "/nothing"} {
			b.open(g.Base + path)
			if got := b.value("document.documentElement.lang"); got != language {
				t.Fatalf("%s in %s is in %s", path, language, got)
			}
			inTab(b, chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('details').forEach(d => d.open = true)"))
			b.fits()
			b.holdsButtons()
		}
		b.obeysAxe("a page in " + language)
	}
	noComplaints(t, b)
}

// holdsButtons fails the test if a button needs more than three lines at a width of 320 pixels.
func (b *tab) holdsButtons() {
	b.t.Helper()
	inTab(b, chromedp.EmulateViewport(320, 256))
	if got := b.value(`[...document.querySelectorAll("main button, main .button")].filter(e => {
		const range = document.createRange()
		range.selectNodeContents(e)
		return new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 3
	}).map(e => e.textContent).join(" | ")`); got != "" {
		b.t.Errorf("%s: buttons of more than three lines: %s", b.url(), got)
	}
	inTab(b, chromedp.EmulateReset())
}

// lives moves the browser to a time zone.
func (b *tab) lives(zone string) {
	b.t.Helper()
	inTab(b, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		return err
	}))
}
