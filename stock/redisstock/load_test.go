package redisstock

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
)

func specOf(epoch, units int64, subs int) stock.Spec {
	now := time.Now()
	return stock.Spec{
		Run: testRun, Epoch: epoch, Units: units, Limit: 1, SubStocks: subs,
		StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour),
	}
}

// heldBy makes orders of so many buyers.
func heldBy(n int) (orders []seckill.Order) {
	for i := range n {
		orders = append(orders, seckill.Order{
			ID: fmt.Sprint(i), Ticket: seckill.NewTicket(testRun), Run: testRun, Buyer: fmt.Sprint("held ", i), Quantity: 1, Slot: 1,
			State: seckill.OrderState(1 + i%2), CreatedAt: time.Now(),
		})
	}
	return orders
}

// wantLoaded wants a run whole, under an epoch, with its buyers known.
func wantLoaded(t *testing.T, s *Stock, spec stock.Spec, sold int64) {
	t.Helper()
	l := level(t, s)
	held := int64(len(spec.Held))
	if l.Epoch != spec.Epoch || l.Available+l.Queued != spec.Units || l.Queued != sold || l.AwaitingPayment != (held+1)/2 || l.Paid != held/2 {
		t.Fatalf("got %+v, want epoch %d, %d units, %d held", l, spec.Epoch, spec.Units, held)
	}
	var attempts []seckill.Attempt
	for _, o := range spec.Held {
		attempts = append(attempts, attempt(o.Buyer, 1))
	}
	ds, err := s.Reserve(t.Context(), testRun, spec.Epoch, attempts)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range ds {
		if d.Verdict != stock.OverLimit || d.Ticket != spec.Held[i].Ticket {
			t.Fatalf("%s: got %+v, want %s", spec.Held[i].Buyer, d, spec.Held[i].Ticket)
		}
	}
}

// A process that dies between any two steps of a load leaves the old run for nobody to buy from
// under the new epoch, and the same load again, by anyone, puts it right; what was sold
// after the load was decided stays sold.
func TestLoadInterruptedAnywhere(t *testing.T) {
	redis := testenv.Redis(t)
	for _, subs := range []int{1, 4} {
		for _, step := range []string{"put aside", "put in place", "prepared", "opened", "dropped"} {
			for hit := 1; hit <= subs; hit++ {
				dies := open(t, redis.URL())
				lives := twin(t, dies, redis.URL())
				if err := dies.Load(t.Context(), specOf(1, 50, 6)); err != nil {
					t.Fatal(err)
				}
				ask(t, dies, attempt("old", 1))
				seen := 0
				dies.interrupt = func(at string) error {
					if at == step {
						if seen++; seen == hit {
							return errCrash
						}
					}
					return nil
				}
				spec := specOf(2, 100, subs)
				spec.Held = heldBy(1200)
				crashed := dies.Load(t.Context(), spec)
				if (seen >= hit) != errors.Is(crashed, errCrash) {
					t.Fatalf("%s %d: %v", step, hit, crashed)
				}
				sold := int64(0)
				ds, err := lives.Reserve(t.Context(), testRun, 2, []seckill.Attempt{attempt("early", 1)})
				if err != nil {
					t.Fatal(err)
				}
				switch v := ds[0].Verdict; {
				case v == stock.Taken:
					sold++
				case v != stock.Stale && v != stock.NotLoaded && v != stock.Unknown:
					t.Fatalf("%s %d: got %+v", step, hit, ds[0])
				}
				// One sub-stock alone is for sale as soon as it is there.
				if step != "opened" && subs > 1 && crashed != nil && sold > 0 {
					t.Fatalf("%s %d: sold before the load was complete", step, hit)
				}
				if err := lives.Load(t.Context(), spec); err != nil {
					t.Fatalf("%s %d: load again: %v", step, hit, err)
				}
				wantLoaded(t, lives, spec, sold)
				if l := level(t, dies); l.Epoch != 2 {
					t.Fatalf("got %+v", l)
				}
			}
		}
	}
}

// Of loads at once the one with the highest epoch is in place in the end, whole.
func TestLoadsAtOnce(t *testing.T) {
	redis := testenv.Redis(t)
	for range 5 {
		first := open(t, redis.URL())
		var wait sync.WaitGroup
		specs := make([]stock.Spec, 6)
		for i := range specs {
			specs[i] = specOf(int64(1+i/2), int64(100*(1+i/2)), 1+3*(i/4))
			specs[i].Held = heldBy(20)
			if i%2 == 1 {
				specs[i] = specs[i-1] // Two with one epoch are the same.
			}
			s := twin(t, first, redis.URL())
			wait.Go(func() {
				if err := s.Load(t.Context(), specs[i]); err != nil {
					// Whoever is overtaken may hear of it, or not.
					t.Logf("load %d: %v", i, err)
				}
			})
		}
		wait.Wait()
		last := specs[len(specs)-1]
		if err := first.Load(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		wantLoaded(t, first, last, 0)
	}
}

// A sub-stock that is lost while others sell is not loaded again under their epoch, which would
// make units of nothing; it takes a higher one.
func TestLostSubStockNeedsAHigherEpoch(t *testing.T) {
	redis := testenv.Redis(t)
	s := open(t, redis.URL())
	spec := specOf(1, 100, 4)
	if err := s.Load(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	redis.Must(t, append([]string{"DEL"}, allKeys(s.tag(place{testRun, 2}))...)...)
	if err := s.Load(t.Context(), spec); err == nil {
		t.Error("it was loaded again")
	}
	if l, err := s.Level(t.Context(), testRun); !errors.Is(err, stock.ErrNotLoaded) || l.Epoch != 1 {
		t.Errorf("got %+v, %v, want the epoch and ErrNotLoaded", l, err)
	}
	spec.Epoch = 2
	if err := s.Load(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	wantLoaded(t, s, spec, 0)
}

// A drop, or a change of the run, that was interrupted is finished by the same call again.
func TestDropAndControlInterrupted(t *testing.T) {
	redis := testenv.Redis(t)
	const subs = 3
	for hit := 1; hit <= subs; hit++ {
		s := open(t, redis.URL())
		load(t, s, 10, subs, 1)
		seen := 0
		s.interrupt = func(at string) error {
			if at == "dropped" || at == "controlled" {
				if seen++; seen == hit {
					return errCrash
				}
			}
			return nil
		}
		if err := s.Control(t.Context(), testRun, stock.Control{Paused: true}); !errors.Is(err, errCrash) {
			t.Fatalf("control: %v", err)
		}
		if err := s.Control(t.Context(), testRun, stock.Control{Paused: true}); err != nil {
			t.Fatal(err)
		}
		for sub := range subs {
			if d := ask(t, s, attempt(buyerAt(sub, subs), 1)); d.Verdict != stock.Paused {
				t.Errorf("sub-stock %d: got %+v", sub, d)
			}
		}
		seen = 0
		if err := s.Drop(t.Context(), testRun); !errors.Is(err, errCrash) {
			t.Fatalf("drop: %v", err)
		}
		if err := s.Drop(t.Context(), testRun); err != nil {
			t.Fatal(err)
		}
		if keys := redis.Must(t, "KEYS", "*"+s.prefix+"*").([]any); len(keys) > 0 {
			t.Errorf("left after a drop: %v", keys)
		}
	}
}
