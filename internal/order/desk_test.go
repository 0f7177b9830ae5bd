package order_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seckill"
	"seckill/internal/order"
	"seckill/internal/sqlstore"
	"seckill/stock"
)

var operator = seckill.Actor{Who: "operator", From: "192.0.2.1", Reason: "test"}

// counter is a desk with one order, over SQLite.
type counter struct {
	*order.Desk
	db    *sqlstore.DB
	stock *order.MemStock
	run   seckill.RunID
	o     seckill.Order
}

func newCounter(t *testing.T, window time.Duration) *counter {
	t.Helper()
	c := &counter{db: openDB(t), stock: order.NewMemStock()}
	c.run = sale(t, c.db, 10, window)
	c.Desk = &order.Desk{Store: c.db, Stock: c.stock, TellTimeout: 50 * time.Millisecond}
	c.o = c.write(t, "anna")
	return c
}

func (c *counter) write(t *testing.T, buyer string) seckill.Order {
	t.Helper()
	w, err := c.db.WriteOrders(t.Context(), c.run, []seckill.Reservation{reserve(c.run, buyer)})
	must(t, err)
	return *w[0].Order
}

func (c *counter) todos(t *testing.T) int {
	t.Helper()
	todos, err := c.db.Todos(t.Context(), 0, 100)
	must(t, err)
	return len(todos)
}

func refused(t *testing.T, what string, err error, want seckill.Reason) {
	t.Helper()
	var r *seckill.Refusal
	if !errors.As(err, &r) || r.Reason != want || want == seckill.Conflict && r.Detail == "" {
		t.Fatalf("%s: got %v, want %v", what, err, want)
	}
}

// What a buyer and the merchant may do to an order in each of its states.
func TestDeskRules(t *testing.T) {
	type do func(context.Context, *counter) (seckill.Order, error)
	cancel := do(func(ctx context.Context, c *counter) (seckill.Order, error) { return c.Cancel(ctx, "anna", c.o.ID) })
	pay := do(func(ctx context.Context, c *counter) (seckill.Order, error) { return c.Pay(ctx, "anna", c.o.ID, "ref") })
	paid := do(func(ctx context.Context, c *counter) (seckill.Order, error) {
		return c.Paid(ctx, c.o.ID, "ref", operator)
	})
	expire := do(func(ctx context.Context, c *counter) (seckill.Order, error) {
		todos, err := c.db.ExpireOrders(ctx, 10)
		if err != nil || len(todos) != 1 {
			return seckill.Order{}, errors.Join(err, errors.New("nothing expired"))
		}
		return *todos[0].Order, nil
	})
	for _, rule := range []struct {
		name   string
		window time.Duration
		first  do
		then   do
		want   seckill.OrderState // 0 is a conflict.
	}{
		{"cancel twice", time.Hour, cancel, cancel, seckill.Cancelled},
		{"pay twice", time.Hour, pay, pay, seckill.Paid},
		{"pay, and the merchant says so", time.Hour, pay, paid, seckill.Paid},
		{"the merchant says so twice", time.Hour, paid, paid, seckill.Paid},
		{"cancel after paid", time.Hour, pay, cancel, 0},
		{"pay after cancel", time.Hour, cancel, pay, 0},
		{"paid after cancel", time.Hour, cancel, paid, 0},
		{"pay after expiry", -time.Second, expire, pay, 0},
		{"paid after expiry", -time.Second, expire, paid, 0},
		{"cancel after expiry", -time.Second, expire, cancel, 0},
		{"pay too late", -time.Second, nil, pay, 0},
		{"cancel too late to pay", -time.Second, nil, cancel, seckill.Cancelled},
	} {
		t.Run(rule.name, func(t *testing.T) {
			c := newCounter(t, rule.window)
			if rule.first != nil {
				_, err := rule.first(t.Context(), c)
				must(t, err)
			}
			o, err := rule.then(t.Context(), c)
			if rule.want == 0 {
				refused(t, rule.name, err, seckill.Conflict)
				return
			}
			must(t, err)
			read, err := c.Order(t.Context(), "anna", c.o.ID)
			must(t, err)
			if o != read || o.State != rule.want {
				t.Fatalf("got %+v, stored %+v, want state %v", o, read, rule.want)
			}
			if s := c.stock.Settled[c.o.Ticket]; s.Order == nil || *s.Order != o || c.todos(t) != 0 {
				t.Fatalf("the stock heard %+v, %d to-dos are left", s, c.todos(t))
			}
		})
	}
}

// Nobody sees, pays or cancels what is not theirs, and cannot tell it from nothing.
func TestDeskHidesOthersOrders(t *testing.T) {
	c := newCounter(t, time.Hour)
	for _, try := range []struct{ buyer, id string }{{"bert", c.o.ID}, {"anna", "1"}, {"anna", "x"}, {"anna ", c.o.ID}} {
		_, err := c.Order(t.Context(), try.buyer, try.id)
		refused(t, "order", err, seckill.NotFound)
		_, err = c.Cancel(t.Context(), try.buyer, try.id)
		refused(t, "cancel", err, seckill.NotFound)
		_, err = c.Pay(t.Context(), try.buyer, try.id, "")
		refused(t, "pay", err, seckill.NotFound)
	}
	_, err := c.Paid(t.Context(), "1", "", operator)
	refused(t, "paid", err, seckill.NotFound)
	orders, err := c.Orders(t.Context(), "bert", "", 10)
	if err != nil || len(orders) != 0 {
		t.Fatalf("bert's orders: %v %v", orders, err)
	}
}

// A stock that does not answer delays the caller by no more than the setting, and hears of it later.
func TestDeskDoesNotWaitForTheStock(t *testing.T) {
	c := newCounter(t, time.Hour)
	c.Stock = hanging{}
	began := time.Now()
	o, err := c.Cancel(t.Context(), "anna", c.o.ID)
	must(t, err)
	if took := time.Since(began); o.State != seckill.Cancelled || took < 50*time.Millisecond || took > 10*time.Second {
		t.Fatalf("%v after %v", o.State, took)
	}
	if n := c.todos(t); n != 1 {
		t.Fatalf("%d to-dos", n)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := order.Settler{Store: c.db, Stock: c.stock}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	await(t, func() bool { return c.todos(t) == 0 })
	stop()
	must(t, <-ended)
	if st := c.stock.Settled[c.o.Ticket]; st.Order.State != seckill.Cancelled {
		t.Fatalf("settled: %+v", st)
	}
}

type hanging struct{}

func (hanging) Settle(ctx context.Context, _ []stock.Settlement) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An operator retries a dead letter and hears at once what became of it.
func TestDeskRetriesTheDead(t *testing.T) {
	c := newCounter(t, time.Hour)
	bury := func(r seckill.Reservation) int64 {
		t.Helper()
		must(t, c.db.Bury(t.Context(), seckill.DeadLetter{Run: r.Run, Ticket: r.Ticket, Reservation: &r, Reason: "x", Attempts: 5}))
		letters, err := c.DeadLetters(t.Context(), 0, 1)
		must(t, err)
		return letters[0].ID
	}
	good, twice := reserve(c.run, "good"), reserve(c.run, "anna")
	lost := reserve(seckill.RunID{Activity: c.run.Activity, Run: 9}, "lost")

	id := bury(good)
	got, err := c.RetryDead(t.Context(), id, operator)
	must(t, err)
	if len(got.Outcomes) != 1 || got.Outcomes[0].Progress != seckill.Confirmed || got.Outcomes[0].Order.Ticket != good.Ticket || got.Pending || got.Dead != "" {
		t.Fatalf("good: %+v", got)
	}
	if c.stock.Settled[good.Ticket].Order == nil {
		t.Fatal("the stock heard nothing")
	}
	_, err = c.RetryDead(t.Context(), id, operator)
	refused(t, "again", err, seckill.Conflict)

	got, err = c.RetryDead(t.Context(), bury(twice), operator)
	must(t, err)
	if len(got.Outcomes) != 1 || got.Outcomes[0].Progress != seckill.Failed || got.Outcomes[0].Reason != seckill.AlreadyPurchased {
		t.Fatalf("a second purchase: %+v", got)
	}

	id = bury(lost)
	got, err = c.RetryDead(t.Context(), id, operator)
	must(t, err)
	if got.Dead == "" || len(got.Outcomes) != 0 {
		t.Fatalf("a run that is not there: %+v", got)
	}
	letters, err := c.DeadLetters(t.Context(), 0, 10)
	must(t, err)
	if len(letters) != 1 || letters[0].ID != id || letters[0].Reason != got.Dead {
		t.Fatalf("letters: %+v", letters)
	}

	c.Stock = hanging{}
	pending := reserve(c.run, "pending")
	id = bury(pending)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got, err = c.RetryDead(ctx, id, operator)
	must(t, err)
	if !got.Pending {
		t.Fatalf("a stock that does not answer: %+v", got)
	}
	_, err = c.RetryDead(t.Context(), 999, operator)
	refused(t, "no letter", err, seckill.NotFound)
}

// A dead letter that is dropped is told to the stock at once.
func TestDeskDropsTheDead(t *testing.T) {
	c := newCounter(t, time.Hour)
	r := reserve(c.run, "dropped")
	must(t, c.db.Bury(t.Context(),
		seckill.DeadLetter{Run: r.Run, Ticket: r.Ticket, Reservation: &r, Reason: "x"}, seckill.DeadLetter{Payload: []byte("?")}))
	letters, err := c.DeadLetters(t.Context(), 0, 10)
	must(t, err)
	for _, l := range letters {
		must(t, c.DropDead(t.Context(), l.ID, true, operator))
		refused(t, "twice", c.DropDead(t.Context(), l.ID, true, operator), seckill.Conflict)
	}
	if s := c.stock.Settled[r.Ticket]; s.Failed != seckill.Internal || s.WrittenOff || c.todos(t) != 0 {
		t.Fatalf("settled: %+v", s)
	}
	refused(t, "no letter", c.DropDead(t.Context(), 999, true, operator), seckill.NotFound)
}

// An unpaid order expires, the stock hears of it, and the buyer may buy again.
func TestExpiredUnitsAreSoldAgain(t *testing.T) {
	c := newCounter(t, 30*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	e := order.Expirer{Store: c.db, Stock: c.stock, Every: 10 * time.Millisecond}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	await(t, func() bool { return c.stock.Count() == 1 })
	stop()
	must(t, <-ended)
	read, err := c.Order(t.Context(), "anna", c.o.ID)
	must(t, err)
	if s := c.stock.Settled[c.o.Ticket]; s.Order.State != seckill.Expired || read.State != seckill.Expired || time.Now().Before(c.o.PayBefore) {
		t.Fatalf("settled %+v, stored %+v", s, read)
	}
	c.write(t, "anna")
	units, err := c.db.Units(t.Context(), c.run)
	must(t, err)
	if units.AwaitingPayment != 1 || units.Available != 9 {
		t.Fatalf("units: %+v", units)
	}
}

// Reservations that no queue carries any more become orders, once: what the database
// has already stays as it is, and the stock hears of each.
func TestRewrite(t *testing.T) {
	c := newCounter(t, time.Hour)
	rs := []seckill.Reservation{reserve(c.run, "ben"), reserve(c.run, "cleo")}
	for range 2 {
		must(t, c.Rewrite(t.Context(), c.run, rs))
	}
	if got := c.stock.Count(); got != 2 {
		t.Errorf("the stock heard of %d reservations, want 2", got)
	}
	for _, r := range rs {
		orders, err := c.Orders(t.Context(), r.Buyer, "", 10)
		must(t, err)
		if len(orders) != 1 || orders[0].Ticket != r.Ticket {
			t.Errorf("orders of %s: %+v, want the one of %s", r.Buyer, orders, r.Ticket)
		}
	}
}

// An order that is paid stays paid under its first reference; a second payment is told apart
// from the same one reported twice.
func TestPaidTwice(t *testing.T) {
	c := newCounter(t, time.Hour)
	for range 2 {
		o, err := c.Paid(t.Context(), c.o.ID, "bank-1", operator)
		must(t, err)
		if o.PaymentRef != "bank-1" {
			t.Errorf("reference %q", o.PaymentRef)
		}
	}
	_, err := c.Paid(t.Context(), c.o.ID, "bank-2", operator)
	refused(t, "another payment", err, seckill.Conflict)
}
