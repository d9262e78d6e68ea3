package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

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
		report(w, http.StatusOK, "alive", "")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if reason := s.unready(r.Context()); reason != "" {
			report(w, http.StatusServiceUnavailable, "unready", reason)
			return
		}
		report(w, http.StatusOK, "ready", "")
	})
	return mux
}

// unready says why no requests should be sent here, empty if they should.
func (s *Server) unready(ctx context.Context) string {
	if s.draining.Load() {
		return "stopping"
	}
	pinger, ok := s.gateway.rawStore.(store.Pinger)
	if !ok {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := pinger.Ping(ctx); err != nil {
		return err.Error()
	}
	return ""
}

func report(w http.ResponseWriter, status int, state, reason string) {
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // the prober is gone if this fails
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}{state, reason})
}
