package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/conn"
	"authgate/gateway/web"
	"authgate/policy"
)

// watch is the result of the last check of a stream.
type watch struct {
	state *state // by which the login was confirmed, and the rest of it
	route *route
	id    *policy.Identity
	since time.Time // when the last check was that confirmed the login; zero: the last one
	asked time.Time // when the client was last found to be there
}

// endedError is why a stream has ended; err is the answer to the same request
// now.
type endedError struct {
	err    error
	reason string // for operators
}

func (e *endedError) Error() string { return "the login has ended: " + e.reason }
func (e *endedError) Unwrap() error { return e.err }

// recheck finds out whether the request of an exchange would be let in now. The
// error is an *endedError if not.
func (g *Gateway) recheck(ctx context.Context, ex *exchange) error {
	w := ex.stream.watch
	if st := g.state.Load(); w.state != st {
		route := st.routing.find(&ex.Canonical)
		if route == nil || route.upstream == nil {
			const reason = "no route matches any more"
			return &endedError{err: errNoRoute(reason), reason: reason}
		}
		w.state, w.route, w.id = st, route, nil
	}
	if w.route.rule.Public() {
		return nil
	}
	id, err := w.route.chain.Alive(ctx, &ex.Credentials)
	if err != nil && !errors.Is(err, auth.ErrNoCredentials) {
		return ex.notAlive(err, w.route.chain)
	}
	if id != nil && id == w.id {
		return nil // as decided before
	}
	switch decision := w.route.rule.Decide(id, &ex.Canonical); decision.Outcome {
	case policy.Allow:
		w.id = id
		return nil
	case policy.Challenge:
		return ex.notAlive(&auth.Rejection{Detail: auth.DetailNotSignedIn, Reason: "the route does not accept the credentials any more"}, w.route.chain)
	default:
		return &endedError{err: web.Forbidden(), reason: decision.Reason}
	}
}

// notAlive returns the error of recheck for one of Alive.
func (ex *exchange) notAlive(err error, chain auth.Chain) error {
	if rejection, ok := errors.AsType[*auth.Rejection](err); ok {
		return &endedError{err: web.Challenge(err, chain.Challenges(&ex.Credentials)...), reason: rejection.Reason}
	}
	return err
}

// endStream ends an exchange whose login has ended. If its answer has not
// begun, the answer tells why. Otherwise the connection is closed, or the stream
// of HTTP/2 reset, in the middle of the answer; finish does that.
func (g *Gateway) endStream(ex *exchange, ended *endedError) {
	ex.stream.mu.Lock()
	defer ex.stream.mu.Unlock()
	if ex.stream.over || ex.stream.ended.Load() != nil {
		return
	}
	ex.Audit("stream_ended", slog.String("reason", ended.reason))
	if ex.socket != nil {
		ex.stream.ended.Store(ended)
		g.sockets.SignOut(ex.socket, endingTime)
		return
	}
	// First, so that an answer that tells of the end is the last on its connection.
	ex.Cut(endingTime) // a client that does not read must not hold it up
	ex.stream.ended.Store(ended)
	ex.cancelUpstream()
}

// becomes notes what the connection of an exchange has become.
func (ex *exchange) becomes(s *conn.WebSocket) {
	ex.stream.mu.Lock()
	defer ex.stream.mu.Unlock()
	ex.socket = s
	if ex.stream.ended.Load() != nil {
		ex.gateway.sockets.SignOut(s, endingTime)
	}
}

// endIfGone cancels a request over HTTP/1.1 whose client has closed the
// connection. A WebSocket reads from it, and notices by itself.
func (ex *exchange) endIfGone() {
	ex.stream.mu.Lock()
	defer ex.stream.mu.Unlock()
	if !ex.stream.over && ex.socket == nil && conn.ClientGone(ex.Request) {
		conn.Cancel(ex.Request)()
	}
}
