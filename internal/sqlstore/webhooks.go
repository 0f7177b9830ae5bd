package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"seckill"
)

// webhooksMax bounds the webhooks: each of them is a row more for every event.
const webhooksMax = 20

// Bounds of the columns; longer text is cut.
const (
	webhookReasonBytesMax = 512
	deliveryErrorBytesMax = 1024
)

// Webhooks lists them by id.
func (db *DB) Webhooks(ctx context.Context) (hooks []seckill.Webhook, err error) {
	hooks, err = readWebhooks(ctx, db.reader(), "ORDER BY id")
	return hooks, db.fail("list the webhooks", err)
}

func readWebhooks(ctx context.Context, t tx, where string, args ...any) (hooks []seckill.Webhook, err error) {
	err = t.rows(ctx, func(scan func(...any) error) error {
		var h seckill.Webhook
		var events string
		var created stamp
		err := scan(&h.ID, &h.URL, &events, &created, &h.Disabled, &h.Reason)
		h.Events, h.CreatedAt = splitEvents(events), created.Time
		hooks = append(hooks, h)
		return err
	}, "SELECT id, url, events, create_time, disabled, reason FROM seckill_webhook "+where, args...)
	return hooks, err
}

// AddWebhook registers an address, with the secret that signs for it.
func (db *DB) AddWebhook(ctx context.Context, h seckill.Webhook, secret string, by seckill.Actor) (made seckill.Webhook, err error) {
	err = db.inTx(ctx, func(t tx) error {
		if _, err := t.hold(ctx, versionOfWebhooks); err != nil {
			return err
		}
		var count int
		if err := t.row(ctx, "SELECT COUNT(*) FROM seckill_webhook", nil, &count); err != nil {
			return err
		}
		if count >= webhooksMax {
			return &seckill.Refusal{Reason: seckill.Conflict, Detail: fmt.Sprintf("There are %d webhooks, which is the most; remove one first.", count)}
		}
		events := joinEvents(h.Events)
		id, err := t.insert(ctx, `INSERT INTO seckill_webhook (url, events, secret, create_time, resume_time, lease_until)
			VALUES (?,?,?,{now},{now},{now})`, h.URL, events, secret)
		if err != nil {
			return err
		}
		if err := t.raise(ctx, versionOfWebhooks); err != nil {
			return err
		}
		read, err := readWebhooks(ctx, t, "WHERE id = ?", id)
		if err != nil || len(read) == 0 {
			return errors.Join(err, errIf(len(read) == 0, "the webhook that was just made is not there"))
		}
		made = read[0]
		return t.audit(ctx, by, "webhook.add", hookObject(id), detail("url", withoutQuery(h.URL), "events", events))
	})
	return made, db.fail("add a webhook", err)
}

// RemoveWebhook forgets a webhook. Its deliveries go with the next sweeps.
func (db *DB) RemoveWebhook(ctx context.Context, id int64, by seckill.Actor) error {
	return db.fail("remove a webhook", db.changeWebhook(ctx, id, func(t tx, h seckill.Webhook) error {
		if _, err := t.exec(ctx, "DELETE FROM seckill_webhook WHERE id = ?", id); err != nil {
			return err
		}
		return t.audit(ctx, by, "webhook.remove", hookObject(id), detail("url", withoutQuery(h.URL)))
	}))
}

// RotateWebhook gives a webhook another secret. The present one signs beside it for as long as
// keep; an older one no more.
func (db *DB) RotateWebhook(ctx context.Context, id int64, secret string, keep time.Duration, by seckill.Actor) (oldUntil time.Time, err error) {
	err = db.changeWebhook(ctx, id, func(t tx, _ seckill.Webhook) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		oldUntil = now.Add(keep)
		// In two statements: MySQL assigns from left to right, SQLite all at once.
		if _, err := t.exec(ctx, "UPDATE seckill_webhook SET old_secret = secret, old_until = ? WHERE id = ?", at(oldUntil), id); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE seckill_webhook SET secret = ? WHERE id = ?", secret, id); err != nil {
			return err
		}
		return t.audit(ctx, by, "webhook.rotate", hookObject(id), detail("old_secret_until", oldUntil.UTC()))
	})
	return oldUntil, db.fail("give a webhook another secret", err)
}

// EnableWebhook lets a webhook hear again. What has waited is sent at once.
func (db *DB) EnableWebhook(ctx context.Context, id int64, by seckill.Actor) (h seckill.Webhook, err error) {
	err = db.changeWebhook(ctx, id, func(t tx, was seckill.Webhook) error {
		h = was
		if !was.Disabled {
			return nil
		}
		h.Disabled, h.Reason = false, ""
		if _, err := t.exec(ctx, "UPDATE seckill_webhook SET disabled = 0, reason = '', failures = 0, resume_time = {now} WHERE id = ?", id); err != nil {
			return err
		}
		return t.audit(ctx, by, "webhook.enable", hookObject(id), detail())
	})
	return h, db.fail("enable a webhook", err)
}

// DisableWebhook lets a webhook hear nothing more, until it is enabled.
func (db *DB) DisableWebhook(ctx context.Context, id int64, reason string, by seckill.Actor) error {
	return db.fail("disable a webhook", db.changeWebhook(ctx, id, func(t tx, was seckill.Webhook) error {
		if was.Disabled {
			return nil
		}
		reason := clip(reason, webhookReasonBytesMax)
		if _, err := t.exec(ctx, "UPDATE seckill_webhook SET disabled = 1, reason = ? WHERE id = ?", reason, id); err != nil {
			return err
		}
		return t.audit(ctx, by, "webhook.disable", hookObject(id), detail("why", reason))
	}))
}

// changeWebhook changes one webhook; one such change at a time, and all nodes learn of it.
func (db *DB) changeWebhook(ctx context.Context, id int64, change func(t tx, was seckill.Webhook) error) error {
	return db.inTx(ctx, func(t tx) error {
		if _, err := t.hold(ctx, versionOfWebhooks); err != nil {
			return err
		}
		hooks, err := readWebhooks(ctx, t, "WHERE id = ?", id)
		if err != nil {
			return err
		}
		if len(hooks) == 0 {
			return seckill.ErrNotFound
		}
		if err := change(t, hooks[0]); err != nil {
			return err
		}
		return t.raise(ctx, versionOfWebhooks)
	})
}

// WebhookTarget reads what sending to a webhook needs, whether it is disabled or not.
func (db *DB) WebhookTarget(ctx context.Context, id int64) (target seckill.WebhookTarget, now time.Time, err error) {
	t := db.reader()
	if now, err = t.now(ctx); err == nil {
		target, err = readTarget(ctx, t, id, now)
	}
	return target, now, db.fail("read a webhook", err)
}

func readTarget(ctx context.Context, t tx, id int64, now time.Time) (target seckill.WebhookTarget, err error) {
	target.ID = id
	var secret, old string
	var oldUntil stamp
	err = t.row(ctx, "SELECT url, secret, old_secret, old_until, failures FROM seckill_webhook WHERE id = ?", []any{id},
		&target.URL, &secret, &old, &oldUntil, &target.Failures)
	if errors.Is(err, sql.ErrNoRows) {
		return target, seckill.ErrNotFound
	}
	target.Secrets = []string{secret}
	if old != "" && now.Before(oldUntil.Time) {
		target.Secrets = append(target.Secrets, old)
	}
	return target, err
}

// WebhookDeliveries lists those of a webhook, newest first, ids below before (0 from the newest).
func (db *DB) WebhookDeliveries(ctx context.Context, id, before int64, limit int) (list []seckill.Delivery, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	t := db.reader()
	hooks, err := readWebhooks(ctx, t, "WHERE id = ?", id)
	if err == nil && len(hooks) == 0 {
		err = seckill.ErrNotFound
	}
	if err == nil {
		list, err = readDeliveries(ctx, t, "WHERE webhook_id = ? AND id < ? ORDER BY id DESC LIMIT ?", id, before, limit)
	}
	return list, db.fail("list deliveries", err)
}

// RetryDelivery makes a delivery due at once, and its day of retries begin anew; also one that was
// given up or delivered. What waits behind it for the same ticket is due after it.
func (db *DB) RetryDelivery(ctx context.Context, hook, id int64, by seckill.Actor) (d seckill.Delivery, err error) {
	err = db.inTx(ctx, func(t tx) error {
		hooks, err := readWebhooks(ctx, t, "WHERE id = ?"+t.db.dialect.lockRow, hook)
		if err == nil && len(hooks) == 0 {
			err = seckill.ErrNotFound
		}
		if err != nil {
			return err
		}
		if hooks[0].Disabled {
			return &seckill.Refusal{Reason: seckill.Conflict, Detail: "The webhook is disabled: enable it first."}
		}
		n, err := t.exec(ctx, `UPDATE seckill_webhook_delivery SET state = 0, since_time = {now}, next_time = {now}, delivered_time = NULL
			WHERE id = ? AND webhook_id = ?`, id, hook)
		if err == nil && n == 0 {
			err = seckill.ErrNotFound
		}
		if err != nil {
			return err
		}
		list, err := readDeliveries(ctx, t, "WHERE id = ?", id)
		if err != nil || len(list) == 0 {
			return errors.Join(err, errIf(len(list) == 0, "the delivery that was just changed is not there"))
		}
		d = list[0]
		if _, err := t.exec(ctx, "UPDATE seckill_webhook_delivery SET next_time = {now} WHERE webhook_id = ? AND ticket = ? AND state = 0 AND id <> ?", hook, d.Ticket, id); err != nil {
			return err
		}
		// The receiver is tried, too, though it may be on a pause.
		if _, err := t.exec(ctx, "UPDATE seckill_webhook SET resume_time = {now} WHERE id = ?", hook); err != nil {
			return err
		}
		return t.audit(ctx, by, "webhook.retry", hookObject(hook), detail("delivery", id, "event", string(d.Event), "ticket", d.Ticket))
	})
	return d, db.fail("retry a delivery", err)
}

func readDeliveries(ctx context.Context, t tx, where string, args ...any) (list []seckill.Delivery, err error) {
	err = t.rows(ctx, func(scan func(...any) error) error {
		var d seckill.Delivery
		var order sql.NullString
		var created, since, next, delivered stamp
		err := scan(&d.ID, &d.Webhook, &d.Event, &order, &d.Ticket, &d.Payload, &d.Attempts, &d.State, &d.LastError,
			&created, &since, &next, &delivered)
		d.Order, d.CreatedAt, d.Since, d.DeliveredAt = order.String, created.Time, since.Time, delivered.Time
		if d.State == seckill.DeliveryPending {
			d.NextAt = next.Time
		}
		list = append(list, d)
		return err
	}, `SELECT id, webhook_id, event, order_id, ticket, payload, attempts, state, last_error, create_time, since_time, next_time,
		delivered_time FROM seckill_webhook_delivery `+where, args...)
	return list, err
}

func joinEvents(events []seckill.WebhookEvent) string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = string(e)
	}
	return strings.Join(names, ",")
}

func hookObject(id int64) string { return fmt.Sprintf("webhook/%d", id) }

// withoutQuery is an address as the audit log has it: a query may hold a token.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

func errIf(is bool, text string) error {
	if is {
		return errors.New(text)
	}
	return nil
}
