// Package tracing follows single purchases through the program, and tells an
// OpenTelemetry collector of them: the request, the call of the stock, the broker, the
// order. It is no metric and no log, and nothing waits for it: what the collector
// does not take in time is dropped. The door, the reserver, the relay and the order
// writer use it; internal/app opens it.
//
// No context travels with a reservation. Whoever has the ticket has the trace: its id,
// the id of the span that all later ones belong to, and whether the purchase is
// traced at all follow from the ticket's hash (see [Of]), on every node and in every
// language alike.
//
// A nil *Tracer is one that is off, and a nil *Purchase is one that is not traced.
// Their methods may be called, and do nothing.
package tracing

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options of a Tracer.
type Options struct {
	// Endpoint is the URL of a collector that speaks OTLP over HTTP. /v1/traces is added to its
	// path unless it ends so. "" turns tracing off. What else a collector may want (headers,
	// certificates) is read from the OTEL_EXPORTER_OTLP_ variables.
	Endpoint string
	// Ratio is the share of purchases that are traced, 0 to 1. It should be the same on all nodes; of two
	// that differ, the lower one traces a part of what the other traces.
	Ratio float64
	// AskedMax is how many purchases a second are traced because the caller asks for it, at
	// most; 50 by default. Callers are strangers.
	AskedMax int

	Version string // Of the program.
	Node    string // Name of this process among others. Drawn by chance by default.

	QueueMax      int           // Spans that wait for the collector; more are dropped. 4096 by default.
	ExportEvery   time.Duration // How long a span waits for others to go with, at most; 1 s by default.
	ExportTimeout time.Duration // Of one call of the collector, 5 s by default.

	Log *slog.Logger // Of a collector that is away. Discards by default.
}

func (o Options) withDefaults() Options {
	orDefault(&o.AskedMax, 50)
	orDefault(&o.QueueMax, 4096)
	orDefault(&o.ExportEvery, time.Second)
	orDefault(&o.ExportTimeout, 5*time.Second)
	if o.Node == "" {
		o.Node = strings.ToLower(rand.Text()[:10])
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func orDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Tracer makes the spans of purchases. It may be used concurrently. Nil is off.
type Tracer struct {
	ratio    float64
	askedMax int64
	second   atomic.Int64 // In which asked were counted.
	asked    atomic.Int64

	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// Open makes a tracer, nil if there is no endpoint. It does not wait for the collector.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	if o.Endpoint == "" {
		return nil, nil //nolint:nilnil // Nil is a tracer that is off.
	}
	o = o.withDefaults()
	to, err := url.Parse(o.Endpoint)
	if err != nil || to.Host == "" {
		return nil, errors.New("the collector's endpoint is not a URL")
	}
	if to.Path = strings.TrimSuffix(to.Path, "/"); !strings.HasSuffix(to.Path, tracesPath) {
		to.Path += tracesPath
	}
	collector, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(to.String()), otlptracehttp.WithTimeout(o.ExportTimeout),
		// The queue is short: trying for long would only drop others.
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: 2 * o.ExportTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("open the exporter of traces: %w", err)
	}
	return newTracer(o, sdk.NewBatchSpanProcessor(&exporter{to: collector, log: o.Log},
		sdk.WithMaxQueueSize(o.QueueMax), sdk.WithMaxExportBatchSize(min(512, o.QueueMax)),
		sdk.WithBatchTimeout(o.ExportEvery), sdk.WithExportTimeout(3*o.ExportTimeout))), nil
}

const tracesPath = "/v1/traces"

func newTracer(o Options, spans sdk.SpanProcessor) *Tracer {
	provider := sdk.NewTracerProvider(
		sdk.WithSpanProcessor(spans), sdk.WithIDGenerator(ids{}),
		sdk.WithSampler(sdk.AlwaysSample()), // What is not to be traced never comes here.
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "seckill"), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Node),
		)),
	)
	return &Tracer{ratio: o.Ratio, askedMax: int64(o.AskedMax), provider: provider, tracer: provider.Tracer("seckill")}
}

// Close hands the spans that wait to the collector, for as long as ctx lasts.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("close the exporter of traces: %w", err)
	}
	return nil // Traces that nobody takes are no reason to fail.
}

// made is a span that is over.
type made struct {
	at         trace.SpanContext // Its own ids.
	parent     trace.SpanContext // Zero for the first of a trace.
	link       trace.SpanContext // A span of another trace that belongs to it; may be zero.
	name       string
	kind       trace.SpanKind
	begin, end time.Time
	about      []attribute.KeyValue
	failure    string // Says why it failed; "" if it did not.
}

func (t *Tracer) tell(m made) {
	ctx := context.WithValue(context.Background(), chosenKey{}, m.at)
	options := []trace.SpanStartOption{
		trace.WithSpanKind(m.kind), trace.WithTimestamp(m.begin), trace.WithAttributes(m.about...),
	}
	if m.parent.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, m.parent)
	}
	if m.link.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: m.link}))
	}
	_, span := t.tracer.Start(ctx, m.name, options...) //nolint:spancheck // It ends below.
	if m.failure != "" {
		span.SetStatus(codes.Error, m.failure)
	}
	span.End(trace.WithTimestamp(m.end))
}

// chosenKey is where the ids of a span stand in the context that it is made in.
type chosenKey struct{}

// ids gives spans the ids that were chosen for them.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	at, _ := ctx.Value(chosenKey{}).(trace.SpanContext)
	return at.TraceID(), at.SpanID()
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	at, _ := ctx.Value(chosenKey{}).(trace.SpanContext)
	return at.SpanID()
}
