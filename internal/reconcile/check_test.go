package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"seckill"
)

// livelist gives the database orders by ticket, one unit each.
func livelist(w *world, tickets int) {
	for i := range tickets {
		o := seckill.Order{ID: fmt.Sprintf("%06d", i), Ticket: fmt.Sprint("t", i), Run: run, Buyer: fmt.Sprint("b", i), Quantity: 1, State: seckill.AwaitingPayment}
		w.live = append(w.live, o)
		w.orders[o.Ticket] = o
	}
	w.facts = Facts{Total: int64(tickets) + 10, Available: 10, AwaitingPayment: int64(tickets)}
	w.level.Available, w.level.Queued, w.level.AwaitingPayment, w.level.Paid = 10, 0, int64(tickets), 0
	w.queued = nil
}

// Whatever an older stock or an older database differs in is seen, by the sums or by each
// order; what is only on its way is not.
func TestCheckSeesWhatIsOlder(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		wrong  string // In it; "" for nothing.
		unsure bool
	}{
		"nothing": {func(*world) {}, "", false},
		"orders that the stock lost": {func(w *world) {
			w.level.AwaitingPayment -= 3
			w.level.Available += 3
		}, "orders for 3 units that the stock does not have", false},
		"orders that the database lost": {func(w *world) {
			w.facts.AwaitingPayment -= 2
			w.facts.Available += 2
		}, "orders for 2 units that the database does not have", false},
		"a payment that the stock lost": {func(w *world) {
			w.facts.AwaitingPayment--
			w.facts.Paid++
		}, "-1 paid units more", false},
		"units that went":                   {func(w *world) { w.level.Available -= 4 }, "-4 units more to sell", false},
		"units that came":                   {func(w *world) { w.level.Available += 4 }, "4 units more to sell", false},
		"a queue that is promised too much": {func(w *world) { w.facts.Total, w.facts.Available = 35, 5 }, "65 units more to sell", false},
		"a long queue":                      {func(w *world) { longQueue(w, 30*TicketsMax) }, "", false},
		"more sold than is":                 {func(w *world) { w.facts.Total, w.facts.Available, w.level.Available = 20, 0, 0 }, "", false},
		"one order for another": {func(w *world) {
			livelist(w, 2500)
			w.unknown = map[string]bool{"t2400": true}
		}, "does not know order 002400", false},
		"an order that ended meanwhile": {func(w *world) {
			livelist(w, 3)
			w.unknown = map[string]bool{"t1": true}
			w.orders["t1"] = seckill.Order{ID: "000001", State: seckill.Cancelled}
		}, "", false},
		"a queued order that was paid": {func(w *world) {
			w.orders["q1"] = seckill.Order{ID: "7", Ticket: "q1", Quantity: 1, State: seckill.Paid}
			w.facts.Paid++
			w.facts.Available--
		}, "", false},
		"a to-do": {func(w *world) {
			w.facts.Todos = []int64{1}
			w.level.Available--
		}, "", true},
		"a sale that moves": {func(w *world) {
			w.onRead = func(w *world) { w.level.Available--; w.level.Queued++ }
		}, "", true},
		"an order that the stock lost in a sale that moves": {func(w *world) {
			livelist(w, 10)
			w.unknown = map[string]bool{"t7": true}
			w.onRead = func(w *world) { w.level.Available--; w.level.Queued++ }
		}, "does not know order 000007", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := balanced()
			c.change(w)
			wrong, sure, err := w.reconciler(t).Check(ctx, run, nil)
			must(t, err)
			if !strings.Contains(wrong, c.wrong) || (wrong == "") != (c.wrong == "") || sure == c.unsure {
				t.Errorf("%s: got %q, sure %v; want %q", name, wrong, sure, c.wrong)
			}
			if len(w.notes)+len(w.restocks)+len(w.rewritten) > 0 {
				t.Errorf("%s: something was repaired", name)
			}
		})
	}
}

func longQueue(w *world, n int) {
	w.queued = nil
	for i := range n {
		w.queued = append(w.queued, seckill.Reservation{Ticket: fmt.Sprint("q", i), Run: run, Quantity: 1})
	}
	w.facts.Total += int64(n) - 10
	w.facts.Available += int64(n) - 10
	w.level.Queued = int64(n)
}

// Of a stock that is far away only the tickets in doubt are asked for.
func TestCheckAsksForDoubtedTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := balanced()
		livelist(w, 10)
		w.unknown = map[string]bool{"t3": true, "t9": true, "gone": true}
		r := w.reconciler(t)
		r.o.LiveOrders = nil
		for _, c := range []struct {
			doubted []string
			wrong   string
		}{
			{nil, ""}, {[]string{"t1", "gone"}, ""}, {[]string{"gone", "t9"}, "the stock does not know order 000009"},
		} {
			if wrong, sure, err := r.Check(ctx, run, c.doubted); err != nil || wrong != c.wrong || !sure {
				t.Errorf("%q: got %q, %v, %v", c.doubted, wrong, sure, err)
			}
		}
		w.away = true
		if _, _, err := r.Check(ctx, run, []string{"t9"}); !errors.Is(err, errAway) {
			t.Errorf("away: %v", err)
		}
	})
}

// What units for sale cannot mend is repaired by a rebuild, in the operator's name. It is
// called repaired when the books balance and nothing is found any more, and not before.
func TestRebuildsWhatNothingElseRepairs(t *testing.T) {
	right := func(w *world) error {
		w.level.AwaitingPayment, w.level.Paid = w.facts.AwaitingPayment, w.facts.Paid
		w.level.Available, w.level.Queued, w.queued = w.facts.Available, 0, nil
		return nil
	}
	for name, c := range map[string]struct {
		change  func(w *world)
		rebuild func(w *world) error
		then    string
		count   int
	}{
		"an order that the stock lost": {func(w *world) { w.level.AwaitingPayment--; w.level.Available++ }, right,
			"stock_drift 1!, unknown_order 1!", 1},
		"a cancellation that the stock lost": {func(w *world) { w.facts.AwaitingPayment--; w.facts.Available++ }, right,
			"stock_drift 1!, missing_order 1!", 1},
		"a payment that the stock lost": {func(w *world) { w.facts.AwaitingPayment--; w.facts.Paid++ }, right, "stale_order 1!", 1},
		"units too many": {func(w *world) {
			w.level.Available = 63
		}, right, "stock_drift 3!", 0},
		"a rebuild that changes nothing": {func(w *world) { w.level.AwaitingPayment--; w.level.Available++ },
			func(*world) error { return nil }, "stock_drift 1, unknown_order 1", 1},
		"more than it can give up": {func(w *world) { w.level.Available, w.facts.Available, w.facts.Paid = 3, 5, 75; w.level.Paid = 75 }, right,
			"stock_drift 8!", 1},
		"units alone": {func(w *world) { w.level.Available -= 2 }, right, "lost_unit 2!", 0},
		"nothing":     {func(*world) {}, right, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := balanced()
			w.rebuild = c.rebuild
			c.change(w)
			r := w.reconciler(t)
			_, findings, err := r.Reconcile(ctx, 1, false, by)
			must(t, err)
			if strings.Contains(told(findings), "!") || len(w.rebuilds) > 0 {
				t.Errorf("%s: looking repaired %s", name, told(findings))
			}
			report, err := r.Report(ctx, 1, true, by)
			must(t, err)
			if told(report.Findings) != c.then || len(w.rebuilds) != c.count {
				t.Errorf("%s: got %q after %d rebuilds, want %q after %d", name, told(report.Findings), len(w.rebuilds), c.then, c.count)
			}
			if c.count == 1 && (w.rebuilds[0] != by || len(w.restocks) > 0 && name != "more than it can give up") {
				t.Errorf("%s: by %v, restocks %v", name, w.rebuilds[0], w.restocks)
			}
		})
	}
}

// A rebuild that fails is an error, and one of a run that is over is not tried.
func TestARebuildThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := balanced()
		w.level.AwaitingPayment--
		w.level.Available++
		w.rebuild = func(*world) error { return errAway }
		r := w.reconciler(t)
		if _, err := r.Report(ctx, 1, true, by); !errors.Is(err, errAway) {
			t.Errorf("got %v", err)
		}
		w.activity.Phase = seckill.PhaseClosed
		report, err := r.Report(ctx, 1, true, by)
		must(t, err)
		if got := told(report.Findings); got != "stock_drift 1!, unknown_order 1" || len(w.rebuilds) != 1 {
			t.Errorf("a closed run: %s, %d rebuilds", got, len(w.rebuilds))
		}
	})
}

// Each repair is in the audit log before it is made, and is not made if that cannot be.
func TestRepairsAreAudited(t *testing.T) {
	for name, want := range map[string]string{
		"a unit that the stock lost":                         `test reconcile.restock activity/1 {"available":58,"quantity":2,"run":2}`,
		"an order that the stock was not told of":            `test reconcile.settle activity/1 {"reservations":1,"run":2,"units":1}`,
		"a reservation that is older than all in the queues": `test reconcile.rewrite activity/1 {"reservations":1,"run":2,"units":1}`,
		"a row that miscounts":                               "test row",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := balanced()
			wrongs[name].change(w)
			_, _, err := w.reconciler(t).Reconcile(ctx, 1, true, by)
			must(t, err)
			if len(w.notes) != 1 || w.notes[0] != want {
				t.Errorf("%s: noted %q, want %q", name, w.notes, want)
			}
			if want == "test row" {
				return // The same transaction.
			}
			w = balanced()
			w.noNotes = true
			wrongs[name].change(w)
			before := w.level
			if _, _, err := w.reconciler(t).Reconcile(ctx, 1, true, by); !errors.Is(err, errAway) || w.level != before || len(w.rewritten) > 0 {
				t.Errorf("%s, without an audit log: %v, %+v", name, err, w.level)
			}
		})
	}
}
