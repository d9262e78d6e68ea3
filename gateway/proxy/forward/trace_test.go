package forward

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"authgate/gateway/config"
	"authgate/gateway/proxy/tracing"
	"authgate/gateway/proxy/upstream/http1"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// trace makes the requests of the rig ones with traces, of which a share is recorded.
func (r *rig) trace(c *ownrig.Collector, sample float64) *tracing.Tracer {
	r.T.Helper()
	r.tracer = must.Get(tracing.New(tracing.Options{
		Config:  config.Tracing{Endpoint: c.URL + "/v1/traces", Sample: sample},
		Version: "test", Logger: slog.New(slog.DiscardHandler), Count: func(string, int) {},
	}))(r.T)
	return r.tracer
}

// Without tracing, the headers of the client reach the upstream as they are. With
// tracing, a route can still remove or set them.
func TestTraceHeaders(t *testing.T) {
	t.Parallel()
	const theirs = "Traceparent: 00-11111111111111111111111111111111-2222222222222222-01"
	r := newStub(t, ownrig.Base)
	r.Want(200, "GET", "/public/", "", theirs, "Tracestate: a=1")
	if h := r.app.Last().Header; h.Get("Traceparent") != strings.TrimPrefix(theirs, "Traceparent: ") ||
		h.Get("Tracestate") != "a=1" {
		t.Errorf("the upstream got %v", h)
	}
	for headers, want := range map[string]string{"remove: [traceparent]": "", "set: {traceparent: own}": "own"} {
		r := newStub(t, ownrig.Edit(t, ownrig.Base, "match: /public/, ", "match: /public/, headers: {"+headers+"}, "))
		defer r.trace(ownrig.NewCollector(t), 0).Close()
		r.Want(200, "GET", "/public/", "", theirs)
		if h := r.app.Last().Header; strings.Join(h["Traceparent"], " ") != want {
			t.Errorf("%s: the upstream got %v", headers, h)
		}
	}
}

// Requests that are not recorded take the fast path, with the header. Those that are
// recorded do not.
func TestTraceFastPath(t *testing.T) {
	t.Parallel()
	for sample, fast := range map[float64]bool{0: true, 1: false} {
		r := newStub(t, ownrig.Base)
		defer r.trace(ownrig.NewCollector(t), sample).Close()
		var fields []string
		r.through(&ownrig.FastUpstream{Upstream: r.app, Begun: func(_ context.Context, p *http1.Plain) {
			for _, f := range p.Fields {
				fields = append(fields, f.Name+": "+f.Value)
			}
		}})
		r.Want(200, "GET", "/public/", "", "Traceparent: theirs")
		got := slices.DeleteFunc(fields,
			func(f string) bool { return !strings.HasPrefix(f, "Traceparent: 00-") || !strings.HasSuffix(f, "-00") })
		if len(got) != map[bool]int{true: 1}[fast] {
			t.Errorf("with the share %v the fast path got %q", sample, fields)
		}
	}
}

// A real upstream is named by the address that got the request.
func TestTraceOfARealUpstream(t *testing.T) {
	t.Parallel()
	got, c := make(chan http.Header, 1), ownrig.NewCollector(t)
	yaml := ownrig.Edit(t, ownrig.Base, `url: "http://app.invalid"`, `url: "http://app.invalid/below"`)
	r := newApplication(t, yaml, func(_ http.ResponseWriter, q *http.Request) { got <- q.Header })
	tracer := r.trace(c, 1)
	if w := r.Do("GET", "/public/x?secret", ""); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	parent, url := (<-got).Get("Traceparent"), r.config.Upstreams["app"].URL
	must.Do(t, tracer.Close())
	c.Lock()
	defer c.Unlock()
	sent := ownrig.Named(t, c.Spans, "GET", spans.Span_SPAN_KIND_CLIENT)
	ownrig.WantAttributes(t, sent, "server.address", url.Hostname(), "url.full", "http://"+url.Host+"/below/public/x")
	if !strings.Contains(parent, ownrig.HexOf(sent.SpanId)) {
		t.Errorf("the upstream got %s", parent)
	}
}
