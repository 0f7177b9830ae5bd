package rocketqueue_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/queuetest"
	"seckill/queue/rocketqueue"
)

// consumerURL makes of this test program a consumer that receives once and then hangs.
const consumerURL = "SECKILL_TEST_CONSUMER_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(consumerURL); url != "" {
		receiveAndHang(url)
		return
	}
	goleak.VerifyTestMain(m)
}

// topics gives each test a topic of its own on a broker that several share.
var topics atomic.Int64

func topicURL(server *testenv.RocketServer) string {
	return server.URL(fmt.Sprintf("topic-%d", topics.Add(1)))
}

func patience(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), queuetest.Patience())
	tb.Cleanup(cancel)
	return ctx
}

func open(tb testing.TB, url string) *rocketqueue.Queue {
	tb.Helper()
	q, err := rocketqueue.Open(patience(tb), rocketqueue.Options{URL: url})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = q.Close() })
	return q
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func subscribe(tb testing.TB, q queue.Queue) queue.Subscription {
	tb.Helper()
	sub, err := q.Subscribe(patience(tb))
	must(tb, err)
	tb.Cleanup(func() { _ = sub.Close() })
	return sub
}

// receive takes n messages.
func receive(tb testing.TB, sub queue.Subscription, n int) (all []queue.Delivery) {
	tb.Helper()
	for len(all) < n {
		ds, err := sub.Receive(patience(tb), n-len(all))
		if err != nil {
			tb.Fatalf("receive after %d of %d: %v", len(all), n, err)
		}
		all = append(all, ds...)
	}
	return all
}

func numbered(from, to int) (msgs []queue.Message) {
	for i := from; i < to; i++ {
		id := fmt.Sprint(i)
		msgs = append(msgs, queue.Message{ID: id, Key: id, Body: []byte("body of " + id)})
	}
	return msgs
}

func TestOnOneBroker(t *testing.T) {
	server := testenv.NewRocketMQ(t)
	server.Properties = []string{"channelExpiredTimeout=6000"} // Of consumers that say nothing; two minutes by default.
	server.Start(t)
	t.Run("Conformance", func(t *testing.T) {
		queuetest.Run(t, func(t *testing.T) queuetest.Open {
			url := topicURL(server)
			return func(t *testing.T) queue.Queue { return open(t, url) }
		})
	})
	for name, check := range map[string]func(*testing.T, *testenv.RocketServer){
		"TopicMissing":           topicMissing,
		"ConsumersComeAndGo":     consumersComeAndGo,
		"PublishedTwice":         publishedTwice,
		"AckedOutOfTurn":         ackedOutOfTurn,
		"ConsumerKilled":         consumerKilled,
		"KeysThatCannotTravel":   keysThatCannotTravel,
		"OldestIsKnown":          oldestIsKnown,
		"GroupsAreIndependent":   groupsAreIndependent,
		"MoreConsumersThanQueue": moreConsumersThanQueues,
		"EachToOneConsumer":      eachToOneConsumer,
	} {
		t.Run(name, func(t *testing.T) { check(t, server) })
	}
}

// A topic that may not be made and does not exist is one clear line.
func topicMissing(t *testing.T, server *testenv.RocketServer) {
	_, err := rocketqueue.Open(patience(t), rocketqueue.Options{URL: server.URL("nowhere") + "?queues=0"})
	if err == nil || !strings.Contains(err.Error(), "topic nowhere does not exist") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v", err)
	}
	_, err = rocketqueue.Open(patience(t), rocketqueue.Options{URL: server.URL("nowhere") + "?cluster=elsewhere"})
	if err == nil || !strings.Contains(err.Error(), `"DefaultCluster"`) {
		t.Fatalf("got %v, want the clusters that there are", err)
	}
}

// While messages flow, consumers join and leave in good order: nothing is lost.
func consumersComeAndGo(t *testing.T, server *testenv.RocketServer) {
	q := open(t, topicURL(server))
	const total = 600
	var mu sync.Mutex
	seen := map[string]bool{}
	done, stop := context.WithCancel(patience(t))
	defer stop()
	consume := func(most int) {
		sub, err := q.Subscribe(done)
		if err != nil {
			return
		}
		defer func() { _ = sub.Close() }()
		for range most {
			ds, err := sub.Receive(done, 5)
			if err != nil || sub.Ack(done, ds...) != nil {
				return
			}
			mu.Lock()
			for _, d := range ds {
				seen[d.ID] = true
			}
			if len(seen) == total {
				stop()
			}
			mu.Unlock()
		}
	}
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for done.Err() == nil {
				consume(5 + 10*i)
			}
		})
	}
	for i := 0; i < total; i += 20 {
		must(t, q.Publish(patience(t), numbered(i, i+20)...))
	}
	all.Wait()
	if len(seen) != total {
		t.Fatalf("%d of %d messages arrived", len(seen), total)
	}
}

// Publishing again after an error may store a message twice; both have the same id.
func publishedTwice(t *testing.T, server *testenv.RocketServer) {
	q := open(t, topicURL(server))
	m := queue.Message{ID: "one", Key: "k", Body: []byte("body")}
	must(t, q.Publish(patience(t), m))
	must(t, q.Publish(patience(t), m))
	ds := receive(t, subscribe(t, q), 2)
	if ds[0].ID != "one" || ds[1].ID != "one" {
		t.Fatalf("got %q and %q", ds[0].ID, ds[1].ID)
	}
}

// Acknowledgements may come in any order. What is not acknowledged comes back, and until
// then counts as waiting, with all that lies behind it.
func ackedOutOfTurn(t *testing.T, server *testenv.RocketServer) {
	q := open(t, topicURL(server)+"?queues=1")
	must(t, q.Publish(patience(t), numbered(0, 5)...))
	first := subscribe(t, q)
	ds := receive(t, first, 5)
	must(t, first.Ack(patience(t), ds[4], ds[0], ds[3]))
	if b, err := q.Backlog(patience(t)); err != nil || b.Waiting != 4 {
		t.Fatalf("backlog %+v, %v, want 4: what lies behind the first gap", b, err)
	}
	must(t, first.Ack(patience(t), ds[1]))
	must(t, first.Close())
	second := subscribe(t, q)
	back := receive(t, second, 3)
	if back[0].ID != "2" || back[1].ID != "3" || back[2].ID != "4" {
		t.Fatalf("got %q, %q, %q, want 2, 3, 4", back[0].ID, back[1].ID, back[2].ID)
	}
	must(t, second.Ack(patience(t), back...))
	if b, err := q.Backlog(patience(t)); err != nil || b.Waiting != 0 {
		t.Fatalf("backlog %+v, %v, want nothing", b, err)
	}
}

func receiveAndHang(url string) {
	q, err := rocketqueue.Open(context.Background(), rocketqueue.Options{URL: url})
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return
	}
	sub, err := q.Subscribe(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return
	}
	ds, err := sub.Receive(context.Background(), 100)
	fmt.Fprintln(os.Stdout, "received", len(ds), err)
	select {}
}

// A consumer that is killed with messages in hand is replaced within seconds, without a word.
func consumerKilled(t *testing.T, server *testenv.RocketServer) {
	url := topicURL(server) + "?queues=2"
	q := open(t, url)
	must(t, q.Publish(patience(t), numbered(0, 20)...))
	program, err := os.Executable()
	must(t, err)
	victim := exec.CommandContext(t.Context(), program)
	victim.Env = append(os.Environ(), consumerURL+"="+url)
	out, err := victim.StdoutPipe()
	must(t, err)
	must(t, victim.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "received") || strings.HasPrefix(line, "received 0") {
		t.Fatalf("the consumer says %q, %v", line, err)
	}
	other := subscribe(t, q)
	began := time.Now()
	must(t, victim.Process.Kill())
	_ = victim.Wait()
	seen := map[string]bool{}
	for len(seen) < 20 {
		for _, d := range receive(t, other, 1) {
			seen[d.ID] = true
			must(t, other.Ack(patience(t), d))
		}
	}
	t.Logf("all of it came again %v after the kill", time.Since(began).Round(time.Millisecond))
}

// An id or a key that the server would cut apart is refused, not garbled.
func keysThatCannotTravel(t *testing.T, server *testenv.RocketServer) {
	q := open(t, topicURL(server))
	for _, m := range []queue.Message{{ID: "a\x01b"}, {ID: "a", Key: "k\x02"}, {ID: "a", Key: strings.Repeat("k", 20<<10)}} {
		if err := q.Publish(patience(t), m); err == nil {
			t.Errorf("id %.10q and key %.10q were taken", m.ID, m.Key)
		}
	}
	odd := queue.Message{ID: "id with spaces, 秒杀", Key: "schlüssel \x00 \n"}
	must(t, q.Publish(patience(t), odd))
	if d := receive(t, subscribe(t, q), 1)[0]; d.ID != odd.ID || d.Key != odd.Key {
		t.Errorf("got %q, %q", d.ID, d.Key)
	}
}

// The backlog's age is that of the first message that is not acknowledged.
func oldestIsKnown(t *testing.T, server *testenv.RocketServer) {
	q := open(t, topicURL(server))
	if b, err := q.Backlog(patience(t)); err != nil || b != (queue.Backlog{}) {
		t.Fatalf("got %+v, %v of an empty queue", b, err)
	}
	before := time.Now().Truncate(time.Millisecond)
	must(t, q.Publish(patience(t), numbered(0, 50)...))
	for {
		b, err := q.Backlog(patience(t))
		must(t, err)
		if b.Waiting < 50 {
			continue // The broker counts a moment later.
		}
		if b.Waiting != 50 || b.Oldest.Before(before) || b.Oldest.After(time.Now()) {
			t.Fatalf("got %+v, want 50 since a moment after %v", b, before)
		}
		return
	}
}

// Two groups on one topic see everything each.
func groupsAreIndependent(t *testing.T, server *testenv.RocketServer) {
	url := topicURL(server)
	one, two := open(t, url+"?group=one"), open(t, url+"?group=two")
	must(t, one.Publish(patience(t), numbered(0, 10)...))
	for _, q := range []queue.Queue{one, two} {
		sub := subscribe(t, q)
		must(t, sub.Ack(patience(t), receive(t, sub, 10)...))
	}
}

// Who gets no queue waits until somebody leaves.
func moreConsumersThanQueues(t *testing.T, server *testenv.RocketServer) {
	q := open(t, topicURL(server)+"?queues=1")
	subs := []queue.Subscription{subscribe(t, q), subscribe(t, q), subscribe(t, q)}
	for i := range subs {
		must(t, q.Publish(patience(t), queue.Message{ID: fmt.Sprint(i), Key: "k"}))
		got := make(chan int, len(subs))
		ctx, cancel := context.WithCancel(patience(t))
		var all sync.WaitGroup
		for n, sub := range subs {
			if sub == nil {
				continue
			}
			all.Go(func() {
				ds, err := sub.Receive(ctx, 1)
				if err == nil {
					err = sub.Ack(ctx, ds...)
					got <- n
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		owner := -1
		select {
		case owner = <-got:
		case <-ctx.Done():
		}
		cancel()
		all.Wait()
		if owner < 0 {
			t.Fatalf("nobody got message %d", i)
		}
		must(t, subs[owner].Close())
		subs[owner] = nil
	}
}

// Once the queues are divided, nothing is delivered to two consumers, and both have work.
func eachToOneConsumer(t *testing.T, server *testenv.RocketServer) {
	q := open(t, topicURL(server)+"?queues=4")
	ctx := patience(t)
	type seen struct {
		id string
		by int
	}
	got := make(chan seen)
	for i := range 2 {
		sub := subscribe(t, q)
		go func() {
			for {
				ds, err := sub.Receive(ctx, 10)
				if err != nil || sub.Ack(ctx, ds...) != nil {
					return
				}
				for _, d := range ds {
					select {
					case got <- seen{d.ID, i}:
					case <-ctx.Done():
						return
					}
				}
			}
		}()
	}
	// What is delivered twice comes, at the latest, before what was published after it.
	const each = 20
	last := map[string][]int{}
	for from := 0; ; from += each {
		must(t, q.Publish(ctx, numbered(from, from+each)...))
		now := map[string][]int{}
		for len(now) < each {
			select {
			case s := <-got:
				if _, early := last[s.id]; early {
					last[s.id] = append(last[s.id], s.by)
				} else {
					now[s.id] = append(now[s.id], s.by)
				}
			case <-ctx.Done():
				t.Fatal("the consumers never divide the work")
			}
		}
		share := [2]int{}
		for _, by := range last {
			if len(by) == 1 {
				share[by[0]]++
			}
		}
		if share[0] > 0 && share[1] > 0 && share[0]+share[1] == each {
			return
		}
		last = now
	}
}

func BenchmarkQueue(b *testing.B) {
	server := testenv.RocketMQ(b)
	queuetest.Benchmark(b, open(b, topicURL(server)))
}
