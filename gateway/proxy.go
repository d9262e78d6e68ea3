package gateway

import (
	"context"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/conn"
	"authgate/gateway/headername"
	"authgate/gateway/upstream"
	"authgate/gateway/web"
	"authgate/policy"
)

// forward sends the request to the route's upstream and its response back.
// What is sent is what was decided on: the path's bytes as they came, the
// identity that was proved, and nothing that the client says in its place.
func (ex *exchange) forward() error {
	route := ex.route
	r, upload := ex.Upload()
	defer upload.Stop()
	if limit := route.config.MaxBody; limit > 0 {
		if r.ContentLength > limit {
			return &http.MaxBytesError{Limit: limit}
		}
		r.Body = http.MaxBytesReader(ex, r.Body, limit)
	}
	if protocol := web.Upgrade(r.Header); protocol != "" && !strings.EqualFold(protocol, "websocket") {
		r.Header.Del("Upgrade") // another protocol would carry requests that no route decides on
	}
	if !route.upstream.Cleartext() {
		r = r.WithContext(upstream.LimitInformational(r.Context()))
	}
	r, release := ex.cancelable(r)
	defer release()
	if ex.cancelUpstream != nil {
		ex.gateway.streams.add(ex)
	}
	proxy := httputil.ReverseProxy{
		Rewrite:    func(pr *httputil.ProxyRequest) { ex.rewrite(pr.Out) },
		Transport:  route.transport,
		BufferPool: ex.gateway.buffers,
		ErrorLog:   ex.gateway.proxyLog,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			ex.upstreamErr = route.upstream.Failure(upload.Failure(err))
		},
		ModifyResponse: route.modify,
	}
	if ex.HasStale() {
		proxy.ModifyResponse = ex.clearing
	}
	proxy.ServeHTTP(ex, r)
	dropTrailerCookies(ex.Header())
	if upload.Unread() {
		ex.LimitBody() // the answer came first
	}
	return ex.upstreamErr
}

// cancelable sets cancelUpstream for a request that may have to be cancelled
// before net/http knows that its client has left: because it may become a
// WebSocket, because its login ends, or over HTTP/1.1 in any case. The caller
// calls release after the request.
func (ex *exchange) cancelable(r *http.Request) (cancelable *http.Request, release func()) {
	if _, upgrades := r.Header["Upgrade"]; !upgrades {
		if ex.cancelUpstream = conn.Cancel(r); ex.cancelUpstream != nil || ex.Identity == nil {
			return r, func() {}
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	ex.cancelUpstream = cancel
	return r.WithContext(ctx), cancel
}

// rewrite makes the request to the upstream. It runs after the removal of
// hop-by-hop headers, so that Connection cannot remove what is set here.
func (ex *exchange) rewrite(out *http.Request) {
	route := ex.route
	path := ex.Canonical.Path.Raw
	if prefix := route.config.StripPrefix; prefix != "" {
		path, _ = ex.Canonical.Path.StripPrefix(prefix) // the route matched it, so it is there
	}
	// Opaque keeps the bytes of the path: a URL's own encoding could differ.
	// The balancer fills in scheme and host.
	out.URL = &url.URL{Opaque: path, RawQuery: ex.Canonical.Path.Query, ForceQuery: ex.Canonical.Path.HasQuery}
	out.Host = ex.Peer.Host // as a trusted proxy tells it, because routes were matched with it
	out.Trailer = nil       // its fields are not checked

	h := route.upstream.Headers().Admit(out.Header, ex.Peer.Trusted, route.pass)
	out.Header = h
	if names := &ex.state.site.Cookies.Names; route.config.ForwardCredentials {
		keepCredentials(h, &ex.Credentials, names)
	} else {
		stripCredentials(h, &ex.Credentials, names, ex.consumedAuthorization())
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // none, rather than Go's own
	}
	route.editHeaders(h)
	setValid(h, "X-Forwarded-For", ex.Peer.Chain)
	h["X-Forwarded-Proto"] = []string{ex.Peer.Proto}
	setValid(h, "X-Forwarded-Host", ex.Peer.Host)
	h["X-Request-Id"] = []string{ex.ID}
	if ex.Identity != nil {
		route.upstream.Headers().Set(h, ex.Identity)
	}
}

func setValid(h http.Header, name, value string) {
	if value != "" && httpguts.ValidHeaderFieldValue(value) {
		h[name] = []string{value}
	}
}

// editHeaders removes from h the headers that the route removes or sets, in
// every spelling that an upstream could take for one of them, and sets its own.
func (r *route) editHeaders(h http.Header) {
	if len(r.edited) > 0 {
		maps.DeleteFunc(h, func(name string, _ []string) bool { return r.edited[headername.Fold(name)] })
	}
	for name, value := range r.config.Headers.Set {
		h.Set(name, value)
	}
}

// consumedAuthorization reports whether the Authorization header proved the
// identity; otherwise it belongs to the application.
func (ex *exchange) consumedAuthorization() bool {
	if ex.Identity == nil {
		return false
	}
	return ex.Identity.Mechanism == policy.Basic || (ex.Identity.Mechanism == policy.Bearer && ex.Credentials.Scheme == "bearer")
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
