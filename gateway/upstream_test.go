package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config"
)

// refusing is an address at which nobody listens.
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

func ok(http.ResponseWriter, *http.Request) {}

// fixture is an upstream at urls, with its clock and its metric.
type fixture struct {
	*upstream
	way   http.RoundTripper // with the upstream's own time limit
	clock *clock
	took  prometheus.Collector
}

func newFixture(t testing.TB, timeout time.Duration, urls ...string) *fixture {
	t.Helper()
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took"})
	f := &fixture{clock: newClock(), took: took}
	addresses := make([]*url.URL, len(urls))
	for i, raw := range urls {
		var err error
		if addresses[i], err = url.Parse(raw); err != nil {
			t.Fatal(err)
		}
	}
	f.upstream = newUpstream("app", config.Upstream{URLs: addresses, Timeout: timeout, ConnectTimeout: time.Second, ReuseConnections: true}, nil, took, f.clock.now, func() {})
	t.Cleanup(f.close)
	f.way = f.through(0)
	return f
}

// send sends a request as the proxy does and returns the body of the answer.
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

// resting tells which targets are passed over.
func (f *fixture) resting() []bool {
	var all []bool
	for _, t := range f.targets {
		all = append(all, t.resting.Load() > int64(f.upstream.elapsed()))
	}
	return all
}

func TestBalancerIsFair(t *testing.T) {
	t.Parallel()
	apps := []*application{newApplication(t, ok), newApplication(t, ok), newApplication(t, ok)}
	f := newFixture(t, time.Minute, apps[0].URL, apps[1].URL, apps[2].URL)
	const each, clients = 10, 3
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				if _, err := f.send(t.Context(), "GET", nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i, a := range apps {
		if n := a.requests.Load(); n != each*clients/3 {
			t.Errorf("target %d got %d requests of %d", i, n, each*clients)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.took)
	if n := sample(t, registry, "took"); n != each*clients {
		t.Errorf("%v durations were observed of %d requests", n, each*clients)
	}
}

// A target that refuses connections is passed over for five seconds, and
// nobody notices.
func TestBalancerRest(t *testing.T) {
	t.Parallel()
	a := newApplication(t, ok)
	f := newFixture(t, time.Minute, refusing, a.URL, refusing)
	sendAll := func(n int) {
		t.Helper()
		for range n {
			if _, err := f.send(t.Context(), "GET", nil); err != nil {
				t.Fatalf("a request fails although one target answers: %v", err)
			}
		}
	}
	sendAll(6)
	if got := f.resting(); !slices.Equal(got, []bool{true, false, true}) {
		t.Fatalf("resting: %t", got)
	}
	until := f.targets[0].resting.Load()
	f.clock.advance(restAfterFailure - time.Nanosecond)
	sendAll(6)
	if f.targets[0].resting.Load() != until {
		t.Error("a target is asked while it rests")
	}
	f.clock.advance(time.Nanosecond)
	if got := f.resting(); slices.Contains(got, true) {
		t.Fatalf("still resting after %v: %t", restAfterFailure, got)
	}
	sendAll(3)
	if got := f.resting(); !slices.Equal(got, []bool{true, false, true}) {
		t.Errorf("after the rest targets are not asked again: %t", got)
	}
	if n := a.requests.Load(); n != 15 {
		t.Errorf("the target that answers got %d requests, want 15", n)
	}
}

// Where all rest, all are tried: one may be back.
func TestBalancerAllRest(t *testing.T) {
	t.Parallel()
	a := newApplication(t, ok)
	f := newFixture(t, time.Minute, refusing, a.URL)
	for _, target := range f.targets {
		target.resting.Store(int64(f.upstream.elapsed() + time.Hour))
	}
	for range 4 {
		if _, err := f.send(t.Context(), "GET", nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBalancerKeepsBody(t *testing.T) {
	t.Parallel()
	a := newApplication(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.RequestURI, " ", r.ContentLength, " ", string(body), err)
	})
	for name, body := range map[string]struct {
		make func() io.Reader
		want string
	}{
		"with a length":    {func() io.Reader { return strings.NewReader("abc") }, "/a%20b?c=%zz 3 abc<nil>"},
		"without a length": {func() io.Reader { return io.MultiReader(strings.NewReader("abc")) }, "/a%20b?c=%zz -1 abc<nil>"},
		"without a body":   {func() io.Reader { return nil }, "/a%20b?c=%zz 0 <nil>"},
	} {
		f := newFixture(t, time.Minute, refusing, refusing, a.URL)
		for range 3 {
			f.clock.advance(2 * restAfterFailure)
			got, err := f.send(t.Context(), "POST", body.make())
			if err != nil || got != body.want {
				t.Errorf("%s: the last target got %q, %v; want %q", name, got, err, body.want)
			}
		}
	}
}

// Once a target has been sent something, no other one gets the request too.
func TestBalancerDoesNotRepeat(t *testing.T) {
	t.Parallel()
	hangUp := newApplication(t, func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	})
	other := newApplication(t, ok)
	for _, method := range []string{"GET", "POST"} {
		f := newFixture(t, time.Minute, other.URL, hangUp.URL) // the second has the first turn
		before := hangUp.requests.Load()
		_, err := f.send(t.Context(), method, strings.NewReader("abc"))
		if status := toHTTP(err).status; status != 502 {
			t.Errorf("%s: %d (%v), want 502", method, status, err)
		}
		if hangUp.requests.Load() != before+1 || other.requests.Load() != 0 {
			t.Errorf("%s: asked %d times, and another target %d times", method, hangUp.requests.Load()-before, other.requests.Load())
		}
		if slices.Contains(f.resting(), true) {
			t.Errorf("%s: a target that took the connection rests", method)
		}
	}
}

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
	garbage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { garbage.Close() })
	go func() {
		for {
			conn, err := garbage.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "220 mail.example ESMTP\r\n") // the client may be gone
			conn.Close()
		}
	}()
	odd := newApplication(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 042 What\r\nContent-Length: 0\r\n\r\n") // the client may be gone
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		urls   []string
		status int
		rests  bool
	}{
		{"refuses", t.Context(), []string{refusing}, 502, true},
		{"all refuse", t.Context(), []string{refusing, "http://127.0.0.1:2"}, 502, true},
		{"no such host", t.Context(), []string{"http://nowhere.invalid"}, 502, true},
		{"speaks another protocol", t.Context(), []string{"http://" + garbage.Addr().String()}, 502, false},
		{"answers with a status that there is not", t.Context(), []string{odd.URL}, 502, false},
		{"speaks no TLS", t.Context(), []string{"https://" + garbage.Addr().String()}, 502, false},
		{"does not answer in time", t.Context(), []string{silent.URL}, 504, false},
		{"the client is gone", canceled, []string{silent.URL}, 499, false},
		{"the client is gone, and so is the upstream", canceled, []string{refusing, refusing}, 499, false},
	} {
		f := newFixture(t, 50*time.Millisecond, c.urls...)
		_, err := f.send(c.ctx, "GET", nil)
		var failed *upstreamError
		if !errors.As(err, &failed) || failed.upstream != "app" {
			t.Errorf("%s: %v is no *upstreamError of app", c.name, err)
			continue
		}
		if got := toHTTP(err).status; got != c.status {
			t.Errorf("%s: %d (%v), want %d", c.name, got, err, c.status)
		}
		if got := slices.Contains(f.resting(), true); got != c.rests {
			t.Errorf("%s: a target rests: %t", c.name, got)
		}
	}
}

// A time limit belongs to a transport; routes with the same one share it, and
// its warm connections.
func TestUpstreamTransports(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 30*time.Second, refusing)
	through := func(timeout time.Duration) *transport { return f.through(timeout).(*balancer).transport.(*transport) }
	if through(0) != through(30*time.Second) {
		t.Error("equal limits have two transports")
	}
	if first, second := through(time.Second), through(time.Second); first != second {
		t.Error("equal limits have two transports")
	}
	if through(0) == through(time.Second) {
		t.Error("two limits have one transport")
	}
	if got := through(time.Second).http2.ResponseHeaderTimeout; got != time.Second {
		t.Errorf("the limit is %v", got)
	}
}

// Who stops reading fails like one who does not answer; who reads slowly, but
// reads, does not.
func TestStallGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		guard := &stallGuard{Conn: here, limit: 30 * time.Second}
		chunk := make([]byte, socketBuffer+1)
		go func() {
			buf := make([]byte, len(chunk))
			for range 5 {
				time.Sleep(20 * time.Second) // moves the clock of the bubble
				if _, err := io.ReadFull(there, buf); err != nil {
					t.Error(err)
				}
			}
			// It answers, waits for longer than the limit, and reads on.
			if _, err := there.Write([]byte("y")); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			if _, err := io.ReadFull(there, buf[:1]); err != nil {
				t.Error(err)
			}
		}()
		for range 5 {
			if _, err := guard.Write(chunk); err != nil {
				t.Fatalf("a slow reader: %v", err)
			}
		}
		if _, err := guard.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Write([]byte("x")); err != nil {
			t.Fatalf("a small request after an answer: %v", err)
		}
		start := time.Now()
		_, err := guard.Write(chunk)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("nobody reads: %v, want a timeout", err)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
		if status := toHTTP(&upstreamError{"app", err}).status; status != 504 {
			t.Errorf("the answer is %d", status)
		}
		here.Close()
		if _, err := guard.Write([]byte("x")); err == nil {
			t.Error("a closed connection takes more")
		}
	})
}

// endless is a body without end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// The same over a real connection: 504 at the timeout.
func TestStalledUpload(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, reads nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	f := newFixture(t, 100*time.Millisecond, "http://"+listener.Addr().String())
	_, err = f.send(t.Context(), "POST", endless{})
	if got := toHTTP(err).status; got != 504 {
		t.Errorf("%d (%v), want 504", got, err)
	}
}

// Idle connections to all upstreams give way to one that is needed. Where that
// does not help, the target is not to blame, and does not rest.
func TestUpstreamWithoutDescriptors(t *testing.T) {
	t.Parallel()
	app := newApplication(t, ok)
	for _, c := range []struct{ without, freed, status int }{{1, 1, 200}, {2, 1, 502}} {
		f := newFixture(t, time.Minute, app.URL)
		left, freed := c.without, 0
		f.short = func() { freed++ }
		f.transports = map[time.Duration]*transport{}
		f.way = f.through(time.Minute)
		f.transports[time.Minute].dialer.Control = func(string, string, syscall.RawConn) error {
			if left--; left >= 0 {
				return os.NewSyscallError("socket", syscall.EMFILE)
			}
			return nil
		}
		_, err := f.send(t.Context(), "GET", nil)
		status := 200
		if err != nil {
			status = toHTTP(err).status
		}
		if status != c.status || freed != c.freed || f.targets[0].resting.Load() != 0 {
			t.Errorf("%d failures: %d (%v), freed %d times, rests until %d", c.without, status, err, freed, f.targets[0].resting.Load())
		}
	}
}
