package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"seckill/internal/relay"
	"seckill/queue"
	"seckill/stock"
)

// queueNote is the name under which a start notes its queue for the next one.
const queueNote = "queue"

// openQueue opens what carries reservations to the order writer. A process without a worker only
// wants to know what waits in a broker: it starts, and sells, while the broker is away.
func (a *App) openQueue(ctx context.Context) (err error) {
	a.queue = a.stock.Outbox()
	if !a.config.Roles.Worker {
		if a.config.Queue.Broker() {
			later := &laterQueue{open: func(ctx context.Context) (queue.Queue, error) { return openBroker(ctx, &a.config, a.log) }}
			a.onStop("queue", later.Close)
			a.queue = relay.Both{Queue: later, Outbox: a.stock.Outbox()}
		}
		return nil
	}
	if err := a.sameQueue(ctx); err != nil {
		return err
	}
	if a.broker, err = openBroker(ctx, &a.config, a.log); err != nil {
		return err
	}
	if a.broker != nil {
		a.onStop("queue", a.broker.Close)
		a.queue = relay.Both{Queue: a.broker, Outbox: a.stock.Outbox()}
	}
	return nil
}

// laterQueue is a broker that is opened when it is first asked, and asked for its backlog only.
type laterQueue struct {
	queue.Queue // Nil until it is open.
	open        func(ctx context.Context) (queue.Queue, error)
	mu          sync.Mutex
	closed      bool
}

// Backlog implements [queue.Source].
func (l *laterQueue) Backlog(ctx context.Context) (queue.Backlog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return queue.Backlog{}, errors.New("the queue is closed")
	}
	if l.Queue == nil {
		q, err := l.open(ctx)
		if err != nil {
			return queue.Backlog{}, err
		}
		l.Queue = q
	}
	return l.Queue.Backlog(ctx)
}

// Close closes what was opened.
func (l *laterQueue) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.Queue == nil {
		return nil
	}
	return l.Queue.Close()
}

// sameQueue makes sure that a changed setting leaves nothing behind: what waits in the queue
// of before has to become orders first. What is still in the stock's own outbox goes with the stock.
func (a *App) sameQueue(ctx context.Context) error {
	before, err := a.database.Remembered(ctx, queueNote)
	if err != nil {
		return err
	}
	now := a.config.Queue.Place()
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
func isBroker(noted string) bool { return strings.Contains(noted, ":") }

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
