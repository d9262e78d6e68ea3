package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

// connectionCollector collects the number of connections of each listener.
type connectionCollector struct {
	listeners       map[string]counted // by name
	open, displaced *prometheus.Desc
}

// counted counts the connections of a listener.
type counted interface {
	Open() int
	Displaced() int
}

func newConnectionCollector() *connectionCollector {
	return &connectionCollector{
		listeners: map[string]counted{},
		open: prometheus.NewDesc("authgate_connections", "Open connections of clients.",
			[]string{"listener"}, nil),
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

// droppedLines returns the metric of the lines of the log that are lost.
func droppedLines(log logState) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "authgate_log_lines_dropped_total", Help: "Lines of the log that were dropped because nothing read it.",
	}, func() float64 { return float64(log.Dropped()) })
}
