package rabbitqueue_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/queuetest"
	"seckill/queue/rabbitqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names counts the queues of this program, so that each has a name of its own.
var names atomic.Int64

// newQueue returns the settings of a queue that is not there yet.
func newQueue(more string) string {
	return fmt.Sprintf("?queue=q%d%s", names.Add(1), more)
}

func open(t testing.TB, o rabbitqueue.Options) *rabbitqueue.Queue {
	t.Helper()
	q, err := rabbitqueue.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// The two kinds of queue keep the contract, and what they say of themselves is so.
func TestConformance(t *testing.T) {
	broker := testenv.RabbitMQ(t)
	for _, kind := range []string{"quorum", "classic"} {
		t.Run(kind, func(t *testing.T) {
			queuetest.Run(t, func(*testing.T) queuetest.Open {
				at := broker.URL() + newQueue("&type="+kind)
				return func(t *testing.T) queue.Queue { return open(t, rabbitqueue.Options{URL: at}) }
			})
		})
	}
	t.Run("Rights", func(t *testing.T) { rights(t, broker) })
	t.Run("Behaviour", func(t *testing.T) { behaviour(t, broker) })
}

// A broker that is killed, that hangs, or that cannot be reached for a while costs time and
// no message.
func TestFaults(t *testing.T) {
	// A broker takes its time to start, more so on a busy machine.
	t.Setenv(queuetest.PatienceVariable, "90s")
	broker := testenv.RabbitMQ(t)
	proxy := testenv.Proxy(t, broker.Addr)
	queuetest.RunFaults(t, func(*testing.T) queuetest.Faulty {
		name := newQueue("")
		at := broker.URLFor(testenv.RabbitOwner, proxy.Addr) + name
		open(t, rabbitqueue.Options{URL: at})
		broker.AwaitQuorum(t, strings.TrimPrefix(name, "?queue="))
		return queuetest.Faulty{
			Open: func(t *testing.T) queue.Queue {
				return open(t, rabbitqueue.Options{URL: at, Heartbeat: 2 * time.Second})
			},
			Kill:   func(*testing.T) { broker.Kill() },
			Start:  func(t *testing.T) { broker.Start(t) },
			Pause:  func(*testing.T) { broker.Pause() },
			Resume: func(*testing.T) { broker.Resume() },
			Cut:    func(*testing.T) { proxy.Cut() },
			Heal:   func(*testing.T) { proxy.Heal() },
		}
	})
	t.Run("Classic", func(t *testing.T) { classicSurvives(t, broker) })
}

// What a classic queue has confirmed is there after the broker was killed, too.
func classicSurvives(t *testing.T, broker *testenv.RabbitServer) {
	q := open(t, rabbitqueue.Options{URL: broker.URL() + newQueue("&type=classic")})
	publish(t, q, 5)
	broker.Kill()
	if err := q.Publish(soon(t), queue.Message{ID: "nobody there"}); err == nil {
		t.Error("a broker that is dead confirmed a message")
	}
	broker.Start(t)
	if got := ids(receive(t, subscribe(t, q), 5)); got != "0 1 2 3 4" {
		t.Errorf("got %q, want 0 1 2 3 4", got)
	}
}

// BenchmarkQueue needs a broker on the same machine, and so measures both.
func BenchmarkQueue(b *testing.B) {
	broker := testenv.RabbitMQ(b)
	for _, kind := range []string{"quorum", "classic"} {
		b.Run(kind, func(b *testing.B) {
			queuetest.Benchmark(b, open(b, rabbitqueue.Options{URL: broker.URL() + newQueue("&type="+kind)}))
		})
	}
}

// escaped is the password as it stands in a URL.
var escaped = url.QueryEscape(testenv.RabbitPassword)
