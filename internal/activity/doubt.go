package activity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill"
)

const (
	doubtedMax = 100 // Tickets of a run that are asked for one by one.
	// checksMax is how often a run is checked that moves too much to tell. Reconciliation looks
	// at all runs, now and then.
	checksMax = 8
	// Between two checks of a run, and between two rebuilds of one that was found wrong
	// again: doubled each time, up to a bound. Whatever may be wrong with a comparison, it must
	// not keep a sale closed.
	recheckFirst, recheckLast = 5 * time.Second, time.Minute
	rebuildFirst, rebuildLast = 10 * time.Second, 10 * time.Minute

	beginAtOnce = 8                // Runs that Begin checks at once.
	beginWithin = 15 * time.Second // How long it may take.
)

// doubt is what is remembered of a run whose state in the stock may be an older one, or
// one of other orders than the database has.
type doubt struct {
	open     bool     // It has to be checked.
	tickets  []string // That the stock did not know.
	tries    int
	checks   int // That found nothing since the last rebuild.
	next     time.Time
	rebuilds int
	again    time.Time // No rebuild before.
	looks    int       // At the latest orders.
	lookNext time.Time // No such look before.
}

// Doubt hears of tickets that became orders, or failed, and that the stock has never heard of.
// Their runs are checked soon, and rebuilt if the stock is wrong. It does not block.
func (k *Keeper) Doubt(tickets []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ticket := range tickets {
		run, ok := seckill.TicketRun(ticket)
		if !ok {
			continue
		}
		d := k.doubt(run)
		if !d.open {
			d.open, d.tries = true, 0
			k.o.Log.Warn("keeper: the stock does not know a ticket that it is told of; its run will be checked",
				"activity", run.Activity, "run", run.Run, "ticket", ticket)
		}
		if len(d.tickets) < doubtedMax {
			d.tickets = append(d.tickets, ticket)
		}
	}
}

// doubt returns what is remembered of a run; the lock is held.
func (k *Keeper) doubt(run seckill.RunID) *doubt {
	d := k.doubts[run]
	if d == nil {
		d = &doubt{}
		k.doubts[run] = d
	}
	return d
}

// Begin is called before anybody can buy through this process, and before anything of it
// moves units: whatever run the stock does not have as the database does is held from
// here on, and rebuilt by Run. It takes no longer than a bounded time; what it
// cannot tell until then, Run will.
func (k *Keeper) Begin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beginWithin)
	defer cancel()
	if err := k.FinishRestocks(ctx); err != nil {
		k.o.Log.Warn("keeper: restocks are finished later", "error", err)
	}
	places := make(chan struct{}, beginAtOnce)
	var checks sync.WaitGroup
	for _, a := range k.o.Registry.Activities() {
		if a.Phase != seckill.PhaseLoaded || !k.wants(a, time.Now()) {
			continue
		}
		k.mu.Lock()
		k.doubt(a.RunID()).open = true
		k.mu.Unlock()
		places <- struct{}{}
		checks.Go(func() {
			defer func() { <-places }()
			if err := k.begin(ctx, a); err != nil {
				k.o.Log.Warn("keeper: a run cannot be checked yet", "activity", a.ID, "run", a.Run, "error", err)
			}
		})
	}
	checks.Wait()
	if err := k.o.Registry.Refresh(ctx); err != nil {
		k.o.Log.Warn("keeper: the activities cannot be read anew", "error", err)
	}
}

// begin checks one run, and holds it if it is wrong.
func (k *Keeper) begin(ctx context.Context, a *seckill.Activity) error {
	wrong, err := k.strange(ctx, a)
	if wrong == "" && err == nil {
		wrong, err = k.wrong(ctx, a)
	}
	if wrong == "" {
		return err
	}
	return k.hold(ctx, a, wrong)
}

// hold stops the sale of a run on all nodes until it is rebuilt. The database is the way on which
// they hear of it.
func (k *Keeper) hold(ctx context.Context, a *seckill.Activity, wrong string) error {
	by := k.by
	by.Reason = wrong
	k.o.Log.Warn("keeper: the stock does not have a run as it should; holding it", "activity", a.ID, "run", a.Run, "epoch", a.Epoch, "reason", wrong)
	held, err := k.loader.raise(ctx, *a, seckill.PhaseRebuilding, "activity.hold", by)
	if errors.Is(err, errOvertaken) {
		return nil // Somebody else has seen it, too.
	}
	if err == nil {
		k.began(&held)
	}
	return err
}

// wrong tells why a loaded run has to be rebuilt, "" if it need not, as far as is known.
func (k *Keeper) wrong(ctx context.Context, a *seckill.Activity) (string, error) {
	lost, err := k.lost(ctx, a)
	if err != nil {
		return "", err
	}
	if lost {
		return "the stock lost it, or has it of another epoch", nil
	}
	run := a.RunID()
	k.mu.Lock()
	d := k.doubts[run]
	if k.o.Check == nil || d == nil || !d.open || time.Now().Before(d.next) {
		k.mu.Unlock()
		return "", nil
	}
	tickets := d.tickets
	k.mu.Unlock()
	wrong, sure, err := k.o.Check(ctx, run, tickets)
	if err != nil {
		return "", fmt.Errorf("check the run: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return d.judge(wrong, sure, len(tickets), time.Now()), nil
}

// judge takes in what a check has found, and returns what is wrong if there is to be
// a rebuild now.
func (d *doubt) judge(wrong string, sure bool, tickets int, now time.Time) string {
	if wrong != "" {
		if now.Before(d.again) {
			d.next = d.again
			return ""
		}
		d.again = now.Add(min(rebuildFirst<<min(d.rebuilds, 10), rebuildLast))
		d.rebuilds++
		return wrong
	}
	d.tries++
	d.next = now.Add(min(recheckFirst<<min(d.checks, 10), recheckLast))
	d.checks++
	if sure || d.tries == checksMax {
		d.open, d.tries = len(d.tickets) > tickets, 0 // What came meanwhile is looked at next time.
		d.tickets = d.tickets[min(tickets, len(d.tickets)):]
	}
	return ""
}

// retract is for a look, or a judgement, that could not be carried out: the next one need not wait.
func (d *doubt) retract() { d.again, d.next, d.lookNext = time.Time{}, time.Time{}, time.Time{} }

// believe forgets doubts about a run that was just loaded.
func (k *Keeper) believe(run seckill.RunID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.doubts[run]; d != nil {
		d.open, d.tickets, d.tries, d.checks = false, nil, 0, 0
	}
}

// Restore rebuilds a run that somebody has found wrong, and returns when buyers are let in again.
func (k *Keeper) Restore(ctx context.Context, run seckill.RunID, by seckill.Actor) error {
	seen, _ := k.o.Registry.Activity(run.Activity)
	leave, err := k.occupy(ctx, jobOf(run.Activity))
	if err != nil {
		return err
	}
	defer leave()
	if err := k.o.Registry.Refresh(ctx); err != nil {
		return err
	}
	a, ok := k.o.Registry.Activity(run.Activity)
	switch {
	case !ok:
		return seckill.ErrNotFound
	case a.Run != run.Run || a.Phase != seckill.PhaseLoaded:
		return conflict("the run is not in the stock, or is being rebuilt already")
	}
	if seen != nil && a.Epoch != seen.Epoch {
		return nil // It was rebuilt while this call waited.
	}
	err = k.rebuild(ctx, a, by)
	if errors.Is(err, errOvertaken) {
		return conflict("the activity was changed meanwhile")
	}
	return err
}

// occupy keeps this keeper from running a job until leave is called.
func (k *Keeper) occupy(ctx context.Context, name string) (leave func(), err error) {
	for {
		k.mu.Lock()
		j := k.jobs[name]
		if j == nil {
			j = &job{}
			k.jobs[name] = j
		}
		if !j.running {
			j.running = true
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				j.running = false
				k.mu.Unlock()
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the keeper: %w", ctx.Err())
		case <-time.After(drainEvery):
		}
	}
}
