// Package rabbitqueue is a queue in RabbitMQ: a quorum queue, or a durable classic one.
// It creates the queue if it may. Messages are persistent, and published means confirmed by the
// broker; a message that no queue takes is an error, not a loss.
//
// Each message is one message of AMQP 0-9-1 on the default exchange: message_id is the
// message's ID, the header "key" its key, and the body is as it is. Only the application
// opens queues; nothing here knows what is in them.
package rabbitqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"seckill/queue"
)

// Bounds.
const (
	prefetchMax = 2000 // What RabbitMQ advises for quorum queues.
	shortMax    = 255  // Bytes of AMQP's short strings: names and message ids.
)

// ErrClosed is what a closed queue or subscription answers.
var ErrClosed = errors.New("the queue is closed")

// Options of a queue.
type Options struct {
	URL string       // amqp[s]://user:pass@host:port/vhost?queue=NAME and more settings; required.
	Log *slog.Logger // Discards by default.

	// Prefetch is how many messages one subscription holds unacknowledged at most, those
	// not yet received included: 1 to 2000, 500 by default. The URL's prefetch goes first.
	Prefetch int
	// Heartbeat is how often broker and program make sure of one another: 1 s to 10 min,
	// 10 s by default. A broker that is silent for one and a half of it is lost. The
	// URL's heartbeat goes first.
	Heartbeat time.Duration
	// DialTimeout bounds one attempt to connect, log in and declare the queue; 5 s by default.
	DialTimeout time.Duration
	// PublishTimeout bounds a Publish whose context lasts longer; 30 s by default.
	PublishTimeout time.Duration
	// CloseTimeout bounds how long a closing connection waits for the broker's goodbye;
	// 2 s by default.
	CloseTimeout time.Duration
}

// Queue is one queue of a broker. It may be used concurrently.
type Queue struct {
	*target
	options Options
	pace    pace

	publishing *lane // The publishers' connection, one Publish at a time.
	asking     *lane // The connection for Backlog: the broker does not read from one that it blocks.

	life context.Context // Ends with the queue.
	end  context.CancelFunc

	mu     sync.Mutex
	subs   map[*subscription]struct{}
	closed bool
}

// Open connects, and creates the queue if it is not there. It fails when the broker cannot
// be reached, or when something is missing there: the error says what.
func Open(ctx context.Context, o Options) (*Queue, error) {
	t, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	o.Prefetch = first(t.prefetch, o.Prefetch, 500)
	o.Heartbeat = first(t.heartbeat, o.Heartbeat, 10*time.Second)
	o.DialTimeout = first(o.DialTimeout, 5*time.Second)
	o.PublishTimeout = first(o.PublishTimeout, 30*time.Second)
	o.CloseTimeout = first(o.CloseTimeout, 2*time.Second)
	o.Log = first(o.Log, slog.New(slog.DiscardHandler))
	switch {
	case o.Prefetch < 1 || o.Prefetch > prefetchMax:
		return nil, fmt.Errorf("prefetch is %d; accepted are 1 to %d messages", o.Prefetch, prefetchMax)
	case o.Heartbeat < time.Second || o.Heartbeat > 10*time.Minute:
		return nil, fmt.Errorf("heartbeat is %v; accepted are 1 s to 10 min", o.Heartbeat)
	}
	q := &Queue{target: t, options: o, subs: map[*subscription]struct{}{}}
	q.life, q.end = context.WithCancel(context.Background())
	q.publishing = newLane(q, role{"publisher", asPublisher})
	q.asking = newLane(q, role{"observer", func(*link) error { return nil }})
	if err := q.mayPublish(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w", t, err), q.Close())
	}
	return q, nil
}

func first[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}

// Traits of the queue. A classic queue only tells that a message was delivered before, not
// how often.
func (q *Queue) Traits() queue.Traits {
	return queue.Traits{Durable: true, OrderedByKey: true, CountsAttempts: !q.classic}
}

// Backlog counts messages: those that are ready, and those that this process holds
// unacknowledged. What other processes hold is not in it, as AMQP does not tell; that is
// at most Prefetch for each of their subscriptions. The oldest is that of the messages that this
// process holds; it is unknown where it holds none.
func (q *Queue) Backlog(ctx context.Context) (queue.Backlog, error) {
	var b queue.Backlog
	err := q.asking.do(ctx, q.options.DialTimeout, func(_ context.Context, l *link) error {
		found, err := l.ch.QueueDeclarePassive(q.queue, true, false, false, false, nil)
		if err != nil {
			l.abandon()
			return l.why()
		}
		b.Waiting = int64(found.Messages)
		return nil
	})
	if err != nil {
		return queue.Backlog{}, fmt.Errorf("backlog of %v: %w", q.target, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for s := range q.subs {
		held, oldest := s.held()
		b.Waiting += int64(held)
		if held > 0 && !oldest.IsZero() && (b.Oldest.IsZero() || oldest.Before(b.Oldest)) {
			b.Oldest = oldest
		}
	}
	return b, nil
}

// Close closes all subscriptions and connections. Twice is harmless.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	subs := make([]*subscription, 0, len(q.subs))
	for s := range q.subs {
		subs = append(subs, s)
	}
	q.mu.Unlock()

	q.end() // Wakes calls under way.
	var all sync.WaitGroup
	for _, s := range subs {
		all.Go(func() { _ = s.Close() })
	}
	all.Go(q.publishing.close)
	all.Go(q.asking.close)
	all.Wait()
	return nil
}

// add notes a subscription, if the queue is open.
func (q *Queue) add(s *subscription) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.subs[s] = struct{}{}
	return nil
}

func (q *Queue) remove(s *subscription) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.subs, s)
}
