package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config"
)

// inFlight is how many requests are served at once under a configuration.
func (g *Gateway) inFlight(cfg *config.Config) int64 {
	if n := cfg.Limits.InFlight; n > 0 {
		return int64(min(n, g.budget.Requests))
	}
	return int64(g.budget.Requests)
}

// warnOfDescriptors tells that limits.in_flight is more than the process can
// serve.
func (g *Gateway) warnOfDescriptors(cfg *config.Config) {
	if n := cfg.Limits.InFlight; n > g.budget.Requests {
		g.logger.Warn("limits.in_flight is more than the file descriptors allow: raise the limit (ulimit -n, LimitNOFILE)",
			"in_flight", n, "file_descriptors", g.budget.Files, "applies", g.budget.Requests)
	}
}

// take counts a request if fewer than limit are under way.
func (g *Gateway) take(limit int64) bool {
	for {
		n := g.underWay.Load()
		if n >= limit {
			return false
		}
		if g.underWay.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// refusal is the answer to a request that is one too many, else nil.
func (ex *exchange) refusal() error {
	if ex.counted {
		return nil
	}
	ex.peer = ex.st.trusted.Read(ex.r) // for the log
	ex.gw.refusing.Do(func() {
		ex.gw.logger.Warn("requests are refused: as many are under way as limits.in_flight or the file descriptors allow", "limit", ex.st.inFlight)
	})
	return &httpError{
		status: http.StatusServiceUnavailable, detail: "Too many requests are being served at once. Try again.",
		cause: errors.New("too many requests are in flight"), retryAfter: time.Second,
	}
}

// inFlightGauge tells how many requests are in flight.
func (g *Gateway) inFlightGauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "authgate_requests_in_flight", Help: "Requests that are being served, streams and WebSockets included.",
	}, func() float64 { return float64(g.underWay.Load()) })
}
