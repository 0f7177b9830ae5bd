package kafkaqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"seckill/queue"
)

// subscription is one member of the group, with a client of its own.
//
// A rebalance is held up only while records pass from the client into the windows, never
// while the caller works on them: a database that is away for an hour would cost the
// member its place. What is revoked meanwhile is forgotten here, and the late Ack of it
// does nothing; its new owner gets it again.
type subscription struct {
	queue   *Queue
	client  *kgo.Client
	closing context.Context // Ends with Close.
	stop    context.CancelFunc

	receiving  sync.Mutex    // Held by Receive; Close waits for it.
	committing sync.Mutex    // Held during a commit.
	acked      chan struct{} // Has room for one: there is something to commit.
	done       chan struct{} // Closed when commitLoop has ended.
	once       sync.Once
	closeErr   error

	mu      sync.Mutex
	windows map[int32]*window // What is assigned and has delivered.
	failed  error             // What no further try mends; for the next Receive or Ack.
	left    bool              // The last commit is over.
}

// Subscribe implements [queue.Source]. The group is joined in the background.
func (q *Queue) Subscribe(ctx context.Context) (queue.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &subscription{
		queue: q, windows: map[int32]*window{},
		acked: make(chan struct{}, 1), done: make(chan struct{}),
	}
	s.closing, s.stop = context.WithCancel(context.Background())
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, ErrClosed
	}
	var err error
	s.client, err = kgo.NewClient(append(q.common(),
		kgo.ConsumeTopics(q.place.topic),
		kgo.ConsumerGroup(q.place.group),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(q.o.SessionTimeout),
		kgo.RebalanceTimeout(max(q.o.SessionTimeout, 20*time.Second)),
		kgo.HeartbeatInterval(min(q.o.SessionTimeout/4, 500*time.Millisecond)),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(s.revoked),
		kgo.OnPartitionsLost(s.lost),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		// A partition that has lost its end is read again from an hour before: twice is
		// harmless, not at all is not.
		kgo.ConsumeResetOffset(kgo.RewindOffset(time.Hour)),
		kgo.FetchMaxWait(time.Second),
		kgo.FetchMaxBytes(8<<20),
		kgo.FetchMaxPartitionBytes(1<<20),
	)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client of a consumer: %w", err)
	}
	q.subs[s] = struct{}{}
	go s.commitLoop()
	return s, nil
}

// Receive implements [queue.Subscription].
func (s *subscription) Receive(ctx context.Context, max int) ([]queue.Delivery, error) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	for {
		if s.closing.Err() != nil {
			return nil, ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.failure(); err != nil {
			return nil, err
		}
		fetches := s.client.PollRecords(waiting, max)
		ds := s.take(fetches)
		s.client.AllowRebalance()
		if len(ds) > 0 {
			return ds, nil
		}
	}
}

// take notes what was fetched. No rebalance runs meanwhile.
func (s *subscription) take(fetches kgo.Fetches) []queue.Delivery {
	ds := make([]queue.Delivery, 0, fetches.NumRecords())
	full := map[string][]int32{}
	s.mu.Lock()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Err != nil {
			s.complain(p.Err)
		}
		if len(p.Records) == 0 {
			return
		}
		w := s.windows[p.Partition]
		if w == nil {
			w = newWindow(p.Partition, p.Records[0].Offset)
			s.windows[p.Partition] = w
		}
		for _, r := range p.Records {
			ds = append(ds, queue.Delivery{Message: message(r), Attempt: 1, Handle: w.deliver(r.Offset, r.LeaderEpoch)})
		}
		if !w.paused && len(w.marks) >= s.queue.o.UnackedMax {
			w.paused = true
			full[s.queue.place.topic] = append(full[s.queue.place.topic], p.Partition)
		}
	})
	s.mu.Unlock()
	if len(full) > 0 {
		s.client.PauseFetchPartitions(full)
	}
	return ds
}

// complain keeps what is final for the caller, and tells the log of what the client mends
// by itself. The caller holds the lock.
func (s *subscription) complain(err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrClientClosed):
	case final(err):
		s.failed = fmt.Errorf("consume: %w", err)
	default:
		s.queue.log.warn("a consumer of Kafka goes on after a failure", "error", err)
	}
}

// final tells whether an error is of those that another try does not mend.
func final(err error) bool {
	for _, f := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.UnsupportedVersion, kerr.InvalidGroupID, kerr.InvalidSessionTimeout,
		kerr.InconsistentGroupProtocol, kerr.GroupMaxSizeReached, kerr.InvalidTopicException,
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
	} {
		if errors.Is(err, f) {
			return true
		}
	}
	return false
}

func (s *subscription) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Ack implements [queue.Subscription]. It does not wait for the commit: until that is
// done, a moment later, a crash brings the messages again.
func (s *subscription) Ack(ctx context.Context, ds ...queue.Delivery) error {
	rested := map[string][]int32{}
	s.mu.Lock()
	for _, d := range ds {
		m, ok := d.Handle.(*mark)
		if !ok {
			s.mu.Unlock()
			return fmt.Errorf("ack of message %q: it was not delivered by this queue", d.ID)
		}
		w := m.window
		if s.windows[w.partition] != w || m.acked {
			continue // It has gone to somebody else, or was acknowledged before.
		}
		w.ack(m)
		if w.paused && len(w.marks) <= s.queue.o.UnackedMax/2 {
			w.paused = false
			rested[s.queue.place.topic] = append(rested[s.queue.place.topic], w.partition)
		}
	}
	err := s.failed
	s.mu.Unlock()
	if len(rested) > 0 {
		s.client.ResumeFetchPartitions(rested)
	}
	select {
	case s.acked <- struct{}{}:
	default:
	}
	return err
}

// Close implements [queue.Subscription].
func (s *subscription) Close() error {
	s.once.Do(func() {
		s.stop()
		s.receiving.Lock()
		defer s.receiving.Unlock()
		<-s.done
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := s.commit(ctx); err != nil {
			s.closeErr = fmt.Errorf("close: what was acknowledged last will come again: %w", err)
		}
		s.mu.Lock()
		s.left = true
		s.mu.Unlock()
		// If it fails, the group misses this member when SessionTimeout is over.
		_ = s.client.LeaveGroupContext(ctx)
		s.client.CloseAllowingRebalance()
		s.queue.mu.Lock()
		delete(s.queue.subs, s)
		s.queue.mu.Unlock()
	})
	return s.closeErr
}
