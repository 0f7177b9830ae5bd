package kafkaqueue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/kafkaqueue"
	"seckill/queue/queuetest"
)

// Consumers that join and leave in mid-stream lose nothing, and each of those who stay
// gets a part.
func consumersComeAndGo(t *testing.T, addr string) {
	const all = 1000
	q := open(t, kafkaqueue.Options{URL: topicAt(addr, "")})
	var mu sync.Mutex
	seen := map[string]int{} // By message.
	by := map[int]int{}      // By consumer.
	left := func() int {
		mu.Lock()
		defer mu.Unlock()
		return all - len(seen)
	}
	consume := func(ctx context.Context, who int) {
		s, err := q.Subscribe(ctx)
		if err != nil {
			t.Errorf("subscribe: %v", err)
			return
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
		for {
			ds, err := s.Receive(ctx, 5)
			if err != nil {
				return
			}
			if err := s.Ack(ctx, ds...); err != nil {
				t.Errorf("ack: %v", err)
			}
			mu.Lock()
			for _, d := range ds {
				seen[d.ID]++
				by[who]++
			}
			mu.Unlock()
		}
	}
	ctx, cancel := context.WithCancel(patience(t))
	defer cancel()
	var staff sync.WaitGroup
	staff.Go(func() { consume(ctx, 0) })
	passing, stopPassing := context.WithCancel(ctx)
	defer stopPassing()
	for i := range all / 10 {
		must(t, q.Publish(patience(t), messages(fmt.Sprintf("%d-", i), 10)...))
		switch i {
		case 20:
			staff.Go(func() { consume(passing, 1) })
		case 40:
			staff.Go(func() { consume(ctx, 2) })
		case 60:
			await(t, "everybody to have had something", func() bool {
				must(t, q.Publish(patience(t), messages(fmt.Sprintf("extra-%d-", time.Now().UnixNano()), 1)...))
				mu.Lock()
				defer mu.Unlock()
				return len(by) == 3
			})
			stopPassing()
		}
	}
	await(t, "every message", func() bool { return left() <= 0 })
	backlogIs(t, q, 0)
	cancel()
	staff.Wait()
}

// What waits for another try does not hold up what is behind it; when the consumer leaves,
// both come again, in their order.
func ackedBeyondAGapComeAgain(t *testing.T, addr string) {
	q := open(t, kafkaqueue.Options{URL: topicAt(addr, "")})
	must(t, q.Publish(patience(t), messages("a", 5)...))
	first := subscribe(t, q)
	ds := receive(t, first, 5)
	must(t, first.Ack(patience(t), ds[0], ds[2], ds[3]))
	backlogIs(t, q, 4)
	must(t, q.Publish(patience(t), queue.Message{ID: "behind", Key: "a"}))
	if got := ids(receive(t, first, 1)); got != "behind" {
		t.Fatalf("got %s, want what is behind", got)
	}
	must(t, first.Close())

	second := subscribe(t, q)
	ds = receive(t, second, 5)
	if got, want := ids(ds), "a1 a2 a3 a4 behind"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	must(t, second.Ack(patience(t), ds...))
	backlogIs(t, q, 0)
}

// The backlog's age is that of the oldest message that is not done.
func knowsTheOldest(t *testing.T, addr string) {
	q := open(t, kafkaqueue.Options{URL: topicAt(addr, "")})
	before := time.Now().Truncate(time.Millisecond)
	must(t, q.Publish(patience(t), messages("a", 3)...))
	between := time.Now()
	for i := range 20 { // Other partitions.
		must(t, q.Publish(patience(t), messages(fmt.Sprint(i), 1)...))
	}
	b, err := q.Backlog(patience(t))
	must(t, err)
	if b.Waiting != 23 || b.Oldest.Before(before) || b.Oldest.After(between) {
		t.Errorf("got %d, oldest %v, want 23, oldest between %v and %v", b.Waiting, b.Oldest, before, between)
	}
	s := subscribe(t, q)
	ds := receive(t, s, 23)
	var first []queue.Delivery
	for _, d := range ds {
		if d.Key == "a" {
			first = append(first, d)
		}
	}
	must(t, s.Ack(patience(t), first...))
	await(t, "a younger oldest", func() bool {
		b, err := q.Backlog(patience(t))
		return err == nil && b.Waiting == 20 && !b.Oldest.Before(between.Truncate(time.Millisecond))
	})
	must(t, s.Ack(patience(t), ds...))
	await(t, "no oldest", func() bool {
		b, err := q.Backlog(patience(t))
		return err == nil && b == queue.Backlog{}
	})
}

// childVariable makes this test's program a consumer that has messages in hand.
const childVariable = "SECKILL_TEST_KAFKA_CHILD"

// TestChildConsumes is the child process of the test below; by itself it does nothing.
func TestChildConsumes(t *testing.T) {
	url := os.Getenv(childVariable)
	if url == "" {
		return
	}
	q := open(t, kafkaqueue.Options{URL: url, SessionTimeout: 6 * time.Second})
	receive(t, subscribe(t, q), 3)
	fmt.Fprintln(os.Stdout, "in hand")
	_, _ = io.Copy(io.Discard, os.Stdin) // Until it is killed, or the parent is gone.
}

// A consumer that is killed with messages in hand is missed when its session is over, and
// another gets them.
func killedConsumerIsReplaced(t *testing.T, addr string) {
	url := topicAt(addr, "")
	q := open(t, kafkaqueue.Options{URL: url, SessionTimeout: 6 * time.Second})
	must(t, q.Publish(patience(t), messages("a", 3)...))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildConsumes$")
	child.Env = append(os.Environ(), childVariable+"="+url)
	stdin, err := child.StdinPipe()
	must(t, err)
	defer func() { _ = stdin.Close() }()
	stdout, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	said := make([]byte, len("in hand"))
	if _, err := io.ReadFull(stdout, said); err != nil || string(said) != "in hand" {
		t.Fatalf("the child says %q, %v", said, err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	s := subscribe(t, q)
	ds := receive(t, s, 3)
	if got := ids(ds); got != "a0 a1 a2" {
		t.Errorf("got %s, want what the other had in hand", got)
	}
	must(t, s.Ack(patience(t), ds...))
}

// What is wrong with a topic of a real broker is said when it is opened.
func checksARealTopic(t *testing.T, addr string) {
	url := topicAt(addr, "partitions=3")
	must(t, open(t, kafkaqueue.Options{URL: url}).Close())
	for change, want := range map[string]string{
		"partitions=5": "has 3 partitions, and the URL asks for 5",
		"replicas=2":   "has 1 replicas, and the URL asks for 2",
	} {
		_, err := kafkaqueue.Open(patience(t), kafkaqueue.Options{URL: strings.Replace(url, "partitions=3", change, 1)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", change, err, want)
		}
	}
	_, err := kafkaqueue.Open(patience(t), kafkaqueue.Options{URL: topicAt(addr, "replicas=3")})
	if err == nil || !strings.Contains(err.Error(), "cannot be created") || strings.Contains(err.Error(), "\n") {
		t.Errorf("more replicas than brokers: got %v, want one line that says so", err)
	}
}

// A broker that hangs holds nobody longer than their contexts, and Close not for long;
// afterwards everything is there.
func brokerThatHangsHoldsNobody(t *testing.T, k *testenv.KafkaServer) {
	q := open(t, kafkaqueue.Options{URL: topicAt(k.Addr, ""), SessionTimeout: 6 * time.Second})
	must(t, q.Publish(patience(t), messages("a", 2)...))
	s := subscribe(t, q)
	ds := receive(t, s, 1)
	k.Pause()
	defer k.Resume()
	must(t, s.Ack(patience(t), ds...)) // It is kept until it can be told.
	for what, call := range map[string]func(context.Context) error{
		"publish": func(ctx context.Context) error { return q.Publish(ctx, messages("b", 2)...) },
		"receive": func(ctx context.Context) error {
			for {
				if _, err := s.Receive(ctx, 1); err != nil {
					return err
				}
			}
		},
		"backlog": func(ctx context.Context) error { _, err := q.Backlog(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		start := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 8*time.Second {
			t.Errorf("%s: got %v after %v, want the deadline", what, err, took)
		}
	}
	start := time.Now()
	_ = s.Close() // It may fail, but not hang.
	if took := time.Since(start); took > queuetest.Patience()/2 {
		t.Errorf("close took %v", took)
	}
	k.Resume()
	must(t, q.Publish(patience(t), messages("b", 2)...))
	again := subscribe(t, q)
	for seen := map[string]bool{}; !seen["a1"] || !seen["b0"] || !seen["b1"]; {
		ds := receive(t, again, 1)
		seen[ds[0].ID] = true
		must(t, again.Ack(patience(t), ds...))
	}
}
