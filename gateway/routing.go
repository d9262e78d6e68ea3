package gateway

import (
	"errors"
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
			rule: rule, config: c, chain: routing.chains.Of(c, rule), identity: identity,
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
