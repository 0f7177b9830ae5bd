package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/testenv"
)

// Whatever happens to the database in the middle of a sale: each accepted reservation becomes
// exactly one order, and nobody who buys hears of it.
func TestGrownDatabaseFaults(t *testing.T) {
	t.Parallel()
	maria := testenv.MariaDB(t)
	g := growBy(t, maria, maria.UserURL(t), testenv.Redis(t).URL(), "--write-batch-max", "20")
	const stock, buyers = 97, 250
	for _, fault := range []struct {
		name   string
		strike func(t *testing.T, c *crowd)
	}{
		{"deadlocks", func(t *testing.T, c *crowd) { g.deadlocks(t, c) }},
		{"read-only", func(t *testing.T, c *crowd) {
			maria.SQL(t, "SET GLOBAL read_only = 1")
			defer maria.SQL(t, "SET GLOBAL read_only = 0")
			c.sold(60)
			g.someoneWaits(t, c)
		}},
		{"connections are cut", func(t *testing.T, c *crowd) {
			cut := 0
			for c.count() < 90 {
				for id := range strings.FieldsSeq(maria.SQL(t, "SELECT id FROM information_schema.processlist WHERE user LIKE 'u_%'")) {
					if _, err := maria.TrySQL(t, "KILL "+id); err == nil { // It may have gone by itself.
						cut++
					}
				}
			}
			if cut < 5 {
				t.Errorf("%d connections were cut, which is no test", cut)
			}
			t.Logf("%d connections were cut", cut)
		}},
		{"a table is locked", func(t *testing.T, c *crowd) {
			maria.SQL(t, "SET GLOBAL innodb_lock_wait_timeout = 1")
			defer maria.SQL(t, "SET GLOBAL innodb_lock_wait_timeout = 50")
			var holds sync.WaitGroup
			holds.Go(func() {
				out, err := maria.TrySQL(t, fmt.Sprintf("BEGIN; SELECT * FROM %s.seckill_stock WHERE activity_id = %d FOR UPDATE; DO SLEEP(4); COMMIT", g.schema, c.activity))
				if err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
			await(t, "the row to be locked", func() bool {
				return maria.SQL(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'") == "1"
			})
			c.sold(60)
			g.someoneWaits(t, c)
			holds.Wait()
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			c := g.crowdTo(g.opened(stock, `,"sub_stocks":4`), buyers, 4*time.Second)
			c.sold(10)
			fault.strike(t, c)
			over := time.Now()
			c.soldTo(t, stock)
			within(t, 30*time.Second, over)
		})
	}
}

// count is how many have a ticket.
func (c *crowd) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tickets)
}

// someoneWaits checks that there are tickets without an order: else nothing was tried.
func (g *grown) someoneWaits(t *testing.T, c *crowd) {
	t.Helper()
	if orders, tickets := len(g.rows(c.activity)), c.count(); orders >= tickets {
		t.Errorf("%d orders of %d tickets, though the database takes none", orders, tickets)
	}
}

// deadlocks has somebody lock what the order writers lock, the other way round, while they work, so
// that the database ends their transactions.
func (g *grown) deadlocks(t *testing.T, c *crowd) {
	t.Helper()
	count := func() int {
		fields := strings.Fields(g.maria.SQL(t, "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"))
		n, err := strconv.Atoi(fields[len(fields)-1])
		must(t, err)
		return n
	}
	// Who has changed least is the one who has to give up. The row of the stock is kept for so long that some writer has
	// written orders meanwhile, and waits for it.
	g.maria.SQL(t, "USE "+g.schema+"; CREATE TABLE heavy (n INT PRIMARY KEY, v INT) SELECT seq AS n, 0 AS v FROM seq_1_to_2000")
	before, lost := count(), 0
	for c.count() < 90 {
		out, err := g.maria.TrySQL(t, fmt.Sprintf("USE %[1]s; BEGIN; UPDATE heavy SET v = v + 1; "+
			"SELECT 1 FROM seckill_stock WHERE activity_id = %[2]d FOR UPDATE; DO SLEEP(0.4); "+
			"UPDATE seckill_order SET payment_ref = payment_ref WHERE activity_id = %[2]d; COMMIT", g.schema, c.activity))
		switch {
		case err != nil && strings.Contains(out, "1213"):
			lost++
		case err != nil:
			t.Fatalf("%v: %s", err, out)
		}
	}
	writers := count() - before - lost
	t.Logf("order writers lost %d deadlocks, the other side %d", writers, lost)
	if writers < 1 {
		t.Error("no order writer lost a deadlock, so that nothing was tried")
	}
}
