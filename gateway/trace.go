package gateway

import (
	"errors"
	"log/slog"
	"strings"

	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/tracing"
	"authgate/policy"
)

// newTracer makes the tracer of the requests of st, nil if its configuration names no collector.
// The tracer of old is taken over if it is the same.
func (st *state) newTracer(old *state, version string) (err error) {
	if !old.isNone() && old.tracer.Same(st.config.Tracing) {
		st.tracer = old.tracer
		return nil
	}
	service := st.site.Service
	st.tracer, err = tracing.New(tracing.Options{Config: st.config.Tracing, Version: version, Logger: service.Logger,
		Count: service.Metrics.Spans})
	return err
}

// closeTracer closes a tracer, which may be nil.
func closeTracer(t *tracing.Tracer, logger *slog.Logger) {
	if err := t.Close(); err != nil {
		logger.Warn("traces were not sent in time", "error", err.Error())
	}
}

// beginTrace begins the span of the request, before anything of it is judged.
func (ex *exchange) beginTrace() {
	ex.trace = ex.state.tracer.Begin(ex.Request.Header, ex.Peer.Trusted)
	ex.TraceID = ex.trace.ID()
}

// endTrace ends the span of the request.
func (ex *exchange) endTrace() {
	r := ex.Request
	scheme := "https"
	if ex.Cleartext {
		scheme = "http"
	}
	told := &tracing.Request{
		Method: r.Method, Scheme: scheme, Host: ex.Peer.Host, Path: ex.LoggedPath(), Protocol: r.Proto,
		Client: ex.Peer.Address,
		Label:  ex.Label, Mechanism: ex.Mechanism, Decision: ex.Decision, ID: ex.ID, Verify: ex.Verify,
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
