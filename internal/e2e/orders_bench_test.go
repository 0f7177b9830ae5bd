package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/order"
	"seckill/internal/relay"
	"seckill/internal/sqlstore"
	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/kafkaqueue"
	"seckill/queue/rabbitqueue"
	"seckill/queue/rocketqueue"
	"seckill/stock"
	"seckill/stock/redisstock"
)

// ordersEach is how many units are sold in one round.
const ordersEach = 50_000

// BenchmarkOrdersOverEachQueue measures the way from a reservation in Redis over the queue to the committed order in MariaDB, and
// back to the stock. One relay (where the queue is a broker) and two order writers have joined and have written some orders
// before the clock starts. Then units are sold as fast as they go, 200 in a message, and the clock stops when the stock has been told of
// the last order. What each program that takes part spends on an order is reported too, in µs of CPU time, and how
// busy all processors of the machine were with them.
func BenchmarkOrdersOverEachQueue(b *testing.B) {
	maria := testenv.MariaDB(b)
	redis := testenv.Redis(b, testenv.RedisAOF...)
	for _, c := range []struct {
		name, form string
		open       func(b *testing.B) queue.Queue // Nil: the outbox is the queue.
	}{
		{"RedisStream", "stream", nil},
		{"RedisList", "list", nil},
		{"RabbitMQ", "stream", func(b *testing.B) queue.Queue {
			q, err := rabbitqueue.Open(b.Context(), rabbitqueue.Options{URL: testenv.RabbitMQ(b).URL() + "?queue=orders"})
			mustBench(b, err)
			return q
		}},
		{"Kafka", "stream", func(b *testing.B) queue.Queue {
			q, err := kafkaqueue.Open(b.Context(), kafkaqueue.Options{URL: "kafka://" + testenv.Kafka(b).Addr + "/orders"})
			mustBench(b, err)
			return q
		}},
		{"RocketMQ", "stream", func(b *testing.B) queue.Queue {
			q, err := rocketqueue.Open(b.Context(), rocketqueue.Options{URL: testenv.RocketMQ(b).URL("orders")})
			mustBench(b, err)
			return q
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			redis.Must(b, "FLUSHALL")
			s, err := redisstock.Open(b.Context(), redisstock.Options{URL: redis.URL(), Outbox: c.form})
			mustBench(b, err)
			defer s.Close()
			db, err := sqlstore.Open(b.Context(), maria.URL(b), sqlstore.Options{})
			mustBench(b, err)
			defer db.Close()
			mustBench(b, db.Migrate(b.Context()))
			var broker queue.Queue
			if c.open != nil {
				broker = c.open(b)
				defer broker.Close()
			}
			defer working(b, s, db, broker)()
			sell(b, s, db, 2000)
			spent := map[string]time.Duration{}
			for b.Loop() {
				b.StopTimer()
				before := cpuOfPrograms(b)
				b.StartTimer()
				sell(b, s, db, ordersEach)
				b.StopTimer()
				for name, d := range cpuOfPrograms(b) {
					spent[name] += d - before[name]
				}
				b.StartTimer()
			}
			orders, all := float64(b.N*ordersEach), time.Duration(0)
			for name, d := range spent {
				all += d
				b.ReportMetric(float64(d.Microseconds())/orders, name+"-µs/order")
			}
			b.ReportMetric(100*all.Seconds()/b.Elapsed().Seconds()/float64(runtime.NumCPU()), "%-busy")
			b.ReportMetric(orders/b.Elapsed().Seconds(), "orders/s")
		})
	}
}

// cpuOfPrograms is what this program and those that it started have used so far, by name.
func cpuOfPrograms(b *testing.B) map[string]time.Duration {
	b.Helper()
	type program struct {
		name   string
		parent int
		used   time.Duration
	}
	programs := map[int]program{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	mustBench(b, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended meanwhile.
		}
		head, rest, _ := strings.Cut(string(text), ") ")
		id, name, _ := strings.Cut(head, " (")
		fields := strings.Fields(rest)
		pid, errID := strconv.Atoi(id)
		parent, errParent := strconv.Atoi(fields[1])
		user, errUser := strconv.ParseInt(fields[11], 10, 64)
		system, errSystem := strconv.ParseInt(fields[12], 10, 64)
		mustBench(b, errors.Join(errID, errParent, errUser, errSystem))
		const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Linux runs Go.
		programs[pid] = program{name, parent, time.Duration(user+system) * tick}
	}
	used := map[string]time.Duration{}
	for pid, p := range programs {
		for at := pid; at > 1; at = programs[at].parent {
			if at == os.Getpid() {
				if pid == at {
					p.name = "seckill"
				}
				used[p.name] += p.used
				break
			}
		}
	}
	return used
}

func mustBench(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// working starts a relay, if there is a broker, and two order writers. The function ends them.
func working(b *testing.B, s stock.Stock, db *sqlstore.DB, broker queue.Queue) (end func()) {
	ctx, stop := context.WithCancel(b.Context())
	var all sync.WaitGroup
	source := s.Outbox()
	if broker != nil {
		source = broker
		all.Go(func() { _ = (&relay.Relay{Outbox: s.Outbox(), Broker: broker}).Run(ctx) })
	}
	for range 2 {
		all.Go(func() { _ = (&order.Writer{Source: source, Store: db, Stock: s}).Run(ctx) })
	}
	return func() {
		stop()
		all.Wait()
	}
}

// sell sells so many units of a new activity, and waits until each is an order.
func sell(b *testing.B, s stock.Stock, db *sqlstore.DB, units int) {
	b.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	a, err := db.CreateActivity(b.Context(), seckill.Activity{
		Name: "benchmark", Total: int64(units), StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour), LimitPerUser: 1, SubStocks: 1,
		PaymentWindow: time.Hour, Audience: seckill.AudienceEveryone,
	}, seckill.Actor{Who: "benchmark"})
	mustBench(b, err)
	run := a.RunID()
	mustBench(b, s.Load(b.Context(), stock.Spec{Run: run, Epoch: 1, Units: int64(units), Limit: 1, SubStocks: 1, StartsAt: a.StartsAt, EndsAt: a.EndsAt}))
	for i := 0; i < units; i += 200 {
		attempts := make([]seckill.Attempt, 200)
		for j := range attempts {
			attempts[j] = seckill.Attempt{Ticket: seckill.NewTicket(run), Buyer: fmt.Sprintf("buyer-%d", i+j), Quantity: 1}
		}
		_, err := s.Reserve(b.Context(), run, 1, attempts)
		mustBench(b, err)
	}
	for deadline := time.Now().Add(5 * time.Minute); ; {
		l, err := s.Level(b.Context(), run)
		mustBench(b, err)
		if l.Queued == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d still wait", l.Queued)
		}
		<-time.After(5 * time.Millisecond)
	}
}
