package activity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/stock"
)

// pass lets time go by, and everything that is due in it happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A run is brought into the stock when its preload is due, and not before.
func TestPreloadsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(time.Hour))
		h.start(t)
		pass(55*time.Minute - time.Second)
		if got := h.store.get(a.ID).Phase; got != seckill.PhaseScheduled {
			t.Fatalf("a second before the preload: phase %d", got)
		}
		pass(2 * time.Second)
		got, r := h.store.get(a.ID), h.stock.run(a.RunID())
		if got.Phase != seckill.PhaseLoaded || r.spec.Units != 100 || r.level.Epoch != got.Epoch || got.Epoch != 1 {
			t.Fatalf("a second after: %+v, stock %+v", got, r.spec)
		}
		if n, ok := h.registry.Available(a.RunID()); !ok || n != 100 {
			t.Errorf("this node knows of %d, %v units, want 100", n, ok)
		}
		pass(time.Minute)
		if got := h.stock.count("load"); got != 1 {
			t.Errorf("loaded %d times", got)
		}
	})
}

// Many keepers at once, delayed at every step: the run ends up loaded once and for all, and
// no buyer who got a unit is ever forgotten.
func TestRacingKeepersWipeNobody(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			store, stocks := newMemStore(), newFakeStock()
			first := newNode(t, store, stocks)
			a := first.create(t, sale(6*time.Minute))
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 0))
			delay := func(string) error {
				mu.Lock()
				d := time.Duration(random.IntN(int(3 * time.Second)))
				mu.Unlock()
				<-time.After(d)
				return nil
			}
			store.set(delay, delay)
			stocks.set(delay, delay)
			first.start(t)
			for range 2 {
				newNode(t, store, stocks).start(t)
			}
			bought := map[string]bool{}
			for range 900 { // Half a second each: well past the start.
				pass(500 * time.Millisecond)
				// A buyer through a gateway that is right up to date, and one that is late.
				for _, seen := range []seckill.Activity{store.get(a.ID), lag(first, a)} {
					buyer := fmt.Sprint(len(bought))
					if len(bought) < 50 && stocks.buy(seen, buyer) {
						bought[buyer] = true
					}
				}
			}
			got, r := store.get(a.ID), stocks.run(a.RunID())
			if got.Phase != seckill.PhaseLoaded || r.level.Epoch != got.Epoch {
				t.Fatalf("seed %d: phase %d, epoch %d, in the stock %d", seed, got.Phase, got.Epoch, r.level.Epoch)
			}
			for buyer := range bought {
				if !r.buyers[buyer] {
					t.Errorf("seed %d: buyer %s was forgotten", seed, buyer)
				}
			}
			if len(bought) == 0 || r.level.Available != 100-int64(len(bought)) {
				t.Errorf("seed %d: %d bought, %d are left", seed, len(bought), r.level.Available)
			}
		})
	}
}

func lag(h *house, a seckill.Activity) seckill.Activity {
	if seen, ok := h.registry.Activity(a.ID); ok {
		return *seen
	}
	return a
}

// A keeper that dies before or after any step of a preload is followed by another, which
// brings it to an end.
func TestPreloadSurvivesACrashAtEachStep(t *testing.T) {
	for _, where := range []string{"activity.preload", "restocks", "units", "live orders", "load", "activity.loaded"} {
		for _, effect := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store, stocks := newMemStore(), newFakeStock()
				first := newNode(t, store, stocks)
				a := first.create(t, sale(time.Hour))
				pass(56 * time.Minute)
				crash := func(name string) error {
					if name == where {
						return errors.New("killed")
					}
					return nil
				}
				if effect {
					store.set(nil, crash)
					stocks.set(nil, crash)
				} else {
					store.set(crash, nil)
					stocks.set(crash, nil)
				}
				seen := store.get(a.ID)
				if err := first.keeper.Preload(ctx, &seen); err == nil {
					t.Fatalf("%s: nothing was killed", where)
				}
				store.set(nil, nil)
				stocks.set(nil, nil)
				newNode(t, store, stocks).start(t)
				pass(10 * time.Second)
				got, r := store.get(a.ID), stocks.run(a.RunID())
				if got.Phase != seckill.PhaseLoaded || r.level.Epoch != got.Epoch || r.level.Available != 100 {
					t.Errorf("%s, effect %v: phase %d, epoch %d, stock %+v", where, effect, got.Phase, got.Epoch, r.level)
				}
			})
		}
	}
}

// A keeper that is behind does not load again what is loaded.
func TestAStaleKeeperReloadsNothing(t *testing.T) {
	h := newHouse(t)
	scheduled := h.create(t, sale(time.Hour))
	h.store.put(scheduled.ID, func(a *seckill.Activity) { a.StartsAt = time.Now() })
	seen := h.store.get(scheduled.ID)
	must(t, h.keeper.Preload(ctx, &seen))
	loaded := h.store.get(scheduled.ID)
	if !h.stock.buy(loaded, "ann") {
		t.Fatal("ann could not buy")
	}
	if err := h.keeper.Preload(ctx, &seen); !errors.Is(err, errOvertaken) {
		t.Errorf("preload from an old snapshot: %v", err)
	}
	older := loaded
	older.Epoch--
	if err := h.keeper.Rebuild(ctx, &older, "test"); !errors.Is(err, errOvertaken) {
		t.Errorf("rebuild from an old snapshot: %v", err)
	}
	must(t, h.keeper.Tend(ctx, &loaded))
	if !h.stock.run(loaded.RunID()).buyers["ann"] || h.store.get(loaded.ID) != loaded {
		t.Errorf("ann was forgotten, or the activity changed: %+v", h.store.get(loaded.ID))
	}
}

// Units that come while the run is being loaded are in the stock when it opens.
func TestARestockDuringThePreloadIsNotLost(t *testing.T) {
	for _, where := range []string{"live orders", "load", "activity.loaded"} {
		h := newHouse(t)
		a := h.create(t, sale(time.Hour))
		h.store.put(a.ID, func(a *seckill.Activity) { a.StartsAt = time.Now() })
		once := sync.OnceFunc(func() {
			_, err := h.store.BeginRestock(ctx, a.ID, 11, by)
			must(t, err)
		})
		restock := func(name string) error {
			if name == where {
				once()
			}
			return nil
		}
		h.store.set(restock, nil)
		h.stock.set(restock, nil)
		seen := h.store.get(a.ID)
		must(t, h.keeper.Preload(ctx, &seen))
		if got := h.stock.run(a.RunID()).level.Available; got != 111 {
			t.Errorf("restocked before %s: %d units in the stock, want 111", where, got)
		}
	}
}

// A pause that comes while the run is being loaded holds when it opens.
func TestAPauseDuringThePreloadIsNotLost(t *testing.T) {
	h := newHouse(t)
	a := h.create(t, sale(time.Hour))
	h.store.put(a.ID, func(a *seckill.Activity) { a.StartsAt = time.Now() })
	h.stock.set(nil, func(name string) error {
		if name == "load" {
			h.store.put(a.ID, func(a *seckill.Activity) { a.Paused = true })
		}
		return nil
	})
	seen := h.store.get(a.ID)
	must(t, h.keeper.Preload(ctx, &seen))
	if !h.stock.run(a.RunID()).control.Paused {
		t.Error("the stock sells")
	}
}

// A run whose end has passed before the stock could be reached is not loaded any more.
func TestWhatIsOverIsNotPreloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.stock.set(away, nil)
		a := h.create(t, sale(0))
		h.start(t)
		pass(2 * time.Hour)
		h.stock.set(nil, nil)
		pass(time.Minute)
		if got := h.store.get(a.ID); got.Phase != seckill.PhaseScheduled || h.stock.count("load") != 0 {
			t.Errorf("phase %d after its end", got.Phase)
		}
	})
}

// Two nodes that told the stock different things in the wrong order are put right.
func TestControlIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		h.start(t)
		pass(time.Second)
		must(t, h.stock.Control(ctx, a.RunID(), stock.Control{Paused: true, EndsAt: a.EndsAt}))
		pass(31 * time.Second)
		if h.stock.run(a.RunID()).control.Paused {
			t.Error("the stock is paused, and nobody wanted that")
		}
	})
}

// One activity whose stock hangs delays no other.
func TestASlowActivityStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		slow := h.create(t, sale(time.Hour))
		quick := h.create(t, sale(time.Hour))
		hanging := &hangingStock{h.stock, slow.RunID()}
		h.keeper.o.Stock, h.keeper.loader.stock = hanging, hanging
		h.start(t)
		pass(56 * time.Minute)
		if got := h.store.get(quick.ID).Phase; got != seckill.PhaseLoaded {
			t.Errorf("the other activity is in phase %d", got)
		}
		if got := h.store.get(slow.ID).Phase; got != seckill.PhaseScheduled {
			t.Errorf("the slow activity is in phase %d", got)
		}
	})
}

type hangingStock struct {
	*fakeStock
	run seckill.RunID
}

func (h *hangingStock) Load(ctx context.Context, spec stock.Spec) error {
	if spec.Run == h.run {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.fakeStock.Load(ctx, spec)
}

// A pause that did not reach the stock is repeated until it has.
func TestACommandReachesTheStockInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		h.start(t)
		pass(time.Second)
		h.stock.set(away, nil)
		paused, err := h.operator.Pause(ctx, a.ID, by)
		must(t, err)
		if !paused.Paused {
			t.Fatalf("not paused: %+v", paused)
		}
		h.stock.set(nil, nil)
		pass(20 * time.Second)
		if !h.stock.run(a.RunID()).control.Paused {
			t.Error("the stock does not know of the pause")
		}
		h.stock.set(away, nil)
		closed, err := h.operator.Close(ctx, a.ID, by)
		must(t, err)
		h.stock.set(nil, nil)
		pass(20 * time.Second)
		if got := h.stock.run(a.RunID()).control.EndsAt; !got.Equal(closed.EndsAt) {
			t.Errorf("the stock believes in the end %v, want %v", got, closed.EndsAt)
		}
	})
}

// A restock that a dead node left behind is finished; one of a run that is over and not in
// the stock is finished without it.
func TestRestocksAreFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a, over := h.create(t, sale(0)), h.create(t, sale(0))
		for _, units := range []int64{10, -30} {
			for _, a := range []seckill.Activity{a, over} {
				_, err := h.store.BeginRestock(ctx, a.ID, units, by)
				must(t, err)
			}
		}
		must(t, h.stock.Drop(ctx, over.RunID()))
		h.store.put(over.ID, func(a *seckill.Activity) { a.Phase, a.EndsAt = seckill.PhaseClosed, time.Now() })
		h.start(t)
		pass(5 * time.Second)
		if left, _ := h.store.Restocks(ctx); len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
		if got := h.stock.run(a.RunID()).level.Available; got != 80 || h.store.get(a.ID).Total != 80 {
			t.Errorf("stock %d, database %d, want 80", got, h.store.get(a.ID).Total)
		}
		if got := h.store.get(over.ID).Total; got != 110 {
			t.Errorf("the run that is over has %d units, want 110", got)
		}
	})
}

// The stock forgets what is over for long, but not while something is queued there.
func TestOldRunsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a, queued := h.create(t, sale(0)), h.create(t, sale(0))
		h.stock.buy(queued, "ann")
		h.store.old = []seckill.RunID{queued.RunID(), a.RunID()}
		h.keeper.o.Every, h.keeper.o.RestockEvery, h.registry.o.RefreshEvery, h.registry.o.LevelEvery = time.Minute, time.Minute, time.Minute, time.Minute
		h.start(t)
		pass(167 * time.Hour)
		if h.store.isDropped(a.RunID()) {
			t.Fatal("dropped too early")
		}
		pass(3 * time.Hour)
		if !h.store.isDropped(a.RunID()) || h.stock.run(a.RunID()).spec.Epoch != 0 {
			t.Error("not dropped")
		}
		if h.store.isDropped(queued.RunID()) || h.stock.run(queued.RunID()).level.Queued != 1 {
			t.Error("dropped with a reservation that is queued")
		}
		if got := h.store.get(a.ID); got.Epoch != 1 {
			t.Errorf("the dropped run was rebuilt: %+v", got)
		}
	})
}
