package order

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/stock"
)

func todo(id int64, state seckill.OrderState) Todo {
	ticket := fmt.Sprint("t", id)
	return Todo{ID: id, Settlement: stock.Settlement{
		Run: run1, Ticket: ticket, Buyer: "b", Order: &seckill.Order{Ticket: ticket, Buyer: "b", Run: run1, State: state},
	}}
}

// The expirer looks once a second, and at once again while there is more. What the
// stock cannot be told stays to be done.
func TestExpirer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, st := newMemStore(), NewMemStock()
		e := Expirer{Store: store, Stock: st, BatchMax: 10}
		for i := range int64(25) {
			store.due = append(store.due, todo(i+1, seckill.Expired))
		}
		stop := running(t, e.Run)
		equal(t, "settled at once", st.Count(), 25)
		equal(t, "left to do", store.see().todos, 0)
		equal(t, "looks", store.see().calls, 3)
		pass(10 * time.Second)
		equal(t, "looks in ten seconds more", store.see().calls, 13)

		store.mu.Lock()
		st.Fail = func() error { return errors.New("down") }
		store.due = append(store.due, todo(99, seckill.Expired))
		store.mu.Unlock()
		pass(time.Second)
		equal(t, "left to do", store.see().todos, 1)
		equal(t, "settled", st.Count(), 25)
		stop()
	})
}

// The settler tells everything at its start, page by page, and repeats what the stock
// did not take until it does.
func TestSettler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, st := newMemStore(), NewMemStock()
		s := Settler{Store: store, Stock: st, BatchMax: 10}
		for i := range int64(25) {
			store.todos = append(store.todos, todo(i+1, seckill.Paid))
		}
		rs := reserved(run1, "retried")
		store.retrying = []seckill.DeadLetter{{ID: 7, Run: run1, Ticket: rs[0].Ticket, Reservation: &rs[0]}}
		var down atomic.Bool
		down.Store(true)
		st.Fail = func() error {
			if down.Load() {
				return errors.New("down")
			}
			return nil
		}
		stop := running(t, s.Run)
		pass(time.Hour)
		equal(t, "left to do", store.see().todos, 25)
		down.Store(false)
		pass(13 * time.Second)
		equal(t, "left to do", store.see().todos, 0)
		equal(t, "settled", st.Count(), 26)
		equal(t, "left to retry", len(store.retrying), 0)
		equal(t, "the retried one", st.Settled[rs[0].Ticket].Order.Ticket, rs[0].Ticket)
		stop()

		store.todos = append(store.todos, todo(50, seckill.Cancelled))
		stop = running(t, s.Run)
		equal(t, "left to do just after the start", store.see().todos, 0)
		stop()
	})
}

// Waits grow up to their bound, and are never nothing.
func TestBackoff(t *testing.T) {
	b := backoff{least: 100 * time.Millisecond, most: time.Second}
	for range 50 {
		var longest time.Duration
		for range 10 {
			d := b.after()
			if d < 25*time.Millisecond || d > 1025*time.Millisecond {
				t.Fatalf("wait of %v", d)
			}
			longest = max(longest, d)
		}
		b.reset()
		if d := b.after(); d > 125*time.Millisecond {
			t.Fatalf("first wait of %v", d)
		}
		b.reset()
	}
}
