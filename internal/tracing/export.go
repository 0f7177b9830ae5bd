package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exporter says once that the collector is away and once that it is back, in the log of this program:
// OpenTelemetry would say it each time, to a handler that all packages share.
type exporter struct {
	to   sdk.SpanExporter
	log  *slog.Logger
	lost atomic.Int64 // Spans since the collector was last there.
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.to.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		if e.lost.Add(int64(len(spans))) == int64(len(spans)) {
			e.log.Warn("the collector of traces does not take them; they are dropped until it does", "error", err)
		}
	case e.lost.Load() > 0:
		e.log.Info("the collector of traces takes them again", "dropped", e.lost.Swap(0))
	}
	return nil
}

func (e *exporter) Shutdown(ctx context.Context) error {
	return e.to.Shutdown(ctx) //nolint:wrapcheck // It stands for the collector.
}
