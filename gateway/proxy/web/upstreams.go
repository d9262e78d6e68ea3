package web

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/proxy/upstream"
)

// UpstreamMetrics returns the counters of the retries and checks of an upstream.
func (m *Metrics) UpstreamMetrics(name string) upstream.Metrics {
	return upstreamMetrics{
		retries: m.upstreamRetries.WithLabelValues(name),
		success: m.upstreamChecks.WithLabelValues(name, "success"),
		failure: m.upstreamChecks.WithLabelValues(name, "failure"),
	}
}

// upstreamMetrics implements upstream.Metrics.
type upstreamMetrics struct{ retries, success, failure prometheus.Counter }

// Retried implements upstream.Metrics.
func (m upstreamMetrics) Retried() { m.retries.Inc() }

// Checked implements upstream.Metrics.
func (m upstreamMetrics) Checked(healthy bool) {
	if healthy {
		m.success.Inc()
	} else {
		m.failure.Inc()
	}
}

// Targets returns the metrics of the targets of upstreams. They are read at each
// scrape, so that those of removed targets end.
func Targets(upstreams func() iter.Seq2[string, *upstream.Upstream]) prometheus.Collector {
	return &targets{
		upstreams: upstreams,
		up: prometheus.NewDesc("authgate_upstream_target_up",
			"Whether a target of an upstream is well: 0 while it is unhealthy, or rests after failures.",
			[]string{"upstream", "target"}, nil),
		inFlight: prometheus.NewDesc("authgate_upstream_target_requests_in_flight",
			"Requests in flight at a target, of upstreams with several targets.", []string{"upstream", "target"}, nil),
	}
}

type targets struct {
	upstreams    func() iter.Seq2[string, *upstream.Upstream]
	up, inFlight *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (t *targets) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- t.up
	descriptions <- t.inFlight
}

// Collect implements prometheus.Collector.
func (t *targets) Collect(metrics chan<- prometheus.Metric) {
	for name, u := range t.upstreams() {
		all := u.Targets()
		for _, s := range all {
			up := 0.0
			if s.Up {
				up = 1
			}
			metrics <- prometheus.MustNewConstMetric(t.up, prometheus.GaugeValue, up, name, s.Target)
			if len(all) > 1 {
				metrics <- prometheus.MustNewConstMetric(t.inFlight, prometheus.GaugeValue, float64(s.InFlight),
					name, s.Target)
			}
		}
	}
}
