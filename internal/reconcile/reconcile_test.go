package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

func (w *world) RepairAvailable(context.Context, seckill.RunID) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
	r, err := New(Options{
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
	})
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

// Books have every unit once, wherever it is.
func TestBooksCountEachUnitOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		want   seckill.Books
	}{
		"a sale under way": {func(*world) {}, seckill.Books{Total: 100, Available: 60, Queued: 10, AwaitingPayment: 20, Paid: 10, Balanced: true}},
		"dead letters, queued in the stock": {func(w *world) { w.facts.Dead = 3 },
			seckill.Books{Total: 100, Available: 60, Queued: 7, AwaitingPayment: 20, Paid: 10, Dead: 3, Balanced: true}},
		"not in the stock": {func(w *world) { w.unloaded, w.facts.Dead = true, 3 },
			seckill.Books{Total: 100, Available: 67, AwaitingPayment: 20, Paid: 10, Dead: 3, Balanced: true}},
		"dead letters that a rebuilt stock does not know": {func(w *world) {
			w.facts.Dead, w.level.Queued, w.level.Available = 3, 0, 67
		}, seckill.Books{Total: 100, Available: 67, AwaitingPayment: 20, Paid: 10, Dead: 3, Balanced: true}},
		"a lost unit": {func(w *world) { w.level.Available-- },
			seckill.Books{Total: 100, Available: 59, Queued: 10, AwaitingPayment: 20, Paid: 10}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := balanced()
			c.change(w)
			got, err := w.reconciler(t).Books(ctx, run)
			must(t, err)
			if got != c.want {
				t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, c.want)
			}
		})
	}
}

// Stock and database are not read at one moment; books that do not balance for that are
// read again, for a while, and no longer than the caller waits.
func TestBooksWaitForWhatIsInMotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := balanced()
		w.facts.AwaitingPayment++ // Written, and not settled yet.
		w.facts.Available--
		w.onRead = func(w *world) {
			if w.reads == 4 {
				w.level.Queued--
				w.level.AwaitingPayment++
			}
		}
		got, err := w.reconciler(t).Books(ctx, run)
		must(t, err)
		if !got.Balanced || got.AwaitingPayment != 21 || w.reads != 4 {
			t.Errorf("after %d reads: %+v", w.reads, got)
		}
		w.level.Available--
		began := time.Now()
		if got, err = w.reconciler(t).Books(ctx, run); err != nil || got.Balanced || time.Since(began) != 300*time.Millisecond {
			t.Errorf("after %v: %+v, %v", time.Since(began), got, err)
		}
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		began = time.Now()
		if got, err = w.reconciler(t).Books(short, run); err != nil || got.Total != 100 || time.Since(began) != 50*time.Millisecond {
			t.Errorf("after %v: %+v, %v", time.Since(began), got, err)
		}
		w.away = true
		if _, err = w.reconciler(t).Books(ctx, run); !errors.Is(err, errAway) {
			t.Errorf("while the stock is away: %v", err)
		}
	})
}

// Each thing that can be wrong is found, named, and repaired if that is safe; what was
// repaired is not found again.
func TestFindsAndRepairs(t *testing.T) {
	old := -2 * time.Minute
	for name, c := range map[string]struct {
		change             func(w *world)
		found, then, after string // Looking, repairing, and looking again.
	}{
		"nothing": {func(*world) {}, "", "", ""},
		"a unit that the stock lost": {func(w *world) { w.level.Available -= 2 },
			"lost_unit 2", "lost_unit 2!", ""},
		"a stock that offers too much": {func(w *world) { w.level.Available += 5 },
			"stock_drift 5", "stock_drift 5!", ""},
		"a stock that offers too much, and has sold it": {func(w *world) { w.level.Available, w.facts.Available, w.facts.Paid = 3, 5, 75; w.level.Paid = 75 },
			"stock_drift 8", "stock_drift 8", "stock_drift 5"},
		"a cancellation that the stock lost": {func(w *world) {
			w.facts.AwaitingPayment--
			w.facts.Available++
		}, "stock_drift 1, missing_order 1", "stock_drift 1!, missing_order 1", "missing_order 1"},
		"an order that the stock lost": {func(w *world) {
			w.level.AwaitingPayment--
			w.level.Available++
		}, "stock_drift 1, unknown_order 1", "stock_drift 1!, unknown_order 1", "unknown_order 1"},
		"a row that miscounts": {func(w *world) { w.facts.Available = 64 },
			"row_drift -6", "row_drift -6!", ""},
		"more orders than units": {func(w *world) {
			w.facts.Total, w.facts.Available = 25, 0
			w.level.Available, w.level.Queued, w.queued = 0, 0, nil
		},
			"oversold 5, stock_drift 5", "oversold 5, stock_drift 5", "oversold 5, stock_drift 5"},
		"an order that the stock was not told of": {func(w *world) {
			w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
			w.orders["q0"] = seckill.Order{ID: "7", Ticket: "q0", Quantity: 1, State: seckill.AwaitingPayment}
			w.facts.AwaitingPayment++
			w.facts.Available--
		}, "unsettled 1", "unsettled 1!", ""},
		"a cancelled order that the stock was not told of": {func(w *world) {
			w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
			w.orders["q0"] = seckill.Order{ID: "7", Ticket: "q0", Quantity: 1, State: seckill.Cancelled}
		}, "unsettled 1", "unsettled 1!", ""},
		"a reservation in no queue": {func(w *world) {
			w.waiting = 0
			w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
		}, "orphan_reservation 1", "orphan_reservation 1!", "orphan_reservation 1"},
		"a reservation that is older than all in the queues": {func(w *world) {
			w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
		}, "orphan_reservation 1", "orphan_reservation 1!", "orphan_reservation 1"},
		"a reservation that waits in a long queue": {func(w *world) {
			w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
			w.oldest = w.queued[0].ReservedAt
		}, "", "", ""},
		"a reservation that is young": {func(w *world) { w.waiting = 0 }, "", "", ""},
		"a dead letter": {func(w *world) {
			w.waiting = 0
			w.queued[0].ReservedAt = w.queued[0].ReservedAt.Add(old)
			w.dead["q0"] = true
			w.facts.Dead = 1
		}, "dead_letters 1", "dead_letters 1", "dead_letters 1"},
		"a dead letter that the stock lost": {func(w *world) {
			w.facts.Dead = 4
			w.level.Available -= 4
		}, "dead_letters 4", "dead_letters 4", "dead_letters 4"},
		"a to-do that stays": {func(w *world) { w.facts.Todos = []int64{3}; w.level.Available-- },
			"unfinished_todo 0", "unfinished_todo 0", "unfinished_todo 0"},
		"a restock that stays": {func(w *world) { w.facts.Restocks = []int64{3}; w.facts.Total += 10; w.facts.Available += 10 },
			"unfinished_restock 0", "unfinished_restock 0", "unfinished_restock 0"},
		"a run that is gone from the stock": {func(w *world) { w.unloaded = true },
			"not_loaded 70", "not_loaded 70", "not_loaded 70"},
		"a run that is over and forgotten": {func(w *world) { w.unloaded = true; w.activity.Phase = seckill.PhaseClosed },
			"", "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := balanced()
			c.change(w)
			r := w.reconciler(t)
			var got []string
			for _, repair := range []bool{false, true, false} {
				_, findings, err := r.Reconcile(ctx, 1, repair, by)
				must(t, err)
				got = append(got, told(findings))
			}
			if got[0] != c.found || got[1] != c.then || got[2] != c.after {
				t.Errorf("%s: got %q, want %q, %q, %q", name, got, c.found, c.then, c.after)
			}
			if strings.HasPrefix(c.found, "orphan") != (len(w.rewritten) == 1 && w.rewritten[0] == "q0") {
				t.Errorf("%s: rewritten %q", name, w.rewritten)
			}
		})
	}
}

// While a sale runs every reading is another one. Nothing is made of that: not a unit, and
// not a finding, as long as the stock's own sum is right.
func TestMakesNothingOfWhatIsInMotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := balanced()
		w.onRead = func(w *world) { // A buyer with each look.
			w.level.Available--
			w.level.Queued++
			w.queued = append(w.queued, seckill.Reservation{Ticket: fmt.Sprint("n", w.reads), Quantity: 1, ReservedAt: time.Now()})
		}
		_, findings, err := w.reconciler(t).Reconcile(ctx, 1, true, by)
		must(t, err)
		if len(findings) != 0 || len(w.restocks) != 0 {
			t.Errorf("found %s, restocked %v", told(findings), w.restocks)
		}
		w.level.Available -= 3 // Lost in the middle of it.
		_, findings, err = w.reconciler(t).Reconcile(ctx, 1, true, by)
		must(t, err)
		if told(findings) != "in_motion -3" || len(w.restocks) != 0 {
			t.Errorf("found %s, restocked %v", told(findings), w.restocks)
		}
	})
}

// A difference that is there in one reading and gone in the next was in motion.
func TestOneReadingProvesNothing(t *testing.T) {
	for name, change := range map[string]func(w *world, by int64){
		"stock":    func(w *world, by int64) { w.level.Available += by },
		"database": func(w *world, by int64) { w.facts.AwaitingPayment -= by; w.facts.Available += by },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := balanced()
			change(w, -1)
			w.onRead = func(w *world) {
				if w.reads == 3 { // One to see whether it is loaded, one for the first reading.
					change(w, 1)
				}
			}
			_, findings, err := w.reconciler(t).Reconcile(ctx, 1, true, by)
			must(t, err)
			if len(findings) != 0 || len(w.restocks) != 0 {
				t.Errorf("%s: found %s, restocked %v", name, told(findings), w.restocks)
			}
		})
	}
}

// An order that is committed and not yet settled looks like a unit too many, in a stock
// that stands still for a moment. It is not one.
func TestACommittedOrderIsNoDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := balanced()
		w.orders["q3"] = seckill.Order{ID: "7", Ticket: "q3", Quantity: 1, State: seckill.AwaitingPayment}
		w.facts.AwaitingPayment++
		w.facts.Available--
		_, findings, err := w.reconciler(t).Reconcile(ctx, 1, true, by)
		must(t, err)
		if len(findings) != 0 || len(w.restocks) != 0 {
			t.Errorf("found %s, restocked %v", told(findings), w.restocks)
		}
	})
}

// Two who repair the same at the same time repair it once.
func TestTwoRepairsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := balanced()
		w.level.Available -= 7
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				_, _, err := w.reconciler(t).Reconcile(ctx, 1, true, by)
				must(t, err)
			})
		}
		both.Wait()
		if w.level.Available != 60 || len(w.restocks) != 1 {
			t.Errorf("%d units, restocks %v", w.level.Available, w.restocks)
		}
		// And the same drift once more, later, is another one.
		w.level.Available -= 7
		_, findings, err := w.reconciler(t).Reconcile(ctx, 1, true, by)
		must(t, err)
		if told(findings) != "lost_unit 7!" || w.level.Available != 60 {
			t.Errorf("found %s, %d units", told(findings), w.level.Available)
		}
	})
}

// A backlog of more than one page is looked through to its end.
func TestLongQueuesArePaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := balanced()
		w.queued, w.waiting = nil, 0
		for i := range 1200 {
			w.queued = append(w.queued, seckill.Reservation{Ticket: fmt.Sprint("q", i), Quantity: 1, ReservedAt: time.Now().Add(-time.Hour)})
		}
		w.facts.Total, w.facts.Available = 1290, 1260
		w.level.Queued = 1200
		_, findings, err := w.reconciler(t).Reconcile(ctx, 1, true, by)
		must(t, err)
		if told(findings) != "orphan_reservation 1200!" || len(w.rewritten) != 1200 {
			t.Errorf("found %s, rewritten %d", told(findings), len(w.rewritten))
		}
	})
}

// The job looks every minute, says each finding once, and repairs nothing.
func TestTheJobOnlyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := balanced()
		w.level.Available--
		loop, stop := context.WithCancel(ctx)
		done := make(chan error)
		go func() { done <- w.reconciler(t).Run(loop) }()
		<-time.After(50 * time.Second)
		if w.logged("finding") != 0 {
			t.Error("looked before its time")
		}
		w.mu.Lock()
		w.queued, w.level.Queued, w.level.Paid, w.facts.Paid, w.facts.Available = nil, 0, 20, 20, 60
		w.mu.Unlock()
		<-time.After(10 * time.Minute)
		if got := w.logged("lost_unit"); got != 1 || len(w.restocks) != 0 {
			t.Errorf("logged %d times, restocked %v", got, w.restocks)
		}
		stop()
		must(t, <-done)
	})
}

// An activity that is not there is not found, and a report has the API's form.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := balanced()
		if _, err := w.reconciler(t).Report(ctx, 9, false, by); !errors.Is(err, seckill.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		report, err := w.reconciler(t).Report(ctx, 1, false, by)
		must(t, err)
		got, err := json.Marshal(report)
		must(t, err)
		want := `{"balanced":true,"books":{"total":100,"available":60,"queued":10,"awaiting_payment":20,"paid":10,"dead":0,"balanced":true},"findings":[]}`
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
