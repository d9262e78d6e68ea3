package forward

import (
	"maps"
	"net/http"
	"slices"

	"authgate/gateway/config"
	"authgate/gateway/config/forwarding"
	"authgate/gateway/proxy/upstream"
	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/headername"
	"authgate/gateway/wire/mcp"
)

// Route is how the requests of a route are forwarded.
type Route struct {
	// Transport sends the requests to the upstream.
	Transport http.RoundTripper

	forwarder *Forwarder
	config    *config.Route
	upstream  *upstream.Upstream
	site      *web.Site
	tokens    ownTokens
	fast      bool               // the fast path is on
	public    bool               // an answer is the same for all users
	perUser   bool               // the application's HttpOnly cookies belong to the user who got them
	caching   *caching           // of answers with and without an identity; nil: there is no need
	edited    map[string]bool    // headers that the route removes or sets, folded
	fields    []http1.Field      // that the route sets
	bare      []http1.Field      // those without credentials
	pass      map[string]bool    // headers that clients may send on this route, canonical
	stripped  string             // the X-Forwarded-Prefix of a route that removes a prefix
	rewriter  *upstream.Rewriter // of responses; may be nil

	hsts, altSvc, private []string // values in headers of responses, made once
}

// ownTokens knows the gateway's own tokens.
type ownTokens interface {
	// ContainsOwn reports whether the value of an Authorization header has one of them.
	ContainsOwn(authorization string) bool
}

// RouteOptions are the parts of a Route. All are required.
type RouteOptions struct {
	Route    *config.Route
	Upstream *upstream.Upstream
	Config   forwarding.Upstream // of Upstream
	Site     *web.Site
	Tokens   ownTokens
	Public   bool // the route asks for no credentials
	// Nobody: the route also lets in requests without credentials, and ByClient: whether it
	// does may depend on the client's address.
	Nobody, ByClient bool
}

// NewRoute returns a route to an upstream.
func (f *Forwarder) NewRoute(o *RouteOptions) *Route {
	c, fields := o.Route, fieldsOf(o.Route.Headers.Set)
	r := &Route{
		Transport: o.Upstream.Transport(c.Timeout),
		forwarder: f, config: c, upstream: o.Upstream, site: o.Site, tokens: o.Tokens, public: o.Public,
		perUser: c.Cookies == config.CookiesPerUser,
		fast:    o.Config.FastPath && o.Config.ReuseConnections,
		edited:  foldAll(slices.Concat(c.Headers.Remove, slices.Collect(maps.Keys(c.Headers.Set)))),
		fields:  fields,
		bare: slices.DeleteFunc(slices.Clone(fields), func(f http1.Field) bool {
			return f.Name == "Authorization" || f.Name == "Cookie"
		}),
		pass:     canonicalAll(c.Headers.Pass),
		stripped: upstream.EncodedPrefix(c.StripPrefix),
		rewriter: upstream.NewRewriter(o.Config, c.StripPrefix),
		hsts:     []string{o.Site.HSTS}, altSvc: []string{o.Site.AltSvc}, private: []string{"private"},
	}
	if o.Nobody {
		r.caching = newCaching(c, o.Site.TokenHeader, o.ByClient)
	}
	return r
}

// fieldsOf returns the headers that a route sets, by name. The gateway's own X-Request-Id
// replaces a route's.
func fieldsOf(set map[string]string) []http1.Field {
	var fields []http1.Field
	for name, value := range set {
		if name = http.CanonicalHeaderKey(name); name != "X-Request-Id" {
			fields = append(fields, http1.Field{Name: name, Value: value})
		}
	}
	slices.SortFunc(fields, http1.ByName)
	return fields
}

// foldAll returns the set of the folded names.
func foldAll(names []string) map[string]bool {
	folded := make(map[string]bool, len(names))
	for _, name := range names {
		folded[headername.Fold(name)] = true
	}
	return folded
}

// canonicalAll returns the set of the names as the headers of a request have
// them. They are not folded: each name allows one spelling.
func canonicalAll(names []string) map[string]bool {
	canonical := make(map[string]bool, len(names))
	for _, name := range names {
		canonical[http.CanonicalHeaderKey(name)] = true
	}
	return canonical
}

// edits reports whether the route removes or sets a header, or one that an upstream
// could take for it.
func (r *Route) edits(name string) bool {
	return len(r.edited) > 0 && r.edited[headername.Fold(name)]
}

// mayPass reports whether the client may send a header to the upstream.
func (r *Route) mayPass(name string) bool {
	return !r.upstream.Headers().Refuses(name, r.pass) && !r.edits(name) && !(r.config.MCP && mcp.Imitates(name))
}
