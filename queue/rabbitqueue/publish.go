package rabbitqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"seckill/queue"
)

// windowMax is how many messages may be on their way to the broker without its confirmation.
const windowMax = 500

// keyHeader is the header that carries a message's key.
const keyHeader = "key"

// Publish returns nil once the broker has confirmed every message: a quorum queue has it on
// the disks of a majority then, a classic one on its disk. A broker that is away fails
// it at once; one that hangs, or is low on memory or disk, when ctx ends or after Options.PublishTimeout.
func (q *Queue) Publish(ctx context.Context, msgs ...queue.Message) error {
	for _, m := range msgs {
		if len(m.ID) > shortMax {
			return fmt.Errorf("publish to %v: a message's id has %d bytes, more than %d", q.target, len(m.ID), shortMax)
		}
	}
	if len(msgs) == 0 {
		return nil
	}
	err := q.publishing.do(ctx, q.options.PublishTimeout, func(ctx context.Context, l *link) error {
		for rest := msgs; len(rest) > 0; {
			n := min(len(rest), windowMax)
			if err := q.publish(ctx, l, q.queue, rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("publish %d messages to %v: %w", len(msgs), q.target, err)
	}
	return nil
}

// mayPublish fails if the queue cannot be published to. It sends a message to a queue that
// cannot be, as RabbitMQ looks at rights when there is a message and not before.
func (q *Queue) mayPublish(ctx context.Context) error {
	return q.publishing.do(ctx, q.options.DialTimeout, func(ctx context.Context, l *link) error {
		err := q.publish(ctx, l, "amq.seckill.nowhere", []queue.Message{{}})
		if errors.Is(err, errUnroutable) {
			return nil // It came as far as that.
		}
		return err
	})
}

// asPublisher prepares a link for publishing.
func asPublisher(l *link) error {
	l.returns = l.ch.NotifyReturn(make(chan amqp.Return, windowMax))
	if err := l.ch.Confirm(false); err != nil {
		return fmt.Errorf("switch confirmations on: %w", err)
	}
	return nil
}

// errUnroutable is said of messages that no queue took.
var errUnroutable = errors.New("the queue is not there (any more)")

// publish sends messages, at most windowMax, and waits until the broker has them all.
func (q *Queue) publish(ctx context.Context, l *link, key string, msgs []queue.Message) error {
	now := time.Now()
	sent := make([]*amqp.DeferredConfirmation, len(msgs))
	for i, m := range msgs {
		var err error
		sent[i], err = l.ch.PublishWithDeferredConfirm("", key, true, false, amqp.Publishing{
			Headers:      amqp.Table{keyHeader: m.Key},
			DeliveryMode: amqp.Persistent,
			MessageId:    m.ID,
			Timestamp:    now,
			Body:         m.Body,
		})
		if err != nil {
			return q.denied(l)
		}
	}
	refused := 0
	for _, s := range sent {
		if ok, err := s.WaitContext(ctx); err != nil {
			return fmt.Errorf("no confirmation: %w", context.Cause(ctx))
		} else if !ok {
			refused++
		}
	}
	switch {
	case refused > 0 && l.broken():
		return q.denied(l)
	case refused > 0:
		return fmt.Errorf("the broker refused %d of them: is the queue full, by a policy of its own?", refused)
	case len(l.returns) > 0: // They come before the confirmations.
		for range len(l.returns) {
			<-l.returns
		}
		return errUnroutable
	}
	return nil
}

// denied is the error of a link that failed under a publisher.
func (q *Queue) denied(l *link) error {
	l.abandon() // Whatever it was that failed, the rest is of no use.
	err := l.why()
	if reason := refusal(err); reason != nil && reason.Code == amqp.AccessRefused {
		return fmt.Errorf("user %q may not publish: it needs the right write on amq.default", q.user)
	}
	return err
}
