package gateway

import (
	"errors"
	"fmt"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/endpoint/own"
	"authgate/gateway/login"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/proxy/tracing"
	"authgate/gateway/proxy/web"
	"authgate/gateway/store/guard"
)

// state is everything made from one configuration. It does not change while it
// runs, so that a request reads it without locks.
type state struct {
	config      *config.Config
	loaded      time.Time      // when the configuration was loaded, by the clock of the store
	announced   *config.Config // whose accounts the other instances know; nil: none
	withdrawn   []string       // the accounts and roles that other instances have withdrawn since
	site        *web.Site
	maxInFlight int64 // requests at once
	gate        *guard.Gate
	tracer      *tracing.Tracer // nil: no traces
	mechanisms  *mechanism.Local
	federation  *mechanism.Federation
	oauth       *mechanism.OAuth // nil: the gateway is no authorization server
	crossSite   *web.CrossSite
	routing     *routing
	own         *own.Endpoints
}

// noState is the predecessor of the first state, and the successor of the last one.
func noState() *state {
	return &state{federation: &mechanism.Federation{}, routing: &routing{}}
}

// isNone reports whether st is noState.
func (st *state) isNone() bool { return st.config == nil }

// build makes the state of cfg. It reuses the parts of old that have not changed: providers with
// their keys, upstreams with their connections. The configuration was loaded at that time. See
// openGate for durable.
func (g *Gateway) build(cfg *config.Config, loaded time.Time, old *state, durable bool) (*state, error) {
	if cfg.AwaitsAuthority() && !g.explains {
		return nil, errors.New("ca.pem is missing in data_dir; a restart makes it")
	}
	gate := guard.NewGate(g.storage.guarded)
	u, withdrawn, err := g.effectiveUsers(cfg, loaded, old)
	if err != nil {
		return nil, err
	}
	options := mechanism.Options{
		Config: cfg, Accounts: u.local, BasicUsers: u.basic, Store: gate, Now: g.storage.now, Verifier: g.verifier,
		LocalNow: g.service.Now, Logger: g.service.Logger, Events: g.service.Events,
		Observe: g.service.Metrics.Provider, Explains: g.explains,
	}
	st := &state{
		config: cfg, loaded: loaded, announced: old.announced, withdrawn: withdrawn, gate: gate,
		maxInFlight: g.inFlight.limit(cfg),
	}
	if err := st.newMechanisms(&options, old); err != nil {
		return nil, err
	}
	st.mechanisms.Logins.OnEnd(func(ended *login.Login) { g.forwarder.Streams().CheckLogin(ended.ID) })
	if err := st.newSite(&g.service); err != nil {
		return nil, err
	}
	st.routing = g.newRouting(st, old)
	if st.own, err = g.newOwn(st, old); err != nil {
		return nil, fmt.Errorf("own endpoints: %w", err)
	}
	if err := st.newTracer(old, g.version); err != nil {
		return nil, err
	}
	// Last, because it leaves a trace in the store.
	if err := g.openGate(st, old, durable); err != nil {
		if st.tracer != old.tracer {
			closeTracer(st.tracer, g.service.Logger)
		}
		return nil, err
	}
	return st, nil
}

// newMechanisms makes the mechanisms, and the grants of the authorization server. It reuses the
// unchanged parts of old.
func (st *state) newMechanisms(o *mechanism.Options, old *state) (err error) {
	if st.mechanisms, err = mechanism.NewLocal(o, old.mechanisms); err != nil {
		return err
	}
	if st.federation, err = mechanism.NewFederation(o, st.mechanisms, old.federation); err != nil {
		return err
	}
	st.oauth, err = mechanism.NewOAuth(o, st.mechanisms, st.federation)
	return err
}

// newSite makes the site of the mechanisms, and its protection against other sites.
func (st *state) newSite(service *web.Service) (err error) {
	if st.site, err = web.NewSite(st.config, service); err != nil {
		return err
	}
	if st.crossSite, err = web.NewCrossSite(st.site, st.config); err != nil {
		return err
	}
	st.site.ProviderOrigins, st.site.CSRFToken = st.federation.Origins, st.crossSite.Token
	st.site.EndedByTime = st.mechanisms.Logins.EndedByTime
	return nil
}

// newOwn makes the own endpoints of st. It takes over the counts of old.
func (g *Gateway) newOwn(st, old *state) (*own.Endpoints, error) {
	return own.New(&own.Options{
		Config: st.config, Counts: g.shared, Running: old.own,
		Site: st.site, CrossSite: st.crossSite, Now: g.storage.now, Local: st.mechanisms, Federation: st.federation,
		OAuth: st.oauth, Editor: editor{g, st.config},
	})
}
