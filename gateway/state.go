package gateway

import (
	"fmt"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/peer"
	"authgate/gateway/seal"
	"authgate/gateway/store/guard"
	"authgate/gateway/tracing"
	"authgate/gateway/web"
)

// state is everything made from one configuration. It does not change while it
// runs, so that a request reads it without locks.
type state struct {
	config     *config.Config
	loaded     time.Time      // when the configuration was loaded, by the clock of the store
	told       *config.Config // whose accounts the other instances know; nil: none
	withdrawn  []string       // what other instances have taken from its users since
	site       *web.Site
	inFlight   int64 // requests at once
	trusted    peer.Proxies
	gate       *guard.Gate
	tracer     *tracing.Tracer // nil: no traces
	mechanisms *mechanisms
	federation *federation
	crossSite  *web.CrossSite
	routing    *routing
	endpoints  map[string]*endpoint.Endpoint // by path
	home       *endpoint.Endpoint            // at / without a route
	verify     string                        // the path of verify, which is served on the way of routes
}

// build makes the state of cfg. It takes over what is the same in old, which is
// nil at the start: providers with their keys, upstreams with their connections. The
// configuration was loaded at that time. See openGate for strict.
func (g *Gateway) build(cfg *config.Config, loaded time.Time, old *state, strict bool) (*state, error) {
	gate := guard.NewGate(g.storage.guarded)
	u, withdrawn, err := g.effectiveUsers(cfg, loaded, old)
	if err != nil {
		return nil, err
	}
	var running *mechanisms
	var told *config.Config
	if old != nil {
		running, told = old.mechanisms, old.told
	}
	m, err := newMechanisms(cfg, u, gate, g.storage.now, g.verifier, running)
	if err != nil {
		return nil, err
	}
	f, err := newFederation(cfg, m, gate, g.storage.now, &g.service, old)
	if err != nil {
		return nil, err
	}
	box, err := csrfBox(cfg)
	if err != nil {
		return nil, err
	}
	site, err := web.NewSite(cfg, &g.service)
	if err != nil {
		return nil, err
	}
	site.ProviderOrigins = f.origins
	st := &state{
		config: cfg, loaded: loaded, told: told, withdrawn: withdrawn, site: site,
		inFlight: g.load.limit(cfg), trusted: cfg.Listen.TrustedProxies,
		gate: gate, mechanisms: m, federation: f, crossSite: web.NewCrossSite(site, box),
	}
	site.CSRFToken = st.crossSite.Token
	st.verify = st.site.Own(config.EndpointVerify)
	st.routing = newRouting(cfg, st.site, m, f, newUpstreams(cfg, &g.service, g.CloseIdleUpstreams, old), g.newLimiters(cfg, old))
	options := g.endpointOptions(st)
	if st.endpoints, err = endpoint.New(options); err != nil {
		return nil, fmt.Errorf("own endpoints: %w", err)
	}
	st.home = endpoint.NewHome(options)
	if st.tracer, err = g.newTracer(cfg, old); err != nil {
		return nil, err
	}
	// Last, because it leaves a trace in the store.
	if err := g.openGate(st, old, strict); err != nil {
		if old == nil || st.tracer != old.tracer {
			g.closeTracer(st.tracer)
		}
		return nil, err
	}
	return st, nil
}

// csrfBox returns what makes anti-CSRF tokens, nil if none are demanded.
func csrfBox(cfg *config.Config) (*seal.Box, error) {
	if !cfg.Session.CSRFToken {
		return nil, nil
	}
	return storeBox(cfg)
}

func (g *Gateway) endpointOptions(st *state) endpoint.Options {
	return endpoint.Options{
		Names: st.config.OwnEndpoints(), Site: st.site, Now: g.storage.now,
		CrossSite: st.crossSite, Realm: st.config.Basic.Realm, JWKS: st.mechanisms.jwks, Used: st.routing.used,
		Passwords: passwords{g, st.config},
		Local:     st.mechanisms.Local, Federation: st.federation.Federation, Bearers: st.federation.bearers,
	}
}
