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
	if got := b.value(times); !strings.Contains(got, " um ") || !strings.Contains(got, "GMT+5:30") || strings.Contains(got, "UTC") {
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

// lives moves the browser to a time zone.
func (b *tab) lives(zone string) {
	b.t.Helper()
	inTab(b, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		return err
	}))
}
