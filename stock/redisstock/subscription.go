package redisstock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"seckill"
	"seckill/queue"
)

// handle names a message.
type handle struct {
	place
	id string
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
}

// view returns what is remembered of an outbox. The lock is held.
func (sub *subscription) view(p place) *view {
	v := sub.views[p]
	if v == nil {
		v = &view{}
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
func (sub *subscription) lookAt(ctx context.Context, due []place, each int) ([]queue.Delivery, error) {
	now := time.Now()
	var cmds []rueidis.Completed
	var from []place
	var claimed []bool
	sub.mu.Lock()
	for _, p := range due {
		v, key, b := sub.view(p), outboxKey(sub.s.tag(p)), sub.s.client.B()
		id, count := ">", each
		if v.lost {
			id, count = "0", historyMost
		}
		cmds = append(cmds, b.Xreadgroup().Group(group, sub.name).Count(int64(count)).Streams().Key(key).Id(id).Build())
		from, claimed = append(from, p), append(claimed, false)
		if v.cursor != "" || now.Sub(v.claimed) >= sub.s.claim/2 {
			cmds = append(cmds, b.Xautoclaim().Key(key).Group(group).Consumer(sub.name).
				MinIdleTime(strconv.FormatInt(sub.s.claim.Milliseconds(), 10)).Start(cmp.Or(v.cursor, cursorEnd)).Count(int64(each)).Build())
			from, claimed = append(from, p), append(claimed, true)
			v.claimed, v.cursor = now, ""
		}
		v.looked = now
		v.lost = true // Until the answer is here.
	}
	sub.mu.Unlock()
	results, err := sub.s.deliver(ctx, cmds)
	if err == nil {
		err = sub.s.interrupt("read the outbox")
	}
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	var found []queue.Delivery
	failed := map[place]bool{}
	for i, r := range results {
		entries, cursor, e := entriesOf(r, claimed[i])
		if e != nil {
			failed[from[i]] = true
			err = fmt.Errorf("read the outbox: %w", e)
		}
		for _, entry := range entries {
			d, e := sub.accept(from[i], entry)
			if e != nil {
				err = e
			} else if d != nil {
				found = append(found, *d)
			}
		}
		if cursor != "" {
			sub.claimFrom(from[i], cursor)
		}
		if len(entries) > 0 || cursor != "" {
			sub.s.hub.touch(from[i])
		}
	}
	sub.mu.Lock()
	for _, p := range due {
		v := sub.view(p)
		if v.lost = failed[p]; v.lost {
			// One that does not answer does not hold up the others each time.
			v.looked = time.Now().Add(failPause)
		}
	}
	sub.mu.Unlock()
	if len(failed) < len(due) {
		err = nil
	}
	return found, err
}

// cursorEnd is where XAUTOCLAIM starts, and what it says when it has seen all.
const cursorEnd = "0-0"

// entriesOf reads the answer of XREADGROUP on one stream, or of XAUTOCLAIM, which says where to go
// on if it has not seen all. No such outbox means that the run is gone: there is nothing.
func entriesOf(r rueidis.RedisResult, claimed bool) (entries []rueidis.XRangeSlice, cursor string, err error) {
	m, err := r.ToMessage()
	var refused *rueidis.RedisError
	switch {
	case rueidis.IsRedisNil(err):
		return nil, "", nil
	case errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "NOGROUP"):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	if !claimed {
		streams, err := m.AsXReadSlices()
		for _, entries := range streams {
			return entries, "", err
		}
		return nil, "", err
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) < 2 {
		return nil, "", err
	}
	if cursor, err = parts[0].ToString(); err != nil || cursor == cursorEnd {
		cursor = ""
	}
	list, err := parts[1].ToArray()
	if err != nil {
		return nil, "", err
	}
	for i := range list {
		if list[i].IsNil() {
			continue // Redis 6.2 says so of one that is not there any more.
		}
		entry, err := list[i].AsXRangeSlice()
		if err != nil {
			return entries, "", err
		}
		entries = append(entries, entry)
	}
	return entries, cursor, nil
}

// claimFrom has the next look go on claiming from somewhere.
func (sub *subscription) claimFrom(p place, cursor string) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.view(p).cursor = cursor
}

// accept notes that a message is held, and makes a delivery of it; nil if it was held.
func (sub *subscription) accept(p place, entry rueidis.XRangeSlice) (*queue.Delivery, error) {
	if len(entry.FieldValues) == 0 {
		return nil, nil // It was acknowledged meanwhile, and is only remembered.
	}
	h := handle{p, entry.ID}
	sub.mu.Lock()
	_, before := sub.held[h]
	sub.held[h] = struct{}{}
	sub.mu.Unlock()
	if before {
		return nil, nil
	}
	list, err := parseMessage(p.run, entry.FieldValues[0].Field, entry.FieldValues[1:])
	if err != nil {
		return nil, fmt.Errorf("outbox of %s: %w", placeName(p), err)
	}
	rs := make([]seckill.Reservation, len(list))
	for i := range list {
		rs[i] = list[i].Reservation
	}
	return &queue.Delivery{
		Message: queue.Message{
			ID:   placeName(p) + ":" + entry.ID,
			Key:  strconv.FormatInt(p.run.Activity, 10),
			Body: queue.EncodeReservations(p.run, rs),
		},
		Attempt: 1,
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

// Ack implements [queue.Subscription].
func (sub *subscription) Ack(ctx context.Context, ds ...queue.Delivery) error {
	if len(ds) == 0 {
		return nil
	}
	at := map[place][]string{}
	for _, d := range ds {
		h, ok := d.Handle.(handle)
		if !ok {
			return fmt.Errorf("message %s is not of this outbox", d.ID)
		}
		at[h.place] = append(at[h.place], h.id)
	}
	var calls []call
	var places []place
	for p, ids := range at {
		tag := sub.s.tag(p)
		calls = append(calls, call{
			ackScript, []string{runKey(tag), buyersKey(tag), outboxKey(tag), behindKey(tag)}, append([]string{group}, ids...),
		})
		places = append(places, p)
	}
	var errs []error
	for i, a := range sub.s.doAll(ctx, calls) {
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		sub.mu.Lock()
		for _, id := range at[places[i]] {
			delete(sub.held, handle{places[i], id})
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
		places := map[place]bool{}
		for h := range sub.held {
			places[h.place] = true
		}
		sub.mu.Unlock()
		var calls []call
		idle := strconv.FormatInt(sub.s.claim.Milliseconds()/4, 10)
		for p := range places {
			calls = append(calls, call{keepScript, []string{outboxKey(sub.s.tag(p))}, []string{group, sub.name, idle}})
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
	for p := range sub.views {
		places = append(places, p)
		calls = append(calls, call{leaveScript, []string{outboxKey(sub.s.tag(p))}, []string{
			group, sub.name, handedBack, strconv.FormatInt(silentMost.Milliseconds(), 10),
		}})
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
