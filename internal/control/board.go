// Package control is the control state of the program on one node: switches, blocks and audiences, as the
// operators have set them in the database. A node has all of it in memory, so that it
// holds while the database, the stock or a broker is away, and no buyer's request waits for
// it. What somebody changes is seen everywhere within a second.
//
// It decides nothing about a purchase: the gate, the order writer and others read the
// [Snapshot] through small interfaces of their own. internal/app runs the [Board], and
// internal/admin changes what is on it.
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"seckill"
	"seckill/internal/telemetry"
)

// Options of a [Board].
type Options struct {
	Store   Store              // Required.
	Log     *slog.Logger       // Required.
	Metrics *telemetry.Metrics // May be nil.

	// RefreshEvery is between looks at the database's versions. Default 250 ms; at most 500 ms, so
	// that a change is seen within a second.
	RefreshEvery time.Duration
	// CallTimeout of one call of the database; of one that reads a whole list, ten times as
	// long. Default 2 s.
	CallTimeout time.Duration
	// SweepEvery is between looks for what has ended. Default 1 minute.
	SweepEvery time.Duration
}

// distrustAfter is how long the database has to be away until it may have been replaced by
// an older copy, whose versions say nothing any more.
const distrustAfter = 10 * time.Second

// Board holds the control state. All methods may be called concurrently.
type Board struct {
	o        Options
	snapshot atomic.Pointer[Snapshot]
	fresh    atomic.Pointer[time.Time] // When the database was last heard; nil if never.

	publishing  sync.Mutex // Held while a snapshot is replaced.
	subscribers []func(*Snapshot)

	refreshing chan struct{} // Holds one token. Guards known, and that reads do not overtake one another.
	known      Versions
	listing    chan struct{} // The same, for lists.
	uploading  chan struct{} // The same, for lists that operators send.
	wanted     wanted
	changes    atomic.Uint64 // How often lists, or whom they are for, have changed in the database.

	nudged    chan struct{} // Wakes the loop that asks the database,
	listed    chan struct{} // the one that reads lists,
	scheduled chan struct{} // and the one that goes by the clock.

	automatic automatic
	database  outage
	lists     outage
}

// New makes a board on which everything has its default until it is refreshed.
func New(o Options) (*Board, error) {
	if o.Store == nil || o.Log == nil {
		return nil, errors.New("control: Store and Log are required")
	}
	setDefault(&o.RefreshEvery, 250*time.Millisecond)
	setDefault(&o.CallTimeout, 2*time.Second)
	setDefault(&o.SweepEvery, time.Minute)
	if o.RefreshEvery > 500*time.Millisecond {
		return nil, fmt.Errorf("control: RefreshEvery is %v, at most 500ms", o.RefreshEvery)
	}
	token := func() chan struct{} { return make(chan struct{}, 1) }
	b := &Board{
		o: o, refreshing: token(), listing: token(), uploading: token(),
		nudged: token(), listed: token(), scheduled: token(),
		database: outage{log: o.Log, what: "the control state cannot be refreshed"},
		lists:    outage{log: o.Log, what: "audiences cannot be read"},
	}
	b.automatic.arrived = token()
	first := &Snapshot{blocks: &blocks{}, audiences: map[int64]*audience{}}
	first.settle(time.Now())
	b.snapshot.Store(first)
	b.measure(first)
	return b, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Snapshot is what this node knows now.
func (b *Board) Snapshot() *Snapshot { return b.snapshot.Load() }

// Switches is what holds now.
func (b *Board) Switches() seckill.Switches { return b.Snapshot().Switches }

// Stale is how long ago the database was last heard; a snapshot is as old as that. It is a
// fraction of a second while all is well.
func (b *Board) Stale() time.Duration {
	if heard := b.fresh.Load(); heard != nil {
		return time.Since(*heard)
	}
	return 1<<63 - 1
}

// Subscribe has f told of each new snapshot. f must not block, nor call the board. To
// be called before Run.
func (b *Board) Subscribe(f func(*Snapshot)) {
	b.publishing.Lock()
	defer b.publishing.Unlock()
	b.subscribers = append(b.subscribers, f)
}

// Run keeps the board fresh until ctx ends.
func (b *Board) Run(ctx context.Context) error {
	// Three loops: a database that hangs must not keep a plan from its time, nor a list that takes
	// seconds to read keep a switch from being seen.
	var loops sync.WaitGroup
	loops.Go(func() { b.databaseLoop(ctx) })
	loops.Go(func() { b.listLoop(ctx) })
	loops.Go(func() { b.clockLoop(ctx) })
	loops.Wait()
	return nil
}

// Refresh reads all that has changed. When it returns nil, whatever was committed before
// the call is seen, lists included.
func (b *Board) Refresh(ctx context.Context) error {
	if err := b.refresh(ctx); err != nil {
		return err
	}
	return b.readLists(ctx)
}

func (b *Board) databaseLoop(ctx context.Context) {
	tick := time.NewTicker(b.o.RefreshEvery)
	defer tick.Stop()
	swept := time.Now()
	for {
		err := b.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil && time.Since(swept) >= b.o.SweepEvery {
			swept = time.Now()
			err = b.within(ctx, 10, b.o.Store.SweepBlocks)
		}
		if ctx.Err() != nil {
			return
		}
		b.database.note(err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-b.nudged:
		}
	}
}

// once brings the database and this node together.
func (b *Board) once(ctx context.Context) error {
	// What cannot be written must not keep the rest from being read.
	written, wrote := b.writeAutomatic(ctx)
	if err := b.refresh(ctx); err != nil || wrote != nil {
		return errors.Join(wrote, err)
	}
	if b.automatic.done(written) {
		wake(b.nudged)
	}
	if !b.Snapshot().due {
		return nil
	}
	if err := b.within(ctx, 1, b.o.Store.FoldPlans); err != nil {
		return err
	}
	return b.refresh(ctx)
}

// within calls the database, and waits for so many times the usual.
func (b *Board) within(ctx context.Context, times int, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(times)*b.o.CallTimeout)
	defer cancel()
	return call(ctx)
}

// refresh reads what has changed of switches and blocks.
func (b *Board) refresh(ctx context.Context) error {
	if err := lock(ctx, b.refreshing); err != nil {
		return fmt.Errorf("wait for another refresh: %w", err)
	}
	defer unlock(b.refreshing)
	asked := time.Now()
	var v Versions
	err := b.within(ctx, 1, func(ctx context.Context) (err error) {
		v, err = b.o.Store.ControlVersions(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read versions: %w", err)
	}
	all := b.Stale() > distrustAfter
	if all || v.Switches != b.known.Switches {
		if err := b.readSwitches(ctx); err != nil {
			return fmt.Errorf("read switches: %w", err)
		}
		b.known.Switches = v.Switches
	}
	// A version that goes back is a database that was restored.
	if allBlocks := all || v.Blocks < b.known.Blocks || v.BlockFloor > b.known.Blocks; allBlocks || v.Blocks != b.known.Blocks {
		if err := b.readBlocks(ctx, allBlocks); err != nil {
			return fmt.Errorf("read blocks: %w", err)
		}
		b.known.Blocks = v.Blocks
	}
	if v.Activities != b.known.Activities || v.Audiences != b.known.Audiences {
		b.known.Activities, b.known.Audiences = v.Activities, v.Audiences
		// There may be a list now where there was none: until that is read, nobody hears a definite no.
		b.changes.Add(1)
		if len(b.Snapshot().listless) > 0 {
			b.publish(func(s *Snapshot) { s.listless = nil })
		}
		wake(b.listed)
	}
	b.fresh.Store(&asked)
	return nil
}

func (b *Board) readSwitches(ctx context.Context) error {
	var states []seckill.SwitchState
	err := b.within(ctx, 1, func(ctx context.Context) (err error) {
		states, err = b.o.Store.Switches(ctx)
		return err
	})
	if err != nil {
		return err
	}
	b.publish(func(s *Snapshot) { s.states = states })
	wake(b.scheduled) // There may be a plan.
	return nil
}

func (b *Board) readBlocks(ctx context.Context, all bool) error {
	version := b.known.Blocks
	if all {
		version = -1
	}
	changes := map[key]*Block{}
	gone := map[key]int64{}
	err := b.within(ctx, 10, func(ctx context.Context) error {
		return b.o.Store.BlocksAfter(ctx, version, func(read seckill.Block, removed bool) {
			k := key{read.Kind, read.Value}
			if !removed {
				changes[k] = &Block{ID: read.ID, Kind: read.Kind, Until: read.Until, value: read.Value, automatic: read.Automatic}
				return
			}
			// One that takes the place of a removed block may be read before it.
			gone[k] = max(gone[k], read.ID)
		})
	})
	if err != nil {
		return err
	}
	b.publish(func(s *Snapshot) {
		was := s.blocks
		if all {
			was = &blocks{}
		}
		for k, id := range gone {
			if _, there := changes[k]; !there {
				if have := was.get(k); have != nil && have.ID <= id {
					changes[k] = nil
				}
			}
		}
		s.blocks = b.automatic.onTop(was.with(changes), all)
	})
	return nil
}

// publish replaces the snapshot by one that change has altered.
func (b *Board) publish(change func(*Snapshot)) {
	b.publishing.Lock()
	defer b.publishing.Unlock()
	next := *b.snapshot.Load()
	change(&next)
	next.settle(time.Now())
	b.snapshot.Store(&next)
	b.measure(&next)
	for _, f := range b.subscribers {
		f(&next)
	}
}

func (b *Board) measure(s *Snapshot) {
	m := b.o.Metrics
	if m == nil {
		return
	}
	on := map[bool]float64{true: 1}
	m.Switches.WithLabelValues(seckill.SwitchIntake).Set(on[s.Switches.Intake])
	m.Switches.WithLabelValues(seckill.SwitchConsumers).Set(on[s.Switches.Consumers])
	m.Switches.WithLabelValues(seckill.SwitchChallenge).Set(on[s.Switches.Challenge])
	m.Switches.WithLabelValues(seckill.SwitchAdmissionPercent).Set(float64(s.Switches.AdmissionPercent))
	for kind, n := range s.Blocks() {
		m.Blocks.WithLabelValues(string(kind)).Set(float64(n))
	}
}

// clockLoop does what is due by the clock, and what this node itself has found out. It
// never waits for the database.
func (b *Board) clockLoop(ctx context.Context) {
	sweep := time.NewTicker(b.o.SweepEvery)
	defer sweep.Stop()
	plan := time.NewTimer(time.Hour)
	defer plan.Stop()
	for {
		// Not later than a minute from now, as a clock may be set.
		wait := time.Minute
		if next := b.Snapshot().next; !next.IsZero() {
			wait = min(wait, time.Until(next))
		}
		plan.Reset(max(wait, time.Millisecond))
		select {
		case <-ctx.Done():
			return
		case <-b.scheduled:
		case <-plan.C:
			if next := b.Snapshot().next; !next.IsZero() && !next.After(time.Now()) {
				b.publish(func(*Snapshot) {})
				wake(b.nudged) // So that it is carried out in the database.
			}
		case <-sweep.C:
			b.sweep()
		case <-b.automatic.arrived:
			b.takeAutomatic()
			// Many at once cost one snapshot.
			if !pause(ctx, 10*time.Millisecond) {
				return
			}
		}
	}
}

// sweep forgets blocks that are over.
func (b *Board) sweep() {
	old := b.Snapshot().blocks
	// Not under the lock, as there may be many. If they change meanwhile, another sweep will come.
	if left := old.withoutOver(time.Now()); left != nil {
		b.publish(func(s *Snapshot) {
			if s.blocks == old {
				s.blocks = left
			}
		})
	}
}

// setAudience publishes one list; nil takes it away.
func (b *Board) setAudience(activity int64, a *audience) {
	b.publish(func(s *Snapshot) {
		s.audiences = maps.Clone(s.audiences)
		if a == nil {
			delete(s.audiences, activity)
		} else {
			s.audiences[activity] = a
		}
	})
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
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

// pause waits, and tells whether ctx lasts.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

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
		o.log.Warn("control: an outage began", "step", o.what, "error", err)
	case err == nil && !o.since.IsZero():
		o.log.Info("control: an outage is over", "step", o.what, "lasted", time.Since(o.since))
		o.since = time.Time{}
	}
}
