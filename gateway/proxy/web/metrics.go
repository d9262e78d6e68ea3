package web

import (
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"authgate/gateway/identity/provider"
	"authgate/gateway/proxy/tracing"
	"authgate/policy"
)

// Values of the label event of authgate_tokens_total.
const (
	TokenIssued    = "issued"
	TokenRefreshed = "refreshed"
	TokenRevoked   = "revoked"
	TokenReused    = "reused"
)

// Metrics are the metrics for Prometheus. No label takes a value that a client chooses: routes,
// upstreams and mechanisms come from the configuration.
type Metrics struct {
	requests         *prometheus.CounterVec
	requestDuration  *prometheus.HistogramVec
	upstreamDuration *prometheus.HistogramVec
	upstreamRetries  *prometheus.CounterVec
	upstreamChecks   *prometheus.CounterVec
	logins           *prometheus.CounterVec
	tokens           *prometheus.CounterVec
	storeDuration    *prometheus.HistogramVec
	providerDuration *prometheus.HistogramVec
	reloads          *prometheus.CounterVec
	versions         *prometheus.CounterVec
	spans            *prometheus.CounterVec
	backchannel      *prometheus.CounterVec
	policyNext       *prometheus.CounterVec

	byVersion [4]prometheus.Counter // by major version, of versions
	logger    *slog.Logger
	adding    sync.Mutex // one new kind at a time
	kinds     atomic.Pointer[map[requestKind]*requestSeries]
	lines     sync.Pool // of *line
}

// NewMetrics registers the gateway's metrics with registry. sessions counts the
// live sessions; it is nil if the store cannot.
func NewMetrics(
	registry prometheus.Registerer, logger *slog.Logger, version string, sessions func() float64,
) (*Metrics, error) {
	m := &Metrics{
		logger: logger,
		requests: counter("authgate_requests_total",
			"Requests by route, the mechanism that proved the identity, the decision and the status code.",
			"route", "mechanism", "decision", "code"),
		requestDuration: histogram("authgate_request_duration_seconds",
			"Time from a request's arrival to the end of its answer.", prometheus.DefBuckets, "route"),
		upstreamDuration: histogram("authgate_upstream_duration_seconds",
			"Time from sending a request to an upstream until its response header.", prometheus.DefBuckets, "upstream"),
		upstreamRetries: counter("authgate_upstream_retries_total",
			"Requests that were sent again to another target of an upstream.", "upstream"),
		upstreamChecks: counter("authgate_upstream_checks_total",
			"Active checks of the targets of an upstream, by result.", "upstream", "result"),
		logins: counter("authgate_logins_total", "Sign-ins by mechanism and result.", "mechanism", "result"),
		tokens: counter("authgate_tokens_total", "What happened to tokens.", "event"),
		storeDuration: histogram("authgate_store_duration_seconds",
			"Time of operations of the store.", prometheus.ExponentialBuckets(1e-6, 10, 8), "operation"),
		providerDuration: histogram("authgate_provider_duration_seconds",
			"Time of calls to providers and trusted issuers, by result.", prometheus.DefBuckets,
			"provider", "operation", "result"),
		reloads:  counter("authgate_config_reloads_total", "Reloads of the configuration by result.", "result"),
		versions: counter("authgate_http_requests_total", "Requests by the major version of HTTP.", "version"),
		spans: counter("authgate_tracing_spans_total",
			"Spans of traces, by whether the collector has taken them.", "result"),
		backchannel: counter("authgate_backchannel_logouts_total",
			"Clients that were to be told that a login has ended, by whether they were.", "result"),
		policyNext: counter("authgate_policy_next_total",
			"Requests that are decided otherwise once every next of a policy is in place, by both outcomes.",
			"route", "now", "next"),
	}
	for major := 1; major < len(m.byVersion); major++ {
		m.byVersion[major] = m.versions.WithLabelValues(strconv.Itoa(major))
	}
	m.lines.New = func() any { return new(line) }
	m.kinds.Store(&map[requestKind]*requestSeries{})
	m.beginAtZero()
	return m, m.register(registry, version, sessions)
}

// counter returns a counter for NewMetrics.
func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// histogram returns a histogram for NewMetrics.
func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// register registers all metrics.
func (m *Metrics) register(registry prometheus.Registerer, version string, sessions func() float64) error {
	all := []prometheus.Collector{
		m.requests, m.requestDuration, m.upstreamDuration, m.upstreamRetries, m.upstreamChecks,
		m.logins, m.tokens, m.storeDuration, m.providerDuration, m.reloads, m.versions, m.spans, m.backchannel,
		m.policyNext,
		buildInfo(version),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	if sessions != nil {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "authgate_sessions_active", Help: "Sessions that are live in the store.",
		}, sessions))
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, registry.Register(c))
	}
	return errors.Join(errs...)
}

// beginAtZero makes the counters of rare events exist before the first one, which
// would be no increase for an alert rule otherwise.
func (m *Metrics) beginAtZero() {
	for _, event := range []string{TokenIssued, TokenRefreshed, TokenRevoked, TokenReused} {
		m.tokens.WithLabelValues(event)
	}
	for _, result := range []string{"success", "failure"} {
		m.reloads.WithLabelValues(result)
		m.backchannel.WithLabelValues(result)
	}
	for _, result := range []string{tracing.Exported, tracing.Failed, tracing.Dropped} {
		m.spans.WithLabelValues(result)
	}
}

// BackchannelLogout counts a client that was to be told that a login has ended.
func (m *Metrics) BackchannelLogout(err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.backchannel.WithLabelValues(result).Inc()
}

// Login counts a sign-in by its result. A failure of the gateway itself is no
// result.
func (m *Metrics) Login(mechanism policy.Mechanism, err error) {
	if result := LoginResult(err); result != "" {
		m.logins.WithLabelValues(string(mechanism), result).Inc()
	}
}

// request counts a request by the version of its protocol.
func (m *Metrics) request(major int) {
	if 0 < major && major < len(m.byVersion) {
		m.byVersion[major].Inc()
	}
}

// Token counts an event of a token.
func (m *Metrics) Token(event string) { m.tokens.WithLabelValues(event).Inc() }

// Reload counts a reload of the configuration.
func (m *Metrics) Reload(err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// Spans counts spans of traces by their result.
func (m *Metrics) Spans(result string, spans int) {
	m.spans.WithLabelValues(result).Add(float64(spans))
}

// Upstream returns the observer of the time of an upstream.
func (m *Metrics) Upstream(name string) prometheus.Observer {
	return m.upstreamDuration.WithLabelValues(name)
}

// NextCounters count decisions by their outcome, and by another one once every next of a policy is in place.
type NextCounters [policy.Outcomes][policy.Outcomes]prometheus.Counter

// Next returns the counters of a route. They exist from now on, so that the first difference is an increase.
func (m *Metrics) Next(route string) (counters NextCounters) {
	for now := range policy.Outcome(policy.Outcomes) {
		for next := range policy.Outcome(policy.Outcomes) {
			if now != next {
				counters[now][next] = m.policyNext.WithLabelValues(route, now.Word(), next.Word())
			}
		}
	}
	return counters
}

// Store returns a function that measures the operations of the store.
func (m *Metrics) Store() func(operation string, took time.Duration) {
	durations := map[string]prometheus.Observer{}
	for _, operation := range []string{"get", "put", "swap", "take", "delete", "draw"} {
		durations[operation] = m.storeDuration.WithLabelValues(operation)
	}
	return func(operation string, took time.Duration) { durations[operation].Observe(took.Seconds()) }
}

// Provider returns a function that measures the calls to an identity provider.
func (m *Metrics) Provider(name string) func(operation string, took time.Duration, err error) {
	return func(operation string, took time.Duration, err error) {
		result := "success"
		switch {
		case errors.Is(err, provider.ErrTimeout):
			result = "timeout"
		case errors.Is(err, provider.ErrRefused), errors.Is(err, provider.ErrInvalid):
			result = "refused"
		case err != nil:
			result = "failure"
		}
		m.providerDuration.WithLabelValues(name, operation, result).Observe(took.Seconds())
	}
}

func buildInfo(version string) prometheus.Collector {
	labels := prometheus.Labels{"version": version, "goversion": "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		labels["goversion"] = info.GoVersion
	}
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "authgate_build_info", Help: "The version that runs; always 1.", ConstLabels: labels,
	})
	gauge.Set(1)
	return gauge
}

// seriesOf returns where exchanges like the one of the record are counted.
// There are few kinds, whatever clients do, so labels are looked up once for
// each.
func (m *Metrics) seriesOf(r *Record) *requestSeries {
	kind := requestKind{r.Label, r.Mechanism, r.Decision, r.Status}
	if known, ok := (*m.kinds.Load())[kind]; ok {
		return known
	}
	m.adding.Lock()
	defer m.adding.Unlock()
	kinds := maps.Clone(*m.kinds.Load())
	series := &requestSeries{
		count:    m.requests.WithLabelValues(kind.route, kind.mechanism, kind.decision, strconv.Itoa(kind.status)),
		duration: m.requestDuration.WithLabelValues(kind.route),
		log: m.logger.Handler().WithAttrs([]slog.Attr{
			slog.String("route", kind.route),
			slog.String("mechanism", kind.mechanism),
			slog.String("decision", kind.decision),
			slog.Int("status", kind.status),
		}),
		lines: &m.lines,
	}
	kinds[kind] = series
	m.kinds.Store(&kinds)
	return series
}

// requestKind are the labels of a request.
type requestKind struct {
	route, mechanism, decision string
	status                     int
}

// requestSeries is where requests of a kind are counted and logged.
type requestSeries struct {
	count    prometheus.Counter
	duration prometheus.Observer
	log      slog.Handler // has the labels
	lines    *sync.Pool   // of *line, for log
}
