// Package reserve is the door's way to the stock. It has three parts:
//
//   - a group commit: attempts of one run that arrive while a call of the stock is under
//     way go together in the next one. It waits for nothing when it is idle.
//   - a pace: how large a call is best and how many may wait for one is learnt from the
//     stock's answers, so that overload costs no goodput, and whoever is one too many hears
//     "busy" at once.
//   - a circuit breaker: while the stock does not answer, buyers hear "busy" at once, and
//     nobody piles up in front of it.
//
// It decides nothing itself. The public door is its only user.
package reserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"seckill"
	"seckill/internal/telemetry"
	"seckill/internal/tracing"
	"seckill/stock"
)

// decider is what this stage needs of the stock.
type decider interface {
	Reserve(ctx context.Context, run seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error)
	Outcome(ctx context.Context, buyer, ticket string) (seckill.Outcome, error)
}

// Options of a Reserver. Zero fields take the defaults.
type Options struct {
	BatchMax   int           // Attempts in one call of the stock, 256; less where the stock takes long for them, see pace.
	Flights    int           // Calls under way at once for one run, or for each sub-stock of it, 2: one decides while the other is written.
	WaitingMax int           // Attempts that wait for one run before others are told "busy", 16,384.
	Timeout    time.Duration // Of one call of the stock, 2 s. A caller waits at most twice as long.
	// WaitTarget is how long an attempt may expect to wait for its call, and the call for its answer, 50 ms: when the
	// stock needs longer for the line, others are told "busy", since a longer line would only be a longer wait. It
	// is longer at a stock that would decide less if it was asked in smaller calls; see pace.
	WaitTarget time.Duration

	// HangAfter is how long a call of the stock may be under way before buyers are refused,
	// 300 ms. Where calls that are answered take longer, it is twice what they take, at
	// most HangMost: 900 ms, at least HangAfter.
	HangAfter, HangMost time.Duration
	FailuresMax         int           // Calls that fail in a row before buyers are refused, 5.
	ProbeEvery          time.Duration // Between two questions whether the stock answers again, 100 ms.
	ProbeTimeout        time.Duration // Of one of them, 500 ms.
	WatchEvery          time.Duration // Between two looks at the calls under way, 25 ms.
	QuietFor            time.Duration // After a log line about the stock's silence before the next, 10 s.

	Log    *slog.Logger    // Of changes. Discards by default.
	Tracer *tracing.Tracer // Nil, the default: nothing is traced.
	// OnChange hears of each run whose buyers are refused, or let through again. It must
	// not block. May be nil.
	OnChange func(run seckill.RunID, s State)
}

func (o Options) withDefaults() Options {
	orDefault(&o.BatchMax, 256)
	orDefault(&o.Flights, 2)
	orDefault(&o.WaitingMax, 16384)
	orDefault(&o.Timeout, 2*time.Second)
	orDefault(&o.WaitTarget, 50*time.Millisecond)
	orDefault(&o.HangAfter, 300*time.Millisecond)
	orDefault(&o.HangMost, 900*time.Millisecond)
	orDefault(&o.FailuresMax, 5)
	orDefault(&o.ProbeEvery, 100*time.Millisecond)
	orDefault(&o.ProbeTimeout, 500*time.Millisecond)
	orDefault(&o.WatchEvery, 25*time.Millisecond)
	orDefault(&o.QuietFor, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func orDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Reserver groups attempts. It may be used concurrently.
type Reserver struct {
	stock   decider
	metrics *telemetry.Metrics
	options Options
	calls   sync.Pool
	flights sync.Pool

	lost   atomic.Int64 // See guard.
	others guard        // Of outcomes in runs without a lane.
	asked  int          // Probes so far; Run's own.

	mu         sync.RWMutex
	lanes      map[seckill.RunID]*lane // Bounded by the runs that the door lets attempts through to.
	quietUntil time.Time               // No log line before.
	changes    int                     // That were not logged.
	loud       bool                    // The last opening was logged.
}

// New makes a Reserver in front of a stock.
func New(s decider, m *telemetry.Metrics, o Options) *Reserver {
	r := &Reserver{
		stock: s, metrics: m, options: o.withDefaults(), lanes: map[seckill.RunID]*lane{},
		calls:   sync.Pool{New: func() any { return &call{answer: make(chan answer, 1)} }},
		flights: sync.Pool{New: func() any { return &flight{} }},
	}
	r.others.o, r.others.lost = &r.options, &r.lost
	return r
}

// lane is where the attempts of one run wait.
type lane struct {
	guard guard

	mu      sync.Mutex
	waiting []*call
	flying  int       // Goroutines that make calls.
	calls   int       // Under way.
	under   int       // Attempts in them.
	last    time.Time // When the last one was answered, or the first of those under way began.
	lost    int64     // What guard.lost was then.
	pace    pace
}

// call is one attempt and the place where its answer is put.
type call struct {
	attempt seckill.Attempt
	epoch   int64
	since   time.Time
	trace   *tracing.Purchase // Nil if it is not traced.
	answer  chan answer
}

// flight is the room that one goroutine needs to make calls.
type flight struct {
	batch    []*call
	whole    bool // The batch is as large as it might be.
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
	if l.guard.open.Load() {
		return stock.Decision{}, busy
	}
	c := r.calls.Get().(*call)
	c.attempt, c.epoch, c.since = at, a.Epoch, time.Now()
	if r.options.Tracer != nil {
		c.trace = tracing.From(ctx)
	}

	flights := r.options.flights(a)
	l.mu.Lock()
	if l.full(&r.options, flights, c.since) {
		l.mu.Unlock()
		r.calls.Put(c)
		return stock.Decision{}, busy
	}
	l.waiting = append(l.waiting, c)
	start := l.flying < flights
	if start {
		l.flying++
	}
	l.mu.Unlock()
	if start {
		go r.fly(l, a.RunID(), flights)
	}

	select {
	case got := <-c.answer:
		r.calls.Put(c)
		return got.decision, got.err
	case <-ctx.Done():
		return stock.Decision{}, ctx.Err() // The call is not reused: its answer may still come.
	}
}

// subStocksMost bounds the calls under way for a run that is split. Each call is cut into one for each sub-stock, which
// the stock puts together again if several are under way.
const subStocksMost = 8

// flights is how many calls may be under way for a run.
func (o *Options) flights(a *seckill.Activity) int {
	return o.Flights * min(max(a.SubStocks, 1), subStocksMost)
}

// full tells whether no more may wait; the lock is held.
func (l *lane) full(o *Options, flights int, now time.Time) bool {
	l.pace.forget(now)
	n := len(l.waiting)
	if l.pace.known && n+l.under >= l.pace.room(o, flights) {
		l.pace.refused = true
		return true
	}
	return n >= o.WaitingMax
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
		l = &lane{guard: guard{o: &r.options, lost: &r.lost}}
		r.lanes[run] = l
	}
	return l
}

// Keep lets go of the runs that are over: all but those that keep names.
func (r *Reserver) Keep(keep func(seckill.RunID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for run, l := range r.lanes {
		if !keep(run) {
			delete(r.lanes, run)
			if l.guard.open.Load() {
				r.metrics.StockSilent.Dec() // Nobody will tell of its end.
			}
		}
	}
}

// fly makes calls until nobody waits.
func (r *Reserver) fly(l *lane, run seckill.RunID, flights int) {
	f := r.flights.Get().(*flight)
	defer r.flights.Put(f)
	for {
		if l.guard.open.Load() {
			l.sendAway()
		}
		l.take(f, &r.options)
		if len(f.batch) == 0 {
			return
		}
		f.attempts = f.attempts[:0]
		for _, c := range f.batch {
			f.attempts = append(f.attempts, c.attempt)
		}
		n := len(f.batch) // What is answered is not ours any more.
		err := r.ask(l, run, f.batch, f.attempts)
		l.land(f, &r.options, flights, n, err)
	}
}

// take moves the oldest attempts of one epoch out of the lane. If there are none
// the flight is over.
func (l *lane) take(f *flight, o *Options) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	// Whoever has waited for too long was never sent to the stock.
	late := 0
	for late < len(l.waiting) && now.Sub(l.waiting[late].since) > o.Timeout {
		l.waiting[late].answer <- answer{err: busy}
		late++
	}
	l.drop(late)
	f.batch = f.batch[:0]
	if len(l.waiting) == 0 {
		l.flying--
		return
	}
	most, n := l.pace.fill(o), 0
	for n < len(l.waiting) && n < most && l.waiting[n].epoch == l.waiting[0].epoch {
		n++
	}
	f.whole = n == most
	f.batch = append(f.batch, l.waiting[:n]...)
	l.drop(n)
	if l.calls == 0 {
		l.last, l.lost = now, l.guard.lost.Load() // What was before is not about this call.
	}
	l.calls++
	l.under += n
}

// drop takes the first so many out of the line; the lock is held.
func (l *lane) drop(n int) {
	if n == 0 {
		return
	}
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
}

// land takes in how a call went. One that is not whole tells how many came, not how many the stock can decide.
func (l *lane) land(f *flight, o *Options, flights, attempts int, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	l.under -= attempts
	took := max(1, now.Sub(l.last))
	l.last = now
	if lost := l.guard.lost.Load(); lost != l.lost {
		l.lost = lost
		l.pace.starved(o)
		return
	}
	if err != nil || !f.whole && !l.pace.refused {
		l.pace.skip()
		return
	}
	l.pace.answered(o, flights, attempts, took, now)
	if l.pace.known {
		// A crowd that came when the stock was faster, or not known: the last of it would wait until it is too late.
		l.shorten(max(l.pace.room(o, flights), l.pace.decides(o.Timeout/4)))
	}
}

// sendAway refuses all that wait.
func (l *lane) sendAway() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shorten(0)
}

// shorten refuses those who came last, so that only so many wait; the lock is held.
func (l *lane) shorten(most int) {
	if most >= len(l.waiting) {
		return
	}
	for _, c := range l.waiting[most:] {
		c.answer <- answer{err: busy}
	}
	clear(l.waiting[most:])
	l.waiting = l.waiting[:most]
}

// ask makes one call of the stock and hands out its answers.
func (r *Reserver) ask(l *lane, run seckill.RunID, batch []*call, attempts []seckill.Attempt) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.options.Timeout)
	defer cancel()
	r.metrics.BatchSize.Observe(float64(len(batch)))
	begin := time.Now()
	under := l.guard.begin(true)
	decisions, err := r.stock.Reserve(ctx, run, batch[0].epoch, attempts)
	if change, changed := l.guard.end(under, err); changed {
		r.tell(run, change)
	}
	if err == nil && len(decisions) != len(batch) {
		err = fmt.Errorf("the stock answered %d of %d attempts", len(decisions), len(batch))
	}
	if r.options.Tracer != nil {
		traceCall(run, batch, decisions, begin, err)
	}
	for i, c := range batch {
		if err != nil {
			c.answer <- answer{err: fmt.Errorf("reserve: %w", err)}
			continue
		}
		c.answer <- answer{decision: decisions[i]}
	}
	return err
}

// traceCall tells of a call for those of its batch that are traced. It comes before their answers: then
// they belong to others.
func traceCall(run seckill.RunID, batch []*call, decisions []stock.Decision, begin time.Time, err error) {
	end := time.Now()
	for i, c := range batch {
		if c.trace == nil {
			continue
		}
		r := tracing.Reservation{Waited: begin.Sub(c.since), Begin: begin, End: end, Batch: len(batch), Run: run.Run, Err: err}
		if err == nil {
			d := decisions[i]
			r.Taken = d.Verdict == stock.Taken || d.Verdict == stock.Known && d.Ticket == c.attempt.Ticket
			if d.Verdict == stock.Unknown {
				r.Err = errUndecided
			}
		}
		c.trace.Reserved(r)
	}
}

// errUndecided is what a trace says of an attempt that the stock knows nothing of.
var errUndecided = errors.New("not decided in time, or not known")
