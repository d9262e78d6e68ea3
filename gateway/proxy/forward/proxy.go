package forward

import (
	"context"
	"net/http"
	"net/http/httputil"
	"sync"

	"authgate/gateway/proxy/web"
)

// proxy sends r through httputil.ReverseProxy, with a transport that may have sent it
// already.
func (q *Request) proxy(transport http.RoundTripper, r *http.Request, upload *web.Upload) error {
	r, release := q.cancelable(abortable(q.withOwner(r)))
	defer release()
	var exchange struct { // with the upstream
		request  *http.Request
		response *http.Response // nil: there is none to pass on
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			exchange.request = pr.Out
			q.rewrite(pr.Out)
		},
		Transport:  transport,
		BufferPool: q.Route.forwarder.buffers,
		ErrorLog:   q.Route.forwarder.log,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if q.err == nil {
				q.err = q.Route.upstream.Failure(upload.Failure(err))
			}
		},
		ModifyResponse: func(response *http.Response) error {
			if err := q.withoutNegotiate(response); err != nil {
				return err
			}
			if response.StatusCode == http.StatusSwitchingProtocols {
				if err := switchProtocols(exchange.request, response); err != nil {
					return err
				}
			}
			if isEventStream(response.Header.Get("Content-Type")) {
				if q.err = q.Login.BeginStream(); q.err != nil {
					return q.err
				}
			}
			announce(response.Trailer)
			exchange.response = response
			q.modify(response.StatusCode, response.Header)
			return nil
		},
	}
	q.answer = answer{q.Exchange, q}
	proxy.ServeHTTP(&q.answer, r)
	if exchange.response != nil {
		q.sendTrailer(exchange.response.Trailer)
	}
	if upload.Unread() {
		q.Exchange.LimitBody() // the answer came first
	}
	return q.err
}

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

const copyBuffer = 32 << 10

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
