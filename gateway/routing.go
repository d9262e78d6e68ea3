package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/login/chain"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/proxy/forward"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/upstream"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/cors"
	"authgate/gateway/wire/rate"
	"authgate/policy"
)

// routing are the routes of a configuration and the upstreams behind them.
type routing struct {
	table     *policy.Table
	routes    []route // by the table's index
	upstreams map[string]*upstream.Upstream
	chains    *chain.Chains
}

// route has the parts of the gateway for a route of the table.
type route struct {
	rule     *policy.Route // decides
	next     *next         // nil: none of its policies has a next
	config   *config.Route
	chain    chain.Chain               // finds out who makes a request
	forward  *forward.Route            // nil: the route is for verify only
	identity *upstream.IdentityHeaders // of the upstream, or the default ones
	limiter  *rate.Limiter             // nil: no rate
	cors     *cors.Policy              // nil: the application decides
	signIn   web.SignInLink            // also where a user who is not signed in can be redirected
	tells    bool                      // its 401 says where users sign in
}

// newUpstreams returns the upstreams of a configuration by their names. Those
// that are the same in old are taken over with their connections.
func (g *Gateway) newUpstreams(st, old *state) map[string]*upstream.Upstream {
	metrics := g.service.Metrics
	upstreams := map[string]*upstream.Upstream{}
	for name, c := range st.config.Upstreams {
		headers := st.identityHeaders(name)
		if known := old.routing.upstreams[name]; known != nil && known.Same(c, headers) {
			upstreams[name] = known
			continue
		}
		upstreams[name] = upstream.New(upstream.Options{
			Name: name, Config: c, Headers: headers, Took: metrics.Upstream(name),
			Metrics: metrics.UpstreamMetrics(name),
			Logger:  g.service.Logger, Now: g.service.Now, FreeDescriptors: g.CloseIdleUpstreams,
		})
	}
	return upstreams
}

// identityHeaders returns the identity headers for the upstream of that name.
func (st *state) identityHeaders(name string) *upstream.IdentityHeaders {
	cfg, c, service := st.config, st.config.Upstreams[name], st.site.Service
	o := upstream.HeaderOptions{
		Names: *c.IdentityHeaders, Others: cfg.IdentityHeaders, Roles: c.Roles,
		Token: cfg.Token.Header, Logger: service.Logger,
	}
	if a := c.Assertion; a != nil {
		o.Assertion = &upstream.Assertion{
			Header: a.Header, Keys: st.mechanisms.PublicKeys, Issuer: cfg.Token.Issuer, Audience: a.Audience,
			Lifetime: a.Lifetime, Now: service.Now,
		}
	}
	return upstream.NewIdentityHeaders(o)
}

// newChains returns by which mechanisms routes find out who makes a request.
func (st *state) newChains() *chain.Chains {
	o := chain.Options{
		Config: st.config, Site: st.site, Bearers: st.federation.Bearers, Tokens: st.mechanisms.API,
		Authenticators: mechanism.Authenticators(st.mechanisms, st.federation),
	}
	if st.oauth != nil {
		o.Grants = st.oauth.Grants
	}
	return chain.New(o)
}

// newRouting returns the routing of a configuration. It reuses the parts of old that have not changed.
func (g *Gateway) newRouting(st, old *state) *routing {
	cfg, site, f := st.config, st.site, st.federation
	upstreams, limiters := g.newUpstreams(st, old), st.newLimiters(old, g.shared)
	routing := &routing{table: cfg.Table(), upstreams: upstreams, chains: st.newChains()}
	identity := upstream.NewIdentityHeaders(upstream.HeaderOptions{
		Names: cfg.IdentityHeaders, Token: cfg.Token.Header, Logger: g.service.Logger,
	})
	for i, rule := range routing.table.Routes() {
		c := &cfg.Routes[i]
		r := route{
			rule: rule, next: g.newNext(rule), config: c, chain: routing.chains.Of(c, rule), identity: identity,
			limiter: limiters[c.Name],
			cors:    newCORS(&c.CORS),
			signIn:  signInFor(rule, site, f),
			tells:   slices.ContainsFunc(rule.Mechanisms, func(m policy.Mechanism) bool { return m.Traits().Login }),
		}
		if c.Upstream != "" {
			u := upstreams[c.Upstream]
			r.identity = u.Headers()
			r.forward = g.forwarder.NewRoute(&forward.RouteOptions{
				Route: c, Upstream: u, Config: cfg.Upstreams[c.Upstream], Site: site, Tokens: f.Bearers,
				Public: rule.Public(),
				Nobody: rule.AdmitsNobody(), ByClient: rule.LooksAtClient(),
			})
		}
		routing.routes = append(routing.routes, r)
	}
	return routing
}

// lookup returns the route of a request, nil if there is none.
func (r *routing) lookup(request *policy.Request) *route {
	found, ok := r.table.Lookup(request)
	if !ok {
		return nil
	}
	return &r.routes[found.Index]
}

// findRoute is lookup for a request that is to be served: no route, or a path that has two meanings, is an
// error.
func (r *routing) findRoute(request *policy.Request) (*route, error) {
	switch found, err := r.table.Find(request); {
	case err == nil:
		return &r.routes[found.Index], nil
	case errors.Is(err, policy.ErrNoRoute):
		return nil, endpoint.NothingHere("no route matches")
	default:
		return nil, err
	}
}

// signInFor returns where a user can sign in for a route: at the identity provider
// itself if the route accepts nothing else and there is no choice, else on the sign-in page, with
// the mechanisms of the route.
func signInFor(rule *policy.Route, site *web.Site, f *mechanism.Federation) web.SignInLink {
	local, delegated := rule.Accepts(policy.Session), rule.Accepts(policy.OIDC)
	if !local && !delegated {
		return web.SignInLink{}
	}
	page := site.Own("signin")
	switch {
	case !local:
		page += "?mechanism=" + string(policy.OIDC)
	case !delegated && len(f.Providers) > 0:
		page += "?mechanism=" + string(policy.Session)
	}
	link := web.SignInLink{Page: page, Switch: places.WithParameter(page, web.SwitchField, "1"), Return: true}
	if !local && f.Default != nil {
		link.Page = site.Own("login")
	}
	return link
}

// newLimiters returns the limiters of the routes of st with a rate, by the names of the
// routes. A limiter whose rate is the same in old is taken over with its counts, so
// that a reload lets no additional requests through. shared has the counts of all
// instances; nil: they share none.
func (st *state) newLimiters(old *state, shared *rate.Shared) map[string]*rate.Limiter {
	known := map[string]*rate.Limiter{}
	for i := range old.routing.routes {
		if r := &old.routing.routes[i]; r.limiter != nil {
			known[rateName(r.config)] = r.limiter
		}
	}
	limiters := map[string]*rate.Limiter{}
	for i := range st.config.Routes {
		c := &st.config.Routes[i]
		limit := rate.Limit{Requests: c.Rate.Requests, Per: c.Rate.Per}
		if limit.Requests == 0 {
			continue
		}
		limiter := known[rateName(c)]
		if limiter == nil || limiter.Limit() != limit {
			limiter = rate.New(rateName(c), limit, st.site.Service.Now, shared)
		}
		limiters[c.Name] = limiter
	}
	return limiters
}

// rateName is the name under which instances share the counts of a route.
func rateName(c *config.Route) string { return c.Rate.By + ":" + c.Name }

// limit counts a request if the route counts by that, and refuses it if it is beyond the rate.
func (r *route) limit(ex *web.Exchange, by string) error {
	if r.limiter == nil || r.config.Rate.By != by {
		return nil
	}
	key := rate.ClientKey(ex.Canonical.Client)
	if by == config.RateByUser && ex.Identity != nil { // requests without credentials count by address, too
		key = rate.UserKey(ex.Identity.Subject)
	}
	err := r.limiter.Take(&ex.Store, key)
	var limited *rate.LimitedError
	if errors.As(err, &limited) && limited.First { // one event for each window: the access log has them all
		ex.Audit("denied", slog.String("reason", limited.Error()))
	}
	return err
}

// withSlash reports whether a request is for the prefix that its route removes, without the
// slash behind it, and the prefix with the slash leads to the same application. Relative links
// of the page would lead out of the prefix, and the application does not know of it.
func (r *routing) withSlash(found *route, request *policy.Request) bool {
	prefix := found.config.StripPrefix
	if prefix == "" || request.Path.Decoded != prefix || request.Path.Slashed != "" {
		return false
	}
	below := *request
	below.Path.Raw += "/"
	below.Path.Decoded += "/"
	there := r.lookup(&below)
	return there != nil && there.forward != nil && there.config.StripPrefix == prefix
}

// addSlash leads a request for the prefix of its route to the prefix with a slash, also one
// without credentials.
func (ex *exchange) addSlash() error {
	if !ex.state.routing.withSlash(ex.route, &ex.Canonical) {
		return nil
	}
	place := ex.Canonical.Path.Raw + "/"
	if ex.Canonical.Path.HasQuery {
		place += "?" + ex.Canonical.Path.Query
	}
	ex.Decision = web.DecisionAllow
	ex.Reason = "the prefix that the route removes is led to itself with a slash"
	return ex.leadTo(http.StatusPermanentRedirect, place)
}
