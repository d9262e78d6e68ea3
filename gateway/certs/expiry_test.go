package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/acme"
	"authgate/gateway/clocktest"
	"authgate/gateway/config"
)

// stubCertificates only describe certificates.
type stubCertificates []acme.Certificate

func (stubCertificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("there is none")
}
func (stubCertificates) Refresh() error                     { return nil }
func (s stubCertificates) Certificates() []acme.Certificate { return s }

// expiries returns what the metric says, by domain.
func expiries(t *testing.T, certs Source, now func() time.Time) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(NewCollector(certs, now)); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "authgate_certificate_expiry_seconds" {
			t.Errorf("there is a metric %s", family.GetName())
		}
		for _, metric := range family.GetMetric() {
			if labels := metric.GetLabel(); len(labels) != 1 || labels[0].GetName() != "domain" {
				t.Errorf("the labels are %v", labels)
			}
			values[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	return values
}

func TestExpiryMetric(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	certs := stubCertificates{
		{Domain: "good.example", Expires: now.Add(90 * time.Second)},
		{Domain: "failing.example", Expires: now.Add(30 * time.Second), Problem: "no such host"},
		{Domain: "expired.example", Expires: now.Add(-time.Hour)},
		{Domain: "none.example", Problem: "no such host"},
	}
	want := map[string]float64{"good.example": 90, "failing.example": 30, "expired.example": -3600, "none.example": 0}
	if diff := cmp.Diff(want, expiries(t, certs, func() time.Time { return now })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := expiries(t, stubCertificates{}, time.Now); len(got) != 0 {
		t.Errorf("without certificates: %v", got)
	}
}

// The metric has one value for each certificate, whatever tls.mode is.
func TestExpiryMetricOfEachMode(t *testing.T) {
	c, dir := clocktest.At(time.Now()), t.TempDir()
	storage, keys, issuer := acmeFiles(dir), certmagic.StorageKeys, (&certmagic.ACMEIssuer{CA: noAuthority}).IssuerKey()
	issued := keepIssued(t, storage, "gw.example", time.Now)
	files := func(certificate, key string) Source {
		return openCerts(t, &config.Config{TLS: config.TLS{Mode: config.TLSFiles, Certificate: certificate, Key: key}}, nil)
	}
	named := files(storage.Filename(keys.SiteCert(issuer, "gw.example")), storage.Filename(keys.SitePrivateKey(issuer, "gw.example")))
	unnamed := files(writePair(t, dir)) // but for the subject
	addressed := &certificateFiles{}
	addressed.current.Store(&tls.Certificate{Leaf: &x509.Certificate{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}, NotAfter: issued.NotAfter}})
	internal, err := openLocalCA(dir, []string{"localhost", "127.0.0.1"}, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	left := func(expires time.Time) float64 { return expires.Sub(c.Now()).Seconds() }
	for what, mode := range map[string]struct {
		certs Source
		want  map[string]float64
	}{
		"files":                {named, map[string]float64{"gw.example": left(issued.NotAfter)}},
		"files without a name": {unnamed, map[string]float64{"authgate local CA": left(leafOf(t, unnamed).NotAfter)}},
		"files of an address":  {addressed, map[string]float64{"192.0.2.1": left(issued.NotAfter)}},
		"internal":             {internal, map[string]float64{"localhost": left(leafOf(t, internal).NotAfter)}},
		"acme": {openCerts(t, acmeConfig(dir), nil),
			map[string]float64{"gw.example": left(issued.NotAfter), "other.example": 0}},
	} {
		if diff := cmp.Diff(mode.want, expiries(t, mode.certs, c.Now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	c.Advance(91 * 24 * time.Hour)
	if got := expiries(t, internal, c.Now)["localhost"]; got <= 0 {
		t.Errorf("the local authority's certificate is not renewed: %v", got)
	}
	if got := expiries(t, named, c.Now)["gw.example"]; got >= 0 {
		t.Errorf("a certificate that has expired: %v", got)
	}
}
