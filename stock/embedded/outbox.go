package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"seckill"
	"seckill/queue"
)

// message carries reservations that one call of Reserve took. It leaves the outbox
// when it is acknowledged, or when each of its reservations is settled.
type message struct {
	lsn       uint64 // Of its entry; its id.
	run       seckill.RunID
	atMS      int64
	purchases []*purchase
	left      int  // Reservations that are not settled.
	shown     bool // It is on disk, and may be delivered.
	gone      bool // Nobody needs it any more.
	holder    *subscription
}

// outbox holds the messages that are on disk and not taken care of. The engine's
// lock guards it. A nil one does nothing: there is none during a replay.
type outbox struct {
	all     []*message // Oldest first; those that are gone are cut off at the front.
	next    int        // all[next:] were never delivered.
	back    []*message // Handed back, oldest first.
	gone    int        // In all.
	waiting int64      // Reservations that are not settled.
	subs    map[*subscription]struct{}
}

// show makes messages ready to be delivered.
func (o *outbox) show(messages []*message) {
	for _, m := range messages {
		if m.gone {
			continue
		}
		m.shown = true
		o.waiting += int64(m.left)
		o.all = append(o.all, m)
	}
	if len(messages) > 0 {
		o.wake()
	}
}

func (o *outbox) wake() {
	for s := range o.subs {
		signal(s.wake)
	}
}

// less counts n reservations of a message as settled.
func (o *outbox) less(m *message, n int) {
	if o != nil && m.shown {
		o.waiting -= int64(n)
	}
}

// trim forgets messages that are gone, after m has become so.
func (o *outbox) trim(m *message) {
	if o == nil || !m.shown {
		return
	}
	o.gone++
	cut := 0
	for cut < len(o.all) && o.all[cut].gone {
		cut++
	}
	clear(o.all[:cut])
	o.all = o.all[cut:]
	o.next = max(o.next-cut, 0)
	o.gone -= cut
	if o.gone > 1024 && o.gone > len(o.all)/2 {
		o.sweep()
	}
}

// sweep forgets those in the middle, for when one old message stays.
func (o *outbox) sweep() {
	kept := make([]*message, 0, len(o.all)-o.gone)
	next := 0
	for i, m := range o.all {
		if m.gone {
			continue
		}
		if i < o.next {
			next++
		}
		kept = append(kept, m)
	}
	o.all, o.next, o.gone = kept, next, 0
}

// pop takes at most n messages for a subscription.
func (o *outbox) pop(s *subscription, n int) (taken []*message) {
	take := func(m *message) {
		if !m.gone {
			m.holder = s
			s.held[m] = struct{}{}
			taken = append(taken, m)
		}
	}
	for len(taken) < n && len(o.back) > 0 {
		take(o.back[0])
		o.back = o.back[1:]
	}
	for len(taken) < n && o.next < len(o.all) {
		take(o.all[o.next])
		o.next++
	}
	return taken
}

// giveBack hands a subscription's messages to the others.
func (o *outbox) giveBack(s *subscription) {
	for m := range s.held {
		m.holder = nil
		if !m.gone {
			o.back = append(o.back, m)
		}
	}
	clear(s.held)
	slices.SortFunc(o.back, func(a, b *message) int { return cmp.Compare(a.lsn, b.lsn) })
	o.wake()
}

// source is the engine as a [queue.Source].
type source struct{ e *Engine }

// Subscribe implements [queue.Source].
func (src source) Subscribe(ctx context.Context) (queue.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &subscription{
		e: src.e, wake: make(chan struct{}, 1), done: make(chan struct{}),
		held: map[*message]struct{}{},
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.e.ending {
		return nil, ErrClosed
	}
	s.e.outbox.subs[s] = struct{}{}
	return s, nil
}

// Backlog implements [queue.Source]. It counts reservations.
func (src source) Backlog(context.Context) (queue.Backlog, error) {
	e := src.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ending {
		return queue.Backlog{}, ErrClosed
	}
	b := queue.Backlog{Waiting: e.outbox.waiting}
	if len(e.outbox.all) > 0 {
		b.Oldest = time.UnixMilli(e.outbox.all[0].atMS).UTC()
	}
	return b, nil
}

// subscription is one consumer of the outbox.
type subscription struct {
	e      *Engine
	wake   chan struct{} // Something may be there.
	done   chan struct{} // Closed by Close.
	closed sync.Once
	held   map[*message]struct{} // Delivered and not acknowledged; under the engine's lock.
}

var errSubscriptionClosed = errors.New("the subscription is closed")

// Receive implements [queue.Subscription].
func (s *subscription) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	for {
		taken, err := s.take(ctx, max(limit, 1))
		if err != nil {
			return nil, err
		}
		if len(taken) > 0 {
			return deliveries(taken), nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		case <-s.done:
		case <-s.e.closing:
		}
	}
}

func (s *subscription) take(ctx context.Context, limit int) ([]*message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.e.ending {
		return nil, ErrClosed
	}
	if _, open := s.e.outbox.subs[s]; !open {
		return nil, errSubscriptionClosed
	}
	return s.e.outbox.pop(s, limit), nil
}

// deliveries needs no lock: what a message says of its reservations never changes.
func deliveries(messages []*message) []queue.Delivery {
	ds := make([]queue.Delivery, len(messages))
	for i, m := range messages {
		rs := make([]seckill.Reservation, len(m.purchases))
		for j, p := range m.purchases {
			rs[j] = p.reservation(m.run)
		}
		ds[i] = queue.Delivery{
			Message: queue.Message{
				ID:   strconv.FormatUint(m.lsn, 10),
				Key:  strconv.FormatInt(m.run.Activity, 10),
				Body: queue.EncodeReservations(m.run, rs),
			},
			Attempt: 1,
			Handle:  m,
		}
	}
	return ds
}

// Ack implements [queue.Subscription]. It does not wait for the disk: after a crash the
// message may come again.
func (s *subscription) Ack(_ context.Context, ds ...queue.Delivery) error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.e.ending {
		return ErrClosed
	}
	for _, d := range ds {
		m, ok := d.Handle.(*message)
		if !ok {
			return fmt.Errorf("message %s is not of this outbox", d.ID)
		}
		if m.holder == s {
			delete(s.held, m)
			m.holder = nil
			s.e.acknowledge(m)
		}
	}
	return nil
}

// acknowledge takes a message out for good. The lock is held.
func (e *Engine) acknowledge(m *message) {
	if m.gone {
		return // Its reservations are settled, or its run was replaced.
	}
	stream := e.streams[m.run]
	stream.run.discard(m)
	e.append(stream, func(b []byte, lsn uint64) []byte { return encodeAck(b, lsn, m.lsn) })
}

// Close implements [queue.Subscription].
func (s *subscription) Close() error {
	s.closed.Do(func() {
		close(s.done)
		s.e.mu.Lock()
		defer s.e.mu.Unlock()
		delete(s.e.outbox.subs, s)
		s.e.outbox.giveBack(s)
	})
	return nil
}
