package queuetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"seckill/queue"
)

// Faulty is a queue whose broker can be hurt. What a driver's test cannot do stays nil.
type Faulty struct {
	Open          Open               // A handle on one queue, by way of what Cut cuts.
	Kill, Start   func(t *testing.T) // The broker ends without a word, and begins again on its address and its data.
	Pause, Resume func(t *testing.T) // The broker stands still, and goes on.
	Cut, Heal     func(t *testing.T) // All connections break and new ones are refused, and are let in again.
}

// RunFaults hurts the broker while messages are on their way. Each claim has a broker of
// its own.
func RunFaults(t *testing.T, newFaulty func(t *testing.T) Faulty) {
	for _, fault := range []struct {
		name       string
		begin, end func(Faulty) func(*testing.T)
	}{
		{"BrokerKilled", func(f Faulty) func(*testing.T) { return f.Kill }, func(f Faulty) func(*testing.T) { return f.Start }},
		{"BrokerPaused", func(f Faulty) func(*testing.T) { return f.Pause }, func(f Faulty) func(*testing.T) { return f.Resume }},
		{"ConnectionsCut", func(f Faulty) func(*testing.T) { return f.Cut }, func(f Faulty) func(*testing.T) { return f.Heal }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			f := newFaulty(t)
			begin, end := fault.begin(f), fault.end(f)
			if begin == nil {
				t.Log("cannot be had")
				return
			}
			survives(t, f.Open, begin, end)
		})
	}
}

// faultTime is how long each fault lasts: long enough for calls under way to fail.
const faultTime = 2 * time.Second

// survives hurts the broker twice, while one goroutine publishes and two consumers
// acknowledge, leave and come back. Every message whose publishing was confirmed arrives, and in the
// end nothing is left.
func survives(t *testing.T, open Open, begin, end func(*testing.T)) {
	q := open(t)
	everything := names("m", 300)
	work := newLedger(everything)
	ctx, cancel := context.WithCancel(patience(t))
	defer cancel()
	var all sync.WaitGroup
	published := make(chan struct{}, len(everything))
	all.Go(func() {
		for i := 0; i < len(everything); i += 5 {
			publishUntilSafe(ctx, q, everything[i:i+5])
			published <- struct{}{}
			pauseFor(ctx, 5*time.Millisecond) // Spread over the faults.
		}
	})
	for i := range 2 {
		all.Go(func() { consumeThroughFaults(ctx, q, work, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	for range 2 {
		for range 5 { // In the middle of it.
			select {
			case <-published:
			case <-ctx.Done():
				t.Fatal("nothing is published")
			}
		}
		begin(t)
		pauseFor(ctx, faultTime)
		end(t)
	}
	await(t, fmt.Sprintf("each of %d messages to be acknowledged", len(everything)), func() bool { return work.left() == 0 })
	work.stop()
	await(t, "the backlog to be empty", func() bool {
		// What was acknowledged in the moment of a fault may come once more.
		drain(t, q)
		b, err := q.Backlog(patience(t))
		return err == nil && b.Waiting == 0
	})
	cancel()
	join(t, &all)
}

func publishUntilSafe(ctx context.Context, q queue.Queue, ids []string) {
	msgs := make([]queue.Message, len(ids))
	for i, id := range ids {
		msgs[i] = queue.Message{ID: id, Key: id, Body: []byte("body of " + id)}
	}
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := q.Publish(call, msgs...)
		cancel()
		if err == nil {
			return
		}
		pauseFor(ctx, 50*time.Millisecond)
	}
}

// consumeThroughFaults joins again after every failure, as the order writer does.
func consumeThroughFaults(ctx context.Context, q queue.Queue, work *ledger, dice *rand.Rand) {
	for work.left() > 0 && ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		sub, err := q.Subscribe(call)
		cancel()
		if err != nil {
			pauseFor(ctx, 50*time.Millisecond)
			continue
		}
		work.consume(ctx, sourceOf(q), sub, 0.05, dice)
		_ = sub.Close() // What it could not hand back comes again by itself.
	}
}

// drain acknowledges what is there now.
func drain(t *testing.T, q queue.Queue) {
	t.Helper()
	call, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	sub, err := q.Subscribe(call)
	if err != nil {
		return
	}
	defer func() { _ = sub.Close() }()
	for {
		ds, err := sub.Receive(call, 100)
		if err != nil || sub.Ack(t.Context(), ds...) != nil {
			return
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
