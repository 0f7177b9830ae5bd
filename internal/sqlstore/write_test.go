package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"seckill"
	"seckill/internal/order"
)

// A reservation becomes one order, however often it is written, and reads back as
// it was answered.
func claimWrite(t *testing.T, p *place) {
	run := p.sale(t, 5000, 15*time.Minute)
	rs := buyers(run, 0, 3)
	rs[1].Quantity, rs[1].Buyer = 7, "space at the end "
	before := time.Now()
	first := p.mustWrite(t, run, rs...)
	for i, w := range first {
		if !w.New || w.Dead || w.Refused != seckill.NoReason {
			t.Fatalf("answer %d: %+v", i, w)
		}
		o := *w.Order
		read, err := p.Order(t.Context(), o.ID, rs[i].Buyer)
		must(t, err)
		equal(t, "order read back", read, o)
		if o.CreatedAt.Before(before.Add(-time.Minute)) || o.CreatedAt.After(time.Now().Add(time.Minute)) {
			t.Fatalf("created at %v", o.CreatedAt)
		}
		want := seckill.Order{
			ID: o.ID, Ticket: rs[i].Ticket, Run: run, Buyer: rs[i].Buyer, Quantity: rs[i].Quantity, Slot: 1,
			AmountCents: 250 * int64(rs[i].Quantity), State: seckill.AwaitingPayment,
			CreatedAt: o.CreatedAt, PayBefore: o.CreatedAt.Add(15 * time.Minute),
		}
		equal(t, "order", o, want)
	}
	p.balanced(t, run, 5000, 9)

	// The message comes again, with new ones around it, and one of them twice.
	extra := buyers(run, 10, 13)
	mixed := append([]seckill.Reservation{extra[2], rs[2], extra[0], rs[0]}, extra...)
	second := p.mustWrite(t, run, mixed...)
	for i, want := range []bool{true, false, true, false, false, true, false} {
		equal(t, fmt.Sprintf("answer %d is new", i), second[i].New, want)
	}
	equal(t, "the known order", *second[1].Order, *first[2].Order)
	equal(t, "the ticket that came twice", second[6].Order.ID, second[0].Order.ID)
	p.balanced(t, run, 5000, 12)

	// More than one statement holds.
	many := buyers(run, 1000, 1000+2*p.dialect.rowsMax+17)
	for _, w := range p.mustWrite(t, run, many...) {
		if !w.New {
			t.Fatalf("of many: %+v", w)
		}
	}
	for i, w := range p.mustWrite(t, run, many...) {
		if w.New || w.Order == nil || w.Order.Ticket != many[i].Ticket {
			t.Fatalf("of many, again: %+v", w)
		}
	}
	p.balanced(t, run, 5000, 12+int64(len(many)))
	if w := p.mustWrite(t, run); len(w) != 0 {
		t.Fatalf("nothing was answered with %v", w)
	}
}

// What cannot be had is refused, the rest goes through, and a refusal stays one
// whatever becomes free later.
func claimRefuse(t *testing.T, p *place) {
	run := p.sale(t, 10, time.Hour)
	held := p.mustOrder(t, reservation(run, "anna", 4))

	// The stock lost anna's order, and believes in 10 units.
	rs := []seckill.Reservation{
		reservation(run, "anna", 1),  // Holds slot 1.
		reservation(run, "bert", 3),  // Fits.
		reservation(run, "carl", 4),  // 3 are left.
		reservation(run, "dora", 2),  // Fits.
		reservation(run, "bert", 1),  // Holds slot 1, since two lines above.
		reservation(run, "emil", 1),  // Fits.
		reservation(run, "Anna", 99), // Another buyer than anna; too much.
	}
	want := []seckill.Reason{seckill.AlreadyPurchased, 0, seckill.SoldOut, 0, seckill.AlreadyPurchased, 0, seckill.SoldOut}
	check := func(again bool) {
		t.Helper()
		for i, w := range p.mustWrite(t, run, rs...) {
			if w.Refused != want[i] || (w.Order == nil) != (want[i] != 0) || w.New != (want[i] == 0 && !again) || w.Dead {
				t.Fatalf("answer %d: %+v, want reason %q", i, w, want[i])
			}
		}
	}
	check(false)
	p.balanced(t, run, 10, 10)

	_, _, moved, err := p.MoveOrder(t.Context(), held.ID, "anna", seckill.Cancelled, "", nil)
	must(t, err)
	equal(t, "cancelled", moved, true)
	check(true)
	p.balanced(t, run, 10, 6)

	// Anna may buy again, under the same slot.
	p.mustOrder(t, reservation(run, "anna", 1))
	second := reservation(run, "anna", 1)
	second.Slot = 2
	p.mustOrder(t, second)
	p.balanced(t, run, 10, 8)
}

// Writers that hold the same messages make one order of each, and not more than
// there are units.
func claimWriteTogether(t *testing.T, p *place) {
	run := p.sale(t, 60, time.Hour)
	rs := buyers(run, 0, 80)
	// Some want what others have.
	for i := 0; i < 80; i += 8 {
		rs[i].Buyer = rs[i+1].Buyer
	}
	answers := make([][]order.Written, 6)
	var writers []func(context.Context) error
	for n := range answers {
		writers = append(writers, func(ctx context.Context) error {
			mine := make([]order.Written, len(rs))
			for from := (n * 7) % 20; from < len(rs); from += 20 {
				to := min(from+30, len(rs))
				for {
					w, err := p.WriteOrders(ctx, run, rs[from:to])
					if err == nil {
						for i := range w {
							w[i].New = w[i].New || mine[from+i].New
						}
						copy(mine[from:to], w)
						break
					}
					if !errors.Is(err, order.ErrUnavailable) {
						return err
					}
				}
			}
			answers[n] = mine
			return nil
		})
	}
	together(t, writers...)
	p.balanced(t, run, 60, 60)
	for i := range rs {
		var said *order.Written
		created := 0
		for n := range answers {
			w := answers[n][i]
			if w.New {
				created++
			}
			if w.Order == nil && w.Refused == 0 {
				continue // This writer did not have it.
			}
			if said != nil && (said.Refused != w.Refused || w.Order != nil && said.Order.ID != w.Order.ID) {
				t.Fatalf("ticket %d: two answers, %+v and %+v", i, *said, w)
			}
			said = &w
		}
		if wanted := said.Order != nil; wanted && created != 1 || !wanted && created != 0 {
			t.Fatalf("ticket %d was created %d times", i, created)
		}
	}
}

// Writers that all believe in the last units make as many orders as there are.
func claimLastUnits(t *testing.T, p *place) {
	run := p.sale(t, 0, time.Hour)
	for round := range p.races / 5 {
		p.raw(t, "UPDATE seckill_stock SET total_stock = ?, available_stock = 3", 3*(round+1))
		var writers []func(context.Context) error
		answers := make([]order.Written, 5)
		for n := range answers {
			r := reservation(run, fmt.Sprintf("b-%d-%d", round, n), 1)
			writers = append(writers, func(ctx context.Context) error {
				w, err := p.WriteOrders(ctx, run, []seckill.Reservation{r})
				if err == nil {
					answers[n] = w[0]
				}
				return err
			})
		}
		together(t, writers...)
		orders := 0
		for _, w := range answers {
			if w.New {
				orders++
			} else {
				equal(t, "reason", w.Refused, seckill.SoldOut)
			}
		}
		equal(t, "orders", orders, 3)
		p.balanced(t, run, int64(3*(round+1)), int64(3*(round+1)))
	}
}

// A refusal waits for whoever is just writing the same ticket: it cannot be refused here
// and become an order there.
func claimRefuseWaits(t *testing.T, p *place) {
	run := p.sale(t, 3, time.Hour)
	r := reservation(run, "b", 5)
	// Another writer is in the middle of its transaction; it knows of a restock.
	other, err := p.write.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = other.ExecContext(t.Context(), `INSERT INTO seckill_order (id, activity_id, user_id, status, create_time, run, ticket, slot,
		quantity, amount_cents, pay_before, update_time) VALUES (1,?,?,1,?,1,?,1,5,0,?,?)`,
		run.Activity, r.Buyer, at(time.Now()), r.Ticket, at(time.Now()), at(time.Now()))
	must(t, err)
	_, err = other.ExecContext(t.Context(), "UPDATE seckill_stock SET total_stock = 10, available_stock = 5")
	must(t, err)
	var w []order.Written
	done := make(chan error, 1)
	go func() {
		var err error
		w, err = p.WriteOrders(t.Context(), run, []seckill.Reservation{r})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %+v %v", w, err)
	case <-time.After(200 * time.Millisecond):
	}
	must(t, other.Commit())
	must(t, <-done)
	if w[0].Order == nil || w[0].Order.ID != "1" || w[0].New {
		t.Fatalf("answer: %+v", w[0])
	}
	p.balanced(t, run, 10, 5)
}

// What can never be written is told from a database that is away: only the former
// may end among the dead letters.
func claimFaults(t *testing.T, p *place) {
	run := p.sale(t, 10, time.Hour)
	never := func(what string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, order.ErrUnavailable) {
			t.Fatalf("%s: got %v", what, err)
		}
	}
	later := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, order.ErrUnavailable) {
			t.Fatalf("%s: got %v", what, err)
		}
	}
	missing := seckill.RunID{Activity: run.Activity, Run: 9}
	_, err := p.WriteOrders(t.Context(), missing, buyers(missing, 0, 1))
	never("a run that is not there", err)

	if p.isSQLite() {
		p.raw(t, `CREATE TRIGGER poison BEFORE INSERT ON seckill_order WHEN NEW.user_id = 'poison'
			BEGIN SELECT RAISE(ABORT, 'poisoned'); END`)
	} else {
		p.raw(t, `CREATE TRIGGER poison BEFORE INSERT ON seckill_order FOR EACH ROW
			IF NEW.user_id = 'poison' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'poisoned'; END IF`)
	}
	_, err = p.WriteOrders(t.Context(), run, []seckill.Reservation{reservation(run, "good", 1), reservation(run, "poison", 1)})
	never("a poisoned row", err)
	p.balanced(t, run, 10, 0)

	p.raw(t, "UPDATE seckill_activity SET price_cents = ? WHERE id = ?", int64(1)<<62, run.Activity)
	_, err = p.WriteOrders(t.Context(), run, []seckill.Reservation{reservation(run, "rich", 2)})
	never("an amount that is too large", err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.WriteOrders(ctx, run, buyers(run, 0, 1))
	later("a context that has ended", err)

	// An operator's mistake with the schema is not the reservation's fault.
	p.raw(t, "ALTER TABLE seckill_order RENAME TO seckill_order_away")
	_, err = p.WriteOrders(t.Context(), run, buyers(run, 0, 1))
	later("a missing table", err)
}
