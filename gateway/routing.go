package gateway

import (
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

// route is what the gateway does for a route of the table.
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
			Name: name, Config: c, Headers: headers, Took: metrics.Upstream(name), Metrics: metrics.UpstreamMetrics(name),
			Logger: g.service.Logger, Now: g.service.Now, FreeDescriptors: g.CloseIdleUpstreams,
		})
	}
	return upstreams
}

// identityHeaders returns what identities look like to the upstream of that name.
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
				Route: c, Upstream: u, Config: cfg.Upstreams[c.Upstream], Site: site, Tokens: f.Bearers, Public: rule.Public(),
				Nobody: rule.AdmitsNobody(), ByClient: rule.LooksAtClient(),
			})
		}
		routing.routes = append(routing.routes, r)
	}
	return routing
}

// find returns the route of a request, nil if there is none.
func (r *routing) find(request *policy.Request) *route {
	match, ok := r.table.Match(request)
	if !ok {
		return nil
	}
	route := &r.routes[match.Index]
	if !route.accepts(&request.Path) {
		return nil
	}
	return route
}

// match is find for a request that is to be served: no route, or a path that has
// two meanings, is an error.
func (r *routing) match(request *policy.Request) (*route, error) {
	match, ok := r.table.Match(request)
	switch {
	case ok && r.opaque(match.Index):
		return &r.routes[match.Index], r.table.CheckReadings(request, r.opaque)
	case request.Path.Opaque:
		return nil, errOpaque()
	}
	if request.Path.Slashed != "" {
		if !ok || !r.routes[match.Index].keepsSlashes() {
			return nil, policy.ErrEncodedSlash
		}
		if err := r.table.CheckSlashes(request, match); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, endpoint.NothingHere("no route matches")
	}
	if err := r.table.CheckParameters(request, match); err != nil {
		return nil, err
	}
	return &r.routes[match.Index], r.table.CheckDecoding(request, match)
}

// opaque reports whether a route takes paths that servers may read in several ways.
func (r *routing) opaque(index int) bool {
	return r.routes[index].config.EncodedSlashes == config.EncodedSlashesOpaque
}

// accepts reports whether the route takes a path of this form.
func (r *route) accepts(path *policy.Path) bool {
	if r.config.EncodedSlashes == config.EncodedSlashesOpaque {
		return true
	}
	return !path.Opaque && (path.Slashed == "" || r.keepsSlashes())
}

func (r *route) keepsSlashes() bool { return r.config.EncodedSlashes == config.EncodedSlashesKeep }

// errOpaque is for a path that only the opaque routes of a host could take.
func errOpaque() error {
	return &policy.TargetError{
		Reason: "the path can be read in several ways, and no route of this host takes such paths there"}
}

// signInFor returns where a user can sign in for a route: at the identity provider
// itself if the route accepts nothing else and there is no choice, else on the
// sign-in page, with what the route accepts.
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
