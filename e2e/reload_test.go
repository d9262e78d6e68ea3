package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestReloadUnderLoad: reloads drop no request, not even one whose route and
// upstream are gone afterwards. A broken configuration changes nothing, and the
// log says where it is wrong.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		select {
		case <-finish:
			w.WriteHeader(http.StatusTeapot)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	fast := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Version", r.Header.Get("X-Version"))
	}))
	t.Cleanup(fast.Close)
	version := func(n int) string {
		return fmt.Sprintf("routes: [{match: /, upstream: app, auth: [none], headers: {set: {X-Version: \"%d\"}}}]\n", n) + app(fast.URL)
	}
	g := start(t, fmt.Sprintf(`
upstreams: {app: {url: %q}, slow: {url: %q}}
routes:
  - {match: /, upstream: app, auth: [none]}
  - {match: /slow, upstream: slow, auth: [none]}
`, fast.URL, slow.URL))

	late := make(chan int)
	c := g.stranger()
	go func() {
		a, _ := g.try(c, "GET", "/slow", "") // the status shows a failure
		late <- a.status
	}()
	<-began

	ctx, enough := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var answers atomic.Int64
	for _, c := range []*http.Client{g.stranger(), g.stranger(), g.stranger11(), g.stranger11()} {
		load.Go(func() {
			for ctx.Err() == nil {
				if a, err := g.try(c, "POST", "/", "body"); err != nil || a.status != http.StatusOK {
					t.Errorf("status %d, %v", a.status, err)
					return
				}
				answers.Add(1)
			}
		})
	}
	for n := range 10 {
		g.configure(version(n))
		g.signal(syscall.SIGHUP)
		until(t, fmt.Sprintf("version %d", n), func() bool {
			return g.do(c, "GET", "/", "").header.Get("X-Version") == fmt.Sprint(n)
		})
		if n == 5 {
			g.configure("lisen: {}\n" + version(99))
			g.signal(syscall.SIGHUP)
			until(t, "the log to say what is wrong", func() bool { return strings.Contains(g.log.String(), `"key":"lisen"`) })
			if got := g.do(c, "GET", "/", "").header.Get("X-Version"); got != "5" {
				t.Errorf("after a configuration that is wrong, version %s answers", got)
			}
		}
	}
	enough()
	load.Wait()
	if answers.Load() == 0 {
		t.Error("there was no load")
	}
	close(finish)
	if got := <-late; got != http.StatusTeapot {
		t.Errorf("the request in flight: %d", got)
	}
	if got := g.status(c, "GET", "/slow"); got != http.StatusOK {
		t.Errorf("the other route has its path now: %d", got)
	}
}

// person is a line of an accounts file.
func person(name, hash, more string) string {
	return fmt.Sprintf("- {username: %s, password_hash: %q%s}\n", name, hash, more)
}

// applies writes a file and waits until shows reports the change.
func (g *instance) applies(name, content string, shows func() bool) {
	g.t.Helper()
	g.write(name, content)
	until(g.t, "the change of "+name, shows)
}
