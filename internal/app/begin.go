package app

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"seckill"
	"seckill/internal/config"
	"seckill/internal/order"
)

// settleFirst is how long a start may take to tell the stock what it was not told before.
const settleFirst = 10 * time.Second

// lookFirst is how long a start without a worker may take to look at the stock.
const lookFirst = 5 * time.Second

// bind makes sure that the stock belongs to the database. Its reservations must not become
// orders of another database's activities, which have the same numbers.
func (a *App) bind(ctx context.Context) error {
	database, err := a.database.Identity(ctx)
	if err != nil {
		return err
	}
	bound, err := a.stock.Bind(ctx, database)
	if err != nil {
		return fmt.Errorf("ask the stock which database it belongs to: %w", err)
	}
	if bound == database {
		return nil
	}
	away := "empty the stock's Redis"
	if a.config.Stock.Engine == config.Embedded {
		away = "move " + filepath.Join(a.config.Data, "stock.db") + " away"
	}
	return fmt.Errorf("the stock belongs to another database (to %s, and this is %s): restore the database that belongs to it, or %s: "+
		"reservations in it that have no order yet are lost then", bound, database, away)
}

// begin compares stock and database before anything of this process moves units. What
// the stock was not told yet is no difference, so it is told first.
func (a *App) begin(ctx context.Context) {
	told, cancel := context.WithTimeout(ctx, settleFirst)
	defer cancel()
	settler := order.Settler{Store: a.database, Stock: a.stock, Log: a.log, Unknown: a.keeper.Doubt}
	if err := settler.Once(told); err != nil {
		a.log.Warn("the stock could not be told everything yet", "error", err)
	}
	a.keeper.Begin(ctx)
}

// look has runs held that the stock has in an older state, where no worker's begin sees to it,
// before anybody can buy through this process.
func (a *App) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookFirst)
	defer cancel()
	if err := a.keeper.Look(ctx); err != nil {
		a.log.Warn("the stock cannot be looked at yet", "error", err)
	}
	if err := a.registry.Refresh(ctx); err != nil {
		a.log.Warn("the activities cannot be read anew", "error", err)
	}
}

// check has the reconciler compare a run for the keeper.
func (a *App) check(ctx context.Context, run seckill.RunID, doubted []string) (wrong string, sure bool, err error) {
	return a.reconciler.Check(ctx, run, doubted)
}

// liveOrders is nil for a stock that is too far away to be asked for each order.
func (a *App) liveOrders() func(context.Context, seckill.RunID, string, int) ([]seckill.Order, error) {
	if a.config.Stock.Engine != config.Embedded {
		return nil
	}
	return a.database.LiveOrders
}
