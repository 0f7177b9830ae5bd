// Package relay moves what the stock decided from its outbox to a broker. It is
// needed only where the outbox itself is not the queue.
//
// It drops a message from the outbox only once the broker has confirmed it: dying
// between the two sends the message again, and the order writer settles a
// reservation once, however often it comes. The workers run it.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"seckill/internal/tracing"
	"seckill/queue"
)

// publisher is what this stage needs of a broker.
type publisher interface {
	Publish(ctx context.Context, msgs ...queue.Message) error
}

// Relay moves messages. Run may be called several times at once: each call is a
// consumer of its own.
type Relay struct {
	Outbox queue.Source // Required.
	Broker publisher    // Required.

	// BatchMax is how many messages go to the broker in one call, at most; 50 by default. A
	// message carries the reservations that were decided together.
	BatchMax int
	// CallTimeout bounds one call of the broker or the outbox; 15 s by default.
	CallTimeout time.Duration
	// RetryLeast and RetryMost bound the waits between tries; 50 ms and 5 s by default.
	RetryLeast, RetryMost time.Duration

	Log    *slog.Logger    // Discards by default.
	Tracer *tracing.Tracer // Nil, the default: nothing is traced, and no message is read.
}

// Run works until ctx ends, and then returns nil: a call under way is finished first, and what
// the broker did not confirm is handed back to the outbox.
func (r *Relay) Run(ctx context.Context) error {
	c := r.withDefaults()
	if c.Outbox == nil || c.Broker == nil {
		return errors.New("relay: Outbox and Broker are required")
	}
	wait := c.RetryLeast
	for ctx.Err() == nil {
		moved, err := c.move(ctx)
		if ctx.Err() != nil {
			break
		}
		if moved {
			wait = c.RetryLeast
		}
		c.Log.Warn("the way from the outbox to the broker is interrupted, trying again", "error", err, "wait", wait.Round(time.Millisecond))
		pause(ctx, wait)
		wait = min(2*wait, c.RetryMost)
	}
	return nil //nolint:nilerr // It was told to stop.
}

func (r *Relay) withDefaults() *Relay {
	c := *r
	if c.BatchMax == 0 {
		c.BatchMax = 50
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = 15 * time.Second
	}
	if c.RetryLeast == 0 {
		c.RetryLeast = 50 * time.Millisecond
	}
	if c.RetryMost == 0 {
		c.RetryMost = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &c
}

// move works on one subscription until something fails or ctx ends.
func (r *Relay) move(ctx context.Context) (moved bool, err error) {
	sub, err := r.Outbox.Subscribe(ctx)
	if err != nil {
		return false, fmt.Errorf("subscribe to the outbox: %w", err)
	}
	defer func() { err = errors.Join(err, sub.Close()) }()
	for {
		ds, err := sub.Receive(ctx, r.BatchMax)
		if err != nil {
			return moved, fmt.Errorf("receive from the outbox: %w", err)
		}
		msgs := make([]queue.Message, len(ds))
		for i, d := range ds {
			msgs[i] = d.Message
		}
		// A call that has begun is not broken off by the end: it would only leave more to repeat.
		begin := time.Now()
		err = r.call(ctx, func(ctx context.Context) error { return r.Broker.Publish(ctx, msgs...) })
		r.trace(msgs, begin, err)
		if err != nil {
			return moved, fmt.Errorf("publish %d messages: %w", len(msgs), err)
		}
		if err := r.call(ctx, func(ctx context.Context) error { return sub.Ack(ctx, ds...) }); err != nil {
			return moved, fmt.Errorf("drop %d messages from the outbox: %w", len(msgs), err)
		}
		moved = true
	}
}

// trace tells of a call of the broker for the reservations in it that are traced.
func (r *Relay) trace(msgs []queue.Message, begin time.Time, err error) {
	if r.Tracer == nil {
		return
	}
	end := time.Now()
	for _, m := range msgs {
		_, rs, unread := queue.DecodeReservations(m.Body)
		if unread != nil {
			continue // The order writer says so.
		}
		for _, one := range rs {
			r.Tracer.Published(one, begin, end, len(msgs), err)
		}
	}
}

// stopGrace is how long a call may still take once the relay is to stop.
const stopGrace = 2 * time.Second

func (r *Relay) call(ctx context.Context, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.CallTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })()
	return do(bounded)
}

// pause waits for about d, so that relays that failed together do not come back together.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Both is the backlog on both sides of a relay: what waits in the outbox and what waits with the
// broker. Consumers subscribe to the broker.
type Both struct {
	queue.Queue
	Outbox queue.Source
}

// Backlog adds up what waits. A side that cannot be asked fails it: half a number would be a wrong one.
func (b Both) Backlog(ctx context.Context) (queue.Backlog, error) {
	here, err := b.Outbox.Backlog(ctx)
	if err != nil {
		return queue.Backlog{}, fmt.Errorf("backlog of the outbox: %w", err)
	}
	there, err := b.Queue.Backlog(ctx)
	if err != nil {
		return queue.Backlog{}, fmt.Errorf("backlog of the broker: %w", err)
	}
	here.Waiting += there.Waiting
	if here.Oldest.IsZero() || !there.Oldest.IsZero() && there.Oldest.Before(here.Oldest) {
		here.Oldest = there.Oldest
	}
	return here, nil
}
