// Package app is the life of an authgate process: it opens the store, builds
// the gateway from a configuration file, serves, reloads and stops. Programs
// translate flags and signals for it; the concrete parts are chosen here.
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
	"authgate/gateway/server"
	"authgate/gateway/store"
	"authgate/gateway/store/redisstore"
	"authgate/gateway/store/sqlitestore"
)

// watchEvery is how often the files beside the configuration are looked at. A
// change applies when two looks in a row see the same, so that no file is read
// that is still being written; that is within the 10 s of the design.
const watchEvery = 2 * time.Second

// heapFloor is memory that is allocated and never touched, so it costs address
// space alone. The garbage collector lets the heap grow in proportion to what
// is in use, which is next to nothing in a small gateway: without the floor it
// would run every few hundred requests, and be a tenth of their cost.
const heapFloor = 16 << 20

// App is one gateway on its listeners, made from a configuration file.
type App struct {
	path    string
	floor   []byte
	log     *logOutput
	logger  *slog.Logger
	store   openStore
	gateway *gateway.Gateway
	server  *server.Server

	// What follow knows:
	seen    string            // stamps of the files beside the configuration that were dealt with
	pending *config.Config    // that was asked for while the store was away; nil: none
	told    map[string]string // the failures that were logged since the last change, by what failed
}

// Open reads the configuration at path and opens everything it names; from
// then on clients can connect. The log goes to stderr. An error of the type
// config.Diagnostics means that the configuration is at fault.
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

// assemble makes the gateway and its listeners on the store.
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
			KeyPrefix: s.KeyPrefix, MaxStaleness: s.MaxStaleness, Logger: logger,
		}
		if s.TLS {
			options.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		return redisstore.Open(ctx, options)
	}
	return nil, fmt.Errorf("store.driver %q is not supported", cfg.Store.Driver)
}

// Server is the gateway's listeners.
func (a *App) Server() *server.Server { return a.server }

// Config is the configuration that runs.
func (a *App) Config() *config.Config { return a.gateway.Config() }

// Run serves until ctx ends and requests under way are done, and closes what
// Open opened. Each value from reload makes it read the configuration anew.
func (a *App) Run(ctx context.Context, reload <-chan os.Signal) error {
	defer runtime.KeepAlive(a.floor)
	defer a.log.Flush()
	var group errgroup.Group
	following, stop := context.WithCancel(context.Background())
	group.Go(func() error {
		defer stop() // not when ctx ends: until the last request is answered, who is removed has to go
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

// follow applies changes of the configuration until ctx ends: of the whole
// on demand, of the files beside it by itself. What cannot be applied through
// no fault of its own, as while the store is away, is tried again.
func (a *App) follow(ctx context.Context, reload <-chan os.Signal) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	last := a.seen // what the look before saw
	for ctx.Err() == nil {
		select { // by chance, where more than one is due
		case <-ctx.Done():
		case <-reload:
			a.pending = nil
			clear(a.told)
			a.applyWhole(func() (*config.Config, error) { return config.Load(a.path) })
		case <-ticker.C:
			now := stamps(a.Config().SideFiles())
			if now == last {
				a.look(now)
			} else {
				clear(a.told)
			}
			last = now
		}
	}
}

// look applies what has changed by itself, or could not be applied before. now
// are the stamps of the files, which were the same at the last look.
func (a *App) look(now string) {
	if a.pending != nil && gateway.Outage(a.applyWhole(a.pending.Reread)) || now == a.seen {
		return
	}
	err := a.apply("files beside the configuration", a.Config().Reread)
	// Files at fault, or for a restart, are dealt with until they change. Whatever
	// else fails is tried again: it may be an account that must not get in any more.
	if _, atFault := errors.AsType[config.Diagnostics](err); err == nil || atFault || errors.Is(err, gateway.ErrNeedsRestart) {
		a.seen = now
	}
}

// applyWhole applies a configuration that was asked for. While the store is
// away, and for no other reason, it stays to be applied.
func (a *App) applyWhole(load func() (*config.Config, error)) error {
	before := stamps(a.Config().SideFiles()) // what changes while they are read is seen next time
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
		a.pending = nil // as if there had been no outage
	}
	return err
}

// apply reloads. A configuration that is at fault changes nothing, but does
// not keep a fresh certificate from being used.
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

// logFailure logs what is wrong, problem by problem, unless it has since the
// last change.
func (a *App) logFailure(what string, err error) {
	if err == nil {
		delete(a.told, what)
		return
	}
	const kept = "reload failed, the running configuration is kept"
	again := gateway.Outage(err)
	text := err.Error()
	if again {
		text = "outage" // however it shows
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

// stamps tells in one string which state files are in.
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
