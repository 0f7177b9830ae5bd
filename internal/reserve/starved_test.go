package reserve

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/telemetry"
)

// A process that gets no processor for a while has calls that take long, and that is not the stock's fault: buyers
// are not refused for it. As soon as the process runs, a call that goes on hanging counts.
func TestAStarvedProcessBlamesNoStock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fickle{}
		f.hang()
		r := New(f, telemetry.New("test"), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = r.Reserve(ctx, activity(1), seckill.Attempt{Ticket: "t"}) }()
		synctest.Wait()
		g := &r.lane(activity(1).RunID()).guard
		<-time.After(900 * time.Millisecond)
		r.late(900 * time.Millisecond) // No look in between: this process stood still.
		if change, changed := g.watch(time.Now()); changed {
			t.Errorf("the guard opened: %+v", change)
		}
		for range 20 { // Now it runs.
			<-time.After(25 * time.Millisecond)
			r.late(25 * time.Millisecond)
		}
		if _, changed := g.watch(time.Now()); !changed {
			t.Error("a call that hangs is overlooked")
		}
		cancel()
		f.wake()
		synctest.Wait()
	})
}

// Where many goroutines want a processor, one that comes back from the stock waits for its turn behind all of them,
// while a timer's is soon on. That is noticed.
func TestTheLineForAProcessorIsNoticed(t *testing.T) {
	r := New(&fickle{}, telemetry.New("test"), Options{WatchEvery: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = r.Run(ctx) })
	for range 100 {
		all.Go(func() {
			for ctx.Err() == nil {
				for begin := time.Now(); time.Since(begin) < time.Millisecond; {
				}
				runtime.Gosched()
			}
		})
	}
	for begin := time.Now(); r.lost.Load() == 0; runtime.Gosched() {
		if time.Since(begin) > 20*time.Second {
			t.Error("a process whose goroutines wait for a twentieth of a second is taken for one that runs")
			break
		}
	}
	cancel()
	all.Wait()
}

// A call that was answered late because of this process tells nothing of the stock: nobody is refused for it, and
// calls do not become smaller.
func TestAStarvedProcessLearnsNothing(t *testing.T) {
	o := Options{}.withDefaults()
	r := New(&fickle{}, telemetry.New("test"), o)
	l := r.lane(activity(1).RunID())
	l.pace = pace{most: 64, known: true, rounds: 8, n: 64, took: 1, perAttempt: 1. / 64, at: time.Now()}
	l.last = time.Now().Add(-time.Second)
	r.lost.Add(int64(time.Second))
	l.calls, l.under = 1, 64
	l.land(&flight{whole: true}, &o, 2, 64, nil)
	if l.pace.known || l.pace.most != 128 {
		t.Errorf("it learnt %+v", l.pace)
	}
	if l.waiting = make([]*call, 200); l.full(&o, 2, time.Now()) {
		t.Error("somebody is refused for the line's sake")
	}
}

// What this process waited for before a call began, while the lane was idle or not there yet, is no matter of that call.
func TestAnIdleLaneWasNotStarved(t *testing.T) {
	o := Options{}.withDefaults()
	r := New(&fickle{}, telemetry.New("test"), o)
	r.lost.Add(int64(time.Second))
	l := r.lane(activity(1).RunID())
	l.pace = pace{most: 1, known: true, rounds: 8, n: 1, took: 0.01, perAttempt: 0.01, at: time.Now()}
	l.waiting = []*call{{since: time.Now()}}
	f := &flight{}
	l.take(f, &o)
	l.land(f, &o, 2, 1, nil)
	if !l.pace.known {
		t.Error("a call is taken for starved because of what was before it")
	}
}
