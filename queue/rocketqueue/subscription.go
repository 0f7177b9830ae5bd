package rocketqueue

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"seckill/queue"
)

const (
	pullWait  = 10 * time.Second // How long a broker may keep a question without an answer.
	ackTime   = 10 * time.Second // How long Ack tries to tell the broker.
	closeTime = 2 * time.Second  // How long a subscription may take to say good-bye.
)

// subscription is one member of the group, with connections and an id of its own.
type subscription struct {
	queue   *Queue
	cluster *cluster
	log     *slog.Logger
	id      string
	since   int64
	ctx     context.Context
	cancel  context.CancelFunc
	changed chan struct{}  // Has an element when it is time to balance.
	workers sync.WaitGroup // Begun under the mutex while not closed.
	once    sync.Once

	mu       sync.Mutex
	closed   bool
	failed   error // Why nothing will come any more.
	troubled string
	owned    map[messageQueue]*assignment
	ready    []arrival
	arrived  chan struct{} // Closed and replaced when Receive should look again.
}

func newSubscription(q *Queue) *subscription {
	var unique [8]byte
	_, _ = rand.Read(unique[:]) // It never fails.
	s := &subscription{
		queue: q, log: q.log, since: time.Now().UnixMilli(),
		id:      fmt.Sprintf("seckill@%d#%s", os.Getpid(), hex.EncodeToString(unique[:])),
		changed: make(chan struct{}, 1), owned: map[messageQueue]*assignment{}, arrived: make(chan struct{}),
	}
	known, _ := q.cluster.lastRoute()
	s.cluster = newCluster(q.cluster.address, known, func(code int) {
		if code == tellMembersChanged {
			s.nudge()
		}
	})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// nudge has the queues balanced soon.
func (s *subscription) nudge() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// join is the first balancing, whose failure is the caller's.
func (s *subscription) join(ctx context.Context) error {
	for {
		err := s.balance(ctx)
		if err == nil || ctx.Err() != nil || wasRefused(err, saidNoPermission, saidNoTopic, saidNoGroup) {
			return err
		}
		pause(ctx, retryEvery)
		if ctx.Err() != nil {
			return err
		}
	}
}

// trouble logs when things begin to go wrong, and when they are well again.
func (s *subscription) trouble(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	before := s.troubled
	s.troubled = text
	quiet := s.closed
	s.mu.Unlock()
	switch {
	case quiet || (text == "") == (before == ""):
	case text != "":
		s.log.Warn("rocketmq consumer in trouble", "topic", s.cluster.topic, "error", text)
	default:
		s.log.Info("rocketmq consumer is well again", "topic", s.cluster.topic)
	}
}

// fail ends the subscription with a reason that time does not heal.
func (s *subscription) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
		s.wake()
	}
}

// wake has Receive look again. The mutex is held.
func (s *subscription) wake() {
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// pull fetches the messages of one queue until it is given up.
func (s *subscription) pull(a *assignment) {
	for a.ctx.Err() == nil {
		s.mu.Lock()
		full, next := a.full(), a.next
		s.mu.Unlock()
		if full {
			select {
			case <-a.room:
			case <-a.ctx.Done():
			}
			continue
		}
		err := s.pullOnce(a, next)
		switch {
		case err == nil || a.ctx.Err() != nil:
		case wasRefused(err, saidNoPermission, saidNoTopic, saidNoGroup):
			s.fail(fmt.Errorf("pull from %s/%d: %w", a.broker, a.id, err))
			return
		default:
			s.nudge()
			pause(a.ctx, retryEvery)
		}
	}
}

func (s *subscription) pullOnce(a *assignment, next int64) error {
	addr, err := s.cluster.master(a.broker)
	if err != nil {
		return err
	}
	conn, err := s.cluster.conn(a.ctx, addr)
	if err != nil {
		return err
	}
	f, err := conn.call(a.ctx, askPull, pullFields(s.cluster, a.messageQueue, next, pullMessages, pullWait), nil, pullWait)
	if err == nil {
		err = f.expect(saidOK, saidNothingNew, saidAskAgain, saidOffsetMoved)
	}
	if err != nil {
		return err
	}
	begin, err := strconv.ParseInt(f.ExtFields["nextBeginOffset"], 10, 64)
	if err != nil {
		return fmt.Errorf("where to go on: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.revoked {
		return nil
	}
	if f.Code == saidOffsetMoved {
		s.log.Warn("rocketmq queue does not have what comes next", "topic", s.cluster.topic,
			"broker", a.broker, "queue", a.id, "offset", next, "continued_at", begin)
		a.skip(begin)
		return nil
	}
	var msgs []*primitive.MessageExt
	if f.Code == saidOK {
		msgs = primitive.DecodeMessage(f.body)
	}
	if fresh := a.take(msgs, begin); len(fresh) > 0 {
		s.ready = append(s.ready, fresh...)
		s.wake()
	}
	return nil
}

// pullFields ask for messages. The broker waits for some to come if wait is not 0.
func pullFields(c *cluster, m messageQueue, next int64, most int, wait time.Duration) map[string]string {
	const mayWait, saysWhat = 2, 4
	flags := saysWhat
	if wait > 0 {
		flags |= mayWait
	}
	fields := m.fields(c.group, c.topic)
	maps.Copy(fields, map[string]string{
		"queueOffset": strconv.FormatInt(next, 10), "maxMsgNums": strconv.Itoa(most), "sysFlag": strconv.Itoa(flags),
		"commitOffset": "0", "suspendTimeoutMillis": strconv.FormatInt(wait.Milliseconds(), 10),
		"subscription": "*", "subVersion": "0", "expressionType": "TAG",
	})
	return fields
}

func (s *subscription) Receive(ctx context.Context, most int) ([]queue.Delivery, error) {
	for {
		s.mu.Lock()
		if err := s.over(); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		if n := min(most, len(s.ready)); n > 0 {
			ds := make([]queue.Delivery, n)
			for i, m := range s.ready[:n] {
				m.from.received(m)
				ds[i] = queue.Delivery{Message: m.Message, Attempt: 1, Handle: receipt{m.from, m.at}}
			}
			s.ready = slices.Delete(s.ready, 0, n)
			s.mu.Unlock()
			return ds, nil
		}
		arrived := s.arrived
		s.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// over tells why nothing will come any more. The mutex is held.
func (s *subscription) over() error {
	if s.closed {
		return fmt.Errorf("rocketmq subscription: %w", errClosed)
	}
	return s.failed
}

// Ack returns when the broker knows, of each queue, how far everything is acknowledged. While
// the broker is away it tries again, for ackTime at most. A delivery from a queue that has
// changed hands is its new owner's. What Ack was told stays so after an error, too: should
// the broker come back, it will hear of it.
func (s *subscription) Ack(ctx context.Context, ds ...queue.Delivery) error {
	touched := map[*assignment]bool{}
	s.mu.Lock()
	for _, d := range ds {
		if r, ok := d.Handle.(receipt); ok && r.from.of == s && !r.from.revoked {
			r.from.ack(r.at)
			touched[r.from] = true
		}
	}
	s.mu.Unlock()
	for give := time.Now().Add(ackTime); ; pause(ctx, retryEvery) {
		err := s.commit(ctx, false, s.stillOurs(touched)...)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(give) {
			return fmt.Errorf("rocketmq ack: %w", err)
		}
	}
}

func (s *subscription) stillOurs(touched map[*assignment]bool) (as []*assignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range touched {
		if !a.revoked {
			as = append(as, a)
		}
	}
	return as
}

// all are the assignments of now.
func (s *subscription) all() []*assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.owned))
}

// commit tells the broker where each queue stands: if that is news, or again.
func (s *subscription) commit(ctx context.Context, again bool, as ...*assignment) error {
	errs := make([]error, len(as))
	var all sync.WaitGroup
	for i, a := range as {
		all.Go(func() { errs[i] = s.commitOne(ctx, again, a) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *subscription) commitOne(ctx context.Context, again bool, a *assignment) error {
	a.commits.Lock()
	defer a.commits.Unlock()
	s.mu.Lock()
	at, known := a.position(), a.committed
	s.mu.Unlock()
	if at == known && !again {
		return nil
	}
	addr, err := s.cluster.master(a.broker)
	if err != nil {
		return err
	}
	fields := a.fields(s.cluster.group, s.cluster.topic)
	fields["commitOffset"] = strconv.FormatInt(at, 10)
	f, err := s.cluster.call(ctx, addr, askCommit, fields, nil)
	if err == nil {
		err = f.expect(saidOK)
	}
	if err != nil {
		return fmt.Errorf("commit %d of queue %s/%d: %w", at, a.broker, a.id, err)
	}
	s.mu.Lock()
	a.committed = at
	s.mu.Unlock()
	return nil
}

// Close is bounded by closeTime for each thing that it says.
func (s *subscription) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.wake()
		s.mu.Unlock()
		s.cancel()
		s.workers.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		s.giveUp(ctx, nil)
		s.leave(ctx)
		s.cluster.close()
		s.queue.forget(s)
	})
	return nil
}
