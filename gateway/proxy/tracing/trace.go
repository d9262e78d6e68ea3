package tracing

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Names of the headers of W3C Trace Context, as http.Header has them.
const (
	Parent = "Traceparent"
	State  = "Tracestate"
)

// Names of steps, which are the names of their spans.
const (
	StepAuthenticate = "authenticate"
	StepDecide       = "decide"
)

// Trace is the spans of one request. A nil Trace has none, and all its methods do
// nothing. It is not safe for concurrent use.
type Trace struct {
	tracer   trace.Tracer
	ctx      context.Context // of span
	span     trace.Span      // of the request
	upstream trace.Span      // nil: not sent to an upstream
	outgoing context.Context // of upstream
}

// Request has the attributes of the span of a request.
type Request struct {
	Method, Scheme, Host, Path string // Path without the query
	Protocol                   string // like HTTP/1.1
	Client                     string // its address
	Pattern                    string // of the route's path; empty if there is no route
	Label, Mechanism, Decision string // as in the metrics
	ID                         string
	Verify                     bool
	Status                     int
	Aborted                    bool // the answer is not whole
}

// ID returns the id of the trace, empty if there is none.
func (t *Trace) ID() string {
	if t == nil {
		return ""
	}
	return t.span.SpanContext().TraceID().String()
}

// Recorded reports whether the spans are recorded.
func (t *Trace) Recorded() bool { return t != nil && t.span.IsRecording() }

// Step begins the span of a part of the work.
func (t *Trace) Step(name string) step {
	if !t.Recorded() {
		return step{}
	}
	_, span := t.tracer.Start(t.ctx, name)
	return step{span}
}

// step is the span of a part of the work. The zero step does nothing.
type step struct{ span trace.Span }

// End ends the step. The outcome and its reason are empty if there is none.
func (s step) End(outcome, reason string) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(texts("authgate.outcome", outcome, "authgate.reason", reason)...)
	s.span.End()
}

// Send begins the span of the request to an upstream.
func (t *Trace) Send(upstream, method string) {
	if t == nil {
		return
	}
	t.outgoing, t.upstream = t.tracer.Start(t.ctx, known(method), trace.WithSpanKind(trace.SpanKindClient))
	t.upstream.SetAttributes(append(methodOf(method), attribute.String("authgate.upstream", upstream))...)
}

// SentTo notes which address got the request, and under which path.
func (t *Trace) SentTo(scheme, host, path string) {
	if !t.Recorded() || host == "" {
		return
	}
	if strings.HasPrefix(host, "/") { // a socket
		t.upstream.SetAttributes(semconv.ServerAddress(host), semconv.URLScheme(scheme))
		return
	}
	t.upstream.SetAttributes(append(addressOf(host), semconv.URLFull(clip(scheme+"://"+host+path)))...)
}

// Answered notes the status of an upstream's response, whose header has arrived.
func (t *Trace) Answered(status int) {
	if !t.Recorded() || t.upstream == nil {
		return
	}
	t.upstream.AddEvent("response header")
	t.upstream.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if status >= 400 {
		failed(t.upstream, strconv.Itoa(status))
	}
}

// Done ends the span of the request to an upstream.
func (t *Trace) Done(err error) {
	if t == nil || t.upstream == nil {
		return
	}
	if err != nil {
		failed(t.upstream, kindOf(err))
	}
	t.upstream.End()
}

// Fields returns the values of Parent and State for the upstream. They name the
// span of the request to it.
func (t *Trace) Fields() (parent, state string) {
	if t == nil || t.upstream == nil {
		return "", ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(t.outgoing, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// End ends the span of the request.
func (t *Trace) End(r *Request) {
	if t == nil {
		return
	}
	defer t.span.End()
	if t.upstream != nil {
		t.upstream.End() // after a panic: the answer was cut off. Else it does nothing.
	}
	if !t.span.IsRecording() {
		return
	}
	name := known(r.Method)
	switch {
	case r.Pattern != "":
		name += " " + r.Pattern
	case strings.HasPrefix(r.Label, "authgate/"):
		name += " " + r.Label
	}
	t.span.SetName(name)
	t.span.SetAttributes(methodOf(r.Method)...)
	t.span.SetAttributes(addressOf(clip(r.Host))...)
	t.span.SetAttributes(texts(
		string(semconv.URLSchemeKey), r.Scheme, string(semconv.URLPathKey), r.Path,
		string(semconv.HTTPRouteKey), r.Pattern, string(semconv.ClientAddressKey), r.Client,
		string(semconv.NetworkProtocolVersionKey), versionOf(r.Protocol),
		"authgate.request_id", r.ID, "authgate.route", r.Label, "authgate.mechanism", r.Mechanism,
		"authgate.decision", r.Decision,
	)...)
	if r.Verify {
		t.span.SetAttributes(attribute.Bool("authgate.verify", true))
	}
	if r.Status != 0 {
		t.span.SetAttributes(semconv.HTTPResponseStatusCode(r.Status))
	}
	switch {
	case r.Status >= 500:
		failed(t.span, strconv.Itoa(r.Status))
	case r.Aborted:
		failed(t.span, "aborted")
	}
}

// versionOf returns the version of a protocol like HTTP/1.1.
func versionOf(protocol string) string {
	version := strings.TrimPrefix(protocol, "HTTP/")
	if strings.HasPrefix(version, "1.") {
		return version
	}
	return strings.TrimSuffix(version, ".0") // later ones have no minor version
}

func failed(span trace.Span, kind string) {
	span.SetStatus(codes.Error, "")
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
}

// kindOf returns the error.type of a failed request to an upstream.
func kindOf(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	}
	return semconv.ErrorTypeOther.Value.AsString()
}

// known returns a method, or one name for all methods that are not known.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace, "QUERY":
		return method
	}
	return "HTTP"
}

func methodOf(method string) []attribute.KeyValue {
	if known(method) != method {
		return []attribute.KeyValue{semconv.HTTPRequestMethodOther}
	}
	return []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(method)}
}

// addressOf returns the attributes of HOST or HOST:PORT.
func addressOf(host string) []attribute.KeyValue {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return []attribute.KeyValue{semconv.ServerAddress(host)}
	}
	attributes := []attribute.KeyValue{semconv.ServerAddress(name)}
	if n, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, semconv.ServerPort(n))
	}
	return attributes
}

// texts returns the attributes with these names and values, without those that are
// empty.
func texts(pairs ...string) []attribute.KeyValue {
	var attributes []attribute.KeyValue
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			attributes = append(attributes, attribute.String(pairs[i], pairs[i+1]))
		}
	}
	return attributes
}
