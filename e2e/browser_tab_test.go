package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
)

// tab is a tab of the browser, and the person in front of it.
type tab struct {
	t      testing.TB
	ctx    context.Context
	status int // of the page that it shows

	mu         sync.Mutex
	requests   []tabRequest
	complaints []string // of the browser about the page: violations of policies, errors of scripts
}

// tabRequest is one that a tab has made.
type tabRequest struct {
	method, url, referer string
	page                 bool // as opposed to what belongs to one
}

// tab opens the browser for a new person, who has no cookies yet.
func (c *chromium) tab(t testing.TB) *tab {
	t.Helper()
	return openTab(t, c.ctx, chromedp.WithNewBrowserContext())
}

// another opens one more tab for the same person.
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

// note keeps what tests may ask for.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		referer, _ := event.Request.Headers["Referer"].(string)
		b.requests = append(b.requests, tabRequest{event.Request.Method, event.Request.URL, referer, event.Type == network.ResourceTypeDocument})
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, event.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if strings.Contains(event.Entry.Text, "the server responded with a status of") {
			return // every page with an error is one
		}
		b.complaints = append(b.complaints, fmt.Sprintf("%s %s: %s (%s)", event.Entry.Source, event.Entry.Level, event.Entry.Text, event.Entry.URL))
	}
}

// asked are the requests since it was asked last.
func (b *tab) asked() []tabRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests := b.requests
	b.requests = nil
	return requests
}

// complained are the complaints since it was asked last.
func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	complaints := slices.Clone(b.complaints)
	b.complaints = nil
	return complaints
}

// stepTime is how long a step may take.
const stepTime = patience

// inTab does something in the tab that loads no page.
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

// load does something that loads a page, and waits until it is there.
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

// open goes to an address that the person types.
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

// back goes to the page before, which the browser may have kept.
func (b *tab) back() {
	b.t.Helper()
	history := inTab(b, chromedp.NavigationEntries())
	before := history.Entries[history.CurrentIndex-1]
	if _, err := chromedp.Call(b.ctx, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: before.ID}); err != nil {
		b.t.Fatal(err)
	}
	b.arrives(before.URL)
	b.status = inTab(b, chromedp.Evaluate[int]("performance.getEntriesByType('navigation')[0].responseStatus"))
}

// click clicks on what loads a page.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.load(chromedp.Click(chromedp.CSS(selector)))
}

// write writes into a field, over what stands there.
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

// signIn fills in the form for signing in, the gateway's or the provider's,
// and sends it.
func (b *tab) signIn(user string) {
	b.t.Helper()
	b.write("#username", user)
	b.write("#password", passwords[user])
	b.click("button[type=submit]")
}

// url is the address of the page.
func (b *tab) url() string { b.t.Helper(); return inTab(b, chromedp.Location()) }

// text is what the page says.
func (b *tab) text() string {
	b.t.Helper()
	return inTab(b, chromedp.Evaluate[string]("document.title + '\\n' + document.body.innerText"))
}

// value is that of an expression, as text.
func (b *tab) value(expression string) string {
	b.t.Helper()
	return inTab(b, chromedp.Evaluate[string]("String("+expression+")"))
}

// is fails the test unless the tab shows the page at address, without an error.
func (b *tab) is(address string) {
	b.t.Helper()
	if got := b.url(); got != address || b.status != http.StatusOK {
		b.t.Fatalf("expected the page %s: %s", address, b.describe())
	}
}

// shows fails the test unless the tab shows a page of the path, with a status
// and words.
func (b *tab) shows(path string, status int, words ...string) {
	b.t.Helper()
	text := b.text()
	if got := b.value("location.pathname"); got != path || b.status != status ||
		slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
		b.t.Fatalf("expected the page %s with %d and %q: %s", path, status, words, b.describe())
	}
}

// arrives waits until the page at address is there.
func (b *tab) arrives(address string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	until(b.t, "the page "+address, func() bool {
		at, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.readyState + ' ' + location"))
		if ctx.Err() != nil {
			b.t.Fatalf("expected the page %s: %s", address, b.describe())
		}
		return err == nil && at == "complete "+address
	})
}

// cookies are those that the browser has of this person, by name.
func (b *tab) cookies() map[string]*network.Cookie {
	b.t.Helper()
	own := chromedp.FromContext(b.ctx).BrowserContextID
	all, err := chromedp.CallBrowser(b.ctx, storage.GetCookies, storage.GetCookiesParams{BrowserContextID: own})
	if err != nil {
		b.t.Fatal(err)
	}
	named := map[string]*network.Cookie{}
	for _, cookie := range all.Cookies {
		if named[cookie.Name] != nil {
			b.t.Errorf("the browser has two cookies %s", cookie.Name)
		}
		named[cookie.Name] = cookie
	}
	return named
}

// describe is what the tab shows, for messages of tests.
func (b *tab) describe() string {
	ctx, cancel := context.WithTimeout(b.ctx, time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location + ' ' + document.title + '\\n' + document.body.innerText"))
	if err != nil {
		text = err.Error()
	}
	return fmt.Sprintf("%d %.2000s", b.status, text)
}

// wants fails the test unless one request came since, on behalf of user, or of
// nobody, and without a cookie of the gateway.
func (r *recorder) wants(t testing.TB, method, target, user string) message {
	t.Helper()
	m := r.one(t)
	if !strings.HasPrefix(m.line, method+" ") || m.target() != target || m.value(t, "X-Auth-User") != user {
		t.Errorf("expected %s %s for %q at the upstream: %s for %q", method, target, user, m.line, m.value(t, "X-Auth-User"))
	}
	if got := m.values("Cookie"); len(got) > 0 {
		t.Errorf("the upstream gets cookies: %q", got)
	}
	return m
}
