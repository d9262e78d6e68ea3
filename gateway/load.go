package gateway

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"authgate/gateway/config"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/conn"
)

// load counts the requests in flight and bounds them.
type load struct {
	budget   conn.Budget // of file descriptors
	inFlight atomic.Int64
	refusing rate.Sometimes // bounds the log of refused requests
}

func newLoad() load {
	return load{budget: conn.Divide(conn.Files()), refusing: rate.Sometimes{Interval: time.Minute}}
}

// limit returns how many requests are served at once under a configuration.
func (l *load) limit(cfg *config.Config) int64 {
	if n := cfg.Limits.InFlight; n > 0 {
		return int64(min(n, l.budget.Requests))
	}
	return int64(l.budget.Requests)
}

// warn logs that limits.in_flight is more than the process can serve.
func (l *load) warn(logger *slog.Logger, cfg *config.Config) {
	if n := cfg.Limits.InFlight; n > l.budget.Requests {
		logger.Warn("limits.in_flight is more than the file descriptors allow: "+
			"raise the limit (ulimit -n, LimitNOFILE)",
			"in_flight", n, "file_descriptors", l.budget.Files, "applies", l.budget.Requests)
	}
}

// beginRequest counts a request if fewer than limit are in flight.
func (l *load) beginRequest(limit int64) bool {
	for {
		n := l.inFlight.Load()
		if n >= limit {
			return false
		}
		if l.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// endRequest removes a request that beginRequest has counted.
func (l *load) endRequest() { l.inFlight.Add(-1) }

// checkInFlight refuses a request that is one too many.
func (ex *exchange) checkInFlight() error {
	if ex.counted {
		return nil
	}
	ex.gateway.load.refusing.Do(func() {
		ex.gateway.service.Logger.Warn("requests are refused: as many are in flight as limits.in_flight or the file "+
			"descriptors allow", "limit", ex.state.inFlight)
	})
	return web.Busy("Too many requests are being served at once. Try again.",
		errors.New("too many requests are in flight"))
}

// gauge returns the metric of the requests in flight.
func (l *load) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "authgate_requests_in_flight", Help: "Requests that are being served, streams and WebSockets included.",
	}, func() float64 { return float64(l.inFlight.Load()) })
}
