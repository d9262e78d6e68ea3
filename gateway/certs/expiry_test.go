package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/certs/acme"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/internal/test/clocktest"
)

// stubCertificates only describe certificates.
type stubCertificates []acme.Certificate

func (stubCertificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("there is none")
}
func (stubCertificates) Refresh(*config.Config) error       { return nil }
func (s stubCertificates) Certificates() []acme.Certificate { return s }

// wantExpiries compares what the metric says, by domain.
func wantExpiries(t *testing.T, what string, certs Source, now func() time.Time, want map[string]float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(certs, now))
	got, lives := map[string]float64{}, map[string]float64{}
	for _, family := range must(registry.Gather()) {
		for _, metric := range family.GetMetric() {
			domain, value := metric.GetLabel()[0].GetValue(), metric.GetGauge().GetValue()
			if labels := metric.GetLabel(); len(labels) != 1 || labels[0].GetName() != "domain" {
				t.Errorf("there is a metric %s with the labels %v", family.GetName(), labels)
			}
			switch family.GetName() {
			case "authgate_certificate_expiry_seconds":
				got[domain] = value
			case "authgate_certificate_lifetime_seconds":
				lives[domain] = value
			default:
				t.Errorf("there is a metric %s", family.GetName())
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	for _, certificate := range certs.Certificates() {
		want := certificate.Expires.Sub(certificate.Begins).Seconds()
		if got, ok := lives[certificate.Domain]; !ok || got != want || (got > 0) == certificate.Expires.IsZero() {
			t.Errorf("%s: the certificate of %s lives %v s, want %v", what, certificate.Domain, got, want)
		}
	}
}

// The metric has one value for each certificate, whatever tls.mode is.
func TestExpiryMetric(t *testing.T) {
	c, dir := clocktest.At(time.Now()), t.TempDir()
	storage := acmeFiles(dir)
	issued := keepIssued(t, storage)
	files := func(certificate, key string) Source {
		files := listening.TLS{Mode: listening.TLSFiles, Certificate: certificate, Key: key}
		return openCerts(t, &config.Config{TLS: files}, nil)
	}
	certificate, key, _ := issuedFiles()
	named := files(storage.Filename(certificate), storage.Filename(key))
	unnamed := files(writePair(t, dir)) // but for the subject
	addressed := &certificateFiles{}
	addressed.current.Store(&tls.Certificate{Leaf: &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}, NotBefore: issued.NotBefore, NotAfter: issued.NotAfter,
	}})
	internal := must(openLocalCA(dir, []string{"localhost", "127.0.0.1"}, c.Now, discard()))
	const day = 24 * time.Hour
	several := stubCertificates{
		{
			Domain: "failing.example", Begins: c.Now().Add(-day), Expires: c.Now().Add(30 * time.Second),
			Problem: "no such host",
		},
		{Domain: "expired.example", Begins: c.Now().Add(-day), Expires: c.Now().Add(-time.Hour)},
		{Domain: "none.example", Problem: "no such host"},
	}
	wantExpiries(t, "several", several, c.Now,
		map[string]float64{"failing.example": 30, "expired.example": -3600, "none.example": 0})
	left := func(leaf *x509.Certificate) float64 { return leaf.NotAfter.Sub(c.Now()).Seconds() }
	wantExpiries(t, "files", named, c.Now, map[string]float64{"gw.example": left(issued)})
	wantExpiries(t, "files without a name", unnamed, c.Now,
		map[string]float64{"authgate local CA": left(leafOf(t, unnamed))})
	wantExpiries(t, "files of an address", addressed, c.Now, map[string]float64{"192.0.2.1": left(issued)})
	wantExpiries(t, "internal", internal, c.Now, map[string]float64{"localhost": left(leafOf(t, internal))})
	wantExpiries(t, "acme", openCerts(t, acmeConfig(dir), nil), c.Now,
		map[string]float64{"gw.example": left(issued), "other.example": 0})
	c.Advance(91 * 24 * time.Hour)
	wantExpiries(t, "internal, renewed", internal, c.Now,
		map[string]float64{"localhost": (leafLives - time.Duration(c.Now().Nanosecond())).Seconds()})
}
