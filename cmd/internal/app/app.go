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
	store   store.Store
	gateway *gateway.Gateway
	server  *gateway.Server
	seen    string // stamps of the files beside the configuration that runs
}

// Open reads the configuration at path and opens everything it names; from
// then on clients can connect. The log goes to stderr. An error of the type
// config.Diagnostics means that the configuration is at fault.
func Open(ctx context.Context, path, version string, stderr io.Writer) (*App, error) {
	cfg, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	a := &App{path: path, log: newLogOutput(stderr), floor: make([]byte, heapFloor)}
	a.logger = newLogger(cfg.Log, a.log)
	a.seen = stamps(cfg.SideFiles())
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	if a.store, err = openStore(ctx, cfg, a.logger); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	a.gateway, err = gateway.New(gateway.Options{
		Config: cfg, Store: a.store, Logger: a.logger, Registerer: registry, Version: version,
		Idle: a.log.Flush,
	})
	if err == nil {
		if a.server, err = gateway.NewServer(a.gateway, registry); err != nil {
			a.gateway.Close()
		}
	}
	if err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	return a, nil
}

func openStore(ctx context.Context, cfg *config.Config, logger *slog.Logger) (store.Store, error) {
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
func (a *App) Server() *gateway.Server { return a.server }

// Config is the configuration that runs.
func (a *App) Config() *config.Config { return a.gateway.Config() }

// Run serves until ctx ends and requests under way are done, and closes what
// Open opened. Each value from reload makes it read the configuration anew.
func (a *App) Run(ctx context.Context, reload <-chan os.Signal) error {
	defer runtime.KeepAlive(a.floor)
	defer a.log.Flush()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.server.Serve(ctx) })
	group.Go(func() error {
		a.follow(ctx, reload)
		return nil
	})
	err := group.Wait()
	a.gateway.Close()
	return errors.Join(err, a.store.Close())
}

// follow applies changes of the configuration until ctx ends: of the whole
// on demand, of the files beside it by itself.
func (a *App) follow(ctx context.Context, reload <-chan os.Signal) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last string // what the look before saw
	for {
		select {
		case <-ctx.Done():
			return
		case <-reload:
			// Before the files are read: what changes while they are is seen next time.
			a.seen = stamps(a.Config().SideFiles())
			a.apply("configuration", func() (*config.Config, error) { return config.Load(a.path) })
		case <-ticker.C:
			now := stamps(a.Config().SideFiles())
			if now != a.seen && now == last {
				a.seen = now
				a.apply("files beside the configuration", a.Config().Reread)
			}
			last = now
		}
	}
}

// apply reloads. A configuration that is at fault changes nothing, but does
// not keep a fresh certificate from being used.
func (a *App) apply(what string, load func() (*config.Config, error)) {
	err := a.gateway.Reload(load)
	a.logFailure(what, err)
	refreshErr := a.server.RefreshCertificates()
	a.logFailure("certificate", refreshErr)
	if err == nil && refreshErr == nil {
		a.logger.Info("reloaded", "what", what)
	}
}

// logFailure logs what is wrong, problem by problem.
func (a *App) logFailure(what string, err error) {
	if err == nil {
		return
	}
	var problems config.Diagnostics
	if errors.As(err, &problems) {
		for _, p := range problems {
			a.logger.Error("reload failed, the running configuration is kept", "what", what,
				"file", p.File, "line", p.Line, "column", p.Column, "key", p.Key, "problem", p.Message)
		}
		return
	}
	a.logger.Error("reload failed, the running configuration is kept", "what", what, "error", err.Error())
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
