package activity

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/stock"
)

// pulsing is a stock that lies on a server. A load marks the run with it.
type pulsing struct {
	*fakeStock

	mu     sync.Mutex
	server string
	marks  map[int64]string // By epoch.
	beat   int64
	err    error
	has    map[string]bool // Tickets.
	asked  int
}

func (p *pulsing) Pulse(_ context.Context, run seckill.RunID, epoch int64) ([]int64, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, "", p.err
	}
	if r := p.run(run); r.spec.Epoch != epoch {
		return nil, "", stock.ErrNotLoaded
	}
	if p.marks[epoch] == "" {
		p.marks[epoch] = p.server
	}
	p.beat++
	if p.marks[epoch] != p.server {
		return []int64{p.beat}, "another server", nil
	}
	return []int64{p.beat}, "", nil
}

func (p *pulsing) Trust(_ context.Context, _ seckill.RunID, epoch int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks[epoch] = p.server
	return nil
}

func (p *pulsing) Outcome(_ context.Context, _, ticket string) (seckill.Outcome, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if !p.has[ticket] {
		return seckill.Outcome{}, seckill.ErrNotFound
	}
	return seckill.Outcome{Progress: seckill.Confirmed}, p.err
}

// order is a live one of ann's that is in the database, and in the stock if it has it.
func (h *house) order(p *pulsing, a *seckill.Activity, has bool) {
	h.store.order(seckill.Order{ID: "1", Ticket: "t", Run: a.RunID(), Buyer: "ann", Quantity: 1, State: seckill.AwaitingPayment})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.has["t"] = has
}

func (p *pulsing) becomes(server string, beat int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server, p.beat, p.err = server, beat, err
}

// guarded is a node with a stock that pulses, and a run that somebody else has loaded. It guards, and
// works as well if it is a worker.
func guarded(t *testing.T, worker bool, c *checker) (*house, *pulsing, seckill.Activity) {
	t.Helper()
	h := newHouse(t)
	p := &pulsing{fakeStock: h.stock, server: "first", marks: map[int64]string{}, has: map[string]bool{}}
	h.keeper.o.Stock, h.keeper.loader.stock = p, p
	h.keeper.o.Guards = !worker
	if c != nil {
		h.keeper.o.Check = c.check
	}
	a := h.create(t, sale(0))
	must(t, h.registry.Refresh(ctx))
	must(t, h.keeper.Look(ctx)) // The operator's loader of this house knows no servers.
	runs, stop := context.WithCancel(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { _ = h.registry.Run(runs) })
	loops.Go(func() { _ = h.keeper.Guard(runs) })
	if worker {
		loops.Go(func() { _ = h.keeper.Run(runs) })
	}
	t.Cleanup(func() {
		stop()
		loops.Wait()
	})
	return h, p, a
}

// A replica that takes over has what it was told of, and nothing seems to be missing. If it does not
// know the latest order its run is held and rebuilt, once.
func TestARunOnAnotherServerIsRebuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p, a := guarded(t, true, nil)
		pass(time.Minute)
		if got := h.store.get(a.ID); got.Epoch != a.Epoch {
			t.Fatalf("rebuilt for nothing: %+v", got)
		}
		h.order(p, &a, false)
		p.becomes("second", 1000, nil)
		pass(3 * time.Second)
		got, r := h.store.get(a.ID), h.stock.run(a.RunID())
		if got.Phase != seckill.PhaseLoaded || got.Epoch != a.Epoch+1 && got.Epoch != a.Epoch+2 || !r.buyers["ann"] || r.level.Available != 99 {
			t.Errorf("after some seconds: %+v, %+v", got, r.level)
		}
		pass(time.Minute)
		if again := h.store.get(a.ID); again.Epoch != got.Epoch {
			t.Errorf("rebuilt again: %+v", again)
		}
		if h.log.count("another server") == 0 {
			t.Error("the log does not say why")
		}
	})
}

// A server that was started again and has lost nothing sells on, and is believed.
func TestARunThatLostNothingIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &checker{sure: true}
		h, p, a := guarded(t, true, c)
		h.order(p, &a, true)
		p.becomes("second", 1000, nil)
		pass(time.Minute)
		if got := h.store.get(a.ID); got.Epoch != a.Epoch || p.asked != 1 || c.count() != 1 {
			t.Errorf("%+v; asked for %d orders, compared %d times; want one each, and no rebuild", got, p.asked, c.count())
		}
	})
}

// What it has lost besides orders the sums tell: a cancelled order, say.
func TestOtherLossesAreFoundBySums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &checker{wrong: "the stock has orders for 1 units that the database does not have", sure: true}
		h, p, a := guarded(t, true, c)
		p.becomes("second", 1000, nil)
		pass(2 * time.Second)
		c.says("", true)
		pass(10 * time.Second)
		if got := h.store.get(a.ID); got.Epoch == a.Epoch || got.Phase != seckill.PhaseLoaded {
			t.Errorf("%+v, want a rebuild", got)
		}
	})
}

// An order that ended while it was looked up is no loss.
func TestAnOrderThatEndsIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p, a := guarded(t, true, &checker{sure: true})
		h.order(p, &a, false)
		p.becomes("second", 1000, nil)
		pass(time.Minute)
		if got := h.store.get(a.ID); got.Epoch != a.Epoch {
			t.Errorf("rebuilt: %+v", got)
		}
	})
}

// A count that goes back tells of an older state on the same server.
func TestAnOlderCountIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p, a := guarded(t, true, nil)
		h.order(p, &a, false)
		pass(time.Minute)
		p.becomes("first", 20, nil)
		pass(3 * time.Second)
		if got := h.store.get(a.ID); got.Phase != seckill.PhaseLoaded || got.Epoch == a.Epoch {
			t.Errorf("after some seconds: %+v", got)
		}
	})
}

// A gateway alone holds the run, for a worker to rebuild when there is one; it rebuilds nothing.
func TestAGatewayHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p, a := guarded(t, false, nil)
		h.order(p, &a, false)
		p.becomes("second", 1000, nil)
		pass(3 * time.Second)
		seen, _ := h.registry.Activity(a.ID)
		if seen.Phase != seckill.PhaseRebuilding || h.stock.buy(*seen, "ann") || h.stock.count("load") != 1 {
			t.Fatalf("after three seconds: %+v, loaded %d times", seen, h.stock.count("load"))
		}
		h.start(t)
		pass(time.Minute)
		if got := h.store.get(a.ID); got.Phase != seckill.PhaseLoaded || h.stock.count("load") < 2 {
			t.Errorf("with a worker: %+v", got)
		}
	})
}

// A gateway's doubt about a ticket reaches the workers by the database, too.
func TestAGatewaysDoubtHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &checker{wrong: "the stock does not know order 1", sure: true}
		h, _, a := guarded(t, false, c)
		h.keeper.Doubt([]string{seckill.NewTicket(a.RunID())})
		pass(3 * time.Second)
		if got := h.store.get(a.ID); got.Phase != seckill.PhaseRebuilding || c.count() == 0 {
			t.Errorf("after %d checks: %+v", c.count(), got)
		}
	})
}

// A process that starts on an older stock finds it before anybody can buy.
func TestALookAtTheStartHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p, a := guarded(t, false, nil)
		h.order(p, &a, false)
		node := newNode(t, h.store, h.stock)
		node.keeper.o.Stock, node.keeper.loader.stock = p, p
		must(t, node.registry.Refresh(ctx))
		p.becomes("second", 1000, nil)
		must(t, node.keeper.Look(ctx))
		if got := h.store.get(a.ID); got.Phase != seckill.PhaseRebuilding {
			t.Errorf("after a look: %+v", got)
		}
	})
}

// While the stock or the database is away nothing is concluded; as soon as both are back it is.
func TestNothingIsConcludedFromSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p, a := guarded(t, true, nil)
		h.order(p, &a, false)
		p.becomes("second", 1000, errors.New("connection refused"))
		pass(time.Minute)
		if got := h.store.get(a.ID); got.Epoch != a.Epoch || h.log.count("runs cannot be guarded") != 1 {
			t.Errorf("while it was away: %+v", got)
		}
		p.becomes("second", 1000, nil)
		h.store.set(away, nil)
		pass(time.Minute)
		h.store.set(nil, nil)
		pass(3 * time.Second)
		if got := h.store.get(a.ID); got.Epoch == a.Epoch {
			t.Errorf("three seconds after both were back: %+v", got)
		}
	})
}

// Behind a balancer each call may meet another server. That must not keep the sale closed.
func TestServersThatChangeAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p, a := guarded(t, true, nil)
		h.order(p, &a, false)
		for i := range 1200 {
			p.becomes([]string{"first", "second"}[i%2], int64(1000*i), nil)
			pass(time.Second)
		}
		if got := h.store.get(a.ID); got.Epoch-a.Epoch > 20 {
			t.Errorf("%d rebuilds in 20 minutes", got.Epoch-a.Epoch)
		}
		h.order(p, &a, true)
		before := p.asked
		for i := range 1200 {
			p.becomes([]string{"first", "second"}[i%2], int64(1e6+1000*i), nil)
			pass(time.Second)
		}
		if n := p.asked - before; n > 40 {
			t.Errorf("the order was looked up %d times in 20 minutes", n)
		}
	})
}
