package gateway

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/conn"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/store"
	"authgate/gateway/store/guard"
)

const (
	// verifiedCredentials is how many Basic credentials are remembered as
	// verified, and verifiedFor how long.
	verifiedCredentials = 10_000
	verifiedFor         = 5 * time.Minute
)

// closeAfter is how long after a reload the providers are closed that it has
// replaced.
const closeAfter = time.Minute

// AccessMessage is the message of the log's line about a request.
const AccessMessage = "request"

// Options are the parts that a Gateway is made of. All but Now and Idle are
// needed.
type Options struct {
	Config     *config.Config
	Store      store.Store // stays the caller's: the gateway does not close it
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Version    string
	Now        func() time.Time // default time.Now
	Idle       func()           // called whenever no request is under way any more; default nothing
}

// Gateway authenticates, decides and forwards. It is an http.Handler for the
// public listener and safe for concurrent use.
type Gateway struct {
	logger   *slog.Logger
	now      func() time.Time // the local clock
	shared   func() time.Time // the clock of the store, for what is stored there
	rawStore store.Store
	store    store.Store // guarded: its errors are *guard.Error
	metrics  *metrics
	pages    *pages.Pages
	throttle *auth.Throttle
	verifier *auth.Verifier
	buffers  *bufferPool
	proxyLog *log.Logger // what httputil.ReverseProxy has to say

	budget   conn.Budget  // of file descriptors
	underWay atomic.Int64 // requests
	refusing rate.Sometimes
	idle     func()
	sockets  conn.WebSockets
	streams  *streams
	draining atomic.Bool // clients should go elsewhere: it is about to stop

	reloading sync.Mutex // one build at a time
	state     atomic.Pointer[state]

	background sync.WaitGroup
	stop       context.CancelFunc // ends what is in it
}

// New returns a gateway that runs the configuration.
func New(o Options) (*Gateway, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Idle == nil {
		o.Idle = func() {}
	}
	m, err := newMetrics(o.Registerer, o.Logger, o.Version, sessionCount(o.Store))
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	p, err := pages.New()
	if err != nil {
		return nil, fmt.Errorf("reading the pages: %w", err)
	}
	limits := o.Config.Limits
	throttle := auth.NewThrottle(limits.LoginFailures, limits.LoginWindow, o.Now)
	g := &Gateway{
		logger: o.Logger, now: o.Now, shared: store.ClockOf(o.Store, o.Now), idle: o.Idle, metrics: m, pages: p,
		rawStore: o.Store,
		store:    guard.New(o.Store, m.observeStore()),
		throttle: throttle,
		verifier: auth.NewVerifier(auth.NewHasher(0), throttle, verifiedCredentials, verifiedFor, o.Now),
		buffers:  newBufferPool(),
		budget:   conn.Divide(conn.Files()), refusing: rate.Sometimes{Interval: time.Minute},
		proxyLog: LibraryLog(o.Logger.Handler(), slog.LevelWarn),
	}
	g.streams = newStreams(g.stillLetIn, g.endStream)
	if err := o.Registerer.Register(g.inFlightGauge()); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	st, err := g.build(o.Config, nil)
	if err != nil {
		return nil, err
	}
	g.state.Store(st)
	g.warn(o.Config)
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	if st.store.Check("settle") != nil {
		g.background.Go(func() { g.settleLater(ctx) })
	}
	return g, nil
}

// sessionCount counts the live sessions for the gauge, nil if s cannot.
func sessionCount(s store.Store) func() float64 {
	counter, ok := s.(store.Counter)
	if !ok {
		return nil
	}
	return func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		n, err := counter.Count(ctx, login.SessionPrefix)
		if err != nil {
			return -1 // a gauge has no other way to say "unknown"
		}
		return float64(n)
	}
}

// Config returns the configuration that runs.
func (g *Gateway) Config() *config.Config { return g.state.Load().config }

// Reload makes the gateway run the configuration that load returns.
// Everything that can fail happens before the one swap: after an error the
// old configuration runs on unchanged. Requests under way end under the
// configuration they began with, unless it no longer lets the person in.
func (g *Gateway) Reload(load func() (*config.Config, error)) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	err := g.reload(load)
	result := "success"
	if err != nil {
		result = "failure"
	}
	g.metrics.reloads.WithLabelValues(result).Inc()
	return err
}

func (g *Gateway) reload(load func() (*config.Config, error)) error {
	cfg, err := load()
	if err != nil {
		return err
	}
	old := g.state.Load()
	if err := needsRestart(old.config, cfg); err != nil {
		return err
	}
	st, err := g.build(cfg, old)
	if err != nil {
		return err
	}
	g.state.Store(st)
	g.throttle.SetLimits(cfg.Limits.LoginFailures, cfg.Limits.LoginWindow)
	for name, u := range old.upstreams {
		if st.upstreams[name] != u {
			u.CloseIdle()
		}
	}
	// Requests under way may still wait for a provider of before.
	time.AfterFunc(closeAfter, func() { old.vouching.close(&st.vouching) })
	g.warn(cfg)
	return nil
}

// ErrNeedsRestart is an error of Reload: the configuration is good, but only a
// start applies it.
var ErrNeedsRestart = errors.New("need a restart; the running configuration is kept")

// needsRestart names the keys that changed and that only a start applies.
func needsRestart(old, cfg *config.Config) error {
	var keys []string
	for _, k := range []struct {
		name     string
		old, new any
	}{
		{"listen", old.Listen, cfg.Listen},
		{"tls", old.TLS, cfg.TLS},
		{"data_dir", old.DataDir, cfg.DataDir},
		{"store", old.Store, cfg.Store},
		{"limits.max_header_bytes", old.Limits.MaxHeaderBytes, cfg.Limits.MaxHeaderBytes},
		{"log", old.Log, cfg.Log},
	} {
		if !reflect.DeepEqual(k.old, k.new) {
			keys = append(keys, k.name)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("changes of %s %w", strings.Join(keys, ", "), ErrNeedsRestart)
}

// Close ends what the gateway does beside requests. It is called when there
// are none any more.
func (g *Gateway) Close() {
	g.stop()
	g.background.Wait()
	g.state.Load().vouching.close(&vouching{})
}

// warn logs what is probably wrong with a configuration that runs.
func (g *Gateway) warn(cfg *config.Config) {
	g.warnOfDescriptors(cfg)
	for _, w := range cfg.Warnings() {
		g.logger.Warn("the configuration is probably wrong",
			"file", w.File, "line", w.Line, "column", w.Column, "key", w.Key, "problem", w.Message)
	}
	if users := cfg.DemoUsers(); len(users) > 0 {
		g.logger.Warn("demonstration passwords are configured: everybody knows them", "users", users)
	}
	if providers := cfg.DemoProviders(); len(providers) > 0 {
		g.logger.Warn("the demonstration's provider is configured: whoever listens on its port can be anybody", "providers", providers)
	}
}

// ServeHTTP implements http.Handler for the public listener.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ex := g.begin(w, r)
	defer ex.finish()
	err := ex.refusal()
	if err == nil {
		err = ex.serve()
	}
	if err != nil {
		ex.fail(err)
	}
}
