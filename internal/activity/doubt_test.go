package activity

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/stock"
)

// checker is a Check that says what it is told to.
type checker struct {
	mu      sync.Mutex
	wrong   string
	sure    bool
	err     error
	calls   int
	doubted []string // Of the last call.
}

func (c *checker) check(_ context.Context, _ seckill.RunID, doubted []string) (string, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.doubted = doubted
	return c.wrong, c.sure, c.err
}

func (c *checker) says(wrong string, sure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong, c.sure = wrong, sure
}

func (c *checker) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// checked is a house whose keeper asks a checker, with a run that was loaded by somebody else.
func checked(t *testing.T) (*house, *checker, seckill.Activity) {
	t.Helper()
	h, c := newHouse(t), &checker{sure: true}
	h.keeper.o.Check = c.check
	a := h.create(t, sale(0))
	if a.Phase != seckill.PhaseLoaded {
		t.Fatalf("phase %d", a.Phase)
	}
	return h, c, a
}

// A stock that came back in an older state under the same epoch is noticed before anybody
// can buy: this node refuses buyers as soon as Begin returns, and opens again with the
// buyers that the database knows.
func TestAnOlderStockIsHeldFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c, a := checked(t)
		h.store.order(seckill.Order{ID: "1", Ticket: "t", Run: a.RunID(), Buyer: "ann", Quantity: 1})
		c.says("the database has orders for 1 units that the stock does not have", true)
		h.keeper.Begin(ctx)
		seen, _ := h.registry.Activity(a.ID)
		if seen.Phase != seckill.PhaseRebuilding || h.stock.buy(*seen, "ann") || h.stock.count("load") != 1 {
			t.Fatalf("after the beginning: %+v, loaded %d times", seen, h.stock.count("load"))
		}
		c.says("", true)
		h.start(t)
		pass(time.Second)
		got, r := h.store.get(a.ID), h.stock.run(a.RunID())
		if got.Phase != seckill.PhaseLoaded || got.Epoch <= a.Epoch || !r.buyers["ann"] || r.level.Available != 99 {
			t.Errorf("after the rebuild: %+v, %+v", got, r.level)
		}
	})
}

// A run that is right is compared once when the process begins, and nothing becomes of it.
func TestARightRunIsCheckedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c, a := checked(t)
		later := h.create(t, sale(time.Hour))
		h.keeper.Begin(ctx)
		h.start(t)
		pass(10 * time.Minute)
		if got := h.store.get(a.ID); got != a || c.count() != 1 || h.stock.count("load") != 1 {
			t.Errorf("%+v after %d checks", got, c.count())
		}
		pass(50 * time.Minute) // The other one is loaded by this keeper: there is no doubt about it.
		if got := h.store.get(later.ID); got.Phase != seckill.PhaseLoaded || c.count() != 1 {
			t.Errorf("phase %d after %d checks", got.Phase, c.count())
		}
	})
}

// What cannot be told at the beginning is asked again, for a while, and buyers do not wait
// for it.
func TestWhatCannotBeToldIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c, a := checked(t)
		c.says("", false)
		h.keeper.Begin(ctx)
		if seen, _ := h.registry.Activity(a.ID); !h.stock.buy(*seen, "ann") {
			t.Fatal("a buyer had to wait")
		}
		h.start(t)
		pass(time.Minute)
		if c.count() < 3 {
			t.Errorf("asked %d times within a minute", c.count())
		}
		pass(20 * time.Minute)
		if got := c.count(); got != checksMax {
			t.Errorf("asked %d times, want %d", got, checksMax)
		}
		h.keeper.Doubt([]string{seckill.NewTicket(a.RunID())})
		c.says("the stock does not know order 1", true)
		h.stock.mu.Lock()
		h.stock.runs[a.RunID()].level.Queued = 0 // What ann holds is written.
		h.stock.mu.Unlock()
		pass(2 * time.Minute)
		if got := h.store.get(a.ID); got.Epoch != a.Epoch+1 || got.Phase != seckill.PhaseLoaded {
			t.Errorf("not rebuilt when it could be told: %+v", got)
		}
	})
}

// A check that fails keeps nothing else from being done, and is repeated.
func TestACheckThatFailsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c, a := checked(t)
		c.err = errAway
		h.keeper.Begin(ctx)
		h.store.put(a.ID, func(a *seckill.Activity) { a.Paused = true })
		h.start(t)
		pass(5 * time.Second)
		if !h.stock.run(a.RunID()).control.Paused {
			t.Error("the stock was not told of a pause")
		}
		c.mu.Lock()
		c.err, c.wrong = nil, "older"
		c.mu.Unlock()
		pass(time.Minute)
		if got := h.store.get(a.ID); got.Epoch != a.Epoch+1 {
			t.Errorf("not rebuilt: %+v", got)
		}
	})
}

// Tickets that the stock has never heard of have their run compared, with them by name, and
// rebuilt. However many they are, it is said and done once.
func TestUnknownTicketsHaveTheirRunRebuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c, a := checked(t)
		h.start(t)
		pass(time.Second)
		c.says("the stock does not know order 1", true)
		ticket := seckill.NewTicket(a.RunID())
		for range 500 {
			h.keeper.Doubt([]string{ticket, "nonsense", seckill.NewTicket(seckill.RunID{Activity: 99, Run: 1})})
		}
		pass(time.Second)
		got := h.store.get(a.ID)
		if got.Epoch != a.Epoch+1 || got.Phase != seckill.PhaseLoaded || h.stock.run(a.RunID()).level.Epoch != got.Epoch {
			t.Errorf("not rebuilt: %+v", got)
		}
		if len(c.doubted) != doubtedMax || c.doubted[0] != ticket || c.count() != 1 {
			t.Errorf("%d checks, of %d tickets", c.count(), len(c.doubted))
		}
		if said := h.log.count("ticket=" + ticket); said != 1 {
			t.Errorf("said %d times", said)
		}
		if len(h.keeper.doubts) != 1 {
			t.Errorf("%d runs are remembered, also such as there are not", len(h.keeper.doubts))
		}
	})
}

// A comparison that always finds something wrong does not keep a sale closed.
func TestRebuildsDoNotGoOnForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c, a := checked(t)
		c.says("always", true)
		h.start(t)
		for range 1800 {
			h.keeper.Doubt([]string{seckill.NewTicket(a.RunID())})
			pass(time.Second)
		}
		got := h.store.get(a.ID)
		if rebuilds := got.Epoch - a.Epoch; rebuilds < 3 || rebuilds > 9 || got.Phase != seckill.PhaseLoaded {
			t.Errorf("%d rebuilds in half an hour, phase %d", rebuilds, got.Phase)
		}
		// And tickets that are nothing wrong are not looked at all the time.
		c.says("", true)
		before := c.count()
		for range 1500 {
			h.keeper.Doubt([]string{seckill.NewTicket(a.RunID())})
			pass(time.Second)
		}
		if checks := c.count() - before; checks < 10 || checks > 35 {
			t.Errorf("%d checks in 25 minutes", checks)
		}
	})
}

// An operator's repair rebuilds at once, in the operator's name, and returns when the sale goes
// on; of two at once the second finds it done.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, a := checked(t)
		h.start(t)
		pass(time.Second)
		h.stock.set(func(name string) error {
			if name == "load" {
				<-time.After(3 * time.Second)
			}
			return nil
		}, nil)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { must(t, h.keeper.Restore(ctx, a.RunID(), by)) })
		}
		both.Wait()
		if got := h.store.get(a.ID); got.Epoch != a.Epoch+1 || got.Phase != seckill.PhaseLoaded {
			t.Errorf("%+v", got)
		}
		var refused *seckill.Refusal
		h.store.put(a.ID, func(a *seckill.Activity) { a.Phase = seckill.PhaseClosed })
		if err := h.keeper.Restore(ctx, a.RunID(), by); !errors.As(err, &refused) || refused.Reason != seckill.Conflict {
			t.Errorf("a closed run: %v", err)
		}
		if err := h.keeper.Restore(ctx, seckill.RunID{Activity: 9, Run: 1}, by); !errors.Is(err, seckill.ErrNotFound) {
			t.Errorf("a run that is not there: %v", err)
		}
	})
}

// What lies among the dead letters stays queued in the stock until an operator decides. A
// rebuild does not wait for that.
func TestARebuildDoesNotWaitForDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, a := checked(t)
		h.stock.mu.Lock()
		h.stock.runs[a.RunID()].level = stock.Level{Epoch: a.Epoch, Available: 98, Queued: 2}
		h.stock.mu.Unlock()
		h.store.mu.Lock()
		h.store.units[a.RunID()] = Units{Total: 100, Available: 100, Dead: 2}
		h.store.mu.Unlock()
		began := time.Now()
		must(t, h.keeper.Restore(ctx, a.RunID(), by))
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
		if r := h.stock.run(a.RunID()); r.level.Available != 98 {
			t.Errorf("%d units", r.level.Available)
		}
	})
}

// The audit log says why a run was rebuilt.
func TestTheReasonOfARebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c, a := checked(t)
		c.says("it is older", true)
		h.keeper.Begin(ctx)
		h.start(t)
		pass(time.Second)
		h.store.mu.Lock()
		defer h.store.mu.Unlock()
		audit := strings.Join(h.store.audit, " ")
		if !strings.Contains(audit, "activity.hold activity.rebuild activity.loaded") || a.Epoch+2 != h.store.activities[a.ID].Epoch {
			t.Errorf("audit %s", audit)
		}
		if !strings.Contains(strings.Join(h.store.reasons, " "), "it is older") {
			t.Errorf("reasons %q", h.store.reasons)
		}
	})
}
