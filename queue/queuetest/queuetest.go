// Package queuetest is the conformance suite of package queue: one short function for
// each claim that the contract makes. A driver's whole test is a call of Run; a
// source that is filled in another way (a stock's outbox) calls RunSource.
//
// It asserts only what the contract promises. Nothing here waits by sleeping.
package queuetest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"seckill/queue"
)

// PatienceVariable is the environment variable that shortens Patience, as a duration.
const PatienceVariable = "SECKILL_TEST_PATIENCE"

// Patience is how long a claim may take before the suite gives it up, 30 s by default.
// Brokers on a busy machine are slow; a lost message is for ever.
func Patience() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(PatienceVariable)); err == nil {
		return d
	}
	return 30 * time.Second
}

// Open returns a handle on one queue, the same one at each call within a test.
type Open func(t *testing.T) queue.Queue

// Source is a queue.Source with the means to fill it.
type Source struct {
	queue.Source
	// Put puts a message for each id, and returns when they are safe.
	Put func(ctx context.Context, ids ...string) error
	// IDs tells which of them a delivery carries.
	IDs            func(queue.Delivery) []string
	CountsAttempts bool
}

// Run checks a queue against the contract.
func Run(t *testing.T, newQueue func(t *testing.T) Open) {
	for name, check := range map[string]func(*testing.T, Open){
		"RoundTrip":          roundTrip,
		"PublishedTogether":  publishedTogether,
		"OrderByKey":         orderByKey,
		"DurableAsClaimed":   durable,
		"ClosedQueueAnswers": closedQueueAnswers,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, newQueue(t)) })
	}
	RunSource(t, func(t *testing.T) func(*testing.T) Source {
		open := newQueue(t)
		return func(t *testing.T) Source { return sourceOf(open(t)) }
	})
}

func sourceOf(q queue.Queue) Source {
	return Source{
		Source: q,
		Put: func(ctx context.Context, ids ...string) error {
			msgs := make([]queue.Message, len(ids))
			for i, id := range ids {
				msgs[i] = queue.Message{ID: id, Key: id, Body: []byte("body of " + id)}
			}
			return q.Publish(ctx, msgs...)
		},
		IDs:            func(d queue.Delivery) []string { return []string{d.ID} },
		CountsAttempts: q.Traits().CountsAttempts,
	}
}

// RunSource checks the consuming end alone.
func RunSource(t *testing.T, newSource func(t *testing.T) func(t *testing.T) Source) {
	for name, check := range map[string]func(*testing.T, func(*testing.T) Source){
		"DeliversEach":       deliversEach,
		"AckedStaysGone":     ackedStaysGone,
		"AckTwiceIsHarmless": ackTwice,
		"UnackedComesBack":   unackedComesBack,
		"AtMostMax":          atMostMax,
		"CancelLosesNothing": cancelLosesNothing,
		"CloseUnblocks":      closeUnblocks,
		"BacklogCounts":      backlogCounts,
		"Shared":             shared,
		"Chaos":              chaos,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, newSource(t)) })
	}
}

func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience())
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func subscribe(t *testing.T, s queue.Source) queue.Subscription {
	t.Helper()
	sub, err := s.Subscribe(patience(t))
	must(t, err)
	t.Cleanup(func() { _ = sub.Close() })
	return sub
}

// receiveIn is Receive for a suite that has to survive drivers that never return.
func receiveIn(ctx context.Context, t *testing.T, sub queue.Subscription, max int) ([]queue.Delivery, error) {
	t.Helper()
	type result struct {
		ds  []queue.Delivery
		err error
	}
	done := make(chan result, 1)
	go func() {
		ds, err := sub.Receive(ctx, max)
		done <- result{ds, err}
	}()
	select {
	case r := <-done:
		return r.ds, r.err
	case <-time.After(Patience() + time.Second):
		t.Fatal("Receive does not return though its context has ended")
		return nil, nil
	}
}

// receive waits until n ids have come, and returns the deliveries.
func receive(t *testing.T, s Source, sub queue.Subscription, n int) []queue.Delivery {
	t.Helper()
	var all []queue.Delivery
	for got := 0; got < n; {
		ds, err := receiveIn(patience(t), t, sub, n-got)
		if err != nil {
			t.Fatalf("receive after %d of %d: %v", got, n, err)
		}
		for _, d := range ds {
			got += len(s.IDs(d))
		}
		all = append(all, ds...)
	}
	return all
}

// nothing checks that no id out of gone is delivered any more: it puts a marker, and
// takes everything until the marker comes.
func nothing(t *testing.T, s Source, sub queue.Subscription, gone map[string]bool) {
	t.Helper()
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	must(t, s.Put(patience(t), marker))
	for {
		ds, err := receiveIn(patience(t), t, sub, 100)
		must(t, err)
		seen := false
		for _, d := range ds {
			for _, id := range s.IDs(d) {
				if gone[id] {
					t.Fatalf("%s was delivered again after its acknowledgement", id)
				}
				seen = seen || id == marker
			}
		}
		must(t, sub.Ack(patience(t), ds...))
		if seen {
			return
		}
	}
}

func names(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return ids
}
