package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"seckill"
	"seckill/queue"
	"seckill/stock"
)

// The default clock is synctest's in a bubble: a sale opens and ends there to the
// nanosecond.
func TestDefaultClockIsTheBubbles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stock.db")
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(t.Context(), Options{Path: path})
		must(t, err)
		spec := testSpec(run1, 10, 10)
		spec.StartsAt, spec.EndsAt = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		must(t, e.Load(t.Context(), spec))
		now := func(want stock.Verdict) {
			t.Helper()
			if d, err := ask(t.Context(), e, run1, attempt(run1, "ann", "")); err != nil || d.Verdict != want {
				t.Errorf("at %v: got %+v, %v; want verdict %d", time.Now(), d, err, want)
			}
		}
		<-time.After(time.Hour - 1)
		now(stock.NotStarted)
		<-time.After(1)
		now(stock.Taken)
		<-time.After(time.Hour - 1)
		now(stock.Taken)
		<-time.After(1)
		now(stock.Ended)
		must(t, e.Close())
	})
}

// A million buyers who are refused leave nothing in memory, nor in the log.
func TestMillionRefusedLeaveNothing(t *testing.T) {
	e, err := Open(t.Context(), Options{})
	must(t, err)
	defer func() { must(t, e.Close()) }()
	must(t, e.Load(t.Context(), testSpec(run1, 1, 1)))
	_, err = ask(t.Context(), e, run1, attempt(run1, "ann", ""))
	must(t, err)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	logged, before := e.logged, heap()
	attempts := make([]seckill.Attempt, 1000)
	ticket := seckill.NewTicket(run1)
	for i := range 1000 {
		for j := range attempts {
			attempts[j] = seckill.Attempt{Ticket: ticket, Buyer: fmt.Sprintf("buyer-%d-%d", i, j), Quantity: 1 + j%2, Key: "key"}
		}
		_, err := e.Reserve(t.Context(), run1, 1, attempts)
		must(t, err)
	}
	if after := heap(); after > before+2<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if r := e.streams[run1].run; e.logged != logged || len(r.buyers) != 1 || len(r.tickets) != 1 {
		t.Errorf("%d entries, %d buyers, %d tickets", e.logged-logged, len(r.buyers), len(r.tickets))
	}
	runtime.KeepAlive(attempts)
}

// A watcher that does not keep up is told so, and stops nobody.
func TestSlowWatcherIsLeftBehind(t *testing.T) {
	e, err := Open(t.Context(), Options{})
	must(t, err)
	defer func() { must(t, e.Close()) }()
	must(t, e.Load(t.Context(), testSpec(run1, 10, 10)))
	hold := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- e.Watch(t.Context(), func(stock.Event) { <-hold }) }()
	awaitTrue(t, func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.watch) == 1 })
	for i := range int64(watchBuffer + 10) {
		_, err := e.Restock(t.Context(), run1, i, 1)
		must(t, err)
	}
	close(hold)
	if err := <-ended; !errors.Is(err, errBehind) {
		t.Errorf("got %v, want that it fell behind", err)
	}
}

// The engine's Ahead is exact while reservations are settled in their order.
func TestAheadCounts(t *testing.T) {
	e, err := Open(t.Context(), Options{})
	must(t, err)
	defer func() { must(t, e.Close()) }()
	must(t, e.Load(t.Context(), testSpec(run1, 10, 10)))
	var tickets []string
	for i := range int64(5) {
		d, err := ask(t.Context(), e, run1, attempt(run1, "ann", ""))
		must(t, err)
		if d.Ahead != i {
			t.Errorf("reservation %d: %d ahead", i, d.Ahead)
		}
		tickets = append(tickets, d.Ticket)
	}
	for i, ticket := range tickets {
		o, err := e.Outcome(t.Context(), "ann", tickets[4])
		must(t, err)
		if o.Ahead != int64(4-i) && i < 5 {
			t.Errorf("after %d settlements %d are ahead", i, o.Ahead)
		}
		_, err = e.Settle(t.Context(), []stock.Settlement{{Run: run1, Ticket: ticket, Buyer: "ann", Failed: seckill.SoldOut}})
		must(t, err)
	}
}

// A buyer's record is bounded: the latest finished purchases are kept, and all live
// ones.
func TestBuyersRecordIsBounded(t *testing.T) {
	e, err := Open(t.Context(), Options{})
	must(t, err)
	defer func() { must(t, e.Close()) }()
	must(t, e.Load(t.Context(), testSpec(run1, 10, 2)))
	held, err := ask(t.Context(), e, run1, attempt(run1, "ann", "held"))
	must(t, err)
	var tickets []string
	for range FinishedMax + 5 {
		d, err := ask(t.Context(), e, run1, attempt(run1, "ann", ""))
		must(t, err)
		tickets = append(tickets, d.Ticket)
		_, err = e.Settle(t.Context(), []stock.Settlement{{Run: run1, Ticket: d.Ticket, Buyer: "ann", Failed: seckill.SoldOut}})
		must(t, err)
	}
	for i, ticket := range tickets {
		_, err := e.Outcome(t.Context(), "ann", ticket)
		if forgotten := i < 5; forgotten != errors.Is(err, seckill.ErrNotFound) {
			t.Errorf("purchase %d of %d: got %v", i+1, len(tickets), err)
		}
	}
	if d, err := ask(t.Context(), e, run1, attempt(run1, "ann", "held")); err != nil || d.Ticket != held.Ticket {
		t.Errorf("the live purchase got %+v, %v", d, err)
	}
	if n := len(e.streams[run1].run.tickets); n != FinishedMax+1 {
		t.Errorf("%d purchases are kept, want %d", n, FinishedMax+1)
	}
}

// A large run takes several parts, and slots above the first 64 are found.
func TestLargeRunComesBackFromParts(t *testing.T) {
	r := newRun(run1)
	r.epoch, r.limit = 1, 1<<30
	for i := range 10_000 {
		p := r.newPurchase(seckill.NewTicket(run1), fmt.Sprint("buyer-", i%50), "key")
		p.quantity, p.slot, p.lsn = 1, p.buyer.freeSlot(), uint64(i+1)
		if want := int32(i/50) + 1; p.slot != want {
			t.Fatalf("purchase %d has slot %d, want %d", i, p.slot, want)
		}
		r.add(p)
	}
	parts := snapshot(r, 10_000)
	if len(parts) < 2 {
		t.Fatalf("%d parts", len(parts))
	}
	rp := replay{id: run1}
	for n, part := range parts {
		must(t, rp.part(n, 10_000, part))
	}
	if got := snapshot(rp.run, 10_000); !bytes.Equal(bytes.Join(got, nil), bytes.Join(parts, nil)) {
		t.Error("it comes back as another run")
	}
	if got := rp.run.buyers["buyer-7"].freeSlot(); got != 201 {
		t.Errorf("the next slot is %d, want 201", got)
	}
}

// An old message that nobody takes care of does not keep the thousands behind it in
// memory; and what was not yet delivered still comes, in its order.
func TestOldMessageHoldsNoOthers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e, err := Open(ctx, Options{})
	must(t, err)
	defer func() { must(t, e.Close()) }()
	must(t, e.Load(ctx, testSpec(run1, 10_000, 10_000)))
	sub, err := e.Outbox().Subscribe(ctx)
	must(t, err)
	var tickets []string
	buy := func(n int) {
		for range n {
			d, err := ask(ctx, e, run1, attempt(run1, "ann", ""))
			must(t, err)
			tickets = append(tickets, d.Ticket)
		}
	}
	buy(1500)
	old, err := sub.Receive(ctx, 1)
	must(t, err)
	ds, err := sub.Receive(ctx, 1499)
	must(t, err)
	buy(10)
	must(t, sub.Ack(ctx, ds...))
	if n := len(e.outbox.all); n > 1100 {
		t.Errorf("%d messages are kept for one", n)
	}
	for _, want := range tickets[1500:] {
		ds, err := sub.Receive(ctx, 1)
		must(t, err)
		_, rs, err := queue.DecodeReservations(ds[0].Body)
		must(t, err)
		if rs[0].Ticket != want {
			t.Fatalf("got %s, want %s", rs[0].Ticket, want)
		}
	}
	must(t, sub.Close())
	sub, err = e.Outbox().Subscribe(ctx)
	must(t, err)
	if again, err := sub.Receive(ctx, 1); err != nil || again[0].ID != old[0].ID {
		t.Errorf("got %+v, %v; want the old one", again, err)
	}
}

// What a caller hands over may be a view of a buffer that it uses again.
func TestStringsAreCopied(t *testing.T) {
	e, err := Open(t.Context(), Options{})
	must(t, err)
	defer func() { must(t, e.Close()) }()
	must(t, e.Load(t.Context(), testSpec(run1, 10, 2)))
	buffer := []byte(seckill.NewTicket(run1) + "ann" + "key")
	view := func(from, to int) string { return unsafe.String(&buffer[from], to-from) }
	n := len(buffer)
	ticket := string(buffer[:n-6])
	_, err = ask(t.Context(), e, run1, seckill.Attempt{Ticket: view(0, n-6), Buyer: view(n-6, n-3), Key: view(n-3, n), Quantity: 1})
	must(t, err)
	clear(buffer)
	if d, err := ask(t.Context(), e, run1, attempt(run1, "ann", "key")); err != nil || d.Ticket != ticket {
		t.Errorf("got %+v, %v; want ticket %s", d, err, ticket)
	}
}

// A load has to make sense, and so has an attempt; what does not is an error, and
// changes nothing.
func TestNonsenseIsRefused(t *testing.T) {
	e, err := Open(t.Context(), Options{})
	must(t, err)
	defer func() { must(t, e.Close()) }()
	good := testSpec(run1, 10, 2)
	order := seckill.Order{Ticket: seckill.NewTicket(run1), Buyer: "ann", Quantity: 1, Slot: 1, State: seckill.Paid}
	for name, spoil := range map[string]func(*stock.Spec){
		"run":    func(s *stock.Spec) { s.Run.Run = 0 },
		"epoch":  func(s *stock.Spec) { s.Epoch = 0 },
		"units":  func(s *stock.Spec) { s.Units = -1 },
		"limit":  func(s *stock.Spec) { s.Limit = 0 },
		"twice":  func(s *stock.Spec) { s.Held = []seckill.Order{order, order} },
		"slot":   func(s *stock.Spec) { o := order; o.Slot = 0; s.Held = []seckill.Order{o} },
		"buyer":  func(s *stock.Spec) { o := order; o.Buyer = ""; s.Held = []seckill.Order{o} },
		"ticket": func(s *stock.Spec) { o := order; o.Ticket = ""; s.Held = []seckill.Order{o} },
	} {
		spec := good
		spoil(&spec)
		if err := e.Load(t.Context(), spec); err == nil {
			t.Errorf("load with a wrong %s is no error", name)
		}
	}
	must(t, e.Load(t.Context(), good))
	for name, spoil := range map[string]func(*seckill.Attempt){
		"buyer":    func(a *seckill.Attempt) { a.Buyer = "" },
		"key":      func(a *seckill.Attempt) { a.Key = "\n" },
		"quantity": func(a *seckill.Attempt) { a.Quantity = 0 },
	} {
		a := attempt(run1, "ann", "key")
		spoil(&a)
		if d, err := ask(t.Context(), e, run1, a); err == nil {
			t.Errorf("an attempt with a wrong %s: got %+v, and no error", name, d)
		}
	}
	if d, err := ask(t.Context(), e, run1, attempt(run2, "ann", "")); err != nil || d.Verdict == stock.Taken {
		t.Errorf("a ticket of another run: got %+v, %v", d, err)
	}
}
