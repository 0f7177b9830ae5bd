package rocketqueue_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/queuetest"
	"seckill/queue/rocketqueue"
)

// The broker tells clients to find it at 127.0.0.2, where a proxy hands on to 127.0.0.1. One
// broker suffers all the faults, one after the other, as it takes its time to start.
func TestFaults(t *testing.T) {
	t.Setenv(queuetest.PatienceVariable, "90s") // A broker's restart is in it.
	server := testenv.NewRocketMQ(t)
	server.Advertised = "127.0.0.2"
	// A member whose last words the broker reads after its connection's end stays a member, with its queues, until this is over; two
	// minutes by default.
	server.Properties = []string{"channelExpiredTimeout=6000"}
	_, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testenv.ProxyAt(t, net.JoinHostPort(server.Advertised, port), server.Addr)
	server.Start(t)
	queuetest.RunFaults(t, func(*testing.T) queuetest.Faulty {
		url := topicURL(server)
		return queuetest.Faulty{
			Open:  func(t *testing.T) queue.Queue { return open(t, url) },
			Kill:  func(*testing.T) { server.Kill() },
			Start: func(t *testing.T) { server.Start(t) },
			Pause: func(*testing.T) { server.Pause() }, Resume: func(*testing.T) { server.Resume() },
			Cut: func(*testing.T) { proxy.Cut() }, Heal: func(*testing.T) { proxy.Heal() },
		}
	})
}

// Without a name server nothing can be opened, which takes no longer than it has to.
func TestNameServerAway(t *testing.T) {
	url := "rocketmq://me:hunter2@" + testenv.FreePort(t) + "/topic"
	began := time.Now()
	_, err := rocketqueue.Open(patience(t), rocketqueue.Options{URL: url})
	if err == nil || !strings.Contains(err.Error(), "name server 127.0.0.1") || strings.ContainsAny(err.Error(), "\n") ||
		strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got %v, want one line with the server and without the secret", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Who is at work goes on while the name server is away, and others may join; a broker that
// stands still does not keep Publish beyond its context.
func TestNameServerDiesAndBrokerStands(t *testing.T) {
	server := testenv.RocketMQ(t)
	q := open(t, topicURL(server))
	sub := subscribe(t, q)
	server.KillNameServer()
	must(t, q.Publish(patience(t), numbered(0, 10)...))
	must(t, sub.Ack(patience(t), receive(t, sub, 10)...))
	must(t, sub.Close())
	must(t, q.Publish(patience(t), numbered(0, 10)...))
	second := subscribe(t, q)
	must(t, second.Ack(patience(t), receive(t, second, 10)...))

	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := q.Publish(ctx, numbered(0, 10)...); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("publish to a broker that stands: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("publish and close took %v", took)
	}
}
