package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"seckill"
)

// The statements of this file are written for one index each, idx_state: (status, activity_id, run,
// pay_before, id, quantity). None of them reads more orders than it returns.

// nextUnpaid finds the next run behind one that has an order awaiting payment, and whether the oldest of
// those is due: one step in the index, however many orders there are.
const nextUnpaid = `SELECT activity_id, run, pay_before, pay_before <= {now} FROM (
		SELECT activity_id, run, pay_before FROM seckill_order WHERE status = 1 AND activity_id = ? AND run > ?
		ORDER BY run, pay_before LIMIT 1) same
	UNION ALL SELECT activity_id, run, pay_before, pay_before <= {now} FROM (
		SELECT activity_id, run, pay_before FROM seckill_order WHERE status = 1 AND activity_id > ?
		ORDER BY activity_id, run, pay_before LIMIT 1) later
	ORDER BY activity_id, run LIMIT 1`

// runsDue returns the runs that have an order which is due, that which is due the longest first. It costs a
// question for each run that has unpaid orders, and none for those that are long over.
func runsDue(ctx context.Context, t tx) ([]seckill.RunID, error) {
	type first struct {
		run       seckill.RunID
		payBefore time.Time
	}
	var due []first
	for run := (seckill.RunID{}); ; {
		var payBefore stamp
		var isDue bool
		err := t.row(ctx, nextUnpaid, []any{run.Activity, run.Run, run.Activity}, &run.Activity, &run.Run, &payBefore, &isDue)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return nil, err
		}
		if isDue {
			due = append(due, first{run, payBefore.Time})
		}
	}
	slices.SortStableFunc(due, func(a, b first) int { return a.payBefore.Compare(b.payBefore) })
	runs := make([]seckill.RunID, len(due))
	for i := range due {
		runs[i] = due[i].run
	}
	return runs, nil
}

// dueOfRun selects the orders of a run that are due, those that are due the longest first.
const dueOfRun = "WHERE status = 1 AND activity_id = ? AND run = ? AND pay_before <= {now} ORDER BY pay_before, id LIMIT ?"

// dueOrders reads and holds orders that are due, of the runs given.
func dueOrders(ctx context.Context, t tx, runs []seckill.RunID, limit int) (due []seckill.Order, err error) {
	for _, run := range runs {
		if len(due) == limit {
			break
		}
		// Whom another expirer or a buyer is just moving is left to them.
		some, err := readOrders(ctx, t, dueOfRun+t.db.dialect.skipLocked, run.Activity, run.Run, limit-len(due))
		if err != nil {
			return nil, err
		}
		due = append(due, some...)
	}
	return due, nil
}

// liveOrders selects a page of a run's live orders. Each state has its own place in the index, and "behind the
// cursor" is written as two ranges, since not every database makes two of a condition with OR.
const (
	liveFields = "SELECT * FROM (" + orderColumns
	liveSame   = " AND activity_id = ? AND run = ? AND pay_before = ? AND id > ? ORDER BY id LIMIT ?)"
	liveLater  = " AND activity_id = ? AND run = ? AND pay_before > ? ORDER BY pay_before, id LIMIT ?)"

	liveOrders = liveFields + "WHERE status = 1" + liveSame + " a UNION ALL " +
		liveFields + "WHERE status = 1" + liveLater + " b UNION ALL " +
		liveFields + "WHERE status = 2" + liveSame + " c UNION ALL " +
		liveFields + "WHERE status = 2" + liveLater + " d ORDER BY pay_before, id LIMIT ?"
)

// earliest is before any pay_before.
var earliest = time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC)

// LiveOrders implements [activity.Store]. As the payment window of a run does not change, they come in
// the order in which they were made.
func (db *DB) LiveOrders(ctx context.Context, run seckill.RunID, after string, limit int) ([]seckill.Order, error) {
	above, err := cursor(after, 0)
	if err != nil {
		return nil, err
	}
	t := db.reader()
	from := at(earliest)
	if above > 0 {
		err := t.row(ctx, "SELECT pay_before FROM seckill_order WHERE id = ?", []any{above}, &from)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, seckill.Invalid("cursor", seckill.RuleFormat, "a cursor of an earlier page")
		}
		if err != nil {
			return nil, db.fail("read where a page begins", err)
		}
	}
	var args []any
	for range 2 {
		args = append(args, run.Activity, run.Run, from, above, limit, run.Activity, run.Run, from, limit)
	}
	var orders []seckill.Order
	err = t.rows(ctx, func(scan func(...any) error) error {
		var o seckill.Order
		err := scanOrder(scan, &o)
		orders = append(orders, o)
		return err
	}, liveOrders, append(args, limit)...)
	return orders, db.fail("list live orders", err)
}
