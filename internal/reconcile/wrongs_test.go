package reconcile

import (
	"time"

	"seckill"
)

const old = -2 * time.Minute

// wrongs is each thing that can be wrong, and what is said of it: looking, repairing, and
// looking again.
var wrongs = map[string]struct {
	change             func(w *world)
	found, then, after string
}{
	"nothing": {func(*world) {}, "", "", ""},
	"a unit that the stock lost": {func(w *world) { w.level.Available -= 2 },
		"lost_unit 2", "lost_unit 2!", ""},
	"a stock that offers too much": {func(w *world) { w.level.Available += 5 },
		"stock_drift 5", "stock_drift 5!", ""},
	"a stock that offers too much, and has sold it": {func(w *world) { w.level.Available, w.facts.Available, w.facts.Paid = 3, 5, 75; w.level.Paid = 75 },
		"stock_drift 8", "stock_drift 8", "stock_drift 5"},
	"a cancellation that the stock lost": {func(w *world) {
		w.facts.AwaitingPayment--
		w.facts.Available++
	}, "stock_drift 1, missing_order 1", "stock_drift 1!, missing_order 1", "missing_order 1"},
	"an order that the stock lost": {func(w *world) {
		w.level.AwaitingPayment--
		w.level.Available++
	}, "stock_drift 1, unknown_order 1", "stock_drift 1!, unknown_order 1", "unknown_order 1"},
	"a row that miscounts": {func(w *world) { w.facts.Available = 64 },
		"row_drift -6", "row_drift -6!", ""},
	"more orders than units": {func(w *world) {
		w.facts.Total, w.facts.Available = 25, 0
		w.level.Available, w.level.Queued, w.queued = 0, 0, nil
	},
		"oversold 5, stock_drift 5", "oversold 5, stock_drift 5", "oversold 5, stock_drift 5"},
	"an order that the stock was not told of": {func(w *world) {
		w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
		w.orders["q0"] = seckill.Order{ID: "7", Ticket: "q0", Quantity: 1, State: seckill.AwaitingPayment}
		w.facts.AwaitingPayment++
		w.facts.Available--
	}, "unsettled 1", "unsettled 1!", ""},
	"a cancelled order that the stock was not told of": {func(w *world) {
		w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
		w.orders["q0"] = seckill.Order{ID: "7", Ticket: "q0", Quantity: 1, State: seckill.Cancelled}
	}, "unsettled 1", "unsettled 1!", ""},
	"a reservation in no queue": {func(w *world) {
		w.waiting = 0
		w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
	}, "orphan_reservation 1", "orphan_reservation 1!", "orphan_reservation 1"},
	"a reservation that is older than all in the queues": {func(w *world) {
		w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
	}, "orphan_reservation 1", "orphan_reservation 1!", "orphan_reservation 1"},
	"a reservation that waits in a long queue": {func(w *world) {
		w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
		w.oldest = w.queued[0].ReservedAt
	}, "", "", ""},
	"a reservation that is young": {func(w *world) { w.waiting = 0 }, "", "", ""},
	"a dead letter": {func(w *world) {
		w.waiting = 0
		w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
		w.dead["q0"] = true
		w.facts.Dead = 1
	}, "dead_letters 1", "dead_letters 1", "dead_letters 1"},
	"a dead letter that the stock lost": {func(w *world) {
		w.facts.Dead = 4
		w.level.Available -= 4
	}, "dead_letters 4", "dead_letters 4", "dead_letters 4"},
	"a to-do that stays": {func(w *world) { w.facts.Todos = []int64{3}; w.level.Available-- },
		"unfinished_todo 0", "unfinished_todo 0", "unfinished_todo 0"},
	"a restock that stays": {func(w *world) { w.facts.Restocks = []int64{3}; w.facts.Total += 10; w.facts.Available += 10 },
		"unfinished_restock 0", "unfinished_restock 0", "unfinished_restock 0"},
	"a run that is gone from the stock": {func(w *world) { w.unloaded = true },
		"not_loaded 70", "not_loaded 70", "not_loaded 70"},
	"a run that is over and forgotten": {func(w *world) { w.unloaded = true; w.activity.Phase = seckill.PhaseClosed },
		"", "", ""},
}
