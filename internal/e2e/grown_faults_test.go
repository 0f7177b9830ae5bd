package e2e

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"seckill/internal/testenv"
)

const (
	// reserveTimeout is what these tests' gateways give Redis; a purchase waits for a call under way and
	// then for its own, so that nobody waits more than twice as long.
	reserveTimeout = 500 * time.Millisecond
	answeredIn     = 2*reserveTimeout + 700*time.Millisecond // The rest is for a busy machine.
)

// Whatever happens to a Redis that loses nothing, in the middle of a sale: every unit is sold to
// who was told so, and while Redis is away everybody hears "busy" within his deadline.
func TestGrownRedisFaults(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t, testenv.RedisAOF...)
	g := growOn(t, redis.URL(), "--reserve-timeout", reserveTimeout.String())
	const stock, buyers = 97, 250
	for _, fault := range []struct {
		name   string
		strike func(t *testing.T, c *crowd)
	}{
		{"forgets its scripts", func(t *testing.T, _ *crowd) { redis.Must(t, "SCRIPT", "FLUSH") }},
		{"hangs", func(t *testing.T, c *crowd) {
			redis.Pause()
			defer redis.Resume()
			c.areBusyFor(t, 3*time.Second)
		}},
		{"sleeps", func(t *testing.T, c *crowd) {
			var asleep sync.WaitGroup
			asleep.Go(func() { redis.Must(t, "DEBUG", "SLEEP", "3") })
			<-time.After(100 * time.Millisecond)
			c.areBusyFor(t, 2500*time.Millisecond)
			asleep.Wait()
		}},
		{"is killed", func(t *testing.T, c *crowd) {
			redis.Kill()
			c.areBusyFor(t, time.Second)
			redis.Start(t)
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			c := g.crowdTo(g.opened(stock, `,"sub_stocks":4`), buyers, time.Second)
			c.sold(20)
			fault.strike(t, c)
			back := time.Now()
			c.soldTo(t, stock)
			within(t, 30*time.Second, back)
		})
	}
}

// areBusyFor checks that for so long, from now on, whoever clicks hears "busy", and soon.
func (c *crowd) areBusyFor(t *testing.T, lasts time.Duration) {
	t.Helper()
	from := time.Now().Add(20 * time.Millisecond) // What was answered before is on its way.
	<-time.After(lasts)
	to := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	busy, slowest := 0, time.Duration(0)
	for _, a := range c.answers {
		if a.ended.After(from) {
			slowest = max(slowest, a.ended.Sub(a.began))
		}
		switch {
		case a.began.Before(from) || a.ended.After(to):
		case a.busy:
			busy++
		default:
			t.Errorf("a definite answer %v after redis went away", a.ended.Sub(from))
		}
	}
	if busy < 20 || slowest > answeredIn {
		t.Errorf("%d were told busy, the slowest answer took %v; want at least 20, within %v", busy, slowest, answeredIn)
	}
	t.Logf("%d were told busy, the slowest after %v", busy, slowest)
}

// A Redis that keeps nothing dies in the middle of a sale and comes back empty, while part of the
// reservations have no order yet. Who has an order keeps it, and is refused another; whose
// reservation is gone is told so, and can buy again; every unit is sold in the end, none
// twice, and nobody has two.
func TestGrownRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	g := grow(t)
	g.forgets = true
	const stock, buyers = 97, 90
	c := g.crowdTo(g.opened(stock, `,"sub_stocks":4`), buyers, time.Second)
	c.sold(20)
	g.workersGet(syscall.SIGSTOP)
	c.sold(40)
	g.redis.Kill()
	g.workersGet(syscall.SIGCONT)
	g.redis.Start(t)
	back := time.Now()
	c.all.Wait()
	b, rows := g.settled(c.activity), g.rows(c.activity)
	if b.AwaitingPayment != int64(len(rows)) || b.Available != int64(stock-len(rows)) {
		t.Errorf("%d orders of %d units, and the books %+v", len(rows), stock, b)
	}
	c.stillRefused(t, rows)
	lost := c.buyersOfLost(t, rows)
	for i := range stock - buyers + 1 {
		c.insist(newBuyer(), "key", i)
	}
	c.soldTo(t, stock)
	within(t, 30*time.Second, back)
	t.Logf("%d reservations were lost with redis", lost)
}

// workersGet sends a signal to all workers.
func (g *grown) workersGet(s syscall.Signal) {
	g.t.Helper()
	for _, w := range g.workers {
		must(g.t, w.cmd.Process.Signal(s))
	}
}

// The database dies in the middle of a sale and comes back: buyers buy on, wait in the
// queue, and each of their reservations becomes one order.
func TestGrownDatabaseDies(t *testing.T) {
	t.Parallel()
	g := grow(t)
	const stock, buyers = 97, 250
	c := g.crowdTo(g.opened(stock, `,"sub_stocks":4`), buyers, time.Second)
	c.sold(20)
	g.maria.Kill()
	c.all.Wait()
	queued := 0
	for buyer, ticket := range c.tickets {
		a := g.ask("GET", "/v1/tickets/"+ticket, buyer, "")
		switch state := a.str("state"); state {
		case "queued":
			queued++
		case "confirmed":
		default:
			t.Errorf("without the database, ticket %s is %d %s", ticket, a.status, a.body)
		}
	}
	if queued == 0 {
		t.Error("nobody is queued without the database")
	}
	g.maria.Start(t)
	back := time.Now()
	c.soldTo(t, stock)
	within(t, 30*time.Second, back)
	t.Logf("%d were queued while the database was away", queued)
}
