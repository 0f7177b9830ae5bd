package redisstock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
	"seckill/stock/embedded"
)

// Whatever is asked in whatever order, Redis and the embedded engine answer the same after
// each step. How many are in front is the same when a unit is taken, and later as if a whole
// call had one place. A failure prints the operations and how to repeat them.
func TestAgreesWithEmbedded(t *testing.T) {
	url := testenv.Redis(t).URL()
	for _, c := range []struct {
		kind string
		subs int
	}{{"stream", 1}, {"stream", 3}, {"list", 3}} {
		t.Run(fmt.Sprintf("%s/%d", c.kind, c.subs), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				compareWithEmbedded(t, rt, open(t, url, func(o *Options) { o.Outbox = c.kind }), c.subs)
			})
		})
	}
}

// both are the two that are compared.
type both struct {
	redis, memory stock.Stock
	subs          int
	epoch         int64
	queue         []seckill.Reservation // In order; the front is settled first.
	known         []seckill.Attempt
	orders        []seckill.Order // Live.
	n             int
}

func compareWithEmbedded(t *testing.T, rt *rapid.T, redis *Stock, subs int) {
	memory, err := embedded.Open(t.Context(), embedded.Options{})
	if err != nil {
		rt.Fatal(err)
	}
	defer func() { _ = errors.Join(memory.Close(), redis.Close()) }()
	b := &both{redis: redis, memory: memory, subs: subs, epoch: 0}
	b.load(rt)
	rt.Repeat(map[string]func(*rapid.T){
		"reserve":  b.reserve,
		"reserve2": b.reserve,
		"settle":   b.settle,
		"move":     b.move,
		"restock":  b.restock,
		"load":     b.load,
		"pause":    b.pause,
		"":         b.check,
	})
}

// same does something to both and wants one answer.
func same[T any](rt *rapid.T, b *both, what string, do func(s stock.Stock) (T, error)) (answer T) {
	rt.Helper()
	got, err := do(b.redis)
	want, err2 := do(b.memory)
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || (err == nil) != (err2 == nil) {
		rt.Fatalf("%s:\nredis    %+v, %v\nembedded %+v, %v", what, got, err, want, err2)
	}
	return want
}

func (b *both) load(rt *rapid.T) {
	if b.epoch > 0 && rapid.IntRange(0, 9).Draw(rt, "really") > 0 {
		return
	}
	b.epoch++
	now := time.Now()
	spec := stock.Spec{
		Run: testRun, Epoch: b.epoch, SubStocks: b.subs,
		Units: int64(rapid.IntRange(0, 20).Draw(rt, "units")), Limit: rapid.IntRange(1, 6).Draw(rt, "limit"),
		StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), Held: slices.Clone(b.orders),
	}
	same(rt, b, "load", func(s stock.Stock) (int, error) { return 0, s.Load(context.Background(), spec) })
	b.queue, b.known = nil, nil
}

func (b *both) reserve(rt *rapid.T) {
	var attempts []seckill.Attempt
	for range rapid.IntRange(1, 6).Draw(rt, "attempts") {
		if len(b.known) > 0 && rapid.IntRange(0, 7).Draw(rt, "again") == 0 {
			attempts = append(attempts, rapid.SampledFrom(b.known).Draw(rt, "known"))
			continue
		}
		b.n++
		like := seckill.NewTicket(testRun)
		a := seckill.Attempt{
			Ticket: fmt.Sprintf("%s%020d", like[:len(like)-20], b.n), Quantity: rapid.IntRange(1, 3).Draw(rt, "quantity"),
			Buyer: rapid.SampledFrom([]string{"ann", "bob", "c y d", "dan"}).Draw(rt, "buyer"),
		}
		if rapid.Bool().Draw(rt, "keyed") {
			a.Key = fmt.Sprint("key ", rapid.IntRange(0, 3).Draw(rt, "key"))
		}
		if rapid.IntRange(0, 29).Draw(rt, "foreign") == 0 {
			a.Ticket = seckill.NewTicket(seckill.RunID{Activity: 1, Run: 1})
		}
		attempts = append(attempts, a)
	}
	ds := same(rt, b, fmt.Sprintf("reserve %+v", attempts), func(s stock.Stock) ([]stock.Decision, error) {
		ds, err := s.Reserve(context.Background(), testRun, b.epoch, attempts)
		for i := range ds {
			if b.subs > 1 || ds[i].Verdict != stock.Taken {
				ds[i].Ahead = 0
			}
		}
		return ds, err
	})
	for i, d := range ds {
		if d.Verdict == stock.Taken {
			b.known = append(b.known, attempts[i])
		}
	}
	b.queue = same(rt, b, "queued", func(s stock.Stock) ([]seckill.Reservation, error) { return b.queued(s) })
}

func (b *both) queued(s stock.Stock) (all []seckill.Reservation, err error) {
	for {
		after := ""
		if len(all) > 0 {
			after = all[len(all)-1].Ticket
		}
		page, err := s.Queued(context.Background(), testRun, after, 4)
		for i := range page {
			page[i].ReservedAt = time.Time{} // Each by its own clock.
		}
		if all = append(all, page...); err != nil || len(page) == 0 {
			return all, err
		}
	}
}

// settle settles the front of the queue.
func (b *both) settle(rt *rapid.T) {
	var settlements []stock.Settlement
	for range min(len(b.queue), rapid.IntRange(1, 4).Draw(rt, "settlements")) {
		r := b.queue[0]
		b.queue = b.queue[1:]
		s := stock.Settlement{Run: testRun, Ticket: r.Ticket, Buyer: r.Buyer}
		if rapid.Bool().Draw(rt, "fails") {
			s.Failed = seckill.SoldOut
			s.WrittenOff = rapid.Bool().Draw(rt, "written off")
		} else {
			o := seckill.Order{
				ID: "o " + r.Ticket, Ticket: r.Ticket, Run: testRun, Buyer: r.Buyer, Quantity: r.Quantity, Slot: r.Slot, AmountCents: 1 << 60,
				State: seckill.AwaitingPayment, CreatedAt: time.Unix(1_700_000_000, 123456789).UTC(), PayBefore: time.Unix(1_700_000_900, 0).UTC(),
			}
			b.orders = append(b.orders, o)
			s.Order = &o
		}
		settlements = append(settlements, s)
	}
	b.tell(rt, settlements)
}

// move moves an order on, or tries what cannot be.
func (b *both) move(rt *rapid.T) {
	if len(b.orders) == 0 {
		return
	}
	i := rapid.IntRange(0, len(b.orders)-1).Draw(rt, "order")
	o := b.orders[i]
	to := seckill.OrderState(rapid.IntRange(1, 4).Draw(rt, "state"))
	if o.State == seckill.AwaitingPayment {
		o.State = to
		if to == seckill.Paid {
			o.PaymentRef = "ref, with spaces\n"
		}
		b.orders[i] = o
		if !to.Live() {
			b.orders = slices.Delete(b.orders, i, i+1)
		}
	} else {
		o.State = to
	}
	b.tell(rt, []stock.Settlement{{Run: testRun, Ticket: o.Ticket, Buyer: o.Buyer, Order: &o}})
}

func (b *both) tell(rt *rapid.T, settlements []stock.Settlement) {
	same(rt, b, fmt.Sprintf("settle %+v", settlements), func(s stock.Stock) ([]string, error) {
		return s.Settle(context.Background(), settlements)
	})
}

func (b *both) restock(rt *rapid.T) {
	id, units := rapid.Int64Range(1, 6).Draw(rt, "id"), rapid.Int64Range(-9, 9).Draw(rt, "units")
	same(rt, b, "restock", func(s stock.Stock) (int64, error) { return s.Restock(context.Background(), testRun, id, units) })
}

func (b *both) pause(rt *rapid.T) {
	paused := rapid.IntRange(0, 3).Draw(rt, "paused") == 0
	same(rt, b, "pause", func(s stock.Stock) (int, error) {
		return 0, s.Control(context.Background(), testRun, stock.Control{Paused: paused})
	})
}

func (b *both) check(rt *rapid.T) {
	same(rt, b, "level", func(s stock.Stock) (stock.Level, error) {
		l, err := s.Level(context.Background(), testRun)
		l.Returns = 0
		return l, err
	})
	for _, a := range b.known {
		var ahead []int64
		same(rt, b, "outcome of "+a.Ticket, func(s stock.Stock) (string, error) {
			o, err := s.Outcome(context.Background(), a.Buyer, a.Ticket)
			if errors.Is(err, seckill.ErrNotFound) {
				return "not found", nil
			}
			ahead = append(ahead, o.Ahead)
			return fmt.Sprintf("%v %v %+v", o.Progress, o.Reason, o.Order), err
		})
		if b.subs == 1 && len(ahead) == 2 && (ahead[0] > ahead[1] || ahead[1]-ahead[0] > 5) {
			rt.Fatalf("%d are in front, but embedded says %d", ahead[0], ahead[1])
		}
	}
}
