package app

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"authgate/gateway/certs"
	"authgate/gateway/certs/acme"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/gateway/store"
	"authgate/gateway/store/seal"
)

// load reads the configuration. If that names the gateway's own authority, which is not there at the first start, load
// makes it and reads again.
func load(from config.Environment, path string) (*config.Config, []config.File, error) {
	cfg, files, err := from.LoadFiles(path)
	if err != nil || !cfg.AwaitsAuthority() {
		return cfg, files, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("data_dir: %w", err)
	}
	options := certs.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Now: time.Now}
	if _, err := certs.Open(options); err != nil {
		return nil, nil, fmt.Errorf("opening the certificates: %w", err)
	}
	return from.LoadFiles(path)
}

// openCertificates returns the certificates that tls.mode names, or nil if it is off.
// Instances on Redis share the certificates that an authority issues.
func (a *App) openCertificates() (certs.Source, error) {
	cfg := a.Config()
	options := certs.Options{Config: cfg, Logger: a.logger, Now: time.Now, Below: a.gateway.BelowWildcard}
	if cfg.TLS.Mode == listening.TLSACME && cfg.Store.Driver == config.StoreRedis {
		box, err := seal.ForStore(cfg.Store.EncryptionKey.Reveal(), cfg.DataDir)
		if err != nil {
			return nil, err
		}
		options.Shared = acme.NewStorage(a.gateway.Store(), box, store.ClockOf(a.store, time.Now))
	}
	return certs.Open(options)
}
