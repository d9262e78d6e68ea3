package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"authgate/gateway/proxy/upstream/http1"
	ownrig "authgate/internal/test/rig"
)

// otlpCollector is a collector that takes OTLP over HTTP.
type otlpCollector struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	spans   []*spans.Span
	service map[string]string
	serve   func(http.ResponseWriter) // nil: it takes the spans
}

func newCollector(t *testing.T) *otlpCollector {
	c := &otlpCollector{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP takes spans.
func (c *otlpCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" ||
		proto.Unmarshal(body, &request) != nil {
		c.t.Errorf("the collector got %s %s %v, %v", r.Method, r.URL, r.Header, err)
	}
	if c.serve != nil {
		c.serve(w)
		return
	}
	for _, resource := range request.ResourceSpans {
		c.service = attributesOf(resource.Resource.Attributes)
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

func attributesOf(list []*common.KeyValue) map[string]string {
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

// traced returns a rig that sends traces to a collector, and a function that ends it
// and returns the spans that the collector got.
func traced(t *testing.T, section string) (*rig, *otlpCollector, func() []*spans.Span) {
	t.Helper()
	c := newCollector(t)
	r := newRig(t, baseConfig+"listen: {trusted_proxies: [198.51.100.0/24]}\n"+strings.Replace(section, "URL", c.URL, 1))
	return r, c, func() []*spans.Span {
		r.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.spans
	}
}

const traceAll = "tracing: {endpoint: \"URL\", service_name: gate}\n"

// named returns the only span with a name and a kind.
func named(t *testing.T, all []*spans.Span, name string, kind spans.Span_SpanKind) *spans.Span {
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

// wantAttributes fails the test unless a span has attributes with these values.
func wantAttributes(t *testing.T, s *spans.Span, pairs ...string) {
	t.Helper()
	got := attributesOf(s.Attributes)
	for i := 0; i < len(pairs); i += 2 {
		if got[pairs[i]] != pairs[i+1] {
			t.Errorf("the span %s has %s: %q, want %q; it has %v", s.Name, pairs[i], got[pairs[i]], pairs[i+1], got)
		}
	}
}

const (
	server = spans.Span_SPAN_KIND_SERVER
	client = spans.Span_SPAN_KIND_CLIENT
	inside = spans.Span_SPAN_KIND_INTERNAL
)

var parentForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])$`)

// A request that is let through has four spans, which are those of the server, of
// the two steps and of the client. The upstream learns of the last one, the log of
// the trace.
func TestTraceOfAnAllowedRequest(t *testing.T) {
	t.Parallel()
	r, c, end := traced(t, traceAll)
	in := r.login(aliceIn)
	r.want(200, "GET", "/admin/page?token=hush", "", in.cookie, "X-Request-Id: one",
		"Traceparent: 00-11111111111111111111111111111111-2222222222222222-01", "Tracestate: theirs=1")
	parent := parentForm.FindStringSubmatch(r.upstream.Last().Header.Get("Traceparent"))
	if parent == nil || parent[3] != "01" || r.upstream.Last().Header["Tracestate"] != nil ||
		strings.HasPrefix(parent[1], "1111") {
		t.Errorf("the upstream got %v", r.upstream.Last().Header)
	}
	all := end()
	whole := named(t, all, "GET /admin/", server)
	wantAttributes(t, whole, "http.request.method", "GET", "http.route", "/admin/", "url.path", "/admin/page",
		"url.scheme", "https", "server.address", "gw.example", "client.address", "192.0.2.7",
		"network.protocol.version", "1.1", "http.response.status_code", "OK", "authgate.request_id", "one",
		"authgate.route", "admin", "authgate.mechanism", "session", "authgate.decision", "allow")
	wantAttributes(t, named(t, all, "authenticate", inside), "authgate.outcome", "session")
	wantAttributes(t, named(t, all, "decide", inside), "authgate.outcome", "allow")
	sent := named(t, all, "GET", client)
	wantAttributes(t, sent, "http.request.method", "GET", "authgate.upstream", "app", "http.response.status_code", "OK")
	if got := hexOf(sent.SpanId); got != parent[2] || hexOf(sent.TraceId) != parent[1] || len(sent.Events) != 1 {
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
	if c.service["service.name"] != "gate" || c.service["service.version"] != "test" {
		t.Errorf("the service is %v", c.service)
	}
	lines := r.log.Records(t, "request")
	if got := lines[len(lines)-1]["trace_id"]; got != parent[1] {
		t.Errorf("the log has the trace %v, want %s", got, parent[1])
	}
	if got := r.sample("authgate_tracing_spans_total", "result=exported"); got != 5 {
		t.Errorf("%v spans were exported, want 5", got)
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var text strings.Builder
	for _, c := range b {
		text.WriteString(digits[c>>4:c>>4+1] + digits[c&15:c&15+1])
	}
	return text.String()
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
	forbidden := named(t, all, "GET /admin/", server)
	wantAttributes(t, forbidden, "http.response.status_code", "Forbidden", "authgate.decision", "forbid", "error.type", "")
	refused := named(t, all, "GET /session/", server)
	wantAttributes(t, refused, "http.response.status_code", "Unauthorized", "authgate.decision", "challenge")
	late := named(t, all, "POST /public/", server)
	wantAttributes(t, late, "http.response.status_code", "Gateway Timeout", "error.type", "504")
	sent := named(t, all, "POST", client)
	wantAttributes(t, sent, "error.type", "timeout")
	wantAttributes(t, named(t, all, "HTTP", server),
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
			outcomes = append(outcomes, attributesOf(s.Attributes)["authgate.outcome"])
		}
	}
	if !slices.Equal(outcomes, []string{"rejected"}) {
		t.Errorf("the refused request has the outcomes %v", outcomes)
	}
}

// The trace of a trusted proxy goes on, with its decision what is recorded. That of
// a client does not.
func TestTraceOfATrustedCaller(t *testing.T) {
	t.Parallel()
	const theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
	r, _, end := traced(t, traceAll)
	through := func(address string, header ...string) http.Header {
		q := request("GET", "/public/", "", header...)
		q.RemoteAddr = address
		r.wantOf(200, q)
		return r.upstream.Last().Header
	}
	const proxy, stranger = "198.51.100.4:1", "203.0.113.4:1"
	recorded := through(proxy, "Traceparent: 00-"+theirs+"-00f067aa0ba902b7-01", "Tracestate: a=1", "Tracestate: b=2")
	if parent := parentForm.FindStringSubmatch(recorded.Get("Traceparent")); parent == nil || parent[1] != theirs ||
		parent[2] == "00f067aa0ba902b7" || recorded.Get("Tracestate") != "a=1,b=2" {
		t.Errorf("the upstream got %v", recorded)
	}
	silent := through(proxy, "Traceparent: 00-"+theirs+"-00f067aa0ba902b7-00")
	if parent := parentForm.FindStringSubmatch(silent.Get("Traceparent")); parent == nil ||
		parent[1] != theirs || parent[3] != "00" {
		t.Errorf("the upstream got %v", silent)
	}
	for _, c := range []http.Header{
		through(stranger, "Traceparent: 00-"+theirs+"-00f067aa0ba902b7-00"),
		through(proxy, "Traceparent: 00-"+theirs+"-00f067aa0ba902b7-01", "Traceparent: 00-"+theirs+"-00f067aa0ba902b7-01"),
		through(proxy, "Traceparent: nonsense", "Tracestate: a=1"),
	} {
		if parent := parentForm.FindStringSubmatch(c.Get("Traceparent")); parent == nil || len(c["Traceparent"]) != 1 ||
			parent[1] == theirs || parent[3] != "01" || c["Tracestate"] != nil {
			t.Errorf("the upstream got %v", c)
		}
	}
	servers := 0
	for _, s := range end() {
		if s.Kind == server && hexOf(s.TraceId) == theirs {
			servers++
			if hexOf(s.ParentSpanId) != "00f067aa0ba902b7" {
				t.Errorf("the parent is %x", s.ParentSpanId)
			}
		}
	}
	if servers != 1 {
		t.Errorf("%d requests of the caller's trace are recorded, want 1", servers)
	}
}

// Without tracing, the headers of the client reach the upstream as they are. With
// tracing, a route can still remove or set them.
func TestTraceHeaders(t *testing.T) {
	t.Parallel()
	const theirs = "Traceparent: 00-11111111111111111111111111111111-2222222222222222-01"
	r := newRig(t, baseConfig)
	r.want(200, "GET", "/public/", "", theirs, "Tracestate: a=1")
	if h := r.upstream.Last().Header; h.Get("Traceparent") != strings.TrimPrefix(theirs, "Traceparent: ") ||
		h.Get("Tracestate") != "a=1" {
		t.Errorf("the upstream got %v", h)
	}
	if strings.Contains(r.log.String(), "trace_id") {
		t.Error("the log has a trace without tracing")
	}
	for headers, want := range map[string]string{"remove: [traceparent]": "", "set: {traceparent: own}": "own"} {
		r := newRig(t, edit(t, baseConfig, "match: /public/, ", "match: /public/, headers: {"+headers+"}, ")+
			"tracing: {endpoint: \"http://127.0.0.1:1\", sample: 0}\n")
		r.want(200, "GET", "/public/", "", theirs)
		if h := r.upstream.Last().Header; strings.Join(h["Traceparent"], " ") != want {
			t.Errorf("%s: the upstream got %v", headers, h)
		}
	}
}

// Requests that are not recorded take the fast path, with the header. Those that are
// recorded do not.
func TestTraceFastPath(t *testing.T) {
	t.Parallel()
	for sample, fast := range map[string]bool{"0.0": true, "1": false} {
		r, _, end := traced(t, "tracing: {endpoint: \"URL\", sample: "+sample+"}\n")
		var fields []string
		r.through(&ownrig.FastUpstream{Upstream: r.upstream, Begun: func(_ context.Context, p *http1.Plain) {
			for _, f := range p.Fields {
				fields = append(fields, f.Name+": "+f.Value)
			}
		}})
		r.want(200, "GET", "/public/", "", "Traceparent: theirs")
		got := slices.DeleteFunc(fields,
			func(f string) bool { return !strings.HasPrefix(f, "Traceparent: 00-") || !strings.HasSuffix(f, "-00") })
		if len(got) != map[bool]int{true: 1}[fast] {
			t.Errorf("with the share %s the fast path got %q", sample, fields)
		}
		if n := len(end()); n > 0 == fast {
			t.Errorf("with the share %s there are %d spans", sample, n)
		}
	}
}

// A real upstream is named by the address that got the request.
func TestTraceOfARealUpstream(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	yaml := edit(t, baseConfig, `url: "http://app.invalid"`, `url: "http://app.invalid/below"`) +
		strings.Replace(traceAll, "URL", c.URL, 1)
	got := make(chan http.Header, 1)
	r := newNetworkRig(t, yaml, func(_ http.ResponseWriter, q *http.Request) { got <- q.Header })
	if w := r.do("GET", "/public/x?secret", ""); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	parent := (<-got).Get("Traceparent")
	url := r.Config().Upstreams["app"].URL
	r.Close()
	sent := named(t, c.spans, "GET", client)
	wantAttributes(t, sent, "server.address", url.Hostname(), "url.full", "http://"+url.Host+"/below/public/x")
	if !strings.Contains(parent, hexOf(sent.SpanId)) {
		t.Errorf("the upstream got %s", parent)
	}
}

// A collector that fails harms no request. Its failure is logged and counted.
func TestTraceWithoutACollector(t *testing.T) {
	t.Parallel()
	r, c, end := traced(t, traceAll)
	c.serve = func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }
	r.want(200, "GET", "/public/", "")
	end()
	if failed := r.sample("authgate_tracing_spans_total", "result=failed"); failed != 4 {
		t.Errorf("%v spans failed", failed)
	}
	if n := strings.Count(r.log.String(), "does not take traces"); n != 1 {
		t.Errorf("the log has the failure %d times", n)
	}
}

// Reload changes the collector, and keeps it if nothing changes.
func TestTraceReload(t *testing.T) {
	t.Parallel()
	r, first, end := traced(t, traceAll)
	second := newCollector(t)
	before := r.state.Load().tracer
	with := baseConfig + "listen: {trusted_proxies: [198.51.100.0/24]}\n" + strings.Replace(traceAll, "URL", first.URL, 1)
	r.mustReload(with)
	if r.state.Load().tracer != before {
		t.Error("a reload without a change replaces the tracer")
	}
	r.mustReload(strings.Replace(with, first.URL, second.URL, 1))
	r.want(200, "GET", "/public/", "")
	if before.Close() != nil || len(end()) != 0 || len(second.spans) != 4 {
		t.Errorf("the collectors got %d and %d spans", len(first.spans), len(second.spans))
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
