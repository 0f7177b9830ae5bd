package order

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/telemetry"
	"seckill/queue"
)

// rig is a writer with everything around it in memory.
type rig struct {
	*Writer
	queue *MemQueue
	store *memStore
	stock *MemStock
}

func newRig() *rig {
	r := &rig{queue: NewMemQueue(), store: newMemStore(), stock: NewMemStock()}
	r.Writer = &Writer{Source: r.queue, Store: r.store, Stock: r.stock}
	return r
}

// Messages of several runs, together larger than a transaction, become orders; the
// stock hears of each, and each is acknowledged and counted.
func TestWriterWritesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.BatchMax = 10
		r.Metrics = telemetry.New("test")
		want := 0
		for i := range 9 {
			run := seckill.RunID{Activity: 1, Run: 1 + i%3}
			rs := reserved(run, "a", "b", "late", "c", "d")
			want += len(rs)
			r.queue.Send(fmt.Sprint(i), run, rs...)
		}
		pass(time.Second)
		stop := running(t, r.Run)
		stop()
		equal(t, "settled", r.stock.Count(), want)
		equal(t, "acknowledged", r.queue.Acked(), 9)
		equal(t, "transactions", r.store.see().calls, 9) // 5 × (2 messages of 5), each of two runs, but the last.
		equal(t, "confirmed", counted(t, r.Metrics, "confirmed"), 36)
		equal(t, "failed", counted(t, r.Metrics, "failed"), 9)
		equal(t, "sum of lags", counted(t, r.Metrics, ""), 36)
		for ticket, s := range r.stock.Settled {
			if s.Failed != 0 && (s.Buyer != "late" || s.Failed != seckill.SoldOut) || s.Order != nil && s.Order.Ticket != ticket {
				t.Fatalf("settled: %+v", s)
			}
		}
	})
}

// A writer asks for as many messages as fit into a transaction, whatever is in one, so that the
// others get theirs.
func TestWriterTakesOneTransaction(t *testing.T) {
	for _, c := range []struct{ each, want int }{{25, 20}, {50, 10}, {100, 5}, {200, 2}, {300, 1}, {500, 1}, {900, 1}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			buyers := make([]string, c.each)
			for i := range 60 {
				for b := range buyers {
					buyers[b] = fmt.Sprint(i, " ", b)
				}
				r.queue.Send(fmt.Sprint(i), run1, reserved(run1, buyers...)...)
			}
			stop := running(t, r.Run)
			pass(time.Second)
			stop()
			equal(t, fmt.Sprintf("asked for, with %d in each", c.each), r.queue.asked, c.want)
			equal(t, "acknowledged", r.queue.Acked(), 60)
		})
	}
}

// counted is the count of an outcome, or with "" the sum of lags.
func counted(t *testing.T, m *telemetry.Metrics, outcome string) float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	must(t, err)
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			if outcome == "" && f.GetName() == "seckill_order_lag_seconds" {
				return metric.GetHistogram().GetSampleSum()
			}
			if f.GetName() == "seckill_orders_written_total" && metric.GetLabel()[0].GetValue() == outcome {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// A database that is away for an hour loses nothing and makes no dead letter; it is
// asked again and again, but ever more rarely.
func TestWriterWaitsForTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var away atomic.Bool
		away.Store(true)
		r.store.before = func(context.Context, []seckill.Reservation) error {
			if away.Load() {
				return fmt.Errorf("write: %w", ErrUnavailable)
			}
			return nil
		}
		r.queue.Send("m", run1, reserved(run1, "a", "b")...)
		stop := running(t, r.Run)
		pass(time.Hour)
		// With full jitter of at most 5 s, 2.5 s apart on average.
		if n := r.store.see().calls; n < 720 || n > 3600 {
			t.Fatalf("asked %d times in an hour", n)
		}
		equal(t, "settled", r.stock.Count(), 0)
		equal(t, "acknowledged", r.queue.Acked(), 0)
		away.Store(false)
		pass(7 * time.Second)
		equal(t, "settled", r.stock.Count(), 2)
		equal(t, "acknowledged", r.queue.Acked(), 1)
		equal(t, "dead letters", r.store.see().dead, 0)
		stop()
	})
}

// One reservation that the database never takes is found among many, tried as often as
// the setting says, and buried with the reason. The others do not wait for it.
func TestWriterFindsThePoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.AttemptsMax = 4
		var tries atomic.Int32
		r.store.before = func(_ context.Context, rs []seckill.Reservation) error {
			for _, one := range rs {
				if one.Buyer == "poison" {
					if len(rs) == 1 {
						tries.Add(1)
					}
					return errors.New("the database chokes on it")
				}
			}
			return nil
		}
		buyers := make([]string, 100)
		for i := range buyers {
			buyers[i] = fmt.Sprint(i)
		}
		buyers[37] = "poison"
		rs := reserved(run1, buyers...)
		r.queue.Send("m", run1, rs...)
		stop := running(t, r.Run)
		equal(t, "settled at once", r.stock.Count(), 99)
		equal(t, "acknowledged while one is open", r.queue.Acked(), 0)

		r.queue.Send("n", run1, reserved(run1, "later")...)
		synctest.Wait()
		equal(t, "settled beside the poison", r.stock.Count(), 100)
		equal(t, "acknowledged beside the poison", r.queue.Acked(), 1)

		pass(10 * time.Second)
		equal(t, "tries", tries.Load(), 4)
		equal(t, "dead letters", r.store.see().dead, 1)
		l := r.store.dead[rs[37].Ticket]
		run, inside, err := queue.DecodeReservations(l.Payload)
		if err != nil || run != run1 || len(inside) != 1 || inside[0].Ticket != rs[37].Ticket ||
			l.Reason != "the database chokes on it" || l.Attempts != 4 || l.Reservation.Buyer != "poison" || l.Run != run1 {
			t.Fatalf("dead letter: %+v, with %+v %v", l, inside, err)
		}
		equal(t, "acknowledged", r.queue.Acked(), 2)
		equal(t, "settled", r.stock.Count(), 100)
		stop()
	})
}

// What cannot be read is buried as it came, and nothing behind it waits.
func TestWriterBuriesTheUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.queue.put(queue.Delivery{Message: queue.Message{ID: "x", Body: []byte("\xff{")}, Attempt: 3})
		r.queue.Send("m", run1, reserved(run1, "a")...)
		stop := running(t, r.Run)
		stop()
		if len(r.store.unread) != 1 || string(r.store.unread[0].Payload) != "\xff{" || r.store.unread[0].Reason == "" {
			t.Fatalf("letters: %+v", r.store.unread)
		}
		equal(t, "acknowledged", r.queue.Acked(), 2)
		equal(t, "settled", r.stock.Count(), 1)
	})
}

// A ticket that is dead already is acknowledged, and the stock hears nothing: an
// operator has the word.
func TestWriterLeavesTheDeadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		rs := reserved(run1, "dead", "alive")
		r.store.dead[rs[0].Ticket] = seckill.DeadLetter{}
		r.queue.Send("m", run1, rs...)
		stop := running(t, r.Run)
		stop()
		equal(t, "acknowledged", r.queue.Acked(), 1)
		equal(t, "settled", r.stock.Count(), 1)
		equal(t, "the dead one moved", r.stock.Moves[rs[0].Ticket], 0)
	})
}

// Nothing is acknowledged before the stock knows, and what the stock lost is reported.
func TestWriterSettlesBeforeItAcknowledges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var down atomic.Bool
		down.Store(true)
		r.stock.Fail = func() error {
			if down.Load() {
				return errors.New("no answer")
			}
			return nil
		}
		rs := reserved(run1, "a")
		r.stock.unknown = []string{rs[0].Ticket}
		var lost []string
		r.Unknown = func(tickets []string) { lost = append(lost, tickets...) }
		r.queue.Send("m", run1, rs...)
		stop := running(t, r.Run)
		pass(time.Minute)
		equal(t, "acknowledged", r.queue.Acked(), 0)
		equal(t, "transactions", r.store.see().calls, 1)
		down.Store(false)
		pass(7 * time.Second)
		equal(t, "acknowledged", r.queue.Acked(), 1)
		if len(lost) != 1 || lost[0] != rs[0].Ticket {
			t.Fatalf("unknown: %v", lost)
		}
		stop()
	})
}

// A queue that fails, however, is joined again.
func TestWriterJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		failing := func() func() error {
			n := 0
			return func() error {
				if n++; n <= 3 {
					return errors.New("broken")
				}
				return nil
			}
		}
		r.queue.joins, r.queue.receive, r.queue.Acks = failing(), failing(), failing()
		rs := reserved(run1, "a", "b")
		r.queue.Send("m", run1, rs...)
		stop := running(t, r.Run)
		pass(time.Minute)
		stop()
		equal(t, "acknowledged", r.queue.Acked(), 1)
		equal(t, "orders", r.store.see().orders, 2)
		equal(t, "moves", r.stock.Moves[rs[0].Ticket], 1)
	})
}

// When it is to stop, the batch under way is finished and the rest handed back.
func TestWriterStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.BatchMax = 2
		r.store.before = func(ctx context.Context, _ []seckill.Reservation) error {
			select {
			case <-time.After(2 * time.Second):
				return nil
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
			}
		}
		r.queue.Send("m", run1, reserved(run1, "a", "b")...)
		r.queue.Send("n", run1, reserved(run1, "c", "d")...)
		began := time.Now()
		stop := running(t, r.Run)
		stop()
		equal(t, "stopped after", time.Since(began), 2*time.Second)
		equal(t, "settled", r.stock.Count(), 2)
		equal(t, "acknowledged", r.queue.Acked(), 1)
		equal(t, "handed back", len(r.queue.waiting), 1)
	})
}

// A database that hangs does not keep it from stopping.
func TestWriterStopsThoughTheDatabaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.store.before = func(ctx context.Context, _ []seckill.Reservation) error {
			<-ctx.Done()
			return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
		r.queue.Send("m", run1, reserved(run1, "a")...)
		stop := running(t, r.Run)
		pass(time.Second)
		began := time.Now()
		stop()
		equal(t, "stopped after", time.Since(began), 5*time.Second)
		equal(t, "acknowledged", r.queue.Acked(), 0)
		equal(t, "handed back", len(r.queue.waiting), 1)
	})
}

// Poison beyond all measure does not fill the memory: nothing new is taken in
// until there is room.
func TestWriterBoundsWhatItParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.store.before = func(context.Context, []seckill.Reservation) error { return errors.New("poison") }
		for i := range 30 {
			buyers := make([]string, 100)
			for j := range buyers {
				buyers[j] = fmt.Sprint("b", j)
			}
			r.queue.Send(fmt.Sprint(i), run1, reserved(run1, buyers...)...)
		}
		r.BatchMax = 5
		w := r.withDefaults()
		s := session{Writer: w, ctx: t.Context(), work: t.Context()}
		s.sub, _ = r.queue.Subscribe(t.Context())
		for r.store.see().dead < 3000 {
			ds, err := s.receive()
			must(t, err)
			for _, p := range s.portions(ds) {
				must(t, s.handle(p))
			}
			must(t, s.retryParked())
			if len(s.parked) > parkedMax+5*100 {
				t.Fatalf("%d reservations are parked", len(s.parked))
			}
		}
		equal(t, "acknowledged", r.queue.Acked(), 30)
	})
}

// Several writers on one queue share the work and write each order once.
func TestWritersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.BatchMax = 3
		a, b := running(t, r.Run), running(t, r.Run)
		for i := range 50 {
			r.queue.Send(fmt.Sprint(i), run1, reserved(run1, "a", "b")...)
		}
		pass(time.Second)
		equal(t, "acknowledged", r.queue.Acked(), 50)
		equal(t, "orders", r.store.see().orders, 100)
		a()
		b()
	})
}
