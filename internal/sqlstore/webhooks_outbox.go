package sqlstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"seckill"
	"seckill/internal/webhook"
)

// versionOfWebhooks is raised, in the same transaction, by whatever changes who hears of what.
const versionOfWebhooks = "webhook_version"

// hooksVersion reads it within another statement: one row by its key, and no call of its own.
const hooksVersion = "COALESCE((SELECT value FROM seckill_meta WHERE name = '" + versionOfWebhooks + "'), 0)"

// deliveryRowsMax is how many deliveries one statement stores: each has a body.
const deliveryRowsMax = 100

// listeners are the webhooks that hear of something, as they were at a version.
type listeners struct {
	version int64
	hooks   []listener
}

type listener struct {
	id     int64
	events []seckill.WebhookEvent
}

// happening is an event that a transaction brings about.
type happening struct {
	event   seckill.WebhookEvent
	ticket  string
	order   any // The row's id, or nil.
	payload []byte
}

// listeners returns who hears of what, given the version that this transaction has read. It is
// remembered, so that only the first transaction after a change reads it again. Should a change be
// committed between the reading of the version and that of the webhooks, then it is remembered
// under the older version, and soon read again.
func (t tx) listeners(ctx context.Context, version int64) ([]listener, error) {
	if version == 0 {
		return nil, nil
	}
	if known := t.db.listening.Load(); known != nil && known.version == version {
		return known.hooks, nil
	}
	l := &listeners{version: version}
	err := t.rows(ctx, func(scan func(...any) error) error {
		var hook listener
		var events string
		err := scan(&hook.id, &events)
		hook.events = splitEvents(events)
		l.hooks = append(l.hooks, hook)
		return err
	}, "SELECT id, events FROM seckill_webhook WHERE disabled = 0 ORDER BY id")
	if err != nil {
		return nil, err
	}
	t.db.listening.Store(l)
	return l.hooks, nil
}

// outbox stores deliveries of n events that this transaction brings about at a time. event makes
// one, and is called only if somebody listens.
func (t tx) outbox(ctx context.Context, version int64, at time.Time, n int, event func(i int) happening) error {
	if n == 0 {
		return nil
	}
	hooks, err := t.listeners(ctx, version)
	if err != nil || len(hooks) == 0 {
		return err
	}
	const row = "(?,?,?,?,?,?,?,'',?,?,?),"
	now := formatTime(at)
	args := make([]any, 0, 10*deliveryRowsMax)
	rows := 0
	store := func() error {
		if rows == 0 {
			return nil
		}
		_, err := t.exec(ctx, `INSERT INTO seckill_webhook_delivery (id, webhook_id, ticket, step, order_id, event, payload, last_error,
			create_time, since_time, next_time) VALUES `+strings.TrimSuffix(strings.Repeat(row, rows), ","), args...)
		args, rows = args[:0], 0
		return err
	}
	for i := range n {
		e := event(i)
		for _, h := range hooks {
			if !slices.Contains(h.events, e.event) {
				continue
			}
			args = append(args, t.db.ids.next(), h.id, e.ticket, e.event.Step(), e.order, string(e.event), string(e.payload), now, now, now)
			if rows++; rows == deliveryRowsMax {
				if err := store(); err != nil {
					return err
				}
			}
		}
	}
	return store()
}

// orderHappened is an order as it is after the event.
func orderHappened(event seckill.WebhookEvent, at time.Time, o *seckill.Order) happening {
	return happening{event: event, ticket: o.Ticket, order: rowID(o.ID), payload: webhook.OrderPayload(event, at, o)}
}

func reservationFailed(at time.Time, r *seckill.Reservation, reason seckill.Reason) happening {
	return happening{event: seckill.ReservationFailed, ticket: r.Ticket, payload: webhook.FailedPayload(at, r, reason)}
}

// eventOf is the event that brings an order into a state.
func eventOf(state seckill.OrderState) seckill.WebhookEvent {
	switch state {
	case seckill.Paid:
		return seckill.OrderPaid
	case seckill.Cancelled:
		return seckill.OrderCancelled
	default:
		return seckill.OrderExpired
	}
}

// outbox stores what a batch has brought about.
func (b *batch) outbox(ctx context.Context, t tx, h head, chosen, refused []int) error {
	return t.outbox(ctx, h.hooks, h.now, len(chosen)+len(refused), func(i int) happening {
		if i < len(chosen) {
			return orderHappened(seckill.ReservationConfirmed, h.now, b.out[chosen[i]].Order)
		}
		i = refused[i-len(chosen)]
		return reservationFailed(h.now, &b.rs[i], b.out[i].Refused)
	})
}

// heard reads what the outbox needs where no other statement has read it.
func (t tx) heard(ctx context.Context) (version int64, now time.Time, err error) {
	var clock stamp
	err = t.row(ctx, "SELECT "+hooksVersion+", {now}", nil, &version, &clock)
	return version, clock.Time, err
}

func splitEvents(text string) (events []seckill.WebhookEvent) {
	for name := range strings.SplitSeq(text, ",") {
		events = append(events, seckill.WebhookEvent(name))
	}
	return events
}
