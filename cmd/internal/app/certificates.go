package app

import (
	"time"

	"authgate/gateway/certs"
	"authgate/gateway/certs/acme"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/gateway/store"
	"authgate/gateway/store/seal"
)

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
