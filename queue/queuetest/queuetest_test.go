package queuetest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"seckill/queue"
	"seckill/queue/memqueue"
	"seckill/queue/queuetest"
)

// faultVariable names the fault that a child process of this test shows.
const faultVariable = "SECKILL_TEST_QUEUE_FAULT"

// faults are ways in which a driver may be wrong. The suite has to fail each.
var faults = []string{
	"loses unacked", "ack does nothing", "delivers twice", "drops one in 97", "mangles bytes", "mangles key",
	"does not count attempts", "hides that it counts attempts", "boasts of durability", "boasts of order",
	"close does not wake", "backlog is always zero", "backlog forgets what is delivered", "more than max", "cancelled receive loses",
}

// TestSuiteCatchesBrokenQueues runs the suite against each fault in a process of its
// own, and wants it to fail. A suite that nothing fails proves nothing.
func TestSuiteCatchesBrokenQueues(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenQueue$", "-test.timeout=60s", "-test.parallel=20")
			child.Env = append(os.Environ(), faultVariable+"="+fault, queuetest.PatienceVariable+"=1s")
			out, err := child.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL") {
				t.Errorf("the suite passed it: %v\n%s", err, out)
			}
		})
	}
}

// TestBrokenQueue is the child of the test above; by itself it runs the suite on a
// queue without a fault, through the same wrapper.
func TestBrokenQueue(t *testing.T) {
	fault := os.Getenv(faultVariable)
	queuetest.Run(t, func(t *testing.T) queuetest.Open {
		q := memqueue.New()
		t.Cleanup(func() { q.Close() })
		b := &broken{Queue: q, fault: fault}
		return func(t *testing.T) queue.Queue {
			if fault == "boasts of durability" {
				return &broken{Queue: memqueue.New(), fault: fault}
			}
			return b
		}
	})
}

type broken struct {
	queue.Queue
	fault     string
	published atomic.Int64
}

func (b *broken) is(fault string) bool { return b.fault == fault }

func (b *broken) Traits() queue.Traits {
	t := b.Queue.Traits()
	if b.is("hides that it counts attempts") {
		t.CountsAttempts = false
	}
	if b.is("boasts of durability") {
		t.Durable = true
	}
	return t
}

func (b *broken) Publish(ctx context.Context, msgs ...queue.Message) error {
	var out []queue.Message
	for _, m := range msgs {
		if b.is("drops one in 97") && b.published.Add(1)%97 == 0 {
			continue
		}
		if b.is("mangles bytes") && len(m.Body) > 1000 {
			m.Body = append(m.Body[:len(m.Body)-1:len(m.Body)-1], 0)
		}
		if b.is("mangles key") {
			m.Key = ""
		}
		out = append(out, m)
		if b.is("delivers twice") {
			out = append(out, m)
		}
	}
	if b.is("boasts of order") && b.published.Add(1)%2 == 0 {
		return b.later(ctx, out)
	}
	return b.Queue.Publish(ctx, out...)
}

// later publishes under a key of its own, after a message that was not there.
func (b *broken) later(ctx context.Context, msgs []queue.Message) error {
	for i := range msgs {
		if n := len(msgs[i].ID); n < 3 {
			msgs[i].ID = fmt.Sprint("-", msgs[i].ID)
		}
	}
	return b.Queue.Publish(ctx, msgs...)
}

func (b *broken) Backlog(ctx context.Context) (queue.Backlog, error) {
	got, err := b.Queue.Backlog(ctx)
	if b.is("backlog is always zero") {
		got = queue.Backlog{}
	}
	if b.is("backlog forgets what is delivered") {
		got.Waiting++
	}
	return got, err
}

func (b *broken) Subscribe(ctx context.Context) (queue.Subscription, error) {
	s, err := b.Queue.Subscribe(ctx)
	return &brokenSubscription{Subscription: s, broken: b}, err
}

type brokenSubscription struct {
	queue.Subscription
	*broken
	mu   sync.Mutex
	held []queue.Delivery
	left bool // The last Receive was cancelled.
}

func (s *brokenSubscription) Receive(ctx context.Context, max int) ([]queue.Delivery, error) {
	if s.is("more than max") {
		max += 2
	}
	waiting := ctx
	if s.is("close does not wake") {
		waiting = context.WithoutCancel(ctx)
	}
	ds, err := s.Subscription.Receive(waiting, max)
	if s.is("close does not wake") && err != nil {
		<-ctx.Done()
	}
	if s.is("cancelled receive loses") {
		if s.left && err == nil { // A reader that was left behind has taken them.
			s.Subscription.Ack(ctx, ds...)
			s.left = false
			return s.Receive(ctx, max)
		}
		s.left = err != nil
	}
	s.mu.Lock()
	s.held = append(s.held, ds...)
	s.mu.Unlock()
	if s.is("does not count attempts") {
		for i := range ds {
			ds[i].Attempt = 1
		}
	}
	return ds, err
}

func (s *brokenSubscription) Ack(ctx context.Context, ds ...queue.Delivery) error {
	if s.is("ack does nothing") {
		return nil
	}
	return s.Subscription.Ack(ctx, ds...)
}

func (s *brokenSubscription) Close() error {
	if s.is("loses unacked") {
		s.mu.Lock()
		s.Subscription.Ack(context.Background(), s.held...)
		s.mu.Unlock()
	}
	return s.Subscription.Close()
}
