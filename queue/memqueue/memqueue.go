// Package memqueue is the queue contract in memory: the readable specification that
// other drivers are compared with, and a queue for tests. It outlives nothing.
package memqueue

import (
	"context"
	"errors"
	"sync"
	"time"

	"seckill/queue"
)

// ErrClosed is what a closed queue or subscription answers.
var ErrClosed = errors.New("the queue is closed")

// Queue keeps messages in the order of their publishing; what comes back goes to the
// front again. It may be used concurrently.
type Queue struct {
	mu      sync.Mutex
	ready   []*item
	held    map[*item]struct{} // Delivered, not acknowledged.
	arrived chan struct{}      // Closed, and made anew, whenever ready grows or the queue closes.
	closed  bool
}

type item struct {
	message queue.Message
	at      time.Time
	attempt int
	holder  *subscription
}

// New makes an empty queue.
func New() *Queue {
	return &Queue{held: map[*item]struct{}{}, arrived: make(chan struct{})}
}

// Publish puts messages at the end.
func (q *Queue) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	for _, m := range msgs {
		m.Body = append([]byte(nil), m.Body...)
		q.ready = append(q.ready, &item{message: m, at: time.Now()})
	}
	q.wake()
	return nil
}

// wake tells every waiting Receive to look again. The caller holds the lock.
func (q *Queue) wake() {
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// Traits of a queue in memory.
func (q *Queue) Traits() queue.Traits {
	return queue.Traits{OrderedByKey: true, CountsAttempts: true}
}

// Backlog counts messages.
func (q *Queue) Backlog(context.Context) (queue.Backlog, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := queue.Backlog{Waiting: int64(len(q.ready) + len(q.held))}
	for it := range q.held {
		b.Oldest = earlier(b.Oldest, it.at)
	}
	for _, it := range q.ready {
		b.Oldest = earlier(b.Oldest, it.at)
	}
	return b, nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Close wakes everybody who waits. Twice is harmless.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
	return nil
}

// Subscribe joins the group.
func (q *Queue) Subscribe(context.Context) (queue.Subscription, error) {
	return &subscription{queue: q}, nil
}

type subscription struct {
	queue  *Queue
	closed bool // Under the queue's lock.
}

func (s *subscription) Receive(ctx context.Context, max int) ([]queue.Delivery, error) {
	q := s.queue
	for {
		q.mu.Lock()
		if s.closed || q.closed {
			q.mu.Unlock()
			return nil, ErrClosed
		}
		if n := min(max, len(q.ready)); n > 0 && ctx.Err() == nil {
			ds := make([]queue.Delivery, n)
			for i, it := range q.ready[:n] {
				it.attempt++
				it.holder = s
				q.held[it] = struct{}{}
				ds[i] = queue.Delivery{Message: it.message, Attempt: it.attempt, Handle: it}
			}
			q.ready = q.ready[n:]
			q.mu.Unlock()
			return ds, nil
		}
		arrived := q.arrived
		q.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *subscription) Ack(_ context.Context, ds ...queue.Delivery) error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	for _, d := range ds {
		if it := d.Handle.(*item); it.holder == s {
			delete(s.queue.held, it)
		}
	}
	return nil
}

func (s *subscription) Close() error {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var back []*item
	for it := range q.held {
		if it.holder == s {
			it.holder = nil
			back = append(back, it)
			delete(q.held, it)
		}
	}
	q.ready = mergeByAge(back, q.ready)
	q.wake()
	return nil
}
