package gateway

import (
	"context"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"authgate/gateway/conn"
	"authgate/gateway/headername"
	"authgate/gateway/upstream"
	"authgate/policy"
)

// forward sends the request to the route's upstream and its response back.
// What is sent is what was decided on: the path's bytes as they came, the
// identity that was proved, and none of the client's words in its place.
func (ex *exchange) forward(route *route) error {
	body := ex.pace()
	if body != nil {
		defer body.end(false)
	}
	if limit := route.config.MaxBody; limit > 0 {
		if ex.r.ContentLength > limit {
			return &http.MaxBytesError{Limit: limit}
		}
		ex.r.Body = http.MaxBytesReader(ex, ex.r.Body, limit)
	}
	if protocol := upgrade(ex.r.Header); protocol != "" && !strings.EqualFold(protocol, "websocket") {
		ex.r.Header.Del("Upgrade") // another protocol would carry requests that nobody decides on
	}
	if !route.upstream.Cleartext() {
		ex.r = ex.r.WithContext(upstream.LimitHints(ex.r.Context()))
	}
	release := ex.canGiveUp()
	defer release()
	if ex.giveUp != nil {
		ex.gw.streams.add(ex, route)
	}
	proxy := httputil.ReverseProxy{
		Rewrite:    func(pr *httputil.ProxyRequest) { ex.rewrite(route, pr.Out) },
		Transport:  route.transport,
		BufferPool: ex.gw.buffers,
		ErrorLog:   ex.gw.proxyLog,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if body != nil && body.stalled.Load() {
				err = errStalled(err)
			}
			ex.fail(route.upstream.Failure(err))
		},
	}
	proxy.ModifyResponse = route.modify
	if len(ex.dead) > 0 {
		proxy.ModifyResponse = ex.clearing(route.modify)
	}
	proxy.ServeHTTP(ex, ex.r)
	dropTrailerCookies(ex.Header())
	if body != nil && body.unread() {
		ex.limitBody() // the answer came first
	}
	return nil
}

// canGiveUp sets giveUp for a request that may have to be given up before
// net/http knows that its client has left: because it may become a WebSocket,
// because its login ends, or over HTTP/1.1 in any case. The caller calls release
// after it.
func (ex *exchange) canGiveUp() (release func()) {
	if _, upgrades := ex.r.Header["Upgrade"]; !upgrades {
		if ex.giveUp = conn.Cancel(ex.r); ex.giveUp != nil || ex.id == nil {
			return func() {}
		}
	}
	ctx, giveUp := context.WithCancel(ex.r.Context())
	ex.r, ex.giveUp = ex.r.WithContext(ctx), giveUp
	return giveUp
}

// rewrite makes the request to the upstream. It runs after the removal of
// hop-by-hop headers, so that Connection cannot remove what is set here.
func (ex *exchange) rewrite(route *route, out *http.Request) {
	path := ex.req.Path.Raw
	if prefix := route.config.StripPrefix; prefix != "" {
		path, _ = ex.req.Path.StripPrefix(prefix) // matched by the route, so it is there
	}
	// Opaque keeps the bytes of the path: a URL's own encoding could differ.
	// The balancer fills in scheme and host.
	out.URL = &url.URL{Opaque: path, RawQuery: ex.req.Path.Query, ForceQuery: ex.req.Path.HasQuery}
	out.Host = ex.peer.Host // what a trusted proxy says it is, as routes were matched with it
	out.Trailer = nil       // nothing checks what a client would send in it

	h := route.upstream.Headers().Admit(out.Header, ex.peer.Trusted, route.pass)
	out.Header = h
	if route.config.ForwardCredentials {
		keepCredentials(h, &ex.creds, &ex.st.cookies)
	} else {
		stripCredentials(h, &ex.creds, &ex.st.cookies, ex.consumedAuthorization())
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // none, rather than Go's own
	}
	route.editHeaders(h)
	setValid(h, "X-Forwarded-For", ex.peer.Chain)
	h["X-Forwarded-Proto"] = []string{ex.peer.Proto}
	setValid(h, "X-Forwarded-Host", ex.peer.Host)
	h["X-Request-Id"] = []string{ex.requestID}
	if ex.id != nil {
		route.upstream.Headers().Set(h, ex.id)
	}
}

// editHeaders takes the headers out of h that the route removes or sets, in
// every spelling that an upstream could read as one of them, and sets its own.
func (r *route) editHeaders(h http.Header) {
	if len(r.edited) > 0 {
		maps.DeleteFunc(h, func(name string, _ []string) bool { return r.edited[headername.Fold(name)] })
	}
	for name, value := range r.config.Headers.Set {
		h.Set(name, value)
	}
}

// consumedAuthorization reports whether the Authorization header proved the
// identity; else it belongs to the application.
func (ex *exchange) consumedAuthorization() bool {
	if ex.id == nil {
		return false
	}
	return ex.id.Mechanism == policy.Basic || (ex.id.Mechanism == policy.Bearer && ex.creds.Scheme == "bearer")
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
