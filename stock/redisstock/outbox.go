package redisstock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
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
	// backlogCommands are asked for the backlog of one outbox.
	backlogCommands = 4
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
			// Of the kind that the outbox is not of, there is nothing.
			cmds = append(cmds, s.client.B().Hget().Key(runKey(tag)).Field("b").Build())
			cmds = append(cmds, stream{s}.oldest(tag)...)
			cmds = append(cmds, list{s}.oldest(tag)...)
		}
	}
	var b queue.Backlog
	for round := range slices.Chunk(cmds, pipelineMost/backlogCommands*backlogCommands) {
		results, err := s.deliver(ctx, round)
		if err != nil {
			return queue.Backlog{}, fmt.Errorf("read backlog: %w", err)
		}
		for some := range slices.Chunk(results, backlogCommands) {
			if err := addBacklog(&b, some); err != nil {
				return queue.Backlog{}, fmt.Errorf("read backlog: %w", err)
			}
		}
	}
	return b, nil
}

// addBacklog adds what waits in one outbox: how many reservations, and since when.
func addBacklog(b *queue.Backlog, results []rueidis.RedisResult) error {
	n, err := results[0].AsInt64()
	if rueidis.IsRedisNil(err) {
		return nil // The run is gone, and will be off the list.
	}
	if err != nil {
		return err
	}
	inStream, err := stream{}.oldestOf(results[1])
	inList, err2 := list{}.oldestOf(results[2], results[3])
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	b.Waiting += n
	ms := cmp.Or(inStream, inList)
	if n == 0 || ms == 0 {
		return nil
	}
	if t := time.UnixMilli(ms).UTC(); b.Oldest.IsZero() || t.Before(b.Oldest) {
		b.Oldest = t
	}
	return nil
}
