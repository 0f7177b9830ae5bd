// Package reserve is the group commit in front of the stock: attempts of one run
// that arrive while a call of the stock is under way go together in the next one. It
// waits for nothing when it is idle, and decides nothing itself.
//
// The public door is its only user.
package reserve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"seckill"
	"seckill/internal/telemetry"
	"seckill/stock"
)

// decider is what this stage needs of the stock.
type decider interface {
	Reserve(ctx context.Context, run seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error)
}

// Options of a Reserver. Zero fields take the defaults.
type Options struct {
	BatchMax   int           // Attempts in one call of the stock, 256.
	Flights    int           // Calls under way at once for one run, 2: one decides while the other is written.
	WaitingMax int           // Attempts that wait for one run before others are told "busy", 16,384.
	Timeout    time.Duration // Of one call of the stock, 2 s. A caller waits at most twice as long.
}

// Reserver groups attempts. It may be used concurrently.
type Reserver struct {
	stock   decider
	metrics *telemetry.Metrics
	options Options
	calls   sync.Pool
	flights sync.Pool

	mu    sync.RWMutex
	lanes map[seckill.RunID]*lane // Bounded by the runs that the door lets attempts through to.
}

// New makes a Reserver in front of a stock.
func New(s decider, m *telemetry.Metrics, o Options) *Reserver {
	if o.BatchMax == 0 {
		o.BatchMax = 256
	}
	if o.Flights == 0 {
		o.Flights = 2
	}
	if o.WaitingMax == 0 {
		o.WaitingMax = 16384
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	return &Reserver{
		stock: s, metrics: m, options: o, lanes: map[seckill.RunID]*lane{},
		calls:   sync.Pool{New: func() any { return &call{answer: make(chan answer, 1)} }},
		flights: sync.Pool{New: func() any { return &flight{} }},
	}
}

// lane is where the attempts of one run wait.
type lane struct {
	mu      sync.Mutex
	waiting []*call
	flying  int
}

// call is one attempt and the place where its answer is put.
type call struct {
	attempt seckill.Attempt
	epoch   int64
	since   time.Time
	answer  chan answer
}

// flight is the room that one goroutine needs to make calls.
type flight struct {
	batch    []*call
	attempts []seckill.Attempt
}

type answer struct {
	decision stock.Decision
	err      error
}

// Reserve asks the stock for one attempt, together with whatever else waits. An
// error means that it is not known what the stock decided; the same
// attempt may be repeated. A *seckill.Refusal means that the stock was not asked.
func (r *Reserver) Reserve(ctx context.Context, a *seckill.Activity, at seckill.Attempt) (stock.Decision, error) {
	l := r.lane(a.RunID())
	c := r.calls.Get().(*call)
	c.attempt, c.epoch, c.since = at, a.Epoch, time.Now()

	l.mu.Lock()
	if len(l.waiting) >= r.options.WaitingMax {
		l.mu.Unlock()
		r.calls.Put(c)
		return stock.Decision{}, seckill.Refuse(seckill.Busy)
	}
	l.waiting = append(l.waiting, c)
	start := l.flying < r.options.Flights
	if start {
		l.flying++
	}
	l.mu.Unlock()
	if start {
		go r.fly(l, a.RunID())
	}

	select {
	case got := <-c.answer:
		r.calls.Put(c)
		return got.decision, got.err
	case <-ctx.Done():
		return stock.Decision{}, ctx.Err() // The call is not reused: its answer may still come.
	}
}

func (r *Reserver) lane(run seckill.RunID) *lane {
	r.mu.RLock()
	l := r.lanes[run]
	r.mu.RUnlock()
	if l != nil {
		return l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l = r.lanes[run]; l == nil {
		l = &lane{}
		r.lanes[run] = l
	}
	return l
}

// Forget lets go of a run that is over.
func (r *Reserver) Forget(run seckill.RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lanes, run)
}

// fly makes calls until nobody waits.
func (r *Reserver) fly(l *lane, run seckill.RunID) {
	f := r.flights.Get().(*flight)
	defer r.flights.Put(f)
	for {
		f.batch = l.take(f.batch[:0], r.options.BatchMax)
		if len(f.batch) == 0 {
			return
		}
		f.attempts = f.attempts[:0]
		fresh := f.batch[:0]
		for _, c := range f.batch {
			if time.Since(c.since) > r.options.Timeout {
				c.answer <- answer{err: fmt.Errorf("reserve: waited for more than %v", r.options.Timeout)}
				continue
			}
			fresh = append(fresh, c)
			f.attempts = append(f.attempts, c.attempt)
		}
		if len(fresh) > 0 {
			r.ask(run, fresh, f.attempts)
		}
	}
}

// take moves the oldest attempts of one epoch out of the lane. If there are none
// the flight is over.
func (l *lane) take(batch []*call, most int) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.waiting) && n < most && l.waiting[n].epoch == l.waiting[0].epoch {
		n++
	}
	if n == 0 {
		l.flying--
		return batch
	}
	batch = append(batch, l.waiting[:n]...)
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	return batch
}

// ask makes one call of the stock and hands out its answers.
func (r *Reserver) ask(run seckill.RunID, batch []*call, attempts []seckill.Attempt) {
	ctx, cancel := context.WithTimeout(context.Background(), r.options.Timeout)
	defer cancel()
	r.metrics.BatchSize.Observe(float64(len(batch)))
	decisions, err := r.stock.Reserve(ctx, run, batch[0].epoch, attempts)
	if err == nil && len(decisions) != len(batch) {
		err = fmt.Errorf("the stock answered %d of %d attempts", len(decisions), len(batch))
	}
	for i, c := range batch {
		if err != nil {
			c.answer <- answer{err: fmt.Errorf("reserve: %w", err)}
			continue
		}
		c.answer <- answer{decision: decisions[i]}
	}
}
