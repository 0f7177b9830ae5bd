package redisstock

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"seckill/queue"
)

const (
	// handedBack is the name of a consumer that does not exist, with which messages wait that
	// were handed back.
	handedBack = "back"
	// silentMost is how long a consumer that has nothing and says nothing is remembered.
	silentMost = 10 * time.Minute
	// historyMost is how many messages of its own a consumer reads again after an answer that
	// was lost.
	historyMost = 10_000
	// failPause is how long a subscription rests after it could not read.
	failPause = 300 * time.Millisecond
	// readTimeout is how long outboxes have to answer.
	readTimeout = 500 * time.Millisecond
	// pipelineMost is how many commands go in one round.
	pipelineMost = 400
)

// source is the stock as a [queue.Source]: the outboxes of all runs that are listed.
type source struct{ s *Stock }

// Subscribe implements [queue.Source].
func (src source) Subscribe(ctx context.Context) (queue.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sub := &subscription{
		s: src.s, name: rand.Text()[:16], wake: make(chan struct{}, 1), done: make(chan struct{}),
		held: map[handle]struct{}{}, views: map[place]*view{},
	}
	sub.ctx, sub.cancel = context.WithCancel(src.s.ctx)
	if err := src.s.hub.join(sub); err != nil {
		return nil, err
	}
	sub.working.Go(sub.keepAlive)
	return sub, nil
}

// Backlog implements [queue.Source]. It counts reservations.
func (src source) Backlog(ctx context.Context) (queue.Backlog, error) {
	s := src.s
	ctx, cancel := s.bound(ctx)
	defer cancel()
	runs, err := s.readList(ctx)
	if err != nil {
		return queue.Backlog{}, err
	}
	var cmds []rueidis.Completed
	for run, l := range runs {
		for sub := range l.subs {
			tag := s.tag(place{run, sub})
			cmds = append(cmds, s.client.B().Hget().Key(runKey(tag)).Field("b").Build(),
				s.client.B().Xrange().Key(outboxKey(tag)).Start("-").End("+").Count(1).Build())
		}
	}
	var b queue.Backlog
	for round := range slices.Chunk(cmds, pipelineMost) {
		results, err := s.deliver(ctx, round)
		if err != nil {
			return queue.Backlog{}, fmt.Errorf("read backlog: %w", err)
		}
		for i := 0; i < len(results); i += 2 {
			if err := addBacklog(&b, results[i], results[i+1]); err != nil {
				return queue.Backlog{}, fmt.Errorf("read backlog: %w", err)
			}
		}
	}
	return b, nil
}

// addBacklog adds what waits in one outbox: how many reservations, and the first message.
func addBacklog(b *queue.Backlog, count, first rueidis.RedisResult) error {
	n, err := count.AsInt64()
	if rueidis.IsRedisNil(err) {
		return nil // The run is gone, and will be off the list.
	}
	if err != nil {
		return err
	}
	entries, err := first.AsXRangeSlices()
	if err != nil {
		return err
	}
	b.Waiting += n
	if n == 0 || len(entries) == 0 {
		return nil
	}
	ms, _, _ := strings.Cut(entries[0].ID, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return err
	}
	if t := time.UnixMilli(at).UTC(); b.Oldest.IsZero() || t.Before(b.Oldest) {
		b.Oldest = t
	}
	return nil
}
