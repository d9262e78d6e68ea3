package gateway

import (
	"authgate/gateway/acme"
	"authgate/gateway/certs"
	"authgate/gateway/config"
)

// OpenCertificates returns what tls.mode names, nil if it is off. Instances on
// Redis share what they get from an authority.
func (g *Gateway) OpenCertificates() (certs.Source, error) {
	cfg := g.Config()
	if cfg.TLS.Mode != config.TLSACME || cfg.Store.Driver != config.StoreRedis {
		return certs.Open(cfg, nil, g.logger, g.now)
	}
	box, err := storeBox(cfg)
	if err != nil {
		return nil, err
	}
	return certs.Open(cfg, acme.NewStorage(g.store, box, g.shared), g.logger, g.now)
}
