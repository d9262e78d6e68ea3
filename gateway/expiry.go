package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/acme"
)

// expiryCollector tells how long the certificates are good for, so that one
// that is not renewed is noticed before clients do.
type expiryCollector struct {
	certs  certificates
	now    func() time.Time
	expiry *prometheus.Desc
}

func newExpiryCollector(certs certificates, now func() time.Time) *expiryCollector {
	return &expiryCollector{certs: certs, now: now, expiry: prometheus.NewDesc("authgate_certificate_expiry_seconds",
		"Time until the certificate expires, negative once it has; 0 if there is none yet.", []string{"domain"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *expiryCollector) Describe(descs chan<- *prometheus.Desc) { descs <- c.expiry }

// Collect implements prometheus.Collector.
func (c *expiryCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, certificate := range c.certs.Certificates() {
		left := 0.0
		if !certificate.Expires.IsZero() {
			left = certificate.Expires.Sub(c.now()).Seconds()
		}
		metrics <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, left, certificate.Domain)
	}
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
