package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/login"
	"authgate/gateway/peer"
	"authgate/gateway/seal"
	"authgate/gateway/store/guard"
	"authgate/gateway/upstream"
	"authgate/policy"
)

// state is everything made from one configuration. It is not changed after
// build, so that a request reads it without locks.
type state struct {
	config    *config.Config
	public    *url.URL // public_url
	hosts     hosts
	inFlight  int64 // requests at once
	trusted   peer.Proxies
	table     *policy.Table
	routes    []route // by the table's index
	upstreams map[string]*upstream.Upstream
	endpoints map[string]endpoint // by path

	store       *guard.Gate
	cookies     auth.CookieNames
	accounts    *auth.Accounts
	logins      *login.Logins
	sessions    *login.Sessions
	bearer      *login.AccessTokens // the gateway's own tokens
	bearers     *login.BearerTokens // and those of others
	refresh     *login.RefreshTokens
	signedIn    auth.Chain                // what own endpoints accept
	used        map[policy.Mechanism]bool // by some route
	jwks        []byte
	crossOrigin *http.CrossOriginProtection
	csrf        *seal.Box // makes anti-CSRF tokens; nil: none are asked for
	hsts        string    // Strict-Transport-Security; empty: not sent
	vouching
}

// route is what the gateway does for a route of the table, beyond deciding.
type route struct {
	config    config.Route
	chain     auth.Chain
	upstream  *upstream.Upstream
	transport http.RoundTripper
	edited    map[string]bool // headers that the route removes or sets, folded
	pass      map[string]bool // headers that clients may send on this route, canonical
	modify    func(*http.Response) error
	signIn    string // where a person who is not signed in can be sent; empty: nowhere
}

// build makes the state of cfg. Upstreams that are the same in old are taken
// over with their connections.
func (g *Gateway) build(cfg *config.Config, old *state) (*state, error) {
	st := &state{
		config: cfg, inFlight: g.inFlight(cfg), upstreams: map[string]*upstream.Upstream{}, used: map[policy.Mechanism]bool{},
		cookies: auth.CookieNames{Session: cfg.Session.Cookie}, store: guard.NewGate(g.store),
	}
	if cfg.Token.Delivery == deliveryCookie {
		st.cookies.Access, st.cookies.Refresh = accessCookie, refreshCookie
	}
	st.buildOrigin()
	for _, step := range []func() error{
		func() error { return g.buildMechanisms(st) },
		func() error { return g.buildVouching(st, old) },
		func() error { return st.buildTransport() },
		func() error { g.buildUpstreams(st, old); return nil },
		func() error { return g.buildRoutes(st) },
		func() error { return g.settle(st, old) }, // last: it is the one that leaves a trace
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	st.endpoints = st.ownEndpoints()
	return st, nil
}

func (st *state) buildOrigin() {
	st.public, st.hosts, st.trusted = st.config.PublicURL, newHosts(st.config), st.config.Listen.TrustedProxies
	st.crossOrigin = http.NewCrossOriginProtection()
	if err := st.crossOrigin.AddTrustedOrigin(st.public.String()); err != nil {
		panic(err) // package config has found that it is an origin
	}
}

// buildTransport makes what guards the way between browser and gateway.
func (st *state) buildTransport() error {
	if age := st.config.TLS.HSTS; age > 0 {
		st.hsts = fmt.Sprintf("max-age=%d", int(age.Seconds()))
	}
	if !st.config.Session.CSRFToken {
		return nil
	}
	var err error
	st.csrf, err = storeBox(st.config)
	return err
}

// buildMechanisms makes the mechanisms. Their caches are new with each state,
// so that nothing verified under other accounts or keys is left in them.
func (g *Gateway) buildMechanisms(st *state) error {
	cfg := st.config
	accounts, err := auth.NewAccounts(localAccounts(cfg.Accounts.Users))
	if err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	keys, err := login.LoadKeys(cfg.Token.Algorithm, cfg.Token.Secret.Reveal(), cfg.Token.PrivateKey, cfg.DataDir)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if st.jwks, err = keys.JWKS(); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	st.accounts = accounts
	st.logins = login.NewLogins(st.store, g.shared)
	st.sessions = login.NewSessions(login.SessionOptions{
		Lifetime: cfg.Session.Lifetime, Idle: cfg.Session.IdleTimeout,
	}, accounts, st.logins)
	st.bearer = login.NewAccessTokens(login.AccessTokenOptions{
		Issuer: cfg.Token.Issuer, Audience: cfg.Token.Audience,
		Lifetime: cfg.Token.AccessLifetime, Realm: cfg.Basic.Realm,
	}, keys, accounts, st.logins)
	st.refresh = login.NewRefreshTokens(login.RefreshOptions{
		Lifetime: cfg.Token.RefreshLifetime, Leeway: cfg.Token.ReuseLeeway, Bind: cfg.Token.BindRefresh,
	}, accounts, st.logins)
	return nil
}

func localAccounts(users []config.Account) []auth.Account {
	accounts := make([]auth.Account, len(users))
	for i, u := range users {
		accounts[i] = auth.Account{
			Username: u.Username, PasswordHash: u.PasswordHash.Reveal(),
			Name: u.Name, Email: u.Email, Roles: u.Roles, Disabled: u.Disabled,
		}
	}
	return accounts
}

func basicUsers(users []config.BasicUser) []auth.Account {
	accounts := make([]auth.Account, len(users))
	for i, u := range users {
		accounts[i] = auth.Account{Username: u.Username, PasswordHash: u.PasswordHash.Reveal()}
	}
	return accounts
}

func (g *Gateway) buildUpstreams(st *state, old *state) {
	for name, cfg := range st.config.Upstreams {
		headers := upstream.NewIdentityHeaders(st.config.IdentityHeaders, *cfg.IdentityHeaders)
		if old != nil && old.upstreams[name] != nil && old.upstreams[name].Same(cfg, headers) {
			st.upstreams[name] = old.upstreams[name]
			continue
		}
		st.upstreams[name] = upstream.New(upstream.Options{
			Name: name, Config: cfg, Headers: headers, Took: g.metrics.upstreamDuration.WithLabelValues(name),
			Now: g.now, Short: g.CloseIdleUpstreams,
		})
	}
}

func (g *Gateway) buildRoutes(st *state) error {
	basic, err := auth.NewAccounts(basicUsers(st.config.Basic.Users))
	if err != nil {
		return fmt.Errorf("basic: %w", err)
	}
	mechanisms := map[policy.Mechanism]auth.Authenticator{
		policy.Basic:   auth.NewBasic(st.config.Basic.Realm, basic, g.verifier),
		policy.Bearer:  st.bearers,
		policy.Session: st.sessions,
		policy.OIDC:    st.delegated,
	}
	st.signedIn = auth.Chain{st.bearers, st.sessions}
	if st.delegated != nil {
		st.signedIn = append(st.signedIn, st.delegated)
	}
	st.table = st.config.Table()
	for i, rule := range st.table.Routes() {
		cfg := st.config.Routes[i]
		r := route{config: cfg, upstream: st.upstreams[cfg.Upstream]}
		// Authorization before cookies, in whatever order the route names them.
		for _, m := range []policy.Mechanism{policy.Basic, policy.Bearer, policy.Session, policy.OIDC} {
			if rule.Accepts(m) {
				r.chain = append(r.chain, mechanisms[m])
				st.used[m] = true
			}
		}
		r.signIn = st.signInFor(rule)
		r.modify = g.modifier(st, rule.Public(), cfg.Upstream)
		r.edited = foldAll(slices.Concat(cfg.Headers.Remove, slices.Collect(maps.Keys(cfg.Headers.Set))))
		r.pass = canonicalAll(cfg.Headers.Pass)
		r.transport = r.upstream.Through(cfg.Timeout)
		st.routes = append(st.routes, r)
	}
	return nil
}

// signInFor returns where a person can sign in for a route, empty if nowhere:
// straight at the provider where the route accepts nothing else and there is
// no choice, else on the sign-in page, with what the route accepts.
func (st *state) signInFor(rule *policy.Route) string {
	local, delegated := rule.Accepts(policy.Session), rule.Accepts(policy.OIDC)
	switch {
	case !local && !delegated:
		return ""
	case !local && st.defaultProvider() != nil:
		return st.own("login")
	case !local:
		return st.own("signin") + "?mechanism=" + string(policy.OIDC)
	case !delegated && len(st.providers) > 0:
		return st.own("signin") + "?mechanism=" + string(policy.Session)
	}
	return st.own("signin")
}

// own returns the path of an own endpoint.
func (st *state) own(name string) string {
	return st.config.Endpoints.Prefix + strings.TrimPrefix(name, "/")
}
