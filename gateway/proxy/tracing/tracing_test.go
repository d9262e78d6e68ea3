package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"authgate/gateway/config"
	"authgate/internal/test/logtest"
)

// fakeCollector is what a Tracer sends spans to.
type fakeCollector struct {
	mu     sync.Mutex
	export func(context.Context) error // nil: it takes them
	got    int
}

func (c *fakeCollector) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	c.mu.Lock()
	export := c.export
	c.mu.Unlock()
	if export != nil {
		if err := export(ctx); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got += len(spans)
	return nil
}

func (c *fakeCollector) Shutdown(context.Context) error { return nil }

// set changes what the collector does.
func (c *fakeCollector) set(export func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.export = export
}

// bench is a Tracer with everything around it.
type bench struct {
	*Tracer
	t      *testing.T
	log    logtest.Buffer
	mu     sync.Mutex
	counts map[string]int
}

func newBench(t *testing.T, c *fakeCollector) *bench {
	t.Helper()
	b := &bench{t: t, counts: map[string]int{}}
	var err error
	b.Tracer, err = start(Options{
		Config: config.Tracing{Endpoint: "http://collector.example", Sample: 1, ServiceName: "authgate"}, Version: "test",
		Logger: slog.New(slog.NewJSONHandler(&b.log, nil)),
		Count: func(result string, spans int) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.counts[result] += spans
		},
	}, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// requests traces requests of one span.
func (b *bench) requests(n int) {
	for range n {
		b.Begin(http.Header{}, false).End(&Request{Method: "GET"})
	}
}

// counted fails the test unless so many spans are counted.
func (b *bench) counted(result string, want int) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.counts[result]; got != want {
		b.t.Errorf("%d spans are %s, want %d", got, result, want)
	}
}

// While the collector hangs, spans wait up to a bound, and those beyond it are
// dropped and counted. No request waits. Close waits for a second.
func TestHangingCollector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCollector{}
		c.set(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		b := newBench(t, c)
		began := time.Now()
		b.requests(maxPending + 100)
		if took := time.Since(began); took != 0 {
			t.Errorf("the requests took %v", took)
		}
		b.counted(Dropped, 100)
		began = time.Now()
		if err := b.Close(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Hour) // for the attempts that go on
		b.counted(Failed, maxPending)
	})
}

// A failure of the collector is logged once, and so is its end.
func TestFailingCollector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCollector{}
		b := newBench(t, c)
		fail := func(context.Context) error { return errors.New(strings.Repeat("long", 1000)) }
		for _, now := range []func(context.Context) error{fail, fail, nil, nil, fail} {
			c.set(now)
			b.requests(10)
			time.Sleep(time.Minute)
		}
		b.counted(Failed, 30)
		b.counted(Exported, 20)
		if err := b.Close(); err != nil || c.got != 20 {
			t.Errorf("Close: %v; the collector got %d spans", err, c.got)
		}
		text := b.log.String()
		if strings.Count(text, "does not take traces") != 2 || strings.Count(text, "takes traces again") != 1 ||
			len(text) > 4000 {
			t.Errorf("the log has\n%s", text)
		}
	})
}

// Spans that were sent do not count against the bound any more.
func TestPendingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &fakeCollector{})
		for range 3 {
			b.requests(maxPending)
			time.Sleep(time.Minute)
		}
		b.counted(Dropped, 0)
		b.counted(Exported, 3*maxPending)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Without a collector there is no Tracer, and what is nil does nothing.
func TestOff(t *testing.T) {
	t.Parallel()
	off, err := New(Options{Config: config.Tracing{Sample: 1, ServiceName: "authgate"}})
	if off != nil || err != nil || !off.Same(config.Tracing{Sample: 0.5}) ||
		off.Same(config.Tracing{Endpoint: "http://a"}) || off.Close() != nil {
		t.Errorf("%v, %v", off, err)
	}
	trace := off.Begin(http.Header{Parent: {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}, true)
	trace.Send("app", "GET")
	trace.SentTo("http", "a", "/")
	trace.Answered(500)
	trace.Done(errors.New("x"))
	trace.Step(StepDecide).End("allow", "")
	trace.End(&Request{})
	if parent, state := trace.Fields(); trace != nil || trace.ID() != "" || trace.Recorded() ||
		parent != "" || state != "" {
		t.Errorf("%+v", trace)
	}
}

func TestVersionOf(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string]string{"HTTP/1.0": "1.0", "HTTP/1.1": "1.1", "HTTP/2.0": "2", "HTTP/3.0": "3"} {
		if got := versionOf(protocol); got != want {
			t.Errorf("%s: %s, want %s", protocol, got, want)
		}
	}
}
