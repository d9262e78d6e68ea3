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

// LoginEnded ends the requests in flight of a login that has ended, at once.
func (f *Forwarder) LoginEnded(sid string) { f.streams.CheckLogin(sid) }

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
	cancel func()          // closes the upstream's connection; nil if that is not needed
	err    error           // of the upstream
	whole  bool            // the fast path has answered, with a response that came whole
}

// Send sends the request to the upstream, and the answer back to the client. The error
// is one that nothing has been answered to. It panics with http.ErrAbortHandler if the
// answer breaks off. The caller calls Done and Close after it, also after a panic.
func (q *Request) Send() error {
	if q.Trace == nil {
		return q.send()
	}
	q.Trace.Send(q.Route.config.Upstream, q.Exchange.Request.Method)
	err := q.send()
	q.Trace.Done(err)
	return err
}

func (q *Request) send() error {
	ex, route := q.Exchange, q.Route
	r, limit := ex.Request, route.config.MaxBody
	if limit > 0 && r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	upload := ex.Upload()
	defer upload.Stop()
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
		return q.sendByProxy(remainder{transport: traced(route.Transport, q.Trace)}, r, upload)
	}
	if r.ContentLength > 0 { // its login may end while the body comes
		watched, release := q.cancelable(r)
		defer release()
		r = watched
	}
	rest, err := q.sendPlain(fast, r, upload)
	if err != nil || rest.transport == nil {
		return err
	}
	return q.sendByProxy(rest, r, upload)
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

// sendByProxy sends r by httputil.ReverseProxy.
func (q *Request) sendByProxy(rest remainder, r *http.Request, upload *web.Upload) error {
	r = upload.Request(r)
	limit := q.Route.config.MaxBody
	switch {
	case rest.body != nil:
		r.Body = rest.body
	case limit > 0 && upload != nil:
		r.Body = http.MaxBytesReader(q.Exchange, r.Body, limit)
	}
	return q.proxy(rest.transport, r, upload)
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
