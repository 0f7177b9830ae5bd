package stocktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"seckill"
	"seckill/queue"
	"seckill/stock"
)

// Each reservation comes out of the outbox, whole; what was refused does not.
func outboxCarriesEach(k *kit) {
	k.load(100, 5)
	sub := k.subscribe()
	var batch []seckill.Attempt
	for i := range 30 {
		batch = append(batch, k.attempt(buyerName(i%12), 1+i%3))
	}
	want := map[string]seckill.Attempt{}
	for i, d := range k.reserve(batch...) {
		if d.Verdict == stock.Taken {
			want[batch[i].Ticket] = batch[i]
		}
	}
	ds, rs := k.receive(sub, len(want))
	slots := map[string]int{}
	for _, r := range k.queued(100) {
		slots[r.Ticket] = r.Slot
	}
	for _, r := range rs {
		a := want[r.Ticket]
		if r.Run != k.id || r.Buyer != a.Buyer || r.Quantity != a.Quantity || r.Slot != slots[r.Ticket] {
			k.Errorf("got %+v, want %+v with slot %d", r, a, slots[r.Ticket])
		}
		delete(want, r.Ticket)
	}
	if len(want) > 0 {
		k.Errorf("not delivered: %v", want)
	}
	ids := map[string]bool{}
	for _, d := range ds {
		if d.ID == "" || ids[d.ID] || d.Attempt < 1 {
			k.Errorf("message %q of attempt %d; ids are unique and attempts count from 1", d.ID, d.Attempt)
		}
		ids[d.ID] = true
	}
}

// A message that was taken and not acknowledged stays; one that was is gone, also for
// whoever comes later.
func outboxHoldsUntilAcked(k *kit) {
	k.load(10, 10)
	first := k.buy("ann", 1)
	sub := k.subscribe()
	ds, _ := k.receive(sub, 1)
	k.must(sub.Ack(k.ctx(), ds...))
	k.must(sub.Ack(k.ctx(), ds...))
	second := k.buy("ann", 1)
	_, rs := k.receive(sub, 1)
	if rs[0].Ticket != second {
		k.Fatalf("got %s, want %s", rs[0].Ticket, second)
	}
	k.must(sub.Close())
	for range 2 {
		sub = k.subscribe()
		_, rs = k.receive(sub, 1)
		if len(rs) != 1 || rs[0].Ticket != second {
			k.Fatalf("got %+v, want %s; %s is acknowledged", rs, second, first)
		}
		k.must(sub.Close())
	}
	sub = k.subscribe()
	ds, _ = k.receive(sub, 1)
	k.must(sub.Ack(k.ctx(), ds...))
	k.nothing(sub)
}

// What a consumer that ends has not acknowledged goes to another, each with its id.
func outboxComesBackAfterClose(k *kit) {
	k.load(10, 10)
	tickets := map[string]string{}
	dies, lives := k.subscribe(), k.subscribe()
	for range 5 {
		k.buy("ann", 1)
	}
	ds, _ := k.receive(dies, 1)
	for _, d := range ds {
		tickets[d.ID] = string(d.Body)
	}
	k.must(dies.Close())
	k.must(dies.Close())
	if _, err := dies.Receive(k.ctx(), 1); err == nil {
		k.Fatal("a closed subscription received something")
	}
	seen := map[string]bool{}
	for len(seen) < 5 {
		ds, rs := k.receive(lives, 1)
		for _, d := range ds {
			if body, before := tickets[d.ID]; before && body != string(d.Body) {
				k.Fatalf("message %s has another body: %s, before: %s", d.ID, d.Body, body)
			}
			delete(tickets, d.ID)
		}
		for _, r := range rs {
			seen[r.Ticket] = true
		}
		k.must(lives.Ack(k.ctx(), ds...))
	}
	if len(tickets) > 0 {
		k.Fatalf("did not come back under their ids: %v", tickets)
	}
	k.nothing(lives)
}

// Consumers that work side by side get each reservation done, though one of them takes
// some and gives up, again and again.
func outboxIsShared(k *kit) {
	const each, buyers, consumers, quits = 20, 4, 2, 5
	k.load(1000, 1000)
	ctx, cancel := context.WithTimeout(context.Background(), k.Patience)
	defer cancel()
	var mu sync.Mutex
	done := map[string]bool{}
	did := func(r seckill.Reservation) {
		mu.Lock()
		defer mu.Unlock()
		if done[r.Ticket] = true; len(done) == each*buyers {
			cancel() // Whoever still waits may go.
		}
	}
	k.rush(1+consumers+buyers, func(caller int) error {
		switch {
		case caller == 0:
			for range quits {
				if err := k.takeAndQuit(ctx); err != nil {
					return err
				}
			}
			return nil
		case caller <= consumers:
			return k.consume(ctx, did)
		}
		for range each {
			if _, err := k.tryReserve(k.attempt(buyerName(caller), 1)); err != nil {
				return err
			}
		}
		return nil
	})
	if len(done) != each*buyers {
		k.Fatalf("%d reservations of %d were done", len(done), each*buyers)
	}
}

// takeAndQuit leaves what it was given.
func (k *kit) takeAndQuit(ctx context.Context) error {
	sub, err := k.Outbox().Subscribe(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if _, err = sub.Receive(ctx, 3); ctx.Err() != nil {
		err = nil // All is done, or too late: that is for others to tell.
	}
	return errors.Join(err, sub.Close())
}

// consume takes care of messages until ctx ends.
func (k *kit) consume(ctx context.Context, did func(seckill.Reservation)) error {
	sub, err := k.Outbox().Subscribe(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	for {
		ds, err := sub.Receive(ctx, 3)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		for _, d := range ds {
			_, rs, err := queue.DecodeReservations(d.Body)
			if err != nil {
				return err
			}
			for _, r := range rs {
				did(r)
			}
		}
		if err := sub.Ack(context.WithoutCancel(ctx), ds...); err != nil {
			return err
		}
	}
}

// A consumer that waits gets what is reserved then, and wakes when its context or its
// subscription ends.
func outboxWakes(k *kit) {
	k.load(10, 10)
	sub := k.subscribe()
	got := make(chan error, 1)
	receive := func(ctx context.Context) {
		go func() {
			_, err := sub.Receive(ctx, 1)
			got <- err
		}()
		<-time.After(30 * time.Millisecond) // Then it most likely waits, which is the point.
	}
	await := func(what string) error {
		k.Helper()
		select {
		case err := <-got:
			return err
		case <-time.After(k.Patience):
			k.Fatalf("%s did not wake Receive", what)
			return nil
		}
	}
	receive(context.Background())
	k.buy("ann", 1)
	k.must(await("a reservation"))
	ctx, cancel := context.WithCancel(context.Background())
	receive(ctx)
	cancel()
	if await("the end of its context") == nil {
		k.Error("Receive brought nothing, and no error")
	}
	receive(context.Background())
	k.must(sub.Close())
	if await("Close") == nil {
		k.Error("Receive of a closed subscription brought nothing, and no error")
	}
}

// Whoever stops waiting loses nothing.
func outboxCancelLosesNothing(k *kit) {
	k.load(100, 100)
	sub := k.subscribe()
	got := map[string]bool{}
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		bought := make(chan string, 1)
		go func() {
			a := k.attempt("ann", 1)
			_, _ = k.tryReserve(a)
			bought <- a.Ticket
			cancel()
		}()
		for range 2 {
			ds, err := sub.Receive(ctx, 4)
			if err != nil {
				break
			}
			k.note(got, sub, ds)
		}
		<-bought
		cancel()
	}
	for len(got) < 20 {
		ds, _ := k.receive(sub, 1)
		k.note(got, sub, ds)
	}
}

func (k *kit) note(got map[string]bool, sub queue.Subscription, ds []queue.Delivery) {
	k.Helper()
	for _, d := range ds {
		_, rs, err := queue.DecodeReservations(d.Body)
		k.must(err)
		for _, r := range rs {
			got[r.Ticket] = true
		}
	}
	k.must(sub.Ack(k.ctx(), ds...))
}

// The backlog counts what nobody has taken care of, delivered or not, and its age.
func backlogCounts(k *kit) {
	k.load(10, 10)
	backlog := func() queue.Backlog {
		k.Helper()
		b, err := k.Outbox().Backlog(k.ctx())
		k.must(err)
		return b
	}
	before := k.Now()
	for range 3 {
		k.buy("ann", 1)
	}
	sub := k.subscribe()
	ds, _ := k.receive(sub, 3)
	b := backlog()
	if b.Waiting != 3 {
		k.Fatalf("%d wait, want 3", b.Waiting)
	}
	if !b.Oldest.IsZero() && (b.Oldest.Before(before.Add(-k.ClockError-time.Second)) || b.Oldest.After(k.Now().Add(k.ClockError+time.Second))) {
		k.Fatalf("the oldest is of %v, reserved at %v", b.Oldest, before)
	}
	k.must(sub.Ack(k.ctx(), ds...))
	if b := backlog(); b.Waiting != 0 || !b.Oldest.IsZero() {
		k.Fatalf("%+v waits, want nothing", b)
	}
}

// Whoever watches hears of settlements, of units and of changes to the run, until he
// stops; then Watch returns nil.
func watchTells(k *kit) {
	k.load(1000, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := make(chan stock.Event, 10_000)
	ended := make(chan error, 1)
	go func() { ended <- k.Watch(ctx, func(ev stock.Event) { events <- ev }) }()
	// told waits for an event, for a part of the patience.
	told := func(patience time.Duration, want func(stock.Event) bool) bool {
		for timer := time.After(patience); ; {
			select {
			case ev := <-events:
				if ev.Run == k.id && want(ev) {
					return true
				}
			case <-timer:
				return false
			}
		}
	}
	settled := func(ticket string, released bool) func(stock.Event) bool {
		return func(ev stock.Event) bool {
			return ev.Kind == stock.EventSettled && ev.Ticket == ticket && ev.Buyer == "ann" && ev.Released == released
		}
	}
	// What happens before Watch is there may be missed.
	ticket, there := "", false
	for range 100 {
		ticket = k.buy("ann", 1)
		k.settle(k.ordered("ann", ticket, 1, seckill.AwaitingPayment))
		if there = told(k.Patience/100, settled(ticket, false)); there {
			break
		}
	}
	if !there {
		k.Fatal("nobody told of a confirmed order")
	}
	k.settle(k.ordered("ann", ticket, 1, seckill.Cancelled))
	if !told(k.Patience, settled(ticket, true)) {
		k.Fatal("nobody told of a release")
	}
	k.restock(1, 1)
	if !told(k.Patience, func(ev stock.Event) bool { return ev.Kind == stock.EventUnits }) {
		k.Fatal("nobody told of units")
	}
	k.must(k.Control(k.ctx(), k.id, stock.Control{Paused: true, EndsAt: k.spec(0, 1).EndsAt}))
	if !told(k.Patience, func(ev stock.Event) bool { return ev.Kind == stock.EventRun }) {
		k.Fatal("nobody told of a change of the run")
	}
	cancel()
	select {
	case err := <-ended:
		k.must(err)
	case <-time.After(k.Patience):
		k.Fatal("Watch does not end")
	}
}
