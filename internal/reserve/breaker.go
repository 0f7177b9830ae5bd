package reserve

import (
	"context"
	"maps"
	"runtime"
	"strconv"
	"sync"
	"time"

	"seckill"
)

// busy is what a buyer hears who is not let through. It is shared, and nobody changes it.
var busy = seckill.Refuse(seckill.Busy)

// Run watches the calls of the stock, and asks it whether it answers again when it did not,
// until ctx ends. Without Run nobody is refused for the stock's sake.
func (r *Reserver) Run(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	tick := time.NewTicker(r.options.WatchEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// A timer's goroutine is soon on. One that comes back from a disk or a network stands behind all others
			// that want a processor, and so does this one now.
			runtime.Gosched()
			now := time.Now()
			r.late(now.Sub(last))
			last = now
			r.watch(&r.others, nil, seckill.RunID{}, now)
			r.probe(ctx, &probes, &r.others, seckill.RunID{}, now)
			for run, l := range r.present() {
				r.watch(&l.guard, l, run, now)
				r.probe(ctx, &probes, &l.guard, run, now)
			}
		}
	}
}

// late takes in how long the last look was ago. A look that comes late tells that this process did not run, and
// so neither did what waits for the stock's answers.
func (r *Reserver) late(since time.Duration) {
	if since > 2*r.options.WatchEvery {
		r.lost.Add(int64(since - r.options.WatchEvery))
	}
}

// present is the lanes there are.
func (r *Reserver) present() map[seckill.RunID]*lane {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return maps.Clone(r.lanes)
}

// watch opens a guard if it has to be, and sends those away who wait behind it: they were not
// sent to the stock, so that is a definite no.
func (r *Reserver) watch(g *guard, l *lane, run seckill.RunID, now time.Time) {
	if change, changed := g.watch(now); changed {
		r.tell(run, change)
	}
	if l != nil && g.open.Load() {
		l.sendAway()
	}
}

// probe asks the stock something that costs it little, about a ticket that nobody has. Each
// time it is another buyer's, so that each part of a cluster is asked in turn.
func (r *Reserver) probe(ctx context.Context, probes *sync.WaitGroup, g *guard, run seckill.RunID, now time.Time) {
	if !g.mayProbe(now) {
		return
	}
	r.asked++
	buyer, ticket := "probe-"+strconv.Itoa(r.asked), seckill.NewTicket(run)
	probes.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, r.options.ProbeTimeout)
		defer cancel()
		_, err := r.stock.Outcome(ctx, buyer, ticket)
		if change, changed := g.hear(err); changed {
			r.tell(run, change)
		}
	})
}

// tell tells operators of a change: at once of the first, and then not of each if they come
// one upon the other.
func (r *Reserver) tell(run seckill.RunID, s State) {
	if s.Open {
		r.metrics.StockOpened.Inc()
		r.metrics.StockSilent.Inc()
	} else {
		r.metrics.StockSilent.Dec()
	}
	if r.options.OnChange != nil {
		r.options.OnChange(run, s)
	}
	r.mu.Lock()
	changes := r.changes + 1
	loud := !s.Since.Before(r.quietUntil) || !s.Open && r.loud
	if loud {
		r.changes, r.quietUntil = 0, s.Since.Add(r.options.QuietFor)
	} else {
		r.changes = changes
	}
	if s.Open {
		r.loud = loud // Whoever heard of the beginning hears of the end.
	}
	r.mu.Unlock()
	switch {
	case !loud:
	case s.Open:
		r.options.Log.Warn("the stock does not answer: purchases are refused as busy",
			"activity", run.Activity, "run", run.Run, "reason", s.Reason, "changes", changes)
	default:
		r.options.Log.Info("the stock answers again: purchases are let through", "activity", run.Activity, "run", run.Run)
	}
}

// State of the way to the stock: open if it is for any run, then since the first of them.
func (r *Reserver) State() State {
	worst := r.others.now()
	for _, l := range r.present() {
		s := l.guard.now()
		switch {
		case s.Open && (!worst.Open || s.Since.Before(worst.Since)):
			worst = s
		case !s.Open && !worst.Open && s.Since.After(worst.Since):
			worst = s
		}
	}
	return worst
}

// Outcome of a buyer's ticket, as the stock tells it; refused as busy, at once, while that
// does not answer.
func (r *Reserver) Outcome(ctx context.Context, buyer, ticket string) (seckill.Outcome, error) {
	g := r.guardOf(ticket)
	if g.open.Load() {
		return seckill.Outcome{}, busy
	}
	c := g.begin(false)
	o, err := r.stock.Outcome(ctx, buyer, ticket)
	if change, changed := g.end(c, err); changed {
		run, _ := seckill.TicketRun(ticket)
		r.tell(run, change)
	}
	return o, err //nolint:wrapcheck // It stands for the stock.
}

// guardOf is the guard of a ticket's run if anybody has bought in it here. Callers may make up
// any run, so the others share one.
func (r *Reserver) guardOf(ticket string) *guard {
	run, _ := seckill.TicketRun(ticket)
	r.mu.RLock()
	defer r.mu.RUnlock()
	if l := r.lanes[run]; l != nil {
		return &l.guard
	}
	return &r.others
}
