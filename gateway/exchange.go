package gateway

import (
	"bytes"
	"net/http"
	"runtime/debug"
	"sync"

	"authgate/gateway/proxy/forward"
	"authgate/gateway/proxy/tracing"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/conn"
	"authgate/gateway/wire/mcp"
	"authgate/policy"
)

// exchanges lends the memory of exchanges. It is a third of the memory of a short request, and the
// same memory again is in the processor's cache. It is safe for concurrent use.
type exchanges struct{ pool sync.Pool }

// get returns a zero exchange. Its body may have memory.
func (e *exchanges) get() *exchange {
	if ex, ok := e.pool.Get().(*exchange); ok {
		return ex
	}
	return new(exchange)
}

// put takes back an exchange that nothing but the caller knows of. It went the fast path, so its body is short.
func (e *exchanges) put(ex *exchange) {
	ex.body.Reset()
	*ex = exchange{body: ex.body}
	e.pool.Put(ex)
}

// exchange is a web.Exchange with the parts that only the gateway itself needs: the state that
// serves it, and the request that it forwards.
type exchange struct {
	web.Exchange
	gateway *Gateway
	state   *state // when the request came
	route   *route // nil for own endpoints
	trace   *tracing.Trace

	sent      forward.Request // to the upstream
	confirmed confirmed       // that it may be sent
	message   *mcp.Message    // for an MCP server; nil: there is none
	body      bytes.Buffer    // with that message
	demand    policy.Demand   // of a step-up
	tellsEnd  bool            // the answer tells that the login has ended

	leave   func() // gives back the place of a stream; nil: it has none
	counted bool   // as in flight
	allowed bool   // a proxy that asks has its answer
	abort   bool   // the answer is not whole, and must not seem so
}

// begin notes the arrival of a request.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	st := g.state.Load()
	ex := g.exchanges.get()
	ex.gateway, ex.state, ex.counted = g, st, g.inFlight.beginRequest(st.maxInFlight)
	ex.Init(st.site, w, r)
	if st.tracer != nil {
		ex.beginTrace()
	}
	return ex
}

// fail answers with an error. If the login has ended, the error is a
// consequence of that, and the answer tells the cause.
func (ex *exchange) fail(err error) {
	ended := ex.sent.Ended()
	if ended != nil {
		err = ended
	}
	ex.useErrorsOfEndpoint()
	ex.abort = ex.Fail(err)
	ex.tellsEnd = ended != nil && !ex.abort
}

// useErrorsOfEndpoint makes an error that comes before the own endpoint is served, such as ambiguous
// credentials, have the form of the errors of that endpoint.
func (ex *exchange) useErrorsOfEndpoint() {
	if ex.route != nil {
		return
	}
	if own, _ := ex.state.own.At(ex.Canonical.Host, ex.Canonical.Path.Decoded); own != nil {
		own.SetErrorForm(&ex.Exchange)
	}
}

// finish ends the exchange: it is counted and logged. A panic of the gateway
// becomes a 500. This is the one place that panics: by http.ErrAbortHandler the
// server learns that the answer is not whole.
func (ex *exchange) finish() {
	switch panicked := recover(); panicked {
	case nil:
	case http.ErrAbortHandler: // of gateway/proxy/forward
		ex.abort = true
	default:
		ex.gateway.service.Logger.Error("panic", "request_id", ex.ID, "panic", panicked, "stack", string(debug.Stack()))
		ex.fail(&web.Error{Status: http.StatusInternalServerError, Detail: "The gateway failed."})
	}
	if ended := ex.sent.Done(); ended != nil {
		ex.End(ended)
		ex.abort = ex.abort || !ex.tellsEnd
	}
	ex.Finish(ex.abort)
	if ex.trace != nil {
		ex.endTrace()
	}
	if ex.counted {
		ex.gateway.inFlight.endRequest()
	}
	if ex.leave != nil {
		ex.leave()
	}
	ex.sent.Close()
	if ex.abort && !ex.Request.ProtoAtLeast(1, 1) {
		conn.Reset(ex.Request)
	}
	if ex.abort || !ex.DropBody() {
		panic(http.ErrAbortHandler)
	}
	if ex.allowed || ex.sent.Alone() {
		ex.gateway.exchanges.put(ex)
	}
}
