package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/conn"
)

// connectionCollector collects the number of connections of each listener.
type connectionCollector struct {
	listeners       map[string]*conn.Listener // by name
	open, displaced *prometheus.Desc
}

func newConnectionCollector() *connectionCollector {
	return &connectionCollector{
		listeners: map[string]*conn.Listener{},
		open:      prometheus.NewDesc("authgate_connections", "Open connections of clients.", []string{"listener"}, nil),
		displaced: prometheus.NewDesc("authgate_connections_displaced_total",
			"Connections of clients that were closed because there were too many.", []string{"listener"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *connectionCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.open
	descs <- c.displaced
}

// Collect implements prometheus.Collector.
func (c *connectionCollector) Collect(metrics chan<- prometheus.Metric) {
	for name, l := range c.listeners {
		metrics <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(l.Open()), name)
		metrics <- prometheus.MustNewConstMetric(c.displaced, prometheus.CounterValue, float64(l.Displaced()), name)
	}
}
