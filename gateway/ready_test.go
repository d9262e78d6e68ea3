package gateway

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/acme"
)

// stubCertificates are certificates that nobody is served.
type stubCertificates []acme.Certificate

func (stubCertificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("there is none")
}
func (stubCertificates) Refresh() error                     { return nil }
func (s stubCertificates) Certificates() []acme.Certificate { return s }

// askReady returns what /readyz says.
func askReady(t *testing.T, s *Server) (int, health) {
	t.Helper()
	w := httptest.NewRecorder()
	s.admin(prometheus.NewRegistry()).ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	var h health
	decoder := json.NewDecoder(w.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&h); err != nil {
		t.Fatal(err)
	}
	return w.Code, h
}

// The certificates of other modes are in the metric alone.
func TestReadyOfOtherModes(t *testing.T) {
	t.Parallel()
	s := &Server{gateway: newRig(t, baseConfig).Gateway, certs: stubCertificates{{Domain: "gw.example", Problem: "none"}}}
	if status, h := askReady(t, s); status != http.StatusOK || h.Certificates != nil {
		t.Errorf("/readyz says %d %+v", status, h)
	}
}
