package activity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"

	"seckill"
	"seckill/stock"
)

// KeeperOptions of a [Keeper].
type KeeperOptions struct {
	Registry *Registry    // Required.
	Store    Store        // Required.
	Stock    keepable     // Required.
	Log      *slog.Logger // Required.

	// Check compares the stock with the database and tells what is wrong with a run, "" for
	// nothing; unless it is sure, the run moved too much to tell. Of doubted tickets the
	// stock is asked one by one. Nil: what the stock says of its runs is believed.
	Check func(ctx context.Context, run seckill.RunID, doubted []string) (wrong string, sure bool, err error)

	// Guards is for a process in which Run does not work: Guard looks at doubts as well then.
	Guards bool

	PulseEvery   time.Duration // Between looks whether a run is where it was loaded. Default 1 s.
	Every        time.Duration // Between looks at all activities. Default 250 ms.
	RestockEvery time.Duration // Between looks for restocks that nobody finished. Default 1 s.
	DropEvery    time.Duration // Between looks for runs that are over for long. Default 1 min.
	Retention    time.Duration // How long the stock remembers a run that is over. Default 168 h.
	ControlEvery time.Duration // Between repetitions of what the stock should know. Default 30 s.
	TakeoverWait time.Duration // How long another's load is left alone, at first. Default 5 s.
	JobTimeout   time.Duration // Of one job. Default 2 min.
	BackoffMax   time.Duration // Between tries of a job that fails. Default 15 s.
}

// keepable is what the keeper needs of the stock.
type keepable interface {
	operable
	Drop(ctx context.Context, run seckill.RunID) error
}

// jobsMax is how many jobs of a keeper run at once.
const jobsMax = 16

// Keeper brings runs into the stock when their time comes, and keeps the stock as the
// database says it has to be. Several keepers may work at once. It sells nothing and
// writes no order.
type Keeper struct {
	o      KeeperOptions
	loader loader
	by     seckill.Actor

	mu     sync.Mutex
	jobs   map[string]*job
	told   map[seckill.RunID]told
	seen   map[int64]*takeover
	doubts map[seckill.RunID]*doubt
	beats  map[seckill.RunID]beats
	busy   int
}

// job is what is remembered of one kind of work between two runs of it.
type job struct {
	running  bool
	failures int
	next     time.Time
}

// told is what the stock was told of a run, and when.
type told struct {
	control stock.Control
	epoch   int64
	at      time.Time
}

// takeover is a load that is under way, perhaps by another keeper.
type takeover struct {
	epoch  int64
	since  time.Time
	others int  // How often somebody else began it anew.
	mine   bool // This keeper may go on with it at once.
}

// NewKeeper makes a keeper.
func NewKeeper(o KeeperOptions) (*Keeper, error) {
	if o.Registry == nil || o.Store == nil || o.Stock == nil || o.Log == nil {
		return nil, errors.New("activity: Registry, Store, Stock and Log are required")
	}
	setDefault(&o.PulseEvery, time.Second)
	setDefault(&o.Every, 250*time.Millisecond)
	setDefault(&o.RestockEvery, time.Second)
	setDefault(&o.DropEvery, time.Minute)
	setDefault(&o.Retention, 168*time.Hour)
	setDefault(&o.ControlEvery, 30*time.Second)
	setDefault(&o.TakeoverWait, 5*time.Second)
	setDefault(&o.JobTimeout, 2*time.Minute)
	setDefault(&o.BackoffMax, 15*time.Second)
	return &Keeper{
		o: o, loader: loader{o.Store, o.Stock}, by: seckill.Actor{Who: "keeper"},
		jobs: map[string]*job{}, told: map[seckill.RunID]told{}, seen: map[int64]*takeover{},
		doubts: map[seckill.RunID]*doubt{}, beats: map[seckill.RunID]beats{},
	}, nil
}

// Run works until ctx ends. Each job is on its own, so that one that is slow or fails
// stops no other.
func (k *Keeper) Run(ctx context.Context) error {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	tick := time.NewTicker(k.o.Every)
	defer tick.Stop()
	for {
		k.start(ctx, &jobs, "restocks", k.o.RestockEvery, k.FinishRestocks)
		k.start(ctx, &jobs, "drop", k.o.DropEvery, k.DropOld)
		activities := k.o.Registry.Activities()
		k.forget(activities)
		for _, a := range activities {
			if k.wants(a, time.Now()) {
				k.start(ctx, &jobs, jobOf(a.ID), 0, func(ctx context.Context) error {
					return k.Tend(ctx, a)
				})
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// jobOf names the job that tends an activity.
func jobOf(id int64) string { return fmt.Sprintf("activity %d", id) }

// start runs a job unless it is running, or was run or failed a short time ago.
func (k *Keeper) start(ctx context.Context, jobs *sync.WaitGroup, name string, every time.Duration, do func(context.Context) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	j := k.jobs[name]
	if j == nil {
		j = &job{}
		k.jobs[name] = j
	}
	if j.running || time.Now().Before(j.next) || k.busy == jobsMax || ctx.Err() != nil {
		return
	}
	j.running = true
	k.busy++
	jobs.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, k.o.JobTimeout)
		defer cancel()
		err := do(ctx)
		k.ended(ctx, name, j, every, err)
	})
}

func (k *Keeper) ended(ctx context.Context, name string, j *job, every time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	j.running = false
	k.busy--
	switch {
	case err == nil:
		if j.failures > 0 {
			k.o.Log.Info("keeper: a job works again", "step", name, "failures", j.failures)
		}
		j.failures = 0
		j.next = time.Now().Add(every)
	case errors.Is(err, errOvertaken):
		// No failure; but whoever was faster needs a moment.
		j.next = time.Now().Add(jitter(k.o.Every))
	case errors.Is(ctx.Err(), context.Canceled):
		// The keeper stops.
	default:
		j.failures++
		j.next = time.Now().Add(max(every, jitter(min(k.o.Every<<min(j.failures, 16), k.o.BackoffMax))))
		if bits.OnesCount(uint(j.failures)) == 1 { // The 1st, 2nd, 4th, 8th …
			k.o.Log.Warn("keeper: a job failed", "step", name, "failures", j.failures, "error", err)
		}
	}
}

// jitter spreads d, so that keepers that failed together do not try together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// forget drops what is remembered of runs and activities that are no more.
func (k *Keeper) forget(activities []*seckill.Activity) {
	if len(activities) == 0 {
		return // Perhaps the registry does not know yet.
	}
	present := make(map[seckill.RunID]bool, len(activities))
	for _, a := range activities {
		present[a.RunID()] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.told, func(run seckill.RunID, _ told) bool { return !present[run] })
	maps.DeleteFunc(k.beats, func(run seckill.RunID, _ beats) bool { return !present[run] })
	maps.DeleteFunc(k.doubts, func(run seckill.RunID, _ *doubt) bool { return !present[run] })
	for _, a := range activities {
		// What this keeper has just begun the registry may not have heard of.
		if t := k.seen[a.ID]; t != nil && a.Epoch >= t.epoch && (a.Phase == seckill.PhaseLoaded || a.Phase == seckill.PhaseClosed) {
			delete(k.seen, a.ID)
		}
	}
}

func preloadDue(a *seckill.Activity, now time.Time) bool {
	return a.Phase == seckill.PhaseScheduled && !now.Before(a.StartsAt.Add(-a.PreloadBefore)) && now.Before(a.EndsAt)
}
