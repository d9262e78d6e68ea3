// Package tracing records requests as OpenTelemetry spans and sends them to a
// collector (OTLP over HTTP). A request never waits for the collector: spans that
// do not fit into a bounded queue are dropped and counted.
//
// Spans hold the fields of the access log, and no more: no query, no header, no
// body, no user.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"authgate/gateway/config"
)

// Results of sending a span.
const (
	Exported = "exported"
	Failed   = "failed"  // the collector did not take it
	Dropped  = "dropped" // the queue was full
)

const (
	// maxPending is how many spans wait for the collector at most.
	maxPending = 2048
	// exportTime bounds one attempt to send a batch, with its repetitions.
	exportTime = 30 * time.Second
	// closeTime bounds how long Close waits for the collector.
	closeTime = time.Second
)

// Options are the parts of a Tracer. All are required.
type Options struct {
	Config  config.Tracing
	Version string
	Logger  *slog.Logger
	Count   func(result string, spans int)
}

// Tracer begins traces. A nil Tracer begins none. It is safe for concurrent use.
type Tracer struct {
	config   config.Tracing
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New returns a Tracer, or nil if the configuration has no collector. It does not
// connect to the collector.
func New(o Options) (*Tracer, error) {
	if o.Config.Endpoint == "" {
		return nil, nil
	}
	client, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(o.Config.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("tracing.endpoint: %w", err)
	}
	return start(o, client)
}

// start returns a Tracer that sends spans by client.
func start(o Options, client sdk.SpanExporter) (*Tracer, error) {
	about, err := resource.New(context.Background(),
		resource.WithFromEnv(), resource.WithHost(), resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(o.Config.ServiceName), semconv.ServiceVersion(o.Version)))
	if err != nil {
		return nil, fmt.Errorf("tracing: describing this service: %w", err)
	}
	q := &queue{count: o.Count}
	q.SpanProcessor = sdk.NewBatchSpanProcessor(
		&exporter{SpanExporter: client, queue: q, logger: o.Logger, endpoint: o.Config.Endpoint},
		sdk.WithMaxQueueSize(maxPending), sdk.WithExportTimeout(exportTime))
	provider := sdk.NewTracerProvider(
		sdk.WithResource(about), sdk.WithSpanProcessor(q),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Config.Sample))))
	return &Tracer{config: o.Config, provider: provider,
		tracer: provider.Tracer("authgate", trace.WithInstrumentationVersion(o.Version))}, nil
}

// Same reports whether New would return an equal Tracer for a configuration.
func (t *Tracer) Same(cfg config.Tracing) bool {
	if t == nil {
		return cfg.Endpoint == ""
	}
	return t.config == cfg
}

// Close sends the remaining spans to the collector, for at most closeTime.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// queue bounds how many spans wait for the collector. The processor below it would
// drop them without a trace.
type queue struct {
	sdk.SpanProcessor
	count   func(result string, spans int)
	pending atomic.Int64
}

// OnEnd implements sdktrace.SpanProcessor.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if q.pending.Add(1) > maxPending {
		q.pending.Add(-1)
		q.count(Dropped, 1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// exporter counts spans that are sent or lost, and logs when that changes. Its calls do not overlap.
type exporter struct {
	sdk.SpanExporter
	queue    *queue
	logger   *slog.Logger
	endpoint string
	failing  bool
}

// ExportSpans implements sdktrace.SpanExporter. It reports failures itself, because
// the processor reports them to a logger of its own.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.queue.pending.Add(-int64(len(spans)))
	switch {
	case err != nil:
		e.queue.count(Failed, len(spans))
		if !e.failing {
			e.logger.Warn("the collector does not take traces; requests are served as before", "endpoint", e.endpoint,
				"error", clip(err.Error()))
		}
	default:
		e.queue.count(Exported, len(spans))
		if e.failing {
			e.logger.Info("the collector takes traces again", "endpoint", e.endpoint)
		}
	}
	e.failing = err != nil
	return nil
}

// Begin begins the trace of a request with its span. If the caller is trusted and
// the request belongs to a trace of the caller (W3C Trace Context), that trace
// continues. Otherwise a new one begins.
func (t *Tracer) Begin(h http.Header, trusted bool) *Trace {
	if t == nil {
		return nil
	}
	ctx := context.Background()
	if parents := h[Parent]; trusted && len(parents) == 1 {
		carrier := propagation.MapCarrier{"traceparent": parents[0], "tracestate": strings.Join(h[State], ",")}
		ctx = propagation.TraceContext{}.Extract(ctx, carrier)
	}
	ctx, span := t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
	return &Trace{tracer: t.tracer, ctx: ctx, span: span}
}

// clip bounds texts of a client or a collector in a span or a log.
func clip(s string) string { return s[:min(len(s), 1024)] }
