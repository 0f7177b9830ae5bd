package reserve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"seckill"
	"seckill/stock"
)

// guard is the circuit breaker of one run: it sees each call of the stock, and says
// whether buyers are let through to it.
//
// It opens when a call is under way for too long, or too many in a row have failed, and
// closes as soon as the stock has answered a call again: one that was under way, or
// that of a probe. No buyer is the one who finds out.
//
// What is too long is learnt: on a slow disk calls take their time, and that is no reason to
// send buyers away.
type guard struct {
	o    *Options
	lost *atomic.Int64 // Time, in ns, in which this process had no processor: the stock's calls are not to blame.
	open atomic.Bool   // All that a buyer's request reads.

	mu             sync.Mutex
	oldest, newest *under // Calls under way, in the order of their beginning.
	failures       int    // In a row.
	last           error  // Of them.
	slow           time.Duration
	state          State
	closed         time.Time // When it closed last: what is under way since before says nothing new.
	probing        bool
	probed         time.Time
}

// under is a call of the stock that is under way.
type under struct {
	began        time.Time
	lost         int64 // Before it began.
	reserves     bool
	older, newer *under
}

var unders = sync.Pool{New: func() any { return &under{} }}

// State of the way to the stock.
type State struct {
	Open   bool      // Buyers are refused as busy.
	Since  time.Time // When that began, or ended; zero if it never was.
	Reason string    // Of the opening, for operators.
}

// begin notes a call that is about to be made.
func (g *guard) begin(reserves bool) *under {
	c := unders.Get().(*under)
	*c = under{began: time.Now(), lost: g.lost.Load(), reserves: reserves}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.older = g.newest; c.older != nil {
		c.older.newer = c
	} else {
		g.oldest = c
	}
	g.newest = c
	return c
}

// end notes how a call went. It returns what to tell of a guard that closed by it.
func (g *guard) end(c *under, err error) (change State, changed bool) {
	now := time.Now()
	took, reserves := now.Sub(c.began), c.reserves
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unlink(c)
	switch {
	case errors.Is(err, context.Canceled):
		// The caller left; that says nothing about the stock.
	case !answered(err):
		g.failures++
		g.last = err
	default:
		g.failures = 0
		if !reserves {
			break
		}
		g.slow = max(took, g.slow-g.slow/8)
		if g.state.Open {
			return g.close(now), true
		}
	}
	return State{}, false
}

func (g *guard) unlink(c *under) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		g.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		g.newest = c.older
	}
	*c = under{}
	unders.Put(c)
}

// answered tells whether an error is an answer of the stock's.
func answered(err error) bool {
	var refusal *seckill.Refusal
	return err == nil || errors.Is(err, seckill.ErrNotFound) || errors.Is(err, stock.ErrNotLoaded) || errors.As(err, &refusal)
}

// tooLong is how long a call may be under way.
func (g *guard) tooLong() time.Duration {
	return max(g.o.HangAfter, min(2*g.slow, g.o.HangMost))
}

// watch opens the guard if the stock does not answer. It returns what to tell of that.
func (g *guard) watch(now time.Time) (change State, changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.state.Open:
		return State{}, false
	case g.hangs(now):
		g.opens(now, fmt.Sprintf("a call has been under way for %v", g.age(g.oldestNew(), now).Round(time.Millisecond)))
	case g.failures >= g.o.FailuresMax:
		g.opens(now, fmt.Sprintf("%d calls in a row have failed: %v", g.failures, g.last))
	default:
		return State{}, false
	}
	return g.state, true
}

func (g *guard) opens(now time.Time, reason string) {
	g.state = State{Open: true, Since: now, Reason: reason}
	g.open.Store(true)
	g.probed = now
}

// oldestNew is the oldest call under way that began after the guard closed last.
func (g *guard) oldestNew() *under {
	c := g.oldest
	for c != nil && c.began.Before(g.closed) {
		c = c.newer
	}
	return c
}

func (g *guard) hangs(now time.Time) bool {
	c := g.oldestNew()
	return c != nil && g.age(c, now) > g.tooLong()
}

// age is how long a call has been under way while this process ran.
func (g *guard) age(c *under, now time.Time) time.Duration {
	lost := time.Duration(g.lost.Load() - c.lost)
	return now.Sub(c.began) - min(lost, g.o.Timeout) // By then the call has failed, whoever is late.
}

// close lets buyers through; the lock is held.
func (g *guard) close(now time.Time) State {
	g.state.Open, g.state.Since = false, now
	g.closed, g.failures, g.last = now, 0, nil
	g.open.Store(false)
	return g.state
}

// mayProbe tells whether it is time for a probe, and reserves the place for it.
func (g *guard) mayProbe(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.state.Open || g.probing || now.Sub(g.probed) < g.o.ProbeEvery {
		return false
	}
	g.probing, g.probed = true, now
	return true
}

// hear takes in what came of a probe.
func (g *guard) hear(err error) (change State, changed bool) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing, g.probed = false, now
	// A stock may answer a question and still hang where it decides: what hangs has to
	// come back first, by an answer or by its timeout.
	if !g.state.Open || !answered(err) || g.hangs(now) {
		return State{}, false
	}
	return g.close(now), true
}

func (g *guard) now() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}
