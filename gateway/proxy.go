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
	transport := route.transport
	if ex.plain() {
		rest, err := ex.forwardPlain(r, upload)
		if rest == nil {
			return err
		}
		transport = rest
	}
	if !route.upstream.Cleartext() {
		r = r.WithContext(upstream.LimitInformational(r.Context()))
	}
	r, release := ex.cancelable(r)
	defer release()
	proxy := httputil.ReverseProxy{
		Rewrite:    func(pr *httputil.ProxyRequest) { ex.rewrite(pr.Out) },
		Transport:  transport,
		BufferPool: ex.gateway.buffers,
		ErrorLog:   ex.gateway.proxyLog,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			ex.upstreamErr = route.upstream.Failure(upload.Failure(err))
		},
		ModifyResponse: func(response *http.Response) error {
			ex.modify(response.StatusCode, response.Header)
			return nil
		},
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
// WebSocket, because its login ends, or over HTTP/1.1 in any case. From then on
// streams check its login. The caller calls release after the request.
func (ex *exchange) cancelable(r *http.Request) (cancelable *http.Request, release func()) {
	release = func() {}
	_, upgrades := r.Header["Upgrade"]
	if !upgrades {
		ex.cancelUpstream = conn.Cancel(r)
	}
	if upgrades || ex.cancelUpstream == nil && ex.Identity != nil {
		ctx, cancel := context.WithCancel(r.Context())
		ex.cancelUpstream, release = cancel, cancel
		r = r.WithContext(ctx)
	}
	if ex.cancelUpstream != nil {
		ex.gateway.streams.add(ex)
	}
	return r, release
}

// rewrite makes the request to the upstream. It runs after the removal of
// hop-by-hop headers, so that Connection cannot remove what is set here.
func (ex *exchange) rewrite(out *http.Request) {
	// Opaque keeps the bytes of the path: a URL's own encoding could differ.
	// The balancer fills in scheme and host.
	out.URL = &url.URL{Opaque: ex.upstreamPath(), RawQuery: ex.Canonical.Path.Query, ForceQuery: ex.Canonical.Path.HasQuery}
	out.Host = ex.Peer.Host // as a trusted proxy tells it, because routes were matched with it
	out.Trailer = nil       // its fields are not checked
	ex.rewriteHeader(out.Header)
}

// upstreamPath returns the path that the upstream gets.
func (ex *exchange) upstreamPath() string {
	path := ex.Canonical.Path.Raw
	if prefix := ex.route.config.StripPrefix; prefix != "" {
		path, _ = ex.Canonical.Path.StripPrefix(prefix) // the route matched it, so it is there
	}
	return path
}

// rewriteHeader makes the header of the request that the upstream gets from that
// of the client, which has no hop-by-hop fields. It does not change the values.
func (ex *exchange) rewriteHeader(h http.Header) {
	route := ex.route
	route.upstream.Headers().Strip(h, ex.Peer.Trusted, route.pass)
	if names := &ex.state.site.Cookies.Names; route.config.ForwardCredentials {
		keepCredentials(h, &ex.Credentials, names)
	} else {
		stripCredentials(h, &ex.Credentials, names, ex.consumedAuthorization())
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // none, rather than Go's own
	}
	route.editHeaders(h)
	own := [...]string{ex.Peer.Proto, ex.ID, ex.Peer.Chain, ex.Peer.Host} // one allocation
	h["X-Forwarded-Proto"], h["X-Request-Id"] = own[0:1:1], own[1:2:2]
	setValid(h, "X-Forwarded-For", own[2:3:3])
	setValid(h, "X-Forwarded-Host", own[3:4:4])
	if ex.Identity != nil {
		route.upstream.Headers().Set(h, ex.Identity)
	}
}

func setValid(h http.Header, name string, value []string) {
	if value[0] != "" && httpguts.ValidHeaderFieldValue(value[0]) {
		h[name] = value
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
