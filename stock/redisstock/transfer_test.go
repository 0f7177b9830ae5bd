package redisstock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
)

var testRun = seckill.RunID{Activity: 77, Run: 3}

// load opens a run on a stock.
func load(tb testing.TB, s *Stock, units int64, subs, limit int) {
	tb.Helper()
	now := time.Now()
	err := s.Load(tb.Context(), stock.Spec{
		Run: testRun, Epoch: 1, Units: units, Limit: limit, SubStocks: subs,
		StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour),
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// twin is another process on the same stock.
func twin(tb testing.TB, s *Stock, url string) *Stock {
	tb.Helper()
	return open(tb, url, func(o *Options) { o.Prefix = s.prefix })
}

func attempt(buyer string, quantity int) seckill.Attempt {
	return seckill.Attempt{Ticket: seckill.NewTicket(testRun), Buyer: buyer, Quantity: quantity}
}

// ask reserves one attempt.
func ask(tb testing.TB, s *Stock, a seckill.Attempt) stock.Decision {
	tb.Helper()
	ds, err := s.Reserve(tb.Context(), testRun, 1, []seckill.Attempt{a})
	if err != nil {
		tb.Fatal(err)
	}
	return ds[0]
}

// buyerAt makes a buyer whose home is a given sub-stock.
func buyerAt(sub, subs int) string {
	for i := 0; ; i++ {
		if b := fmt.Sprintf("buyer-%d-%d", sub, i); home(b, subs) == sub {
			return b
		}
	}
}

func level(tb testing.TB, s *Stock) stock.Level {
	tb.Helper()
	l, err := s.Level(tb.Context(), testRun)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// sellAll has buyers of each home ask one at a time until one of each hears that all is
// sold, and returns how many units were sold.
func sellAll(tb testing.TB, s *Stock, subs int) (sold int64) {
	tb.Helper()
	for i, dry := 0, 0; dry < 2*subs; i++ {
		switch d := ask(tb, s, attempt(fmt.Sprintf("late-%d", i), 1)); {
		case d.Verdict == stock.Taken:
			sold++
			dry = 0
		case d.Verdict == stock.Short && d.Left == 0:
			dry++
		default:
			tb.Fatalf("got %+v", d)
		}
	}
	return sold
}

var errCrash = errors.New("crash")

// steps of a transfer, between any two of which a process may die.
var steps = []string{"looked", "before give", "gave", "before take", "took", "forgot"}

// A process that dies between any two steps of a transfer loses no unit and makes none:
// whoever comes next finds each.
func TestTransferInterruptedAnywhere(t *testing.T) {
	redis := testenv.Redis(t)
	const units, subs = 10, 4
	for _, step := range steps {
		for _, hit := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s %d", step, hit), func(t *testing.T) {
				dies := open(t, redis.URL())
				lives := twin(t, dies, redis.URL())
				load(t, dies, units, subs, units)
				// More than the home has, so that it takes a transfer from several others.
				seen := 0
				dies.interrupt = func(at string) error {
					if at == step {
						if seen++; seen >= hit {
							return errCrash
						}
					}
					return nil
				}
				taken := int64(0)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ds, err := dies.Reserve(ctx, testRun, 1, []seckill.Attempt{attempt(buyerAt(0, subs), 8)})
				if err == nil && ds[0].Verdict == stock.Taken {
					taken = 8
				}
				if crashed := seen >= hit; crashed && taken > 0 {
					t.Fatalf("sold though it died")
				}
				if l := level(t, lives); l.Available != units-taken {
					t.Fatalf("%d units are available, want %d", l.Available, units-taken)
				}
				if sold := sellAll(t, lives, subs); sold != units-taken {
					t.Fatalf("%d units were sold, want %d", sold, units-taken)
				}
				if l := level(t, lives); l.Available != 0 || l.Queued != units {
					t.Fatalf("got %+v, want all %d sold", l, units)
				}
				all, err := lives.statuses(t.Context(), testRun, subs)
				if err != nil || all.moving() != 0 {
					t.Fatalf("%d units are on their way, %v", all.moving(), err)
				}
			})
		}
	}
}

// A unit that is on its way, left there by a process that died, is sold to whoever asks
// next, whatever his home is: he is not told that all is sold.
func TestUnitOnItsWayIsNotSoldOut(t *testing.T) {
	redis := testenv.Redis(t)
	const subs = 4
	for buyer := range subs {
		for _, step := range []string{"gave", "before take", "took"} {
			dies := open(t, redis.URL())
			lives := twin(t, dies, redis.URL())
			load(t, dies, 1, subs, 1) // The unit is at 0.
			dies.interrupt = func(at string) error {
				if at == step {
					return errCrash
				}
				return nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := dies.Reserve(ctx, testRun, 1, []seckill.Attempt{attempt(buyerAt(1, subs), 1)})
			cancel()
			if err == nil {
				t.Fatal("the process did not die")
			}
			if d := ask(t, lives, attempt(buyerAt(buyer, subs), 1)); d.Verdict != stock.Taken {
				t.Errorf("died at %q, buyer of %d: got %+v, want the unit", step, buyer, d)
			}
		}
	}
}

// A take that comes late or again does nothing, and a giver that was set back uses no number
// that the taker has passed.
func TestTakeLateOrTwice(t *testing.T) {
	redis := testenv.Redis(t)
	s := open(t, redis.URL())
	load(t, s, 100, 2, 1)
	sp, err := s.split(t.Context(), testRun)
	if err != nil {
		t.Fatal(err)
	}
	total := func(want int64) {
		t.Helper()
		if l := level(t, s); l.Available != want {
			t.Fatalf("%d units, want %d", l.Available, want)
		}
	}
	first, err := s.give(t.Context(), sp, 0, 1, 1, 0)
	if err != nil || len(first) != 1 || first[0].number != 1 {
		t.Fatalf("gave %v, %v", first, err)
	}
	total(100)
	second, err := s.give(t.Context(), sp, 0, 1, 1, 0)
	if err != nil || len(second) != 2 {
		t.Fatalf("gave %v, %v", second, err)
	}
	total(100)
	for _, parcels := range [][]parcel{second, first, second} {
		if err := s.take(t.Context(), sp, 1, map[int][]parcel{0: parcels}); err != nil {
			t.Fatal(err)
		}
		total(100)
	}
	// The giver comes back from an older copy that knows of fewer numbers, or of none.
	key := transfersKey(s.tag(place{testRun, 0}))
	for i, older := range [][]string{{"HSET", key, "o1", "1"}, {"HDEL", key, "o1"}} {
		redis.Must(t, older...)
		next, err := s.give(t.Context(), sp, 0, 1, 1, int64(2+i))
		if err != nil || len(next) != 1 || next[0].number != int64(3+i) {
			t.Fatalf("gave %v, %v, want number %d", next, err, 3+i)
		}
		if err := s.take(t.Context(), sp, 1, map[int][]parcel{0: next}); err != nil {
			t.Fatal(err)
		}
		total(100)
	}
}

// Someone who wants more than any one sub-stock has gets it, and of two who want more than
// half one gets it.
func TestGathers(t *testing.T) {
	redis := testenv.Redis(t)
	const subs = 8
	s := open(t, redis.URL())
	load(t, s, 16, subs, 16)
	if d := ask(t, s, attempt("all", 16)); d.Verdict != stock.Taken {
		t.Fatalf("got %+v", d)
	}
	for round := range 10 {
		s := open(t, redis.URL())
		other := twin(t, s, redis.URL())
		load(t, s, 16, subs, 16)
		var got [2]stock.Decision
		var wait sync.WaitGroup
		for i, at := range []*Stock{s, other} {
			wait.Go(func() {
				ds, err := at.Reserve(t.Context(), testRun, 1, []seckill.Attempt{attempt(buyerAt(i+round%4, subs), 10)})
				if err != nil {
					t.Error(err)
					return
				}
				got[i] = ds[0]
			})
		}
		wait.Wait()
		if got[0].Verdict == stock.Short {
			got[0], got[1] = got[1], got[0]
		}
		if got[0].Verdict != stock.Taken || got[1].Verdict != stock.Short || got[1].Left != 6 {
			t.Fatalf("got %+v, want one taken and one short with 6 left", got)
		}
	}
}

// With buyers at several processes at once, units that come back and are added, each unit
// finds its buyer, and "sold out" is said only when it was true.
func TestRushOnSubStocks(t *testing.T) {
	rush(t, testenv.Redis(t).URL(), func() {})
}

func rush(t *testing.T, url string, meanwhile func()) {
	const units, subs, buyers = 97, 8, 500
	first := open(t, url)
	processes := []*Stock{first, twin(t, first, url)}
	load(t, first, units, subs, 1)
	var taken, started atomic.Int64
	var wait sync.WaitGroup
	next := make(chan string, 2*buyers)
	for i := range 2 * buyers {
		next <- fmt.Sprintf("%d-buyer", i%buyers)
	}
	close(next)
	for i := range 16 {
		wait.Go(func() {
			for buyer := range next {
				started.Add(1)
				a := attempt(buyer, 1)
				var d stock.Decision
				for {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					ds, err := processes[i%2].Reserve(ctx, testRun, 1, []seckill.Attempt{a})
					cancel()
					if err == nil && ds[0].Verdict != stock.Unknown {
						d = ds[0]
						break
					}
				}
				switch {
				case d.Verdict == stock.Taken || d.Verdict == stock.Known:
					taken.Add(1)
				case d.Verdict == stock.Short && d.Left == 0:
					// Up to 15 others may have a unit and not have said so yet.
					if n := taken.Load(); n < units-15 {
						t.Errorf("sold out after %d of %d", n, units)
					}
				case d.Verdict != stock.OverLimit:
					t.Errorf("got %+v", d)
				}
			}
		})
	}
	meanwhile()
	wait.Wait()
	if n := taken.Load(); n != units {
		t.Fatalf("%d units were taken, want %d", n, units)
	}
	if l := level(t, first); l.Available != 0 || l.Queued != units {
		t.Fatalf("got %+v", l)
	}
	// Each unit that comes back, wherever, is sold to whoever asks, wherever.
	list, err := first.Queued(t.Context(), testRun, "", 1000)
	if err != nil || len(list) != units {
		t.Fatalf("%d are queued, %v", len(list), err)
	}
	for i, r := range list[:20] {
		unknown, err := first.Settle(t.Context(), []stock.Settlement{{Run: testRun, Ticket: r.Ticket, Buyer: r.Buyer, Failed: seckill.SoldOut}})
		if err != nil || len(unknown) > 0 {
			t.Fatalf("unknown %v, %v", unknown, err)
		}
		if d := ask(t, processes[i%2], attempt(fmt.Sprintf("second-%d", i), 1)); d.Verdict != stock.Taken {
			t.Fatalf("unit %d came back, and the next buyer got %+v", i, d)
		}
	}
	if n := sellAll(t, processes[1], subs); n != 0 {
		t.Fatalf("%d units too many", n)
	}
}

// A restock that takes away reaches all sub-stocks, does as much as there is, and goes on
// where it was interrupted.
func TestNegativeRestockGathers(t *testing.T) {
	redis := testenv.Redis(t)
	const subs = 8
	for _, step := range append([]string{"took away a part", ""}, steps...) {
		for _, want := range []int64{-30, -100} {
			s := open(t, redis.URL())
			load(t, s, 40, subs, 1)
			died := false
			s.interrupt = func(at string) error {
				if at == step && !died {
					died = true
					return errCrash
				}
				return nil
			}
			did, err := s.Restock(t.Context(), testRun, 5, want)
			if died != (err != nil) {
				t.Fatalf("at %q: %v", step, err)
			}
			for range 2 {
				if did, err = s.Restock(t.Context(), testRun, 5, want); err != nil || did != max(want, -40) {
					t.Fatalf("interrupted at %q: did %d, %v, want %d", step, did, err, max(want, -40))
				}
			}
			if l := level(t, s); l.Available != 40+did {
				t.Fatalf("%d are left, want %d", l.Available, 40+did)
			}
		}
	}
}
