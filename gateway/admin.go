package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"authgate/gateway/acme"
	"authgate/gateway/store"
)

// readyTime bounds a readiness check.
const readyTime = 2 * time.Second

// admin answers operators: metrics, liveness and readiness. It is never
// reachable through the public listener.
func (s *Server) admin(gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		report(w, http.StatusOK, health{Status: "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		h := health{Status: "ready", Reason: s.unready(r.Context())}
		if s.acme != nil {
			h.Certificates = reportCertificates(s.acme.Certificates())
		}
		status := http.StatusOK
		if h.Reason != "" {
			status, h.Status = http.StatusServiceUnavailable, "unready"
		}
		report(w, status, h)
	})
	return mux
}

// health is the answer to a probe.
type health struct {
	Status       string              `json:"status"` // alive, ready or unready
	Reason       string              `json:"reason,omitempty"`
	Certificates []certificateReport `json:"certificates,omitempty"` // those from an authority
}

// unready says why no requests should be sent here, empty if they should. A
// certificate that is missing is no reason: the authority's challenges have to
// get here for there to be one.
func (s *Server) unready(ctx context.Context) string {
	if s.gateway.draining.Load() {
		return "stopping"
	}
	if pinger, ok := s.gateway.rawStore.(store.Pinger); ok {
		ctx, cancel := context.WithTimeout(ctx, readyTime)
		defer cancel()
		if err := pinger.Ping(ctx); err != nil {
			return err.Error()
		}
	}
	return s.gateway.unsettled()
}

func report(w http.ResponseWriter, status int, h health) {
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(h) // the prober is gone if this fails
}

// certificateReport is what /readyz says of a certificate.
type certificateReport struct {
	Domain  string     `json:"domain"`
	Expires *time.Time `json:"expires,omitempty"` // nil: there is none yet
	Problem string     `json:"problem,omitempty"` // why the next one could not be had
}

func reportCertificates(all []acme.Certificate) []certificateReport {
	var reports []certificateReport
	for _, c := range all {
		report := certificateReport{Domain: c.Domain, Problem: c.Problem}
		if !c.Expires.IsZero() {
			report.Expires = &c.Expires
		}
		reports = append(reports, report)
	}
	return reports
}
