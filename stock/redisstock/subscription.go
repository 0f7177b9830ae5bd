package redisstock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"seckill"
	"seckill/queue"
)

// handle names a message.
type handle struct {
	place
	kind kind
	id   string
}

// subscription is one consumer of all outboxes.
type subscription struct {
	s      *Stock
	name   string        // Of the consumer, in each outbox.
	wake   chan struct{} // Something may be there.
	done   chan struct{} // Closed by Close.
	closed sync.Once
	ended  error // Of Close.

	ctx     context.Context // Ends when Close has no more use for what is under way.
	cancel  context.CancelFunc
	working sync.WaitGroup

	mu      sync.Mutex
	over    bool
	reading bool
	ready   []queue.Delivery    // Read, and not handed out.
	held    map[handle]struct{} // Read, and not acknowledged.
	views   map[place]*view     // Of outboxes that are listed, or were a moment ago.
	failed  error               // Why the last look failed.
	rest    time.Time           // Not to look before.
}

// view is what a subscription remembers of one outbox.
type view struct {
	looked  time.Time // When it was looked at last.
	claimed time.Time // When it was last looked through for what others have left.
	cursor  string    // Where that goes on; "" from the start.
	lost    bool      // An answer was lost: what it brought has to be read again.
	kind    kind      // Which is taken for the other one when there is no outbox of this one.
}

// view returns what is remembered of an outbox. The lock is held.
func (sub *subscription) view(p place) *view {
	v := sub.views[p]
	if v == nil {
		v = &view{kind: sub.s.kind}
		sub.views[p] = v
	}
	return v
}

var errSubscriptionClosed = errors.New("the subscription is closed")

// Receive implements [queue.Subscription]. Looking goes on without it once it has begun, so
// that what was brought is kept when ctx ends.
func (sub *subscription) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	limit = max(limit, 1)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		taken, next, err := sub.step(limit)
		if err != nil || len(taken) > 0 {
			return taken, err
		}
		timer := time.NewTimer(max(next, time.Millisecond))
		select {
		case <-sub.wake:
		case <-timer.C:
		case <-ctx.Done():
		case <-sub.done:
		}
		timer.Stop()
	}
}

// step hands out what is ready, or has somebody look for more. It returns how long there
// is nothing to do.
func (sub *subscription) step(limit int) (taken []queue.Delivery, next time.Duration, err error) {
	all, hot := sub.s.hub.places()
	sub.mu.Lock()
	defer sub.mu.Unlock()
	switch {
	case sub.over:
		return nil, 0, errSubscriptionClosed
	case len(sub.ready) > 0:
		n := min(limit, len(sub.ready))
		taken = slices.Clone(sub.ready[:n])
		sub.ready = slices.Delete(sub.ready, 0, n)
		return taken, 0, nil
	case sub.failed != nil:
		err, sub.failed = sub.failed, nil
		return nil, 0, err
	case sub.reading:
		return nil, coldEvery, nil
	}
	sub.prune(all)
	now := time.Now()
	if wait := sub.rest.Sub(now); wait > 0 {
		return nil, wait, nil
	}
	next = coldEvery
	var due []place
	for i, p := range all {
		every := coldEvery
		if hot[i] {
			every = hotEvery
		}
		if wait := sub.view(p).looked.Add(every).Sub(now); wait <= 0 {
			due = append(due, p)
		} else {
			next = min(next, wait)
		}
	}
	if len(due) > 0 {
		sub.reading = true
		sub.working.Go(func() { sub.look(due, limit) })
	}
	return nil, next, nil
}

// prune forgets outboxes that are not listed any more. The lock is held.
func (sub *subscription) prune(all []place) {
	if len(sub.views) <= 2*len(all)+16 {
		return
	}
	listed := make(map[place]bool, len(all))
	for _, p := range all {
		listed[p] = true
	}
	maps.DeleteFunc(sub.views, func(p place, _ *view) bool { return !listed[p] })
}

// look reads from outboxes, claims what others have left there, and keeps what comes.
func (sub *subscription) look(due []place, limit int) {
	ctx, cancel := context.WithTimeout(sub.ctx, min(sub.s.timeout, readTimeout))
	defer cancel()
	each := max(1, limit/len(due))
	var found []queue.Delivery
	var failed error
	for round := range slices.Chunk(due, pipelineMost/2) {
		some, err := sub.lookAt(ctx, round, each)
		found = append(found, some...)
		if err != nil {
			failed = err
			break
		}
	}
	sub.mu.Lock()
	sub.reading = false
	sub.ready = append(sub.ready, found...)
	if failed != nil && sub.ctx.Err() == nil {
		sub.failed, sub.rest = failed, time.Now().Add(failPause)
	}
	sub.mu.Unlock()
	signal(sub.wake)
}

// lookAt is look for outboxes that fit into one round.
func (sub *subscription) lookAt(ctx context.Context, due []place, each int) (all []queue.Delivery, err error) {
	now := time.Now()
	var asks [len(kindNames)][]question
	sub.mu.Lock()
	for _, p := range due {
		v := sub.view(p)
		a := question{place: p, count: each, again: v.lost, cursor: v.cursor}
		if v.cursor != "" || now.Sub(v.claimed) >= sub.s.claim/2 {
			a.claim, v.claimed, v.cursor = true, now, ""
		}
		v.looked = now
		v.lost = true // Until the answer is here.
		asks[v.kind] = append(asks[v.kind], a)
	}
	sub.mu.Unlock()
	failed := 0
	for k, some := range asks {
		if len(some) == 0 {
			continue
		}
		answers := kind(k).outbox(sub.s).look(ctx, sub, some)
		if crash := sub.s.interrupt("read the outbox"); crash != nil {
			answers = failedAll(len(some), crash)
		}
		for i := range answers {
			ds, e := sub.keep(some[i].place, kind(k), some[i].count, &answers[i])
			all = append(all, ds...)
			if e != nil {
				err = fmt.Errorf("read the outbox of %s: %w", placeName(some[i].place), e)
			}
			if answers[i].err != nil {
				failed++
			}
		}
	}
	if failed < len(due) {
		err = nil // One that does not answer does not hold up the others.
	}
	return all, err
}

// keep notes what one outbox has answered that was asked for so many messages.
func (sub *subscription) keep(p place, k kind, asked int, f *found) (ds []queue.Delivery, err error) {
	err = f.err
	for _, e := range f.entries {
		d, e := sub.accept(handle{p, k, e.id}, e)
		if e != nil {
			err = e
		} else if d != nil {
			ds = append(ds, *d)
		}
	}
	if len(f.entries) > 0 || f.cursor != "" {
		sub.s.hub.touch(p)
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	v := sub.view(p)
	v.cursor = f.cursor
	if len(f.entries) >= asked {
		v.looked = time.Time{} // There may be more.
	}
	if v.lost = f.err != nil; v.lost {
		v.looked = time.Now().Add(failPause)
	}
	if f.gone {
		v.kind = 1 - v.kind
	}
	return ds, err
}

// accept notes that a message is held, and makes a delivery of it; nil if it was held.
func (sub *subscription) accept(h handle, e entry) (*queue.Delivery, error) {
	sub.mu.Lock()
	_, before := sub.held[h]
	sub.held[h] = struct{}{}
	sub.mu.Unlock()
	if before {
		return nil, nil
	}
	list, err := parseMessage(h.run, e.text)
	if err != nil {
		return nil, err
	}
	rs := make([]seckill.Reservation, len(list))
	for i := range list {
		rs[i] = list[i].Reservation
	}
	return &queue.Delivery{
		Message: queue.Message{
			ID:   placeName(h.place) + ":" + h.id,
			Key:  strconv.FormatInt(h.run.Activity, 10),
			Body: queue.EncodeReservations(h.run, rs),
		},
		Attempt: e.attempt,
		Handle:  h,
	}, nil
}

// claimSoon has what was handed back claimed at the next look.
func (sub *subscription) claimSoon(p place) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	v := sub.view(p)
	v.claimed, v.looked = time.Time{}, time.Time{}
}

// claimAllSoon is claimSoon for all outboxes.
func (sub *subscription) claimAllSoon() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	for _, v := range sub.views {
		v.claimed, v.looked = time.Time{}, time.Time{}
	}
}

// Ack implements [queue.Subscription].
func (sub *subscription) Ack(ctx context.Context, ds ...queue.Delivery) error {
	if len(ds) == 0 {
		return nil
	}
	at := map[handle][]string{} // Without an id.
	for _, d := range ds {
		h, ok := d.Handle.(handle)
		if !ok {
			return fmt.Errorf("message %s is not of this outbox", d.ID)
		}
		of := handle{h.place, h.kind, ""}
		at[of] = append(at[of], h.id)
	}
	var calls []call
	var outboxes []handle
	for h, ids := range at {
		calls = append(calls, h.kind.outbox(sub.s).ack(sub.s.tag(h.place), ids))
		outboxes = append(outboxes, h)
	}
	var errs []error
	for i, a := range sub.s.doAll(ctx, calls) {
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		sub.mu.Lock()
		for _, id := range at[outboxes[i]] {
			delete(sub.held, handle{outboxes[i].place, outboxes[i].kind, id})
		}
		sub.mu.Unlock()
	}
	return errors.Join(errs...)
}

// keepAlive says now and then that what is held is worked on.
func (sub *subscription) keepAlive() {
	tick := time.NewTicker(sub.s.claim / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-sub.done:
			return
		}
		sub.mu.Lock()
		outboxes := map[handle]bool{} // Without an id.
		for h := range sub.held {
			outboxes[handle{h.place, h.kind, ""}] = true
		}
		sub.mu.Unlock()
		var calls []call
		for h := range outboxes {
			calls = append(calls, h.kind.outbox(sub.s).keep(sub.s.tag(h.place), sub))
		}
		ctx, cancel := context.WithTimeout(sub.ctx, sub.s.timeout)
		for _, a := range sub.s.doAll(ctx, calls) {
			if a.err != nil && sub.ctx.Err() == nil {
				sub.s.log.Warn("messages that are worked on may go to another consumer, too", slog.Any("error", a.err))
				break
			}
		}
		cancel()
	}
}

// Close implements [queue.Subscription]. If Redis does not answer, others claim what is
// held after a while.
func (sub *subscription) Close() error {
	sub.closed.Do(func() {
		sub.mu.Lock()
		sub.over = true
		sub.mu.Unlock()
		close(sub.done)
		sub.working.Wait() // A look under way would bring messages after they were handed back.
		defer sub.cancel()
		sub.s.hub.part(sub)
		sub.ended = sub.leave()
	})
	return sub.ended
}

// leave hands back what is held, and tells the others.
func (sub *subscription) leave() error {
	ctx, cancel := context.WithTimeout(sub.ctx, sub.s.timeout)
	defer cancel()
	var places []place
	var calls []call
	for p, v := range sub.views {
		places = append(places, p)
		calls = append(calls, v.kind.outbox(sub.s).leave(sub.s.tag(p), sub))
	}
	var errs []error
	for i, a := range sub.s.doAll(ctx, calls) {
		var n int64
		err := a.err
		if err == nil {
			n, err = a.AsInt64()
		}
		if err == nil && n > 0 {
			sub.s.hub.warm(places[i], true)
			b := sub.s.client.B()
			_, err = sub.s.plain(ctx, b.Publish().Channel(sub.s.wakeChannel()).Message(placeName(places[i])+backMark).Build())
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("hand messages back: %w", err)
	}
	return nil
}
