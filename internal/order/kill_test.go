package order_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/order"
	"seckill/internal/sqlstore"
	"seckill/stock"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openDB(t testing.TB) *sqlstore.DB {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "s.db"), sqlstore.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, db.Migrate(t.Context()))
	return db
}

func sale(t testing.TB, db *sqlstore.DB, units int64, window time.Duration) seckill.RunID {
	t.Helper()
	a, err := db.CreateActivity(t.Context(), seckill.Activity{
		Name: "cups", PriceCents: 100, Total: units, StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour),
		LimitPerUser: 1, SubStocks: 1, PaymentWindow: window, Audience: seckill.AudienceEveryone,
	}, seckill.Actor{Who: "test"})
	must(t, err)
	return a.RunID()
}

func reserve(run seckill.RunID, buyer string) seckill.Reservation {
	return seckill.Reservation{Ticket: seckill.NewTicket(run), Run: run, Buyer: buyer, Quantity: 1, Slot: 1, ReservedAt: time.Now()}
}

// killer ends the writer's life at one of its steps: from then on nothing of it reaches
// the database, the stock or the queue.
type killer struct {
	order.Store
	mu   sync.Mutex
	die  func()
	step string
	dead bool
}

var errKilled = errors.New("killed")

func (k *killer) at(step string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.step == step && !k.dead {
		k.dead = true
		k.die()
	}
	if k.dead {
		return fmt.Errorf("%w at %s", errKilled, step)
	}
	return nil
}

func (k *killer) WriteOrders(ctx context.Context, run seckill.RunID, rs []seckill.Reservation) ([]order.Written, error) {
	if err := k.at("before the database"); err != nil {
		return nil, errors.Join(order.ErrUnavailable, err)
	}
	written, err := k.Store.WriteOrders(ctx, run, rs)
	if err == nil {
		if err := k.at("after the database"); err != nil {
			return nil, errors.Join(order.ErrUnavailable, err)
		}
	}
	return written, err
}

// A writer that dies between any two of its steps leaves work that another finishes:
// each reservation is one order, or one failure, and the stock moves once for each.
func TestWriterMayDieAtAnyStep(t *testing.T) {
	for _, step := range []string{
		"before the database", "after the database", "before the stock", "after the stock", "before the acknowledgement", "never",
	} {
		t.Run(step, func(t *testing.T) {
			db, q, st := openDB(t), order.NewMemQueue(), order.NewMemStock()
			run := sale(t, db, 5, time.Hour)
			// Seven reservations for five units: two fail, whoever asks.
			var rs []seckill.Reservation
			for i := range 7 {
				rs = append(rs, reserve(run, fmt.Sprint("b", i)))
			}
			q.Send("m", run, rs[:4]...)
			q.Send("n", run, rs[4:]...)

			ctx, die := context.WithCancel(t.Context())
			k := &killer{Store: db, die: die, step: step}
			q.Acks = func() error { return k.at("before the acknowledgement") }
			st.Fail = func() error { return k.at("before the stock") }
			w := order.Writer{Source: q, Store: k, Stock: afterwards{st, k}, BatchMax: 4, Grace: time.Millisecond}
			if step == "never" {
				go func() { await(t, func() bool { return q.Acked() == 2 }); die() }()
			}
			must(t, w.Run(ctx))
			if k.dead != (step != "never") {
				t.Fatalf("the writer came through %q alive", step)
			}

			q.Acks, st.Fail = nil, nil
			ctx, stop := context.WithCancel(t.Context())
			second := order.Writer{Source: q, Store: db, Stock: st, BatchMax: 4}
			ended := make(chan error, 1)
			go func() { ended <- second.Run(ctx) }()
			await(t, func() bool { return q.Acked() == 2 })
			stop()
			must(t, <-ended)
			checkOnce(t, db, st, run, rs, 5)
		})
	}
}

// afterwards dies when the stock has heard.
type afterwards struct {
	*order.MemStock
	k *killer
}

func (a afterwards) Settle(ctx context.Context, s []stock.Settlement) ([]string, error) {
	unknown, err := a.MemStock.Settle(ctx, s)
	if err == nil {
		err = a.k.at("after the stock")
	}
	return unknown, err
}

func await(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Error("waited in vain")
}

func checkOnce(t *testing.T, db *sqlstore.DB, st *order.MemStock, run seckill.RunID, rs []seckill.Reservation, orders int) {
	t.Helper()
	tickets := make([]string, len(rs))
	for i, r := range rs {
		tickets[i] = r.Ticket
	}
	written, err := db.OrdersByTicket(t.Context(), tickets)
	must(t, err)
	if len(written) != orders {
		t.Fatalf("%d orders, want %d", len(written), orders)
	}
	units, err := db.Units(t.Context(), run)
	must(t, err)
	if units.AwaitingPayment != int64(orders) || units.Available != units.Total-int64(orders) {
		t.Fatalf("units: %+v", units)
	}
	for _, ticket := range tickets {
		s := st.Settled[ticket]
		o, confirmed := written[ticket]
		if st.Moves[ticket] != 1 || confirmed != (s.Order != nil) || confirmed && *s.Order != o ||
			!confirmed && s.Failed != seckill.SoldOut {
			t.Fatalf("ticket %s: %d moves, settled %+v, order %+v", ticket, st.Moves[ticket], s, o)
		}
	}
}

// Two writers on one queue and one database, fed with messages that come twice, write
// each order once.
func TestWritersOverSQLite(t *testing.T) {
	db, q, st := openDB(t), order.NewMemQueue(), order.NewMemStock()
	run := sale(t, db, 150, time.Hour)
	var rs []seckill.Reservation
	for i := range 200 {
		r := reserve(run, fmt.Sprint("b", i))
		rs = append(rs, r)
		q.Send(fmt.Sprint("m", i), run, r)
		if i%3 == 0 {
			q.Send(fmt.Sprint("again", i), run, r)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for range 2 {
		w := order.Writer{Source: q, Store: db, Stock: st, BatchMax: 20}
		go func() { ended <- w.Run(ctx) }()
	}
	await(t, func() bool { return q.Acked() == 267 })
	stop()
	must(t, <-ended)
	must(t, <-ended)
	checkOnce(t, db, st, run, rs, 150)
}
