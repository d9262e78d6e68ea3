package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/proxy/upstream/http1"
)

var errNoConnection = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// hangingUp returns an application that closes the connection without a response.
func hangingUp(t *testing.T) *application {
	return newApplication(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
		panic(http.ErrAbortHandler)
	})
}

// An idempotent request without a body is sent to another target if the first one
// hangs up. Nothing else is, and nothing is sent more often than configured.
func TestRetries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, body string
		retries      int
		targets      int // that hang up
		want         int64
	}{
		{"GET", "", 1, 3, 2},
		{"GET", "", 0, 3, 1},
		{"GET", "", 2, 3, 3},
		{"GET", "", 9, 3, 3},
		{"GET", "", 9, 1, 1},
		{"HEAD", "", 1, 3, 2},
		{"PUT", "", 1, 3, 2},
		{"DELETE", "", 1, 3, 2},
		{"PUT", "abc", 1, 3, 1},
		{"POST", "", 1, 3, 1},
		{"PATCH", "", 1, 3, 1},
	} {
		app := hangingUp(t)
		var urls []string
		for i := range c.targets {
			urls = append(urls, app.URL+"/"+string(rune('a'+i)))
		}
		f := newFixtureOf(t, func(cfg *forwarding.Upstream) { cfg.Retries = c.retries }, urls...)
		var body io.Reader
		if c.body != "" {
			body = strings.NewReader(c.body)
		}
		if _, err := f.send(t.Context(), c.method, body); kind(err) != failed {
			t.Errorf("%s: %v", c.method, err)
		}
		if n := app.requests.Load(); n != c.want || f.retries.Load() != n-1 {
			t.Errorf("%s %q with retries: %d and %d targets was sent %d times, want %d; %d were counted",
				c.method, c.body, c.retries, c.targets, n, c.want, f.retries.Load())
		}
	}
}

// A POST with an Idempotency-Key is not repeated, nor is a request after a byte of
// the answer, or after the time limit.
func TestNoRetry(t *testing.T) {
	t.Parallel()
	hang := hangingUp(t)
	partial := newApplication(t, func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(conn, "H") // the client may be gone
			conn.Close()
		}
	})
	silent := newApplication(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for name, c := range map[string]struct {
		app    *application
		method string
		limit  time.Duration
	}{
		"a key":                  {hang, "POST", time.Minute},
		"a byte of the answer":   {partial, "GET", time.Minute},
		"no answer in that time": {silent, "GET", 50 * time.Millisecond},
	} {
		f := newFixture(t, c.limit, c.app.URL, c.app.URL+"/b")
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://ignored.invalid", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Opaque = "/"
		r.Header.Set("Idempotency-Key", "x")
		if response, err := f.way.RoundTrip(r); err == nil {
			t.Errorf("after %s: %s", name, response.Status)
		}
		if n := c.app.requests.Load(); n > 1 || n == 0 && c.app != silent { // which may be late
			t.Errorf("after %s: %d requests reached the upstream", name, n)
		}
	}
}

// The retry after the fast path follows the same rules.
func TestRetryAfterFastPath(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]int64{"GET": 1, "POST": 0} {
		hang := false
		bad := newApplication(t, func(w http.ResponseWriter, r *http.Request) {
			if hang {
				panic(http.ErrAbortHandler)
			}
			ok(w, r)
		})
		good := newApplication(t, ok)
		f := newFixture(t, time.Minute, bad.URL, good.URL)
		for range 2 { // each has an idle connection
			if _, err := f.send(t.Context(), "GET", nil); err != nil {
				t.Fatal(err)
			}
		}
		hang = true
		var failures int64
		for range 2 {
			way := f.Transport(0)
			response, rest := way.Start(t.Context(), &http1.Plain{Method: method, Path: "/", Host: "app"})
			if response != nil {
				response.Close()
				continue
			}
			if rest == way {
				t.Fatal("the fast path sends nothing")
			}
			late, err := rest.RoundTrip(&http.Request{
				Method: method, URL: &url.URL{Opaque: "/"}, Host: "app", Header: http.Header{},
			})
			if err != nil {
				failures++
				continue
			}
			late.Body.Close()
		}
		if f.retries.Load() != want || bad.requests.Load() != 2 || failures != 1-want {
			t.Errorf("%s: %d retries, want %d; the bad target got %d requests; %d failed",
				method, f.retries.Load(), want, bad.requests.Load(), failures)
		}
		for _, s := range f.Targets() {
			if s.InFlight != 0 {
				t.Errorf("%s: %d requests are in flight at the end", method, s.InFlight)
			}
		}
	}
}

// Retries add a fifth to the load at most, after a burst.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	var b budget
	spent := 0
	spend := func(n int) {
		for range n {
			b.earn()
			if b.spend() {
				spent++
			}
		}
	}
	spend(1000)
	if least, most := 200, 200+mostRetries+5; spent < least || spent > most {
		t.Errorf("%d retries of 1000 requests, want %d to %d", spent, least, most)
	}
	for range 10_000 {
		b.earn()
	}
	spent = 0
	for range 1000 {
		if b.spend() {
			spent++
		}
	}
	if spent != mostRetries {
		t.Errorf("a burst has %d retries, want %d", spent, mostRetries)
	}
}

// Without a budget, there is no retry.
func TestRetryWithoutBudget(t *testing.T) {
	t.Parallel()
	app := hangingUp(t)
	f := newFixture(t, time.Minute, app.URL, app.URL+"/b")
	for f.budget.spend() {
	}
	if _, err := f.send(t.Context(), "GET", nil); kind(err) != failed || app.requests.Load() != 1 ||
		f.retries.Load() != 0 {
		t.Errorf("%v, %d requests, %d retries", err, app.requests.Load(), f.retries.Load())
	}
}

// A target that accepts connections rests after some failures in a row, and a
// single success in between starts the count again.
func TestStrikes(t *testing.T) {
	t.Parallel()
	target := &target{}
	hangUp := errors.New("hangs up")
	for range 3 {
		for range strikesToRest - 1 {
			if target.failed(1, hangUp) {
				t.Fatal("the target rests too early")
			}
		}
		target.succeeded(1)
	}
	for range strikesToRest - 1 {
		target.failed(1, hangUp)
	}
	if !target.failed(1, hangUp) || target.up(2) || target.class(2) != classResting {
		t.Error("the target does not rest")
	}
	after := 1 + int64(restAfterFailure)
	if target.succeeded(after - 1) {
		t.Error("the answer to an old request ends the rest")
	}
	if target.class(after) != classReady || target.up(after) {
		t.Error("after its rest, the target is not tested")
	}
	if target.failed(after, hangUp) || target.class(after) != classResting {
		t.Error("one failure in a test does not begin another rest, or it is news")
	}
	if after += int64(restAfterFailure); !target.succeeded(after) || !target.up(after) ||
		target.share(after) != leastShare {
		t.Error("after a success the target is not back, with a small share")
	}
}

// A failure that is not the target's does not count against it.
func TestBlames(t *testing.T) {
	t.Parallel()
	timeout := context.DeadlineExceeded
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		length int64
		err    error
		want   bool
	}{
		{"refuses", t.Context(), 0, errNoConnection, true},
		{"refuses, but the client is gone", gone, 0, errNoConnection, false},
		{"late", t.Context(), 0, timeout, true},
		{"late with a small body", t.Context(), 5, timeout, true},
		{"late with a body that the client sends", t.Context(), -1, timeout, false},
		{"malformed", t.Context(), 0, errors.New("malformed"), false},
	} {
		r := &http.Request{ContentLength: c.length}
		if c.length != 0 {
			r.Body = io.NopCloser(strings.NewReader(""))
		}
		if got := blames(r.WithContext(c.ctx), c.err); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// A retry uses a new connection: an idle one may have been closed too.
func TestRetryOnNewConnection(t *testing.T) {
	t.Parallel()
	var used sync.Map // the addresses of connections that served a request
	bad := hangingUp(t)
	picky := newApplication(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, again := used.LoadOrStore(r.RemoteAddr, true); again {
			panic(http.ErrAbortHandler)
		}
	})
	f := newFixture(t, time.Minute, bad.URL, picky.URL)
	f.targets[1].resting.Store(int64(f.elapsed() + time.Minute)) // so that it gets retries alone
	for i := range strikesToRest {
		if _, err := f.send(t.Context(), "GET", nil); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if n := f.retries.Load(); n != strikesToRest {
		t.Errorf("%d retries, want %d", n, strikesToRest)
	}
}
