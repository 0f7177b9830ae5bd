package rabbitqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"seckill/queue"
)

// subscription is one consumer, on a connection of its own.
type subscription struct {
	queue   *Queue
	link    *link
	arrived chan struct{} // Holds a token when there may be something to take.
	done    chan struct{} // Closed when nothing more can come.
	pumping sync.WaitGroup
	closing sync.Once

	mu      sync.Mutex
	waiting []amqp.Delivery // Here, but not received.
	open    window
	err     error // Why nothing more can come.
}

// handle is what a delivery remembers.
type handle struct {
	sub *subscription
	tag uint64
}

// Subscribe connects a consumer. The subscription ends when its connection does: what
// it had not acknowledged is delivered to others then, or to the next Subscribe.
func (q *Queue) Subscribe(ctx context.Context) (queue.Subscription, error) {
	ctx, stop := q.while(ctx)
	defer stop()
	l, err := q.dial(ctx, role{"consumer", q.asConsumer})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %v: %w", q.target, err)
	}
	s := &subscription{queue: q, link: l, arrived: make(chan struct{}, 1), done: make(chan struct{})}
	if err := q.add(s); err != nil {
		l.close(q.options.CloseTimeout)
		return nil, err
	}
	s.pumping.Go(s.pump)
	return s, nil
}

// asConsumer prepares a link for consuming.
func (q *Queue) asConsumer(l *link) error {
	if err := l.ch.Qos(q.options.Prefetch, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	l.cancelled = l.ch.NotifyCancel(make(chan string, 1))
	var err error
	l.deliveries, err = l.ch.Consume(q.queue, "seckill", false, false, false, false, nil)
	if reason := refusal(err); reason != nil && reason.Code == amqp.AccessRefused {
		return fmt.Errorf("user %q may not consume: it needs the right read on the queue", q.user)
	}
	return err
}

// pump takes over what the broker sends, at most Prefetch messages that are not acknowledged,
// until the connection ends.
func (s *subscription) pump() {
	for d := range s.link.deliveries {
		s.mu.Lock()
		s.waiting = append(s.waiting, d)
		s.open.add(d.DeliveryTag, d.Timestamp)
		s.mu.Unlock()
		select {
		case s.arrived <- struct{}{}:
		default:
		}
	}
	s.link.abandon()
	err := s.link.why()
	select {
	case _, ok := <-s.link.cancelled:
		if ok {
			err = errors.New("the broker ended the consumer: was the queue deleted?")
		}
	default:
	}
	s.fail(err)
}

// fail ends the subscription for the reason given, unless it has ended already.
func (s *subscription) fail(err error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.err = err
	s.waiting = nil // They come again, so they are not handed out here.
	close(s.done)
	return true
}

// Receive implements [queue.Subscription]. It fails when the connection is lost.
func (s *subscription) Receive(ctx context.Context, most int) ([]queue.Delivery, error) {
	for {
		ds, err := s.take(ctx, most)
		if err != nil {
			return nil, fmt.Errorf("receive from %v: %w", s.queue.target, err)
		}
		if len(ds) > 0 {
			return ds, nil
		}
		select {
		case <-s.arrived:
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

// take returns what has arrived, which may be nothing.
func (s *subscription) take(ctx context.Context, most int) ([]queue.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := min(len(s.waiting), most)
	ds := make([]queue.Delivery, n)
	for i, d := range s.waiting[:n] {
		key, _ := d.Headers[keyHeader].(string)
		ds[i] = queue.Delivery{
			Message: queue.Message{ID: d.MessageId, Key: key, Body: d.Body},
			Attempt: s.attempt(d),
			Handle:  handle{s, d.DeliveryTag},
		}
		s.waiting[i] = amqp.Delivery{} // The body is the receiver's now.
	}
	s.waiting = s.waiting[n:]
	return ds, nil
}

// attempt is from 1. A quorum queue counts how often a message came back.
func (s *subscription) attempt(d amqp.Delivery) int {
	if s.queue.classic {
		return 1
	}
	var before int64
	switch n := d.Headers["x-delivery-count"].(type) {
	case int64:
		before = n
	case int32:
		before = int64(n)
	}
	if d.Redelivered {
		before = max(before, 1)
	}
	return 1 + int(before)
}

// Ack implements [queue.Subscription]. The broker does not answer to it: when the
// connection is lost soon after, some of what was acknowledged comes again.
func (s *subscription) Ack(ctx context.Context, ds ...queue.Delivery) error {
	tags := make([]uint64, 0, len(ds))
	for _, d := range ds {
		if h, ok := d.Handle.(handle); ok && h.sub == s {
			tags = append(tags, h.tag)
		}
	}
	if err := s.ack(ctx, tags); err != nil {
		return fmt.Errorf("acknowledge %d messages of %v: %w", len(tags), s.queue.target, err)
	}
	return nil
}

func (s *subscription) ack(ctx context.Context, tags []uint64) error {
	s.mu.Lock()
	if err := first(s.err, ctx.Err()); err != nil {
		defer s.mu.Unlock()
		if !s.open.has(tags) {
			return nil // Each was acknowledged before.
		}
		return err
	}
	upTo, single := s.open.settle(tags)
	s.mu.Unlock()

	stop := context.AfterFunc(ctx, s.link.abandon) // A write to a broker that hangs has no other end.
	defer stop()
	if upTo > 0 {
		if err := s.link.ch.Ack(upTo, true); err != nil {
			return err
		}
	}
	for _, tag := range single {
		if err := s.link.ch.Ack(tag, false); err != nil {
			return err
		}
	}
	return nil
}

// held is how many messages are here unacknowledged, received or not, and since when the
// oldest is in the queue.
func (s *subscription) held() (int, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, time.Time{} // The broker has them back.
	}
	return s.open.count, s.open.oldest()
}

// Close implements [queue.Subscription]. A broker that does not answer hands the messages to
// others as soon as it finds the connection closed.
func (s *subscription) Close() error {
	s.closing.Do(func() {
		if s.fail(ErrClosed) {
			s.link.close(s.queue.options.CloseTimeout)
		} else {
			s.link.drop()
		}
		s.pumping.Wait()
		s.queue.remove(s)
	})
	return nil
}
