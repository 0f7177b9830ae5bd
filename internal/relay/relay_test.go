package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"seckill/queue"
	"seckill/queue/memqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker keeps what it confirmed, and fails as often as it is told to.
type broker struct {
	mu       sync.Mutex
	failures int
	lost     bool // It takes the messages before it fails.
	got      map[string]int
	calls    int
	hang     chan struct{}
}

func (b *broker) Publish(ctx context.Context, msgs ...queue.Message) error {
	if b.hang != nil {
		select {
		case <-b.hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	fails := b.failures > 0
	if !fails || b.lost {
		for _, m := range msgs {
			b.got[m.ID]++
		}
	}
	if fails {
		b.failures--
		return errors.New("not now")
	}
	return nil
}

func (b *broker) has() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.got)
}

func fill(t *testing.T, q queue.Queue, n int) {
	t.Helper()
	for i := range n {
		if err := q.Publish(t.Context(), queue.Message{ID: fmt.Sprint(i), Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
}

func waiting(t *testing.T, s queue.Source) int64 {
	t.Helper()
	b, err := s.Backlog(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return b.Waiting
}

// Everything goes over, in batches, and leaves the outbox, though the broker fails now and then: also when
// it had taken what it did not confirm.
func TestMovesAllThroughFailures(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			outbox := memqueue.New()
			defer outbox.Close()
			b := &broker{failures: 5, lost: lost, got: map[string]int{}}
			fill(t, outbox, 120)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- (&Relay{Outbox: outbox, Broker: b}).Run(ctx) }()
			<-time.After(time.Minute) // Of the test's own clock.
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if b.has() != 120 || waiting(t, outbox) != 0 {
				t.Errorf("the broker has %d messages and the outbox %d, want 120 and 0", b.has(), waiting(t, outbox))
			}
			if b.calls > 5+120 || b.calls < 5+120/50 {
				t.Errorf("%d calls, want batches", b.calls)
			}
		})
	}
}

// A broker that never confirms leaves everything in the outbox.
func TestDropsNothingUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outbox := memqueue.New()
		defer outbox.Close()
		b := &broker{failures: 1 << 30, lost: true, got: map[string]int{}}
		fill(t, outbox, 7)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := (&Relay{Outbox: outbox, Broker: b}).Run(ctx); err != nil {
			t.Error(err)
		}
		if left := waiting(t, outbox); left != 7 {
			t.Errorf("%d messages are left, want 7", left)
		}
		if b.calls > 40 {
			t.Errorf("%d calls in a minute, want them further and further apart", b.calls)
		}
	})
}

// A broker that hangs does not keep the relay from stopping, and nothing is lost.
func TestStopsThoughTheBrokerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outbox := memqueue.New()
		defer outbox.Close()
		b := &broker{got: map[string]int{}, hang: make(chan struct{})}
		fill(t, outbox, 3)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- (&Relay{Outbox: outbox, Broker: b}).Run(ctx) }()
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > stopGrace {
			t.Errorf("took %v to stop, want at most %v", took, stopGrace)
		}
		if left := waiting(t, outbox); left != 3 {
			t.Errorf("%d messages are left, want 3", left)
		}
	})
}

// The backlog is what waits on both sides.
func TestBacklogOfBothSides(t *testing.T) {
	outbox, far := memqueue.New(), memqueue.New()
	defer outbox.Close()
	defer far.Close()
	fill(t, outbox, 2)
	fill(t, far, 3)
	both := Both{Queue: far, Outbox: outbox}
	if got := waiting(t, both); got != 5 {
		t.Errorf("%d wait, want 5", got)
	}
	both.Outbox = away{}
	if b, err := both.Backlog(t.Context()); err == nil {
		t.Errorf("got %+v though one side cannot be asked, want an error", b)
	}
}

// away is an outbox that cannot be asked.
type away struct{ queue.Source }

func (away) Backlog(context.Context) (queue.Backlog, error) {
	return queue.Backlog{}, errors.New("away")
}
