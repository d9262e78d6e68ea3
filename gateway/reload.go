package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"authgate/gateway/config"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/conn"
)

// closeAfter is how long after a reload the replaced providers and the replaced
// tracer are closed.
const closeAfter = time.Minute

// ErrNeedsRestart is an error of Reload: the configuration is valid, but only a
// restart applies it.
var ErrNeedsRestart = errors.New("need a restart; the running configuration is kept")

// Reload makes the gateway run the configuration that load returns. Everything
// that can fail happens before one swap: after an error the old configuration
// runs on unchanged. A store that cannot be written is no such error: the accounts apply
// as they are configured, and the store learns of it later. Requests in flight end under the configuration that they
// began with, unless the new one no longer lets the user in.
func (g *Gateway) Reload(load func() (*config.Config, error)) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	err := g.reload(reload{load: load, loaded: g.storage.now()})
	g.service.Metrics.Reload(err)
	return err
}

// reload is one change of the configuration that runs.
type reload struct {
	load   func() (*config.Config, error)
	loaded time.Time // when load reads the configuration, or has read it
	// durable makes it an error that the store cannot record the accounts. Otherwise they apply,
	// and the store learns of them later.
	durable bool
	ready   func(next *state) // called just before the swap; nil: nothing is
}

// reload is Reload for a caller that holds g.reloading.
func (g *Gateway) reload(r reload) error {
	cfg, err := r.load()
	if err != nil {
		return err
	}
	old := g.state.Load()
	if err := needsRestart(old.config, cfg); err != nil {
		return err
	}
	st, err := g.build(cfg, r.loaded, old, r.durable)
	if err != nil {
		return err
	}
	if r.ready != nil {
		r.ready(st)
	}
	g.state.Store(st)
	g.throttle.SetLimits(cfg.Limits.LoginFailures, cfg.Limits.LoginWindow)
	for name, u := range old.routing.upstreams {
		if st.routing.upstreams[name] != u {
			u.Close()
		}
	}
	for _, u := range st.routing.upstreams {
		u.Watch()
	}
	// Requests in flight may still wait for an old provider, and end old traces. The
	// timer holds nothing else of the old state.
	if closes := old.unused(st, g.service.Logger); len(closes) > 0 {
		time.AfterFunc(closeAfter, func() { closeAll(closes) })
	}
	g.endOutdated(old, st)
	g.load.warn(g.service.Logger, cfg)
	warn(g.service.Logger, cfg)
	return nil
}

// unused returns functions that end the background work of st that kept does not use.
func (st *state) unused(kept *state, logger *slog.Logger) []func() {
	closes := st.federation.Unused(kept.federation)
	if tracer := st.tracer; tracer != kept.tracer {
		closes = append(closes, func() { closeTracer(tracer, logger) })
	}
	return closes
}

func closeAll(closes []func()) {
	for _, end := range closes {
		end()
	}
}

// needsRestart returns an error that names the changed keys that only a restart
// applies.
func needsRestart(old, cfg *config.Config) error {
	keys := old.NeedsRestart(cfg)
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("changes of %s %w", strings.Join(keys, ", "), ErrNeedsRestart)
}

// warn logs the warnings about a configuration that runs.
func warn(logger *slog.Logger, cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		logger.Warn("the configuration is probably wrong",
			"file", w.File, "line", w.Line, "column", w.Column, "key", w.Key, "problem", w.Message)
	}
	if users := cfg.DemoUsers(); len(users) > 0 {
		logger.Warn("demonstration passwords are configured: they are public", "users", users)
	}
	if clients := cfg.DemoClients(); len(clients) > 0 {
		logger.Warn("the client secret of the demonstration is configured: it is public", "clients", clients)
	}
}

// load counts the requests in flight and bounds them.
type load struct {
	budget   conn.Budget // of file descriptors
	inFlight atomic.Int64
	refusing rate.Sometimes // bounds the log of refused requests
}

func newLoad() load {
	return load{budget: conn.Divide(conn.Files()), refusing: rate.Sometimes{Interval: time.Minute}}
}

// limit returns how many requests are served at once under a configuration.
func (l *load) limit(cfg *config.Config) int64 {
	if n := cfg.Limits.InFlight; n > 0 {
		return int64(min(n, l.budget.Requests))
	}
	return int64(l.budget.Requests)
}

// warn logs that limits.in_flight is more than the process can serve.
func (l *load) warn(logger *slog.Logger, cfg *config.Config) {
	if n := cfg.Limits.InFlight; n > l.budget.Requests {
		logger.Warn("limits.in_flight is more than the file descriptors allow: "+
			"raise the limit (ulimit -n, LimitNOFILE)",
			"in_flight", n, "file_descriptors", l.budget.Files, "applies", l.budget.Requests)
	}
}

// beginRequest counts a request if fewer than limit are in flight.
func (l *load) beginRequest(limit int64) bool {
	for {
		n := l.inFlight.Load()
		if n >= limit {
			return false
		}
		if l.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// endRequest removes a request that beginRequest has counted.
func (l *load) endRequest() { l.inFlight.Add(-1) }

// checkInFlight refuses a request that is one too many.
func (ex *exchange) checkInFlight() error {
	if ex.counted {
		return nil
	}
	ex.gateway.load.refusing.Do(func() {
		ex.gateway.service.Logger.Warn("requests are refused: as many are in flight as limits.in_flight or the file "+
			"descriptors allow", "limit", ex.state.inFlight)
	})
	return web.Busy("Too many requests are being served at once. Try again.",
		errors.New("too many requests are in flight"))
}

// gauge returns the metric of the requests in flight.
func (l *load) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "authgate_requests_in_flight", Help: "Requests that are being served, streams and WebSockets included.",
	}, func() float64 { return float64(l.inFlight.Load()) })
}
