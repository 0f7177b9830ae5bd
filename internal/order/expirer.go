package order

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"seckill"
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

	// Hold leaves it to the Settler, and its ReturnWindow, to bring the units back.
	Hold bool
	// UnpaidMax is how many orders of one run a buyer may let expire until Unpaid hears of him. 0: as many as he likes.
	UnpaidMax int
	Unpaid    func(buyer string, run seckill.RunID, times int)
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
	if !e.Hold {
		if err := tell(ctx, e.Stock, e.Store, e.Unknown, todos); err != nil {
			e.Log.Warn("expired orders will be settled later", "orders", len(todos), "error", err)
		}
	}
	if err := e.judge(ctx, todos); err != nil {
		e.Log.Warn("it is not known who has let too many orders expire", "orders", len(todos), "error", err)
	}
	return len(todos), nil
}

// unpaidLook is how many of a buyer's orders are looked through for unpaid ones, the newest first.
const unpaidLook = 200

// judge hands over who has let too many orders expire: he keeps units from others (denial of
// inventory). The database counts, so that it does not matter which process expired the others.
func (e *Expirer) judge(ctx context.Context, todos []Todo) error {
	if e.UnpaidMax <= 0 || e.Unpaid == nil {
		return nil
	}
	type place struct {
		buyer string
		run   seckill.RunID
	}
	seen := map[place]bool{}
	for _, t := range todos {
		p := place{t.Buyer, t.Run}
		if seen[p] {
			continue
		}
		seen[p] = true
		orders, err := e.Store.Orders(ctx, t.Buyer, "", unpaidLook)
		if err != nil {
			return fmt.Errorf("count a buyer's unpaid orders: %w", err)
		}
		times := 0
		for i := range orders {
			if orders[i].Run == t.Run && orders[i].State == seckill.Expired {
				times++
			}
		}
		if times >= e.UnpaidMax {
			e.Unpaid(t.Buyer, t.Run, times)
		}
	}
	return nil
}
