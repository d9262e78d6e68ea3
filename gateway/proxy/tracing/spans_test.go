package tracing_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"authgate/gateway/config"
	"authgate/gateway/proxy/tracing"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// traced returns a tracer for a collector.
func traced(t *testing.T, log *logtest.Buffer) (*tracing.Tracer, *rig.Collector) {
	t.Helper()
	c := rig.NewCollector(t)
	return must.Get(tracing.New(tracing.Options{
		Config:  config.Tracing{Endpoint: c.URL + "/v1/traces", Sample: 1, ServiceName: "gate"},
		Version: "test", Logger: slog.New(slog.NewJSONHandler(log, nil)), Count: func(string, int) {},
	}))(t), c
}

// The trace of a trusted proxy goes on, and its decision to record holds. The trace of a client does
// not go on.
func TestTraceOfATrustedCaller(t *testing.T) {
	t.Parallel()
	const theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
	tracer, c := traced(t, &logtest.Buffer{})
	// through returns the trace that the upstream gets, and whether it is recorded.
	through := func(trusted bool, header http.Header) (id, span, recorded, state string) {
		t.Helper()
		trace := tracer.Begin(header, trusted)
		trace.Send("app", "GET")
		sent, state := trace.Fields()
		trace.Done(nil)
		trace.End(&tracing.Request{Method: "GET", Status: 200})
		parent := rig.ParentForm.FindStringSubmatch(sent)
		if parent == nil {
			t.Fatalf("the upstream gets %q", sent)
		}
		return parent[1], parent[2], parent[3], state
	}
	header := func(state []string, parents ...string) http.Header {
		return http.Header{"Traceparent": parents, "Tracestate": state}
	}
	const recorded = "00-" + theirs + "-00f067aa0ba902b7-01"
	if id, span, flag, state := through(true, header([]string{"a=1", "b=2"}, recorded)); id != theirs ||
		span == "00f067aa0ba902b7" || flag != "01" || state != "a=1,b=2" {
		t.Errorf("the upstream gets %s %s %s %s", id, span, flag, state)
	}
	silent := strings.TrimSuffix(recorded, "1") + "0"
	if id, _, flag, _ := through(true, header(nil, silent)); id != theirs || flag != "00" {
		t.Errorf("the upstream gets %s %s", id, flag)
	}
	for name, c := range map[string]struct {
		trusted bool
		header  http.Header
	}{
		"a client":              {false, header([]string{"a=1"}, silent)},
		"two parents":           {true, header(nil, recorded, recorded)},
		"what is no parent":     {true, header([]string{"a=1"}, "nonsense")},
		"nothing but the state": {true, header([]string{"a=1"})},
	} {
		if id, _, flag, state := through(c.trusted, c.header); id == theirs || flag != "01" || state != "" {
			t.Errorf("%s: the upstream gets %s %s %s", name, id, flag, state)
		}
	}
	must.Do(t, tracer.Close())
	c.Lock()
	defer c.Unlock()
	servers := 0
	for _, s := range c.Spans {
		if s.Kind == spans.Span_SPAN_KIND_SERVER && rig.HexOf(s.TraceId) == theirs {
			servers++
			if rig.HexOf(s.ParentSpanId) != "00f067aa0ba902b7" {
				t.Errorf("the parent is %x", s.ParentSpanId)
			}
		}
	}
	if servers != 1 || c.Service["service.name"] != "gate" || c.Service["service.version"] != "test" {
		t.Errorf("%d requests of the caller's trace are recorded, want 1, by %v", servers, c.Service)
	}
}

// A collector that refuses spans harms no request. Its failure is logged once.
func TestTraceWithoutACollector(t *testing.T) {
	t.Parallel()
	log := &logtest.Buffer{}
	tracer, c := traced(t, log)
	c.Serve = func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }
	for range 2 {
		tracer.Begin(http.Header{}, false).End(&tracing.Request{Method: "GET", Status: 200})
	}
	_ = tracer.Close() // says that spans were not sent
	if n := strings.Count(log.String(), "does not take traces"); n != 1 {
		t.Errorf("the log has the failure %d times:\n%s", n, log)
	}
}
