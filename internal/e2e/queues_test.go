package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/kafkaqueue"
	"seckill/queue/rabbitqueue"
	"seckill/queue/rocketqueue"
)

// carrier is a queue that the program is started with, and what can be done to its server.
type carrier struct {
	stock, queue string // The settings.
	kill, start  func()
	cut, heal    func()
	redis        *testenv.RedisServer // Where the stock's outbox is the queue.
	// open is a handle of the test's own on a broker; nil where the stock's outbox is the queue.
	open func(ctx context.Context) (queue.Queue, error)
}

// carriers are the queues that the program may be started with, each with a server of its own
// behind something that can be cut.
var carriers = map[string]func(t *testing.T) carrier{
	"RedisStream": func(t *testing.T) carrier { return inRedis(t, "redis-stream") },
	"RedisList":   func(t *testing.T) carrier { return inRedis(t, "redis-list") },
	"RabbitMQ": func(t *testing.T) carrier {
		r := testenv.RabbitMQ(t)
		p := testenv.Proxy(t, r.Addr)
		url := r.URLFor(testenv.RabbitOwner, p.Addr) + "?queue=orders&heartbeat=2"
		return carrier{
			stock: testenv.Redis(t).URL(), queue: url, kill: r.Kill, start: func() { r.Start(t) }, cut: p.Cut, heal: p.Heal,
			open: func(ctx context.Context) (queue.Queue, error) {
				return rabbitqueue.Open(ctx, rabbitqueue.Options{URL: url})
			},
		}
	},
	"Kafka": func(t *testing.T) carrier {
		k := testenv.NewKafka(t)
		p := testenv.Proxy(t, k.Addr)
		k.Advertised = p.Addr
		k.Start(t)
		url := "kafka://" + p.Addr + "/orders"
		return carrier{
			stock: testenv.Redis(t).URL(), queue: url, kill: k.Kill, start: func() { k.Start(t) }, cut: p.Cut, heal: p.Heal,
			open: func(ctx context.Context) (queue.Queue, error) {
				return kafkaqueue.Open(ctx, kafkaqueue.Options{URL: url})
			},
		}
	},
	"RocketMQ": func(t *testing.T) carrier {
		r := testenv.NewRocketMQ(t)
		_, port, err := net.SplitHostPort(r.Addr)
		must(t, err)
		r.Advertised = "127.0.0.2"
		r.Properties = []string{"channelExpiredTimeout=6000"} // Of consumers that say nothing; two minutes by default.
		p := testenv.ProxyAt(t, net.JoinHostPort(r.Advertised, port), r.Addr)
		r.Start(t)
		url := r.URL("orders")
		return carrier{
			stock: testenv.Redis(t).URL(), queue: url, kill: r.Kill, start: func() { r.Start(t) }, cut: p.Cut, heal: p.Heal,
			open: func(ctx context.Context) (queue.Queue, error) {
				return rocketqueue.Open(ctx, rocketqueue.Options{URL: url})
			},
		}
	},
}

// inRedis is a queue in the stock's own Redis.
func inRedis(t *testing.T, name string) carrier {
	redis := testenv.Redis(t, testenv.RedisAOF...)
	p := testenv.Proxy(t, redis.Addr)
	return carrier{
		redis: redis,
		stock: "redis://" + p.Addr, queue: name, kill: redis.Kill, start: func() { redis.Start(t) }, cut: p.Cut, heal: p.Heal,
	}
}

// cutFor is how long connections to a queue's server are cut.
const cutFor = 10 * time.Second

// The same sale over each queue, and what may happen to the queue or its consumers in the
// middle of one: every accepted reservation becomes one order, none is lost or doubled, and the books balance.
func TestQueues(t *testing.T) {
	for name, newCarrier := range carriers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCarrier(t)
			g := growOn(t, c.stock, "--queue", c.queue, "--reserve-timeout", reserveTimeout.String())
			third := serve(t, append([]string{"--roles", "worker"}, g.workers[0].args[2:]...)...)
			g.workers = append(g.workers, third)
			t.Run("sale", func(t *testing.T) { sale(t, g) })
			t.Run("consumer killed", func(t *testing.T) { consumerKilled(t, g) })
			t.Run("delivered twice", func(t *testing.T) { deliveredTwice(t, g) })
			t.Run("consumers come and go", func(t *testing.T) { consumersComeAndGo(t, g) })
			t.Run("server killed", func(t *testing.T) {
				hurt(t, g, func(*crowd) {
					c.kill()
					<-time.After(time.Second)
					c.start()
				})
			})
			t.Run("connections cut", func(t *testing.T) {
				hurt(t, g, func(*crowd) {
					c.cut()
					<-time.After(cutFor)
					c.heal()
				})
			})
			t.Run("poisoned", func(t *testing.T) { poisoned(t, g, c) })
			t.Run("traits as documented", func(t *testing.T) { traitsAsDocumented(t, name, c) })
		})
	}
}

// sale sells 200 units to 2,000 buyers.
func sale(t *testing.T, g *grown) {
	c := g.crowdTo(g.opened(200, `,"sub_stocks":4`), 2000, time.Second)
	c.soldTo(t, 200)
}

// hurt does something in the middle of a sale.
func hurt(t *testing.T, g *grown, strike func(*crowd)) {
	const stock, buyers = 97, 250
	c := g.crowdTo(g.opened(stock, `,"sub_stocks":4`), buyers, time.Second)
	c.sold(20)
	strike(c)
	back := time.Now()
	c.soldTo(t, stock)
	within(t, 60*time.Second, back)
}

// consumerKilled kills a consumer with messages in hand.
func consumerKilled(t *testing.T, g *grown) {
	hurt(t, g, func(*crowd) { g.workers[0].kill() })
	g.workers[0].start()
}

// deliveredTwice has a consumer stand still with messages in hand until they were given to others, and
// then go on with them.
func deliveredTwice(t *testing.T, g *grown) {
	stopped := g.workers[1].cmd.Process
	hurt(t, g, func(*crowd) { must(t, stopped.Signal(syscall.SIGSTOP)) })
	must(t, stopped.Signal(syscall.SIGCONT))
	// It still does its work: it is the only one in the next sale.
	hurt(t, g, func(*crowd) {})
}

// consumersComeAndGo ends one consumer in good order and starts another, in the middle of a sale.
func consumersComeAndGo(t *testing.T, g *grown) {
	hurt(t, g, func(*crowd) {
		last := g.workers[2]
		must(t, last.cmd.Process.Signal(syscall.SIGTERM))
		extra := serve(t, last.args...)
		if err, ok := last.ended(15 * time.Second); !ok || err != nil {
			t.Errorf("a worker that was told to stop: %v, %v", ok, err)
		}
		g.workers[2] = extra
	})
}

// poisoned has the database refuse one buyer's order, and, where the queue is a broker, sends what is no message:
// both end among the dead letters with their reason while everything else flows. Retried when the cause is gone, the
// order is written; what is dropped with return_stock can be bought again.
func poisoned(t *testing.T, g *grown, c carrier) {
	g.maria.SQL(t, fmt.Sprintf("ALTER TABLE %s.seckill_order ADD CONSTRAINT poison CHECK (user_id NOT LIKE 'poisoned-%%')", g.schema))
	activity := g.opened(10, "")
	tickets := map[string]string{}
	for _, buyer := range []string{"poisoned-1", "poisoned-2", "sound-1"} {
		a, err := g.buy(activity, buyer, "", 1)
		must(t, err)
		tickets[buyer] = a.str("ticket")
	}
	if c.open != nil {
		sendNonsense(t, c)
	}
	if a := g.final("sound-1", tickets["sound-1"]); a.str("state") != "confirmed" {
		t.Errorf("the sound buyer: %s", a.body)
	}
	wantDead := 2
	if c.open != nil {
		wantDead = 3
	}
	letters := map[string]map[string]any{} // By ticket; "" for what is no message.
	await(t, "the poisoned to be dead letters", func() bool {
		a := g.operate("GET", "/admin/v1/dead-letters", "")
		list, _ := a.json["dead_letters"].([]any)
		for _, l := range list {
			letter, _ := l.(map[string]any)
			ticket, _ := letter["ticket"].(string)
			letters[ticket] = letter
		}
		return len(letters) == wantDead
	})
	for _, buyer := range []string{"poisoned-1", "poisoned-2"} {
		letter := letters[tickets[buyer]]
		if reason := fmt.Sprint(letter["reason"]); !strings.Contains(reason, "poison") || fmt.Sprint(letter["attempts"]) == "0" {
			t.Errorf("the dead letter of %s: %v", buyer, letter)
		}
	}
	if b := g.settled(activity); b.Dead != 2 || b.AwaitingPayment != 1 || b.Available != 7 {
		t.Errorf("books %+v, want 2 dead, 1 awaiting payment, 7 available", b)
	}

	g.maria.SQL(t, fmt.Sprintf("ALTER TABLE %s.seckill_order DROP CONSTRAINT poison", g.schema))
	id := func(buyer string) string { return fmt.Sprint(letters[tickets[buyer]]["id"]) }
	if a := g.operate("POST", "/admin/v1/dead-letters/"+id("poisoned-1")+"/retry", ""); a.status != http.StatusOK {
		t.Errorf("retry: %d %s", a.status, a.body)
	}
	if a := g.final("poisoned-1", tickets["poisoned-1"]); a.str("state") != "confirmed" {
		t.Errorf("after the retry: %s", a.body)
	}
	if a := g.operate("POST", "/admin/v1/dead-letters/"+id("poisoned-2")+"/drop", `{"return_stock":true,"reason":"test"}`); a.status != http.StatusOK {
		t.Errorf("drop: %d %s", a.status, a.body)
	}
	if a := g.final("poisoned-2", tickets["poisoned-2"]); a.str("state") != "failed" {
		t.Errorf("after the drop: %s", a.body)
	}
	if b := g.settled(activity); b.Dead != 0 || b.AwaitingPayment != 2 || b.Available != 8 {
		t.Errorf("books %+v, want none dead, 2 awaiting payment, 8 available", b)
	}
}

func sendNonsense(t *testing.T, c carrier) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	q, err := c.open(ctx)
	must(t, err)
	defer q.Close()
	must(t, q.Publish(ctx, queue.Message{ID: "nonsense", Key: "nonsense", Body: []byte("{nonsense")}))
}

// traitsAsDocumented holds the table of docs/queues.md to what the driver says, which its own suite
// holds to what it does.
func traitsAsDocumented(t *testing.T, name string, c carrier) {
	if c.open == nil { // An outbox has no traits of its own, but it has to be the one that was asked for.
		answer, _ := c.redis.Must(t, "SCAN", "0", "COUNT", "100000", "TYPE", "stream").([]any)
		streams := answer[1].([]any)
		if isStream := c.queue == "redis-stream"; isStream != (len(streams) > 0) {
			t.Errorf("the queue is to be %s, and there are %d streams", c.queue, len(streams))
		}
		return
	}
	page, err := os.ReadFile("../../docs/queues.md")
	must(t, err)
	q, err := c.open(t.Context())
	must(t, err)
	defer q.Close()
	word := map[bool]string{true: "yes", false: "no"}
	traits := q.Traits()
	row := fmt.Sprintf("| %s | %s | %s | %s |", name, word[traits.Durable], word[traits.OrderedByKey], word[traits.CountsAttempts])
	if !strings.Contains(string(page), row) {
		t.Errorf("docs/queues.md does not say %q", row)
	}
}

// A gateway starts, and sells, while the broker is away: what it sells waits in the outbox.
func TestGatewayStartsWithoutItsBroker(t *testing.T) {
	t.Parallel()
	settings := []string{"--stock", testenv.Redis(t).URL(), "--database", testenv.MariaDB(t).URL(t)}
	// Only a worker loads a run into the stock; it goes before the broker is needed.
	loader := serve(t, settings...)
	activity := loader.activity(5, -time.Second, "")
	await(t, "the activity to be open", func() bool {
		return loader.ask("GET", fmt.Sprintf("/v1/activities/%d", activity), "", "").str("state") == "open"
	})
	loader.kill()
	gateway := serve(t, append(settings, "--roles", "gateway", "--queue", "kafka://"+testenv.FreePort(t)+"/orders")...)
	a, err := gateway.buy(activity, "me", "", 1)
	must(t, err)
	if a.status != http.StatusAccepted {
		t.Errorf("got %d %s, want it accepted", a.status, a.body)
	}
}
