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
			g.refusesConfigurations(t, version(n))
			if got := g.do(c, "GET", "/", "").header.Get("X-Version"); got != "5" {
				t.Errorf("after configurations that are wrong, version %s answers", got)
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

// refusesConfigurations reloads configurations that are wrong, and looks in the
// log for what is wrong where.
func (g *instance) refusesConfigurations(t *testing.T, good string) {
	t.Helper()
	for _, test := range []struct {
		config       string
		line, column float64 // after the part on addresses; 0: none
		key, problem string
	}{
		{"routes: [\n", 0, 0, "", ""},
		{"lisen: {}\n" + good, 1, 1, "lisen", "listen"},
		{"upstreams: {app: {url: \"http://127.0.0.1:1\"}}\nroutes:\n  - match: /\n    upstream: nowhere\n    auth: [none]\n", 4, 15, "routes[0].upstream", "nowhere"},
		{"data_dir: elsewhere\n" + good, 0, 0, "", "data_dir"}, // needs a restart
	} {
		before := len(g.entries())
		g.configure(test.config)
		g.signal(syscall.SIGHUP)
		var found map[string]any
		until(t, "the log to say what is wrong", func() bool {
			for _, entry := range g.entries()[before:] {
				if strings.HasPrefix(entry["msg"].(string), "reload failed") {
					found = entry
				}
			}
			return found != nil
		})
		if said := fmt.Sprint(found["problem"], found["error"]); !strings.Contains(said, test.problem) {
			t.Errorf("the log says %q, expected something about %q", said, test.problem)
		}
		if test.line > 0 {
			line := test.line + float64(strings.Count("public_url:\n"+g.listen, "\n"))
			want := fmt.Sprint(g.dir+"/config.yaml", line, test.column, test.key)
			if got := fmt.Sprint(found["file"], found["line"], found["column"], found["key"]); got != want {
				t.Errorf("the log names %q, expected %q", got, want)
			}
		}
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
