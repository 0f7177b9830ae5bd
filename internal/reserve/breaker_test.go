package reserve

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/telemetry"
	"seckill/stock"
)

// fickle is a stock that hangs, fails, or answers after a while.
type fickle struct {
	mu     sync.Mutex
	back   chan struct{} // Closed when it does not hang; calls wait for it, or for their context.
	err    error
	takes  time.Duration
	asks   error // Answer to questions; nil is that there is no such ticket.
	calls  atomic.Int64
	asked  atomic.Int64
	inside atomic.Int64
	most   atomic.Int64 // Of calls inside.
}

func (f *fickle) hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back = make(chan struct{})
}

func (f *fickle) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.back)
	f.back = nil
}

func (f *fickle) set(err error, takes time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.takes = err, takes
}

func (f *fickle) wait(ctx context.Context) error {
	f.most.Store(max(f.most.Load(), f.inside.Add(1)))
	defer f.inside.Add(-1)
	f.mu.Lock()
	back, err, takes := f.back, f.err, f.takes
	f.mu.Unlock()
	if back != nil {
		select {
		case <-back:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	return err
}

func (f *fickle) Reserve(ctx context.Context, _ seckill.RunID, _ int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
	f.calls.Add(1)
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	decisions := make([]stock.Decision, len(attempts))
	for i := range decisions {
		decisions[i].Verdict = stock.Taken
	}
	return decisions, nil
}

func (f *fickle) Outcome(ctx context.Context, _, _ string) (seckill.Outcome, error) {
	f.asked.Add(1)
	if f.asks != nil {
		return seckill.Outcome{}, f.asks
	}
	if err := f.wait(ctx); err != nil {
		return seckill.Outcome{}, err
	}
	return seckill.Outcome{}, seckill.ErrNotFound
}

// guarded runs a test with a reserver that watches a stock.
func guarded(t *testing.T, f decider, o Options, do func(t *testing.T, r *Reserver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := New(f, telemetry.New("test"), o)
		ctx, cancel := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		runs.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		defer func() { <-time.After(time.Minute) }() // Whatever is under way ends.
		defer runs.Wait()
		defer cancel()
		do(t, r)
	})
}

// click is one attempt; it tells what the buyer hears, and after how long.
func click(t *testing.T, r *Reserver) (heard string, took time.Duration) {
	t.Helper()
	begin := time.Now()
	_, err := r.Reserve(t.Context(), activity(1), seckill.Attempt{Ticket: "t"})
	var refusal *seckill.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Reason == seckill.Busy:
		heard = "busy"
	case err != nil:
		heard = "unknown"
	default:
		heard = "yes"
	}
	return heard, time.Since(begin)
}

func (r *Reserver) isOpen() bool { return r.State().Open }

// A stock that hangs has whoever comes refused at once, and those who wait as well; only
// attempts that were sent are unknown. When it answers again, buyers are let through at once.
func TestHangingStockRefusesAtOnce(t *testing.T) {
	f := &fickle{}
	guarded(t, f, Options{BatchMax: 1, Flights: 2}, func(t *testing.T, r *Reserver) {
		if heard, _ := click(t, r); heard != "yes" {
			t.Fatalf("a stock that answers: %s", heard)
		}
		f.hang()
		var all sync.WaitGroup
		var mu sync.Mutex
		heard, longest := map[string]int{}, map[string]time.Duration{}
		for range 100 {
			all.Go(func() {
				h, took := click(t, r)
				mu.Lock()
				defer mu.Unlock()
				heard[h]++
				longest[h] = max(longest[h], took)
			})
		}
		<-time.After(400 * time.Millisecond)
		if s := r.State(); !s.Open || s.Reason == "" || time.Since(s.Since) > 100*time.Millisecond {
			t.Errorf("after 400 ms the state is %+v", s)
		}
		for range 1000 {
			if h, took := click(t, r); h != "busy" || took != 0 {
				t.Fatalf("got %s after %v, want busy at once", h, took)
			}
		}
		<-time.After(600 * time.Millisecond)
		back := time.Now()
		f.wake()
		all.Wait()
		if heard["busy"] != 98 || heard["yes"] != 2 || longest["busy"] > 350*time.Millisecond {
			t.Errorf("heard %v after at most %v, want 98 busy soon, and 2 that were sent", heard, longest)
		}
		if h, _ := click(t, r); h != "yes" || time.Since(back) > time.Millisecond {
			t.Errorf("after the stock is back: %s", h)
		}
	})
}

// Attempts that were sent to a stock that never answers are unknown after the timeout, and a
// probe finds out when it is back, though nobody buys meanwhile.
func TestProbeFindsTheStockBack(t *testing.T) {
	f := &fickle{}
	guarded(t, f, Options{Timeout: time.Second}, func(t *testing.T, r *Reserver) {
		f.hang()
		if h, took := click(t, r); h != "unknown" || took != time.Second {
			t.Errorf("sent to a stock that hangs: %s after %v", h, took)
		}
		<-time.After(10 * time.Second)
		if !r.isOpen() {
			t.Error("closed while the stock hangs")
		}
		if n := f.calls.Load(); n != 1 {
			t.Errorf("%d calls of buyers at a stock that hangs, want 1", n)
		}
		if n := f.most.Load(); n > 2 {
			t.Errorf("%d calls at once, want a buyer's and a probe at most", n)
		}
		f.wake()
		<-time.After(time.Second)
		if r.isOpen() {
			t.Error("the stock is back for a second, and buyers are refused")
		}
		if silent, times := metric(t, r, "seckill_stock_silent"), metric(t, r, "seckill_stock_silences_total"); silent != 0 || times != 1 {
			t.Errorf("%v runs are silent, after %v times, want 0 and 1", silent, times)
		}
	})
}

// A stock that fails fast is left alone after some failures in a row, and not after fewer.
func TestFailingStockIsLeftAlone(t *testing.T) {
	f := &fickle{}
	guarded(t, f, Options{FailuresMax: 5}, func(t *testing.T, r *Reserver) {
		gone := errors.New("connection refused")
		for round := range 20 {
			f.set(gone, 0)
			for range 4 {
				click(t, r)
			}
			<-time.After(100 * time.Millisecond)
			if r.isOpen() {
				t.Fatalf("round %d: opened by four failures", round)
			}
			f.set(nil, 0)
			click(t, r)
		}
		f.set(gone, 0)
		for range 5 {
			click(t, r)
		}
		<-time.After(50 * time.Millisecond)
		if s := r.State(); !s.Open {
			t.Fatal("five failures in a row, and buyers are still sent there")
		}
		calls := f.calls.Load()
		for range 100 {
			click(t, r)
		}
		if n := f.calls.Load() - calls; n != 0 {
			t.Errorf("%d calls of a stock that fails", n)
		}
		f.set(nil, 0)
		<-time.After(200 * time.Millisecond)
		if h, _ := click(t, r); h != "yes" {
			t.Errorf("the stock is back, and a buyer hears %s", h)
		}
	})
}

// Refusals of the stock, and tickets that it does not know, are answers.
func TestAnswersAreNoFailures(t *testing.T) {
	f := &fickle{}
	guarded(t, f, Options{FailuresMax: 2}, func(t *testing.T, r *Reserver) {
		for _, answer := range []error{seckill.ErrNotFound, stock.ErrNotLoaded, seckill.Refuse(seckill.Ended), context.Canceled} {
			f.set(answer, 0)
			for range 10 {
				click(t, r)
				_, _ = r.Outcome(t.Context(), "b", "1-1-x")
			}
			<-time.After(100 * time.Millisecond)
			if r.isOpen() {
				t.Errorf("%v opened it", answer)
			}
		}
	})
}

// A disk that takes half a second for each call is slow, and not away: after the first call
// nobody is refused for it.
func TestSlowStockIsNotRefused(t *testing.T) {
	f := &fickle{takes: 400 * time.Millisecond}
	guarded(t, f, Options{}, func(t *testing.T, r *Reserver) {
		click(t, r)
		for i := range 50 {
			if i == 25 {
				f.set(nil, 440*time.Millisecond)
			}
			if h, _ := click(t, r); h != "yes" {
				t.Fatalf("click %d at a slow stock: %s", i, h)
			}
			if r.isOpen() {
				t.Fatalf("open after click %d", i)
			}
		}
		if n := metric(t, r, "seckill_stock_silences_total"); n != 1 {
			t.Errorf("refused buyers %v times, want once, until it knew", n)
		}
		// It forgets that when calls are fast again.
		f.set(nil, time.Millisecond)
		for range 50 {
			click(t, r)
		}
		f.hang()
		go click(t, r)
		<-time.After(350 * time.Millisecond)
		if !r.isOpen() {
			t.Error("a fast stock that hangs is found after more than 350 ms")
		}
		f.wake()
	})
}

// A stock that answers questions, but hangs where it decides, is not let at buyers by a probe.
func TestHangingDecisionsAreNotOverlooked(t *testing.T) {
	f := &fickle{asks: seckill.ErrNotFound}
	guarded(t, f, Options{Timeout: 3 * time.Second}, func(t *testing.T, r *Reserver) {
		f.hang()
		go click(t, r)
		<-time.After(2500 * time.Millisecond)
		if !r.isOpen() || f.asked.Load() < 10 {
			t.Errorf("open %v after %d probes", r.isOpen(), f.asked.Load())
		}
		f.wake()
		synctest.Wait()
		if r.isOpen() {
			t.Error("the call was answered, and buyers are refused")
		}
	})
}

// Outcomes are refused at once as well while the stock hangs; so are those of runs in which nobody
// has bought here, without any memory being kept of them.
func TestOutcomesAreRefusedAtOnce(t *testing.T) {
	f := &fickle{}
	guarded(t, f, Options{}, func(t *testing.T, r *Reserver) {
		f.hang()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Outcome(ctx, "b", seckill.NewTicket(seckill.RunID{Activity: 7, Run: 1})); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first hears %v", err)
		}
		for n := range 1000 {
			begin := time.Now()
			_, err := r.Outcome(t.Context(), "b", seckill.NewTicket(seckill.RunID{Activity: int64(n), Run: 1}))
			if !errors.Is(err, busy) || time.Since(begin) != 0 {
				t.Fatalf("got %v after %v, want busy at once", err, time.Since(begin))
			}
		}
		if len(r.lanes) != 0 {
			t.Errorf("%d lanes for runs that nobody bought in", len(r.lanes))
		}
		f.wake()
		<-time.After(200 * time.Millisecond)
		if _, err := r.Outcome(t.Context(), "b", "1-1-x"); !errors.Is(err, seckill.ErrNotFound) {
			t.Errorf("after the stock is back: %v", err)
		}
	})
}

// One run that hangs is no reason to refuse the buyers of another.
func TestRunsAreGuardedApart(t *testing.T) {
	f := &fickle{}
	guarded(t, f, Options{}, func(t *testing.T, r *Reserver) {
		f.hang()
		go click(t, r)
		<-time.After(350 * time.Millisecond)
		f.mu.Lock()
		back := f.back
		f.back = nil
		f.mu.Unlock()
		other := &seckill.Activity{ID: 2, Run: 1, Epoch: 1}
		if _, err := r.Reserve(t.Context(), other, seckill.Attempt{}); err != nil {
			t.Errorf("a buyer of another run hears %v", err)
		}
		if h, _ := click(t, r); h != "busy" {
			t.Errorf("a buyer of the run that hangs hears %s", h)
		}
		close(back)
	})
}

// A stock that comes and goes all the time does not fill the log.
func TestChangesAreToldOnce(t *testing.T) {
	f := &fickle{}
	var told []bool
	var mu sync.Mutex
	lines := &counting{}
	guarded(t, f, Options{Log: lines.logger(), OnChange: func(_ seckill.RunID, s State) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, s.Open)
	}}, func(t *testing.T, r *Reserver) {
		goAndCome := func() {
			f.set(errors.New("gone"), 0)
			for range 5 {
				click(t, r)
			}
			<-time.After(100 * time.Millisecond)
			f.set(nil, 0)
			<-time.After(400 * time.Millisecond)
		}
		for range 10 {
			goAndCome()
		}
		if n := lines.n.Load(); n != 2 {
			t.Errorf("%d lines for a stock that goes and comes ten times in 5 s, want 2", n)
		}
		<-time.After(20 * time.Second)
		goAndCome()
		if n := lines.n.Load(); n != 4 {
			t.Errorf("%d lines after the next time, want 4", n)
		}
	})
	if len(told) != 22 || !told[0] || told[21] {
		t.Errorf("the listener heard %v, want 11 times open and closed", told)
	}
}
