package order

import (
	"context"
	"log/slog"
	"time"
)

// Expirer ends orders that were not paid in time: their units go back and are sold
// again. Due is what the database's clock says; nothing expires early.
type Expirer struct {
	Store Store   // Required.
	Stock settler // Required.

	Every    time.Duration // Between looks; 1 s by default.
	BatchMax int           // Orders in one transaction; 500 by default.
	// CallTimeout bounds one call of the database or the stock; 15 s by default.
	CallTimeout time.Duration
	Log         *slog.Logger // Discards by default.
	Unknown     Unknown      // Nobody by default.
}

// Run works until ctx ends, and then returns nil.
func (e *Expirer) Run(ctx context.Context) error {
	c := *e
	c.Every = orDefault(c.Every, time.Second)
	c.BatchMax = orDefault(c.BatchMax, 500)
	c.CallTimeout = orDefault(c.CallTimeout, 15*time.Second)
	c.Log = logger(c.Log)
	again := backoff{least: c.Every, most: 10 * c.Every}
	for ctx.Err() == nil {
		n, err := c.step(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			c.Log.Warn("orders could not be expired", "error", err)
			wait(ctx, again.after())
		case n < c.BatchMax:
			again.reset()
			wait(ctx, c.Every)
		}
	}
	return nil
}

// step expires one batch. If the stock cannot be told now, the to-dos stay, for the Settler.
func (e *Expirer) step(ctx context.Context) (expired int, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.CallTimeout)
	defer cancel()
	todos, err := e.Store.ExpireOrders(ctx, e.BatchMax)
	if err != nil {
		return 0, err
	}
	if err := tell(ctx, e.Stock, e.Store, e.Unknown, todos); err != nil {
		e.Log.Warn("expired orders will be settled later", "orders", len(todos), "error", err)
	}
	return len(todos), nil
}
