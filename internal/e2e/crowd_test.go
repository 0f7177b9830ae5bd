package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// crowd is buyers who come one after another to all gateways of a grown sale, and insist with
// one key each until there is a definite answer.
type crowd struct {
	*holding
	g        *grown
	activity int64
	all      sync.WaitGroup
	answers  []heard // Under holding's lock.
}

// heard is an answer to a click.
type heard struct {
	began, ended time.Time
	busy         bool
}

// crowdTo sends buyers to an activity, spread evenly over a time.
func (g *grown) crowdTo(activity int64, buyers int, over time.Duration) *crowd {
	c := &crowd{holding: &holding{tickets: map[string]string{}}, g: g, activity: activity}
	for i := range buyers {
		c.all.Go(func() {
			<-time.After(over * time.Duration(i) / time.Duration(buyers))
			c.insist(newBuyer(), "only-key", i)
		})
	}
	return c
}

// opened makes an activity that every gateway sells.
func (g *grown) opened(stock int, more string) int64 {
	g.t.Helper()
	activity := g.activity(stock, -time.Second, more)
	g.seenBy(activity)
	return activity
}

// click is one click at one of the gateways.
func (g *grown) click(gateway int, activity int64, buyer, key string) (answer, error) {
	url := fmt.Sprintf("http://%s/v1/activities/%d/purchases", g.gateways[gateway%len(g.gateways)], activity)
	return g.call("POST", url, buyer, map[string]string{"Idempotency-Key": key}, "")
}

// insist clicks until there is a definite answer, each time at another gateway.
func (c *crowd) insist(buyer, key string, gateway int) {
	t := c.g.t
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); gateway++ {
		began := time.Now()
		a, err := c.g.click(gateway, c.activity, buyer, key)
		if err != nil {
			t.Errorf("buyer %s: %v", buyer, err) // No gateway dies in these tests.
			return
		}
		reason := a.str("reason")
		// A run that is being rebuilt is paused in the stock, of which a gateway may hear first.
		busy := (reason == "busy" || c.g.forgets && reason == "paused") && a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != ""
		c.mu.Lock()
		c.answers = append(c.answers, heard{began, time.Now(), busy})
		c.mu.Unlock()
		switch {
		case a.status == http.StatusAccepted, c.g.forgets && reason == "already_purchased":
			c.acknowledged(t, buyer, a.str("ticket"))
			return
		case reason == "sold_out":
			return
		case !busy:
			t.Errorf("buyer %s: %d %s", buyer, a.status, a.body)
			return
		}
		<-time.After(100*time.Millisecond + rand.N(100*time.Millisecond))
	}
	t.Errorf("buyer %s never got a definite answer", buyer)
}

// sold waits until so many buyers have a ticket.
func (c *crowd) sold(tickets int) {
	c.g.t.Helper()
	await(c.g.t, fmt.Sprint(tickets, " tickets"), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.tickets) >= tickets
	})
}

// rows are the tickets of an activity's live orders in the database, by buyer. Nobody has two.
func (g *grown) rows(activity int64) map[string]string {
	g.t.Helper()
	rows := map[string]string{}
	fields := strings.Fields(g.maria.SQL(g.t, fmt.Sprintf("SELECT user_id, ticket FROM %s.seckill_order WHERE activity_id = %d AND status = 1", g.schema, activity)))
	for i := 0; i+1 < len(fields); i += 2 {
		if rows[fields[i]] != "" {
			g.t.Errorf("buyer %s has two orders", fields[i])
		}
		rows[fields[i]] = fields[i+1]
	}
	return rows
}

// soldTo checks that the whole stock went to those who were told so: each ticket is confirmed and
// a row of the database, there is no other row, and the books balance.
func (c *crowd) soldTo(t *testing.T, stock int) {
	t.Helper()
	c.all.Wait()
	if b := c.g.settled(c.activity); b.AwaitingPayment != int64(stock) || b.Available != 0 || b.Dead != 0 {
		t.Errorf("books %+v, want all %d units sold", b, stock)
	}
	rows := c.g.rows(c.activity)
	if len(rows) != stock || len(c.tickets) != stock {
		t.Errorf("%d orders, and %d buyers with a ticket, want %d", len(rows), len(c.tickets), stock)
	}
	for buyer, ticket := range c.tickets {
		if rows[buyer] != ticket {
			t.Errorf("the ticket %s of %s is not in the database, but %q", ticket, buyer, rows[buyer])
		}
		if final := c.g.final(buyer, ticket); final.str("state") != "confirmed" {
			t.Errorf("ticket %s ended as %s", ticket, final.body)
		}
	}
	c.stillRefused(t, rows)
}

// stillRefused checks that who has an order is told so, with its ticket, at every gateway.
func (c *crowd) stillRefused(t *testing.T, rows map[string]string) {
	t.Helper()
	n := 0
	for buyer, ticket := range rows {
		n++
		var a answer
		await(t, "a definite answer", func() bool {
			var err error
			a, err = c.g.click(n, c.activity, buyer, "other-"+strconv.Itoa(n))
			must(t, err)
			return a.str("reason") != "busy"
		})
		if a.str("reason") != "already_purchased" || a.str("ticket") != ticket {
			t.Errorf("buyer %s has the order of %s, and hears %d %s", buyer, ticket, a.status, a.body)
		}
	}
}

// within fails a test that took too long since a moment.
func within(t *testing.T, most time.Duration, since time.Time) {
	t.Helper()
	if took := time.Since(since); took > most {
		t.Errorf("it took %v, want at most %v", took, most)
	}
}
