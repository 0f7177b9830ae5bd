package kafkaqueue_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"seckill/queue"
	"seckill/queue/kafkaqueue"
	"seckill/queue/queuetest"
)

var topics atomic.Int64

// topicAt is the URL of a topic that no other test has, with a group of the same name.
func topicAt(addrs, query string) string {
	name := fmt.Sprintf("t%d", topics.Add(1))
	return fmt.Sprintf("kafka://%s/%s?group=%s&%s", addrs, name, name, query)
}

// open opens a queue until the test ends, whose troubles go to the test's output.
func open(t testing.TB, o kafkaqueue.Options) *kafkaqueue.Queue {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	q, err := kafkaqueue.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// fakeTopic is the topic, and the group, of a fake cluster's tests.
const fakeTopic = "t"

// fake is a cluster in this process, whose faults can be chosen.
func fake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func fakeURL(c *kfake.Cluster, query string) string {
	return "kafka://" + strings.Join(c.ListenAddrs(), ",") + "/" + fakeTopic + "?group=" + fakeTopic + query
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func patience(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), queuetest.Patience())
	t.Cleanup(cancel)
	return ctx
}

func await(t testing.TB, what string, done func() bool) {
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

// messages are n messages of one key, and so of one partition.
func messages(key string, n int) []queue.Message {
	ms := make([]queue.Message, n)
	for i := range ms {
		ms[i] = queue.Message{ID: fmt.Sprintf("%s%d", key, i), Key: key, Body: []byte("body")}
	}
	return ms
}

func subscribe(t testing.TB, q *kafkaqueue.Queue) queue.Subscription {
	t.Helper()
	s, err := q.Subscribe(patience(t))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// receive waits for n deliveries.
func receive(t testing.TB, s queue.Subscription, n int) []queue.Delivery {
	t.Helper()
	var all []queue.Delivery
	for len(all) < n {
		ds, err := s.Receive(patience(t), n-len(all))
		if err != nil {
			t.Fatalf("receive after %d of %d: %v", len(all), n, err)
		}
		all = append(all, ds...)
	}
	return all
}

// ids are the ids of deliveries, in their order.
func ids(ds []queue.Delivery) string {
	var all []string
	for _, d := range ds {
		all = append(all, d.ID)
	}
	return strings.Join(all, " ")
}

// backlogIs waits until the backlog has that many messages.
func backlogIs(t testing.TB, q *kafkaqueue.Queue, n int64) {
	t.Helper()
	await(t, fmt.Sprintf("a backlog of %d", n), func() bool {
		b, err := q.Backlog(patience(t))
		return err == nil && b.Waiting == n
	})
}
