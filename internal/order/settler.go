package order

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
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

	// ReturnWindow is how long units of orders that were cancelled or have expired are kept from
	// sale at the most; 0 brings them back at once. Each comes back at a moment of its own that
	// nobody can foretell, so that nobody can lie in wait for it, or hand a unit on to himself by
	// giving it back. Several Settlers choose a moment each, and the first is taken.
	ReturnWindow time.Duration

	held map[int64]time.Time // When the stock hears of it, by to-do. Of the last step, bounded by heldMax.
}

// heldMax bounds the to-dos that wait for their moment; those beyond it are told at once.
const heldMax = 100_000

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
func (s *Settler) step(ctx context.Context) (err error) {
	held := map[int64]time.Time{}
	defer func() {
		if err != nil { // What was not reached keeps its moment.
			maps.Copy(held, s.held)
		}
		s.held = held
	}()
	for after := int64(0); ; {
		n, last, err := s.tellSome(ctx, after, held)
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

func (s *Settler) tellSome(ctx context.Context, after int64, held map[int64]time.Time) (n int, last int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
	defer cancel()
	todos, err := s.Store.Todos(ctx, after, s.BatchMax)
	if err != nil || len(todos) == 0 {
		return 0, after, err
	}
	n, last = len(todos), todos[len(todos)-1].ID
	return n, last, tell(ctx, s.Stock, s.Store, s.Unknown, s.due(todos, held))
}

// due leaves those out whose moment has not come, and notes them in held.
func (s *Settler) due(todos []Todo, held map[int64]time.Time) []Todo {
	if s.ReturnWindow <= 0 {
		return todos
	}
	now := time.Now()
	return slices.DeleteFunc(todos, func(t Todo) bool {
		if t.Order == nil || t.Order.State.Live() {
			return false
		}
		at, known := s.held[t.ID]
		if !known {
			at = now.Add(rand.N(s.ReturnWindow))
		}
		if !at.After(now) || len(held) >= heldMax {
			return false
		}
		held[t.ID] = at
		return true
	})
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
