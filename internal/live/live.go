// Package live tells, once a second, how the sale goes: it reads the metrics of this process,
// says in the database that the node lives and what it measured, and joins what all nodes
// measured into one sample that every console shares. It measures nothing itself, and it
// goes on with what this node knows when the database does not answer.
//
// internal/app runs a [Reporter] on each node; internal/admin sends the samples on.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"seckill"
	"seckill/internal/telemetry"
	"seckill/stock"
)

const (
	every = time.Second
	// freshFor is how long what was measured stands: of a node that was not heard of for longer, nothing is shown.
	freshFor = 5 * time.Second
	// readingsMax is how many readings quantiles are taken over.
	readingsMax = 5
	// storeFor bounds what is waited for the database.
	storeFor = 2 * time.Second
	// watchersMax is how many consoles may watch.
	watchersMax = 100
)

// store is where nodes know of each other.
type store interface {
	Beat(ctx context.Context, n seckill.Node) error
	Leave(ctx context.Context, id string) error
	// Nodes lists those that were seen lately, and tells the time by which SeenAt is.
	Nodes(ctx context.Context) ([]seckill.Node, time.Time, error)
}

// Options of a [Reporter].
type Options struct {
	Metrics *telemetry.Metrics // Required.
	Store   store              // Required.
	// ID is what this process is called; another start is another process. Required.
	ID string
	// Node is what this node says of itself; ID and Figures are filled in. It is asked from Run on. Required.
	Node func() seckill.Node
	Log  *slog.Logger // Required.

	// Console says that samples are wanted of this node. Then Activities, Books and Level are required.
	Console    bool
	Activities func() []*seckill.Activity
	Books      func(ctx context.Context, run seckill.RunID) (seckill.Books, error)
	// Level is what this node knows of the stock, for when the books cannot be counted.
	Level func(run seckill.RunID) (stock.Level, bool)
	// Guards tells what acts by itself. May be nil.
	Guards func() []seckill.Guard
}

// Reporter is the heart of a node: it beats, and tells how the sale goes.
type Reporter struct {
	o Options

	readings []reading // The sampling loop's own; the newest last.
	own      atomic.Pointer[measured]
	others   atomic.Pointer[heard]
	books    books
	sample   atomic.Pointer[sample]
	watchers atomic.Int32
	silent   bool // The beating loop's own: whether the database did not answer.
}

// measured is what this node measured last.
type measured struct {
	figures figures
	reading reading
}

// heard is what other nodes said they measured.
type heard struct {
	at      time.Time
	figures []figures
}

// sample is what all consoles are sent. next is closed when there is another.
type sample struct {
	id   int64
	at   time.Time
	body []byte
	all  figures
	next chan struct{}
}

// New makes a reporter.
func New(o Options) (*Reporter, error) {
	if o.Metrics == nil || o.Store == nil || o.ID == "" || o.Node == nil || o.Log == nil {
		return nil, errors.New("live: metrics, store, id, node and log are required")
	}
	if o.Console && (o.Activities == nil || o.Books == nil || o.Level == nil) {
		return nil, errors.New("live: a console needs activities, books and levels")
	}
	r := &Reporter{o: o, books: newBooks()}
	r.sample.Store(&sample{next: make(chan struct{})})
	return r, nil
}

// Run beats and samples until ctx ends, and then says that the node has gone.
func (r *Reporter) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { repeat(ctx, nil, r.beat) })
	if r.o.Console {
		loops.Go(func() { repeat(ctx, r.books.wanted, r.count) })
	}
	repeat(ctx, nil, r.measure)
	loops.Wait()
	gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeFor)
	defer cancel()
	if err := r.o.Store.Leave(gone, r.o.ID); err != nil {
		r.o.Log.Warn("live: other nodes will see this one for a while longer", "error", err)
	}
	return nil
}

// repeat does a step now, each second, and when it is woken.
func repeat(ctx context.Context, wake <-chan struct{}, step func(context.Context)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		step(ctx)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-wake:
		}
	}
}

// measure takes a reading, and makes a sample of what all nodes measured.
func (r *Reporter) measure(context.Context) {
	now := read(r.o.Metrics, time.Now())
	if len(r.readings) > 0 {
		f := between(now, r.readings[len(r.readings)-1], r.readings[0])
		r.own.Store(&measured{f, now})
	}
	r.readings = append(r.readings, now)
	if len(r.readings) > readingsMax {
		r.readings = r.readings[1:]
	}
	if r.o.Console {
		r.publish()
	}
}

// beat says that this node lives and what it measured, and hears what the others did.
func (r *Reporter) beat(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, storeFor)
	defer cancel()
	n := r.o.Node()
	n.ID = r.o.ID
	if own := r.own.Load(); own != nil {
		n.Figures = encode(own.figures)
	}
	err := r.o.Store.Beat(limited, n)
	if err == nil && r.o.Console {
		err = r.hear(limited)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil && !r.silent:
		r.silent = true
		r.o.Log.Warn("live: the database does not answer; other nodes cannot see this one", "error", err)
	case err == nil && r.silent:
		r.silent = false
		r.o.Log.Info("live: the database answers again")
	}
}

func (r *Reporter) hear(ctx context.Context) error {
	nodes, now, err := r.o.Store.Nodes(ctx)
	if err != nil {
		return err
	}
	h := heard{at: time.Now()}
	for _, n := range nodes {
		if n.ID == r.o.ID || now.Sub(n.SeenAt) >= freshFor {
			continue
		}
		var f figures
		if n.Figures != "" {
			if err := json.Unmarshal([]byte(n.Figures), &f); err != nil {
				f = figures{} // Of another version of the program; the node lives all the same.
			}
		}
		h.figures = append(h.figures, f)
	}
	r.others.Store(&h)
	return nil
}

// together joins what all nodes measured; nodes counts them.
func (r *Reporter) together() (all figures, mine reading, nodes int, ok bool) {
	own := r.own.Load()
	if own == nil {
		return figures{}, reading{}, 0, false
	}
	all = figures{Outcomes: map[string]float64{"accepted": 0, "sold_out": 0}}
	all.add(own.figures)
	nodes = 1
	if h := r.others.Load(); h != nil && time.Since(h.at) < freshFor {
		for _, f := range h.figures {
			all.add(f)
			nodes++
		}
	}
	return all, own.reading, nodes, true
}

// PurchaseRate tells how many purchases a second are asked for now on all nodes, if that is known.
func (r *Reporter) PurchaseRate() (perSecond float64, known bool) {
	s := r.sample.Load()
	if s.id == 0 || time.Since(s.at) >= freshFor {
		return 0, false
	}
	for _, n := range s.all.Outcomes {
		perSecond += n
	}
	return perSecond, true
}

// Watch begins to watch. next waits for a sample that it has not given yet, and leaves out those
// that the caller was too slow for; what it gives is JSON, shared by all, and must not be
// changed. stop has to be called. When too many watch, it is refused.
func (r *Reporter) Watch() (next func(ctx context.Context) (id int64, event []byte, err error), stop func(), err error) {
	if r.watchers.Add(1) > watchersMax {
		r.watchers.Add(-1)
		return nil, nil, &seckill.Refusal{Reason: seckill.Busy, Detail: "Too many consoles watch already."}
	}
	r.books.want()
	var last int64
	next = func(ctx context.Context) (int64, []byte, error) {
		for {
			s := r.sample.Load()
			if s.id > last && s.body != nil && time.Since(s.at) < freshFor {
				last = s.id
				return s.id, s.body, nil
			}
			select {
			case <-s.next:
			case <-ctx.Done():
				return 0, nil, ctx.Err()
			}
		}
	}
	return next, sync.OnceFunc(func() { r.watchers.Add(-1) }), nil
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // Strings, numbers and times always encode.
	}
	return string(text)
}
