package gateway

import (
	"errors"
	"net/http"
	"strings"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/tracing"
	"authgate/gateway/upstream/http1"
	"authgate/policy"
)

// newTracer returns what traces the requests of a configuration, nil if it names
// no collector. That of old is taken over if it is the same.
func (g *Gateway) newTracer(cfg *config.Config, old *state) (*tracing.Tracer, error) {
	if old != nil && old.tracer.Same(cfg.Tracing) {
		return old.tracer, nil
	}
	metrics := g.service.Metrics
	return tracing.New(tracing.Options{Config: cfg.Tracing, Version: g.version, Logger: g.service.Logger, Count: metrics.Spans})
}

// closeTracer closes a tracer, which may be nil.
func (g *Gateway) closeTracer(t *tracing.Tracer) {
	if err := t.Close(); err != nil {
		g.service.Logger.Warn("traces were not sent in time", "error", err.Error())
	}
}

// beginTrace begins the span of the request, before anything of it is judged.
func (ex *exchange) beginTrace() {
	ex.trace = ex.state.tracer.Begin(ex.Request.Header, ex.Peer.Trusted)
	ex.TraceID = ex.trace.ID()
}

// forwardTraced is forward with a span, which the upstream's own spans belong to.
func (ex *exchange) forwardTraced() error {
	ex.trace.Send(ex.route.config.Upstream, ex.Request.Method)
	err := ex.forward()
	ex.trace.Done(err)
	return err
}

// endTrace ends the span of the request.
func (ex *exchange) endTrace() {
	r := ex.Request
	scheme := "https"
	if ex.Cleartext {
		scheme = "http"
	}
	told := &tracing.Request{
		Method: r.Method, Scheme: scheme, Host: ex.Peer.Host, Path: ex.LoggedPath(), Protocol: r.Proto, Client: ex.Peer.Address,
		Label: ex.Label, Mechanism: ex.Mechanism, Decision: ex.Decision, ID: ex.ID, Verify: ex.Verify,
		Status: ex.Status, Aborted: ex.abort,
	}
	if ex.route != nil {
		pattern := ex.route.rule.Pattern
		told.Pattern = pattern[max(0, strings.IndexByte(pattern, '/')):]
	}
	ex.trace.End(told)
}

// outcomeOf returns the outcome of authentication, for its span.
func outcomeOf(id *policy.Identity, err error) string {
	switch _, rejected := errors.AsType[*auth.Rejection](err); {
	case rejected:
		return "rejected"
	case err != nil && !errors.Is(err, auth.ErrNoCredentials):
		return "error"
	case id == nil:
		return string(policy.None)
	}
	return string(id.Mechanism)
}

// traced returns a transport that notes in the trace where it sends a request. It
// is the transport itself if nothing is recorded.
func (ex *exchange) traced(transport http.RoundTripper) http.RoundTripper {
	if !ex.trace.Recorded() {
		return transport
	}
	return noting{transport, ex.trace}
}

// noting is a transport that notes where it sends a request.
type noting struct {
	http.RoundTripper
	trace *tracing.Trace
}

// RoundTrip implements http.RoundTripper.
func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.RoundTripper.RoundTrip(r)
	n.trace.SentTo(r.URL.Scheme, r.URL.Host, r.URL.Opaque) // which the balancer has set
	return response, err
}

// appendTrace appends the headers that name the span of the request to the
// upstream, unless the route sets or removes them.
func (ex *exchange) appendTrace(fields []http1.Field) []http1.Field {
	parent, state := ex.trace.Fields()
	if parent == "" || ex.route.edits(tracing.Parent) {
		return fields
	}
	fields = append(fields, http1.Field{Name: tracing.Parent, Value: parent})
	if state != "" && !ex.route.edits(tracing.State) {
		fields = append(fields, http1.Field{Name: tracing.State, Value: state})
	}
	return fields
}
