package order

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
)

// With a return window each unit comes back at a moment of its own within it: none at once, all by its end, spread
// over the whole of it, and no two runs of the program alike. A payment is told at once all the while.
func TestUnitsComeBackAtRandomMoments(t *testing.T) {
	const units, window = 400, 100 * time.Second
	moments := func() (at [units + 1]time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			store, st := newMemStore(), NewMemStock()
			for i := range int64(units) {
				state := seckill.Expired
				if i%2 == 0 {
					state = seckill.Cancelled
				}
				store.todos = append(store.todos, todo(i+1, state))
			}
			store.todos = append(store.todos, todo(units+1, seckill.Paid))
			s := Settler{Store: store, Stock: st, BatchMax: 150, ReturnWindow: window}
			begin := time.Now()
			stop := running(t, s.Run)
			equal(t, "told at once", st.Count(), 1)
			equal(t, "of which the payment", st.Moved(fmt.Sprint("t", units+1)), true)
			for range int(window/time.Second) + 1 {
				for i := range units {
					if at[i] == 0 && st.Moved(fmt.Sprint("t", i+1)) {
						at[i] = time.Since(begin)
					}
				}
				pass(time.Second)
			}
			equal(t, "told within the window", st.Count(), units+1)
			equal(t, "left to do", store.see().todos, 0)
			stop()
		})
		return at
	}
	first, second := moments(), moments()
	var tenths [11]int
	same := 0
	for i := range units {
		tenths[min(first[i]/(window/10), 10)]++
		if first[i] == second[i] {
			same++
		}
	}
	for i, n := range tenths[:10] {
		if n < units/40 || n > units/4 { // 40 are expected.
			t.Errorf("%d of %d came back in tenth %d of the window", n, units, i)
		}
	}
	if same > units/10 {
		t.Errorf("%d of %d came back at the same moment in two runs", same, units)
	}
}

// Moved tells whether the stock has heard of a ticket.
func (m *MemStock) Moved(ticket string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Moves[ticket] > 0
}

// A look that fails gives nobody a new moment: units come back within the window all the same.
func TestAFailedLookChangesNoMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, st := newMemStore(), NewMemStock()
		for i := range int64(50) {
			store.todos = append(store.todos, todo(i+1, seckill.Expired))
		}
		var looks atomic.Int64
		st.Fail = func() error {
			if looks.Add(1)%2 == 0 {
				return errors.New("down")
			}
			return nil
		}
		s := Settler{Store: store, Stock: st, ReturnWindow: 20 * time.Second}
		stop := running(t, s.Run)
		pass(45 * time.Second)
		equal(t, "left to do", store.see().todos, 0)
		stop()
	})
}

// Where units are held, neither the expirer nor a buyer who cancels brings them back himself.
func TestHeldUnitsWaitForTheSettler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, st := newMemStore(), NewMemStock()
		store.due = append(store.due, todo(1, seckill.Expired))
		e := Expirer{Store: store, Stock: st, Hold: true}
		stop := running(t, e.Run)
		equal(t, "told by the expirer", st.Count(), 0)
		equal(t, "left to do", store.see().todos, 1)
		stop()

		for state, want := range map[seckill.OrderState]int{seckill.Cancelled: 0, seckill.Paid: 1} {
			st := NewMemStock()
			d := Desk{Store: moves{newMemStore(), state}, Stock: st, Hold: true}
			_, err := d.move(t.Context(), "7", "b", state, "", nil)
			must(t, err)
			equal(t, "told by the desk of a "+state.String()+" order", st.Count(), want)
		}
	})
}

// moves is a database in which every order moves.
type moves struct {
	*memStore
	to seckill.OrderState
}

func (m moves) MoveOrder(context.Context, string, string, seckill.OrderState, string, *seckill.Actor) (seckill.Order, Todo, bool, error) {
	t := todo(7, m.to)
	return *t.Order, t, true, nil
}

// unpaid is a database that knows who has let how many orders expire.
type unpaid struct {
	*memStore
	orders map[string][]seckill.Order
	err    error
}

func (u unpaid) Orders(_ context.Context, buyer, _ string, max int) ([]seckill.Order, error) {
	list := u.orders[buyer]
	return list[:min(len(list), max)], u.err
}

// Who has let too many orders of one run expire is handed over, once for a look; orders of other runs, and those that were
// paid or cancelled, do not count. Not knowing it holds nothing up.
func TestWhoNeverPaysIsHandedOver(t *testing.T) {
	order := func(run int, state seckill.OrderState) seckill.Order {
		return seckill.Order{Run: seckill.RunID{Activity: 1, Run: run}, State: state}
	}
	synctest.Test(t, func(t *testing.T) {
		store := unpaid{memStore: newMemStore(), orders: map[string][]seckill.Order{
			"often":   {order(1, seckill.Expired), order(1, seckill.Paid), order(1, seckill.Expired), order(1, seckill.Expired)},
			"fair":    {order(1, seckill.Expired), order(1, seckill.Expired), order(1, seckill.Paid), order(1, seckill.Cancelled)},
			"another": {order(1, seckill.Expired), order(1, seckill.Expired), order(2, seckill.Expired)},
		}}
		owed := func(id int64, buyer string) Todo {
			d := todo(id, seckill.Expired)
			d.Buyer = buyer
			return d
		}
		store.due = []Todo{owed(1, "often"), owed(2, "often"), owed(3, "fair"), owed(4, "another")}
		var heard []string
		st := NewMemStock()
		e := Expirer{Store: store, Stock: st, UnpaidMax: 3, Unpaid: func(buyer string, run seckill.RunID, times int) {
			heard = append(heard, fmt.Sprint(buyer, run, times))
		}}
		stop := running(t, e.Run)
		equal(t, "handed over", fmt.Sprint(heard), fmt.Sprint([]string{fmt.Sprint("often", run1, 3)}))
		equal(t, "told", st.Count(), 4)
		stop()

		store.err, store.due = errors.New("down"), []Todo{owed(5, "often")}
		e.Store = store
		stop = running(t, e.Run)
		equal(t, "handed over without the database", len(heard), 1)
		equal(t, "told without it", st.Count(), 5)
		stop()
	})
}
