package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"seckill/internal/testenv"
)

// A replica that lags takes over in the middle of a sale, from a master that died with orders that the
// replica has never heard of. Nothing is missing at first sight; it is found out all the same.
func TestGrownStaleReplica(t *testing.T) {
	t.Parallel()
	servers := testenv.RedisSentinel(t)
	g := growOn(t, servers.URL())
	g.losesATail(t, tail{
		cut:   func() { testenv.CutOff(t, servers.Master, servers.Replica) },
		kill:  servers.Master.Kill,
		wake:  servers.Replica.Resume,
		taken: func() { servers.Replica.AwaitMaster(t) },
	})
}

// The same where each master of a cluster has a replica, and one of them dies: a part of the stock
// goes back in time, and the others do not.
func TestGrownStaleReplicaInCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, 3)
	cluster.AddReplicas(t)
	g := growOn(t, cluster.URL())
	// The master of the first sub-stock of the activity that the test makes first.
	master, _ := cluster.MasterOf(t, "{seckill:1:1:0}:run")
	var replica *testenv.RedisServer
	for i, m := range cluster.Masters {
		if m == master {
			replica = cluster.Replicas[i]
		}
	}
	g.losesATail(t, tail{
		cut:   func() { testenv.CutOff(t, master, replica) },
		kill:  master.Kill,
		wake:  replica.Resume,
		taken: func() { replica.AwaitMaster(t) },
	})
}

// tail is how a stock loses what happened last.
type tail struct {
	cut   func() // From now on what happens will be lost.
	kill  func()
	wake  func()
	taken func() // Waits until somebody else has taken over.
}

// losesATail sells while the replica is cut off, so that orders and reservations without an order are
// lost with the master; then it checks that the sale ends as it has to.
func (g *grown) losesATail(t *testing.T, lose tail) {
	t.Helper()
	g.forgets = true
	const stock, buyers = 97, 90
	c := g.crowdTo(g.opened(stock, `,"sub_stocks":4`), buyers, 3*time.Second)
	c.sold(15)
	g.ordered(c.activity, 15)
	lose.cut()
	c.sold(40)
	g.ordered(c.activity, 40)
	g.workersGet(syscall.SIGSTOP)
	c.sold(55)
	lose.kill()
	g.workersGet(syscall.SIGCONT)
	lose.wake()
	lose.taken()
	back := time.Now()
	again := c.clickAgain(t, g.rows(c.activity))
	c.all.Wait()
	again.Wait()
	await(t, "the run to be rebuilt", func() bool { return strings.Contains(g.audit(), "activity.rebuild") })
	b, rows := g.settled(c.activity), g.rows(c.activity)
	if b.AwaitingPayment != int64(len(rows)) || b.Available != int64(stock-len(rows)) {
		t.Errorf("%d orders of %d units, and the books %+v", len(rows), stock, b)
	}
	if audit := g.audit(); !strings.Contains(audit, "activity.hold") {
		t.Errorf("nobody held the run: %s", audit)
	}
	c.stillRefused(t, rows)
	lost := c.buyersOfLost(t, rows)
	for i := range stock - buyers + 1 {
		c.insist(newBuyer(), "key", i)
	}
	c.soldTo(t, stock)
	within(t, 30*time.Second, back)
	t.Logf("%d reservations were lost; all was well %v after the replica took over", lost, time.Since(back))
}

// ordered waits until the database has so many orders.
func (g *grown) ordered(activity int64, orders int) {
	g.t.Helper()
	await(g.t, fmt.Sprint(orders, " orders"), func() bool { return len(g.rows(activity)) >= orders })
}

// clickAgain has everybody who has an order click with another key until he is refused. Whoever gets
// a ticket from a stock that does not know him, gets nothing by it.
func (c *crowd) clickAgain(t *testing.T, rows map[string]string) *sync.WaitGroup {
	t.Helper()
	var all sync.WaitGroup
	n := 0
	for buyer, ticket := range rows {
		n++
		gateway := n
		all.Go(func() {
			for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
				a, err := c.g.click(gateway, c.activity, buyer, "again")
				switch {
				case err != nil:
					t.Errorf("%s: %v", buyer, err)
					return
				case a.str("reason") == "already_purchased" && a.str("ticket") == ticket:
					return
				case a.status != http.StatusAccepted && a.status != http.StatusServiceUnavailable && a.str("reason") != "already_purchased":
					t.Errorf("%s has an order, and hears %d %s", buyer, a.status, a.body)
					return
				}
			}
			t.Errorf("%s was never refused", buyer)
		})
	}
	return &all
}

// buyersOfLost checks that each ticket is an order, or was lost with Redis; in that case its buyer
// buys again.
func (c *crowd) buyersOfLost(t *testing.T, rows map[string]string) (lost int) {
	t.Helper()
	for buyer, ticket := range maps.Clone(c.tickets) {
		a := c.g.ask("GET", "/v1/tickets/"+ticket, buyer, "")
		switch state := a.str("state"); {
		case rows[buyer] == ticket && state == "confirmed":
		case rows[buyer] == "" && (state == "failed" || a.status == http.StatusNotFound):
			lost++
			delete(c.tickets, buyer)
			c.insist(buyer, "new-key", lost)
		default:
			t.Errorf("the order of %s is of ticket %q; the ticket %s that he was given is %d %s", buyer, rows[buyer], ticket, a.status, a.body)
		}
	}
	if lost == 0 {
		t.Error("no reservation was lost, so that nothing was tried")
	}
	return lost
}

// audit is the audit log's latest page.
func (g *grown) audit() string { return string(g.operate("GET", "/admin/v1/audit", "").body) }
