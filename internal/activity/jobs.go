package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill"
	"seckill/stock"
)

const (
	// overFor is how long the stock is still told about a run that is over.
	overFor = 24 * time.Hour
	dropMax = 100 // Runs dropped at once.
)

// wants tells whether there may be something to do for an activity. It costs no call.
func (k *Keeper) wants(a *seckill.Activity, now time.Time) bool {
	switch a.Phase {
	case seckill.PhaseScheduled:
		return preloadDue(a, now)
	case seckill.PhaseLoaded:
		return now.Before(a.EndsAt)
	case seckill.PhaseClosed:
		return now.Before(a.EndsAt.Add(overFor)) && k.untold(a, now)
	default:
		return true
	}
}

// Tend does for one activity what has to be done now.
func (k *Keeper) Tend(ctx context.Context, a *seckill.Activity) error {
	switch a.Phase {
	case seckill.PhaseScheduled:
		// Whoever comes upon it first begins at once.
		if !k.mayTakeOver(a, true) {
			return nil
		}
		return k.Preload(ctx, a)
	case seckill.PhaseRebuilding:
		if !k.mayTakeOver(a, false) {
			return nil
		}
		return k.Rebuild(ctx, a, "a rebuild was not brought to an end")
	case seckill.PhaseLoaded:
		wrong, err := k.wrong(ctx, a)
		if wrong != "" {
			return k.Rebuild(ctx, a, wrong)
		}
		return errors.Join(err, k.Control(ctx, a))
	}
	return k.Control(ctx, a)
}

// Preload brings a run into the stock whose time has come.
func (k *Keeper) Preload(ctx context.Context, a *seckill.Activity) error {
	if !preloadDue(a, time.Now()) {
		return nil
	}
	loaded, err := k.loader.load(ctx, *a, seckill.PhaseScheduled, "activity.preload", k.by)
	return k.loaded(ctx, loaded, err, "preloaded")
}

// Rebuild brings a run back that the stock has lost, with its buyers, from the
// database alone: where stock and queue are one, what was lost with the stock was in no
// queue either. Until it is done the run is held.
func (k *Keeper) Rebuild(ctx context.Context, a *seckill.Activity, why string) error {
	by := k.by
	by.Reason = why
	return k.rebuild(ctx, a, by)
}

func (k *Keeper) rebuild(ctx context.Context, a *seckill.Activity, by seckill.Actor) error {
	if a.Phase == seckill.PhaseLoaded {
		k.o.Log.Warn("keeper: the stock does not have a run as it should; rebuilding it",
			"activity", a.ID, "run", a.Run, "epoch", a.Epoch, "who", by.Who, "reason", by.Reason)
	}
	loaded, err := k.loader.load(ctx, *a, seckill.PhaseRebuilding, "activity.rebuild", by)
	return k.loaded(ctx, loaded, err, "rebuilt")
}

func (k *Keeper) loaded(ctx context.Context, a seckill.Activity, err error, what string) error {
	if err == nil {
		k.believe(a.RunID())
		k.o.Log.Info("keeper: a run is in the stock", "step", what, "activity", a.ID, "run", a.Run, "epoch", a.Epoch)
	}
	if a.Phase != seckill.PhaseLoaded && !errors.Is(err, errOvertaken) {
		k.began(&a)
	}
	// Also after a failure: the next try has to start from what is there now.
	if refreshErr := k.o.Registry.Refresh(ctx); refreshErr != nil {
		k.o.Registry.Nudge()
		err = errors.Join(err, refreshErr)
	}
	return err
}

// began notes that this keeper began a load. What it began it may begin anew without waiting.
func (k *Keeper) began(a *seckill.Activity) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.seen[a.ID]; t != nil {
		t.epoch, t.mine = a.Epoch, true
	} else {
		k.seen[a.ID] = &takeover{epoch: a.Epoch, mine: true}
	}
}

// lost tells whether the stock does not have a run that the database says it has, or
// has another load of it: an older one after the stock, a newer one after the database was
// brought back from a copy. The phase is loaded only after the stock has the epoch, and
// Rebuild goes on only if the run is still under the epoch that was seen here. So a node
// that is behind cannot undo another's rebuild.
func (k *Keeper) lost(ctx context.Context, a *seckill.Activity) (bool, error) {
	level, err := k.o.Stock.Level(ctx, a.RunID())
	switch {
	case errors.Is(err, stock.ErrNotLoaded):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read level: %w", err)
	}
	return level.Epoch != a.Epoch, nil
}

// mayTakeOver tells whether a load that somebody began has stood still for so long that
// it is taken for dead; mine says what to do about one that is seen for the first
// time. Each time that somebody else begins anew the wait doubles: keepers that need longer
// than the wait would else undo one another's work for ever.
func (k *Keeper) mayTakeOver(a *seckill.Activity, mine bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.seen[a.ID]
	switch {
	case t == nil:
		t = &takeover{epoch: a.Epoch, since: time.Now(), mine: mine}
		k.seen[a.ID] = t
	case t.epoch != a.Epoch:
		t.epoch, t.since, t.mine = a.Epoch, time.Now(), false
		t.others++
	}
	wait := min(k.o.TakeoverWait<<min(t.others, 10), k.o.JobTimeout)
	return t.mine || time.Since(t.since) >= wait
}

// Control tells the stock what it should know of a run that is in place: an operator's
// command may not have reached it. It is repeated now and then, in case that two nodes
// told it different things in the wrong order.
func (k *Keeper) Control(ctx context.Context, a *seckill.Activity) error {
	if !k.untold(a, time.Now()) {
		return nil
	}
	err := k.o.Stock.Control(ctx, a.RunID(), controlOf(a))
	if err != nil && !errors.Is(err, stock.ErrNotLoaded) {
		return fmt.Errorf("control the stock: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told[a.RunID()] = told{controlOf(a), a.Epoch, time.Now()}
	return nil
}

func (k *Keeper) untold(a *seckill.Activity, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.told[a.RunID()]
	return !ok || t.epoch != a.Epoch || t.control.Paused != a.Paused || !t.control.EndsAt.Equal(a.EndsAt) ||
		now.Sub(t.at) >= k.o.ControlEvery
}

// FinishRestocks tells the stock of restocks that nobody has brought to an end.
func (k *Keeper) FinishRestocks(ctx context.Context) error {
	restocks, err := k.o.Store.Restocks(ctx)
	if err != nil {
		return fmt.Errorf("read restocks: %w", err)
	}
	var failed []error
	for _, r := range restocks {
		_, err := tellRestock(ctx, k.o.Store, k.o.Stock, r)
		if errors.Is(err, stock.ErrNotLoaded) {
			err = k.restockGone(ctx, r)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("restock %d of activity %d, run %d: %w", r.ID, r.Run.Activity, r.Run.Run, err))
		}
	}
	return errors.Join(failed...)
}

// restockGone ends a restock of a run that is not in the stock. If it will be again, the
// restock waits for that. If not, the row alone counts: more units are in it already, and
// fewer were never taken.
func (k *Keeper) restockGone(ctx context.Context, r Restock) error {
	a, ok := k.o.Registry.Activity(r.Run.Activity)
	if !ok || a.Run < r.Run.Run {
		return nil // The registry is behind.
	}
	if a.Run == r.Run.Run && a.State(time.Now(), false) != seckill.StateEnded {
		return nil
	}
	if err := k.o.Store.FinishRestock(ctx, r, max(0, r.Units)); err != nil {
		return fmt.Errorf("finish restock: %w", err)
	}
	return nil
}

// DropOld makes the stock forget runs that are over for longer than it has to remember
// them.
func (k *Keeper) DropOld(ctx context.Context) error {
	runs, err := k.o.Store.OldRuns(ctx, time.Now().Add(-k.o.Retention), dropMax)
	if err != nil {
		return fmt.Errorf("list old runs: %w", err)
	}
	var failed []error
	for _, run := range runs {
		if err := k.drop(ctx, run); err != nil {
			failed = append(failed, fmt.Errorf("drop activity %d, run %d: %w", run.Activity, run.Run, err))
		}
	}
	return errors.Join(failed...)
}

func (k *Keeper) drop(ctx context.Context, run seckill.RunID) error {
	level, err := k.o.Stock.Level(ctx, run)
	switch {
	case errors.Is(err, stock.ErrNotLoaded):
	case err != nil:
		return err
	case level.Queued > 0:
		// The database knows nothing of these yet, and they were promised an end.
		return fmt.Errorf("%d units are still queued", level.Queued)
	default:
		if err := k.o.Stock.Drop(ctx, run); err != nil {
			return err
		}
	}
	return k.o.Store.MarkDropped(ctx, run)
}
