package rabbitqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/queuetest"
	"seckill/queue/rabbitqueue"
)

// behaviour are claims about RabbitMQ that the conformance suite does not make.
func behaviour(t *testing.T, broker *testenv.RabbitServer) {
	for name, claim := range map[string]func(*testing.T, *testenv.RabbitServer){
		"DuplicatesAreDelivered": duplicates,
		"OrderAcrossWindows":     orderAcrossWindows,
		"AcksOutOfOrder":         acksOutOfOrder,
		"PrefetchBounds":         prefetchBounds,
		"DeadConsumer":           deadConsumer,
		"DeletedQueue":           deletedQueue,
		"ForeignLimit":           foreignLimit,
		"StalledBroker":          stalledBroker,
		"CloseWakesPublish":      closeWakesPublish,
		"CloseWaitsForAcks":      closeWaits,
		"LateAckFails":           lateAck,
		"BacklogKnowsWhatIsHeld": backlogHeld,
		"BlockedBrokerIsSaid":    blocked,
		"FullQueueIsSaid":        full,
		"TLS":                    overTLS,
	} {
		t.Run(name, func(t *testing.T) { claim(t, broker) })
	}
}

func in(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func soon(t testing.TB) context.Context { return in(t, queuetest.Patience()) }

func publish(t *testing.T, q queue.Queue, n int) {
	t.Helper()
	msgs := make([]queue.Message, n)
	for i := range msgs {
		msgs[i] = queue.Message{ID: fmt.Sprint(i), Key: "k", Body: []byte("body")}
	}
	must(t, q.Publish(soon(t), msgs...))
}

func subscribe(t *testing.T, q queue.Queue) queue.Subscription {
	t.Helper()
	sub, err := q.Subscribe(soon(t))
	must(t, err)
	t.Cleanup(func() { must(t, sub.Close()) })
	return sub
}

// receive waits for n deliveries.
func receive(t *testing.T, sub queue.Subscription, n int) (all []queue.Delivery) {
	t.Helper()
	for len(all) < n {
		ds, err := sub.Receive(soon(t), n-len(all))
		if err != nil {
			t.Fatalf("after %d of %d: %v", len(all), n, err)
		}
		all = append(all, ds...)
	}
	return all
}

func ids(ds []queue.Delivery) string {
	var list []string
	for _, d := range ds {
		list = append(list, d.ID)
	}
	return strings.Join(list, " ")
}

// awaitBacklog waits until n messages wait: the broker takes back what a closed consumer
// held a moment after it has said goodbye.
func awaitBacklog(t *testing.T, q queue.Queue, n int64) queue.Backlog {
	t.Helper()
	ctx := soon(t)
	for {
		b, err := q.Backlog(ctx)
		if err != nil {
			t.Fatalf("backlog %+v, waiting for %d: %v", b, n, err)
		}
		if b.Waiting == n {
			return b
		}
	}
}

// raw is a channel of the bare client, to do what the driver never does.
func raw(t *testing.T, broker *testenv.RabbitServer) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(broker.URL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	must(t, err)
	return ch
}

// A message that is published twice is delivered twice: telling them apart is the order
// writer's business.
func duplicates(t *testing.T, broker *testenv.RabbitServer) {
	q := open(t, rabbitqueue.Options{URL: broker.URL() + newQueue("")})
	m := queue.Message{ID: "same", Key: "k"}
	must(t, q.Publish(soon(t), m, m))
	must(t, q.Publish(soon(t), m))
	if got := ids(receive(t, subscribe(t, q), 3)); got != "same same same" {
		t.Errorf("got %q", got)
	}
}

// A Publish of more than may be on its way at once keeps the order.
func orderAcrossWindows(t *testing.T, broker *testenv.RabbitServer) {
	q := open(t, rabbitqueue.Options{URL: broker.URL() + newQueue("&prefetch=2000")})
	publish(t, q, 1201)
	for i, d := range receive(t, subscribe(t, q), 1201) {
		if d.ID != fmt.Sprint(i) {
			t.Fatalf("got %s as number %d", d.ID, i)
		}
	}
}

// Acknowledging some, in whatever order, acknowledges those and no others.
func acksOutOfOrder(t *testing.T, broker *testenv.RabbitServer) {
	q := open(t, rabbitqueue.Options{URL: broker.URL() + newQueue("")})
	publish(t, q, 10)
	first := subscribe(t, q)
	ds := receive(t, first, 10)
	must(t, first.Ack(soon(t), ds[9], ds[4]))
	must(t, first.Ack(soon(t), ds[0], ds[1], ds[5]))
	must(t, first.Ack(soon(t), ds[3]))
	must(t, first.Close())
	awaitBacklog(t, q, 4)
	if got := ids(receive(t, subscribe(t, q), 4)); got != "2 6 7 8" {
		t.Errorf("got %q, want 2 6 7 8", got)
	}
}

// A consumer that does not acknowledge gets Prefetch messages and no more; the others are for
// whoever else is there.
func prefetchBounds(t *testing.T, broker *testenv.RabbitServer) {
	q := open(t, rabbitqueue.Options{URL: broker.URL() + newQueue("&prefetch=7")})
	greedy := subscribe(t, q)
	publish(t, q, 12)
	receive(t, greedy, 7)
	if got := ids(receive(t, subscribe(t, q), 5)); got != "7 8 9 10 11" {
		t.Errorf("the other consumer got %q, want 7 to 11", got)
	}
	if ds, err := greedy.Receive(in(t, 100*time.Millisecond), 1); err == nil {
		t.Errorf("the first consumer got %q beyond its prefetch", ids(ds))
	}
}

// What a consumer had in hand when its connection broke comes again, in order, and each time
// counts.
func deadConsumer(t *testing.T, broker *testenv.RabbitServer) {
	name := newQueue("")
	q := open(t, rabbitqueue.Options{URL: broker.URL() + name})
	publish(t, q, 3)
	for attempt := 1; attempt <= 3; attempt++ {
		proxy := testenv.Proxy(t, broker.Addr)
		dying := open(t, rabbitqueue.Options{URL: broker.URLFor(testenv.RabbitOwner, proxy.Addr) + name})
		sub := subscribe(t, dying)
		ds := receive(t, sub, 3)
		if got := ids(ds); got != "0 1 2" || ds[0].Attempt != attempt {
			t.Errorf("got %q, attempt %d, want 0 1 2, attempt %d", got, ds[0].Attempt, attempt)
		}
		proxy.Cut()
		if _, err := sub.Receive(soon(t), 1); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Receive on a broken connection: got %v", err)
		}
	}
}

// A queue that is deleted under its users is made again by the next of them.
func deletedQueue(t *testing.T, broker *testenv.RabbitServer) {
	name := newQueue("")
	q := open(t, rabbitqueue.Options{URL: broker.URL() + name})
	sub := subscribe(t, q)
	_, err := raw(t, broker).QueueDelete(strings.TrimPrefix(name, "?queue="), false, false, false)
	must(t, err)
	if _, err := sub.Receive(soon(t), 1); err == nil || !strings.Contains(err.Error(), "was the queue deleted?") {
		t.Errorf("the consumer got %v", err)
	}
	if b, err := q.Backlog(soon(t)); err != nil || b.Waiting != 0 {
		t.Errorf("backlog %+v, %v", b, err)
	}
	_, err = raw(t, broker).QueueDelete(strings.TrimPrefix(name, "?queue="), false, false, false)
	must(t, err)
	publish(t, q, 2)
	if got := ids(receive(t, subscribe(t, q), 2)); got != "0 1" {
		t.Errorf("got %q, want 0 1", got)
	}
}

// A queue that somebody else created without a limit of deliveries is taken, with a warning.
func foreignLimit(t *testing.T, broker *testenv.RabbitServer) {
	name := newQueue("")
	_, err := raw(t, broker).QueueDeclare(strings.TrimPrefix(name, "?queue="), true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	must(t, err)
	var log bytes.Buffer
	q := open(t, rabbitqueue.Options{URL: broker.URL() + name, Log: slog.New(slog.NewTextHandler(&log, nil))})
	publish(t, q, 1)
	if !strings.Contains(log.String(), "x-delivery-limit") {
		t.Errorf("logged %q", log.String())
	}
}

// A Publish to a broker that neither reads nor answers ends with its context, and so does a
// Backlog; afterwards the same handle works.
func stalledBroker(t *testing.T, broker *testenv.RabbitServer) {
	proxy := testenv.Proxy(t, broker.Addr)
	q := open(t, rabbitqueue.Options{URL: broker.URLFor(testenv.RabbitOwner, proxy.Addr) + newQueue("")})
	_, err := q.Backlog(soon(t))
	must(t, err)
	proxy.Stall()
	small := []queue.Message{{ID: "small"}}
	large := make([]queue.Message, 64) // More than the buffers of the sockets hold.
	for i := range large {
		large[i] = queue.Message{ID: "large", Body: make([]byte, 1<<20)}
	}
	for name, msgs := range map[string][]queue.Message{"small": small, "large": large} {
		begin := time.Now()
		err := q.Publish(in(t, 300*time.Millisecond), msgs...)
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took > 8*time.Second {
			t.Errorf("%s: got %v after %v, want the deadline, soon", name, err, took)
		}
	}
	if _, err := q.Backlog(in(t, 300*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("backlog: got %v, want the deadline", err)
	}
	if _, err := q.Subscribe(in(t, 300*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("subscribe: got %v, want the deadline", err)
	}
	proxy.Unstall()
	must(t, q.Publish(soon(t), queue.Message{ID: "after"}))
	sub := subscribe(t, q)
	for { // What was sent before may have come as well.
		if ds := receive(t, sub, 1); ds[0].ID == "after" {
			return
		}
	}
}

// Close ends a Publish that waits for a broker that hangs.
func closeWakesPublish(t *testing.T, broker *testenv.RabbitServer) {
	proxy := testenv.Proxy(t, broker.Addr)
	q := open(t, rabbitqueue.Options{URL: broker.URLFor(testenv.RabbitOwner, proxy.Addr) + newQueue(""), CloseTimeout: 100 * time.Millisecond})
	sub := subscribe(t, q)
	proxy.Stall()
	failed := make(chan error, 1)
	go func() { failed <- q.Publish(soon(t), queue.Message{ID: "a"}) }()
	must(t, q.Close())
	if err := <-failed; !errors.Is(err, rabbitqueue.ErrClosed) {
		t.Errorf("publish: got %v, want %v", err, rabbitqueue.ErrClosed)
	}
	if _, err := sub.Receive(soon(t), 1); !errors.Is(err, rabbitqueue.ErrClosed) {
		t.Errorf("receive: got %v, want %v", err, rabbitqueue.ErrClosed)
	}
}

// Close of a subscription waits until the broker has heard what was acknowledged before.
func closeWaits(t *testing.T, broker *testenv.RabbitServer) {
	proxy := testenv.Proxy(t, broker.Addr)
	q := open(t, rabbitqueue.Options{URL: broker.URLFor(testenv.RabbitOwner, proxy.Addr) + newQueue(""), CloseTimeout: time.Minute})
	publish(t, q, 2)
	sub := subscribe(t, q)
	ds := receive(t, sub, 2)
	proxy.Stall()
	must(t, sub.Ack(soon(t), ds[0]))
	closed := make(chan error, 1)
	go func() { closed <- sub.Close() }()
	select {
	case <-closed:
		t.Error("it did not wait")
	case <-time.After(200 * time.Millisecond):
		proxy.Unstall()
		must(t, <-closed)
	}
	proxy.Unstall()
	awaitBacklog(t, q, 1)
}

// Acknowledging on a subscription that has ended is an error, unless it was done before.
func lateAck(t *testing.T, broker *testenv.RabbitServer) {
	q := open(t, rabbitqueue.Options{URL: broker.URL() + newQueue("")})
	publish(t, q, 2)
	sub := subscribe(t, q)
	ds := receive(t, sub, 2)
	must(t, sub.Ack(soon(t), ds[0]))
	must(t, sub.Close())
	must(t, sub.Ack(soon(t), ds[0]))
	if err := sub.Ack(soon(t), ds...); !errors.Is(err, rabbitqueue.ErrClosed) {
		t.Errorf("got %v, want %v", err, rabbitqueue.ErrClosed)
	}
}

// The backlog counts what this handle's consumers hold, and knows its age.
func backlogHeld(t *testing.T, broker *testenv.RabbitServer) {
	q := open(t, rabbitqueue.Options{URL: broker.URL() + newQueue("&prefetch=4")})
	before := time.Now().Add(-time.Second) // AMQP has whole seconds.
	publish(t, q, 10)
	sub := subscribe(t, q)
	ds := receive(t, sub, 4)
	b, err := q.Backlog(soon(t))
	if err != nil || b.Waiting != 10 || b.Oldest.Before(before) || b.Oldest.After(time.Now()) {
		t.Errorf("got %+v, %v, want 10 since about %v", b, err, before)
	}
	must(t, sub.Ack(soon(t), ds[:3]...))
	must(t, sub.Close())
	if b := awaitBacklog(t, q, 7); !b.Oldest.IsZero() {
		t.Errorf("got %+v, want 7 of unknown age", b)
	}
}

// A broker that takes no messages for want of disk is not waited for longer than the caller
// likes, and the error says why. Meanwhile what is there can be consumed.
func blocked(t *testing.T, broker *testenv.RabbitServer) {
	q := open(t, rabbitqueue.Options{URL: broker.URL() + newQueue("")})
	publish(t, q, 1)
	broker.Ctl(t, "set_disk_free_limit", "100000GB")
	var err error
	for err == nil { // The alarm goes off a moment later.
		err = q.Publish(in(t, time.Second), queue.Message{ID: "a"})
	}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "low on disk") {
		t.Errorf("got %v, want it to say that disk is low", err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- q.Publish(soon(t), queue.Message{ID: "b"}) }()
	for range 50 { // Some of them while the Publish waits.
		if b, err := q.Backlog(soon(t)); err != nil || b.Waiting < 1 {
			t.Errorf("backlog meanwhile: %+v, %v, want at least 1", b, err)
		}
	}
	sub := subscribe(t, q)
	must(t, sub.Ack(soon(t), receive(t, sub, 1)...))
	broker.Ctl(t, "set_disk_free_limit", "1MB")
	must(t, <-waiting)
}

// A queue that is full by a policy refuses messages, and the error says so.
func full(t *testing.T, broker *testenv.RabbitServer) {
	name := fmt.Sprintf("?queue=%s%d", testenv.RabbitBounded, names.Add(1))
	q := open(t, rabbitqueue.Options{URL: broker.URL() + name})
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		err = q.Publish(soon(t), queue.Message{ID: fmt.Sprint(i)})
	}
	if err == nil || !strings.Contains(err.Error(), "is the queue full") {
		t.Errorf("got %v, want it to say that the queue is full", err)
	}
}
