// Package embedded is the stock inside this process: decisions in memory, each of
// them in a file, with fsync, before anybody hears of it. One process owns the
// file; a second one is told so.
//
// It is not a queue for others nor a database of orders: it forgets a run when it
// is dropped. It is also the readable specification that the Redis driver is
// compared with.
//
// How a call goes: under one lock it decides, changes the memory and appends an
// entry to the log's pending part; then it waits until the committer has written
// that part, and everything that the decision saw. A batch forms while the one
// before is being written, so there are no timers and no waiting when idle.
//
// internal/app opens it; nothing else knows it.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"seckill"
	"seckill/queue"
	"seckill/stock"
)

// FinishedMax is how many finished purchases (failed, cancelled, expired) a buyer's
// record keeps, for outcomes and idempotency keys. Older ones are forgotten.
const FinishedMax = 16

// watchBuffer is how many events a watcher may be behind.
const watchBuffer = 8192

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("the embedded stock is closed")

// Options of an engine.
type Options struct {
	// Path of the file; its folder is made if need be. "" keeps everything in memory
	// only, and loses it on Close.
	Path string
	// Now is the clock of starts and ends. Default: the wall clock at the time of
	// Open, advanced by the monotonic clock, so that setting the machine's clock opens
	// no sale early.
	Now func() time.Time
	// Log hears of a log that cannot be written, and of its recovery. Default: nothing is logged.
	Log *slog.Logger
	// PendingBytesMax bounds what waits for the disk; beyond it calls fail at once.
	// Default 64 MiB.
	PendingBytesMax int
	// CompactBytesMin is the least size of a run's log that is compacted. Default 16 MiB.
	CompactBytesMin int64
}

// Engine is an embedded stock.
type Engine struct {
	now        func() time.Time
	log        *slog.Logger
	store      storage
	pendingMax int
	compactMin int64

	kick    chan struct{} // Tells the committer that something is pending.
	upkeep  chan struct{} // Tells the maintainer that something may be due.
	closing chan struct{} // Closed when Close begins.
	stopped chan struct{} // Closed when nothing will be written any more.
	workers sync.WaitGroup
	closed  sync.Once
	lost    error // What Close could not write. Read after stopped.

	bindMu sync.Mutex
	bound  string // The database that the stock belongs to, once it is known.

	mu      sync.Mutex
	ending  bool
	failure error // Why the last commit failed; nil while commits succeed.
	streams map[seckill.RunID]*stream
	logged  uint64 // Sequence number of the last entry.
	durable uint64 // All entries up to it are on disk.
	pending *batch // What the next commit writes.
	flight  *batch // What is being written; nil when nothing is.
	waiting int    // Bytes of entries in pending and flight.
	outbox  outbox
	watch   watchers
}

// Open opens the file, or makes it, and replays it.
func Open(ctx context.Context, o Options) (*Engine, error) {
	var store storage = volatile{}
	if o.Path != "" {
		file, err := openFile(ctx, o.Path)
		if err != nil {
			return nil, err
		}
		store = file
	}
	e, err := open(ctx, o, store)
	if err != nil {
		return nil, errors.Join(err, store.close())
	}
	e.workers.Go(e.commit)
	e.workers.Go(e.maintain)
	signal(e.upkeep)
	return e, nil
}

// open is Open on any storage, which it owns once it has succeeded, without the two
// goroutines.
func open(ctx context.Context, o Options, store storage) (*Engine, error) {
	e := &Engine{
		now: o.Now, log: o.Log, store: store,
		pendingMax: o.PendingBytesMax, compactMin: o.CompactBytesMin,
		kick: make(chan struct{}, 1), upkeep: make(chan struct{}, 1),
		closing: make(chan struct{}), stopped: make(chan struct{}),
		streams: map[seckill.RunID]*stream{},
		pending: newBatch(),
		watch:   watchers{},
	}
	e.outbox.subs = map[*subscription]struct{}{}
	if e.now == nil {
		start := time.Now()
		e.now = func() time.Time { return start.Add(time.Since(start)) }
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.pendingMax <= 0 {
		e.pendingMax = 64 << 20
	}
	if e.compactMin <= 0 {
		e.compactMin = 16 << 20
	}
	if err := e.recover(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// Close writes what is pending, ends all subscriptions and watches, and closes the
// file. Calls that still wait fail if the file cannot be written.
func (e *Engine) Close() error {
	e.closed.Do(func() {
		e.mu.Lock()
		e.ending = true
		e.mu.Unlock()
		close(e.closing)
		e.workers.Wait()
		e.lost = errors.Join(e.lost, e.store.close())
		close(e.stopped)
	})
	<-e.stopped
	return e.lost
}

// ready says why nothing can be changed now. The lock is held.
func (e *Engine) ready() error {
	switch {
	case e.ending:
		return ErrClosed
	case e.failure != nil:
		return fmt.Errorf("the stock's log cannot be written: %w", e.failure)
	case e.waiting > e.pendingMax:
		return fmt.Errorf("%d bytes wait for the disk, more than %d", e.waiting, e.pendingMax)
	}
	return nil
}

// covering returns the batch that makes everything up to lsn durable, nil if
// it is. The lock is held.
func (e *Engine) covering(lsn uint64) *batch {
	switch {
	case lsn <= e.durable:
		return nil
	case e.flight != nil && lsn <= e.flight.lsn:
		return e.flight
	}
	return e.pending
}

// wait returns once the batch is durable.
func (e *Engine) wait(ctx context.Context, b *batch) error {
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
		return nil
	default:
	}
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the stock's log: %w", context.Cause(ctx))
	case <-e.stopped:
	}
	select {
	case <-b.done:
		return nil
	default:
		return ErrClosed
	}
}

// read runs look under the lock, and returns once all that it saw is durable. What
// is not durable is not waited for while the log cannot be written.
func (e *Engine) read(ctx context.Context, look func() (lsn uint64, err error)) error {
	e.mu.Lock()
	if e.ending {
		e.mu.Unlock()
		return ErrClosed
	}
	lsn, answer := look()
	b, failure := e.covering(lsn), e.failure
	e.mu.Unlock()
	if b != nil && failure != nil {
		return fmt.Errorf("the stock's log cannot be written: %w", failure)
	}
	if err := e.wait(ctx, b); err != nil {
		return err
	}
	return answer
}

// change is read for what changes something.
func (e *Engine) change(ctx context.Context, do func() (lsn uint64, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	if err := e.ready(); err != nil {
		e.mu.Unlock()
		return err
	}
	lsn, answer := do()
	b := e.covering(lsn)
	e.mu.Unlock()
	if err := e.wait(ctx, b); err != nil {
		return err
	}
	return answer
}

// lookup returns a run, and the sequence number that what it is, or that it is not
// there, depends on. A stream that is gone was dropped on disk as well. The lock is held.
func (e *Engine) lookup(id seckill.RunID) (*stream, *run, uint64) {
	s := e.streams[id]
	if s == nil {
		return nil, nil, 0
	}
	return s, s.run, s.lsn
}

// Outbox implements [stock.Stock].
func (e *Engine) Outbox() queue.Source { return source{e} }

var _ stock.Stock = (*Engine)(nil)

// signal wakes whoever listens, and never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
