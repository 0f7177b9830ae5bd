package activity

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/stock"
)

// A consumer that had a reservation in hand when the stock was lost writes it while the
// run is rebuilt: its unit is not sold again, and its buyer is known.
func TestAnOrderWrittenDuringTheRebuildCounts(t *testing.T) {
	h := newHouse(t)
	a := h.create(t, sale(0))
	h.stock.lose()
	h.stock.set(nil, func(name string) error {
		if name == "load" && h.stock.count("load") == 2 {
			h.store.order(seckill.Order{ID: "1", Ticket: "t", Run: a.RunID(), Buyer: "ann", Quantity: 1})
		}
		return nil
	})
	must(t, h.keeper.Tend(ctx, &a))
	if r := h.stock.run(a.RunID()); !r.buyers["ann"] || r.level.Available != 99 || h.store.get(a.ID).Phase != seckill.PhaseLoaded {
		t.Errorf("%+v, buyers %v", r.level, r.buyers)
	}
}

// A restock that reaches the older state of a stock, just before that is replaced, is not lost
// with it.
func TestARestockDuringTheRebuildIsNotLost(t *testing.T) {
	h := newHouse(t)
	a := h.create(t, sale(0))
	_, err := h.store.BeginRestock(ctx, a.ID, 10, by)
	must(t, err)
	h.stock.mu.Lock()
	h.stock.runs[a.RunID()].level.Epoch = 0
	h.stock.mu.Unlock()
	once := sync.OnceFunc(func() { must(t, h.keeper.FinishRestocks(ctx)) })
	h.stock.set(func(name string) error {
		if name == "load" {
			once()
		}
		return nil
	}, nil)
	must(t, h.keeper.Tend(ctx, &a))
	if r := h.stock.run(a.RunID()); r.level.Available != 110 {
		t.Errorf("%d units, want 110", r.level.Available)
	}
}

// A stock that lost a run gets it back from the database: the units that no order and
// no dead letter has, less what a restock still has to bring, and the buyers.
func TestALostStockIsRebuiltWithItsBuyers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		h.start(t)
		for i := range 2500 { // More than two pages, at a hundredth of a unit's worth of patience.
			h.store.put(a.ID, func(a *seckill.Activity) {})
			h.store.order(seckill.Order{ID: fmt.Sprintf("%06d", i), Ticket: fmt.Sprint("t", i), Run: a.RunID(), Buyer: fmt.Sprint("b", i), Quantity: 1})
		}
		h.store.mu.Lock()
		h.store.units[a.RunID()] = Units{Total: 3000, Available: 500, AwaitingPayment: 2500, Dead: 7}
		h.store.mu.Unlock()
		// A restock whose node died before it told the stock.
		_, err := h.store.BeginRestock(ctx, a.ID, 20, by)
		must(t, err)
		h.stock.set(func(name string) error {
			if name == "restock" {
				return errAway
			}
			return nil
		}, nil)
		h.stock.lose()
		pass(2 * time.Second)
		got, r := h.store.get(a.ID), h.stock.run(a.RunID())
		if got.Phase != seckill.PhaseLoaded || got.Epoch != a.Epoch+1 || r.level.Epoch != got.Epoch {
			t.Fatalf("phase %d, epoch %d, stock %+v", got.Phase, got.Epoch, r.level)
		}
		if len(r.buyers) != 2500 || r.level.Available != 500-7 {
			t.Errorf("%d buyers, %d units; want 2500 and 493", len(r.buyers), r.level.Available)
		}
		if h.stock.buy(got, "b77") || !h.stock.buy(got, "new") {
			t.Errorf("an earlier buyer bought again, or a new one could not")
		}
		h.stock.set(nil, nil)
		pass(20 * time.Second)
		if r := h.stock.run(a.RunID()); r.level.Available != 493-1+20 {
			t.Errorf("after the restock: %d units, want 512", r.level.Available)
		}
	})
}

// While a run is rebuilt nobody can buy, also through a gateway that has not heard of it.
func TestARunIsHeldWhileItIsRebuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		// The stock comes back in an older state, with a reservation that is not written yet.
		h.stock.mu.Lock()
		h.stock.runs[a.RunID()].level.Epoch = 0
		h.stock.runs[a.RunID()].level.Queued = 1
		h.stock.mu.Unlock()
		h.start(t)
		pass(3 * time.Second)
		older := a
		older.Epoch = 0
		if got := h.store.get(a.ID); got.State(time.Now(), false) != seckill.StatePaused || h.stock.buy(older, "ann") || h.stock.buy(got, "bob") {
			t.Fatalf("sold while it is held: %+v", got)
		}
		h.store.order(seckill.Order{ID: "1", Ticket: "t", Run: a.RunID(), Buyer: "cat", Quantity: 1})
		h.stock.mu.Lock()
		h.stock.runs[a.RunID()].level.Queued = 0
		h.stock.mu.Unlock()
		pass(time.Second)
		got, r := h.store.get(a.ID), h.stock.run(a.RunID())
		if got.Phase != seckill.PhaseLoaded || !r.buyers["cat"] || r.level.Available != 99 || r.control.Paused {
			t.Errorf("after the queue was written: phase %d, %+v, %+v", got.Phase, r.level, r.control)
		}
	})
}

// A rebuild whose keeper died is taken over, after a wait in which it may still be alive.
func TestADeadRebuildIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		h.stock.lose()
		h.store.put(a.ID, func(a *seckill.Activity) { a.Phase, a.Epoch = seckill.PhaseRebuilding, 7 })
		h.start(t)
		pass(4 * time.Second)
		if got := h.store.get(a.ID); got.Epoch != 7 {
			t.Fatalf("taken over after 4 s: %+v", got)
		}
		pass(3 * time.Second)
		if got := h.store.get(a.ID); got.Phase != seckill.PhaseLoaded || got.Epoch != 8 {
			t.Errorf("not taken over: %+v", got)
		}
	})
}

// A rebuild that fails in the middle goes on as soon as the stock answers again.
func TestAFailedRebuildGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		h.start(t)
		pass(time.Second)
		h.stock.set(func(name string) error {
			if name == "load" {
				return errAway
			}
			return nil
		}, nil)
		h.stock.lose()
		pass(600 * time.Millisecond)
		if got := h.store.get(a.ID); got.Phase != seckill.PhaseRebuilding {
			t.Fatalf("phase %d, want rebuilding", got.Phase)
		}
		h.stock.set(nil, nil)
		pass(3 * time.Second)
		if got := h.store.get(a.ID); got.Phase != seckill.PhaseLoaded || h.stock.run(a.RunID()).level.Epoch != got.Epoch {
			t.Errorf("phase %d after the stock came back", got.Phase)
		}
	})
}

// A database that was brought back from a copy is behind the stock. The run is loaded
// above the stock's epoch; else no gateway could ever sell it again.
func TestTheEpochRisesAboveTheStocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		a := h.create(t, sale(0))
		must(t, h.stock.Load(ctx, stock.Spec{Run: a.RunID(), Epoch: 9, Units: 3}))
		h.start(t)
		pass(2 * time.Second)
		if got, r := h.store.get(a.ID), h.stock.run(a.RunID()); got.Epoch != 10 || r.level.Epoch != 10 || r.level.Available != 100 {
			t.Errorf("epoch %d, stock %+v", got.Epoch, r.level)
		}
	})
}
