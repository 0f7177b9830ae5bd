package app

import (
	"context"
	"time"

	"seckill/internal/tracing"
)

// lastTraces is how long a stop waits for the collector to take the last spans.
const lastTraces = time.Second

// openTraces is the first that is opened, so that whatever stops later may still tell of itself.
func (a *App) openTraces(ctx context.Context, version string) (err error) {
	a.tracer, err = tracing.Open(ctx, tracing.Options{
		Endpoint: a.config.OTLPEndpoint, Ratio: a.config.TraceSample, Version: version, Node: a.id, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.onStop("traces", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), lastTraces)
		defer cancel()
		return a.tracer.Close(ctx)
	})
	return nil
}
