package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	ownrig "authgate/internal/test/rig"
)

// traced returns a rig that sends traces to a collector, and a function that ends it
// and returns the spans that the collector got.
func traced(t *testing.T, section string) (*rig, *ownrig.Collector, func() []*spans.Span) {
	t.Helper()
	c := ownrig.NewCollector(t)
	r := newRig(t, baseConfig+"listen: {trusted_proxies: [198.51.100.0/24]}\n"+strings.Replace(section, "URL", c.URL, 1))
	return r, c, func() []*spans.Span {
		r.Close()
		c.Lock()
		defer c.Unlock()
		return c.Spans
	}
}

const traceAll = "tracing: {endpoint: \"URL\", service_name: gate}\n"

const (
	server = spans.Span_SPAN_KIND_SERVER
	client = spans.Span_SPAN_KIND_CLIENT
	inside = spans.Span_SPAN_KIND_INTERNAL
)

// A request that is let through has four spans, which are those of the server, of
// the two steps and of the client. The upstream learns of the last one, the log of
// the trace.
func TestTraceOfAnAllowedRequest(t *testing.T) {
	t.Parallel()
	r, c, end := traced(t, traceAll)
	in := r.login(aliceIn)
	r.want(200, "GET", "/admin/page?token=hush", "", in.cookie, "X-Request-Id: one",
		"Traceparent: 00-11111111111111111111111111111111-2222222222222222-01", "Tracestate: theirs=1")
	parent := ownrig.ParentForm.FindStringSubmatch(r.upstream.Last().Header.Get("Traceparent"))
	if parent == nil || parent[3] != "01" || r.upstream.Last().Header["Tracestate"] != nil ||
		strings.HasPrefix(parent[1], "1111") {
		t.Errorf("the upstream got %v", r.upstream.Last().Header)
	}
	all := end()
	whole := ownrig.Named(t, all, "GET /admin/", server)
	ownrig.WantAttributes(t, whole, "http.request.method", "GET", "http.route", "/admin/", "url.path", "/admin/page",
		"url.scheme", "https", "server.address", "gw.example", "client.address", "192.0.2.7",
		"network.protocol.version", "1.1", "http.response.status_code", "OK", "authgate.request_id", "one",
		"authgate.route", "admin", "authgate.mechanism", "session", "authgate.decision", "allow")
	ownrig.WantAttributes(t, ownrig.Named(t, all, "authenticate", inside), "authgate.outcome", "session")
	ownrig.WantAttributes(t, ownrig.Named(t, all, "decide", inside), "authgate.outcome", "allow")
	sent := ownrig.Named(t, all, "GET", client)
	ownrig.WantAttributes(t, sent, "http.request.method", "GET", "authgate.upstream", "app",
		"http.response.status_code", "OK")
	if got := ownrig.HexOf(sent.SpanId); got != parent[2] || ownrig.HexOf(sent.TraceId) != parent[1] ||
		len(sent.Events) != 1 {
		t.Errorf("the upstream got %q, the span is %s", parent, got)
	}
	for _, s := range all {
		if s.Name != "POST authgate/login" && s != whole && !slices.Equal(s.ParentSpanId, whole.SpanId) {
			t.Errorf("the span %s does not belong to the request", s.Name)
		}
		if text := s.String(); strings.Contains(text, "hush") || strings.Contains(text, "alice") ||
			strings.Contains(text, strings.TrimPrefix(in.cookie, "Cookie: session_id=")) {
			t.Errorf("a span has what it must not have: %s", text)
		}
	}
	if c.Service["service.name"] != "gate" || c.Service["service.version"] != "test" {
		t.Errorf("the service is %v", c.Service)
	}
	lines := r.log.Records(t, "request")
	if got := lines[len(lines)-1]["trace_id"]; got != parent[1] {
		t.Errorf("the log has the trace %v, want %s", got, parent[1])
	}
	if got := r.sample("authgate_tracing_spans_total", "result=exported"); got != 5 {
		t.Errorf("%v spans were exported, want 5", got)
	}
}

// A refused request has no span of an upstream, and one whose upstream does not
// answer says so.
func TestTraceOfRefusedRequests(t *testing.T) {
	t.Parallel()
	r, _, end := traced(t, traceAll)
	bob := r.login(bobIn)
	r.want(403, "GET", "/admin/", "", bob.cookie)
	r.want(401, "GET", "/session/", "", "Cookie: session_id=wrong")
	r.upstream.Answer = func(*http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded }
	if w := r.do("POST", "/public/", ""); w.Code != 504 {
		t.Errorf("%d", w.Code)
	}
	r.want(400, "BREW", "/public/%00?secret", "")
	all := end()
	forbidden := ownrig.Named(t, all, "GET /admin/", server)
	ownrig.WantAttributes(t, forbidden, "http.response.status_code", "Forbidden", "authgate.decision", "forbid",
		"error.type", "")
	refused := ownrig.Named(t, all, "GET /session/", server)
	ownrig.WantAttributes(t, refused, "http.response.status_code", "Unauthorized", "authgate.decision", "challenge")
	late := ownrig.Named(t, all, "POST /public/", server)
	ownrig.WantAttributes(t, late, "http.response.status_code", "Gateway Timeout", "error.type", "504")
	sent := ownrig.Named(t, all, "POST", client)
	ownrig.WantAttributes(t, sent, "error.type", "timeout")
	ownrig.WantAttributes(t, ownrig.Named(t, all, "HTTP", server),
		"http.request.method", "_OTHER", "url.path", "/public/%00", "http.route", "")
	for s, code := range map[*spans.Span]spans.Status_StatusCode{
		forbidden: spans.Status_STATUS_CODE_UNSET, refused: spans.Status_STATUS_CODE_UNSET,
		late: spans.Status_STATUS_CODE_ERROR, sent: spans.Status_STATUS_CODE_ERROR,
	} {
		if s.Status.GetCode() != code {
			t.Errorf("the span %s has the status %v", s.Name, s.Status)
		}
	}
	var outcomes []string
	for _, s := range all {
		if s.Name == "authenticate" && slices.Equal(s.ParentSpanId, refused.SpanId) {
			outcomes = append(outcomes, ownrig.AttributesOf(s.Attributes)["authgate.outcome"])
		}
	}
	if !slices.Equal(outcomes, []string{"rejected"}) {
		t.Errorf("the refused request has the outcomes %v", outcomes)
	}
}

// Reload changes the collector, and keeps it if nothing changes.
func TestTraceReload(t *testing.T) {
	t.Parallel()
	r, first, end := traced(t, traceAll)
	second := ownrig.NewCollector(t)
	before := r.state.Load().tracer
	with := baseConfig + "listen: {trusted_proxies: [198.51.100.0/24]}\n" + strings.Replace(traceAll, "URL", first.URL, 1)
	r.mustReload(with)
	if r.state.Load().tracer != before {
		t.Error("a reload without a change replaces the tracer")
	}
	r.mustReload(strings.Replace(with, first.URL, second.URL, 1))
	r.want(200, "GET", "/public/", "")
	if before.Close() != nil || len(end()) != 0 || len(second.Spans) != 4 {
		t.Errorf("the collectors got %d and %d spans", len(first.Spans), len(second.Spans))
	}
}

// Some time after a reload, when its requests have ended, the tracer that it replaced
// is closed. Otherwise its goroutine outlives the test, which ends it with a panic.
func TestTraceReloadClosesTheOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, baseConfig+"tracing: {endpoint: \"http://collector.invalid\"}\n")
		r.mustReload(baseConfig)
		if r.state.Load().tracer != nil {
			t.Error("the tracer stays")
		}
		time.Sleep(2 * closeAfter)
	})
}
