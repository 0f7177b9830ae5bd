package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"seckill"
	"seckill/internal/webhook"
)

var _ webhook.Store = (*DB)(nil)

// DueWebhooks implements [webhook.Store].
func (db *DB) DueWebhooks(ctx context.Context) (ids []int64, err error) {
	err = db.reader().rows(ctx, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT h.id FROM seckill_webhook h WHERE h.disabled = 0 AND h.resume_time <= {now} AND h.lease_until <= {now} AND EXISTS (
		SELECT 1 FROM seckill_webhook_delivery d WHERE d.webhook_id = h.id AND d.state = 0 AND d.next_time <= {now}) ORDER BY h.id`)
	return ids, db.fail("look for webhooks that have something to hear", err)
}

// WebhookWork implements [webhook.Store].
func (db *DB) WebhookWork(ctx context.Context, id int64, owner string, lease time.Duration, skip []int64, limit int) (w webhook.Work, err error) {
	err = db.inTx(ctx, func(t tx) error {
		w = webhook.Work{}
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		n, err := t.exec(ctx, `UPDATE seckill_webhook SET lease_owner = ?, lease_until = ? WHERE id = ? AND disabled = 0 AND resume_time <= ?
			AND (lease_owner = ? OR lease_until <= ?)`, owner, at(now.Add(lease)), id, at(now), owner, at(now))
		if err != nil || n == 0 {
			return err
		}
		w.Held, w.Now = true, now
		if w.Target, err = readTarget(ctx, t, id, now); err != nil {
			return err
		}
		where, args := "WHERE webhook_id = ? AND state = 0 AND next_time <= ?", []any{id, at(now)}
		if len(skip) > 0 {
			where += " AND id NOT IN (" + marks(len(skip)) + ")"
			args = append(args, anys(skip)...)
		}
		due, err := readDeliveries(ctx, t, where+" ORDER BY next_time, id LIMIT ?", append(args, limit)...)
		if err != nil {
			return err
		}
		w.More = len(due) == limit
		w.Due, err = holdBack(ctx, t, id, due)
		return err
	})
	return w, db.fail("take deliveries", err)
}

// holdBack takes out what has to wait for an earlier event of its ticket, and moves it behind that
// one: else what waits would fill the page. Only the holder of the lease changes when a pending
// delivery is due, so nothing moves between the reading and the writing.
func holdBack(ctx context.Context, t tx, hook int64, due []seckill.Delivery) ([]seckill.Delivery, error) {
	var tickets []any
	for _, d := range due {
		if d.Event.Step() > 1 {
			tickets = append(tickets, d.Ticket)
		}
	}
	if len(tickets) == 0 {
		return due, nil
	}
	earlier := map[string]time.Time{}
	err := t.rows(ctx, func(scan func(...any) error) error {
		var ticket string
		var next stamp
		err := scan(&ticket, &next)
		if next.After(earlier[ticket]) {
			earlier[ticket] = next.Time
		}
		return err
	}, "SELECT ticket, next_time FROM seckill_webhook_delivery WHERE webhook_id = ? AND state = 0 AND step = 1 AND ticket IN ("+marks(len(tickets))+")",
		append([]any{hook}, tickets...)...)
	if err != nil {
		return nil, err
	}
	var free []seckill.Delivery
	for _, d := range due {
		next, waits := earlier[d.Ticket]
		if !waits || d.Event.Step() == 1 {
			free = append(free, d)
			continue
		}
		if d.NextAt.After(next) {
			continue // It is behind already, and the other one is being sent.
		}
		if _, err := t.exec(ctx, "UPDATE seckill_webhook_delivery SET next_time = ? WHERE id = ?", at(next.Add(time.Microsecond)), d.ID); err != nil {
			return nil, err
		}
	}
	return free, nil
}

// EndDeliveries implements [webhook.Store].
func (db *DB) EndDeliveries(ctx context.Context, results []seckill.DeliveryResult) error {
	results = slices.Clone(results)
	slices.SortFunc(results, func(a, b seckill.DeliveryResult) int { return cmp.Compare(a.ID, b.ID) })
	return db.fail("note how deliveries ended", db.inTx(ctx, func(t tx) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		for _, r := range results {
			next, delivered := now, stamp{}
			switch r.State {
			case seckill.DeliveryPending:
				next = now.Add(r.RetryAfter)
			case seckill.DeliveryDelivered:
				delivered = at(now)
			}
			if _, err := t.exec(ctx, `UPDATE seckill_webhook_delivery SET state = ?, attempts = attempts + 1, last_error = ?, next_time = ?,
				delivered_time = ? WHERE id = ? AND (state = 0 OR state = 2 AND ? = 1)`, r.State, clip(r.Error, deliveryErrorBytesMax), at(next), delivered, r.ID, r.State); err != nil {
				return err
			}
		}
		return nil
	}))
}

// PauseWebhook implements [webhook.Store].
func (db *DB) PauseWebhook(ctx context.Context, id int64, owner string, failures int, pause time.Duration) error {
	return db.fail("note how a webhook fares", db.inTx(ctx, func(t tx) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		_, err = t.exec(ctx, "UPDATE seckill_webhook SET failures = ?, resume_time = ? WHERE id = ? AND lease_owner = ?",
			failures, at(now.Add(pause)), id, owner)
		return err
	}))
}

// ReleaseWebhook implements [webhook.Store].
func (db *DB) ReleaseWebhook(ctx context.Context, id int64, owner string) error {
	return db.fail("let go of a webhook", db.inTx(ctx, func(t tx) error {
		_, err := t.exec(ctx, "UPDATE seckill_webhook SET lease_owner = '', lease_until = {now} WHERE id = ? AND lease_owner = ?", id, owner)
		return err
	}))
}

// PendingDeliveries implements [webhook.Store].
func (db *DB) PendingDeliveries(ctx context.Context) (n int64, err error) {
	err = db.reader().row(ctx, `SELECT COUNT(*) FROM seckill_webhook h
		JOIN seckill_webhook_delivery d ON d.webhook_id = h.id AND d.state = 0`, nil, &n)
	return n, db.fail("count pending deliveries", err)
}

// sweepRowsMax is how many rows one transaction of a sweep changes, and sweepStepsMax how many
// such transactions one sweep has for each webhook.
const (
	sweepRowsMax  = 500
	sweepStepsMax = 40
)

const expired = "never sent: the receiver has been failing, or was disabled, for a day"

// SweepWebhooks implements [webhook.Store].
func (db *DB) SweepWebhooks(ctx context.Context, l webhook.Limits) error {
	return db.fail("sweep deliveries", db.sweepWebhooks(ctx, l))
}

func (db *DB) sweepWebhooks(ctx context.Context, l webhook.Limits) error {
	r := db.reader()
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	known := map[int64]bool{}
	hooks, err := readWebhooks(ctx, r, "")
	if err != nil {
		return err
	}
	for _, h := range hooks {
		known[h.ID] = true
	}
	for hook := int64(0); ; {
		// By the index, from one webhook to the next.
		var next sql.Null[int64]
		if err := r.row(ctx, "SELECT MIN(webhook_id) FROM seckill_webhook_delivery WHERE webhook_id > ?", []any{hook}, &next); err != nil {
			return err
		}
		if !next.Valid {
			return nil
		}
		if hook = next.V; known[hook] {
			err = db.sweepWebhook(ctx, hook, now, l)
		} else {
			err = db.sweepRows(ctx, "DELETE FROM seckill_webhook_delivery", nil, "webhook_id = ?", hook)
		}
		if err != nil {
			return err
		}
	}
}

func (db *DB) sweepWebhook(ctx context.Context, hook int64, now time.Time, l webhook.Limits) error {
	// What is due for a day and was not sent never will be.
	err := db.sweepRows(ctx, `UPDATE seckill_webhook_delivery SET state = 2, next_time = {now},
		last_error = CASE WHEN last_error = '' THEN ? ELSE last_error END`, []any{expired},
		"webhook_id = ? AND state = 0 AND next_time < ?", hook, at(now.Add(-l.RetryFor)))
	if err != nil {
		return err
	}
	for _, state := range []seckill.DeliveryState{seckill.DeliveryDelivered, seckill.DeliveryGivenUp} {
		before := now.Add(-l.Keep)
		var oldest stamp
		err := db.reader().row(ctx, "SELECT next_time FROM seckill_webhook_delivery WHERE webhook_id = ? AND state = ? ORDER BY next_time DESC LIMIT 1 OFFSET ?",
			[]any{hook, state, l.KeepMax}, &oldest)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if oldest.After(before) {
			before = oldest.Time
		}
		if err := db.sweepRows(ctx, "DELETE FROM seckill_webhook_delivery", nil,
			"webhook_id = ? AND state = ? AND next_time <= ?", hook, state, at(before)); err != nil {
			return err
		}
	}
	return nil
}

// sweepRows changes or deletes the deliveries that a condition holds for, some at a time; what is
// left after so many times is left to the next sweep.
func (db *DB) sweepRows(ctx context.Context, change string, with []any, where string, args ...any) error {
	for range sweepStepsMax {
		var ids []any
		err := db.reader().rows(ctx, func(scan func(...any) error) error {
			var id int64
			err := scan(&id)
			ids = append(ids, id)
			return err
		}, "SELECT id FROM seckill_webhook_delivery WHERE "+where+" LIMIT ?", append(slices.Clone(args), sweepRowsMax)...)
		if err != nil || len(ids) == 0 {
			return err
		}
		slices.SortFunc(ids, func(a, b any) int { return cmp.Compare(a.(int64), b.(int64)) })
		err = db.inTx(ctx, func(t tx) error {
			// The condition again: an operator may have asked for a retry meanwhile.
			all := append(slices.Clone(with), ids...)
			_, err := t.exec(ctx, change+" WHERE id IN ("+marks(len(ids))+") AND "+where, append(all, args...)...)
			return err
		})
		if err != nil || len(ids) < sweepRowsMax {
			return err
		}
	}
	return nil
}
