package gateway

import (
	"context"
	"crypto/x509"
	"net/http"

	"authgate/gateway/proxy/web"
	"authgate/gateway/store"
	"authgate/gateway/wire/conn"
)

// Store returns the store as the gateway uses it: its calls are measured, and they fail
// in bounded time.
func (g *Gateway) Store() store.Store { return g.storage.guarded }

// BelowWildcard reports whether a host is one label below a wildcard host of the
// configuration that runs.
func (g *Gateway) BelowWildcard(host string) bool { return g.state.Load().site.Hosts.Below(host) }

// ClientAuthorities returns whose certificates a client is asked for that opens a connection for
// a host, nil if it is asked for none. An empty host is that of public_url.
func (g *Gateway) ClientAuthorities(host string) *x509.CertPool {
	st := g.state.Load()
	if authorities := st.mechanisms.ClientAuthorities(); authorities != nil && st.site.AsksForCertificate(host) {
		return authorities
	}
	return nil
}

// Ready returns nil if the gateway can serve requests that need a login, and
// the reason if it cannot.
func (g *Gateway) Ready(ctx context.Context) error {
	if err := g.storage.ping(ctx); err != nil {
		return err
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

// labelPlainHTTP is the label of requests by plain HTTP.
const labelPlainHTTP = "authgate/plain"

// HTTPRedirect answers a request by plain HTTP: with a redirect to https, or with an error
// if it carries a credential. Everyone on the way can have read that credential, and its
// owner must know.
func (g *Gateway) HTTPRedirect(w http.ResponseWriter, r *http.Request) {
	ex := g.begin(w, r)
	defer ex.finish()
	ex.Label, ex.Cleartext = labelPlainHTTP, true
	err := ex.checkInFlight()
	if err == nil {
		err = checkFraming(&ex.Exchange)
	}
	if err == nil {
		err = web.RedirectToHTTPS(&ex.Exchange)
	}
	if err != nil {
		ex.fail(err)
	}
}
