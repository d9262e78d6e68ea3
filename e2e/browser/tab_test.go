package browser

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
)

// tab is a tab of the browser.
type tab struct {
	t      testing.TB
	ctx    context.Context
	status int // of the page that it shows

	mu         sync.Mutex
	requests   []tabRequest
	complaints []string // violations of policies, errors of scripts
	received   string   // the messages of WebSockets
	closed     int      // WebSockets
}

// tabRequest is a request of a tab.
type tabRequest struct {
	method, url, referer string
	page                 bool // not a part of one
}

// tab opens a tab for a new person, without cookies.
func (c *chromium) tab(t testing.TB) *tab {
	t.Helper()
	return openTab(t, c.ctx, chromedp.WithNewBrowserContext())
}

// another opens another tab for the same person.
func (b *tab) another() *tab {
	b.t.Helper()
	return openTab(b.t, b.ctx)
}

func openTab(t testing.TB, ctx context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	b := &tab{t: t}
	ctx, end := chromedp.NewContext(ctx, append(options, chromedp.WithListener(b.note))...)
	t.Cleanup(end)
	b.ctx = ctx
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return b
}

// note records what tests check.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		referer, _ := event.Request.Headers["Referer"].(string)
		b.requests = append(b.requests,
			tabRequest{event.Request.Method, event.Request.URL, referer, event.Type == network.ResourceTypeDocument})
	case *network.EventWebSocketFrameReceived:
		b.received += string(event.Response.PayloadData) + "\n"
	case *network.EventWebSocketClosed:
		b.closed++
	case *runtime.EventExceptionThrown:
		text := event.ExceptionDetails.Text
		if thrown := event.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		b.complaints = append(b.complaints, text)
	case *log.EventEntryAdded:
		if strings.Contains(event.Entry.Text, "the server responded with a status of") {
			return // every error page causes that
		}
		if strings.Contains(event.Entry.Text, "Autofocus processing was blocked") {
			return // the test was faster than the page
		}
		if event.Entry.Source == log.EntrySourceRecommendation {
			return // a guess: Chromium misses fields that it saw while the page loaded
		}
		b.complaints = append(b.complaints, fmt.Sprintf("%s %s: %s (%s)",
			event.Entry.Source, event.Entry.Level, event.Entry.Text, event.Entry.URL))
	}
}

// sockets returns the messages that WebSockets received so far, and how many have closed.
func (b *tab) sockets() (received string, closed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received, b.closed
}

// asked returns the requests since the last call.
func (b *tab) asked() []tabRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests := b.requests
	b.requests = nil
	return requests
}

// complained returns the complaints since the last call.
func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	complaints := slices.Clone(b.complaints)
	b.complaints = nil
	return complaints
}

// stepTime bounds the time of a step.
const stepTime = world.Patience

// inTab runs an action that loads no page.
func inTab[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.describe())
	}
	return result
}

// load runs steps that load a page, and waits for the page.
func (b *tab) load(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	response, err := chromedp.RunResponse(ctx, steps...)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.describe())
	}
	b.status = 0
	if response != nil {
		b.status = int(response.Status)
	}
}

// open goes to an address that a person types.
func (b *tab) open(address string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	response, err := chromedp.Run(ctx, chromedp.NavigateResponse(address))
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", address, err, b.describe())
	}
	b.status = int(response.Status)
}

// goesTo follows a link to an address.
func (b *tab) goesTo(address string) {
	b.t.Helper()
	b.load(chromedp.Evaluate[chromedp.Void]("void (location = " + quoteJS(address) + ")"))
}

// quoteJS returns text as a string of a script on a page.
func quoteJS(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "<", `\x3c`).Replace(text) + "'"
}

// isLedTo goes to a page of another site, which leads on to an address.
func (b *tab) isLedTo(address, site string) {
	b.t.Helper()
	b.goesTo(strangerPage(site, "<script>location = "+quoteJS(address)+"</script>"))
}

// back goes to the page before, which the browser may have in its cache.
func (b *tab) back() {
	b.t.Helper()
	history := inTab(b, chromedp.NavigationEntries())
	before := history.Entries[history.CurrentIndex-1]
	if _, err := chromedp.Call(b.ctx, page.NavigateToHistoryEntry,
		page.NavigateToHistoryEntryParams{EntryID: before.ID}); err != nil {
		b.t.Fatal(err)
	}
	b.arrives(before.URL)
	b.status = inTab(b, chromedp.Evaluate[int]("performance.getEntriesByType('navigation')[0].responseStatus"))
}

// click clicks on an element that loads a page.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.load(chromedp.Click(chromedp.CSS(selector)))
}

// write replaces the text of a field.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	inTab(b, chromedp.Steps(
		chromedp.Focus(chromedp.CSS(selector)),
		chromedp.Evaluate[chromedp.Void]("document.activeElement.select()"),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
			return err
		}),
	))
}

// signIn fills in and sends the sign-in form of the gateway or the provider.
func (b *tab) signIn(user string) {
	b.t.Helper()
	b.write("#username", user)
	b.write("#password", world.Passwords[user])
	b.click("button[type=submit]")
}

// url returns the address of the page.
func (b *tab) url() string { b.t.Helper(); return inTab(b, chromedp.Location()) }

// text returns the title and the text of the page.
func (b *tab) text() string {
	b.t.Helper()
	return inTab(b, chromedp.Evaluate[string]("document.title + '\\n' + document.body.innerText"))
}

// value returns the value of an expression as text.
func (b *tab) value(expression string) string {
	b.t.Helper()
	return inTab(b, chromedp.Evaluate[string]("String("+expression+")"))
}

// is fails the test unless the tab shows the page at address with status 200.
func (b *tab) is(address string) {
	b.t.Helper()
	if got := b.url(); got != address || b.status != http.StatusOK {
		b.t.Fatalf("expected the page %s: %s", address, b.describe())
	}
}

// shows fails the test unless the tab shows a page with a path, a status and words.
func (b *tab) shows(path string, status int, words ...string) {
	b.t.Helper()
	text := b.text()
	if got := b.value("location.pathname"); got != path || b.status != status ||
		slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
		b.t.Fatalf("expected the page %s with %d and %q: %s", path, status, words, b.describe())
	}
}

// arrives waits for the page at address.
func (b *tab) arrives(address string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	world.Until(b.t, "the page "+address, func() bool {
		at, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.readyState + ' ' + location"))
		if ctx.Err() != nil {
			b.t.Fatalf("expected the page %s: %s", address, b.describe())
		}
		return err == nil && at == "complete "+address
	})
}

// says waits for a page whose text has the words. Pages on the way may have none yet.
func (b *tab) says(words string) {
	b.t.Helper()
	world.Until(b.t, "a page with "+words, func() bool {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
			"document.readyState == 'complete' ? document.body.innerText : ''"))
		return err == nil && strings.Contains(text, words)
	})
}

// cookies returns the person's cookies by name, without those that tell of ended sessions.
func (b *tab) cookies() map[string]*network.Cookie {
	b.t.Helper()
	own := chromedp.FromContext(b.ctx).BrowserContextID
	all, err := chromedp.CallBrowser(b.ctx, storage.GetCookies, storage.GetCookiesParams{BrowserContextID: own})
	if err != nil {
		b.t.Fatal(err)
	}
	named := map[string]*network.Cookie{}
	for _, cookie := range all.Cookies {
		if cookie.Name == "authgate_ended" {
			continue // each host has one
		}
		if named[cookie.Name] != nil {
			b.t.Errorf("the browser has two cookies %s", cookie.Name)
		}
		named[cookie.Name] = cookie
	}
	return named
}

// describe returns what the tab shows, for messages of tests.
func (b *tab) describe() string {
	ctx, cancel := context.WithTimeout(b.ctx, time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx,
		chromedp.Evaluate[string]("location + ' ' + document.title + '\\n' + document.body.innerText"))
	if err != nil {
		text = err.Error()
	}
	return fmt.Sprintf("%d %.2000s", b.status, text)
}

// wantAsked fails the test unless one request came since the last call, with the
// identity of user and without a cookie of the gateway. The browser may have asked for an icon.
func wantAsked(t testing.TB, r *world.Recorder, method, target, user string) world.Message {
	t.Helper()
	all := slices.DeleteFunc(r.All(), func(m world.Message) bool { return m.Target() == "/favicon.ico" })
	if len(all) != 1 {
		t.Fatalf("%d requests reached the upstream, expected one: %v", len(all), all)
	}
	m := all[0]
	if !strings.HasPrefix(m.Line, method+" ") || m.Target() != target || m.Value(t, "X-Auth-User") != user {
		t.Errorf("expected %s %s for %q at the upstream: %s for %q", method, target, user, m.Line, m.Value(t, "X-Auth-User"))
	}
	if got := m.Values("Cookie"); len(got) > 0 {
		t.Errorf("the upstream gets cookies: %q", got)
	}
	return m
}
