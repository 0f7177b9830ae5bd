package order

import (
	"context"
	"log/slog"
	"time"
)

// Settler repeats what could not be done at once: to-dos that the stock has not
// said yes to, and dead letters whose retry did not end.
type Settler struct {
	Store Store   // Required.
	Stock settler // Required.

	Every    time.Duration // Between looks; 1 s by default. The first is at once.
	BatchMax int           // To-dos told together; 500 by default.
	// CallTimeout bounds one call of the database or the stock; 15 s by default.
	CallTimeout time.Duration
	Log         *slog.Logger // Discards by default.
	Unknown     Unknown      // Nobody by default.
}

func (s *Settler) withDefaults() *Settler {
	c := *s
	c.Every = orDefault(c.Every, time.Second)
	c.BatchMax = orDefault(c.BatchMax, 500)
	c.CallTimeout = orDefault(c.CallTimeout, 15*time.Second)
	c.Log = logger(c.Log)
	return &c
}

// Once goes through all that there is, once.
func (s *Settler) Once(ctx context.Context) error { return s.withDefaults().step(ctx) }

// Run works until ctx ends, and then returns nil.
func (s *Settler) Run(ctx context.Context) error {
	c := s.withDefaults()
	again := backoff{least: c.Every, most: 10 * c.Every}
	for ctx.Err() == nil {
		if err := c.step(ctx); err != nil && ctx.Err() == nil {
			c.Log.Warn("the stock could not be told everything", "error", err)
			wait(ctx, again.after())
			continue
		}
		again.reset()
		wait(ctx, c.Every)
	}
	return nil
}

// step goes through all that there is, once.
func (s *Settler) step(ctx context.Context) error {
	for after := int64(0); ; {
		n, last, err := s.tellSome(ctx, after)
		if err != nil {
			return err
		}
		if n < s.BatchMax {
			break
		}
		after = last
	}
	return s.retryDead(ctx)
}

func (s *Settler) tellSome(ctx context.Context, after int64) (n int, last int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
	defer cancel()
	todos, err := s.Store.Todos(ctx, after, s.BatchMax)
	if err != nil || len(todos) == 0 {
		return 0, after, err
	}
	return len(todos), todos[len(todos)-1].ID, tell(ctx, s.Stock, s.Store, s.Unknown, todos)
}

func (s *Settler) retryDead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
	defer cancel()
	letters, err := s.Store.Retrying(ctx, s.BatchMax)
	if err != nil {
		return err
	}
	for _, l := range letters {
		if _, err := retry(ctx, s.Stock, s.Store, s.Unknown, l); err != nil {
			return err
		}
	}
	return nil
}
