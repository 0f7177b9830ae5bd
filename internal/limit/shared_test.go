package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"seckill/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// evalIn speaks to a real Redis.
func evalIn(r *testenv.RedisServer) Eval {
	return func(_ context.Context, script string, keys, args []string) ([]int64, error) {
		answer, err := r.Do(append(append([]string{"EVAL", script, fmt.Sprint(len(keys))}, keys...), args...)...)
		if err != nil {
			return nil, err
		}
		list, ok := answer.([]any)
		if !ok {
			return nil, fmt.Errorf("got %v", answer)
		}
		numbers := make([]int64, len(list))
		for i := range list {
			numbers[i] = list[i].(int64)
		}
		return numbers, nil
	}
}

// running runs the limiters until the test ends.
func running(t *testing.T, eval Eval, limiters ...*Limiter) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, l := range limiters {
		all.Go(func() {
			if err := l.Run(ctx, eval); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); all.Wait() })
}

// hammer asks all limiters for the key every millisecond for so long, and counts what passes.
func hammer(key uint64, long time.Duration, limiters ...*Limiter) (ok int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < long; <-tick.C {
		for _, l := range limiters {
			if l.Take(key, time.Now()).OK {
				ok++
			}
		}
	}
	return ok
}

// Gateways that share a limit let through together about what one would, and what Redis knows
// of a key goes when its debt is paid.
func TestTheLimitHoldsOverGateways(t *testing.T) {
	redis := testenv.Redis(t)
	o := Options{Rate: 50, Burst: 10, Shared: true, Every: 20 * time.Millisecond}
	gateways := []*Limiter{limiter(t, o), limiter(t, o), limiter(t, o)}
	running(t, evalIn(redis), gateways...)
	key := NewKeys([]byte("shared")).String("ann")

	// Alone, each would let through 10 and 50 a second: 480 in all.
	const alone = 3 * (10 + 3*50)
	if got := hammer(key, 3*time.Second, gateways...); got > 300 || got < 80 {
		t.Errorf("got %d in 3 s, want about 160; %d if they did not share", got, alone)
	}
	// A gateway where the key has never been does not know it; one where it is hot does.
	if r := gateways[0].Take(key, time.Now()); r.OK && r.Remaining > 5 {
		t.Errorf("got %+v", r)
	}
	if got := redis.Must(t, "KEYS", "*").([]any); len(got) != 1 || got[0] != fmt.Sprintf("{seckill:limit:ip}:%016x", key) {
		t.Errorf("keys: got %v", got)
	}
	if got := redis.Must(t, "PTTL", fmt.Sprintf("{seckill:limit:ip}:%016x", key)).(int64); got < 1 || got > 400 {
		t.Errorf("expires in %d ms", got)
	}
	await(t, "the key is gone", func() bool { return redis.Must(t, "DBSIZE").(int64) == 0 })
	// Whoever has kept quiet for that long has his burst again.
	await(t, "the burst is back", func() bool { r := gateways[1].Take(key, time.Now()); return r.OK && r.Remaining >= 8 })
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("%s: not after 10 s", what)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// The script adds up, within its bounds, whatever is under the key.
func TestSettleAddsUp(t *testing.T) {
	eval := evalIn(testenv.Redis(t))
	run := func(args ...string) int64 {
		t.Helper()
		got, err := eval(t.Context(), settleScript, []string{"a"}, append([]string{"1000000.000", "20000000"}, args...))
		must(t, err)
		return got[0]
	}
	near := func(got, want int64) {
		t.Helper()
		if got > want || got < want-500_000 {
			t.Errorf("got %d µs, want %d", got, want)
		}
	}
	near(run("3"), 3_000_000)
	near(run("2"), 5_000_000)
	near(run("1000000"), 20_000_000)
	near(run("0"), 20_000_000)
}

// No round tells Redis of more keys than it may, none of a call of more than a batch.
func TestARoundIsBounded(t *testing.T) {
	l := limiter(t, Options{Rate: 10, Burst: 2, Shared: true, HotMax: 320})
	for key := range uint64(100_000) {
		l.Take(key, time.Now())
	}
	var told, calls int
	must(t, l.settle(t.Context(), func(_ context.Context, _ string, keys, args []string) ([]int64, error) {
		if len(keys) > batchKeys || len(args) != len(keys)+2 {
			t.Errorf("%d keys, %d arguments", len(keys), len(args))
		}
		told, calls = told+len(keys), calls+1
		return make([]int64, len(keys)), nil
	}))
	if told != 320 || calls != 3 {
		t.Errorf("%d keys in %d calls", told, calls)
	}
}

// What passes while a call is under way counts on top of what the call answers.
func TestDebtsAreRaised(t *testing.T) {
	l := limiter(t, Options{Rate: 10, Burst: 20, Shared: true})
	passed(l, 1, time.Now(), 10)
	must(t, l.settle(t.Context(), func(_ context.Context, _ string, keys, args []string) ([]int64, error) {
		if len(keys) != 1 || args[2] != "1" { // Nine made it hot, and were for the burst.
			t.Errorf("got %v, %v", keys, args)
		}
		passed(l, 1, time.Now(), 2)
		return []int64{1_500_000}, nil // 15 requests with all gateways.
	}))
	if got := passed(l, 1, time.Now(), 20); got < 3 || got > 4 {
		t.Errorf("got %d more, want 3", got)
	}
	// An answer that knows less takes nothing back.
	must(t, l.settle(t.Context(), func(context.Context, string, []string, []string) ([]int64, error) { return []int64{0}, nil }))
	if got := passed(l, 1, time.Now(), 20); got > 1 {
		t.Errorf("got %d more", got)
	}
}

// While Redis is away or talks nonsense, the gateway goes on with its own limit, says so once, and
// settles again when it can.
func TestGoesOnWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := limiter(t, Options{Rate: 10, Burst: 20, Shared: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		var away, calls atomic.Int64
		away.Store(1)
		eval := func(ctx context.Context, _ string, keys, _ []string) ([]int64, error) {
			calls.Add(1)
			switch away.Load() {
			case 1:
				return nil, errors.New("refused")
			case 2:
				<-ctx.Done() // It hangs.
				return nil, ctx.Err()
			case 3:
				return nil, nil
			}
			return make([]int64, len(keys)), nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx, eval) }()
		for mode := int64(1); mode <= 4; mode++ {
			away.Store(mode)
			before := calls.Load()
			ok := 0
			for range 1000 { // Ten seconds.
				if l.Take(1, time.Now()).OK {
					ok++
				}
				<-time.After(10 * time.Millisecond)
			}
			if ok < 99 || ok > 121 {
				t.Errorf("mode %d: %d passed in 10 s", mode, ok)
			}
			if n := calls.Load() - before; n < 5 || mode < 4 && n > 15 {
				t.Errorf("mode %d: %d calls", mode, n)
			}
		}
		cancel()
		must(t, <-done)
		if got := log.String(); strings.Count(got, "cannot settle") != 1 || strings.Count(got, "again") != 1 {
			t.Errorf("log: %s", got)
		}
	})
}

// What is not shared has nothing to settle.
func TestRunOfWhatIsNotShared(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, (*Limiter)(nil).Run(ctx, nil))
	must(t, limiter(t, Options{Rate: 1, Burst: 1}).Run(ctx, nil))
}
