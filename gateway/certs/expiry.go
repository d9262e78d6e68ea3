package certs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// expiryCollector tells how long the certificates are good for, so that one
// that is not renewed is noticed before clients do.
type expiryCollector struct {
	certs  Source
	now    func() time.Time
	expiry *prometheus.Desc
}

// NewCollector returns a collector of the times until certificates expire.
func NewCollector(certs Source, now func() time.Time) prometheus.Collector {
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
