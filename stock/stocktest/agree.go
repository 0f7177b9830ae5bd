package stocktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill"
	"seckill/queue"
	"seckill/stock"
)

// finishedMax is how many finished purchases a buyer of the comparison has at most: the
// contract does not say how long they are remembered.
const finishedMax = 8

// Whatever is asked in whatever order, the stock answers as the model does. A failure
// prints the operations and how to repeat them.
func agreesWithModel(k *kit) {
	rapid.Check(k.T, func(rt *rapid.T) { compare(k.T, rt, k.newStock) })
}

func fuzzModel(t *testing.T, data []byte, newStock func(t *testing.T) Harness) {
	rapid.MakeFuzz(func(rt *rapid.T) { compare(t, rt, newStock) })(t, data)
}

// pair is a stock and the model beside it.
type pair struct {
	t     *testing.T
	h     Harness
	s     stock.Stock
	m     model
	runs  []seckill.RunID
	epoch map[seckill.RunID]int64 // The highest that was loaded.
	sub   queue.Subscription
	ids   int64 // Tickets made.
}

func compare(t *testing.T, rt *rapid.T, newStock func(t *testing.T) Harness) {
	p := &pair{t: t, h: newStock(t).withDefaults(), epoch: map[seckill.RunID]int64{}}
	p.m = model{now: p.h.Now, runs: map[seckill.RunID]*modelRun{}}
	p.s = p.h.Open(t)
	defer func() {
		if err := p.s.Close(); err != nil {
			rt.Fatalf("close: %v", err)
		}
	}()
	one := someRun()
	p.runs = []seckill.RunID{one, {Activity: one.Activity, Run: one.Run + 1}}
	steps := map[string]func(*rapid.T){
		"":         p.check,
		"reserve":  p.reserve,
		"reserve2": p.reserve, // Twice as often as others.
		"settle":   p.settle,
		"settle2":  p.settle,
		"load":     p.load,
		"restock":  p.restock,
		"control":  p.control,
		"drop":     p.drop,
		"outbox":   p.outbox,
		"bind":     p.bind,
	}
	if p.h.Durable {
		steps["reopen"] = p.reopen
	}
	if p.h.Advance != nil {
		steps["advance"] = func(rt *rapid.T) {
			p.h.Advance(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
		}
	}
	p.load(rt)
	rt.Repeat(steps)
	p.outbox(rt)
}

func (p *pair) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), p.h.Patience)
}

func (p *pair) run(rt *rapid.T) seckill.RunID { return rapid.SampledFrom(p.runs).Draw(rt, "run") }

func buyer(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"ann", "bob", "cyd"}).Draw(rt, "buyer")
}

// ticket is mostly one that was reserved.
func (p *pair) ticket(rt *rapid.T, id seckill.RunID) (ticket, buyerID string) {
	if r := p.m.runs[id]; r != nil && len(r.purchases) > 0 && rapid.IntRange(0, 9).Draw(rt, "known") > 0 {
		found := rapid.SampledFrom(r.purchases).Draw(rt, "purchase")
		return found.ticket, found.buyer
	}
	return p.newTicket(id), buyer(rt)
}

// newTicket is not random, so that a failure can be repeated.
func (p *pair) newTicket(id seckill.RunID) string {
	p.ids++
	like := seckill.NewTicket(id)
	return fmt.Sprintf("%s%020d", like[:len(like)-20], p.ids)
}

// window is around the stock's clock; to the second only if the clock waits for us.
func (p *pair) window(rt *rapid.T) (starts, ends time.Time) {
	unit := time.Hour
	if p.h.Advance != nil {
		unit = time.Second
	}
	starts = p.h.Now().Add(unit * time.Duration(rapid.SampledFrom([]int{-3, -3, -3, -3, 2}).Draw(rt, "starts")))
	return starts, starts.Add(unit * time.Duration(rapid.SampledFrom([]int{2, 9, 9, 9, 9}).Draw(rt, "lasts")))
}

func (p *pair) load(rt *rapid.T) {
	id := p.run(rt)
	spec := stock.Spec{
		Run: id, SubStocks: 1,
		Epoch: max(1, p.epoch[id]+rapid.SampledFrom([]int64{-1, 0, 1, 1, 1}).Draw(rt, "epoch")),
		Units: int64(rapid.IntRange(0, 12).Draw(rt, "units")),
		Limit: rapid.IntRange(1, 5).Draw(rt, "limit"),
	}
	spec.StartsAt, spec.EndsAt = p.window(rt)
	spec.Paused = rapid.IntRange(0, 9).Draw(rt, "paused") == 0
	if r := p.m.runs[id]; r != nil { // What a database would say.
		for _, old := range r.purchases {
			if old.order != nil && old.live() {
				o := *old.order
				o.Slot = old.slot
				spec.Held = append(spec.Held, o)
			}
		}
	}
	p.epoch[id] = max(p.epoch[id], spec.Epoch)
	ctx, cancel := p.ctx()
	defer cancel()
	if err := p.s.Load(ctx, spec); err != nil {
		rt.Fatalf("load: %v", err)
	}
	p.m.load(spec)
}

func (p *pair) bind(rt *rapid.T) {
	database := rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "database")
	ctx, cancel := p.ctx()
	defer cancel()
	got, err := p.s.Bind(ctx, database)
	if want := p.m.bind(database); err != nil || got != want {
		rt.Fatalf("bind %s: got %q, %v, want %q", database, got, err, want)
	}
}

func (p *pair) reserve(rt *rapid.T) {
	id := p.run(rt)
	epoch := p.epoch[id]
	if rapid.IntRange(0, 19).Draw(rt, "stale") == 0 {
		epoch++
	}
	var attempts []seckill.Attempt
	for range rapid.IntRange(1, 5).Draw(rt, "attempts") {
		a := seckill.Attempt{Buyer: buyer(rt), Quantity: rapid.IntRange(1, 3).Draw(rt, "quantity")}
		if rapid.IntRange(0, 9).Draw(rt, "again") == 0 {
			a.Ticket, a.Buyer = p.ticket(rt, id)
		} else {
			a.Ticket = p.newTicket(id)
		}
		if rapid.Bool().Draw(rt, "keyed") {
			a.Key = fmt.Sprint("key ", rapid.IntRange(1, 6).Draw(rt, "key"))
		}
		if r := p.m.runs[id]; r == nil || r.finished(a.Buyer) < finishedMax {
			attempts = append(attempts, a)
		}
	}
	ctx, cancel := p.ctx()
	defer cancel()
	got, err := p.s.Reserve(ctx, id, epoch, attempts)
	if err != nil {
		rt.Fatalf("reserve: %v", err)
	}
	want := p.m.reserve(id, epoch, attempts)
	for i := range got {
		got[i].Ahead = 0 // Roughly.
		if got[i].Verdict == stock.NotLoaded || got[i].Verdict == stock.Stale {
			got[i].Left = 0 // Says nothing.
		}
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("reserve %+v:\n got %+v\nwant %+v", attempts, got, want)
	}
}

func (p *pair) settle(rt *rapid.T) {
	var settlements []stock.Settlement
	var want []string
	for range rapid.IntRange(1, 4).Draw(rt, "settlements") {
		id := p.run(rt)
		r := p.m.runs[id]
		if r == nil || len(r.purchases) == 0 {
			continue
		}
		found := rapid.SampledFrom(r.purchases).Draw(rt, "purchase")
		s := stock.Settlement{Run: id, Ticket: found.ticket, Buyer: found.buyer}
		if state := rapid.IntRange(0, 4).Draw(rt, "state"); state == 0 {
			s.Failed = rapid.SampledFrom([]seckill.Reason{seckill.SoldOut, seckill.AlreadyPurchased}).Draw(rt, "reason")
			s.WrittenOff = rapid.IntRange(0, 3).Draw(rt, "written off") == 0
		} else {
			created := time.Unix(1_700_000_000+int64(state), 0).UTC()
			s.Order = &seckill.Order{
				ID: "1" + found.ticket[len(found.ticket)-6:], Ticket: found.ticket, Run: id, Buyer: found.buyer,
				Quantity: found.quantity, Slot: found.slot, AmountCents: 100 * int64(found.quantity),
				State: seckill.OrderState(state), CreatedAt: created, PayBefore: created.Add(time.Minute),
			}
			if s.Order.State == seckill.Paid {
				s.Order.PaymentRef = "ref"
			}
		}
		if rapid.IntRange(0, 19).Draw(rt, "lost") == 0 && s.Order != nil {
			s.Ticket = p.newTicket(id)
			s.Order.Ticket = s.Ticket
			want = append(want, s.Ticket)
		}
		settlements = append(settlements, s)
	}
	ctx, cancel := p.ctx()
	defer cancel()
	unknown, err := p.s.Settle(ctx, settlements)
	if err != nil {
		rt.Fatalf("settle: %v", err)
	}
	for _, s := range settlements {
		p.m.settle(s)
	}
	slices.Sort(unknown)
	slices.Sort(want)
	if !slices.Equal(unknown, want) {
		rt.Fatalf("settle says that %q are unknown, want %q", unknown, want)
	}
}

func (p *pair) restock(rt *rapid.T) {
	id := p.run(rt)
	restock, units := rapid.Int64Range(1, 9).Draw(rt, "id"), rapid.Int64Range(-6, 6).Draw(rt, "units")
	ctx, cancel := p.ctx()
	defer cancel()
	got, err := p.s.Restock(ctx, id, restock, units)
	want, there := p.m.restock(id, restock, units)
	if got != want || there == errors.Is(err, stock.ErrNotLoaded) || there && err != nil {
		rt.Fatalf("restock %d by %d: got %d, %v; want %d, loaded: %t", restock, units, got, err, want, there)
	}
}

func (p *pair) control(rt *rapid.T) {
	id := p.run(rt)
	c := stock.Control{Paused: rapid.Bool().Draw(rt, "paused")}
	_, c.EndsAt = p.window(rt)
	ctx, cancel := p.ctx()
	defer cancel()
	err := p.s.Control(ctx, id, c)
	if there := p.m.control(id, c); there == errors.Is(err, stock.ErrNotLoaded) || there && err != nil {
		rt.Fatalf("control: got %v, loaded: %t", err, there)
	}
}

// drop is rarer than its name is drawn: a run has to live for a while.
func (p *pair) drop(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "really") > 0 {
		return
	}
	id := p.run(rt)
	ctx, cancel := p.ctx()
	defer cancel()
	if err := p.s.Drop(ctx, id); err != nil {
		rt.Fatalf("drop: %v", err)
	}
	delete(p.m.runs, id)
}

func (p *pair) reopen(rt *rapid.T) {
	if err := p.s.Close(); err != nil {
		rt.Fatalf("close: %v", err)
	}
	p.s, p.sub = p.h.Open(p.t), nil
}

// outbox takes what waits, and takes care of it, or ends and so gives it back.
func (p *pair) outbox(rt *rapid.T) {
	ctx, cancel := p.ctx()
	defer cancel()
	if p.sub == nil {
		sub, err := p.s.Outbox().Subscribe(ctx)
		if err != nil {
			rt.Fatalf("subscribe: %v", err)
		}
		p.sub = sub
	}
	giveUp := rapid.Bool().Draw(rt, "give up")
	waits := p.m.waits()
	for len(waits) > 0 {
		ds, err := p.sub.Receive(ctx, rapid.IntRange(1, 4).Draw(rt, "max"))
		if err != nil {
			rt.Fatalf("%d reservations do not come out of the outbox: %v", len(waits), err)
		}
		for _, d := range ds {
			_, rs, err := queue.DecodeReservations(d.Body)
			if err != nil {
				rt.Fatalf("message %s: %v", d.ID, err)
			}
			for _, r := range rs {
				known := waits[r.Ticket]
				if known != nil && (known.buyer != r.Buyer || known.quantity != r.Quantity || known.slot != r.Slot) {
					rt.Fatalf("the outbox has %+v, want %+v", r, *known)
				}
				if known != nil && !giveUp {
					known.acked = true
				}
				delete(waits, r.Ticket)
			}
		}
		if giveUp {
			continue
		}
		if err := p.sub.Ack(ctx, ds...); err != nil {
			rt.Fatalf("ack: %v", err)
		}
	}
	if giveUp {
		if err := p.sub.Close(); err != nil {
			rt.Fatalf("close the subscription: %v", err)
		}
		p.sub = nil
	}
}

// check compares all that can be seen.
func (p *pair) check(rt *rapid.T) {
	ctx, cancel := p.ctx()
	defer cancel()
	for _, id := range p.runs {
		got, err := p.s.Level(ctx, id)
		want, there := p.m.level(id)
		got.Returns = 0
		if got != want || there == errors.Is(err, stock.ErrNotLoaded) || there && err != nil {
			rt.Fatalf("level: got %+v, %v; want %+v, loaded: %t", got, err, want, there)
		}
		if !there {
			continue
		}
		p.checkQueued(ctx, rt, id)
		for _, found := range p.m.runs[id].purchases {
			for _, who := range []string{found.buyer, "eve"} {
				p.checkOutcome(ctx, rt, who, found.ticket)
			}
		}
	}
}

func (p *pair) checkQueued(ctx context.Context, rt *rapid.T, id seckill.RunID) {
	var got []string
	for after := ""; ; {
		page, err := p.s.Queued(ctx, id, after, 2)
		if err != nil {
			rt.Fatalf("queued: %v", err)
		}
		if len(page) == 0 {
			break
		}
		if len(got) > 10_000 {
			rt.Fatalf("paging does not end")
		}
		for _, r := range page {
			got = append(got, fmt.Sprint(r.Ticket, " ", r.Buyer, " ", r.Quantity, " ", r.Slot))
		}
		after = page[len(page)-1].Ticket
	}
	if want := p.m.queued(id); !slices.Equal(got, want) {
		rt.Fatalf("queued:\n got %q\nwant %q", got, want)
	}
}

func (p *pair) checkOutcome(ctx context.Context, rt *rapid.T, who, ticket string) {
	got, err := p.s.Outcome(ctx, who, ticket)
	want, there := p.m.outcome(who, ticket)
	if there == errors.Is(err, seckill.ErrNotFound) || there && err != nil {
		rt.Fatalf("outcome of %s for %s: got %v; there: %t", ticket, who, err, there)
	}
	same := got.Progress == want.Progress && got.Reason == want.Reason && (got.Order == nil) == (want.Order == nil)
	if !same || want.Order != nil && !sameOrder(*got.Order, *want.Order) {
		rt.Fatalf("outcome of %s: got %+v, want %+v", ticket, got, want)
	}
}
