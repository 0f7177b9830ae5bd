package activity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"seckill"
	"seckill/stock"
)

// Notify is for stock.Watch: it has the level of a run read at once when units became
// available or the run changed. It does not block.
func (r *Registry) Notify(e stock.Event) {
	switch {
	case e.Kind == stock.EventRun:
		r.Nudge() // Another node changed the activity.
	case e.Kind == stock.EventSettled && !e.Released:
		return // Most events; the level of available units is as it was.
	}
	r.dirtyMu.Lock()
	r.dirty[e.Run] = true // At most one entry per run: bounded by the runs there are.
	r.dirtyMu.Unlock()
	wake(r.woken)
}

func (r *Registry) levelLoop(ctx context.Context) {
	tick := time.NewTicker(r.o.LevelEvery)
	defer tick.Stop()
	for {
		var runs []seckill.RunID
		all := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			runs, all = r.running(), true
		case <-r.woken:
			runs = r.pressing()
		}
		err := r.readLevels(ctx, runs, all)
		if ctx.Err() != nil {
			return
		}
		// Asking about nothing says nothing about the stock.
		if len(runs) > 0 {
			r.stocks.note(err)
		}
	}
}

// pressing lists the runs that cannot wait for the next tick: something happened to
// them, or their level is not known yet.
func (r *Registry) pressing() []seckill.RunID {
	r.dirtyMu.Lock()
	dirty := r.dirty
	r.dirty = map[seckill.RunID]bool{}
	r.dirtyMu.Unlock()
	return slices.DeleteFunc(r.running(), func(run seckill.RunID) bool {
		_, known := r.Level(run)
		return known && !dirty[run]
	})
}

// running lists the runs whose level can change what a buyer is told.
func (r *Registry) running() []seckill.RunID {
	now := time.Now()
	var runs []seckill.RunID
	for _, a := range r.Activities() {
		if a.Phase == seckill.PhaseLoaded && now.Before(a.EndsAt) {
			runs = append(runs, a.RunID())
		}
	}
	return runs
}

// RefreshLevel reads the level of one run now.
func (r *Registry) RefreshLevel(ctx context.Context, run seckill.RunID) error {
	return r.readLevels(ctx, []seckill.RunID{run}, false)
}

// readLevels asks the stock about runs. A run that it cannot tell about keeps what is
// known; one that it does not have loses it. With all, runs that are not named lose it too.
func (r *Registry) readLevels(ctx context.Context, runs []seckill.RunID, all bool) error {
	if err := lock(ctx, r.levelling); err != nil {
		return fmt.Errorf("wait for another reading: %w", err)
	}
	defer unlock(r.levelling)
	// One limit for all of them: a stock that hangs must not hang for each.
	ctx, cancel := context.WithTimeout(ctx, r.o.CallTimeout)
	defer cancel()

	old := *r.levels.Load()
	next := map[seckill.RunID]stock.Level{}
	if !all {
		maps.Copy(next, old)
	}
	var failed error
	for _, run := range runs {
		level, err := r.o.Stock.Level(ctx, run)
		switch {
		case err == nil:
			next[run] = level
			if r.o.OnLevel != nil {
				r.o.OnLevel(run, level)
			}
		case errors.Is(err, stock.ErrNotLoaded):
			delete(next, run)
		default:
			failed = fmt.Errorf("level of activity %d, run %d: %w", run.Activity, run.Run, err)
			if level, ok := old[run]; ok {
				next[run] = level
			}
		}
	}
	r.levels.Store(&next)
	return failed
}
