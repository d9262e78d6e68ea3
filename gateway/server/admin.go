package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"authgate/gateway/acme"
)

// readyTime is how long a readiness check may take.
const readyTime = 2 * time.Second

// admin returns the handler of the admin listener: metrics, liveness and
// readiness.
func (s *Server) admin(gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		report(w, http.StatusOK, health{Status: "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		h := health{Status: "ready", Reason: s.unready(r.Context())}
		if s.issuer != nil {
			h.Certificates = reportCertificates(s.certs.Certificates())
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
	Certificates []certificateReport `json:"certificates,omitempty"` // those that an authority issues
}

// unready returns why this instance should get no requests, or an empty string.
// A missing certificate is no reason: to get one, the authority must reach this
// instance.
func (s *Server) unready(ctx context.Context) string {
	if s.draining.Load() {
		return "stopping"
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := s.gateway.Ready(ctx); err != nil {
		return err.Error()
	}
	return ""
}

func report(w http.ResponseWriter, status int, h health) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(h) // fails if the client has gone
}

// certificateReport is what /readyz says about a certificate.
type certificateReport struct {
	Domain  string     `json:"domain"`
	Expires *time.Time `json:"expires,omitempty"` // nil if there is no certificate yet
	Problem string     `json:"problem,omitempty"` // why the authority did not issue the next one
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
