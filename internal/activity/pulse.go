package activity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill"
	"seckill/stock"
)

const (
	guardsMax   = 16              // Runs that are looked at at once.
	pulseWithin = 3 * time.Second // How long a pulse may take.

	// An older state lacks what happened last. So of a run that may be older, those orders are
	// looked up that are younger than recentFor, and at least recentLeast of them.
	recentFor   = 2 * time.Minute
	recentLeast = 1000
	recentMost  = 50_000
	asksMax     = 32 // Questions to the stock at once.

	// Between two such looks at a run: doubled each time, up to a bound.
	lookFirst, lookLast = time.Second, time.Minute
)

// pulser is a stock that may come back in an older state than buyers were told of, without
// anything missing at first sight, and that can tell. Drivers that cannot be in that
// state while the process runs need not be one.
type pulser interface {
	// Pulse tells why a run may be an older one, "" if nothing is known. beats rise with
	// each call, of any process; 0 is unknown. stock.ErrNotLoaded if the run is not there.
	Pulse(ctx context.Context, run seckill.RunID, epoch int64) (beats []int64, strange string, err error)
	// Trust has Pulse find nothing strange in what the run is like now.
	Trust(ctx context.Context, run seckill.RunID, epoch int64) error
	Outcome(ctx context.Context, buyer, ticket string) (seckill.Outcome, error)
}

// beats is what was last heard of a run's load.
type beats struct {
	epoch int64
	each  []int64
}

// Guard looks every second, until ctx ends, whether each run is still what it was when it was
// loaded, and has it held if not: by a gateway as well, which is all that is left when no
// worker runs. A worker then rebuilds it.
func (k *Keeper) Guard(ctx context.Context) error {
	tick := time.NewTicker(k.o.PulseEvery)
	defer tick.Stop()
	// One line when it begins and one when it is over: the stock's absence is told elsewhere as well.
	failing := outage{log: k.o.Log, what: "runs cannot be guarded"}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err := k.look(ctx, true)
			if ctx.Err() == nil {
				failing.note(err)
			}
		}
	}
}

// Look is one round of Guard, for a process that starts.
func (k *Keeper) Look(ctx context.Context) error { return k.look(ctx, false) }

func (k *Keeper) look(ctx context.Context, patient bool) error {
	places := make(chan struct{}, guardsMax)
	var looks sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, a := range k.o.Registry.Activities() {
		if a.Phase != seckill.PhaseLoaded || !time.Now().Before(a.EndsAt) {
			continue
		}
		places <- struct{}{}
		looks.Go(func() {
			defer func() { <-places }()
			if err := k.guard(ctx, a, patient); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("activity %d, run %d: %w", a.ID, a.Run, err))
			}
		})
	}
	looks.Wait()
	return errors.Join(errs...)
}

func (k *Keeper) guard(ctx context.Context, a *seckill.Activity, patient bool) error {
	ctx, cancel := context.WithTimeout(ctx, k.o.JobTimeout)
	defer cancel()
	wrong, err := k.strange(ctx, a)
	if wrong == "" && err == nil && k.o.Guards {
		wrong, err = k.wrong(ctx, a)
	}
	if wrong == "" {
		return err
	}
	if patient && k.o.Guards {
		// A worker sees the same, and goes on to rebuild at once if it was the first.
		select {
		case <-time.After(k.o.PulseEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := k.hold(ctx, a, wrong); err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.doubt(a.RunID()).retract()
		return err
	}
	k.o.Registry.Nudge()
	return nil
}

// strange tells why a run in the stock is an older one, "" if nothing is known.
func (k *Keeper) strange(ctx context.Context, a *seckill.Activity) (wrong string, err error) {
	p, ok := k.o.Stock.(pulser)
	if !ok {
		return "", nil
	}
	short, cancel := context.WithTimeout(ctx, pulseWithin)
	defer cancel()
	each, why, err := p.Pulse(short, a.RunID(), a.Epoch)
	switch {
	case errors.Is(err, stock.ErrNotLoaded):
		return "", nil // That is seen by who compares levels.
	case err != nil:
		return "", fmt.Errorf("feel the stock's pulse: %w", err)
	}
	if why == "" {
		why = k.fellBack(a, each)
	}
	if why == "" || !k.mayLook(a.RunID(), time.Now()) {
		return "", nil
	}
	k.o.Log.Warn("keeper: the stock may be an older one; looking up the latest orders in it",
		"activity", a.ID, "run", a.Run, "epoch", a.Epoch, "reason", why)
	wrong, err = k.missing(ctx, a, p)
	if err == nil && wrong == "" {
		err = p.Trust(ctx, a.RunID(), a.Epoch)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.doubt(a.RunID())
	switch {
	case err != nil:
		d.retract()
		return "", fmt.Errorf("look for what the stock has lost: %w", err)
	case wrong != "":
		return d.judge(why+", and "+wrong, true, 0, time.Now()), nil
	}
	k.beats[a.RunID()] = beats{a.Epoch, each}
	// What is lost besides orders, the sums tell; they are compared as after a start.
	d.open = true
	return "", nil
}

// fellBack tells whether a run was felt less often than this process knows of, and notes what
// it is at now if not.
func (k *Keeper) fellBack(a *seckill.Activity, each []int64) (why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := k.beats[a.RunID()]
	if last.epoch != a.Epoch || len(last.each) != len(each) {
		last = beats{a.Epoch, make([]int64, len(each))}
	}
	for i, n := range each {
		if n != 0 && n < last.each[i] {
			return fmt.Sprintf("sub-stock %d is as it was %d looks ago", i, last.each[i]-n)
		}
	}
	k.beats[a.RunID()] = beats{a.Epoch, each}
	return ""
}

// mayLook tells whether orders of a run may be looked up again: behind some proxies, each call
// meets another server.
func (k *Keeper) mayLook(run seckill.RunID, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.doubt(run)
	if now.Before(d.lookNext) {
		return false
	}
	d.lookNext = now.Add(min(lookFirst<<min(d.looks, 10), lookLast))
	d.looks++
	return true
}

// missing tells which of the latest orders of a run the stock does not know, "" for none.
func (k *Keeper) missing(ctx context.Context, a *seckill.Activity, p pulser) (wrong string, err error) {
	latest, err := k.latest(ctx, a.RunID())
	if err != nil {
		return "", err
	}
	var asks sync.WaitGroup
	var mu sync.Mutex
	var unknown []string
	next := make(chan seckill.Order)
	for range min(asksMax, len(latest)) {
		asks.Go(func() {
			for o := range next {
				_, e := p.Outcome(ctx, o.Buyer, o.Ticket)
				mu.Lock()
				switch {
				case errors.Is(e, seckill.ErrNotFound):
					unknown = append(unknown, o.Ticket)
				case e != nil && err == nil:
					err = fmt.Errorf("look up order %s in the stock: %w", o.ID, e)
				}
				mu.Unlock()
			}
		})
	}
	for _, o := range latest {
		next <- o
	}
	close(next)
	asks.Wait()
	if len(unknown) == 0 {
		return "", err
	}
	if k.o.Check == nil {
		return fmt.Sprintf("the stock does not know %d of the latest orders", len(unknown)), nil
	}
	// It knows whether they have ended meanwhile.
	wrong, _, err = k.o.Check(ctx, a.RunID(), unknown[:min(len(unknown), doubtedMax)])
	if err != nil {
		return "", fmt.Errorf("check the run: %w", err)
	}
	return wrong, nil
}

// latest is the latest orders that hold units of a run.
func (k *Keeper) latest(ctx context.Context, run seckill.RunID) (latest []seckill.Order, err error) {
	for after := ""; ; {
		page, err := k.o.Store.LiveOrders(ctx, run, after, heldPage)
		if err != nil {
			return nil, fmt.Errorf("read live orders: %w", err)
		}
		latest = append(latest, page...)
		old := time.Now().Add(-recentFor)
		drop := 0
		for len(latest)-drop > recentLeast && (latest[drop].CreatedAt.Before(old) || len(latest)-drop > recentMost) {
			drop++
		}
		latest = append(latest[:0], latest[drop:]...)
		if len(page) < heldPage {
			return latest, nil
		}
		after = page[len(page)-1].ID
	}
}
