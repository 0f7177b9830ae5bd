package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"seckill/internal/relay"
	"seckill/stock"
)

// queueNote is the name under which a start notes its queue for the next one.
const queueNote = "queue"

// openQueue opens what carries reservations to the order writer.
func (a *App) openQueue(ctx context.Context) (err error) {
	if err := a.sameQueue(ctx); err != nil {
		return err
	}
	a.queue = a.stock.Outbox()
	if a.broker, err = openBroker(ctx, &a.config, a.log); err != nil {
		return err
	}
	if a.broker != nil {
		a.onStop("queue", a.broker.Close)
		a.queue = relay.Both{Queue: a.broker, Outbox: a.stock.Outbox()}
	}
	return nil
}

// sameQueue makes sure that a changed setting leaves nothing behind: what waits in the queue
// of before has to become orders first. What is still in the stock's own outbox goes with the stock.
func (a *App) sameQueue(ctx context.Context) error {
	before, err := a.database.Remembered(ctx, queueNote)
	if err != nil {
		return err
	}
	now := a.config.Queue.String()
	if before == now {
		return nil
	}
	if before != "" && isBroker(before) {
		waiting, err := a.queued(ctx)
		if err != nil {
			return fmt.Errorf("count what waits in the queue of before: %w", err)
		}
		if waiting > 0 {
			return fmt.Errorf("--queue was %s, and %d reservations wait there: start with that setting until they are orders "+
				"(seckill_queue_backlog is 0), then change it", before, waiting)
		}
	}
	return a.database.Remember(ctx, queueNote, now)
}

// isBroker tells whether a noted queue is a server of its own.
func isBroker(noted string) bool { return strings.Contains(noted, "://") }

// queued counts, over all activities, the reservations that are neither orders nor dead letters.
func (a *App) queued(ctx context.Context) (waiting int64, err error) {
	activities, _, err := a.database.Activities(ctx)
	if err != nil {
		return 0, err
	}
	for _, act := range activities {
		level, err := a.stock.Level(ctx, act.RunID())
		if errors.Is(err, stock.ErrNotLoaded) {
			continue
		}
		if err != nil {
			return 0, err
		}
		units, err := a.database.Units(ctx, act.RunID())
		if err != nil {
			return 0, err
		}
		waiting += max(level.Queued-units.Dead, 0)
	}
	return waiting, nil
}
