package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
)

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
	for name, c := range wrongs {
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
