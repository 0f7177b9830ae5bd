package stocktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"seckill"
	"seckill/queue"
	"seckill/stock"
)

// kit is what a claim works with: its test, a stock, and a run in it.
type kit struct {
	*testing.T
	newStock func(t *testing.T) Harness
	Harness
	stock.Stock
	id    seckill.RunID
	epoch int64
}

// open opens the claim's stock.
func (k *kit) open() {
	k.Helper()
	k.Harness = k.newStock(k.T).withDefaults()
	k.Stock = k.Open(k.T)
	k.Cleanup(func() {
		if err := k.Close(); err != nil {
			k.Errorf("close: %v", err)
		}
	})
	k.id = someRun()
	k.epoch = 1
}

func (h Harness) withDefaults() Harness {
	if h.Now == nil {
		h.Now = time.Now
	}
	if h.Patience == 0 {
		h.Patience = 10 * time.Second
	}
	return h
}

// someRun is a run that no other test uses.
func someRun() seckill.RunID {
	return seckill.RunID{Activity: 1 + rand.Int64N(1<<40), Run: 1 + rand.IntN(100)}
}

// reopen closes the handle and opens another.
func (k *kit) reopen() {
	k.Helper()
	k.must(k.Close())
	k.Stock = k.Open(k.T)
}

// ctx ends when patience does.
func (k *kit) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), k.Patience)
	k.Cleanup(cancel)
	return ctx
}

func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// spec is a run that is open for an hour before and after now.
func (k *kit) spec(units int64, limit int) stock.Spec {
	now := k.Now()
	return stock.Spec{
		Run: k.id, Epoch: k.epoch, Units: units, Limit: limit, SubStocks: 1,
		StartsAt: now.Add(-time.Hour).Truncate(time.Second), EndsAt: now.Add(time.Hour).Truncate(time.Second),
	}
}

// load opens the stock with a run.
func (k *kit) load(units int64, limit int) {
	k.Helper()
	k.open()
	k.must(k.Load(k.ctx(), k.spec(units, limit)))
}

// attempt is a new one, without a key.
func (k *kit) attempt(buyer string, quantity int) seckill.Attempt {
	return seckill.Attempt{Ticket: seckill.NewTicket(k.id), Buyer: buyer, Quantity: quantity}
}

func (k *kit) keyed(buyer string, quantity int, key string) seckill.Attempt {
	a := k.attempt(buyer, quantity)
	a.Key = key
	return a
}

// reserve asks for attempts at once.
func (k *kit) reserve(attempts ...seckill.Attempt) []stock.Decision {
	k.Helper()
	ds, err := k.tryReserve(attempts...)
	k.must(err)
	return ds
}

// tryReserve is for goroutines, which must not end the test.
func (k *kit) tryReserve(attempts ...seckill.Attempt) ([]stock.Decision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), k.Patience)
	defer cancel()
	ds, err := k.Reserve(ctx, k.id, k.epoch, attempts)
	if err == nil && len(ds) != len(attempts) {
		err = fmt.Errorf("got %d decisions for %d attempts", len(ds), len(attempts))
	}
	return ds, err
}

// ask reserves one attempt and wants a verdict.
func (k *kit) ask(a seckill.Attempt, want stock.Verdict) stock.Decision {
	k.Helper()
	d := k.reserve(a)[0]
	if d.Verdict != want {
		k.Fatalf("%s asks for %d: got %s, want %s", a.Buyer, a.Quantity, verdict(d.Verdict), verdict(want))
	}
	return d
}

// buy takes units and returns the ticket.
func (k *kit) buy(buyer string, quantity int) string {
	k.Helper()
	a := k.attempt(buyer, quantity)
	if d := k.ask(a, stock.Taken); d.Ticket != a.Ticket {
		k.Fatalf("taken under ticket %q, want the attempt's %q", d.Ticket, a.Ticket)
	}
	return a.Ticket
}

func (k *kit) refused(buyer string, quantity int, want stock.Verdict) stock.Decision {
	k.Helper()
	return k.ask(k.attempt(buyer, quantity), want)
}

// settle tells the stock, which must know the tickets.
func (k *kit) settle(settlements ...stock.Settlement) {
	k.Helper()
	unknown, err := k.Settle(k.ctx(), settlements)
	k.must(err)
	if len(unknown) > 0 {
		k.Fatalf("the stock does not know %q", unknown)
	}
}

// failed and ordered are settlements of the kit's run.
func (k *kit) failed(buyer, ticket string, reason seckill.Reason) stock.Settlement {
	return stock.Settlement{Run: k.id, Ticket: ticket, Buyer: buyer, Failed: reason}
}

func (k *kit) ordered(buyer, ticket string, quantity int, state seckill.OrderState) stock.Settlement {
	o := k.order(buyer, ticket, quantity, 1, state)
	return stock.Settlement{Run: k.id, Ticket: ticket, Buyer: buyer, Order: &o}
}

func (k *kit) order(buyer, ticket string, quantity, slot int, state seckill.OrderState) seckill.Order {
	created := k.Now().UTC().Truncate(time.Second)
	o := seckill.Order{
		ID: "9" + fmt.Sprint(len(ticket)), Ticket: ticket, Run: k.id, Buyer: buyer, Quantity: quantity, Slot: slot,
		AmountCents: 199 * int64(quantity), State: state, CreatedAt: created, PayBefore: created.Add(15 * time.Minute),
	}
	if state == seckill.Paid {
		o.PaymentRef = "ref " + ticket
	}
	return o
}

func (k *kit) level() stock.Level {
	k.Helper()
	l, err := k.Level(k.ctx(), k.id)
	k.must(err)
	return l
}

// wantLevel checks where the units are.
func (k *kit) wantLevel(available, queued, awaiting, paid int64) {
	k.Helper()
	l := k.level()
	if l.Available != available || l.Queued != queued || l.AwaitingPayment != awaiting || l.Paid != paid {
		k.Fatalf("available, queued, awaiting payment, paid are %d, %d, %d, %d; want %d, %d, %d, %d",
			l.Available, l.Queued, l.AwaitingPayment, l.Paid, available, queued, awaiting, paid)
	}
}

func (k *kit) outcome(buyer, ticket string) seckill.Outcome {
	k.Helper()
	o, err := k.Outcome(k.ctx(), buyer, ticket)
	k.must(err)
	return o
}

func (k *kit) noOutcome(buyer, ticket string) {
	k.Helper()
	if o, err := k.Outcome(k.ctx(), buyer, ticket); !errors.Is(err, seckill.ErrNotFound) {
		k.Fatalf("%s asks for ticket %s: got %+v, %v; want ErrNotFound", buyer, ticket, o, err)
	}
}

// queued lists all that is queued, by pages.
func (k *kit) queued(page int) (list []seckill.Reservation) {
	k.Helper()
	after := ""
	for {
		rs, err := k.Queued(k.ctx(), k.id, after, page)
		k.must(err)
		if len(rs) > page {
			k.Fatalf("a page of %d has %d reservations", page, len(rs))
		}
		if list = append(list, rs...); len(list) > 10_000 {
			k.Fatalf("paging does not end: %d reservations, and more", len(list))
		}
		if len(rs) == 0 {
			return list
		}
		after = rs[len(rs)-1].Ticket
	}
}

func (k *kit) subscribe() queue.Subscription {
	k.Helper()
	sub, err := k.Outbox().Subscribe(k.ctx())
	k.must(err)
	k.Cleanup(func() { _ = sub.Close() })
	return sub
}

// receive waits until as many reservations have come.
func (k *kit) receive(sub queue.Subscription, reservations int) (ds []queue.Delivery, rs []seckill.Reservation) {
	k.Helper()
	for len(rs) < reservations {
		more, err := sub.Receive(k.ctx(), 16)
		if err != nil {
			k.Fatalf("%d of %d reservations came from the outbox: %v", len(rs), reservations, err)
		}
		for _, d := range more {
			_, some, err := queue.DecodeReservations(d.Body)
			k.must(err)
			rs = append(rs, some...)
		}
		ds = append(ds, more...)
	}
	return ds, rs
}

// nothing makes sure that the outbox has nothing for a subscription: what is reserved
// now is the next to come.
func (k *kit) nothing(sub queue.Subscription) {
	k.Helper()
	marker := *k
	marker.id = someRun()
	marker.epoch = 1
	k.must(k.Load(k.ctx(), marker.spec(1, 1)))
	ticket := marker.buy("marker", 1)
	ds, rs := k.receive(sub, 1)
	if len(rs) != 1 || rs[0].Ticket != ticket {
		k.Fatalf("the outbox has %+v, want nothing but the marker %s", rs, ticket)
	}
	k.must(sub.Ack(k.ctx(), ds...))
	k.must(k.Drop(k.ctx(), marker.id))
}

func verdict(v stock.Verdict) string {
	names := []string{"NotLoaded", "Stale", "Known", "KeyMismatch", "Paused", "NotStarted", "Ended", "OverLimit", "Short", "Taken", "Replayed", "Unknown"}
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("verdict %d", v)
}

func buyerName(i int) string { return fmt.Sprintf("buyer-%d", i) }
