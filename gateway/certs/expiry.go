package certs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// expiryCollector collects how long each certificate is still valid, and how long it is in all.
type expiryCollector struct {
	certs    Source
	now      func() time.Time
	expiry   *prometheus.Desc
	lifetime *prometheus.Desc
}

// NewCollector returns a collector of the time until each certificate expires, and of its
// lifetime.
func NewCollector(certs Source, now func() time.Time) prometheus.Collector {
	return &expiryCollector{
		certs: certs, now: now,
		expiry: prometheus.NewDesc("authgate_certificate_expiry_seconds",
			"Time until the certificate expires. Negative if it has expired, 0 if there is no certificate yet.",
			[]string{"domain"}, nil),
		lifetime: prometheus.NewDesc("authgate_certificate_lifetime_seconds",
			"Time from the begin of the certificate's validity to its end. 0 if there is no certificate yet.",
			[]string{"domain"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *expiryCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.expiry
	descs <- c.lifetime
}

// Collect implements prometheus.Collector.
func (c *expiryCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, certificate := range c.certs.Certificates() {
		left := 0.0
		if !certificate.Expires.IsZero() {
			left = certificate.Expires.Sub(c.now()).Seconds()
		}
		lives := certificate.Expires.Sub(certificate.Begins).Seconds()
		metrics <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, left, certificate.Domain)
		metrics <- prometheus.MustNewConstMetric(c.lifetime, prometheus.GaugeValue, lives, certificate.Domain)
	}
}
