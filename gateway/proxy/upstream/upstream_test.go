package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config/forwarding"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/logtest"
)

// refusing is an address that refuses connections.
const refusing = "http://127.0.0.1:1"

// application is an upstream over a real connection, which counts.
type application struct {
	*httptest.Server
	requests atomic.Int64
}

func newApplication(t testing.TB, serve http.HandlerFunc) *application {
	t.Helper()
	a := &application{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.requests.Add(1)
		serve(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// ok answers with a body, so that the connection does not rest.
func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// Kinds of errors, as the gateway answers them.
const (
	failed   = "502"
	late     = "504"
	canceled = "499"
)

// kind returns the kind of an error of RoundTrip, which must be an *Error of app.
func kind(err error) string {
	var marked *Error
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &marked) || marked.Upstream != "app":
		return "not an *Error of app: " + err.Error()
	case errors.Is(err, context.Canceled):
		return canceled
	case errors.As(err, &timeout) && timeout.Timeout():
		return late
	}
	return failed
}

// fixture is an upstream with its clock and its metric.
type fixture struct {
	*Upstream
	way   http.RoundTripper // with the upstream's own time limit
	clock *clocktest.Clock
	took  atomic.Int64 // how many durations were observed
	log   *logtest.Buffer

	retries, healthy, unhealthy atomic.Int64
}

func (f *fixture) Retried() { f.retries.Add(1) }

func (f *fixture) Checked(healthy bool) {
	if healthy {
		f.healthy.Add(1)
	} else {
		f.unhealthy.Add(1)
	}
}

func newFixture(t testing.TB, timeout time.Duration, urls ...string) *fixture {
	t.Helper()
	return newFixtureOf(t, func(c *forwarding.Upstream) { c.Timeout = timeout }, urls...)
}

// newFixtureOf returns a fixture whose configuration edit has changed.
func newFixtureOf(t testing.TB, edit func(*forwarding.Upstream), urls ...string) *fixture {
	t.Helper()
	f := &fixture{clock: clocktest.New(), log: &logtest.Buffer{}}
	cfg := forwarding.Upstream{
		Timeout: time.Minute, ConnectTimeout: time.Minute, ReuseConnections: true,
		Balance: forwarding.BalanceRoundRobin, Host: forwarding.HostClient, Retries: 1,
	}
	for _, raw := range urls {
		address, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		cfg.URLs = append(cfg.URLs, address)
	}
	edit(&cfg)
	f.Upstream = New(Options{
		Name: "app", Config: cfg, Metrics: f, Logger: slog.New(slog.NewTextHandler(f.log, nil)),
		Took: prometheus.ObserverFunc(func(float64) { f.took.Add(1) }), Now: f.clock.Now, FreeDescriptors: func() {},
	})
	t.Cleanup(f.Close)
	f.way = f.Transport(0)
	return f
}

// send sends a request as the proxy does, and returns the body of the response.
func (f *fixture) send(ctx context.Context, method string, body io.Reader) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://ignored.invalid", body)
	if err != nil {
		return "", err
	}
	r.URL = &url.URL{Opaque: "/a%20b", RawQuery: "c=%zz"}
	response, err := f.way.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return string(answer), err
}

// resting returns which targets rest.
func (f *fixture) resting() []bool {
	var all []bool
	for _, t := range f.targets {
		all = append(all, t.resting.Load() > int64(f.elapsed()))
	}
	return all
}

func TestBalancerIsFair(t *testing.T) {
	t.Parallel()
	apps := []*application{newApplication(t, ok), newApplication(t, ok), newApplication(t, ok)}
	f := newFixture(t, time.Minute, apps[0].URL, apps[1].URL, apps[2].URL)
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if _, err := f.send(t.Context(), "GET", nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, a := range apps {
		if n := a.requests.Load(); n != 10 {
			t.Errorf("target %d got %d requests of 30", i, n)
		}
	}
	if n := f.took.Load(); n != 30 {
		t.Errorf("%d durations were observed of 30 requests", n)
	}
}

// A target that refuses connections gets no request for five seconds. No request
// fails, not even if all targets rest: then all are tried.
func TestBalancerRest(t *testing.T) {
	t.Parallel()
	a := newApplication(t, ok)
	f := newFixture(t, time.Minute, refusing, a.URL, refusing)
	sendAll := func(n int, resting ...bool) {
		t.Helper()
		for range n {
			if _, err := f.send(t.Context(), "GET", nil); err != nil {
				t.Fatalf("a request fails although one target answers: %v", err)
			}
		}
		if got := f.resting(); !slices.Equal(got, resting) {
			t.Fatalf("resting: %t, want %t", got, resting)
		}
	}
	sendAll(6, true, false, true)
	until := f.targets[0].resting.Load()
	f.clock.Advance(restAfterFailure - time.Nanosecond)
	sendAll(6, true, false, true)
	if f.targets[0].resting.Load() != until {
		t.Error("a resting target gets a request")
	}
	f.clock.Advance(time.Nanosecond)
	sendAll(0, false, false, false)
	sendAll(3, true, false, true)
	f.targets[1].resting.Store(int64(f.elapsed() + time.Hour))
	sendAll(3, true, true, true)
	if n := a.requests.Load(); n != 18 {
		t.Errorf("the target that answers got %d requests, want 18", n)
	}
}

// Each target that is tried gets the same request.
func TestBalancerKeepsBody(t *testing.T) {
	t.Parallel()
	a := newApplication(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.RequestURI, " ", r.ContentLength, " ", string(body), err)
	})
	for want, body := range map[string]func() io.Reader{
		"/a%20b?c=%zz 3 abc<nil>":  func() io.Reader { return strings.NewReader("abc") },
		"/a%20b?c=%zz -1 abc<nil>": func() io.Reader { return io.MultiReader(strings.NewReader("abc")) },
		"/a%20b?c=%zz 0 <nil>":     func() io.Reader { return nil },
	} {
		f := newFixture(t, time.Minute, refusing, refusing, a.URL)
		for range 3 {
			f.clock.Advance(2 * restAfterFailure)
			if got, err := f.send(t.Context(), "POST", body()); err != nil || got != want {
				t.Errorf("the last target got %q, %v; want %q", got, err, want)
			}
		}
	}
}

// A target rests only if it does not accept connections. A request that was sent
// to one target is not sent to another.
func TestBalancerErrors(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	silent := newApplication(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	t.Cleanup(func() { close(ended) }) // before the server's own cleanup
	garbage := newApplication(t, func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(conn, "220 mail.example ESMTP\r\n") // the client may be gone
			conn.Close()
		}
	})
	hangUp := newApplication(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	other := newApplication(t, ok)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		urls  []string // the last one has the first turn
		want  string
		rests bool
	}{
		{"refuses", t.Context(), []string{refusing}, failed, true},
		{"all refuse", t.Context(), []string{refusing, "http://127.0.0.1:2"}, failed, true},
		{"no such host", t.Context(), []string{"http://no..host"}, failed, true},
		{"hangs up", t.Context(), []string{other.URL, hangUp.URL}, failed, false},
		{"speaks another protocol", t.Context(), []string{garbage.URL}, failed, false},
		{"speaks no TLS", t.Context(), []string{strings.Replace(garbage.URL, "http", "https", 1)}, failed, false},
		{"does not answer in time", t.Context(), []string{silent.URL}, late, false},
		{"the client is gone", gone, []string{silent.URL}, canceled, false},
		{"the client is gone, and so is the upstream", gone, []string{refusing, refusing}, canceled, false},
	} {
		for _, method := range []string{"GET", "POST"} {
			timeout := time.Minute
			if c.want == late {
				timeout = 50 * time.Millisecond
			}
			f := newFixture(t, timeout, c.urls...)
			_, err := f.send(c.ctx, method, strings.NewReader("abc"))
			if got := kind(err); got != c.want {
				t.Errorf("%s %s: %s (%v), want %s", method, c.name, got, err, c.want)
			}
			if got := slices.Contains(f.resting(), true); got != c.rests {
				t.Errorf("%s %s: a target rests: %t", method, c.name, got)
			}
		}
	}
	if hangUp.requests.Load() != 2 || other.requests.Load() != 0 {
		t.Errorf("the target that hangs up got %d requests, and the other one %d",
			hangUp.requests.Load(), other.requests.Load())
	}
}

// A response with a status that does not exist is an error, and its body is closed.
func TestInvalidStatus(t *testing.T) {
	t.Parallel()
	for status, accepted := range map[int]bool{0: false, 99: false, 100: true, 799: true} {
		body, feed := io.Pipe()
		response, err := valid(&http.Response{StatusCode: status, Body: body}, nil)
		if (err == nil) != accepted {
			t.Errorf("%d: %v", status, err)
		}
		if response != nil {
			response.Body.Close()
		}
		if _, err := feed.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%d: the body is not closed: %v", status, err)
		}
	}
}

// Routes with the same time limit share a transport and its idle connections.
func TestUpstreamTransports(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 30*time.Second, refusing)
	through := func(timeout time.Duration) *transport { return f.Transport(timeout).transport }
	second := through(time.Second)
	if through(0) != through(30*time.Second) || second != through(time.Second) || second == through(0) {
		t.Error("not one transport for each limit")
	}
	if second.limit != time.Second {
		t.Errorf("the limit is %v", second.limit)
	}
}

// Without file descriptors, idle connections are closed and the connection is
// tried once more. The target does not rest if that fails too.
func TestUpstreamWithoutDescriptors(t *testing.T) {
	t.Parallel()
	app := newApplication(t, ok)
	for _, c := range []struct {
		without, freed int
		want           string
	}{{1, 1, ""}, {2, 1, failed}} {
		f := newFixture(t, time.Minute, app.URL)
		left, freed := c.without, 0
		f.freeDescriptors = func() { freed++ }
		f.transports = map[time.Duration]*transport{}
		f.way = f.Transport(time.Minute)
		f.transports[time.Minute].dialer.Control = func(string, string, syscall.RawConn) error {
			if left--; left >= 0 {
				return os.NewSyscallError("socket", syscall.EMFILE)
			}
			return nil
		}
		_, err := f.send(t.Context(), "GET", nil)
		if got := kind(err); got != c.want || freed != c.freed || f.targets[0].resting.Load() != 0 {
			t.Errorf("%d failures: %q (%v), freed %d times, rests until %d",
				c.without, got, err, freed, f.targets[0].resting.Load())
		}
	}
}

// A rest takes as long as it should if the wall clock is set.
func TestUpstreamRestsByElapsedTime(t *testing.T) {
	t.Parallel()
	c := &clocktest.Machine{}
	u := &Upstream{now: c.Now, started: c.Now(), targets: []*target{{}, {}}}
	u.targets[0].resting.Store(int64(u.elapsed() + restAfterFailure))
	first := func() *target { return u.order(t.Context(), nil, 0)[0].target }
	for _, step := range []time.Duration{-5 * time.Hour, 10 * time.Hour} {
		c.Adjust(step)
		if first() != u.targets[1] {
			t.Errorf("set by %v: the target does not rest", step)
		}
	}
	c.Adjust(-24 * time.Hour)
	c.Pass(restAfterFailure)
	if first() != u.targets[0] {
		t.Error("the target rests for too long")
	}
}
