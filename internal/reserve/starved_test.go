package reserve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/telemetry"
)

// A process that gets no processor for a while has calls that take long, and that is not the stock's fault: buyers
// are not refused for it. As soon as the process runs, a call that goes on hanging counts.
func TestAStarvedProcessBlamesNoStock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fickle{}
		f.hang()
		r := New(f, telemetry.New("test"), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = r.Reserve(ctx, activity(1), seckill.Attempt{Ticket: "t"}) }()
		synctest.Wait()
		g := &r.lane(activity(1).RunID()).guard
		<-time.After(900 * time.Millisecond)
		r.late(900 * time.Millisecond) // No look in between: this process stood still.
		if change, changed := g.watch(time.Now()); changed {
			t.Errorf("the guard opened: %+v", change)
		}
		for range 20 { // Now it runs.
			<-time.After(25 * time.Millisecond)
			r.late(25 * time.Millisecond)
		}
		if _, changed := g.watch(time.Now()); !changed {
			t.Error("a call that hangs is overlooked")
		}
		cancel()
		f.wake()
		synctest.Wait()
	})
}
