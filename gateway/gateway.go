package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/audit"
	"authgate/gateway/audit/webhook"
	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/forward"
	"authgate/gateway/proxy/upstream"
	"authgate/gateway/proxy/web"
	"authgate/gateway/store"
	"authgate/gateway/store/guard"
	"authgate/gateway/wire/rate"
)

const (
	// verifiedCredentials is how many verified Basic credentials are remembered,
	// and verifiedFor how long.
	verifiedCredentials = 10_000
	verifiedFor         = 5 * time.Minute
)

// Options are the parts that a Gateway is made of. All but Events, Webhooks, Now, FreeMemory and Checking are
// required.
type Options struct {
	Config     *config.Config
	Store      store.Store // the gateway does not close it
	Logger     *slog.Logger
	Events     *audit.Recorder // default one that writes to Logger
	Webhooks   *webhook.Sender // gets the receivers of each further configuration; default none
	Registerer prometheus.Registerer
	Version    string
	Now        func() time.Time // default time.Now
	FreeMemory func()           // called a while after password checks; default nothing
	Checking   func(goes bool)  // called as password checks begin, and as the last ends; default nothing

	explains bool // for an Explainer: signs assertions with a key that no application trusts
}

// Gateway authenticates, decides and forwards. It is an http.Handler for the
// public listener and safe for concurrent use.
type Gateway struct {
	service   web.Service
	version   string
	storage   storage
	webhooks  *webhook.Sender // may be nil
	throttle  *auth.Throttle
	verifier  *auth.Verifier
	inFlight  inFlight
	exchanges exchanges

	differences *differences // of decisions from those with every next in place

	forwarder *forward.Forwarder
	shared    *rate.Shared // counts of routes that instances share; nil: they share none

	explains bool // see Options

	reloading sync.Mutex // one build at a time
	state     atomic.Pointer[state]

	background    sync.WaitGroup
	backgroundCtx context.Context    // of the background work
	stop          context.CancelFunc // ends it
}

// storage is where the gateway keeps logins.
type storage struct {
	raw     store.Store
	guarded store.Store      // its errors are *guard.Error
	now     func() time.Time // of the store, for what is stored there
}

// ping asks whether the store answers, if it is on another machine.
func (s *storage) ping(ctx context.Context) error {
	if pinger, ok := s.raw.(store.Pinger); ok {
		return pinger.Ping(ctx)
	}
	return nil
}

// New returns a gateway that runs the configuration.
func New(o Options) (*Gateway, error) {
	g, err := assemble(o)
	if err != nil {
		return nil, err
	}
	for _, u := range g.upstreams() {
		u.Watch()
	}
	g.inFlight.warn(o.Logger, o.Config)
	logWarnings(o.Logger, o.Config)
	g.background.Go(func() { g.settle(g.backgroundCtx) })
	g.background.Go(func() { g.followEnds(g.backgroundCtx) })
	if shares(o.Config) {
		g.background.Go(func() { (&changesFollower{gateway: g}).run(g.backgroundCtx) })
	}
	return g, nil
}

// assemble returns a gateway that has no background work.
func assemble(o Options) (*Gateway, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Events == nil {
		o.Events = audit.NewRecorder(o.Logger)
	}
	metrics, err := web.NewMetrics(o.Registerer, o.Logger, o.Version, newSessionCount(o))
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	throttle := auth.NewThrottle(o.Config.Limits.LoginFailures, o.Config.Limits.LoginWindow, o.Now)
	guarded := guard.New(o.Store, metrics.Store())
	g := &Gateway{
		version:   o.Version,
		service:   web.Service{Logger: o.Logger, Events: o.Events, Metrics: metrics, Now: o.Now},
		storage:   storage{raw: o.Store, guarded: guarded, now: store.ClockOf(o.Store, o.Now)},
		webhooks:  o.Webhooks,
		throttle:  throttle,
		verifier:  auth.NewVerifier(throttle, verifiedCredentials, verifiedFor, o.Now),
		forwarder: forward.New(o.Logger),
		inFlight:  newInFlight(),

		differences: newDifferences(),

		explains: o.explains,
	}
	g.verifier.FreeMemory(o.FreeMemory)
	g.verifier.Checking(o.Checking)
	g.backgroundCtx, g.stop = context.WithCancel(context.Background())
	if quotas := guarded.Quotas(); quotas != nil {
		g.shared = rate.NewShared(quotas)
	}
	targets := func() iter.Seq2[string, *upstream.Upstream] { return maps.All(g.upstreams()) }
	for _, collector := range append(g.gauges(), web.Targets(targets)) {
		if err := o.Registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	st, err := g.build(o.Config, g.storage.now(), noState(), false)
	if err != nil {
		return nil, err
	}
	g.state.Store(st)
	return g, nil
}

// Config returns the configuration that runs.
func (g *Gateway) Config() *config.Config { return g.state.Load().config }

// upstreams returns the upstreams of the configuration that runs.
func (g *Gateway) upstreams() map[string]*upstream.Upstream {
	if st := g.state.Load(); st != nil {
		return st.routing.upstreams
	}
	return nil
}

// Close ends the background work of the gateway. No request may be in flight.
func (g *Gateway) Close() {
	g.stop()
	g.background.Wait()
	if g.shared != nil {
		g.shared.Close()
	}
	for _, u := range g.upstreams() {
		u.Close()
	}
	closeAll(g.state.Load().unused(noState(), g.service.Logger))
}

// ServeHTTP implements http.Handler for the public listener.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ex := g.begin(w, r)
	defer ex.finish()
	err := ex.serve()
	if err == nil && ex.sent.Exchange != nil {
		err = ex.sent.Send()
	}
	if err != nil && !errors.Is(err, web.ErrAnswered) {
		ex.fail(err)
	}
}
