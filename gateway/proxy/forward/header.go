package forward

import (
	"maps"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/proxy/tracing"
	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/wire/clientcert"
	"authgate/policy"
)

// rewrite makes the request to the upstream. It runs after the removal of
// hop-by-hop headers, so that Connection cannot remove fields that are set
// here.
func (q *Request) rewrite(out *http.Request) {
	ex := q.Exchange
	// Opaque keeps the bytes of the path: a URL's own encoding could differ.
	// The balancer fills in scheme and host.
	path := &ex.Canonical.Path
	out.URL = &url.URL{Opaque: q.Route.path(path), RawQuery: path.Query, ForceQuery: path.HasQuery}
	out.Host = ex.Peer.Host // as a trusted proxy tells it, because routes were matched with it
	out.Trailer = nil       // its fields are not checked
	q.rewriteHeader(out.Header)
	if _, upgrades := out.Header["Upgrade"]; upgrades {
		spellHandshake(out.Header, out.Header)
	}
}

// Described returns the path with the query, and the header, that the upstream would
// get of a request that is only described.
func (q *Request) Described() (path string, h http.Header) {
	ex := q.Exchange
	path = q.Route.Target(&ex.Canonical.Path)
	h = ex.Request.Header.Clone()
	upgrade := ""
	if q.Route.keepsUpgrade(ex.Request) {
		upgrade = h.Get("Upgrade")
	}
	h.Del("Upgrade")
	h.Del("Connection")
	q.Trace.Send(q.Route.config.Upstream, ex.Request.Method)
	q.rewriteHeader(h)
	if upgrade != "" {
		h.Set("Connection", "Upgrade")
		h.Set("Upgrade", upgrade)
		spellHandshake(h, h)
	}
	for name, values := range h {
		if values == nil {
			delete(h, name) // for ReverseProxy: the field is not to be added
		}
	}
	return path, h
}

// path returns a path of the route as the upstream gets it.
func (r *Route) path(canonical *policy.Path) string {
	prefix := r.config.StripPrefix
	if prefix == "" {
		return canonical.Raw
	}
	path, _ := canonical.StripPrefix(prefix) // the route matched it, so it is there
	return path
}

// Target returns a path of the route with its query as the upstream gets them.
func (r *Route) Target(canonical *policy.Path) string {
	if canonical.HasQuery {
		return r.path(canonical) + "?" + canonical.Query
	}
	return r.path(canonical)
}

// rewriteHeader makes the header of the request that the upstream gets from that
// of the client, which has no hop-by-hop fields. It does not change the values.
func (q *Request) rewriteHeader(h http.Header) {
	fields := q.appendFields(nil, h)
	maps.DeleteFunc(h, func(name string, _ []string) bool { return !q.passes(name) })
	if q.Named != nil {
		q.Named.Drop(q.Route.edits)
		q.Route.upstream.Name(q.Named, h, q.Exchange.Peer.Host)
	}
	for _, f := range fields {
		h[f.Name] = append(h[f.Name], f.Value)
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // none, rather than Go's own
	}
}

// passes reports whether a header of the client reaches the upstream. The others
// are consumed, are not the client's to send, or get another value.
func (q *Request) passes(name string) bool {
	switch name {
	case "Authorization":
		if !q.Route.config.ForwardCredentials && q.ownAuthorization() {
			return false
		}
	case "Cookie":
		if q.changesCookies() {
			return false
		}
	case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
		return false
	case clientcert.Header, clientcert.ChainHeader:
		if !q.Exchange.Peer.Trusted { // only a proxy knows them
			return false
		}
	case forwardedPrefix:
		if q.Route.stripped != "" {
			return false
		}
	case tracing.Parent, tracing.State:
		if q.Trace != nil {
			return false
		}
	}
	return q.Route.mayPass(name)
}

// appendFields appends to fields those that the gateway itself sends to the
// upstream, in place of those of the client in h. Almost always they are in the
// order of their names, in which they are written.
func (q *Request) appendFields(fields []http1.Field, h http.Header) []http1.Field {
	ex, route := q.Exchange, q.Route
	if q.changesCookies() && !route.edits("Cookie") {
		names, keep := &route.site.Cookies.Names, route.config.ForwardCredentials
		for _, line := range names.ToApplication(h["Cookie"], keep, q.owner()) {
			fields = append(fields, http1.Field{Name: "Cookie", Value: line})
		}
	}
	if q.Preflight {
		fields = append(fields, route.bare...)
	} else {
		fields = append(fields, route.fields...)
	}
	if q.Trace != nil {
		fields = q.appendTrace(fields)
	}
	if ex.Identity != nil {
		fields = append(fields, route.upstream.Headers().Fields(ex.Identity)...)
	}
	for _, f := range [...]http1.Field{
		{Name: "X-Forwarded-For", Value: ex.Peer.Chain},
		{Name: "X-Forwarded-Host", Value: ex.Peer.Host},
	} {
		if f.Value != "" && httpguts.ValidHeaderFieldValue(f.Value) {
			fields = append(fields, f)
		}
	}
	if route.stripped != "" {
		fields = append(fields, http1.Field{Name: forwardedPrefix, Value: route.strippedPrefix(h)})
	}
	return append(fields,
		http1.Field{Name: "X-Forwarded-Proto", Value: ex.Peer.Proto},
		http1.Field{Name: "X-Request-Id", Value: ex.ID})
}

// appendTrace appends the headers that name the span of the request to the
// upstream, unless the route sets or removes them.
func (q *Request) appendTrace(fields []http1.Field) []http1.Field {
	parent, state := q.Trace.Fields()
	if parent == "" || q.Route.edits(tracing.Parent) {
		return fields
	}
	fields = append(fields, http1.Field{Name: tracing.Parent, Value: parent})
	if state != "" && !q.Route.edits(tracing.State) {
		fields = append(fields, http1.Field{Name: tracing.State, Value: state})
	}
	return fields
}

// forwardedPrefix is the header that tells the upstream which prefix of the path was
// removed.
const forwardedPrefix = "X-Forwarded-Prefix"

// strippedPrefix returns which prefix of the path was removed. On a route that lets
// this header pass, a proxy may have removed another one before.
func (r *Route) strippedPrefix(h http.Header) string {
	before := h[forwardedPrefix]
	if len(before) != 1 || !strings.HasPrefix(before[0], "/") || !r.mayPass(forwardedPrefix) {
		return r.stripped
	}
	return strings.TrimSuffix(before[0], "/") + r.stripped
}

// changesCookies reports whether the upstream gets other cookies than the client
// sent: without the gateway's, and with those of the application under their own
// names.
func (q *Request) changesCookies() bool {
	creds := &q.Exchange.Credentials
	return creds.Renamed || (creds.Cookies || creds.Notes) && !q.Route.config.ForwardCredentials
}

// ownAuthorization reports whether the Authorization header is the gateway's: it proved the
// identity, or it contains a token of the gateway, although it proved nothing here, on a
// public route or in another spelling. Otherwise it belongs to the application.
func (q *Request) ownAuthorization() bool {
	creds := &q.Exchange.Credentials
	if id := q.Exchange.Identity; id != nil && !creds.Apart {
		if id.Mechanism == policy.Basic || id.Mechanism == policy.Bearer && creds.PresentsToken() {
			return true
		}
	}
	values := q.Exchange.Request.Header["Authorization"]
	return len(values) == 1 && q.Route.tokens.ContainsOwn(values[0])
}
