package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/proxy/upstream/http1"
)

// inMemory is an application behind pipes, for synctest.
type inMemory struct {
	answer  atomic.Pointer[string] // nil: it refuses connections; "": it never answers
	checked atomic.Int64
	last    atomic.Pointer[http.Request]
}

func (m *inMemory) set(answer string) { m.answer.Store(&answer) }

func (m *inMemory) dial(context.Context, string) (net.Conn, error) {
	answer := m.answer.Load()
	m.checked.Add(1)
	if answer == nil {
		return nil, errNoConnection
	}
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		r, err := http.ReadRequest(bufio.NewReader(there))
		if err != nil {
			return
		}
		m.last.Store(r)
		if *answer == "" {
			_, _ = io.Copy(io.Discard, there) // until the check gives up
			return
		}
		_, _ = io.WriteString(there, *answer) // the check may have given up
	}()
	return here, nil
}

const (
	healthy   = "HTTP/1.1 204 No Content\r\n\r\n"
	tooLow    = "HTTP/1.1 203 Transformed\r\nContent-Length: 0\r\n\r\n"
	unhealthy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
)

// The state of a target follows its checks: it is unhealthy after so many failures
// in a row, and healthy after one success.
func TestActiveChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := &inMemory{}
		app.set(healthy)
		f := newFixtureOf(t, func(c *forwarding.Upstream) {
			c.Health = forwarding.Health{
				Path: "/healthz?full", Interval: 10 * time.Second, Timeout: 2 * time.Second,
				Status: "204-399", From: 204, To: 399, Failures: 2,
			}
			c.Host = "app.internal"
		}, "http://a.invalid/base", "http://b.invalid")
		f.now = time.Now
		f.started = time.Now()
		way := newTransport(f.config, f.config.Health.Timeout, new(http1.Strays), func() {})
		way.plain = http1.New(http1.Options{Dial: app.dial, Timeout: time.Minute, NoReuse: true})
		f.watchBy(way)
		up := func() bool { return f.Targets()[0].Up }
		step := func(answer string, wantUp bool, why string) {
			t.Helper()
			if answer != "" {
				app.set(answer)
			}
			time.Sleep(10 * time.Second) // moves the clock of the bubble
			synctest.Wait()
			if up() != wantUp {
				t.Errorf("%s: up is %t", why, !wantUp)
			}
		}
		synctest.Wait()
		if n := app.checked.Load(); n != 2 {
			t.Fatalf("%d checks at the start, want one of each target", n)
		}
		step(unhealthy, true, "after one failure")
		step(healthy, true, "a success starts the count again")
		step(tooLow, true, "after one failure again")
		step(unhealthy, false, "after two")
		if f.order(t.Context(), nil, 0)[0].class != classSick {
			t.Error("without a healthy target, there is none to try")
		}
		step(healthy, true, "after one success")
		if got := f.targets[0].share(int64(f.elapsed())); got > leastShare {
			t.Errorf("the share of a target that is back is %v", got)
		}
		app.answer.Store(nil)
		step("", true, "refused once")
		step("", false, "refused twice")
		empty := ""
		app.answer.Store(&empty)
		step(healthy, true, "back again")
		app.answer.Store(&empty)
		time.Sleep(13 * time.Second)
		before := f.unhealthy.Load()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if f.unhealthy.Load() != before+2 || up() {
			t.Errorf("without answers: %d failures in 10s, up is %t", f.unhealthy.Load()-before, up())
		}
		for _, want := range []string{
			"a target of an upstream is unhealthy", "the status is 503, not in 204-399",
			"healthy again", "target=http://b.invalid",
		} {
			if !strings.Contains(f.log.String(), want) {
				t.Errorf("the log does not have %q:\n%s", want, f.log)
			}
		}
		if r := app.last.Load(); r.Host != "app.internal" || !strings.HasSuffix(r.RequestURI, "/healthz?full") || !r.Close {
			t.Errorf("a check asks %s for %s, close is %t", r.Host, r.RequestURI, r.Close)
		}
		f.Close()
		n := app.checked.Load()
		time.Sleep(time.Minute)
		if app.checked.Load() != n {
			t.Error("checks go on after Close")
		}
	})
}

// If no target is well, a request still tries them, and gets an answer if there is
// one.
func TestAllUnhealthy(t *testing.T) {
	t.Parallel()
	a := newApplication(t, ok)
	f := newFixture(t, time.Minute, refusing, a.URL)
	for _, target := range f.targets {
		target.sick.Store(true)
	}
	for range 4 {
		if _, err := f.send(t.Context(), "POST", nil); err != nil {
			t.Error(err)
		}
	}
	if a.requests.Load() != 4 {
		t.Errorf("%d requests reached the target that answers", a.requests.Load())
	}
	a.Close()
	if _, err := f.send(t.Context(), "GET", nil); kind(err) != failed {
		t.Errorf("with no target that answers: %v", err)
	}
}

// All attempts begin within the time limit.
func TestAttemptsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 30*time.Second, "http://a.invalid", "http://b.invalid")
		a := attempts{way: f.Transport(0), request: &http.Request{Method: "GET"}, start: time.Now()}
		if !a.more(f.targets[0], errNoConnection, 1) {
			t.Error("no other target is tried")
		}
		time.Sleep(30 * time.Second)
		if a.more(f.targets[0], errNoConnection, 1) {
			t.Error("another target is tried after the time limit")
		}
		if a.more(f.targets[0], errors.New("x"), 1) {
			t.Error("another target is tried after any error")
		}
	})
}
