package activity

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/stock"
)

// A change by another node is seen within a second, and at once after a nudge.
func TestChangesAreSeenWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		h.start(t)
		pass(100 * time.Millisecond)
		paused := func() bool {
			seen, ok := h.registry.Activity(a.ID)
			return ok && seen.Paused
		}
		h.store.put(a.ID, func(a *seckill.Activity) { a.Paused = true })
		if paused() {
			t.Fatal("seen without a look")
		}
		pass(time.Second)
		if !paused() {
			t.Error("not seen after a second")
		}
		h.store.put(a.ID, func(a *seckill.Activity) { a.Paused = false })
		h.registry.Notify(stock.Event{Kind: stock.EventRun, Run: a.RunID()})
		synctest.Wait()
		if paused() {
			t.Error("not seen after a nudge")
		}
		reads := h.store.count("activities")
		pass(10 * time.Second)
		if got := h.store.count("activities"); got != reads {
			t.Errorf("read %d times without a change", got-reads)
		}
	})
}

// While the database is away the node keeps what it knows, and says so once.
func TestKeepsItsSnapshotWhileTheDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		h.start(t)
		pass(time.Second)
		h.store.set(away, nil)
		pass(time.Minute)
		if _, ok := h.registry.Activity(a.ID); !ok || len(h.registry.Activities()) != 1 {
			t.Error("the activity is gone")
		}
		if got, err := h.operator.Get(ctx, a.ID); err != nil || got.ID != a.ID {
			t.Errorf("get: %+v, %v", got, err)
		}
		if n := h.log.count("activities cannot be refreshed"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		h.store.set(nil, nil)
		h.store.put(a.ID, func(a *seckill.Activity) { a.Paused = true })
		pass(time.Second)
		if seen, _ := h.registry.Activity(a.ID); !seen.Paused {
			t.Error("the change was not seen after the database came back")
		}
		if n := h.log.count("an outage is over"); n != 1 {
			t.Errorf("its end was logged %d times", n)
		}
	})
}

// A database that hangs does not keep the levels from being read.
func TestAHangingDatabaseDoesNotStopTheLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		h.start(t)
		pass(time.Second)
		never := make(chan struct{})
		t.Cleanup(func() { close(never) })
		h.store.set(func(string) error { <-never; return errAway }, nil)
		pass(time.Second)
		seen, _ := h.registry.Activity(a.ID)
		h.stock.buy(*seen, "ann")
		<-time.After(time.Second)
		if got, _ := h.registry.Available(a.RunID()); got != 99 {
			t.Errorf("got %d units, want 99", got)
		}
		h.store.set(nil, nil)
	})
}

// Units that come back are known at once; what changes no level asks for none.
func TestReturnedUnitsAreKnownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		var mu sync.Mutex
		var heard []stock.Level
		h.registry.o.OnLevel = func(_ seckill.RunID, l stock.Level) {
			mu.Lock()
			heard = append(heard, l)
			mu.Unlock()
		}
		a := h.create(t, sale(0))
		h.start(t)
		pass(time.Second)
		_, err := h.stock.Restock(ctx, a.RunID(), -1, 5)
		must(t, err)
		before := h.stock.count("level")
		h.registry.Notify(stock.Event{Kind: stock.EventSettled, Run: a.RunID()})
		synctest.Wait()
		if got := h.stock.count("level"); got != before {
			t.Errorf("a settlement that released nothing asked for %d levels", got-before)
		}
		h.registry.Notify(stock.Event{Kind: stock.EventSettled, Run: a.RunID(), Released: true})
		synctest.Wait()
		mu.Lock()
		last := heard[len(heard)-1]
		mu.Unlock()
		if got, _ := h.registry.Available(a.RunID()); got != 105 || last.Available != 105 {
			t.Errorf("known %d, heard %d, want 105", got, last.Available)
		}
	})
}

// The stock being away keeps the last level; a run that is gone from it, or over, has none.
func TestLevelsOfRunsThatAreNotThereAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		runs, stop := context.WithCancel(ctx)
		done := make(chan error)
		go func() { done <- h.registry.Run(runs) }() // No keeper, which would bring it back.
		pass(time.Second)
		h.stock.set(away, nil)
		pass(time.Minute)
		if got, ok := h.registry.Level(a.RunID()); !ok || got.Available != 100 {
			t.Errorf("while the stock is away: %+v, %v", got, ok)
		}
		if n := h.log.count("levels cannot be read"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		h.stock.set(nil, nil)
		saved := h.stock.run(a.RunID())
		h.stock.lose()
		pass(time.Second)
		if _, ok := h.registry.Level(a.RunID()); ok {
			t.Error("a run that the stock does not have has a level")
		}
		must(t, h.stock.Load(ctx, saved.spec))
		pass(time.Hour)
		if _, ok := h.registry.Level(a.RunID()); ok {
			t.Error("a run that is over has a level")
		}
		stop()
		must(t, <-done)
	})
}
