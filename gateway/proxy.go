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
	"authgate/gateway/tracing"
	"authgate/gateway/upstream"
	"authgate/gateway/upstream/http1"
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
	if ex.keepsUpgrade(r) {
		r.Header.Set("Upgrade", web.Upgrade(r.Header)) // the proxy passes on one line alone
	} else {
		r.Header.Del("Upgrade")
	}
	if route.upstream.ByClient() {
		r = r.WithContext(upstream.WithClient(r.Context(), ex.Peer.Client))
	}
	transport := ex.traced(route.transport)
	if ex.plain() {
		if r.ContentLength > 0 { // its login may end while the body comes
			watched, release := ex.cancelable(r)
			defer release()
			r = watched
		}
		rest, err := ex.forwardPlain(r, upload)
		if rest == nil {
			return err
		}
		transport = rest
	}
	r, release := ex.cancelable(abortable(ex.owned(r)))
	defer release()
	ex.proxy(transport, upload).ServeHTTP(ex, r)
	dropTrailerCookies(ex.Header())
	if upload.Unread() {
		ex.LimitBody() // the answer came first
	}
	return ex.upstreamErr
}

// abortable returns r as a request that httputil.ReverseProxy aborts if the upstream breaks
// off its response. It looks for net/http's server, which those over HTTP/3 do not come from.
func abortable(r *http.Request) *http.Request {
	if r.Context().Value(http.ServerContextKey) != nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, (*http.Server)(nil)))
}

// proxy returns what forwards a request that is not plain.
func (ex *exchange) proxy(transport http.RoundTripper, upload *web.Upload) *httputil.ReverseProxy {
	var sent *http.Request
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			sent = pr.Out
			ex.rewrite(sent)
		},
		Transport:  transport,
		BufferPool: ex.gateway.buffers,
		ErrorLog:   ex.gateway.proxyLog,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			ex.upstreamErr = ex.route.upstream.Failure(upload.Failure(err))
		},
		ModifyResponse: func(response *http.Response) error {
			if err := ex.withoutNegotiate(response); err != nil {
				return err
			}
			chooseUpgrade(sent, response)
			ex.modify(response.StatusCode, response.Header)
			return nil
		},
	}
}

// cancelable sets cancelUpstream for a request that may have to be cancelled
// before net/http knows that its client has left: because it may become a
// WebSocket, because its login ends, or over HTTP/1.1 in any case. From then on
// streams check its login. The caller calls release after the request. A second
// call changes nothing.
func (ex *exchange) cancelable(r *http.Request) (cancelable *http.Request, release func()) {
	release = func() {}
	if ex.cancelUpstream != nil {
		return r, release
	}
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
		ex.gateway.streams.Add(&ex.stream, ex)
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
	if _, upgrades := out.Header["Upgrade"]; upgrades {
		spellHandshake(out.Header, out.Header)
	}
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
	fields := ex.appendFields(nil, h)
	maps.DeleteFunc(h, func(name string, _ []string) bool { return !ex.passes(name) })
	for _, f := range fields {
		h[f.Name] = append(h[f.Name], f.Value)
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // none, rather than Go's own
	}
}

// passes reports whether a header of the client reaches the upstream. The others
// are consumed, are not the client's to send, or get another value.
func (ex *exchange) passes(name string) bool {
	route := ex.route
	switch name {
	case "Authorization":
		if !route.config.ForwardCredentials && (ex.consumedAuthorization() || ex.ownAuthorization()) {
			return false
		}
	case "Cookie":
		if ex.changesCookies() {
			return false
		}
	case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
		return false
	case forwardedPrefix:
		if route.stripped != "" {
			return false
		}
	case tracing.Parent, tracing.State:
		if ex.trace != nil {
			return false
		}
	}
	return ex.mayPass(name)
}

// mayPass reports whether the client may send a header to the upstream.
func (ex *exchange) mayPass(name string) bool {
	route := ex.route
	return !route.upstream.Headers().Refuses(name, route.pass) && !route.edits(name)
}

// appendFields appends to fields what the gateway itself sends to the upstream, in
// place of what the client may have sent in h. Almost always they are in the order
// of their names, in which they are written.
func (ex *exchange) appendFields(fields []http1.Field, h http.Header) []http1.Field {
	route := ex.route
	if ex.changesCookies() && !route.edits("Cookie") {
		names := &ex.state.site.Cookies.Names
		for _, line := range names.ToApplication(h["Cookie"], route.config.ForwardCredentials) {
			fields = append(fields, http1.Field{Name: "Cookie", Value: line})
		}
	}
	fields = append(fields, route.fields...)
	if ex.trace != nil {
		fields = ex.appendTrace(fields)
	}
	if ex.Identity != nil {
		fields = append(fields, route.upstream.Headers().Fields(ex.Identity)...)
	}
	for _, f := range [...]http1.Field{{Name: "X-Forwarded-For", Value: ex.Peer.Chain}, {Name: "X-Forwarded-Host", Value: ex.Peer.Host}} {
		if f.Value != "" && httpguts.ValidHeaderFieldValue(f.Value) {
			fields = append(fields, f)
		}
	}
	if route.stripped != "" {
		fields = append(fields, http1.Field{Name: forwardedPrefix, Value: ex.strippedPrefix(h)})
	}
	fields = append(fields, http1.Field{Name: "X-Forwarded-Proto", Value: ex.Peer.Proto}, http1.Field{Name: "X-Request-Id", Value: ex.ID})
	return fields
}

// forwardedPrefix is the header that tells the upstream which prefix of the path was
// removed.
const forwardedPrefix = "X-Forwarded-Prefix"

// strippedPrefix returns which prefix of the path was removed. On a route that lets
// this header pass, a proxy may have removed another one before.
func (ex *exchange) strippedPrefix(h http.Header) string {
	before := h[forwardedPrefix]
	if len(before) != 1 || !strings.HasPrefix(before[0], "/") || !ex.mayPass(forwardedPrefix) {
		return ex.route.stripped
	}
	return strings.TrimSuffix(before[0], "/") + ex.route.stripped
}

// changesCookies reports whether the upstream gets other cookies than the client
// sent: without the gateway's, and with those of the application under their own
// names.
func (ex *exchange) changesCookies() bool {
	return ex.Credentials.Renamed || ex.Credentials.Cookies && !ex.route.config.ForwardCredentials
}

// edits reports whether the route removes or sets a header, or one that an upstream
// could take for it.
func (r *route) edits(name string) bool {
	return len(r.edited) > 0 && r.edited[headername.Fold(name)]
}

// consumedAuthorization reports whether the Authorization header proved the
// identity; otherwise it belongs to the application.
func (ex *exchange) consumedAuthorization() bool {
	if ex.Identity == nil {
		return false
	}
	return ex.Identity.Mechanism == policy.Basic || ex.Identity.Mechanism == policy.Bearer && ex.byAuthorization()
}

// ownAuthorization reports whether the Authorization header contains a token of the
// gateway, although it proved nothing here: on a public route, or in another spelling.
func (ex *exchange) ownAuthorization() bool {
	values := ex.Request.Header["Authorization"]
	return len(values) == 1 && ex.state.federation.Bearers.ContainsOwn(values[0])
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
