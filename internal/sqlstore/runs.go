package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"seckill"
	"seckill/internal/activity"
)

// BeginRestock implements [activity.Store].
func (db *DB) BeginRestock(ctx context.Context, id int64, units int64, by seckill.Actor) (r activity.Restock, err error) {
	if units == 0 || units > seckill.QuantityMax*1000 || units < -seckill.QuantityMax*1000 {
		return r, seckill.Invalid("quantity", seckill.RuleMax, fmt.Sprint(seckill.QuantityMax*1000))
	}
	err = db.inTx(ctx, func(t tx) error {
		a, err := lockActivity(ctx, t, id)
		if err != nil {
			return err
		}
		r = activity.Restock{Run: a.RunID(), Units: units}
		available, err := lockRun(ctx, t, r.Run)
		if err != nil {
			return err
		}
		var dropped bool
		err = t.row(ctx, "SELECT dropped FROM seckill_stock WHERE activity_id = ? AND run = ?", []any{r.Run.Activity, r.Run.Run}, &dropped)
		if err != nil {
			return err
		}
		if r.Done = a.Phase == seckill.PhaseScheduled || dropped; r.Done {
			r.Did = max(units, -available)
			if err := addUnits(ctx, t, r.Run, r.Did); err != nil {
				return err
			}
		} else {
			r.ID, err = t.insert(ctx, "INSERT INTO seckill_restock (activity_id, run, units, create_time) VALUES (?,?,?,{now})",
				r.Run.Activity, r.Run.Run, units)
			if err != nil {
				return err
			}
			// The database has to know of more units before the stock sells them, and of
			// fewer only when the stock no longer can.
			if err := addUnits(ctx, t, r.Run, max(units, 0)); err != nil {
				return err
			}
		}
		return t.control(ctx, by, "activity.restock", id, detail("run", r.Run.Run, "quantity", units))
	})
	if err != nil {
		return activity.Restock{}, db.fail(fmt.Sprintf("restock activity %d", id), err)
	}
	return r, nil
}

// FinishRestock implements [activity.Store].
func (db *DB) FinishRestock(ctx context.Context, r activity.Restock, did int64) error {
	return db.fail("finish a restock", db.inTx(ctx, func(t tx) error {
		n, err := t.exec(ctx, "DELETE FROM seckill_restock WHERE id = ?", r.ID)
		if err != nil || n == 0 || did >= 0 {
			return err // It was finished before, or there is nothing to take away.
		}
		available, err := lockRun(ctx, t, r.Run)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := addUnits(ctx, t, r.Run, max(did, -available)); err != nil {
			return err
		}
		return t.raiseVersion(ctx)
	}))
}

func addUnits(ctx context.Context, t tx, run seckill.RunID, units int64) error {
	_, err := t.exec(ctx, `UPDATE seckill_stock SET total_stock = total_stock + ?, available_stock = available_stock + ?,
		version = version + 1 WHERE activity_id = ? AND run = ?`, units, units, run.Activity, run.Run)
	return err
}

// Restocks implements [activity.Store].
func (db *DB) Restocks(ctx context.Context) (restocks []activity.Restock, err error) {
	err = db.reader().rows(ctx, func(scan func(...any) error) error {
		var r activity.Restock
		err := scan(&r.ID, &r.Run.Activity, &r.Run.Run, &r.Units)
		restocks = append(restocks, r)
		return err
	}, "SELECT id, activity_id, run, units FROM seckill_restock ORDER BY id")
	return restocks, db.fail("list restocks", err)
}

// What a run's orders in one state hold. One state at a time, so that the index has it.
const (
	unitsUnpaid = `COALESCE((SELECT SUM(o.quantity) FROM seckill_order o
		WHERE o.activity_id = s.activity_id AND o.run = s.run AND o.status = 1), 0)`
	unitsPaid = `COALESCE((SELECT SUM(o.quantity) FROM seckill_order o
		WHERE o.activity_id = s.activity_id AND o.run = s.run AND o.status = 2), 0)`
)

// Units implements [activity.Store]. It is one statement, so that all of it is of one moment.
func (db *DB) Units(ctx context.Context, run seckill.RunID) (u activity.Units, err error) {
	err = db.reader().row(ctx, "SELECT s.total_stock, s.available_stock, "+unitsUnpaid+", "+unitsPaid+`,
		COALESCE((SELECT SUM(d.quantity) FROM seckill_dead_letter d
			WHERE d.activity_id = s.activity_id AND d.run = s.run AND d.state IN (1, 2)), 0)
		FROM seckill_stock s WHERE s.activity_id = ? AND s.run = ?`,
		[]any{run.Activity, run.Run}, &u.Total, &u.Available, &u.AwaitingPayment, &u.Paid, &u.Dead)
	if errors.Is(err, sql.ErrNoRows) {
		err = seckill.ErrNotFound
	}
	return u, db.fail("count units", err)
}

// RepairAvailable sets what the database holds for available to the run's total less what
// its live orders hold, and returns how much that changed.
func (db *DB) RepairAvailable(ctx context.Context, run seckill.RunID, by seckill.Actor) (delta int64, err error) {
	err = db.inTx(ctx, func(t tx) error {
		// Under this lock no transaction is half-way between its orders and its units.
		available, err := lockRun(ctx, t, run)
		if errors.Is(err, sql.ErrNoRows) {
			return seckill.ErrNotFound
		}
		if err != nil {
			return err
		}
		var total, live int64
		err = t.row(ctx, "SELECT s.total_stock, "+unitsUnpaid+" + "+unitsPaid+" FROM seckill_stock s WHERE s.activity_id = ? AND s.run = ?",
			[]any{run.Activity, run.Run}, &total, &live)
		if err != nil {
			return err
		}
		// Should more be sold than there is, none is available.
		right := max(total-live, 0)
		if delta = right - available; delta == 0 {
			return nil
		}
		_, err = t.exec(ctx, `UPDATE seckill_stock SET available_stock = ?, version = version + 1
			WHERE activity_id = ? AND run = ?`, right, run.Activity, run.Run)
		if err != nil {
			return err
		}
		return t.audit(ctx, by, "reconcile.row", "activity/"+strconv.FormatInt(run.Activity, 10),
			detail("run", run.Run, "available", [2]int64{available, right}))
	})
	return delta, db.fail("repair the available units", err)
}

// OldRuns implements [activity.Store].
func (db *DB) OldRuns(ctx context.Context, before time.Time, limit int) (runs []seckill.RunID, err error) {
	err = db.reader().rows(ctx, func(scan func(...any) error) error {
		var run seckill.RunID
		err := scan(&run.Activity, &run.Run)
		runs = append(runs, run)
		return err
	}, `SELECT s.activity_id, s.run FROM seckill_stock s WHERE s.dropped = 0 AND s.end_time < ?
		AND NOT EXISTS (SELECT 1 FROM seckill_order o WHERE o.activity_id = s.activity_id AND o.run = s.run AND o.status = 1)
		AND NOT EXISTS (SELECT 1 FROM seckill_todo d WHERE d.activity_id = s.activity_id AND d.run = s.run)
		AND NOT EXISTS (SELECT 1 FROM seckill_restock r WHERE r.activity_id = s.activity_id AND r.run = s.run)
		AND NOT EXISTS (SELECT 1 FROM seckill_dead_letter l WHERE l.activity_id = s.activity_id AND l.run = s.run AND l.state IN (1, 2))
		ORDER BY s.end_time LIMIT ?`, at(before), limit)
	return runs, db.fail("list old runs", err)
}

// MarkDropped implements [activity.Store].
func (db *DB) MarkDropped(ctx context.Context, run seckill.RunID) error {
	return db.fail("mark a run as dropped", db.inTx(ctx, func(t tx) error {
		_, err := t.exec(ctx, "UPDATE seckill_stock SET dropped = 1 WHERE activity_id = ? AND run = ?", run.Activity, run.Run)
		return err
	}))
}
