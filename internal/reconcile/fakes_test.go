package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/stock"
)

var (
	ctx = context.Background()
	by  = seckill.Actor{Who: "test"}
	run = seckill.RunID{Activity: 1, Run: 2}
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a stock and a database that tests put out of step.
type world struct {
	mu       sync.Mutex
	facts    Facts
	level    stock.Level
	unloaded bool
	away     bool
	queued   []seckill.Reservation
	orders   map[string]seckill.Order
	dead     map[string]bool
	restocks map[int64]int64
	waiting  int64
	oldest   time.Time
	reads    int
	onRead   func(w *world) // Called with each reading of the level, under the lock.

	activity  seckill.Activity
	rewritten []string
	unknown   map[string]bool      // Tickets that the stock has never heard of.
	live      []seckill.Order      // What the database lists.
	rebuild   func(w *world) error // Under the lock. Nil: there is no rebuilding.
	rebuilds  []seckill.Actor
	notes     []string
	noNotes   bool // The audit log cannot be written.
	log       bytes.Buffer
}

// balanced is a run in the middle of its sale: 100 units, 60 free, 10 queued, 20 and 10 ordered.
func balanced() *world {
	now := time.Now()
	w := &world{
		facts:  Facts{Total: 100, Available: 70, AwaitingPayment: 20, Paid: 10},
		level:  stock.Level{Epoch: 1, Available: 60, Queued: 10, AwaitingPayment: 20, Paid: 10, Returns: 1},
		orders: map[string]seckill.Order{}, dead: map[string]bool{}, restocks: map[int64]int64{},
		waiting: 10, oldest: now,
		activity: seckill.Activity{ID: 1, Run: 2, Epoch: 1, Phase: seckill.PhaseLoaded, Total: 100,
			StartsAt: now.Add(-time.Hour), EndsAt: now.Add(24 * time.Hour)},
	}
	for i := range 10 {
		w.queued = append(w.queued, seckill.Reservation{Ticket: fmt.Sprint("q", i), Run: run, Buyer: "b", Quantity: 1, ReservedAt: now})
	}
	return w
}

var errAway = errors.New("away")

func (w *world) Level(context.Context, seckill.RunID) (stock.Level, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	if w.onRead != nil {
		w.onRead(w)
	}
	switch {
	case w.away:
		return stock.Level{}, errAway
	case w.unloaded:
		return stock.Level{}, stock.ErrNotLoaded
	}
	return w.level, nil
}

func (w *world) Queued(_ context.Context, _ seckill.RunID, after string, limit int) (page []seckill.Reservation, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begun := after == ""
	for _, r := range w.queued {
		if begun && len(page) < limit {
			page = append(page, r)
		}
		begun = begun || r.Ticket == after
	}
	return page, nil
}

func (w *world) Settle(_ context.Context, settlements []stock.Settlement) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range settlements {
		for i, r := range w.queued {
			if r.Ticket != s.Ticket {
				continue
			}
			w.queued = append(w.queued[:i:i], w.queued[i+1:]...)
			w.level.Queued -= int64(r.Quantity)
			if s.Order.State.Live() {
				w.level.AwaitingPayment += int64(r.Quantity)
			} else {
				w.level.Available += int64(r.Quantity)
			}
			break
		}
	}
	return nil, nil
}

func (w *world) Restock(_ context.Context, _ seckill.RunID, id, units int64) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if did, again := w.restocks[id]; again {
		return did, nil
	}
	did := max(units, -w.level.Available)
	w.restocks[id] = did
	w.level.Available += did
	w.level.Returns++
	return did, nil
}

func (w *world) OrdersByTicket(_ context.Context, tickets []string) (map[string]seckill.Order, error) {
	found := map[string]seckill.Order{}
	for _, ticket := range tickets {
		if o, ok := w.orders[ticket]; ok {
			found[ticket] = o
		}
	}
	return found, nil
}

func (w *world) DeadTickets(_ context.Context, tickets []string) (map[string]bool, error) {
	if len(tickets) > TicketsMax {
		return nil, errors.New("too many tickets")
	}
	return w.dead, nil
}

func (w *world) Outcome(_ context.Context, _, ticket string) (seckill.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.away:
		return seckill.Outcome{}, errAway
	case w.unknown[ticket]:
		return seckill.Outcome{}, seckill.ErrNotFound
	}
	return seckill.Outcome{}, nil
}

func (w *world) Note(_ context.Context, by seckill.Actor, action, object, detail string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noNotes {
		return errAway
	}
	w.notes = append(w.notes, by.Who+" "+action+" "+object+" "+detail)
	return nil
}

func (w *world) RepairAvailable(_ context.Context, _ seckill.RunID, who seckill.Actor) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, who.Who+" row")
	right := w.facts.Total - w.facts.live()
	by := right - w.facts.Available
	w.facts.Available = right
	return by, nil
}

func (w *world) Activity(id int64) (*seckill.Activity, bool) { return &w.activity, id == 1 }
func (w *world) Activities() []*seckill.Activity             { return []*seckill.Activity{&w.activity} }

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logged(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), what)
}

func (w *world) reconciler(t *testing.T) *Reconciler {
	t.Helper()
	o := Options{
		Store: w, Stock: w, Activities: w, Log: slog.New(slog.NewTextHandler(w, nil)),
		Facts: func(context.Context, seckill.RunID) (Facts, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.facts, nil
		},
		Backlog: func(context.Context) (int64, time.Time, error) { return w.waiting, w.oldest, nil },
		Rewrite: func(_ context.Context, _ seckill.RunID, rs []seckill.Reservation) error {
			for _, r := range rs {
				w.rewritten = append(w.rewritten, r.Ticket)
			}
			return nil
		},
		LiveOrders: func(_ context.Context, _ seckill.RunID, after string, limit int) (page []seckill.Order, err error) {
			for _, o := range w.live {
				if o.ID > after && len(page) < limit {
					page = append(page, o)
				}
			}
			return page, nil
		},
	}
	if w.rebuild != nil {
		o.Rebuild = func(_ context.Context, _ seckill.RunID, by seckill.Actor) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.rebuilds = append(w.rebuilds, by)
			return w.rebuild(w)
		}
	}
	r, err := New(o)
	must(t, err)
	return r
}

// told is the findings in short: kind, units, and ! for repaired.
func told(fs []seckill.Finding) string {
	var all []string
	for _, f := range fs {
		s := fmt.Sprintf("%s %d", f.Kind, f.Units)
		if f.Repaired {
			s += "!"
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}
