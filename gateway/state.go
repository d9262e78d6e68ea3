package gateway

import (
	"fmt"
	"maps"
	"time"

	"authgate/gateway/account"
	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/mechanism"
	"authgate/gateway/oauth"
	"authgate/gateway/rate"
	"authgate/gateway/signin"
	"authgate/gateway/startpage"
	"authgate/gateway/store/guard"
	"authgate/gateway/tracing"
	"authgate/gateway/web"
)

// state is everything made from one configuration. It does not change while it
// runs, so that a request reads it without locks.
type state struct {
	config        *config.Config
	loaded        time.Time      // when the configuration was loaded, by the clock of the store
	told          *config.Config // whose accounts the other instances know; nil: none
	taken         []string       // what other instances have taken from its users since
	site          *web.Site
	inFlight      int64 // requests at once
	gate          *guard.Gate
	tracer        *tracing.Tracer // nil: no traces
	mechanisms    *mechanism.Local
	federation    *mechanism.Federation
	oauth         *mechanism.OAuth // nil: the gateway is no authorization server
	crossSite     *web.CrossSite
	routing       *routing
	endpoints     map[string]*endpoint.Endpoint // by path
	home          *endpoint.Endpoint            // at / without a route
	registrations *rate.Limiter                 // of OAuth clients, by address; nil without an authorization server
	verify        string                        // the path of verify, which is served on the way of routes
}

// build makes the state of cfg. It takes over what is the same in old, which is
// nil at the start: providers with their keys, upstreams with their connections. The
// configuration was loaded at that time. See openGate for strict.
func (g *Gateway) build(cfg *config.Config, loaded time.Time, old *state, strict bool) (*state, error) {
	gate := guard.NewGate(g.storage.guarded)
	u, taken, err := g.effectiveUsers(cfg, loaded, old)
	if err != nil {
		return nil, err
	}
	made := mechanism.Options{
		Config: cfg, Accounts: u.local, BasicUsers: u.basic, Store: gate, Now: g.storage.now, Verifier: g.verifier,
		Service: &g.service, Shown: g.shown,
	}
	running := old
	if old == nil {
		running = &state{}
	}
	st := &state{
		config: cfg, loaded: loaded, told: running.told, taken: taken, inFlight: g.load.limit(cfg), gate: gate,
	}
	if err := st.newMechanisms(&made, running); err != nil {
		return nil, err
	}
	if err := st.newSite(&g.service); err != nil {
		return nil, err
	}
	st.routing = g.newRouting(st, old)
	if err := g.mount(st); err != nil {
		return nil, fmt.Errorf("own endpoints: %w", err)
	}
	if st.tracer, err = g.newTracer(cfg, old); err != nil {
		return nil, err
	}
	// Last, because it leaves a trace in the store.
	if err := g.openGate(st, old, strict); err != nil {
		if old == nil || st.tracer != old.tracer {
			closeTracer(st.tracer, g.service.Logger)
		}
		return nil, err
	}
	return st, nil
}

// newMechanisms makes what proves identities, and the grants of the authorization server. It takes
// over what is the same in running.
func (st *state) newMechanisms(made *mechanism.Options, running *state) (err error) {
	if st.mechanisms, err = mechanism.NewLocal(made, running.mechanisms); err != nil {
		return err
	}
	if st.federation, err = mechanism.NewFederation(made, st.mechanisms, running.federation); err != nil {
		return err
	}
	st.oauth, err = mechanism.NewOAuth(made, st.mechanisms, st.federation)
	return err
}

// newSite makes the site of the mechanisms, and its protection against other sites.
func (st *state) newSite(service *web.Service) (err error) {
	if st.site, err = web.NewSite(st.config, service); err != nil {
		return err
	}
	if st.crossSite, err = newCrossSite(st.config, st.site); err != nil {
		return err
	}
	st.site.ProviderOrigins, st.site.CSRFToken = st.federation.Origins, st.crossSite.Token
	st.verify = st.site.Own(config.EndpointVerify)
	return nil
}

// newCrossSite returns the protection of a site against other sites. It demands
// anti-CSRF tokens if the configuration does.
func newCrossSite(cfg *config.Config, site *web.Site) (*web.CrossSite, error) {
	if !cfg.Session.CSRFToken {
		return web.NewCrossSite(site, nil), nil
	}
	box, err := mechanism.StoreBox(cfg)
	if err != nil {
		return nil, err
	}
	return web.NewCrossSite(site, box), nil
}

// mount makes the own endpoints of st.
func (g *Gateway) mount(st *state) (err error) {
	o := &endpoint.Options{
		Site: st.site, CrossSite: st.crossSite, Now: g.storage.now, Realm: st.config.Basic.Realm, Used: st.routing.used,
		Local: st.mechanisms, Federation: st.federation, OAuth: st.oauth, Routes: st.routing.table,
		Apps:   st.config.HasApps(),
		Admins: st.config.Admins(), Editor: editor{g, st.config},
	}
	o.MayAddFactor = account.MayAddFactor(o.Editor, st.mechanisms.Proofs)
	s := signin.New(o)
	rows := append(s.Rows, account.Rows(o, s, ownAccounts{g})...)
	start := startpage.New(o, st.config)
	rows, st.home = append(rows, start.Rows()...), start.Home()
	var server *oauth.Server
	if st.oauth != nil {
		if server, err = g.newServer(st, o, s.Logout); err != nil {
			return err
		}
		rows = append(rows, server.Rows()...)
	}
	if st.endpoints, err = endpoint.New(o, st.config.OwnEndpoints(), rows); err != nil || server == nil {
		return err
	}
	maps.Copy(st.endpoints, server.WellKnown())
	st.mechanisms.Logins.OnEnd(server.LoginEnded)
	return nil
}

// newServer makes the authorization server of st. A limit that stays the same keeps its counts.
func (g *Gateway) newServer(st *state, o *endpoint.Options, logout *signin.Logout) (*oauth.Server, error) {
	section := &st.config.OAuth
	limit := rate.Limit{Requests: section.RegistrationRate.Requests, Per: section.RegistrationRate.Per}
	if running := g.state.Load(); running != nil {
		st.registrations = running.registrations
	}
	if st.registrations == nil || st.registrations.Limit() != limit {
		st.registrations = rate.New("oauth:registration", limit, g.service.Now, g.shared)
	}
	return oauth.New(oauth.Options{
		Endpoint: o, Config: st.config, Clients: st.oauth.Clients, Grants: st.oauth.Grants, IDKeys: st.mechanisms.PublicKeys,
		Logout: logout, Registrations: st.registrations,
	})
}
