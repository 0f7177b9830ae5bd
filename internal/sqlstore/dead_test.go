package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"seckill"
	"seckill/internal/activity"
	"seckill/internal/order"
)

func letter(r seckill.Reservation, reason string) seckill.DeadLetter {
	return seckill.DeadLetter{Run: r.Run, Ticket: r.Ticket, Reservation: &r, Payload: []byte("as it came"), Reason: reason, Attempts: 5}
}

// A dead letter waits for an operator, who retries it or drops it, once. Until then no
// order is made of its ticket.
func claimDeadLetters(t *testing.T, p *place) {
	run := p.sale(t, 10, time.Hour)
	r := reservation(run, "poor ", 3)
	must(t, p.Bury(t.Context(), letter(r, "first"), seckill.DeadLetter{Payload: []byte{0xff, 0}, Reason: "unreadable", Attempts: 1}))
	must(t, p.Bury(t.Context(), letter(r, "second")))
	letters, err := p.DeadLetters(t.Context(), 0, 10)
	must(t, err)
	equal(t, "dead letters", len(letters), 2)
	var l seckill.DeadLetter
	for _, some := range letters {
		if some.Ticket == "" {
			if some.Reservation != nil || string(some.Payload) != "\xff\x00" || some.Run != (seckill.RunID{}) {
				t.Fatalf("unreadable letter: %+v", some)
			}
			continue
		}
		l = some
	}
	if *l.Reservation != r || l.Reason != "first" || l.Attempts != 5 || string(l.Payload) != "as it came" || l.At.IsZero() {
		t.Fatalf("letter: %+v of %+v", l, l.Reservation)
	}
	w := p.mustWrite(t, run, r, reservation(run, "rich", 1))
	if !w[0].Dead || w[0].Order != nil || !w[1].New {
		t.Fatalf("a dead ticket and a live one: %+v", w)
	}
	units, err := p.Units(t.Context(), run)
	must(t, err)
	equal(t, "units", units, activity.Units{Total: 10, Available: 9, AwaitingPayment: 1, Dead: 3})
	n, err := p.DeadCount(t.Context())
	must(t, err)
	equal(t, "count", n, 2)

	// The first try fails again, the second succeeds.
	for _, reason := range []string{"third", ""} {
		_, err = p.RetryDead(t.Context(), l.ID, operator)
		must(t, err)
		retrying, err := p.Retrying(t.Context(), 10)
		must(t, err)
		if len(retrying) != 1 || retrying[0].Ticket != r.Ticket {
			t.Fatalf("retrying: %+v", retrying)
		}
		if reason == "" {
			p.mustOrder(t, r)
		}
		must(t, p.RetriedDead(t.Context(), l.ID, reason == "", reason))
		if letters, err = p.DeadLetters(t.Context(), 0, 1); reason != "" && (err != nil || letters[0].Reason == "first") {
			t.Fatalf("after the first try: %+v %v", letters, err)
		}
	}
	p.balanced(t, run, 10, 4)
	conflict(t, "retry of a settled letter", func() error { _, err := p.RetryDead(t.Context(), l.ID, operator); return err })
	conflict(t, "drop of a settled letter", func() error { _, err := p.DropDead(t.Context(), l.ID, true, operator); return err })
	_, err = p.RetryDead(t.Context(), 999, operator)
	if !errors.Is(err, seckill.ErrNotFound) {
		t.Fatalf("retry of nothing: %v", err)
	}
	t.Run("Drop", func(t *testing.T) { dropped(t, p, run) })
}

// A letter that is dropped gives its units back, or takes them out of the total.
func dropped(t *testing.T, p *place, run seckill.RunID) {
	back, gone := reservation(run, "back", 2), reservation(run, "gone", 1)
	must(t, p.Bury(t.Context(), letter(back, "x"), letter(gone, "x")))
	letters, err := p.DeadLetters(t.Context(), 0, 2)
	must(t, err)
	for _, l := range letters {
		r := *l.Reservation
		todo, err := p.DropDead(t.Context(), l.ID, r == back, operator)
		must(t, err)
		if todo.ID == 0 || todo.Run != run || todo.Ticket != r.Ticket || todo.Buyer != r.Buyer || todo.Order != nil ||
			todo.Failed != seckill.Internal || todo.WrittenOff != (r == gone) {
			t.Fatalf("to-do: %+v", todo)
		}
		stored, err := p.Todos(t.Context(), todo.ID-1, 1)
		must(t, err)
		equal(t, "stored to-do", stored[0], todo)
		if w := p.mustWrite(t, run, r)[0]; !w.Dead {
			t.Fatalf("a dropped ticket: %+v", w)
		}
		conflict(t, "drop twice", func() error { _, err := p.DropDead(t.Context(), l.ID, true, operator); return err })
	}
	p.balanced(t, run, 9, 4)
	dead, err := p.DeadTickets(t.Context(), []string{back.Ticket, "1-1-other"})
	must(t, err)
	if !dead[back.Ticket] || len(dead) != 1 {
		t.Fatalf("dead tickets: %v", dead)
	}

	// One that has become an order cannot be dropped; burying it has the stock told again.
	o := p.mustOrder(t, reservation(run, "other", 1))
	must(t, p.Bury(t.Context(), letter(seckill.Reservation{Ticket: o.Ticket, Run: run, Buyer: o.Buyer, Quantity: 1, Slot: 1}, "late")))
	if dead, err := p.DeadTickets(t.Context(), []string{o.Ticket}); err != nil || dead[o.Ticket] {
		t.Fatalf("an order was buried: %v %v", dead, err)
	}
	todos, err := p.Todos(t.Context(), 0, 100)
	must(t, err)
	if last := todos[len(todos)-1]; last.Ticket != o.Ticket || last.Order == nil || *last.Order != o {
		t.Fatalf("last to-do: %+v", last)
	}
}

func conflict(t *testing.T, what string, f func() error) {
	t.Helper()
	var refusal *seckill.Refusal
	if err := f(); !errors.As(err, &refusal) || refusal.Reason != seckill.Conflict {
		t.Fatalf("%s: got %v, want a conflict", what, err)
	}
}

// One writer buries a ticket while another gets it through, or an operator drops it while
// a retry writes it: it is dead or an order, never both.
func claimBuryOrWrite(t *testing.T, p *place) {
	run := p.sale(t, 100000, time.Hour)
	orders, dead := 0, 0
	for round := range p.races / 2 {
		r := reservation(run, fmt.Sprint("b", round), 1)
		var answer []order.Written
		write := func(ctx context.Context) (err error) {
			answer, err = p.WriteOrders(ctx, run, []seckill.Reservation{r})
			return err
		}
		other := func(ctx context.Context) error { return p.Bury(ctx, letter(r, "x")) }
		if round%2 == 1 {
			must(t, p.Bury(t.Context(), letter(r, "x")))
			letters, err := p.DeadLetters(t.Context(), 0, 1)
			must(t, err)
			_, err = p.RetryDead(t.Context(), letters[0].ID, operator)
			must(t, err)
			other = func(ctx context.Context) error {
				if err := p.RetriedDead(ctx, letters[0].ID, false, "again"); err != nil {
					return err
				}
				_, err := p.DropDead(ctx, letters[0].ID, true, operator)
				if errors.As(err, new(*seckill.Refusal)) {
					return nil // The order was first.
				}
				return err
			}
		}
		together(t, write, other)
		var isOrder, isDead int
		must(t, p.write.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM seckill_order WHERE ticket = ?", r.Ticket).Scan(&isOrder))
		must(t, p.write.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM seckill_dead_letter WHERE ticket = ? AND state IN (1, 4)", r.Ticket).Scan(&isDead))
		if round%2 == 1 && isOrder == 1 && isDead == 1 {
			// The letter waits still, as it could not be dropped; a retry will settle it.
			var state int
			must(t, p.write.QueryRowContext(t.Context(), "SELECT state FROM seckill_dead_letter WHERE ticket = ?", r.Ticket).Scan(&state))
			equal(t, "state of a letter with an order", state, stateWaiting)
			isDead = 0
		}
		if isOrder+isDead != 1 || (answer[0].Order != nil) != (isOrder == 1) || answer[0].Dead != (isDead == 1) {
			t.Fatalf("round %d: %d orders, %d letters, answer %+v", round, isOrder, isDead, answer[0])
		}
		orders, dead = orders+isOrder, dead+isDead
	}
	t.Logf("%d became orders, %d dead", orders, dead)
}
