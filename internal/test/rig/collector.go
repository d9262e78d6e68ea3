package rig

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes OTLP over HTTP.
type Collector struct {
	*httptest.Server
	sync.Mutex
	t       testing.TB
	Spans   []*spans.Span
	Service map[string]string
	Serve   func(http.ResponseWriter) // nil: it takes the spans
}

// NewCollector starts a collector.
func NewCollector(t testing.TB) *Collector {
	c := &Collector{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP takes spans.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.Lock()
	defer c.Unlock()
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" ||
		proto.Unmarshal(body, &request) != nil {
		c.t.Errorf("the collector got %s %s %v, %v", r.Method, r.URL, r.Header, err)
	}
	if c.Serve != nil {
		c.Serve(w)
		return
	}
	for _, resource := range request.ResourceSpans {
		c.Service = AttributesOf(resource.Resource.Attributes)
		for _, scope := range resource.ScopeSpans {
			c.Spans = append(c.Spans, scope.Spans...)
		}
	}
}

// AttributesOf returns attributes by their names, statuses in words.
func AttributesOf(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, kv := range list {
		value := kv.Value.GetStringValue()
		if number, ok := kv.Value.Value.(*common.AnyValue_IntValue); ok {
			value = http.StatusText(int(number.IntValue))
		}
		all[kv.Key] = value
	}
	return all
}

// Named returns the only span with a name and a kind.
func Named(t testing.TB, all []*spans.Span, name string, kind spans.Span_SpanKind) *spans.Span {
	t.Helper()
	var found []*spans.Span
	for _, s := range all {
		if s.Name == name && s.Kind == kind {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d spans %s %v, want 1: %v", len(found), name, kind, all)
	}
	return found[0]
}

// WantAttributes fails the test unless a span has attributes with these values.
func WantAttributes(t testing.TB, s *spans.Span, pairs ...string) {
	t.Helper()
	got := AttributesOf(s.Attributes)
	for i := 0; i < len(pairs); i += 2 {
		if got[pairs[i]] != pairs[i+1] {
			t.Errorf("the span %s has %s: %q, want %q; it has %v", s.Name, pairs[i], got[pairs[i]], pairs[i+1], got)
		}
	}
}

// HexOf returns an id of a span as headers have it.
func HexOf(b []byte) string { return hex.EncodeToString(b) }

// ParentForm is the form of the header traceparent: the trace, the span, and whether it is recorded.
var ParentForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])$`)
