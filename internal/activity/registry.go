package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill"
	"seckill/stock"
)

// RegistryOptions of a [Registry].
type RegistryOptions struct {
	Store Store        // Required.
	Stock leveller     // Required.
	Log   *slog.Logger // Required.

	// OnLevel hears of each reading of a run's level, so that what others remember
	// of it (that it is sold out) can be put right. It must not block. May be nil.
	OnLevel func(run seckill.RunID, level stock.Level)

	RefreshEvery time.Duration // Between looks at the database's version. Default 500 ms.
	LevelEvery   time.Duration // Between readings of the levels. Default 250 ms.
	CallTimeout  time.Duration // Of one call of the database or the stock. Default 5 s.
}

// leveller is what the registry needs of the stock.
type leveller interface {
	Level(ctx context.Context, run seckill.RunID) (stock.Level, error)
}

// Registry is what this node knows of all activities. Reading it takes no lock and never
// leaves the process; it is at most a second behind the database, and keeps what it
// has while that is away.
type Registry struct {
	o        RegistryOptions
	snapshot atomic.Pointer[snapshot]
	levels   atomic.Pointer[map[seckill.RunID]stock.Level]

	refreshing chan struct{} // Holds one token: snapshots and levels must not overtake one another.
	levelling  chan struct{}
	nudged     chan struct{}

	dirtyMu sync.Mutex
	dirty   map[seckill.RunID]bool // Runs whose level is to be read at once.
	woken   chan struct{}

	database, stocks outage
}

// snapshot is all activities at one version. It is never changed.
type snapshot struct {
	version int64
	list    []*seckill.Activity
	byID    map[int64]*seckill.Activity
}

// NewRegistry makes a registry that knows nothing until it is refreshed.
func NewRegistry(o RegistryOptions) (*Registry, error) {
	if o.Store == nil || o.Stock == nil || o.Log == nil {
		return nil, errors.New("activity: Store, Stock and Log are required")
	}
	setDefault(&o.RefreshEvery, 500*time.Millisecond)
	setDefault(&o.LevelEvery, 250*time.Millisecond)
	setDefault(&o.CallTimeout, 5*time.Second)
	r := &Registry{
		o:          o,
		refreshing: make(chan struct{}, 1),
		levelling:  make(chan struct{}, 1),
		nudged:     make(chan struct{}, 1),
		dirty:      map[seckill.RunID]bool{},
		woken:      make(chan struct{}, 1),
		database:   outage{log: o.Log, what: "activities cannot be refreshed"},
		stocks:     outage{log: o.Log, what: "levels cannot be read"},
	}
	r.levels.Store(&map[seckill.RunID]stock.Level{})
	return r, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Loaded tells whether the activities were ever read.
func (r *Registry) Loaded() bool { return r.snapshot.Load() != nil }

// Activity by id. What is returned is shared, and must not be changed.
func (r *Registry) Activity(id int64) (*seckill.Activity, bool) {
	s := r.snapshot.Load()
	if s == nil {
		return nil, false
	}
	a, ok := s.byID[id]
	return a, ok
}

// Activities returns all of them, by id. What is returned is shared, and must not be changed.
func (r *Registry) Activities() []*seckill.Activity {
	if s := r.snapshot.Load(); s != nil {
		return s.list
	}
	return nil
}

// Level of a run that is in the stock, as it was last read.
func (r *Registry) Level(run seckill.RunID) (stock.Level, bool) {
	l, ok := (*r.levels.Load())[run]
	return l, ok
}

// Available units of a run that is in the stock, as they were last read.
func (r *Registry) Available(run seckill.RunID) (int64, bool) {
	l, ok := r.Level(run)
	return l.Available, ok
}

// Run keeps the registry fresh until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	// Two loops, so that a database that hangs does not keep the levels from being read.
	var loops sync.WaitGroup
	loops.Go(func() { r.refreshLoop(ctx) })
	loops.Go(func() { r.levelLoop(ctx) })
	loops.Wait()
	return nil
}

func (r *Registry) refreshLoop(ctx context.Context) {
	tick := time.NewTicker(r.o.RefreshEvery)
	defer tick.Stop()
	for {
		err := r.refreshOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		r.database.note(err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.nudged:
		}
	}
}

func (r *Registry) refreshOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.CallTimeout)
	defer cancel()
	return r.Refresh(ctx)
}

// Nudge asks for a refresh soon. It does not block.
func (r *Registry) Nudge() { wake(r.nudged) }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Refresh reads the activities anew if the database has another version than this node. When
// it returns nil, whatever was committed before the call is seen.
func (r *Registry) Refresh(ctx context.Context) error {
	if err := lock(ctx, r.refreshing); err != nil {
		return fmt.Errorf("wait for another refresh: %w", err)
	}
	defer unlock(r.refreshing)
	version, err := r.o.Store.Version(ctx)
	if err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	// Another version, not a higher one: a database that was restored goes back.
	if s := r.snapshot.Load(); s != nil && s.version == version {
		return nil
	}
	list, version, err := r.o.Store.Activities(ctx)
	if err != nil {
		return fmt.Errorf("read activities: %w", err)
	}
	r.publish(version, list)
	return nil
}

// publish makes a snapshot the present one.
func (r *Registry) publish(version int64, list []seckill.Activity) {
	s := &snapshot{version, make([]*seckill.Activity, len(list)), make(map[int64]*seckill.Activity, len(list))}
	for i := range list {
		s.list[i] = &list[i]
		s.byID[list[i].ID] = &list[i]
	}
	r.snapshot.Store(s)
	// A run that was just loaded shows its units without waiting for the next reading.
	wake(r.woken)
}

// learn takes in a change of this node's own that is in the database, but could not be
// read back since. The version stays, so that the next refresh reads everything.
func (r *Registry) learn(a seckill.Activity) {
	r.refreshing <- struct{}{} // Bounded: whoever holds it has a context that ends.
	defer unlock(r.refreshing)
	old := r.snapshot.Load()
	if old == nil {
		return
	}
	list := make([]seckill.Activity, 0, len(old.list)+1)
	for _, have := range old.list {
		if have.ID != a.ID {
			list = append(list, *have)
		}
	}
	list = append(list, a)
	slices.SortFunc(list, func(a, b seckill.Activity) int { return cmp.Compare(a.ID, b.ID) })
	r.publish(old.version, list)
}

// lock takes the one token of a mutex that can be waited for no longer than ctx lasts.
func lock(ctx context.Context, mutex chan struct{}) error {
	select {
	case mutex <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func unlock(mutex chan struct{}) { <-mutex }

// outage logs the first of many failures of one kind, and its end.
type outage struct {
	log   *slog.Logger
	what  string
	since time.Time
}

func (o *outage) note(err error) {
	switch {
	case err != nil && o.since.IsZero():
		o.since = time.Now()
		o.log.Warn("activity: an outage began", "step", o.what, "error", err)
	case err == nil && !o.since.IsZero():
		o.log.Info("activity: an outage is over", "step", o.what, "lasted", time.Since(o.since))
		o.since = time.Time{}
	}
}
