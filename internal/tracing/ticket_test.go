package tracing

import (
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"seckill"
)

var run1 = seckill.RunID{Activity: 1, Run: 1}

// What is traced is decided by OpenTelemetry's rule for ratios, so that a consumer in another language may use its
// own library's; what a lower ratio traces, a higher one does as well; and the share is what was asked for.
func TestTheRatio(t *testing.T) {
	const tickets = 20_000
	for _, ratio := range []float64{0, 0.001, 0.25, 0.5, 1} {
		low, high := &Tracer{ratio: ratio}, &Tracer{ratio: min(1, 2*ratio)}
		theirs := sdk.TraceIDRatioBased(ratio)
		traced := 0
		for range tickets {
			ticket := seckill.NewTicket(run1)
			got := low.Samples(ticket)
			if want := theirs.ShouldSample(sdk.SamplingParameters{TraceID: Of(ticket).TraceID()}).Decision == sdk.RecordAndSample; got != want {
				t.Fatalf("ratio %v, %s: got %t, theirs %t", ratio, ticket, got, want)
			}
			if got && !high.Samples(ticket) {
				t.Fatalf("ratio %v traces %s, and twice of it does not", ratio, ticket)
			}
			if got {
				traced++
			}
		}
		// Six standard deviations.
		if want := ratio * tickets; float64(traced) < want-6*70.7 && ratio > 0.1 || float64(traced) > want+6*70.7 {
			t.Errorf("ratio %v: %d of %d", ratio, traced, tickets)
		}
	}
}

// A ticket that is traced is found among those that are drawn. Where all are the same, or none can be, the
// search ends.
func TestDraw(t *testing.T) {
	draws := 0
	draw := func() string { draws++; return seckill.NewTicket(run1) }
	tr := &Tracer{ratio: 0.01}
	for range 50 {
		if ticket := tr.Draw(draw); !tr.Samples(ticket) {
			t.Errorf("after %d draws: %s is not traced", draws, ticket)
		}
	}
	if draws < 1000 || draws > 25_000 {
		t.Errorf("%d draws for 50 of 1 in 100", draws)
	}
	for ratio, most := range map[float64]int{0: 1, 1e-12: drawsMax + 1, 1: 1} {
		draws = 0
		(&Tracer{ratio: ratio}).Draw(draw)
		if draws > most {
			t.Errorf("ratio %v: %d draws", ratio, draws)
		}
	}
	draws = 0
	(&Tracer{ratio: 1e-12}).Draw(func() string { draws++; return "7-2-71jbqnfp7jetqsq5vh9z" })
	if draws != 2 {
		t.Errorf("%d draws of what is always the same", draws)
	}
}

// BenchmarkNotTraced is what a purchase that is not traced costs when tracing is on.
func BenchmarkNotTraced(b *testing.B) {
	t, now := &Tracer{ratio: 0.001}, time.Now()
	ticket := seckill.NewTicket(run1)
	for t.Samples(ticket) {
		ticket = seckill.NewTicket(run1)
	}
	b.ReportAllocs()
	for b.Loop() {
		if t.Begin(t.Accept("", now), ticket, now) != nil {
			b.Fatal("it is traced")
		}
	}
}
