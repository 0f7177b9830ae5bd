package reserve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
)

// metric is the value of a metric without labels.
func metric(t *testing.T, r *Reserver, name string) float64 {
	t.Helper()
	families, err := r.metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// counting counts lines of a log.
type counting struct {
	slog.Handler
	n atomic.Int64
}

func (c *counting) logger() *slog.Logger {
	c.Handler = slog.DiscardHandler
	return slog.New(c)
}

func (c *counting) Enabled(context.Context, slog.Level) bool { return true }

func (c *counting) Handle(context.Context, slog.Record) error {
	c.n.Add(1)
	return nil
}
