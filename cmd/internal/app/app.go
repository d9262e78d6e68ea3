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
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"authgate/cmd/internal/logqueue"
	"authgate/cmd/internal/systemd"
	"authgate/gateway"
	"authgate/gateway/audit"
	"authgate/gateway/audit/webhook"
	"authgate/gateway/config"
	"authgate/gateway/proxy/server"
	"authgate/gateway/store"
	"authgate/gateway/store/redisstore"
	"authgate/gateway/store/sqlitestore"
)

// App is a gateway with its listeners, built from a configuration file.
type App struct {
	path     string // of the configuration
	version  string
	floor    []byte
	log      *logqueue.Queue
	logger   *slog.Logger
	events   *audit.Recorder
	store    storeCloser
	metrics  *prometheus.Registry
	gateway  *gateway.Gateway
	webhooks *webhook.Sender
	server   *server.Server
	service  systemd.Service
	sockets  server.Sockets // of service

	environment config.Environment
	follower    follower
	commands    chan command // to reload
}

// Open reads the configuration at path, opens the store and the listeners, and accepts
// connections, also on the sockets of service. The log goes to stderr, and nothing waits for
// its reader. An error of type config.Diagnostics means that the configuration has mistakes.
func Open(ctx context.Context, path, version string, stderr io.Writer, service systemd.Service) (*App, error) {
	return openWith(ctx, openStore, path, version, stderr, service)
}

// storeCloser is a store that Open opens and Run closes.
type storeCloser interface {
	store.Store
	io.Closer
}

// storeOpener opens the store of a configuration: openStore, or a function of a test.
type storeOpener func(context.Context, *config.Config, *slog.Logger) (storeCloser, error)

// openWith is Open with another way to open the store.
func openWith(
	ctx context.Context, open storeOpener, path, version string, stderr io.Writer, service systemd.Service,
) (*App, error) {
	sockets, err := server.NewSockets(service.Sockets)
	if err != nil {
		return nil, err
	}
	environment := config.Environment{Sockets: sockets.Addresses()}
	cfg, files, err := load(environment, path)
	if err != nil {
		return nil, err
	}
	a := &App{
		path: path, version: version, commands: make(chan command),
		service: service, sockets: sockets, environment: environment,
		floor: newHeapFloor(), metrics: prometheus.NewRegistry(), follower: newFollower(files),
	}
	a.log, a.logger = newLog(cfg.Log, stderr, isTerminal(stderr))
	if err := a.start(ctx, open, cfg); err != nil {
		a.log.Close(lastLinesTime)
		return nil, err
	}
	a.warnOfExposure(cfg)
	a.announce(isTerminal(stderr))
	return a, nil
}

// start opens the store, and builds the gateway and its listeners on it.
func (a *App) start(ctx context.Context, open storeOpener, cfg *config.Config) error {
	err := os.MkdirAll(cfg.DataDir, 0o700)
	if err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	if a.store, err = open(ctx, cfg, a.logger); err != nil {
		return err
	}
	if err := a.record(cfg); err != nil {
		return errors.Join(err, a.store.Close())
	}
	if err := a.assemble(cfg); err != nil {
		err = errors.Join(err, a.events.Close())
		a.webhooks.Close()
		return errors.Join(err, a.store.Close())
	}
	return nil
}

// record opens the recorder of events.
func (a *App) record(cfg *config.Config) error {
	receivers, err := gateway.Receivers(cfg)
	if err != nil {
		return err
	}
	if a.webhooks, err = webhook.New(a.logger, a.metrics, receivers); err != nil {
		return err
	}
	if cfg.Log.AuditFile == "" {
		a.events = audit.NewRecorder(a.logger, a.webhooks.Send)
		return nil
	}
	a.events, err = audit.WithFile(a.logger, cfg.Log.AuditFile, cfg.DataDir, a.metrics, a.webhooks.Send)
	if err != nil {
		return fmt.Errorf("log.audit_file: %w", err)
	}
	return nil
}

// assemble builds the gateway and its listeners on the store.
func (a *App) assemble(cfg *config.Config) error {
	var err error
	a.gateway, err = gateway.New(gateway.Options{
		Config: cfg, Store: a.store, Logger: a.logger, Events: a.events, Registerer: a.metrics, Version: a.version,
		Webhooks: a.webhooks, FreeMemory: debug.FreeOSMemory, Checking: makeWay(),
	})
	if err != nil {
		return err
	}
	if err := a.listen(); err != nil {
		a.gateway.Close()
		return err
	}
	return nil
}

// listen opens the certificates and the listeners.
func (a *App) listen() error {
	certificates, err := a.openCertificates()
	if err != nil {
		return fmt.Errorf("opening the certificates: %w", err)
	}
	a.server, err = server.New(server.Options{
		Gateway: a.gateway, Certificates: certificates, Sockets: a.sockets, Registry: a.metrics, Logger: a.logger,
		Log: a.log, Events: a.events, Now: time.Now,
	})
	return err
}

// openStore opens the store that the configuration names.
func openStore(ctx context.Context, cfg *config.Config, logger *slog.Logger) (storeCloser, error) {
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

// notify sends a notice to systemd.
func (a *App) notify(notice string) {
	if a.service.Notify == nil {
		return
	}
	if err := a.service.Notify(notice); err != nil {
		a.logger.Warn("a notice does not reach systemd", "notice", notice, "error", err.Error())
	}
}

// Server returns the gateway's listeners.
func (a *App) Server() *server.Server { return a.server }

// Config returns the running configuration.
func (a *App) Config() *config.Config { return a.gateway.Config() }

// Run serves until ctx ends and requests in progress are done. Then it closes the
// listeners and the store. For each value from reload, and when a file changes, it
// reads the configuration again. It has logged the error that it returns.
func (a *App) Run(ctx context.Context, reload <-chan os.Signal) error {
	defer runtime.KeepAlive(a.floor)
	defer a.log.Close(lastLinesTime)
	var group errgroup.Group
	a.notify(systemd.Ready) // the listeners are open, so clients wait at most for the next steps
	defer context.AfterFunc(ctx, func() { a.notify(systemd.Stopping) })()
	following, stop := context.WithCancel(context.Background())
	group.Go(func() error {
		defer stop() // not when ctx ends: changes of accounts apply until the last request
		return a.server.Serve(ctx)
	})
	group.Go(func() error {
		files, closeFiles := a.watch()
		defer closeFiles()
		a.follow(following, files, reload)
		return nil
	})
	group.Go(func() error {
		a.operate(following)
		return nil
	})
	err := group.Wait()
	a.gateway.Close()
	err = errors.Join(err, a.events.Close())
	a.webhooks.Close()
	if err = errors.Join(err, a.store.Close()); err != nil {
		a.logger.Error("the gateway failed", "error", err.Error())
	}
	return err
}
