package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"authgate/gateway/certs/acme"
	"authgate/gateway/wire/peer"
	"authgate/policy"
)

// InstanceHeader is the header of /readyz with the name of the instance that answers.
const InstanceHeader = "Authgate-Instance"

// InstanceOf returns the name of an instance with a data_dir. Two that run at once on one machine
// have different ones, unless they share it.
func InstanceOf(dataDir string) string {
	if absolute, err := filepath.Abs(dataDir); err == nil {
		dataDir = absolute
	}
	if real, err := filepath.EvalSymlinks(dataDir); err == nil {
		dataDir = real
	}
	sum := sha256.Sum256([]byte(dataDir))
	return hex.EncodeToString(sum[:8])
}

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
		w.Header().Set(InstanceHeader, s.instance)
		h := health{Status: "ready", Reason: s.unready(r.Context()), Log: s.log.Problem(), Audit: s.events.Problem()}
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

// loopbackNames refuses requests for other hosts than this machine, if the admin listener has
// opened a loopback address: any other name may be that of a site, whose page in a browser on
// this machine would read the answers (DNS rebinding). configured is listen.admin.
func loopbackNames(next http.Handler, opened net.Addr, configured string) http.Handler {
	if !peer.ParseAddr(opened.String()).IsLoopback() {
		return next
	}
	own, _ := policy.CanonicalHost(configured)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, err := policy.CanonicalHost(r.Host)
		// No browser leaves out the host.
		if r.Host != "" && (err != nil || host != own && !policy.Loopback(strings.Trim(host, "[]"))) {
			http.Error(w, "The admin listener is on a loopback address, and answers for localhost, 127.0.0.1, [::1] "+
				"and the host of listen.admin alone.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// health is the answer to a probe.
type health struct {
	Status       string              `json:"status"` // alive, ready or unready
	Reason       string              `json:"reason,omitempty"`
	Log          string              `json:"log,omitempty"`          // why its lines are lost or late
	Audit        string              `json:"audit,omitempty"`        // why log.audit_file cannot be written
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

// Responds returns when the server knows whether it is ready, and not whether it is: a restart
// mends a gateway that hangs, and no store.
func (s *Server) Responds(ctx context.Context) { s.unready(ctx) }

func report(w http.ResponseWriter, status int, h health) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(h) // fails if the client has gone
}

// certificateReport is the report of /readyz about a certificate.
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
