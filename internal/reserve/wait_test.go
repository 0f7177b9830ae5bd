package reserve

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/telemetry"
)

// flood sends so many attempts a second, whatever comes of them, and returns how long those waited that were decided, and
// those that were refused.
func flood(t *testing.T, r *Reserver, rate int, d time.Duration) (decided, refused []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range int(d.Seconds() * float64(rate)) {
		<-time.After(time.Second / time.Duration(rate))
		all.Go(func() {
			begin := time.Now()
			_, err := r.Reserve(t.Context(), activity(1), seckill.Attempt{Ticket: "t"})
			mu.Lock()
			defer mu.Unlock()
			var refusal *seckill.Refusal
			switch {
			case err == nil:
				decided = append(decided, time.Since(begin))
			case errors.As(err, &refusal) && refusal.Reason == seckill.Busy:
				refused = append(refused, time.Since(begin))
			default:
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	return decided, refused
}

// When more come than the stock decides, it goes on deciding as many as it can, nobody waits for long, and who is refused
// hears it at once.
func TestOverloadCostsNoTimeAndNoGoodput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perCall, call = 10, 10 * time.Millisecond // 1,000 a second.
		r := New(&decide{delay: call}, telemetry.New("test"), Options{BatchMax: perCall, Flights: 1})
		decided, refused := flood(t, r, 10_000, 3*time.Second)
		if len(decided) < 2900 {
			t.Errorf("%d were decided in 3 s, want nearly 3000", len(decided))
		}
		slices.Sort(decided)
		if most := decided[len(decided)*9/10]; most > 120*time.Millisecond {
			t.Errorf("one in ten waited %v", most)
		}
		// Before the first whole batch is decided nobody knows how fast the stock is.
		if most := decided[len(decided)-1]; most > 250*time.Millisecond {
			t.Errorf("somebody waited %v", most)
		}
		if len(refused) == 0 || slices.Max(refused) != 0 {
			t.Errorf("%d were refused, the last after %v", len(refused), slices.Max(refused))
		}
	})
}

// A slow stock is no reason to refuse what it can decide: a batch may wait for each one under way, however long that takes.
func TestASlowStockIsKeptBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(&decide{delay: 200 * time.Millisecond}, telemetry.New("test"), Options{BatchMax: 10, Flights: 1}) // 50 a second.
		decided, _ := flood(t, r, 200, 4*time.Second)
		if len(decided) < 180 { // Some calls are smaller, to learn from.
			t.Errorf("%d were decided in 4 s, want nearly 200", len(decided))
		}
	})
}

// A crowd that comes at once is decided whole when the stock is fast enough.
func TestACrowdAtOnceIsNotOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(&decide{delay: time.Millisecond}, telemetry.New("test"), Options{})
		decided, refused := flood(t, r, 1_000_000, 5*time.Millisecond)
		if len(refused) != 0 || len(decided) != 5000 {
			t.Errorf("%d were decided and %d refused, want all decided", len(decided), len(refused))
		}
	})
}
