package stocktest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"seckill"
	"seckill/stock"
)

// restock tells what it did.
func (k *kit) restock(id, units int64) int64 {
	k.Helper()
	did, err := k.Restock(k.ctx(), k.id, id, units)
	k.must(err)
	return did
}

// A restock is done once per id, and says the same again.
func restockOnce(k *kit) {
	k.load(1, 9)
	for range 3 {
		if did := k.restock(7, 5); did != 5 {
			k.Fatalf("did %d, want 5", did)
		}
	}
	k.wantLevel(6, 0, 0, 0)
	k.restock(8, 5)
	k.wantLevel(11, 0, 0, 0)
	k.buy("ann", 9)
}

// What is sold cannot be taken away.
func negativeRestockAtMostAvailable(k *kit) {
	k.load(5, 9)
	k.buy("ann", 2)
	if did := k.restock(1, -2); did != -2 {
		k.Fatalf("did %d, want -2", did)
	}
	if did := k.restock(2, -9); did != -1 {
		k.Fatalf("did %d, want -1", did)
	}
	k.wantLevel(0, 2, 0, 0)
	if did := k.restock(3, -1); did != 0 {
		k.Fatalf("did %d, want 0", did)
	}
	k.restock(4, 3)
	for id, want := range map[int64]int64{1: -2, 2: -1, 3: 0} {
		if did := k.restock(id, -9); did != want {
			k.Errorf("restock %d again did %d, want %d", id, did, want)
		}
	}
	k.wantLevel(3, 2, 0, 0)
}

// An operator pauses, resumes and ends a sale while it runs.
func pauseAndClose(k *kit) {
	k.load(9, 9)
	ends := k.spec(0, 1).EndsAt
	k.buy("ann", 1)
	k.must(k.Control(k.ctx(), k.id, stock.Control{Paused: true, EndsAt: ends}))
	k.refused("ann", 1, stock.Paused)
	k.must(k.Control(k.ctx(), k.id, stock.Control{EndsAt: ends}))
	k.buy("ann", 1)
	k.must(k.Control(k.ctx(), k.id, stock.Control{EndsAt: k.Now().Add(-k.ClockError - time.Second).Truncate(time.Second)}))
	k.refused("ann", 1, stock.Ended)
	k.wantLevel(7, 2, 0, 0)
}

// What needs a run says so when there is none.
func notLoadedIsAnError(k *kit) {
	k.open()
	_, restockErr := k.Restock(k.ctx(), k.id, 1, 1)
	_, levelErr := k.Level(k.ctx(), k.id)
	for name, err := range map[string]error{
		"Restock": restockErr, "Level": levelErr,
		"Control": k.Control(k.ctx(), k.id, stock.Control{EndsAt: k.Now()}),
	} {
		if !errors.Is(err, stock.ErrNotLoaded) {
			k.Errorf("%s: got %v, want ErrNotLoaded", name, err)
		}
	}
	k.must(k.Drop(k.ctx(), k.id))
}

// A load puts units, limit, window and buyers in place together: who reserves
// meanwhile sees the one or the other, told apart by the epoch.
func loadReplacesAtomically(k *kit) {
	k.load(100, 1)
	old := k.buy("ann", 1)
	spec := k.spec(7, 2)
	spec.Epoch = 2
	spec.Held = []seckill.Order{k.order("ann", seckill.NewTicket(k.id), 2, 1, seckill.Paid)}
	var taken atomic.Int64 // Units of the new epoch.
	k.rush(8, func(caller int) error {
		if caller == 0 {
			return k.Load(k.ctx(), spec)
		}
		mine := *k
		mine.epoch = int64(1 + caller%2)
		for i := range 50 {
			ds, err := mine.tryReserve(k.attempt(buyerName(caller*100+i), int(mine.epoch)))
			if err != nil {
				return err
			}
			switch v := ds[0].Verdict; {
			case v == stock.Taken && mine.epoch == 2:
				taken.Add(2)
			case v != stock.Taken && v != stock.Stale && v != stock.Short:
				return fmt.Errorf("under epoch %d: %s", mine.epoch, verdict(v))
			}
		}
		return nil
	})
	k.refused("ann", 1, stock.Stale)
	k.wantLevel(7-taken.Load(), taken.Load(), 0, 2)
	k.noOutcome("ann", old)
	k.epoch = 2
	k.refused("ann", 1, stock.OverLimit)
	if l := k.level(); l.Epoch != 2 {
		k.Fatalf("the epoch is %d, want 2", l.Epoch)
	}
}

// A load that was repeated, or comes late, changes nothing and is no error.
func loadSameEpochChangesNothing(k *kit) {
	k.epoch = 3
	k.open()
	k.epoch = 3
	k.must(k.Load(k.ctx(), k.spec(10, 2)))
	ticket := k.buy("ann", 2)
	for _, epoch := range []int64{3, 2, 1} {
		spec := k.spec(99, 9)
		spec.Epoch, spec.Paused = epoch, true
		k.must(k.Load(k.ctx(), spec))
	}
	k.wantLevel(8, 2, 0, 0)
	k.outcome("ann", ticket)
	k.refused("ann", 1, stock.OverLimit)
	k.buy("bob", 2)
}

// After a rebuild the buyers of before are known: what they hold, their slots, their
// outcomes; and what becomes of their orders is understood.
func rebuildKeepsBuyers(k *kit) {
	k.open()
	spec := k.spec(10, 4)
	waits, paid := seckill.NewTicket(k.id), seckill.NewTicket(k.id)
	spec.Held = []seckill.Order{
		k.order("ann", waits, 2, 3, seckill.AwaitingPayment), k.order("ann", paid, 1, 1, seckill.Paid),
	}
	k.must(k.Load(k.ctx(), spec))
	k.wantLevel(10, 0, 2, 1)
	for i, ticket := range []string{waits, paid} {
		o := k.outcome("ann", ticket)
		if o.Progress != seckill.Confirmed || o.Order == nil || !sameOrder(*o.Order, spec.Held[i]) {
			k.Fatalf("got %+v, want the order %+v", o, spec.Held[i])
		}
	}
	k.refused("ann", 2, stock.OverLimit)
	k.buy("ann", 1)
	if list := k.queued(9); len(list) != 1 || list[0].Slot != 2 {
		k.Fatalf("queued: %+v, want one with slot 2", list)
	}
	k.ask(seckill.Attempt{Ticket: paid, Buyer: "ann", Quantity: 1}, stock.Known)
	k.settle(k.ordered("ann", waits, 2, seckill.Expired))
	k.wantLevel(11, 1, 0, 1)
	k.buy("ann", 2)
}

// Two runs of one activity, and two activities, share nothing.
func runsAreApart(k *kit) {
	k.load(2, 1)
	first := *k
	for i, id := range []seckill.RunID{{Activity: k.id.Activity, Run: k.id.Run + 1}, someRun()} {
		k.id = id
		k.must(k.Load(k.ctx(), k.spec(2, 1)))
		name := buyerName(i)
		a, b := first.keyed(name, 1, "key"), k.keyed(name, 1, "key")
		first.ask(a, stock.Taken)
		k.ask(b, stock.Taken)
		// A late message of the one run does not touch the other.
		first.settle(first.ordered(name, a.Ticket, 1, seckill.Cancelled))
		first.wantLevel(2, 0, 0, 0)
		k.wantLevel(1, 1, 0, 0)
		k.refused(name, 1, stock.OverLimit)
		if o := k.outcome(name, b.Ticket); o.Progress != seckill.Queued {
			k.Errorf("got %+v, want queued", o)
		}
	}
}

// A run that was dropped is not there, and may come anew.
func dropForgets(k *kit) {
	k.load(5, 1)
	ticket := k.buy("ann", 1)
	k.must(k.Drop(k.ctx(), k.id))
	k.must(k.Drop(k.ctx(), k.id))
	if _, err := k.Level(k.ctx(), k.id); !errors.Is(err, stock.ErrNotLoaded) {
		k.Fatalf("level of a dropped run: got %v, want ErrNotLoaded", err)
	}
	k.refused("ann", 1, stock.NotLoaded)
	k.noOutcome("ann", ticket)
	k.must(k.Load(k.ctx(), k.spec(5, 1)))
	k.buy("ann", 1)
	k.wantLevel(4, 1, 0, 0)
}

// After each step every unit is somewhere: available, queued, under an order that
// waits or is paid. Only a restock and a write-off change the sum.
func levelAddsUp(k *kit) {
	k.load(20, 20)
	sum := int64(20)
	check := func(step string) {
		k.Helper()
		l := k.level()
		if got := l.Available + l.Queued + l.AwaitingPayment + l.Paid; got != sum {
			k.Fatalf("after %s there are %d units, want %d: %+v", step, got, sum, l)
		}
	}
	buy := func() string { return k.buy("ann", 2) }
	check("load")
	ticket := buy()
	check("reserve")
	k.settle(k.ordered("ann", ticket, 2, seckill.AwaitingPayment))
	check("an order")
	k.settle(k.ordered("ann", ticket, 2, seckill.Cancelled))
	check("its cancellation")
	k.settle(k.failed("ann", buy(), seckill.SoldOut))
	check("a failure")
	k.settle(k.ordered("ann", buy(), 2, seckill.Paid))
	check("a payment")
	s := k.failed("ann", buy(), seckill.Internal)
	s.WrittenOff = true
	k.settle(s)
	sum -= 2
	check("a write-off")
	sum += k.restock(1, 5)
	check("a restock")
	sum += k.restock(2, -100)
	check("a negative restock")
}

// Whoever believes that it is sold out sees by the level's counter that units came back.
func returnsRise(k *kit) {
	k.load(4, 9)
	before := k.level().Returns
	same := func(step string) {
		k.Helper()
		if got := k.level().Returns; got != before {
			k.Fatalf("after %s the counter went from %d to %d", step, before, got)
		}
	}
	risen := func(step string) {
		k.Helper()
		got := k.level().Returns
		if got <= before {
			k.Fatalf("after %s the counter went from %d to %d", step, before, got)
		}
		before = got
	}
	ticket := k.buy("ann", 1)
	same("reserve")
	k.settle(k.ordered("ann", ticket, 1, seckill.AwaitingPayment))
	same("an order")
	k.settle(k.ordered("ann", ticket, 1, seckill.Expired))
	risen("expiry")
	k.settle(k.ordered("ann", ticket, 1, seckill.Expired))
	same("the same again")
	k.settle(k.failed("ann", k.buy("ann", 1), seckill.SoldOut))
	risen("a failure")
	k.restock(1, 1)
	risen("a restock")
	spec := k.spec(4, 9)
	spec.Epoch = 2
	k.must(k.Load(k.ctx(), spec))
	risen("a load")
}

// The queue is listed in the order of the reservations, page by page, without those
// that are settled.
func queuedPages(k *kit) {
	k.load(100, 100)
	var want []string
	for i := range 10 {
		batch := []seckill.Attempt{k.attempt(buyerName(i), 1+i%2), k.attempt("ann", 1)}
		k.reserve(batch...)
		want = append(want, batch[0].Ticket, batch[1].Ticket)
	}
	k.settle(k.failed(buyerName(0), want[0], seckill.SoldOut), k.ordered("ann", want[7], 1, seckill.AwaitingPayment))
	want = append(append(want[1:7:7], want[8:19]...), want[19])
	for _, page := range []int{1, 3, 6, 18, 1000} {
		got := k.queued(page)
		if len(got) != len(want) {
			k.Fatalf("by pages of %d there are %d reservations, want %d", page, len(got), len(want))
		}
		for i, r := range got {
			if r.Ticket != want[i] || r.Run != k.id || r.Quantity < 1 || r.Slot < 1 || r.Buyer == "" {
				k.Fatalf("reservation %d is %+v, want ticket %s", i, r, want[i])
			}
			if age := k.Now().Sub(r.ReservedAt); age < -k.ClockError-time.Second || age > k.ClockError+time.Hour {
				k.Fatalf("reserved at %v, which is %v ago", r.ReservedAt, age)
			}
		}
	}
}

// Who settles what he has listed and goes on after the last one misses none.
func queuedPagesWhileSettling(k *kit) {
	k.load(100, 100)
	want := map[string]bool{}
	for i := range 20 {
		want[k.buy(buyerName(i), 1)] = true
	}
	after := ""
	for len(want) > 0 {
		page, err := k.Queued(k.ctx(), k.id, after, 6)
		k.must(err)
		if len(page) == 0 {
			k.Fatalf("%d reservations were never listed", len(want))
		}
		for _, r := range page {
			delete(want, r.Ticket)
			k.settle(k.ordered(r.Buyer, r.Ticket, 1, seckill.AwaitingPayment))
		}
		after = page[len(page)-1].Ticket
	}
}

// What was answered is there for the next handle: units, buyers, keys, orders, the
// outbox, what operators did.
func durableAcrossReopen(k *kit) {
	k.load(20, 5)
	if !k.Durable {
		return
	}
	a := k.keyed("ann", 2, "key")
	k.ask(a, stock.Taken)
	ordered, gone, done := k.buy("bob", 1), k.buy("cyd", 1), k.buy("dan", 1)
	sub := k.subscribe()
	k.receive(sub, 4)
	k.settle(k.ordered("bob", ordered, 1, seckill.Paid), k.failed("cyd", gone, seckill.SoldOut))
	k.settle(k.ordered("dan", done, 1, seckill.AwaitingPayment))
	k.restock(1, 3)
	k.must(k.Control(k.ctx(), k.id, stock.Control{Paused: true, EndsAt: k.spec(0, 1).EndsAt}))
	before := k.level()
	for range 2 {
		k.reopen()
		if after := k.level(); after != before {
			k.Fatalf("the level went from %+v to %+v", before, after)
		}
		k.ask(k.keyed("ann", 2, "key"), stock.Known)
		k.refused("ann", 1, stock.Paused)
		if o := k.outcome("bob", ordered); o.Order == nil || o.Order.State != seckill.Paid {
			k.Errorf("got %+v, want paid", o)
		}
		if o := k.outcome("cyd", gone); o.Progress != seckill.Failed || o.Reason != seckill.SoldOut {
			k.Errorf("got %+v, want failed, sold_out", o)
		}
		if list := k.queued(9); len(list) != 1 || list[0].Ticket != a.Ticket || list[0].Quantity != 2 {
			k.Errorf("queued: %+v, want %s", list, a.Ticket)
		}
		if did := k.restock(1, 3); did != 3 || k.level() != before {
			k.Errorf("the restock was done again: %d", did)
		}
	}
	k.wantStillToDo(a.Ticket)
	k.must(k.Control(k.ctx(), k.id, stock.Control{EndsAt: k.spec(0, 1).EndsAt}))
	k.refused("ann", 4, stock.OverLimit)
}

// wantStillToDo wants the outbox to deliver a ticket, perhaps among settled ones.
func (k *kit) wantStillToDo(ticket string) {
	k.Helper()
	sub := k.subscribe()
	for {
		ds, rs := k.receive(sub, 1)
		k.must(sub.Ack(k.ctx(), ds...))
		for _, r := range rs {
			if r.Ticket == ticket {
				return
			}
		}
	}
}
