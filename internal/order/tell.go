package order

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"seckill/stock"
)

// settler is all that this stage needs of the stock.
type settler interface {
	Settle(ctx context.Context, settlements []stock.Settlement) (unknown []string, err error)
}

// Unknown hears of tickets that the stock has never heard of: it lost them. Their
// orders stand; somebody has to look at the stock.
type Unknown func(tickets []string)

func (u Unknown) hear(tickets []string) {
	if u != nil && len(tickets) > 0 {
		u(tickets)
	}
}

// tell settles to-dos with the stock and forgets those it has said yes to. A to-do
// that is told twice changes nothing.
func tell(ctx context.Context, s settler, store Store, unknown Unknown, todos []Todo) error {
	var ids []int64
	var settlements []stock.Settlement
	for _, t := range todos {
		if t.ID != 0 {
			ids = append(ids, t.ID)
			settlements = append(settlements, t.Settlement)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	lost, err := s.Settle(ctx, settlements)
	if err != nil {
		return fmt.Errorf("settle %d reservations: %w", len(ids), err)
	}
	unknown.hear(lost)
	return store.TodosDone(ctx, ids...)
}

// settlementOf is what the stock has to hear of the database's answer.
func settlementOf(w Written, s stock.Settlement) stock.Settlement {
	s.Order, s.Failed = w.Order, w.Refused
	return s
}

// backoff waits longer after each failure: exponential, with full jitter, so that
// many that failed together do not come back together.
type backoff struct {
	least, most time.Duration
	next        time.Duration
}

// after returns how long to wait now.
func (b *backoff) after() time.Duration {
	if b.next == 0 {
		b.next = b.least
	}
	// Never nothing at all: that would be a busy loop with bad luck.
	d := b.least/4 + rand.N(b.next)
	b.next = min(2*b.next, b.most)
	return d
}

func (b *backoff) reset() { b.next = 0 }

// wait returns when d is over or ctx has ended.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
