package gateway

import (
	"context"

	"authgate/gateway/acme"
	"authgate/gateway/certs"
	"authgate/gateway/config"
	"authgate/gateway/conn"
	"authgate/gateway/mechanism"
	"authgate/gateway/store"
)

// OpenCertificates returns the certificates that tls.mode names, or nil if it
// is off. Instances on Redis share the certificates that an authority issues.
func (g *Gateway) OpenCertificates() (certs.Source, error) {
	cfg := g.Config()
	options := certs.Options{
		Config: cfg, Logger: g.service.Logger, Now: g.service.Now,
		Below: func(name string) bool { return g.state.Load().site.Hosts.Below(name) },
	}
	if cfg.TLS.Mode != config.TLSACME || cfg.Store.Driver != config.StoreRedis {
		return certs.Open(options)
	}
	box, err := mechanism.StoreBox(cfg)
	if err != nil {
		return nil, err
	}
	options.Shared = acme.NewStorage(g.storage.guarded, box, g.storage.now)
	return certs.Open(options)
}

// Ready returns nil if the gateway can serve requests that need a login, and
// the reason if it cannot.
func (g *Gateway) Ready(ctx context.Context) error {
	if pinger, ok := g.storage.raw.(store.Pinger); ok {
		if err := pinger.Ping(ctx); err != nil {
			return err
		}
	}
	return g.state.Load().gate.Check("settle")
}

// Drain makes each answer from now on ask its client to use another connection.
func (g *Gateway) Drain() { g.service.Draining.Store(true) }

// WebSockets returns the WebSockets that pass through the gateway.
func (g *Gateway) WebSockets() *conn.WebSockets { return g.forwarder.WebSockets() }

// CloseIdleUpstreams closes the connections to upstreams that serve no request.
// It frees their file descriptors.
func (g *Gateway) CloseIdleUpstreams() {
	for _, u := range g.state.Load().routing.upstreams {
		u.CloseIdle()
	}
}
