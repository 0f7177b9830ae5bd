package kafkaqueue_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/kafkaqueue"
	"seckill/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// One broker is for all that does not hurt it: it takes seconds to start.
func TestKafka(t *testing.T) {
	k := testenv.Kafka(t)
	t.Run("Conformance", func(t *testing.T) {
		queuetest.Run(t, func(t *testing.T) queuetest.Open {
			url := topicAt(k.Addr, "")
			return func(t *testing.T) queue.Queue { return open(t, kafkaqueue.Options{URL: url}) }
		})
	})
	for name, check := range map[string]func(*testing.T, string){
		"ConsumersComeAndGo":       consumersComeAndGo,
		"AckedBeyondAGapComeAgain": ackedBeyondAGapComeAgain,
		"KnowsTheOldest":           knowsTheOldest,
		"KilledConsumerIsReplaced": killedConsumerIsReplaced,
		"ChecksARealTopic":         checksARealTopic,
	} {
		t.Run(name, func(t *testing.T) { check(t, k.Addr) })
	}
	t.Run("BrokerThatHangsHoldsNobody", func(t *testing.T) { brokerThatHangsHoldsNobody(t, k) })
}

// A broker that dies, hangs or cannot be reached loses nothing.
func TestKafkaFaults(t *testing.T) {
	// On a busy machine the usual patience is spent on two starts of a JVM alone.
	t.Setenv(queuetest.PatienceVariable, "90s")
	queuetest.RunFaults(t, func(t *testing.T) queuetest.Faulty {
		k := testenv.NewKafka(t)
		p := testenv.Proxy(t, k.Addr)
		k.Advertised = p.Addr
		k.Start(t)
		url := topicAt(p.Addr, "")
		return queuetest.Faulty{
			Open: func(t *testing.T) queue.Queue {
				return open(t, kafkaqueue.Options{URL: url, SessionTimeout: 6 * time.Second})
			},
			Kill: func(*testing.T) { k.Kill() }, Start: func(t *testing.T) { k.Start(t) },
			Pause: func(*testing.T) { k.Pause() }, Resume: func(*testing.T) { k.Resume() },
			Cut: func(*testing.T) { p.Cut() }, Heal: func(*testing.T) { p.Heal() },
		}
	})
}

func BenchmarkQueue(b *testing.B) {
	k := testenv.Kafka(b)
	b.Run("KafkaOneBroker", func(b *testing.B) {
		queuetest.Benchmark(b, open(b, kafkaqueue.Options{URL: topicAt(k.Addr, "")}))
	})
}
