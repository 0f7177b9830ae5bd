// Package rocketqueue is a queue in RocketMQ 4.9 or 5. internal/app opens it for a URL that
// begins with rocketmq://.
//
// It speaks the servers' remoting protocol by itself, in a few hundred lines, and has of
// Apache's Go client only the format of messages. That client waits out its full timeout
// for the answer to a question whose connection is lost, acknowledges whole batches only,
// hands offsets over after it has left the group, may panic while a consumer closes, and
// leaks goroutines. This package follows the same rules as Apache's clients do (who gets
// which queue, where offsets are kept), and may share a group with them.
package rocketqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"seckill/queue"
)

// Options say which queue it is.
type Options struct {
	// URL is rocketmq://[access:secret@]host:port[,host:port]/topic, with the name servers'
	// addresses and these settings behind a question mark: group (default: the topic's name),
	// queues (of a topic that has to be created; default 8, 0 forbids creating it) and cluster
	// (where to create it; needed if the name server knows several).
	URL string
	// Log hears when consumers lose their broker and find it again. Default: slog.Default().
	Log *slog.Logger
}

// openTime is how long Open takes at most.
const openTime = 10 * time.Second

// Queue is one topic and one group of consumers.
type Queue struct {
	cluster *cluster
	log     *slog.Logger
	ordered bool

	mu     sync.Mutex
	closed bool
	subs   map[*subscription]bool
}

// Open finds the topic, or creates it, and checks that it can be written and read. It takes
// 10 s at most.
func Open(ctx context.Context, o Options) (*Queue, error) {
	a, err := parseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("rocketmq: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	c := newCluster(a, route{}, nil)
	r, err := c.ensureTopic(ctx)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("rocketmq: %w", err)
	}
	return &Queue{
		cluster: c, log: cmp.Or(o.Log, slog.Default()), ordered: len(r.masters) == 1, subs: map[*subscription]bool{},
	}, nil
}

// Publish sends each message to the queue that its key chooses, many at a time.
func (q *Queue) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := q.cluster.send(ctx, msgs); err != nil {
		return fmt.Errorf("rocketmq publish: %w", err)
	}
	return nil
}

// Traits says that a topic on one broker keeps the order of each key. On several it does not claim
// that, because keys move to the other brokers' queues while one is away.
func (q *Queue) Traits() queue.Traits {
	return queue.Traits{Durable: true, OrderedByKey: q.ordered}
}

// Subscribe joins the group, and returns once the queues that fall to the new member are its own.
func (q *Queue) Subscribe(ctx context.Context) (queue.Subscription, error) {
	s := newSubscription(q)
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		s.cancel()
		return nil, fmt.Errorf("rocketmq subscribe: %w", errClosed)
	}
	q.subs[s] = true
	q.mu.Unlock()
	err := s.join(ctx)
	if err == nil {
		s.mu.Lock()
		if s.closed {
			err = errClosed
		} else {
			s.workers.Go(s.keepBalanced)
		}
		s.mu.Unlock()
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("rocketmq subscribe: %w", err)
	}
	return s, nil
}

func (q *Queue) forget(s *subscription) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.subs, s)
}

// Backlog counts, of each queue, what lies behind the first message that is not acknowledged.
// What was acknowledged out of turn counts until the gap closes.
func (q *Queue) Backlog(ctx context.Context) (queue.Backlog, error) {
	b, err := q.backlog(ctx)
	if err != nil {
		return queue.Backlog{}, fmt.Errorf("rocketmq backlog: %w", err)
	}
	return b, nil
}

func (q *Queue) backlog(ctx context.Context) (queue.Backlog, error) {
	r, err := q.cluster.route(ctx)
	if err != nil {
		return queue.Backlog{}, err
	}
	parts, errs := make([]queue.Backlog, len(r.readable)), make([]error, len(r.readable))
	var all sync.WaitGroup
	for i, m := range r.readable {
		all.Go(func() { parts[i], errs[i] = q.backlogOf(ctx, r, m) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return queue.Backlog{}, err
	}
	var sum queue.Backlog
	for _, part := range parts {
		sum.Waiting += part.Waiting
		if sum.Oldest.IsZero() || !part.Oldest.IsZero() && part.Oldest.Before(sum.Oldest) {
			sum.Oldest = part.Oldest
		}
	}
	return sum, nil
}

func (q *Queue) backlogOf(ctx context.Context, r route, m messageQueue) (queue.Backlog, error) {
	at, err := q.cluster.begin(ctx, r, m)
	if err != nil {
		return queue.Backlog{}, err
	}
	end, _, err := q.cluster.offset(ctx, r, m, askMaxOffset)
	if err != nil || end <= at {
		return queue.Backlog{}, err
	}
	b := queue.Backlog{Waiting: end - at}
	f, err := q.cluster.call(ctx, r.masters[m.broker], askPull, pullFields(q.cluster, m, at, 1, 0), nil)
	if err == nil && f.Code == saidOK {
		for _, msg := range primitive.DecodeMessage(f.body) {
			b.Oldest = time.UnixMilli(msg.StoreTimestamp)
			break
		}
	}
	return b, nil // A time that is not to be had is not known; the number is.
}

// Close ends the subscriptions, too.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	subs := slices.Collect(maps.Keys(q.subs))
	q.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range subs {
		all.Go(func() { _ = s.Close() })
	}
	all.Wait()
	q.cluster.close()
	return nil
}
