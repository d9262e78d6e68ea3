package gateway

import (
	"context"
	"errors"
	"log/slog"

	"authgate/gateway/auth"
	"authgate/gateway/conn"
	"authgate/gateway/streams"
	"authgate/gateway/web"
	"authgate/policy"
)

// confirmed is what the login of a stream was last confirmed by.
type confirmed struct {
	state *state
	route *route
	id    *policy.Identity
}

// Check implements streams.Stream: it finds out whether the request would be let in now.
func (ex *exchange) Check(ctx context.Context) error {
	if ex.Identity == nil {
		return nil
	}
	c := ex.confirmed
	if c == nil {
		c = &confirmed{ex.state, ex.route, ex.Identity}
		ex.confirmed = c
	}
	if st := ex.gateway.state.Load(); c.state != st {
		route := st.routing.find(&ex.Canonical)
		if route == nil || route.upstream == nil {
			const reason = "no route matches any more"
			return &streams.Ended{Err: errNoRoute(reason), Reason: reason}
		}
		*c = confirmed{st, route, nil}
	}
	if c.route.rule.Public() {
		return nil
	}
	id, err := c.route.chain.Alive(ctx, &ex.Credentials)
	if err != nil && !errors.Is(err, auth.ErrNoCredentials) {
		return ex.notAlive(err, c.route.chain)
	}
	if id != nil && id == c.id {
		return nil // as decided before
	}
	switch decision := c.route.rule.Decide(id, &ex.Canonical); decision.Outcome {
	case policy.Allow:
		c.id = id
		return nil
	case policy.Challenge:
		const reason = "the route does not accept the credentials any more"
		return ex.notAlive(&auth.Rejection{Detail: auth.DetailNotSignedIn, Reason: reason}, c.route.chain)
	default:
		return &streams.Ended{Err: web.Forbidden(), Reason: decision.Reason}
	}
}

// notAlive returns the error of Check for one of Alive.
func (ex *exchange) notAlive(err error, chain auth.Chain) error {
	if rejection, ok := errors.AsType[*auth.Rejection](err); ok {
		return &streams.Ended{Err: web.Challenge(err, chain.Challenges(&ex.Credentials)...), Reason: rejection.Reason}
	}
	return err
}

// Ending implements streams.Stream. If the answer has not begun, it tells why the login
// has ended, and is the last on its connection. Otherwise the connection is closed, or
// the stream of HTTP/2 reset, in the middle of the answer; finish does that.
func (ex *exchange) Ending(ended *streams.Ended) {
	ex.Audit("stream_ended", slog.String("reason", ended.Reason))
	if ex.socket == nil {
		ex.Cut(streams.EndingTime) // a client that does not read must not hold it up
	}
}

// Cancel implements streams.Stream.
func (ex *exchange) Cancel() {
	if ex.socket != nil {
		ex.gateway.sockets.SignOut(ex.socket, streams.EndingTime)
		return
	}
	ex.cancelUpstream()
}

// CancelIfGone implements streams.Stream. A WebSocket reads from its connection, and
// notices by itself.
func (ex *exchange) CancelIfGone() {
	if ex.socket == nil && conn.ClientGone(ex.Request) {
		conn.Cancel(ex.Request)()
	}
}
