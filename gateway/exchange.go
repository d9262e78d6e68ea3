package gateway

import (
	"bufio"
	"net"
	"net/http"
	"runtime/debug"

	"authgate/gateway/conn"
	"authgate/gateway/peer"
	"authgate/gateway/streams"
	"authgate/gateway/tracing"
	"authgate/gateway/web"
)

// exchange is a web.Exchange with what only the gateway itself needs: the state
// that serves it, and the way to end it from outside.
type exchange struct {
	web.Exchange
	gateway *Gateway
	state   *state // when the request came
	route   *route // nil for own endpoints
	trace   *tracing.Trace

	original peer.Original // that a request to verify asks about

	stream         streams.Entry
	confirmed      *confirmed      // by Check; nil: not checked yet
	told           bool            // the answer tells that the login has ended
	socket         *conn.WebSocket // that the connection has become
	cancelUpstream func()          // closes the upstream's connection; nil if that is not needed
	upstreamErr    error           // of the proxy

	counted bool // as in flight
	abort   bool // the answer is not whole, and must not seem so
}

// begin notes the arrival of a request.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	st := g.state.Load()
	ex := &exchange{gateway: g, state: st, counted: g.load.begin(st.inFlight)}
	ex.Init(st.site, w, r)
	ex.Peer = st.trusted.Read(r)
	if st.tracer != nil {
		ex.beginTrace()
	}
	return ex
}

// Hijack implements http.Hijacker. The proxy writes the header of a 101 to the
// connection itself.
func (ex *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	socket, rw, err := ex.gateway.sockets.Hijack(http.NewResponseController(ex.ResponseWriter).Hijack, !ex.isWebSocket(), ex.cancelUpstream)
	if err != nil {
		return nil, nil, err
	}
	ex.Status = http.StatusSwitchingProtocols
	ex.stream.Turn(func() { ex.socket = socket })
	return socket, rw, nil
}

// fail answers with an error. If the login has ended, the error is a
// consequence of that, and the answer tells the cause.
func (ex *exchange) fail(err error) {
	ended := ex.stream.Ended()
	if ended != nil {
		err = ended
	}
	ex.abort = ex.Fail(err)
	ex.told = ended != nil && !ex.abort
}

// finish ends the exchange: it is counted and logged. A panic of the gateway
// becomes a 500. This is the one place that panics: by http.ErrAbortHandler the
// server learns that the answer is not whole.
func (ex *exchange) finish() {
	switch panicked := recover(); panicked {
	case nil:
	case http.ErrAbortHandler: // of httputil.ReverseProxy
		ex.abort = true
	default:
		ex.gateway.service.Logger.Error("panic", "request_id", ex.ID, "panic", panicked, "stack", string(debug.Stack()))
		ex.fail(&web.Error{Status: http.StatusInternalServerError, Detail: "The gateway failed."})
	}
	if ended := ex.stream.Remove(); ended != nil {
		ex.End(ended)
		ex.abort = ex.abort || !ex.told
	}
	ex.Finish(ex.abort)
	if ex.trace != nil {
		ex.endTrace()
	}
	if ex.counted {
		ex.gateway.load.end()
	}
	if ex.socket != nil {
		ex.gateway.sockets.Remove(ex.socket)
	}
	if ex.abort || !ex.DropBody() {
		panic(http.ErrAbortHandler)
	}
}
