// Package app runs an authgate process: it opens the store, builds the gateway
// from a configuration file, serves, reloads and stops. It chooses the concrete
// store. The programs translate flags and signals for it.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"authgate/gateway"
	"authgate/gateway/config"
	"authgate/gateway/login"
	"authgate/gateway/server"
	"authgate/gateway/store"
	"authgate/gateway/store/redisstore"
	"authgate/gateway/store/sqlitestore"
)

// watchEvery is how often follow checks the files beside the configuration. A
// change applies when two checks in a row see the same state, so that follow does
// not read a file that is still being written. Changes apply within 10 s (design
// A).
const watchEvery = 2 * time.Second

// heapFloor is memory that is allocated and never touched, so it costs only
// address space. The garbage collector runs when the heap has grown in proportion
// to its live size, which is small in a gateway. Without the floor it would run
// every few hundred requests and be a tenth of their cost.
const heapFloor = 16 << 20

// App is a gateway with its listeners, built from a configuration file.
type App struct {
	path    string
	floor   []byte
	log     *logOutput
	logger  *slog.Logger
	store   openStore
	gateway *gateway.Gateway
	server  *server.Server

	// The state of follow:
	seen    string            // stamps of the files beside the configuration that were handled
	pending *config.Config    // to apply when the store answers again; nil: none
	told    map[string]string // failures logged since the last change, by what failed
}

// Open reads the configuration at path, opens the store and the listeners, and
// accepts connections. The log goes to stderr. An error of type
// config.Diagnostics means that the configuration has mistakes.
func Open(ctx context.Context, path, version string, stderr io.Writer) (*App, error) {
	return openOn(ctx, openConfigured, path, version, stderr)
}

// openStore is a store that Open opens and Run closes.
type openStore interface {
	store.Store
	io.Closer
}

// storeOpener opens the store of a configuration.
type storeOpener func(context.Context, *config.Config, *slog.Logger) (openStore, error)

func openOn(ctx context.Context, open storeOpener, path, version string, stderr io.Writer) (*App, error) {
	cfg, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	a := &App{path: path, log: newLogOutput(stderr), floor: make([]byte, heapFloor), told: map[string]string{}}
	a.logger = newLogger(cfg.Log, a.log)
	a.seen = stamps(cfg.SideFiles())
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	if a.store, err = open(ctx, cfg, a.logger); err != nil {
		return nil, err
	}
	if err := a.assemble(cfg, version); err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	a.warnOfExposure(cfg)
	return a, nil
}

// assemble builds the gateway and its listeners on the store.
func (a *App) assemble(cfg *config.Config, version string) error {
	registry := prometheus.NewRegistry()
	var err error
	a.gateway, err = gateway.New(gateway.Options{
		Config: cfg, Store: a.store, Logger: a.logger, Registerer: registry, Version: version,
		Idle: a.log.Flush,
	})
	if err != nil {
		return err
	}
	if err := a.listen(registry); err != nil {
		a.gateway.Close()
		return err
	}
	return nil
}

// listen opens the certificates and the listeners.
func (a *App) listen(registry *prometheus.Registry) error {
	certificates, err := a.gateway.OpenCertificates()
	if err != nil {
		return fmt.Errorf("opening the certificates: %w", err)
	}
	a.server, err = server.New(server.Options{
		Gateway: a.gateway, Certificates: certificates, Registry: registry, Logger: a.logger, Now: time.Now,
	})
	return err
}

func openConfigured(ctx context.Context, cfg *config.Config, logger *slog.Logger) (openStore, error) {
	switch cfg.Store.Driver {
	case config.StoreMemory:
		return store.NewMemory(time.Now), nil
	case config.StoreSQLite:
		return sqlitestore.Open(ctx, sqlitestore.Options{Path: cfg.Store.Path, Logger: logger})
	case config.StoreRedis:
		s := cfg.Store
		options := redisstore.Options{
			Addresses: s.Addresses, SentinelMaster: s.SentinelMaster,
			Username: s.Username, Password: s.Password.Reveal(),
			SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword.Reveal(),
			KeyPrefix: s.KeyPrefix, MaxStaleness: s.MaxStaleness, Counted: []string{login.SessionPrefix}, Logger: logger,
		}
		if s.TLS {
			options.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		return redisstore.Open(ctx, options)
	}
	return nil, fmt.Errorf("store.driver %q is not supported", cfg.Store.Driver)
}

// Server returns the gateway's listeners.
func (a *App) Server() *server.Server { return a.server }

// Config returns the running configuration.
func (a *App) Config() *config.Config { return a.gateway.Config() }

// Run serves until ctx ends and requests in progress are done. Then it closes what
// Open opened. For each value from reload it reads the configuration again.
func (a *App) Run(ctx context.Context, reload <-chan os.Signal) error {
	defer runtime.KeepAlive(a.floor)
	defer a.log.Flush()
	var group errgroup.Group
	following, stop := context.WithCancel(context.Background())
	group.Go(func() error {
		defer stop() // not when ctx ends: changes of accounts apply until the last request
		return a.server.Serve(ctx)
	})
	group.Go(func() error {
		a.follow(following, reload)
		return nil
	})
	err := group.Wait()
	a.gateway.Close()
	return errors.Join(err, a.store.Close())
}

// follow applies changes until ctx ends: of the whole configuration for each value
// from reload, and of the files beside it when they change. If the store does not
// answer, it tries again.
func (a *App) follow(ctx context.Context, reload <-chan os.Signal) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	last := a.seen // the stamps of the previous check
	for ctx.Err() == nil {
		select { // one at random, if several are ready
		case <-ctx.Done():
		case <-reload:
			a.pending = nil
			clear(a.told)
			a.applyWhole(func() (*config.Config, error) { return config.Load(a.path) })
		case <-ticker.C:
			now := stamps(a.Config().SideFiles())
			if now == last {
				a.checkFiles(now)
			} else {
				clear(a.told)
			}
			last = now
		}
	}
}

// checkFiles applies a pending configuration and changed files. now are the stamps
// of the files, which were the same at the previous check.
func (a *App) checkFiles(now string) {
	if a.pending != nil {
		if err := a.applyWhole(a.pending.Reread); gateway.Outage(err) {
			return
		}
	}
	if now == a.seen {
		return
	}
	err := a.apply("files beside the configuration", a.Config().Reread)
	// Files with mistakes, or that need a restart, wait for their next change. All
	// other failures are tried again, because the change can be a removed account.
	if _, atFault := errors.AsType[config.Diagnostics](err); err == nil || atFault || errors.Is(err, gateway.ErrNeedsRestart) {
		a.seen = now
	}
}

// applyWhole applies the whole configuration. If the store does not answer, the
// configuration stays pending.
func (a *App) applyWhole(load func() (*config.Config, error)) error {
	before := stamps(a.Config().SideFiles()) // so that a change while they are read counts at the next check
	var cfg *config.Config
	err := a.apply("configuration", func() (_ *config.Config, err error) {
		cfg, err = load()
		return cfg, err
	})
	switch {
	case err == nil:
		a.seen, a.pending = before, nil
	case gateway.Outage(err):
		a.pending = cfg
	default:
		a.pending = nil
	}
	return err
}

// apply reloads. A configuration with mistakes changes nothing, but a new
// certificate is still used.
func (a *App) apply(what string, load func() (*config.Config, error)) error {
	err := a.gateway.Reload(load)
	a.logFailure(what, err)
	refreshErr := a.server.RefreshCertificates()
	a.logFailure("certificate", refreshErr)
	if err == nil {
		a.warnOfExposure(a.Config())
	}
	if err == nil && refreshErr == nil {
		a.logger.Info("reloaded", "what", what)
	}
	return err
}

// logFailure logs each problem of err. It logs the same failure once until the next
// change.
func (a *App) logFailure(what string, err error) {
	if err == nil {
		delete(a.told, what)
		return
	}
	const kept = "reload failed, the running configuration is kept"
	again := gateway.Outage(err)
	text := err.Error()
	if again {
		text = "outage" // whatever its error
	}
	if a.told[what] == text {
		return
	}
	a.told[what] = text
	var problems config.Diagnostics
	switch {
	case errors.As(err, &problems):
		for _, p := range problems {
			a.logger.Error(kept, "what", what,
				"file", p.File, "line", p.Line, "column", p.Column, "key", p.Key, "problem", p.Message)
		}
	case again:
		a.logger.Error(kept+" until the store answers", "what", what, "error", err.Error())
	default:
		a.logger.Error(kept, "what", what, "error", err.Error())
	}
}

// stamps returns the modification times and sizes of files as one string.
func stamps(files []string) string {
	var all string
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			all += file + " missing\n"
			continue
		}
		all += fmt.Sprintln(file, info.ModTime().UnixNano(), info.Size())
	}
	return all
}
