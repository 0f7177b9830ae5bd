package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/order"
)

// An order leaves awaiting payment once; who comes later learns how it ended.
func claimMove(t *testing.T, p *place) {
	run := p.sale(t, 10, time.Hour)
	a, b := p.mustOrder(t, reservation(run, "a", 2)), p.mustOrder(t, reservation(run, "a ", 3))

	for _, stranger := range []string{"A", "a ", "b", "a  "} {
		_, _, _, err := p.MoveOrder(t.Context(), a.ID, stranger, seckill.Cancelled, "", nil)
		if !errors.Is(err, seckill.ErrNotFound) {
			t.Fatalf("buyer %q moved an order of buyer %q: %v", stranger, a.Buyer, err)
		}
	}
	for _, id := range []string{"", "0", "-1", "x", "+" + a.ID, "0" + a.ID, a.ID + " ", "99999999999999999999", "1 OR 1=1"} {
		_, _, _, err := p.MoveOrder(t.Context(), id, "a", seckill.Cancelled, "", nil)
		if !errors.Is(err, seckill.ErrNotFound) {
			t.Fatalf("id %q: %v", id, err)
		}
	}
	p.balanced(t, run, 10, 5)

	paid, todo, moved, err := p.MoveOrder(t.Context(), a.ID, "a", seckill.Paid, "ref-1", nil)
	must(t, err)
	want := a
	want.State, want.PaymentRef = seckill.Paid, "ref-1"
	equal(t, "paid order", paid, want)
	equal(t, "moved", moved, true)
	if todo.ID == 0 || todo.Ticket != a.Ticket || todo.Buyer != "a" || todo.Run != run || *todo.Order != want || todo.Frees() {
		t.Fatalf("to-do of a paid order: %+v", todo)
	}
	for _, to := range []seckill.OrderState{seckill.Paid, seckill.Cancelled, seckill.Expired} {
		o, todo, moved, err := p.MoveOrder(t.Context(), a.ID, "", to, "ref-2", nil)
		must(t, err)
		if moved || o != want || todo.ID != 0 {
			t.Fatalf("a paid order moved to %v: %v %+v %+v", to, moved, o, todo)
		}
	}
	p.balanced(t, run, 10, 5)

	cancelled, todo, moved, err := p.MoveOrder(t.Context(), b.ID, "", seckill.Cancelled, "", &operator)
	must(t, err)
	if !moved || cancelled.State != seckill.Cancelled || cancelled.Slot != 0 || !todo.Frees() || todo.Order.State != seckill.Cancelled {
		t.Fatalf("cancelled: %v %+v %+v", moved, cancelled, todo)
	}
	p.balanced(t, run, 10, 2)
	entries, err := p.Audit(t.Context(), 0, 1)
	must(t, err)
	if e := entries[0]; e.Action != "order.cancelled" || e.Object != "order/"+b.ID || e.Actor != operator {
		t.Fatalf("audit: %+v", e)
	}

	_, _, _, err = p.MoveOrder(t.Context(), b.ID, "", seckill.Paid, strings.Repeat("x", 256), nil)
	var refusal *seckill.Refusal
	if !errors.As(err, &refusal) || refusal.Fields[0].Field != "payment_ref" {
		t.Fatalf("a reference that is too long: %v", err)
	}
}

// Orders expire when the database's clock says so: not early, not when paid, and
// never can they be paid after.
func claimExpire(t *testing.T, p *place) {
	early, late := p.sale(t, 10, time.Hour), p.sale(t, 10, -time.Millisecond)
	p.mustWrite(t, early, buyers(early, 0, 3)...)
	var due []seckill.Order
	for _, w := range p.mustWrite(t, late, buyers(late, 0, 5)...) {
		due = append(due, *w.Order)
	}
	o, _, moved, err := p.MoveOrder(t.Context(), due[0].ID, "", seckill.Paid, "late", nil)
	must(t, err)
	if moved || o.State != seckill.AwaitingPayment || o.PaymentRef != "" {
		t.Fatalf("paid after its time: %v %+v", moved, o)
	}
	_, _, moved, err = p.MoveOrder(t.Context(), due[1].ID, "", seckill.Cancelled, "", nil)
	must(t, err)
	equal(t, "cancelled while it waits to be expired", moved, true)

	seen := map[string]bool{}
	for _, want := range []int{3, 1, 0} {
		todos, err := p.ExpireOrders(t.Context(), 3)
		must(t, err)
		equal(t, "orders expired", len(todos), want)
		for _, todo := range todos {
			if seen[todo.Ticket] || todo.Run != late || todo.Order.State != seckill.Expired || todo.Order.Slot != 0 || todo.ID == 0 {
				t.Fatalf("to-do: %+v", todo)
			}
			seen[todo.Ticket] = true
			o, err := p.Order(t.Context(), todo.Order.ID, todo.Buyer)
			must(t, err)
			equal(t, "order of the to-do", *todo.Order, o)
		}
	}
	p.balanced(t, early, 10, 3)
	p.balanced(t, late, 10, 0)
}

// Orders of several activities and runs expire, those first whose run has the one that is due the longest;
// what is not due keeps nobody else from it.
func claimExpireRuns(t *testing.T, p *place) {
	var runs []seckill.RunID
	for range 3 {
		run := p.sale(t, 10, time.Hour)
		p.mustWrite(t, run, buyers(run, 0, 2)...)
		end := time.Now().UTC().Add(time.Hour)
		a, err := p.NewRun(t.Context(), run.Activity, 1, end, end.Add(time.Hour), 10, operator)
		must(t, err)
		p.mustWrite(t, a.RunID(), buyers(a.RunID(), 0, 3)...)
		runs = append(runs, run, a.RunID())
	}
	// The first activity has nothing due, the second has it in its later run, the third in both.
	for i, minutes := range []int{3: 2, 4: 1, 5: 3} {
		if minutes > 0 {
			p.raw(t, "UPDATE seckill_order SET pay_before = ? WHERE activity_id = ? AND run = ?",
				at(time.Now().Add(-time.Duration(minutes)*time.Minute)), runs[i].Activity, runs[i].Run)
		}
	}
	var got []seckill.RunID
	for _, want := range []int{4, 4, 0} {
		todos, err := p.ExpireOrders(t.Context(), 4)
		must(t, err)
		equal(t, "orders expired", len(todos), want)
		for _, todo := range todos {
			got = append(got, todo.Run)
		}
	}
	want := []seckill.RunID{runs[5], runs[5], runs[5], runs[3], runs[3], runs[3], runs[4], runs[4]}
	if !slices.Equal(got, want) {
		t.Fatalf("runs of expired orders: got %v, want %v", got, want)
	}
}

// Those who race in claimRace.
const paying, cancelling, expiring, nobody = 0, 1, 2, 3

// startOf tells when a round's order is due, and lets each of the three begin. In half of the rounds they begin at once,
// when the order is about due; in the others one of them begins a little earlier, when it may win.
func startOf(round int) (until time.Time, begin func(who int)) {
	first, lag := min(round%6, nobody), []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 20 * time.Millisecond}[round/6%4]
	until = time.Now().UTC()
	switch first {
	case paying:
		until = until.Add(100 * time.Millisecond)
	case expiring:
		until = until.Add(-10 * time.Millisecond)
	case nobody:
		until = until.Add(time.Duration(round/6%4-1) * time.Millisecond)
	}
	return until, func(who int) {
		if first != who && first != nobody {
			<-time.After(lag)
		}
	}
}

// Pay, cancel and expiry meet on one order: one of them wins, the others learn the
// final state, and units go back if they should, once.
func claimRace(t *testing.T, p *place) {
	run := p.sale(t, 5, time.Hour)
	wins := map[seckill.OrderState]int{}
	for round := range p.races {
		o := p.mustOrder(t, reservation(run, "buyer", 2))
		until, begin := startOf(round)
		p.raw(t, "UPDATE seckill_order SET pay_before = ? WHERE id = ?", at(until), rowID(o.ID))
		var pay, cancel struct {
			o     seckill.Order
			moved bool
		}
		var expired []order.Todo
		together(t,
			func(ctx context.Context) (err error) {
				begin(paying)
				pay.o, _, pay.moved, err = p.MoveOrder(ctx, o.ID, "buyer", seckill.Paid, "ref", nil)
				return err
			},
			func(ctx context.Context) (err error) {
				begin(cancelling)
				cancel.o, _, cancel.moved, err = p.MoveOrder(ctx, o.ID, "buyer", seckill.Cancelled, "", nil)
				return err
			},
			func(ctx context.Context) (err error) {
				begin(expiring)
				expired, err = p.ExpireOrders(ctx, 10)
				return err
			},
		)
		final, err := p.Order(t.Context(), o.ID, "buyer")
		must(t, err)
		winners := len(expired)
		for _, m := range []bool{pay.moved, cancel.moved} {
			if m {
				winners++
			}
		}
		if winners > 1 || (winners == 0) != (final.State == seckill.AwaitingPayment) {
			t.Fatalf("round %d: %d winners, order %v", round, winners, final.State)
		}
		if pay.moved && final.State != seckill.Paid || cancel.moved && final.State != seckill.Cancelled ||
			len(expired) == 1 && final.State != seckill.Expired {
			t.Fatalf("round %d: pay %v, cancel %v, expired %d, but order %v", round, pay.moved, cancel.moved, len(expired), final.State)
		}
		wins[final.State]++
		live := int64(0)
		if final.State.Live() {
			live = 2
		}
		p.balanced(t, run, 5, live)
		// Out of the way of the next round, without the help of what is tested.
		p.raw(t, "UPDATE seckill_order SET status = 3, slot = NULL WHERE id = ?", rowID(o.ID))
		p.raw(t, "UPDATE seckill_stock SET available_stock = 5 WHERE activity_id = ?", run.Activity)
	}
	t.Logf("%d rounds ended %v", p.races, wins)
	if wins[seckill.Paid] == 0 || wins[seckill.Cancelled] == 0 || wins[seckill.Expired] == 0 {
		t.Fatalf("not each of the three ever won: %v", wins)
	}
}

// Lists come in pages of the right order, with everything in them once.
func claimLists(t *testing.T, p *place) {
	run, other := p.sale(t, 100, time.Hour), p.sale(t, 100, time.Hour)
	var mine, live []string
	for i := range 7 {
		r := reservation(run, "me", 1)
		r.Slot = i + 1
		o := p.mustOrder(t, r)
		mine = append(mine, o.ID)
		p.mustOrder(t, reservation(run, fmt.Sprint("me", i), 1))
		p.mustOrder(t, reservation(other, fmt.Sprint("me ", i), 1))
	}
	_, _, _, err := p.MoveOrder(t.Context(), mine[3], "me", seckill.Cancelled, "", nil)
	must(t, err)

	var got []string
	for before := ""; ; {
		page, err := p.Orders(t.Context(), "me", before, 3)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, o := range page {
			got = append(got, o.ID)
		}
		before = page[len(page)-1].ID
	}
	slices.Reverse(got)
	if !slices.Equal(got, mine) {
		t.Fatalf("my orders: got %v, want %v", got, mine)
	}
	for after := ""; ; {
		page, err := p.LiveOrders(t.Context(), run, after, 4)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, o := range page {
			if o.Run != run || !o.State.Live() || after != "" && o.ID <= after {
				t.Fatalf("live orders: %+v after %s", o, after)
			}
			live = append(live, o.ID)
		}
		if after == "" { // What is paid between two pages stays where it is among them.
			for _, id := range []string{page[0].ID, page[len(page)-1].ID, mine[5]} {
				_, _, moved, err := p.MoveOrder(t.Context(), id, "", seckill.Paid, "", nil)
				must(t, err)
				equal(t, "paid between two pages", moved, true)
			}
		}
		after = page[len(page)-1].ID
	}
	equal(t, "live orders", len(live), 13)
	if !slices.IsSorted(live) || len(slices.Compact(live)) != 13 {
		t.Fatalf("live orders: %v", live)
	}
	if page, err := p.LiveOrders(t.Context(), run, "1", 4); err == nil {
		t.Fatalf("behind an order that never was: %v", page)
	}

	var refusal *seckill.Refusal
	if _, err := p.Orders(t.Context(), "me", "'; DROP", 3); !errors.As(err, &refusal) || refusal.Reason != seckill.InvalidRequest {
		t.Fatalf("a cursor of somebody's own: %v", err)
	}
	found, err := p.OrdersByTicket(t.Context(), []string{page(t, p, "me").Ticket, "1-1-nothing"})
	must(t, err)
	equal(t, "orders by ticket", len(found), 1)
}

func page(t *testing.T, p *place, buyer string) seckill.Order {
	t.Helper()
	orders, err := p.Orders(t.Context(), buyer, "", 1)
	must(t, err)
	return orders[0]
}

// What the stock has to hear is kept until it has heard it, and then says how the
// order is at that time.
func claimTodos(t *testing.T, p *place) {
	run := p.sale(t, 10, time.Hour)
	var want []order.Todo
	for i, to := range []seckill.OrderState{seckill.Paid, seckill.Cancelled, seckill.Cancelled} {
		o := p.mustOrder(t, reservation(run, fmt.Sprint("b", i), 1))
		_, todo, _, err := p.MoveOrder(t.Context(), o.ID, "", to, "", nil)
		must(t, err)
		want = append(want, todo)
	}
	var got []order.Todo
	for after := int64(0); ; {
		some, err := p.Todos(t.Context(), after, 2)
		must(t, err)
		if len(some) == 0 {
			break
		}
		got = append(got, some...)
		after = some[len(some)-1].ID
	}
	equal(t, "to-dos", len(got), len(want))
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Ticket != want[i].Ticket || *got[i].Order != *want[i].Order || got[i].Failed != 0 {
			t.Fatalf("to-do %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
	must(t, p.TodosDone(t.Context(), want[0].ID, want[2].ID))
	must(t, p.TodosDone(t.Context(), want[0].ID))
	must(t, p.TodosDone(t.Context()))
	got, err := p.Todos(t.Context(), 0, 10)
	must(t, err)
	if len(got) != 1 || got[0].ID != want[1].ID {
		t.Fatalf("left to do: %+v", got)
	}
}
