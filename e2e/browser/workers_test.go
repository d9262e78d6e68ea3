package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"authgate/e2e/world"

	"github.com/chromedp/chromedp"
)

// takingWorker is a service worker that keeps the addresses of the gateway's own endpoints
// from the gateway, and gives them to the application.
const takingWorker = `
self.addEventListener('install', () => self.skipWaiting())
self.addEventListener('activate', event => event.waitUntil(clients.claim()))
self.addEventListener('fetch', event => {
	const place = event.request.url
	if (!place.includes('/signin')) return
	const take = fetch('/taken', {method: 'POST', body: place})
	event.respondWith(take.then(() => new Response('<title>taken</title>', {headers: {'Content-Type': 'text/html'}})))
})`

// hostileApp is an application that registers service workers. It keeps what they take.
type hostileApp struct {
	url string

	mu    sync.Mutex
	taken []string
}

func serveHostile(t *testing.T) *hostileApp {
	t.Helper()
	h := &hostileApp{}
	h.url = world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Service-Worker-Allowed", "/")
		switch {
		case r.URL.Path == "/taken":
			place, _ := io.ReadAll(r.Body) // what is missing is missed by the test
			h.mu.Lock()
			defer h.mu.Unlock()
			h.taken = append(h.taken, string(place))
		case strings.HasSuffix(r.URL.Path, ".js"):
			w.Header().Set("Content-Type", "text/javascript")
			w.Header().Set("Cache-Control", "max-age=3600")
			_, _ = io.WriteString(w, takingWorker)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<title>wiki</title>")
		}
	})
	return h
}

// all returns what workers took since the last call.
func (h *hostileApp) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.taken
	h.taken = nil
	return taken
}

// registers tries to register a worker, and returns "registered" or the name of the error.
// With cached, the browser has the worker's script already.
func (b *tab) registers(script, options string, cached bool) string {
	b.t.Helper()
	if cached {
		inTab(b, chromedp.Evaluate[string]("fetch('"+script+"').then(r => r.text())", chromedp.EvalAwaitPromise))
	}
	return inTab(b, chromedp.Evaluate[string](
		"navigator.serviceWorker.register('"+script+"', "+options+")"+
			".then(() => navigator.serviceWorker.ready).then(() => 'registered', e => e.name)",
		chromedp.EvalAwaitPromise))
}

// workersInBrowser: code of an application cannot get hold of a sign-in by a service worker,
// unless the operator allows the application to have one. Then it can, which shows that the
// attack works.
func workersInBrowser(t *testing.T, c *chromium) {
	for name, workers := range map[string]string{"refused": "", "allowed": ", service_workers: allow"} {
		t.Run(name, func(t *testing.T) {
			app, m := serveHostile(t), c.manyHosts(t)
			m.Configure(fmt.Sprintf("upstreams: {app: {url: %q}}\n", app.url) + world.People + "routes:\n" +
				"  - {match: login.test/, upstream: app, auth: [session]}\n" +
				"  - {match: wiki.one.test/, upstream: app, auth: [session]" + workers + "}\n" +
				"  - {match: wiki.one.test/taken, upstream: app, auth: [none]}\n")
			m.Run()
			// What the attacker's own browser gets to begin a sign-in.
			wiki := strings.TrimPrefix(m.at("wiki.one.test", ""), "https://")
			begun := m.Page(m.Stranger(), wiki, "/page").Header.Get("Location")
			if u, err := url.Parse(begun); err != nil || u.Query().Get("binding") == "" {
				t.Fatalf("the attacker is led to %q", begun)
			}
			far, _ := c.otherSites(t, http.HandlerFunc(serveStranger))

			b := c.tab(t)
			b.open(m.at("wiki.one.test", "/page"))
			b.signIn("alice")
			b.is(m.at("wiki.one.test", "/page"))
			got := map[string]string{
				"plain": b.registers("/sw.js", "{}", false), "wider": b.registers("/folder/sw.js", "{scope: '/'}", false),
				"from the cache": b.registers("/cached.js", "{updateViaCache: 'all'}", true),
			}
			for how, result := range got {
				if (result == "registered") != (workers != "") {
					t.Errorf("%s: %s", how, result)
				}
			}
			b.isLedTo(begun, far)
			if workers != "" {
				world.Until(t, "the worker to take a place", func() bool {
					return strings.Contains(strings.Join(app.all(), " "), "/signin/complete?")
				})
				return
			}
			b.says("did not begin the sign-in")
			if taken := app.all(); len(taken) > 0 {
				t.Errorf("a worker took %q", taken)
			}
		})
	}
}
