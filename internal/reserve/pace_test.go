package reserve

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/telemetry"
	"seckill/stock"
)

// pipe is a stock behind a line of a bounded rate: one call goes through after the other, and each takes something by itself
// and something for each attempt.
type pipe struct {
	mu      sync.Mutex
	call    time.Duration // By itself.
	attempt time.Duration // For each attempt.
	away    time.Duration // There and back, which calls spend beside one another.
	jitter  float64       // What one takes is up to that much more or less, as a part of it.
	stall   time.Duration // One call in four takes up to that much more.
	rand    *rand.Rand
	free    time.Time
}

func (p *pipe) Reserve(ctx context.Context, _ seckill.RunID, _ int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
	p.mu.Lock()
	takes := p.call + time.Duration(len(attempts))*p.attempt
	if p.jitter > 0 {
		takes = time.Duration(float64(takes) * (1 + p.jitter*(2*p.rand.Float64()-1)))
	}
	if p.stall > 0 && p.rand.IntN(4) == 0 {
		takes += time.Duration(p.rand.Int64N(int64(p.stall)))
	}
	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(takes)
	ready := time.Until(p.free) + p.away
	p.mu.Unlock()
	select {
	case <-time.After(ready):
		return make([]stock.Decision, len(attempts)), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipe) Outcome(context.Context, string, string) (seckill.Outcome, error) {
	return seckill.Outcome{}, seckill.ErrNotFound
}

// overload returns what became of attempts at so many a second, after a second in which the lane could learn.
func overload(t *testing.T, r *Reserver, rate int, d time.Duration) (decided, refused []time.Duration) {
	t.Helper()
	flood(t, r, rate, time.Second)
	decided, refused = flood(t, r, rate, d)
	slices.Sort(decided)
	slices.Sort(refused)
	return decided, refused
}

// When far more come than a slow stock decides, it goes on deciding nearly as many as it can, nobody waits for long, who is
// refused hears it at once, and the circuit breaker does not take it for hung.
func TestOverloadOfASlowStock(t *testing.T) {
	for _, p := range []*pipe{
		{call: 5 * time.Millisecond, attempt: 650 * time.Microsecond, away: time.Millisecond},
		{call: 2 * time.Millisecond, attempt: 650 * time.Microsecond, away: 5 * time.Millisecond, jitter: 0.3},
		{attempt: 5 * time.Millisecond, away: time.Millisecond, jitter: 0.3},
		{attempt: 300 * time.Microsecond, away: 30 * time.Millisecond, jitter: 0.3},
	} {
		most := 1 / p.attempt.Seconds() // A second, in calls without end.
		for _, times := range []float64{1.5, 3, 10} {
			p.rand, p.free = rand.New(rand.NewPCG(1, uint64(times))), time.Time{}
			guarded(t, p, Options{}, func(t *testing.T, r *Reserver) {
				decided, refused := overload(t, r, int(times*most), 3*time.Second)
				if got := float64(len(decided)) / 3; got < 0.8*most {
					t.Errorf("%v + n × %v, %.1f times too much: %.0f decided a second of %.0f", p.call, p.attempt, times, got, most)
				}
				if got := decided[len(decided)*99/100]; got > 300*time.Millisecond {
					t.Errorf("%v + n × %v, %.1f times too much: one in a hundred waited %v", p.call, p.attempt, times, got)
				}
				if len(refused) == 0 || refused[len(refused)-1] != 0 {
					t.Errorf("%v + n × %v, %.1f times too much: %d refused, the last after %v", p.call, p.attempt, times, len(refused), refused[len(refused)-1])
				}
				if n := metric(t, r, "seckill_stock_silences_total"); n != 0 {
					t.Errorf("%v + n × %v, %.1f times too much: taken for hung %v times", p.call, p.attempt, times, n)
				}
			})
		}
	}
}

// Where a call costs by itself, as one that ends with a write to a slow disk does, calls are as large as they may be:
// smaller ones would be no quicker, and less would be decided.
func TestCallsAreLargeWhereTheyCostByThemselves(t *testing.T) {
	p := &pipe{call: 60 * time.Millisecond, attempt: 3 * time.Microsecond, jitter: 0.2, rand: rand.New(rand.NewPCG(1, 1))}
	guarded(t, p, Options{}, func(t *testing.T, r *Reserver) {
		decided, _ := overload(t, r, 20_000, 3*time.Second)
		if got, most := len(decided)/3, 256*1000/61; got < most*8/10 {
			t.Errorf("%d decided a second, want nearly %d", got, most)
		}
	})
}

// commits is a stock that decides whatever came meanwhile with one write to its disk, however much that is.
type commits struct {
	pipe
	mu    sync.Mutex
	next  time.Time
	write time.Duration
}

func (c *commits) Reserve(_ context.Context, _ seckill.RunID, _ int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
	c.mu.Lock()
	for now := time.Now(); !c.next.After(now); {
		c.next = now.Add(c.write)
	}
	done := c.next.Add(c.write) // The write under way does not have it.
	c.mu.Unlock()
	<-time.After(time.Until(done))
	return make([]stock.Decision, len(attempts)), nil
}

// Calls that are answered in pairs are as good as others.
func TestCallsAnsweredInPairs(t *testing.T) {
	c := &commits{write: 20 * time.Millisecond}
	guarded(t, c, Options{}, func(t *testing.T, r *Reserver) {
		decided, _ := overload(t, r, 30_000, 2*time.Second)
		if got, most := len(decided)/2, 2*256*1000/40; got < most*8/10 {
			t.Errorf("%d decided a second, want nearly %d", got, most)
		}
	})
}

// Where less comes than a slow stock decides, nobody is refused, even though all calls are short.
func TestWhatASlowStockCanDecideIsNotRefused(t *testing.T) {
	p := &pipe{call: 5 * time.Millisecond, attempt: 650 * time.Microsecond, away: 10 * time.Millisecond, jitter: 0.3, rand: rand.New(rand.NewPCG(1, 1))}
	guarded(t, p, Options{}, func(t *testing.T, r *Reserver) {
		if _, refused := overload(t, r, 900, 5*time.Second); len(refused) != 0 {
			t.Errorf("%d were refused", len(refused))
		}
	})
}

// A stock that stalls now and then, or a process that has to wait for a processor, is asked in larger calls, not in ever smaller
// ones: what is lost by that is the same for each call.
func TestStallsMakeCallsLarger(t *testing.T) {
	for seed := range uint64(5) {
		p := &pipe{call: 5 * time.Millisecond, attempt: 500 * time.Microsecond, stall: 160 * time.Millisecond, rand: rand.New(rand.NewPCG(1, seed))}
		guarded(t, p, Options{}, func(t *testing.T, r *Reserver) {
			decided, _ := overload(t, r, 10_000, 5*time.Second)
			// A call costs 25 ms by itself: in calls of 16 that would be 485 a second.
			if got := len(decided) / 5; got < 1000 {
				t.Errorf("seed %d: %d decided a second", seed, got)
			}
		})
	}
}

// A crowd that comes at once to a stock of which nothing is known yet is let in. If it turns out to be slow, the last of
// them are told "busy" soon, and the first get what it decides in half a second.
func TestACrowdAtASlowStock(t *testing.T) {
	p := &pipe{call: 2 * time.Millisecond, attempt: 650 * time.Microsecond}
	guarded(t, p, Options{}, func(t *testing.T, r *Reserver) {
		decided, refused := flood(t, r, 1_000_000, 5*time.Millisecond)
		if len(decided) < 700 || len(decided)+len(refused) != 5000 {
			t.Errorf("%d were decided and %d refused of 5000", len(decided), len(refused))
		}
		if most := slices.Max(refused); most > 200*time.Millisecond {
			t.Errorf("one heard it after %v", most)
		}
		if most := slices.Max(decided); most > 800*time.Millisecond {
			t.Errorf("one waited %v", most)
		}
	})
}

// What was learnt in one rush is not held against the next: the stock may be fast by then.
func TestALaneForgets(t *testing.T) {
	p := &pipe{attempt: 5 * time.Millisecond}
	guarded(t, p, Options{}, func(t *testing.T, r *Reserver) {
		flood(t, r, 1000, time.Second)
		<-time.After(paceFor + time.Second)
		p.mu.Lock()
		p.call, p.attempt = time.Millisecond, time.Microsecond
		p.mu.Unlock()
		if _, refused := flood(t, r, 1_000_000, 5*time.Millisecond); len(refused) != 0 {
			t.Errorf("%d were refused", len(refused))
		}
	})
}

// A stock that becomes slow all of a sudden is found out: whoever waits in a line that was short for the fast one is told
// "busy", and those who come some seconds later do not wait for long.
func TestAStockThatBecomesSlow(t *testing.T) {
	p := &pipe{call: 2 * time.Millisecond, attempt: 10 * time.Microsecond}
	guarded(t, p, Options{}, func(t *testing.T, r *Reserver) {
		flood(t, r, 100_000, time.Second)
		p.mu.Lock()
		p.attempt = 500 * time.Microsecond
		p.mu.Unlock()
		decided, _ := flood(t, r, 10_000, 3*time.Second)
		if len(decided) < 3*2000*8/10 {
			t.Errorf("%d were decided in 3 s", len(decided))
		}
		flood(t, r, 10_000, 3*time.Second)
		decided, _ = overload(t, r, 10_000, time.Second)
		if most := decided[len(decided)*99/100]; most > 150*time.Millisecond {
			t.Errorf("one in a hundred waited %v", most)
		}
	})
}

// A stock that hangs in the middle of an overload is found out as soon as any other.
func TestAHangUnderOverload(t *testing.T) {
	p := &pipe{call: 5 * time.Millisecond, attempt: 650 * time.Microsecond}
	guarded(t, p, Options{}, func(t *testing.T, r *Reserver) {
		flood(t, r, 5000, 2*time.Second)
		if r.isOpen() {
			t.Fatal("open before it hangs")
		}
		p.mu.Lock()
		p.away = time.Hour
		p.mu.Unlock()
		begin := time.Now()
		go func() { _, _ = r.Reserve(t.Context(), activity(1), seckill.Attempt{Ticket: "t"}) }()
		for !r.isOpen() && time.Since(begin) < time.Second {
			<-time.After(5 * time.Millisecond)
		}
		if took := time.Since(begin); took > 350*time.Millisecond {
			t.Errorf("found out after %v", took)
		}
	})
}

// Whoever has waited for longer than a call may take was never sent to the stock, and hears that.
func TestWhoWaitedForTooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &decide{delay: 600 * time.Millisecond}
		r := New(d, telemetry.New("test"), Options{BatchMax: 1, Flights: 1, Timeout: time.Second})
		var heard sync.Map
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				_, err := r.Reserve(t.Context(), activity(1), seckill.Attempt{})
				heard.Store(i, err)
			})
			synctest.Wait()
		}
		all.Wait()
		for i, want := range []error{nil, nil, busy} {
			if got, _ := heard.Load(i); !errors.Is(asError(got), want) {
				t.Errorf("number %d heard %v, want %v", i, got, want)
			}
		}
		if len(d.sizes) != 2 {
			t.Errorf("%d calls, want 2", len(d.sizes))
		}
	})
}

func asError(v any) error {
	err, _ := v.(error)
	return err
}

// Calls that are answered in pairs are one round: the second of a pair took no time, and the first did not take twice as long.
func TestARoundIsOneOfAllFlights(t *testing.T) {
	o := Options{}.withDefaults()
	p := pace{most: 16}
	p.answered(&o, 2, 16, 40*time.Millisecond, time.Now())
	if p.rounds != 0 {
		t.Error("one call of two is taken for a round")
	}
	p.answered(&o, 2, 16, 0, time.Now())
	if p.rounds != 1 || p.took != 0.02 || p.n != 16 {
		t.Errorf("got %d rounds, %.0f attempts in %.3f s, want one, 16 in 0.02", p.rounds, p.n, p.took)
	}
}

// Calls double as soon as that seems right, and shrink slowly: one that takes long for another reason changes little.
func TestCallsGrowFasterThanTheyShrink(t *testing.T) {
	o := Options{}.withDefaults()
	p := pace{most: 64, known: true, rounds: paceRounds, n: 48, took: 0.048, nSq: 48*48 + 200, nTook: 48*0.048 + 0.2}
	p.answered(&o, 1, 64, 900*time.Millisecond, time.Now())
	if p.most < 50 {
		t.Errorf("a slow call of 64 makes the next ones %d", p.most)
	}
	p = pace{most: 64, known: true, rounds: paceRounds, n: 64, took: 0.002, nSq: 64*64 + 200, nTook: 64 * 0.002}
	p.answered(&o, 1, 64, 2*time.Millisecond, time.Now())
	if p.most != 128 {
		t.Errorf("quick calls of 64 make the next ones %d, want 128", p.most)
	}
}

// Two sizes of calls tell what a call costs by itself, and what each attempt does.
func TestThePaceIsFitted(t *testing.T) {
	o := Options{}.withDefaults()
	var p pace
	for _, n := range []int{16, 32, 64, 32, 64} {
		p.most = n
		p.answered(&o, 1, n, 4*time.Millisecond+time.Duration(n)*500*time.Microsecond, time.Now())
	}
	if p.perCall < 0.0035 || p.perCall > 0.0045 || p.perAttempt < 0.00045 || p.perAttempt > 0.00055 {
		t.Errorf("a call costs %.2f ms and an attempt %.3f ms, want 4 and 0.5", 1000*p.perCall, 1000*p.perAttempt)
	}
}
