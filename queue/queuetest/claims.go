package queuetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"seckill/queue"
)

// Everything put is delivered, once if nobody fails.
func deliversEach(t *testing.T, open func(*testing.T) Source) {
	s := open(t)
	ids := names("m", 50)
	must(t, s.Put(patience(t), ids...))
	sub := subscribe(t, s)
	seen := map[string]int{}
	for _, d := range receive(t, s, sub, len(ids)) {
		for _, id := range s.IDs(d) {
			seen[id]++
		}
		must(t, sub.Ack(patience(t), d))
	}
	for _, id := range ids {
		if seen[id] != 1 {
			t.Errorf("%s was delivered %d times, want once", id, seen[id])
		}
	}
}

// What is acknowledged is never delivered again, to nobody.
func ackedStaysGone(t *testing.T, open func(*testing.T) Source) {
	s := open(t)
	must(t, s.Put(patience(t), "a", "b"))
	first := subscribe(t, s)
	must(t, first.Ack(patience(t), receive(t, s, first, 2)...))
	must(t, first.Close())
	nothing(t, s, subscribe(t, s), map[string]bool{"a": true, "b": true})
}

// Acknowledging twice changes nothing, nor does it after the subscription's end.
func ackTwice(t *testing.T, open func(*testing.T) Source) {
	s := open(t)
	must(t, s.Put(patience(t), "a"))
	sub := subscribe(t, s)
	ds := receive(t, s, sub, 1)
	must(t, sub.Ack(patience(t), ds...))
	must(t, sub.Ack(patience(t), ds...))
	nothing(t, s, sub, map[string]bool{"a": true})
}

// A consumer that leaves before Ack loses nothing: the next one gets the message, and
// its attempts are counted if, and only if, the driver says so.
func unackedComesBack(t *testing.T, open func(*testing.T) Source) {
	s := open(t)
	must(t, s.Put(patience(t), "a"))
	first := subscribe(t, s)
	receive(t, s, first, 1)
	must(t, first.Close())
	second := subscribe(t, s)
	d := receive(t, s, second, 1)[0]
	if got := s.IDs(d); len(got) != 1 || got[0] != "a" {
		t.Fatalf("got %q, want a", got)
	}
	if s.CountsAttempts != (d.Attempt > 1) {
		t.Fatalf("attempt %d, but the driver says CountsAttempts=%v", d.Attempt, s.CountsAttempts)
	}
	must(t, second.Ack(patience(t), d))
}

// Receive never returns more deliveries than asked for, and at least one.
func atMostMax(t *testing.T, open func(*testing.T) Source) {
	s := open(t)
	must(t, s.Put(patience(t), names("m", 10)...))
	sub := subscribe(t, s)
	for got := 0; got < 10; {
		ds, err := receiveIn(patience(t), t, sub, 3)
		must(t, err)
		if len(ds) < 1 || len(ds) > 3 {
			t.Fatalf("got %d deliveries, want 1 to 3", len(ds))
		}
		for _, d := range ds {
			got += len(s.IDs(d))
		}
		must(t, sub.Ack(patience(t), ds...))
	}
}

// A Receive whose context ends says so, and what comes later is delivered.
func cancelLosesNothing(t *testing.T, open func(*testing.T) Source) {
	s := open(t)
	sub := subscribe(t, s)
	for range 5 {
		ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := receiveIn(ended, t, sub, 1)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("receive from an empty queue: got %v, want the deadline", err)
		}
	}
	for _, id := range names("late", 5) {
		must(t, s.Put(patience(t), id))
		d := receive(t, s, sub, 1)[0]
		if got := s.IDs(d)[0]; got != id {
			t.Fatalf("got %q, want %s", got, id)
		}
		must(t, sub.Ack(patience(t), d))
	}
}

// Closing a subscription wakes its Receive. Twice is harmless.
func closeUnblocks(t *testing.T, open func(*testing.T) Source) {
	s := open(t)
	sub := subscribe(t, s)
	woke := make(chan error, 1)
	go func() {
		_, err := sub.Receive(context.Background(), 1)
		woke <- err
	}()
	must(t, sub.Close())
	must(t, sub.Close())
	select {
	case err := <-woke:
		if err == nil {
			t.Fatal("a closed subscription delivered something")
		}
	case <-time.After(Patience()):
		t.Fatal("Receive still waits after Close")
	}
}

// The backlog counts what is not acknowledged, delivered or not, and knows its age.
func backlogCounts(t *testing.T, open func(*testing.T) Source) {
	s := open(t)
	must(t, s.Put(patience(t), "a", "b", "c"))
	sub := subscribe(t, s)
	ds := receive(t, s, sub, 1)
	must(t, sub.Ack(patience(t), ds...))
	left := int64(3 - ids(s, ds))
	await(t, "the backlog to be right", func() bool {
		b, err := s.Backlog(patience(t))
		return err == nil && b.Waiting == left && (left == 0 || b.Oldest.IsZero() || time.Since(b.Oldest) < time.Hour)
	})
	for left > 0 {
		ds := receive(t, s, sub, 1)
		left -= int64(ids(s, ds))
		must(t, sub.Ack(patience(t), ds...))
	}
	await(t, "the backlog to be empty", func() bool {
		b, err := s.Backlog(patience(t))
		return err == nil && b.Waiting == 0
	})
}

func ids(s Source, ds []queue.Delivery) (n int) {
	for _, d := range ds {
		n += len(s.IDs(d))
	}
	return n
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx := patience(t)
	for tick := time.NewTicker(5 * time.Millisecond); !done(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Two consumers share the work: together they see everything.
func shared(t *testing.T, open func(*testing.T) Source) {
	s := open(t)
	work := newLedger(names("m", 60))
	must(t, s.Put(patience(t), names("m", 60)...))
	var all sync.WaitGroup
	for range 2 {
		sub := subscribe(t, s)
		all.Go(func() { work.consume(t.Context(), s, sub, 0, nil) })
	}
	await(t, "every message to be acknowledged", func() bool { return work.left() == 0 })
	work.stop()
	join(t, &all)
}

// Consumers that leave at random moments, with messages in hand, lose none of them.
func chaos(t *testing.T, open func(*testing.T) Source) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := open(t)
	everything := names("m", 200)
	work := newLedger(everything)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(i)))
			for work.left() > 0 && t.Context().Err() == nil {
				sub, err := s.Subscribe(t.Context())
				if err != nil {
					t.Errorf("subscribe: %v", err)
					return
				}
				work.consume(t.Context(), s, sub, 0.2, dice)
				_ = sub.Close()
			}
		})
	}
	for i := 0; i < len(everything); i += 20 {
		must(t, s.Put(patience(t), everything[i:i+20]...))
	}
	await(t, "every message to be acknowledged", func() bool { return work.left() == 0 })
	work.stop()
	join(t, &all)
}

// join waits for the consumers, who have been told to stop.
func join(t *testing.T, all *sync.WaitGroup) {
	t.Helper()
	joined := make(chan struct{})
	go func() { all.Wait(); close(joined) }()
	select {
	case <-joined:
	case <-time.After(Patience()):
		t.Fatal("a consumer still waits after its context ended")
	}
}

// ledger knows which ids have been acknowledged.
type ledger struct {
	mu      sync.Mutex
	waiting map[string]bool
	ctx     context.Context
	stop    context.CancelFunc
}

func newLedger(ids []string) *ledger {
	l := &ledger{waiting: map[string]bool{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	for _, id := range ids {
		l.waiting[id] = true
	}
	return l
}

func (l *ledger) left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// consume acknowledges what it receives until the ledger is stopped, or leaves with
// messages in hand when the dice say so.
func (l *ledger) consume(ctx context.Context, s Source, sub queue.Subscription, leave float64, dice *rand.Rand) {
	for {
		ds, err := sub.Receive(l.ctx, 7)
		if err != nil || (dice != nil && dice.Float64() < leave) {
			return
		}
		// A call that fails may have been heard all the same: from here on nobody promises that
		// the message comes again.
		l.mu.Lock()
		for _, d := range ds {
			for _, id := range s.IDs(d) {
				delete(l.waiting, id)
			}
		}
		l.mu.Unlock()
		if sub.Ack(ctx, ds...) != nil {
			return
		}
	}
}

// Messages arrive as they were published: id, key and every byte.
func roundTrip(t *testing.T, open Open) {
	q := open(t)
	binary := make([]byte, 64<<10)
	for i := range binary {
		binary[i] = byte(i * 7)
	}
	want := map[string]queue.Message{}
	for i, body := range [][]byte{{}, []byte("text 秒杀"), binary} {
		m := queue.Message{ID: fmt.Sprintf("id-%d", i), Key: fmt.Sprintf("key-%d", i), Body: body}
		want[m.ID] = m
		must(t, q.Publish(patience(t), m))
	}
	sub := subscribe(t, q)
	for _, d := range receive(t, sourceOf(q), sub, len(want)) {
		w, ok := want[d.ID]
		if !ok || d.Key != w.Key || string(d.Body) != string(w.Body) || d.Attempt != 1 {
			t.Errorf("got id %q key %q, %d bytes, attempt %d, want it as published", d.ID, d.Key, len(d.Body), d.Attempt)
		}
		must(t, sub.Ack(patience(t), d))
	}
}

// One Publish of many messages brings them all.
func publishedTogether(t *testing.T, open Open) {
	q := open(t)
	s := sourceOf(q)
	must(t, s.Put(patience(t), names("m", 500)...))
	sub := subscribe(t, q)
	seen := map[string]bool{}
	for len(seen) < 500 {
		ds, err := receiveIn(patience(t), t, sub, 128)
		must(t, err)
		for _, d := range ds {
			seen[d.ID] = true
		}
		must(t, sub.Ack(patience(t), ds...))
	}
}

// Messages of one key come in the order of their publishing, if the driver says so.
func orderByKey(t *testing.T, open Open) {
	q := open(t)
	if !q.Traits().OrderedByKey {
		t.Log("not claimed")
		return
	}
	for i := range 60 {
		must(t, q.Publish(patience(t), queue.Message{ID: fmt.Sprint(i), Key: fmt.Sprint(i % 3)}))
	}
	sub := subscribe(t, q)
	last := map[string]int{}
	for _, d := range receive(t, sourceOf(q), sub, 60) {
		var i int
		_, err := fmt.Sscan(d.ID, &i)
		must(t, err)
		if before, ok := last[d.Key]; ok && i <= before {
			t.Errorf("key %s: %d came after %d", d.Key, i, before)
		}
		last[d.Key] = i
		must(t, sub.Ack(patience(t), d))
	}
}

// What was published through one handle is there for the next one, if the driver
// says that it is durable.
func durable(t *testing.T, open Open) {
	q := open(t)
	if !q.Traits().Durable {
		t.Log("not claimed")
		return
	}
	must(t, q.Publish(patience(t), queue.Message{ID: "kept", Key: "k"}))
	must(t, q.Close())
	again := open(t)
	sub := subscribe(t, again)
	ds := receive(t, sourceOf(again), sub, 1)
	if ds[0].ID != "kept" {
		t.Errorf("got %q, want kept", ds[0].ID)
	}
	must(t, sub.Ack(patience(t), ds...))
}

// A closed queue fails, and does not hang; closing it twice is harmless.
func closedQueueAnswers(t *testing.T, open Open) {
	q := open(t)
	sub := subscribe(t, q)
	must(t, q.Close())
	_ = q.Close()
	if err := q.Publish(patience(t), queue.Message{ID: "a"}); err == nil {
		t.Error("a closed queue took a message")
	}
	if _, err := receiveIn(patience(t), t, sub, 1); err == nil {
		t.Error("a closed queue delivered something")
	}
}
