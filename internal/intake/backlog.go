// Package intake stops purchases by itself while more reservations wait for an order
// than the order writers can be expected to catch up with. It is not the operators'
// switch: it acts on a figure, and lets go on a figure. The gateways run it.
package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"seckill"
)

// Backlog holds the intake back between two marks: it stops at High and starts again at Low. Its
// fields must not change once it runs.
type Backlog struct {
	High, Low int64 // Reservations that wait for an order; Low is at most High. Required.
	// Waiting tells how many wait, wherever between the stock and the database. Required.
	Waiting func(ctx context.Context) (int64, error)

	Every   time.Duration // Between two looks. Default 500 ms.
	Timeout time.Duration // Of one look. Default 2 s.
	Log     *slog.Logger  // Discards by default.

	stopped atomic.Bool // All that a buyer's request reads.

	mu     sync.Mutex
	since  time.Time
	figure int64
}

// Run looks until ctx ends. While it cannot look it leaves things as they are.
func (b *Backlog) Run(ctx context.Context) error {
	if b.Waiting == nil || b.High < 1 || b.Low > b.High {
		return errors.New("intake: Waiting, and marks with Low at most High, are required")
	}
	tick := time.NewTicker(orDefault(b.Every, 500*time.Millisecond))
	defer tick.Stop()
	for {
		b.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (b *Backlog) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, orDefault(b.Timeout, 2*time.Second))
	defer cancel()
	waiting, err := b.Waiting(ctx)
	if err != nil {
		return // Whoever reads the queue for its own sake says why.
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.figure = waiting
	switch stopped := b.stopped.Load(); {
	case !stopped && waiting >= b.High:
		b.turn(true, "too many reservations wait for an order: purchases are refused as busy")
	case stopped && waiting <= b.Low:
		b.turn(false, "the backlog is down: purchases are let in again")
	}
}

func (b *Backlog) turn(stopped bool, what string) {
	b.since = time.Now()
	b.stopped.Store(stopped)
	if b.Log != nil {
		b.Log.Warn(what, "waiting", b.figure, "high", b.High, "low", b.Low) //nolint:sloglint // What is one of two constants.
	}
}

// Stopped tells whether purchases are held back now.
func (b *Backlog) Stopped() bool { return b.stopped.Load() }

// Guard is what operators see of it.
func (b *Backlog) Guard() seckill.Guard {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := seckill.Guard{
		Name: "backlog", Acting: b.stopped.Load(), Since: b.since,
		Figure: fmt.Sprintf("%d reservations wait for an order; stops at %d, starts again at %d", b.figure, b.High, b.Low),
	}
	if g.Acting {
		g.Reason = "Too many reservations wait for an order."
	}
	return g
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
