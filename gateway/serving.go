package gateway

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"authgate/gateway/config"
	"authgate/gateway/proxy/streams"
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

// inFlight counts the requests in flight and bounds them.
type inFlight struct {
	budget   conn.Budget // of file descriptors
	count    atomic.Int64
	refusing rate.Sometimes // bounds the log of refused requests
}

func newInFlight() inFlight {
	return inFlight{budget: conn.Divide(conn.Files()), refusing: rate.Sometimes{Interval: time.Minute}}
}

// limit returns how many requests are served at once under a configuration.
func (f *inFlight) limit(cfg *config.Config) int64 {
	if n := cfg.Limits.InFlight; n > 0 {
		return int64(min(n, f.budget.Requests))
	}
	return int64(f.budget.Requests)
}

// warn logs that limits.in_flight is more than the process can serve.
func (f *inFlight) warn(logger *slog.Logger, cfg *config.Config) {
	if n := cfg.Limits.InFlight; n > f.budget.Requests {
		logger.Warn("limits.in_flight is more than the file descriptors allow: "+
			"raise the limit (ulimit -n, LimitNOFILE)",
			"in_flight", n, "file_descriptors", f.budget.Files, "applies", f.budget.Requests)
	}
}

// beginRequest counts a request if fewer than limit are in flight.
func (f *inFlight) beginRequest(limit int64) bool {
	for {
		n := f.count.Load()
		if n >= limit {
			return false
		}
		if f.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// endRequest removes a request that beginRequest has counted.
func (f *inFlight) endRequest() { f.count.Add(-1) }

// checkInFlight refuses a request that is one too many.
func (ex *exchange) checkInFlight() error {
	if ex.counted {
		return nil
	}
	return ex.refuseBusy(errors.New("too many requests are in flight"), "requests are refused: "+
		"as many are in flight as limits.in_flight or the file descriptors allow", ex.state.maxInFlight)
}

// refuseBusy returns the error of a request that is one too many, and logs the limit now and then.
func (ex *exchange) refuseBusy(cause error, warning string, limit any) error {
	ex.gateway.inFlight.refusing.Do(func() { ex.gateway.service.Logger.Warn(warning, "limit", limit) })
	return web.Busy("Too many requests are being served at once. Try again.", cause)
}

// mostStreams returns how many of the requests in flight may be streams. The others of the limit are an eighth,
// and at least one: streams last, and would keep everybody from the pages and from the logout. A limit of one leaves
// none, so that a stream can open at all.
func mostStreams(limit int64) int { return int(max(1, limit-max(1, limit/8))) }

// BeginStream implements forward.Login: it counts the request as a stream of its login, or of its user
// if the credential belongs to no login.
func (ex *exchange) BeginStream() error {
	if ex.leave != nil {
		return nil
	}
	login, limit := "", mostStreams(ex.state.maxInFlight)
	if id := ex.Identity; id != nil {
		login = cmp.Or(id.Login, id.Subject)
	}
	leave, err := ex.gateway.forwarder.Streams().Take(login, limit, ex.state.config.Limits.StreamsPerLogin)
	if full, ok := errors.AsType[*streams.LoginFullError](err); ok {
		if full.First { // the access log has them all
			ex.Audit("denied", slog.String("reason", full.Error()))
		}
		return &web.Error{
			Status: http.StatusTooManyRequests, Detail: "You have too many streams open. Close some of them.",
			Cause: err, RetryAfter: time.Second,
		}
	}
	if err != nil {
		return ex.refuseBusy(err, "streams are refused: "+
			"they have their share of limits.in_flight or of the file descriptors", limit)
	}
	ex.leave = leave
	return nil
}

// gauges returns the metrics of the requests in flight.
func (g *Gateway) gauges() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "authgate_requests_in_flight",
			Help: "Requests that are being served, streams and WebSockets included.",
		}, func() float64 { return float64(g.inFlight.count.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "authgate_streams_open", Help: "Those that are WebSockets, other tunnels or event streams.",
		}, func() float64 { return float64(g.forwarder.Streams().Taken()) }),
	}
}
