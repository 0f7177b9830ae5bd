package activity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"seckill"
	"seckill/stock"
)

// loader puts runs into the stock. The keeper and the operator both do, at once and on
// several nodes, and any of them may die between two steps:
//
//  1. raise: the epoch goes up in the database. From then on, what an earlier loader may
//     still do to the stock is overtaken, for the stock ignores an older epoch.
//  2. fill: the stock gets the run under that epoch.
//  3. open: the phase becomes loaded, unless the epoch was raised again, or units came
//     or went in between.
//
// Nobody can buy before 3, since a gateway refuses what is not loaded, and no raise is
// possible after it while the stock has the run. So a load never wipes a buyer.
type loader struct {
	store Store
	stock loadable
}

// loadable is what loading needs of the stock.
type loadable interface {
	leveller
	Load(ctx context.Context, spec stock.Spec) error
	Control(ctx context.Context, run seckill.RunID, c stock.Control) error
}

const (
	heldPage = 1000 // Live orders read at once.
	// rounds is how often a load starts again because something moved meanwhile, before
	// it takes what it has: reconciliation mends the rest, and a run that stays closed for
	// ever helps nobody.
	rounds = 5
	// A run that is to be replaced is held until what it has queued is written, for at most
	// drainMax: what an operator has to decide on may stay queued for days.
	drainMax   = 20 * time.Second
	drainEvery = 100 * time.Millisecond
)

// errOvertaken says that another loader, or an operator, was faster. Nothing is wrong,
// but what is to be done has to be looked at anew.
var errOvertaken = errors.New("overtaken by another change of the activity")

// errMoved says that units moved while the run was being read.
var errMoved = errors.New("units moved while the run was loaded")

// load brings a run into the stock: phase is scheduled for a preload, rebuilding for
// a run that was lost. It returns the activity as it then is.
func (l *loader) load(ctx context.Context, seen seckill.Activity, phase seckill.Phase, action string, by seckill.Actor) (seckill.Activity, error) {
	a := seen
	for round := 1; ; round++ {
		raised, err := l.raise(ctx, a, phase, action, by)
		if err != nil {
			return a, err
		}
		if phase == seckill.PhaseRebuilding {
			if err := l.hold(ctx, &raised); err != nil {
				return raised, err
			}
		}
		a, err = l.fill(ctx, raised, by, round < rounds)
		if errors.Is(err, errMoved) && round < rounds {
			continue
		}
		return a, err
	}
}

// raise puts a run into the phase in which it is loaded, under a new epoch, if it still is
// as it was seen.
func (l *loader) raise(ctx context.Context, seen seckill.Activity, phase seckill.Phase, action string, by seckill.Actor) (seckill.Activity, error) {
	// The stock's epoch is the higher one if the database was brought back from a copy. Asking
	// first also leaves everything as it is while the stock cannot be reached.
	level, err := l.stock.Level(ctx, seen.RunID())
	if err != nil && !errors.Is(err, stock.ErrNotLoaded) {
		return seen, fmt.Errorf("read level: %w", err)
	}
	a, err := l.store.ChangeActivity(ctx, seen.ID, action, by, func(a *seckill.Activity) error {
		if a.Run != seen.Run || a.Epoch != seen.Epoch || a.Phase != seen.Phase {
			return errOvertaken
		}
		a.Epoch = max(a.Epoch, level.Epoch) + 1
		a.Phase = phase
		return nil
	})
	if err != nil {
		return seen, fmt.Errorf("raise the epoch: %w", err)
	}
	return a, nil
}

// hold stops the sale of a run that the stock has in an older state, and waits until
// the reservations that survived there are written.
func (l *loader) hold(ctx context.Context, a *seckill.Activity) error {
	run := a.RunID()
	err := l.stock.Control(ctx, run, stock.Control{Paused: true, EndsAt: a.EndsAt})
	for until := time.Now().Add(drainMax); err == nil && time.Now().Before(until); {
		var level stock.Level
		if level, err = l.stock.Level(ctx, run); err != nil || level.Queued == 0 {
			break
		}
		// Nobody will write what lies among the dead letters until an operator has decided.
		units, err := l.store.Units(ctx, run)
		if err != nil {
			return fmt.Errorf("count units: %w", err)
		}
		if level.Queued <= units.Dead {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(drainEvery):
		}
	}
	if err != nil && !errors.Is(err, stock.ErrNotLoaded) {
		return fmt.Errorf("hold the run: %w", err)
	}
	return nil
}

// fill puts the run into the stock under a's epoch and opens it. With strict it fails with
// errMoved if the database's units are not the same before and after; a is then as it
// was given.
func (l *loader) fill(ctx context.Context, a seckill.Activity, by seckill.Actor, strict bool) (seckill.Activity, error) {
	spec, before, err := l.spec(ctx, a)
	if err != nil {
		return a, err
	}
	if err := l.stock.Load(ctx, spec); err != nil {
		return a, fmt.Errorf("load the stock: %w", err)
	}
	// Before anybody can buy: what is lost from here on is found out.
	if p, ok := l.stock.(pulser); ok {
		switch _, strange, err := p.Pulse(ctx, spec.Run, spec.Epoch); {
		case err != nil:
			return a, fmt.Errorf("mark the stock: %w", err)
		case strange != "" && strict:
			return a, errMoved
		}
	}
	// A consumer that had reservations in hand when the stock was lost writes them after
	// the orders were read, or a restock reached the stock's older state: the stock would
	// offer too many units, or too few.
	after, err := l.count(ctx, a.RunID())
	if err != nil {
		return a, err
	}
	if strict && !after.same(&before) {
		return a, errMoved
	}
	opened, err := l.store.ChangeActivity(ctx, a.ID, "activity.loaded", by, func(b *seckill.Activity) error {
		switch {
		case b.Run != a.Run || b.Epoch != a.Epoch || b.Phase != a.Phase:
			return errOvertaken
		case b.Total != a.Total:
			// A restock found the run not in the stock and changed the row alone.
			return errMoved
		}
		b.Phase = seckill.PhaseLoaded
		return nil
	})
	if err != nil {
		return a, fmt.Errorf("open the run: %w", err)
	}
	if opened.Paused != spec.Paused || !opened.EndsAt.Equal(spec.EndsAt) {
		err := l.stock.Control(ctx, opened.RunID(), controlOf(&opened))
		if err != nil {
			return opened, fmt.Errorf("control the stock: %w", err)
		}
	}
	return opened, nil
}

// spec reads a run from the database.
func (l *loader) spec(ctx context.Context, a seckill.Activity) (stock.Spec, count, error) {
	run := a.RunID()
	c, err := l.count(ctx, run)
	if err != nil {
		return stock.Spec{}, c, err
	}
	spec := stock.Spec{
		Run: run, Epoch: a.Epoch, Limit: a.LimitPerUser, SubStocks: a.SubStocks,
		StartsAt: a.StartsAt, EndsAt: a.EndsAt, Paused: a.Paused,
		// Units under dead letters are not for sale: an operator may yet make orders of
		// them. Those that a restock still has to bring are added when the stock hears of it.
		Units: max(0, c.Available-c.Dead-c.coming()),
	}
	for after := ""; ; {
		page, err := l.store.LiveOrders(ctx, run, after, heldPage)
		if err != nil {
			return spec, c, fmt.Errorf("read live orders: %w", err)
		}
		spec.Held = append(spec.Held, page...) // As many as the run has units: bounded by its total.
		if len(page) < heldPage {
			return spec, c, nil
		}
		after = page[len(page)-1].ID
	}
}

// count is a run's units, and its restocks that are not finished.
type count struct {
	Units
	restocks []Restock
}

func (c *count) same(d *count) bool {
	return c.Units == d.Units && slices.Equal(c.restocks, d.restocks)
}

// coming is how many units are in the run's row and not in the stock. Fewer units are in
// both until the stock has given them up.
func (c *count) coming() (units int64) {
	for _, r := range c.restocks {
		units += max(0, r.Units)
	}
	return units
}

func (l *loader) count(ctx context.Context, run seckill.RunID) (c count, err error) {
	if c.Units, err = l.store.Units(ctx, run); err != nil {
		return c, fmt.Errorf("count units: %w", err)
	}
	c.restocks, err = l.restocks(ctx, run)
	return c, err
}

func (l *loader) restocks(ctx context.Context, run seckill.RunID) ([]Restock, error) {
	all, err := l.store.Restocks(ctx)
	if err != nil {
		return nil, fmt.Errorf("read restocks: %w", err)
	}
	return slices.DeleteFunc(all, func(r Restock) bool { return r.Run != run }), nil
}

func controlOf(a *seckill.Activity) stock.Control {
	return stock.Control{Paused: a.Paused, EndsAt: a.EndsAt}
}
