package forward

import (
	"log"
	"log/slog"
	"net/http"

	"authgate/gateway/proxy/streams"
	"authgate/gateway/proxy/tracing"
	"authgate/gateway/proxy/upstream"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/conn"
	"authgate/gateway/wire/webdav"
)

// Forwarder has the state that the requests of all configurations share. It
// is safe for concurrent use.
type Forwarder struct {
	sockets conn.WebSockets
	streams *streams.Set
	buffers *bufferPool
	plains  plainPool
	log     *log.Logger // of httputil.ReverseProxy
}

// New returns a Forwarder that logs failures in the middle of answers.
func New(logger *slog.Logger) *Forwarder {
	return &Forwarder{
		streams: streams.NewSet(), buffers: newBufferPool(), plains: newPlainPool(),
		log: web.LibraryLog(logger.Handler(), slog.LevelWarn),
	}
}

// Streams returns the requests in flight that may be streams.
func (f *Forwarder) Streams() *streams.Set { return f.streams }

// WebSockets returns the WebSockets that pass through.
func (f *Forwarder) WebSockets() *conn.WebSockets { return &f.sockets }

// Request is one request on its way to an upstream. The zero Request has not been sent,
// and Ended, Done and Close do nothing.
type Request struct {
	Exchange *web.Exchange
	Route    *Route
	Trace    *tracing.Trace // nil: there is none
	Login    login

	// Named are the resources that the request names besides its own, nil if there are none.
	Named *webdav.Named

	// Preflight tells that the request is a CORS preflight, which goes without credentials,
	// those of the route included.
	Preflight bool

	answer answer
	stream streams.Entry
	socket *conn.WebSocket // that the connection has become
	rest   remainder
	upload *web.Upload // the body; nil: none
	stop   func()      // ends the context of a request that cancelable has made; may be nil
	cancel func()      // closes the upstream's connection; nil if that is not needed
	err    error       // of the upstream
	whole  bool        // the fast path has answered, with a response that came whole
}

// Send sends the request to the upstream, and the answer back to the client. The error
// is one that nothing has been answered to. It panics with http.ErrAbortHandler if the
// answer breaks off. The caller calls Done and Close after it, also after a panic.
//
// A WebSocket waits in it for hours, so few frames are open then: with 100 bytes more of them, its stack
// takes 16 KiB instead of 8.
func (q *Request) Send() error {
	defer q.release()
	q.Trace.Send(q.Route.config.Upstream, q.Exchange.Request.Method)
	err := q.sendFast()
	if err == nil && q.rest.transport != nil {
		p := q.passOn()
		p.proxy().ServeHTTP(&q.answer, q.rest.request)
		err = p.endAnswer()
	}
	q.Trace.Done(err)
	return err
}

// release ends the work that Send has begun beside the request.
func (q *Request) release() {
	if q.stop != nil {
		q.stop()
	}
	q.upload.Stop()
}

// sendFast sends the request the fast path. The rest of its way is then q.rest.
func (q *Request) sendFast() (err error) {
	ex, route := q.Exchange, q.Route
	r, limit := ex.Request, route.config.MaxBody
	if limit > 0 && r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	q.upload = ex.Upload()
	if route.keepsUpgrade(r) {
		r.Header.Set("Upgrade", web.Upgrade(r.Header)) // the proxy passes on one line alone
	} else {
		delete(r.Header, "Upgrade")
	}
	if asksForStream(r) {
		if err := q.Login.BeginStream(); err != nil {
			return err
		}
	}
	r = q.withTargetHints(r)
	fast := q.fastPath()
	if fast == nil {
		q.rest.transport = traced(route.Transport, q.Trace)
	} else {
		if r.ContentLength > 0 { // its login may end while the body comes
			r = q.cancelable(r)
		}
		q.rest, err = q.sendPlain(fast, r)
	}
	q.rest.request = r
	return err
}

// withTargetHints adds the client's address and the named resources, by which the balancer
// chooses.
func (q *Request) withTargetHints(r *http.Request) *http.Request {
	if q.Named != nil {
		r = r.WithContext(upstream.WithNamed(r.Context(), q.Named))
	}
	if q.Route.upstream.ByClient() {
		r = r.WithContext(upstream.WithClient(r.Context(), q.Exchange.Peer.Client))
	}
	return r
}

// Ended returns why the request has ended before its answer did, nil if it has not.
func (q *Request) Ended() *streams.Ended { return q.stream.Ended() }

// Done returns the same, and lets nothing end the request any more.
func (q *Request) Done() *streams.Ended { return q.stream.Remove() }

// Alone reports, after Done, whether nothing but the caller knows of the request any more, so that its
// memory can be that of another one: it went by the fast path, and no check of streams has met it.
func (q *Request) Alone() bool { return q.whole && q.stream.Alone() }

// Close frees the WebSocket that the connection of the client has become.
func (q *Request) Close() {
	if q.socket != nil {
		q.Route.forwarder.sockets.Remove(q.socket)
	}
}
