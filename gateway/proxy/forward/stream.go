package forward

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"authgate/gateway/proxy/streams"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/conn"
)

// login is the login of a request, and tells whether it goes on.
type login interface {
	streams.Login
	// BeginStream is called before the request becomes a stream, which lasts. The error refuses the request.
	// A second call changes nothing.
	BeginStream() error
}

// events is the media type of an event stream.
const events = "text/event-stream"

// isEventStream reports whether a Content-Type is that of an event stream.
func isEventStream(contentType string) bool {
	return len(contentType) >= len(events) && strings.EqualFold(contentType[:len(events)], events)
}

// asksForStream reports whether a request can only become a stream: a WebSocket, another tunnel, or
// the event stream of EventSource in a browser.
func asksForStream(r *http.Request) bool {
	accept := r.Header["Accept"]
	return r.Header["Upgrade"] != nil || len(accept) == 1 && accept[0] == events
}

// cancelable makes r a request that may have to be canceled before net/http knows that
// its client has left: because it may become a WebSocket, because its login ends, or
// over HTTP/1.1 in any case. From then on it is a stream. A second call changes nothing.
func (q *Request) cancelable(r *http.Request) *http.Request {
	if q.cancel != nil {
		return r
	}
	_, upgrades := r.Header["Upgrade"]
	if !upgrades {
		q.cancel = conn.Cancel(r)
	}
	if upgrades || q.cancel == nil && (q.Exchange.Identity != nil || q.Route.caching != nil) {
		ctx, cancel := context.WithCancel(r.Context())
		q.cancel, q.stop = cancel, cancel
		r = r.WithContext(ctx)
	}
	if q.cancel != nil {
		q.Route.forwarder.streams.Add(&q.stream, (*stream)(q), q.Login)
	}
	return r
}

// stream is a Request as a streams.Stream.
type stream Request

// Ending implements streams.Stream. If the answer has not begun, it tells why the login
// has ended, and is the last on its connection. Otherwise the connection is closed, or
// the stream of HTTP/2 reset, in the middle of the answer, when the caller of Send sees
// the end.
func (s *stream) Ending(why *streams.Ended) {
	s.Exchange.Audit("stream_ended", slog.String("reason", why.Reason))
	if s.socket == nil {
		s.Exchange.Cut(streams.EndingTime) // a client that does not read must not hold it up
	}
}

// Cancel implements streams.Stream.
func (s *stream) Cancel() {
	if s.socket != nil {
		s.Route.forwarder.sockets.SignOut(s.socket, streams.EndingTime)
		return
	}
	s.cancel()
}

// CancelIfGone implements streams.Stream. A WebSocket reads from its connection, and
// notices by itself.
func (s *stream) CancelIfGone() {
	if r := s.Exchange.Request; s.socket == nil && conn.ClientGone(r) {
		conn.Cancel(r)()
	}
}

// answer is the answer as httputil.ReverseProxy writes it. Its connection may become a
// WebSocket.
type answer struct {
	*web.Exchange
	request *Request
}

// WriteHeader implements http.ResponseWriter. Of 1xx, the proxy writes only those that it passes on.
func (a *answer) WriteHeader(status int) {
	if status < 200 {
		a.request.inform(status)
		return
	}
	a.Exchange.WriteHeader(status)
}

// Hijack implements http.Hijacker. The proxy writes the header of a 101 to the
// connection itself.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	q := a.request
	hijack := http.NewResponseController(a.ResponseWriter).Hijack
	socket, rw, err := q.Route.forwarder.sockets.Hijack(hijack, !isWebSocket(a.Request), q.cancel)
	if err != nil {
		return nil, nil, err
	}
	a.Status = http.StatusSwitchingProtocols
	q.stream.Turn(func() { q.socket = socket })
	return socket, rw, nil
}
