package reserve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/telemetry"
	"seckill/stock"
)

// decide answers each attempt with its own ticket and keeps the sizes of the calls.
type decide struct {
	mu    sync.Mutex
	sizes []int
	delay time.Duration
	err   error
	short int // Answers left out.
}

func (d *decide) Reserve(ctx context.Context, _ seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
	d.mu.Lock()
	d.sizes = append(d.sizes, len(attempts))
	d.mu.Unlock()
	select {
	case <-time.After(d.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	answers := make([]stock.Decision, len(attempts)-d.short)
	for i := range answers {
		answers[i] = stock.Decision{Verdict: stock.Taken, Ticket: attempts[i].Ticket, Ahead: epoch}
	}
	return answers, d.err
}

func (d *decide) Outcome(context.Context, string, string) (seckill.Outcome, error) {
	return seckill.Outcome{}, seckill.ErrNotFound
}

func activity(epoch int64) *seckill.Activity {
	return &seckill.Activity{ID: 1, Run: 1, Epoch: epoch}
}

// Attempts that arrive while a call is under way go together, in batches that begin small and grow to at
// most BatchMax, and each hears the answer to its own.
func TestGroupsWhatArrivesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decide{delay: 10 * time.Millisecond}
		r := New(d, telemetry.New("test"), Options{BatchMax: 40, Flights: 1})
		var all sync.WaitGroup
		for i := range 101 {
			all.Go(func() {
				ticket := fmt.Sprint(i)
				got, err := r.Reserve(t.Context(), activity(7), seckill.Attempt{Ticket: ticket})
				if err != nil || got.Ticket != ticket || got.Ahead != 7 {
					t.Errorf("got %+v, %v, want the answer to %s under epoch 7", got, err, ticket)
				}
			})
			if i == 0 {
				synctest.Wait() // The first one is under way alone.
			}
		}
		all.Wait()
		if got, want := fmt.Sprint(d.sizes), "[1 16 32 40 12]"; got != want {
			t.Errorf("calls of %s attempts, want %s", got, want)
		}
	})
}

// An attempt alone is asked for at once: no timer makes it wait.
func TestDoesNotWaitWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(&decide{}, telemetry.New("test"), Options{})
		start := time.Now()
		if _, err := r.Reserve(t.Context(), activity(1), seckill.Attempt{}); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}

// Attempts under different epochs never share a call.
func TestKeepsEpochsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decide{delay: time.Millisecond}
		r := New(d, telemetry.New("test"), Options{Flights: 1})
		var all sync.WaitGroup
		for i := range 9 {
			epoch := int64(1 + i%2)
			all.Go(func() {
				got, err := r.Reserve(t.Context(), activity(epoch), seckill.Attempt{})
				if err != nil || got.Ahead != epoch {
					t.Errorf("got %+v, %v, want epoch %d", got, err, epoch)
				}
			})
		}
		all.Wait()
	})
}

// A stock that hangs costs each caller at most twice the timeout, and those beyond the
// bound are told "busy" at once.
func TestHangingStockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(&decide{delay: time.Hour}, telemetry.New("test"), Options{Flights: 1, WaitingMax: 3, Timeout: time.Second})
		start := time.Now()
		var busy, failed int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				_, err := r.Reserve(t.Context(), activity(1), seckill.Attempt{})
				mu.Lock()
				defer mu.Unlock()
				var refusal *seckill.Refusal
				switch {
				case errors.As(err, &refusal) && refusal.Reason == seckill.Busy:
					busy++
				case err != nil:
					failed++
				}
			})
			if i == 0 {
				synctest.Wait()
			}
		}
		all.Wait()
		if busy != 6 || failed != 4 {
			t.Errorf("%d busy and %d failed, want 6 and 4", busy, failed)
		}
		if waited := time.Since(start); waited > 2*time.Second {
			t.Errorf("waited %v, want at most twice the timeout", waited)
		}
	})
}

// A stock that fails, or answers fewer than it was asked, decides nothing.
func TestFailureIsUnknownForAll(t *testing.T) {
	for _, d := range []*decide{{err: errors.New("gone")}, {short: 1}} {
		r := New(d, telemetry.New("test"), Options{})
		_, err := r.Reserve(t.Context(), activity(1), seckill.Attempt{})
		var refusal *seckill.Refusal
		if err == nil || errors.As(err, &refusal) {
			t.Errorf("got %v, want an error that is no refusal", err)
		}
	}
}

// A caller that leaves does not get another's answer later.
func TestLeavingCallerIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(&decide{delay: time.Second}, telemetry.New("test"), Options{Flights: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := r.Reserve(ctx, activity(1), seckill.Attempt{Ticket: "left"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		for range 3 {
			got, err := r.Reserve(t.Context(), activity(1), seckill.Attempt{Ticket: "mine"})
			if err != nil || got.Ticket != "mine" {
				t.Errorf("got %+v, %v, want my own ticket", got, err)
			}
		}
	})
}

func BenchmarkReserve(b *testing.B) {
	r := New(instant{}, telemetry.New("test"), Options{})
	a := activity(1)
	b.SetParallelism(100)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Reserve(b.Context(), a, seckill.Attempt{}); err != nil {
				b.Error(err)
			}
		}
	})
}

type instant struct{}

func (instant) Outcome(context.Context, string, string) (seckill.Outcome, error) {
	return seckill.Outcome{}, seckill.ErrNotFound
}

func (instant) Reserve(_ context.Context, _ seckill.RunID, _ int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
	return make([]stock.Decision, len(attempts)), nil
}
