package forward

import (
	"context"
	"net/http"
	"net/http/httputil"
	"sync"
)

// passed is the exchange with the upstream of a request that httputil.ReverseProxy sends.
type passed struct {
	request  *Request
	sent     *http.Request
	response *http.Response // nil: there is none to pass on
}

// passOn makes the request one that httputil.ReverseProxy can send.
func (q *Request) passOn() *passed {
	r := q.upload.Request(q.rest.request)
	if limit := q.Route.config.MaxBody; q.rest.body != nil {
		r.Body = q.rest.body
	} else if limit > 0 && q.upload != nil {
		r.Body = http.MaxBytesReader(q.Exchange, r.Body, limit)
	}
	q.rest.request, q.answer = q.cancelable(abortable(q.withOwner(r))), answer{q.Exchange, q}
	return &passed{request: q}
}

// endAnswer sends the trailer of the response, and returns the error of the exchange.
func (p *passed) endAnswer() error {
	q := p.request
	if p.response != nil {
		q.sendTrailer(p.response.Trailer)
	}
	if q.upload.Unread() {
		q.Exchange.LimitBody() // the answer came first
	}
	return q.err
}

// proxy returns the proxy that goes the rest of the way, with a transport that may have sent the request
// already.
func (p *passed) proxy() *httputil.ReverseProxy {
	q := p.request
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			p.sent = pr.Out
			q.rewrite(pr.Out)
		},
		Transport:  q.rest.transport,
		BufferPool: p,
		ErrorLog:   q.Route.forwarder.log,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if q.err == nil {
				q.err = q.Route.upstream.Failure(q.upload.Failure(err))
			}
		},
		ModifyResponse: p.modify,
	}
}

// modify changes the response for the client, or refuses it.
func (p *passed) modify(response *http.Response) error {
	q := p.request
	if err := q.withoutNegotiate(response); err != nil {
		return err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		if err := switchProtocols(p.sent, response); err != nil {
			return err
		}
	}
	if isEventStream(response.Header.Get("Content-Type")) {
		if q.err = q.Login.BeginStream(); q.err != nil {
			return q.err
		}
	}
	announce(response.Trailer)
	p.response = response
	q.modify(response.StatusCode, response.Header)
	return nil
}

// Get implements httputil.BufferPool. A stream of events keeps its buffer for hours, and fills little of it.
func (p *passed) Get() []byte {
	if isEventStream(p.response.Header.Get("Content-Type")) {
		return make([]byte, eventBuffer)
	}
	return p.request.Route.forwarder.buffers.Get()
}

// Put implements httputil.BufferPool.
func (p *passed) Put(b []byte) { p.request.Route.forwarder.buffers.Put(b) }

// abortable returns r as a request that httputil.ReverseProxy aborts if the upstream breaks
// off its response. It looks for net/http's server, which those over HTTP/3 do not come from.
func abortable(r *http.Request) *http.Request {
	if r.Context().Value(http.ServerContextKey) != nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, (*http.Server)(nil)))
}

// bufferPool lends the buffers that bodies are copied through.
type bufferPool struct{ pool sync.Pool }

// The sizes of buffers in bytes. Those of streams of events are their own.
const (
	copyBuffer  = 32 << 10
	eventBuffer = 4 << 10
)

func newBufferPool() *bufferPool {
	return &bufferPool{pool: sync.Pool{New: func() any { return new([copyBuffer]byte) }}}
}

// Get implements httputil.BufferPool.
func (p *bufferPool) Get() []byte { return p.pool.Get().(*[copyBuffer]byte)[:] }

// Put implements httputil.BufferPool.
func (p *bufferPool) Put(b []byte) {
	if len(b) == copyBuffer {
		p.pool.Put((*[copyBuffer]byte)(b))
	}
}
