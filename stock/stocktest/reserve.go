package stocktest

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill"
	"seckill/stock"
)

// rush lets callers work at once and waits for all of them.
func (k *kit) rush(callers int, call func(caller int) error) {
	k.Helper()
	var g errgroup.Group
	for i := range callers {
		g.Go(func() error { return call(i) })
	}
	k.must(g.Wait())
}

// However many buyers come at once, for however many units each, no more is taken
// than there is.
func neverOversells(k *kit) {
	const units = 41
	k.load(units, 3)
	var taken atomic.Int64
	k.rush(16, func(caller int) error {
		for i := range 8 {
			var batch []seckill.Attempt
			for j := range 1 + rand.IntN(6) {
				batch = append(batch, k.attempt(buyerName(caller*1000+i*10+j), 1+rand.IntN(3)))
			}
			ds, err := k.tryReserve(batch...)
			if err != nil {
				return err
			}
			for i, d := range ds {
				if d.Verdict == stock.Taken {
					taken.Add(int64(batch[i].Quantity))
				}
			}
		}
		return nil
	})
	if taken.Load() > units {
		k.Fatalf("%d units were taken of %d", taken.Load(), units)
	}
	k.wantLevel(units-taken.Load(), taken.Load(), 0, 0)
}

// With enough buyers each unit finds one, and then the stock says that it is sold out.
func sellsEveryUnit(k *kit) {
	const units, callers, clicks = 41, 20, 3
	k.load(units, 1)
	var taken atomic.Int64
	k.rush(callers, func(caller int) error {
		for i := range 10 * clicks {
			ds, err := k.tryReserve(k.attempt(buyerName(caller*100+i/clicks), 1))
			if err != nil {
				return err
			}
			if ds[0].Verdict == stock.Taken {
				taken.Add(1)
			}
		}
		return nil
	})
	if taken.Load() != units {
		k.Fatalf("%d units were taken of %d, by %d buyers", taken.Load(), units, callers*10)
	}
	if d := k.refused("late", 1, stock.Short); d.Left != 0 {
		k.Fatalf("sold out, but %d units left", d.Left)
	}
}

// A buyer's key names one attempt: sent again, it gets the same ticket and no unit.
func oneKeyOneTicket(k *kit) {
	k.load(10, 5)
	first := k.keyed("ann", 2, "key 1")
	k.ask(first, stock.Taken)
	for range 3 {
		if d := k.ask(k.keyed("ann", 2, "key 1"), stock.Known); d.Ticket != first.Ticket {
			k.Fatalf("the key got ticket %q, want %q", d.Ticket, first.Ticket)
		}
	}
	k.ask(k.keyed("ann", 2, "key 2"), stock.Taken)
	k.wantLevel(6, 4, 0, 0)
}

// Also in one batch, and from many callers at once.
func oneKeyAtOnceOneUnit(k *kit) {
	k.load(100, 50)
	var taken atomic.Int64
	var tickets [8][]string
	k.rush(len(tickets), func(caller int) error {
		ds, err := k.tryReserve(k.keyed("ann", 1, "key"), k.keyed("ann", 1, "key"))
		for _, d := range ds {
			if d.Verdict == stock.Taken {
				taken.Add(1)
			}
			tickets[caller] = append(tickets[caller], d.Ticket)
		}
		return err
	})
	all := slices.Concat(tickets[:]...)
	slices.Sort(all)
	if all = slices.Compact(all); taken.Load() != 1 || len(all) != 1 || all[0] == "" {
		k.Fatalf("one key took %d times and got tickets %q", taken.Load(), all)
	}
	k.wantLevel(99, 1, 0, 0)
}

// The same ticket is the same attempt, so that an answer that was lost can be asked for.
func sameTicketSameAnswer(k *kit) {
	k.load(10, 5)
	a := k.attempt("ann", 2)
	k.ask(a, stock.Taken)
	if d := k.ask(a, stock.Known); d.Ticket != a.Ticket {
		k.Fatalf("got ticket %q, want %q", d.Ticket, a.Ticket)
	}
	k.settle(k.ordered("ann", a.Ticket, 2, seckill.AwaitingPayment))
	k.ask(a, stock.Known)
	k.settle(k.ordered("ann", a.Ticket, 2, seckill.Cancelled))
	k.ask(a, stock.Known)
	k.wantLevel(10, 0, 0, 0)
}

// A ticket that was taken with one key is not taken, nor told of, with another; with the first it is
// known, and all of that holds when its order has ended, too.
func ticketWithAnotherKey(k *kit) {
	k.load(10, 9)
	a := k.keyed("ann", 1, "key")
	k.ask(a, stock.Taken)
	other, none := a, a
	other.Key, none.Key = "other", ""
	check := func() {
		k.ask(other, stock.Replayed)
		k.ask(none, stock.Replayed)
		if d := k.ask(a, stock.Known); d.Ticket != a.Ticket {
			k.Fatalf("got ticket %q, want %q", d.Ticket, a.Ticket)
		}
	}
	check()
	more := a
	more.Quantity = 2
	k.ask(more, stock.KeyMismatch)
	k.settle(k.ordered("ann", a.Ticket, 1, seckill.AwaitingPayment))
	k.settle(k.ordered("ann", a.Ticket, 1, seckill.Cancelled))
	check()
	k.wantLevel(10, 0, 0, 0)
}

// A key with another quantity is a mistake of the caller's, and takes nothing.
func keyWithAnotherQuantity(k *kit) {
	k.load(10, 9)
	k.ask(k.keyed("ann", 2, "key"), stock.Taken)
	k.ask(k.keyed("ann", 3, "key"), stock.KeyMismatch)
	k.ask(k.keyed("ann", 2, "key"), stock.Known)
	k.wantLevel(8, 2, 0, 0)
}

// Two buyers may use the same key.
func keysAreTheBuyersOwn(k *kit) {
	k.load(10, 1)
	k.ask(k.keyed("ann", 1, "key"), stock.Taken)
	k.ask(k.keyed("bob", 1, "key"), stock.Taken)
}

// What was decided is said again while the sale is paused and after its end.
func knownWhateverTheTime(k *kit) {
	k.load(10, 5)
	a := k.keyed("ann", 1, "key")
	k.ask(a, stock.Taken)
	ends := k.spec(0, 1).EndsAt
	k.must(k.Control(k.ctx(), k.id, stock.Control{Paused: true, EndsAt: ends}))
	k.ask(a, stock.Known)
	k.ask(k.keyed("ann", 2, "key"), stock.KeyMismatch)
	k.refused("ann", 1, stock.Paused)
	k.must(k.Control(k.ctx(), k.id, stock.Control{EndsAt: k.Now().Add(-time.Minute).Truncate(time.Second)}))
	k.ask(a, stock.Known)
	k.ask(k.keyed("ann", 2, "key"), stock.KeyMismatch)
	k.refused("ann", 1, stock.Ended)
}

// What a buyer holds plus what he asks for stays within the limit.
func limitPerBuyer(k *kit) {
	k.load(100, 5)
	if d := k.refused("ann", 6, stock.OverLimit); d.Ticket != "" {
		k.Fatalf("a buyer who holds nothing is told of ticket %q", d.Ticket)
	}
	k.buy("ann", 2)
	latest := k.buy("ann", 2)
	if d := k.refused("ann", 2, stock.OverLimit); d.Ticket != latest {
		k.Fatalf("over the limit, told of ticket %q, want the latest, %q", d.Ticket, latest)
	}
	latest = k.buy("ann", 1)
	k.settle(k.ordered("ann", latest, 1, seckill.Paid))
	k.refused("ann", 1, stock.OverLimit)
	k.buy("bob", 5)
	k.wantLevel(90, 9, 0, 1)
}

// Also when he asks from everywhere at once.
func limitAtOnce(k *kit) {
	k.load(1000, 7)
	var held atomic.Int64
	k.rush(12, func(int) error {
		for range 5 {
			batch := []seckill.Attempt{k.attempt("ann", 2), k.attempt("ann", 1)}
			ds, err := k.tryReserve(batch...)
			if err != nil {
				return err
			}
			for i, d := range ds {
				if d.Verdict == stock.Taken {
					held.Add(int64(batch[i].Quantity))
				}
			}
		}
		return nil
	})
	if held.Load() != 7 {
		k.Fatalf("the buyer holds %d units, the limit is 7", held.Load())
	}
	k.wantLevel(993, 7, 0, 0)
}

// A buyer who has his share hears that, not that it is sold out.
func alreadyPurchasedBeforeSoldOut(k *kit) {
	k.load(1, 1)
	ticket := k.buy("ann", 1)
	if d := k.refused("ann", 1, stock.OverLimit); d.Ticket != ticket {
		k.Fatalf("told of ticket %q, want %q", d.Ticket, ticket)
	}
	k.refused("bob", 1, stock.Short)
}

// All or nothing: who asks for more than is left gets none, and others get the rest.
func shortTakesNothing(k *kit) {
	k.load(3, 9)
	if d := k.refused("ann", 4, stock.Short); d.Left != 3 {
		k.Fatalf("short, and %d units left, want 3", d.Left)
	}
	k.wantLevel(3, 0, 0, 0)
	k.buy("ann", 3)
}

// A run sells from its start to just before its end. Before, after and while paused it
// does not, in that order of words.
func windowByTheStocksClock(k *kit) {
	k.open()
	load := func(starts, ends time.Duration, paused bool) {
		k.Helper()
		spec := k.spec(9, 9)
		now := k.Now()
		spec.StartsAt, spec.EndsAt, spec.Paused = now.Add(starts), now.Add(ends), paused
		k.must(k.Load(k.ctx(), spec))
		k.epoch++
	}
	now := func(want stock.Verdict) {
		k.Helper()
		k.epoch--
		k.refused("ann", 1, want)
		k.epoch++
	}
	load(-time.Hour, time.Hour, false)
	now(stock.Taken)
	load(time.Hour, 2*time.Hour, false)
	now(stock.NotStarted)
	load(time.Hour, 2*time.Hour, true)
	now(stock.Paused)
	load(-2*time.Hour, -time.Hour, false)
	now(stock.Ended)
	if k.Advance == nil {
		return
	}
	load(time.Second, 3*time.Second, false)
	for _, at := range []stock.Verdict{stock.NotStarted, stock.Taken, stock.Taken, stock.Ended} {
		now(at)
		k.Advance(time.Second)
	}
}

// Nobody has to tell the stock that the time has come.
func opensByItself(k *kit) {
	k.open()
	spec := k.spec(1000, 1000)
	starts := k.Now().Add(300 * time.Millisecond)
	spec.StartsAt = starts
	k.must(k.Load(k.ctx(), spec))
	for deadline := time.Now().Add(k.Patience); ; {
		d := k.reserve(k.attempt("ann", 1))[0]
		after := k.Now()
		switch {
		case d.Verdict == stock.Taken && after.Before(starts.Add(-k.ClockError)):
			k.Fatalf("sold %v before the start", starts.Sub(after))
		case d.Verdict == stock.Taken:
			return
		case d.Verdict != stock.NotStarted:
			k.Fatalf("got %s before the start", verdict(d.Verdict))
		case time.Now().After(deadline):
			k.Fatalf("not open %v after the start", after.Sub(starts))
		}
		if k.Advance != nil {
			k.Advance(10 * time.Millisecond)
		}
	}
}

// Who believes in another epoch than the one in place sells nothing and hears nothing else.
func staleEpoch(k *kit) {
	k.load(10, 5)
	k.epoch = 4
	k.must(k.Load(k.ctx(), k.spec(10, 5)))
	a := k.keyed("ann", 1, "key")
	k.ask(a, stock.Taken)
	for _, epoch := range []int64{0, 3, 5} {
		k.epoch = epoch
		k.ask(a, stock.Stale)
		k.refused("bob", 1, stock.Stale)
	}
	k.wantLevel(9, 1, 0, 0)
}

// A run that is not there says nothing about its units.
func notLoadedIsNotSoldOut(k *kit) {
	k.open()
	k.refused("ann", 1, stock.NotLoaded)
	k.must(k.Load(k.ctx(), k.spec(0, 1)))
	k.refused("ann", 1, stock.Short)
}

// Whoever was refused is as unknown as before: no ticket, no key, no unit, no message.
func refusedLeaveNoTrace(k *kit) {
	k.load(2, 2)
	sub := k.subscribe()
	before := k.level()
	refused := []seckill.Attempt{k.keyed("ann", 3, "key")}
	k.ask(refused[0], stock.OverLimit)
	k.must(k.Control(k.ctx(), k.id, stock.Control{Paused: true, EndsAt: k.spec(0, 1).EndsAt}))
	refused = append(refused, k.keyed("bob", 2, "key"))
	k.ask(refused[1], stock.Paused)
	k.must(k.Control(k.ctx(), k.id, stock.Control{EndsAt: k.spec(0, 1).EndsAt}))
	for _, a := range refused {
		k.noOutcome(a.Buyer, a.Ticket)
	}
	if after := k.level(); after != before {
		k.Fatalf("the level went from %+v to %+v", before, after)
	}
	if list := k.queued(10); len(list) > 0 {
		k.Fatalf("queued: %+v", list)
	}
	k.nothing(sub)
	for _, a := range refused { // The key and even the ticket are free for another try.
		a.Quantity = 1
		k.ask(a, stock.Taken)
	}
}

// A purchase gets the lowest number that no live purchase of the buyer has.
func slotsLowestFree(k *kit) {
	k.load(100, 10)
	var tickets []string
	for range 4 {
		tickets = append(tickets, k.buy("ann", 1))
	}
	k.buy("bob", 1)
	k.settle(k.failed("ann", tickets[2], seckill.SoldOut))
	k.settle(k.ordered("ann", tickets[0], 1, seckill.Cancelled))
	for range 3 {
		tickets = append(tickets, k.buy("ann", 1))
	}
	slots := map[string]int{}
	for _, r := range k.queued(100) {
		slots[r.Ticket] = r.Slot
	}
	for i, want := range map[int]int{1: 2, 3: 4, 4: 1, 5: 3, 6: 5} {
		if got := slots[tickets[i]]; got != want {
			k.Errorf("purchase %d has slot %d, want %d", i, got, want)
		}
	}
}

// Attempts of one call are decided in their order, and each is answered in its place.
func answersInOrder(k *kit) {
	k.load(3, 2)
	batch := []seckill.Attempt{
		k.attempt("ann", 2), k.attempt("bob", 2), k.attempt("ann", 1), k.attempt("bob", 1), k.attempt("cyd", 1),
	}
	want := []stock.Decision{
		{Verdict: stock.Taken, Ticket: batch[0].Ticket, Left: 1},
		{Verdict: stock.Short, Left: 1},
		{Verdict: stock.OverLimit, Ticket: batch[0].Ticket, Left: 1},
		{Verdict: stock.Taken, Ticket: batch[3].Ticket, Left: 0},
		{Verdict: stock.Short, Left: 0},
	}
	got := k.reserve(batch...)
	for i := range got {
		got[i].Ahead = 0 // Roughly is all that is promised.
		if got[i] != want[i] {
			k.Errorf("attempt %d: got %+v, want %+v", i+1, got[i], want[i])
		}
	}
}
