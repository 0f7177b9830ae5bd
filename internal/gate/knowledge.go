package gate

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"seckill"
	"seckill/stock"
)

// knowledge is what a node learns from the stock's answers, and may say again without
// asking. All of it may be forgotten at any time; none of it may outlive what it says.
//
// An answer of the stock may be older than an event that was heard since. So
// each request takes a Mark before the stock is asked, and what the answer says is only
// kept if nothing has come back to the run after that.
type knowledge struct {
	mu   sync.Mutex // Guards changes of runs.
	runs atomic.Pointer[map[seckill.RunID]*run]

	buyers *otter.Cache[buyerKey, buyer]
	ttl    time.Duration
}

// run is what is known of one run.
type run struct {
	id seckill.RunID
	// word is a generation, raised whenever units may have become available, and the flag.
	word atomic.Uint64
	// loads is raised whenever the run may have been loaded anew.
	loads atomic.Uint64
	// returns is the greatest Level.Returns seen.
	returns atomic.Uint64
}

const (
	flagSoldOut  = 1
	oneGenerated = 2
)

// Mark is a moment in the life of a run.
type Mark struct {
	run   *run
	word  uint64
	loads uint64
}

type buyerKey struct {
	run   seckill.RunID
	buyer string
}

// buyer is what is known of a buyer in a run.
type buyer struct {
	ticket   string // Of the latest purchase; "" if none is known.
	key      string // Idempotency key that ticket, or short, is about.
	quantity int    // Of the purchase with the key.
	ahead    int64
	over     int    // The least quantity that is over the limit; 0 if not known.
	refused  string // Idempotency key of a request that was over the limit.
	short    uint64 // The word under which the stock had nothing for the buyer, sold out.
	loads    uint64
	until    int64 // Unix seconds.
}

func (k *knowledge) open(buyersMax int, ttl time.Duration) error {
	buyers, err := otter.New(&otter.Options[buyerKey, buyer]{MaximumSize: buyersMax})
	if err != nil {
		return fmt.Errorf("make the cache of buyers: %w", err)
	}
	k.buyers, k.ttl = buyers, ttl
	k.runs.Store(&map[seckill.RunID]*run{})
	return nil
}

// runOf finds what is known of a run. Runs are those of activities that exist, and Keep
// drops those that are over, so there are never many.
func (k *knowledge) runOf(id seckill.RunID) *run {
	if r := (*k.runs.Load())[id]; r != nil {
		return r
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	old := *k.runs.Load()
	if r := old[id]; r != nil {
		return r
	}
	r := &run{id: id}
	next := maps.Clone(old)
	next[id] = r
	k.runs.Store(&next)
	return r
}

// Keep drops what is known of all runs but those that keep names.
func (k *knowledge) Keep(keep func(seckill.RunID) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := maps.Clone(*k.runs.Load())
	maps.DeleteFunc(next, func(id seckill.RunID, _ *run) bool { return !keep(id) })
	k.runs.Store(&next)
}

func (r *run) mark() Mark { return Mark{r, r.word.Load(), r.loads.Load()} }

// reopen says that units may be available.
func (r *run) reopen() {
	for {
		old := r.word.Load()
		if r.word.CompareAndSwap(old, (old&^flagSoldOut)+oneGenerated) {
			return
		}
	}
}

func (k *knowledge) buyerOf(r *run, id string, now time.Time) (buyer, bool) {
	b, ok := k.buyers.GetIfPresent(buyerKey{r.id, id})
	if !ok || b.loads != r.loads.Load() || now.Unix() >= b.until {
		return buyer{}, false
	}
	return b, true
}

// learn takes in what the stock has said.
func (k *knowledge) learn(r *Request, m Mark, d stock.Decision) {
	b := buyer{loads: m.loads, until: r.Now.Add(k.ttl).Unix() + 1}
	switch d.Verdict {
	case stock.Short:
		if d.Left > 0 {
			return
		}
		// If the word has moved, something came back after the question was asked.
		soldOut := m.word | flagSoldOut
		if !m.run.word.CompareAndSwap(m.word, soldOut) && m.run.word.Load() != soldOut {
			return
		}
		if r.Key == "" {
			return
		}
		b.key, b.short = r.Key, soldOut
		if r.known && r.buyer.ticket != "" {
			return // What is known of a ticket is worth more.
		}
	case stock.Taken, stock.Known:
		b.ticket, b.key, b.quantity, b.ahead = d.Ticket, r.Key, r.Quantity, d.Ahead
		if d.Verdict == stock.Taken {
			// The buyer holds at least this much. A known ticket may have been cancelled long ago.
			b.over = max(r.Activity.LimitPerUser-r.Quantity+1, 1)
		}
	case stock.OverLimit:
		if d.Ticket == "" {
			return // The quantity alone is over the limit; nothing is held.
		}
		b.ticket, b.over, b.refused = d.Ticket, r.Quantity, r.Key
		if r.known {
			// The key that is known stays, if it is of the same ticket.
			if r.buyer.ticket == d.Ticket {
				b.key, b.quantity, b.ahead = r.buyer.key, r.buyer.quantity, r.buyer.ahead
			}
			if r.buyer.over > 0 {
				b.over = min(b.over, r.buyer.over)
			}
		}
	default:
		return
	}
	b.ticket, b.key, b.refused = strings.Clone(b.ticket), strings.Clone(b.key), strings.Clone(b.refused)
	key := buyerKey{m.run.id, strings.Clone(r.Buyer)}
	k.buyers.Set(key, b)
	// A release that was heard after the question was asked may be this buyer's. Looked at
	// after the entry is there: a release that comes now finds it.
	if m.run.word.Load()&^flagSoldOut != m.word&^flagSoldOut || m.run.loads.Load() != m.loads {
		k.buyers.Invalidate(key)
	}
}

// Notify takes in what happened in the stock. It does not block.
func (k *knowledge) Notify(e stock.Event) {
	r := (*k.runs.Load())[e.Run]
	if r == nil {
		return // Nothing is known of it, so nothing can be wrong.
	}
	switch e.Kind {
	case stock.EventRun:
		r.loads.Add(1)
		r.reopen()
	case stock.EventUnits:
		r.reopen()
	case stock.EventSettled:
		if e.Released {
			r.reopen()
			k.buyers.Invalidate(buyerKey{e.Run, e.Buyer})
		}
	}
}

// Level takes in where a run's units are, as read from the stock. It mends what a
// missed event left behind.
func (k *knowledge) Level(id seckill.RunID, l stock.Level) {
	r := (*k.runs.Load())[id]
	if r == nil {
		return
	}
	returned := false
	for {
		seen := r.returns.Load()
		if l.Returns == seen {
			break
		}
		// A lower number than before is a stock that was loaded anew.
		if r.returns.CompareAndSwap(seen, l.Returns) {
			returned = true
			break
		}
	}
	// An older level may say "available" just after the last unit went. Asking the stock once
	// more is cheap; a sold-out flag that sticks is not.
	if returned || l.Available > 0 && r.word.Load()&flagSoldOut != 0 {
		r.reopen()
	}
}

// SoldOut tells whether this node believes that nothing is left of a run.
func (k *knowledge) SoldOut(id seckill.RunID) bool {
	r := (*k.runs.Load())[id]
	return r != nil && r.word.Load()&flagSoldOut != 0
}
