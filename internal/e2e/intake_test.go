package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/testenv"
)

// A slowed database lets reservations wait. At the high mark the intake stops by itself, operators see which guard
// acts and on which figure, the queue drains, and the intake starts again: whoever had a ticket is confirmed, and
// everything is sold in the end.
func TestGrownBacklogStopsIntake(t *testing.T) {
	t.Parallel()
	g := growOn(t, testenv.Redis(t).URL(), "--backlog-high", "40", "--backlog-low", "10")
	const stock = 150
	activity := g.opened(stock, "")
	slow := make(chan struct{})
	go func() {
		defer close(slow)
		g.maria.SQL(t, fmt.Sprintf("BEGIN; SELECT * FROM %[1]s.seckill_stock WHERE activity_id = %[2]d FOR UPDATE; DO SLEEP(5); COMMIT", g.schema, activity))
	}()
	c := g.crowdTo(activity, 400, 3*time.Second)
	await(t, "the backlog guard to act", func() bool { return g.guardActs("backlog") })
	await(t, "somebody to hear busy", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, a := range c.answers {
			if a.busy {
				return true
			}
		}
		return false
	})
	<-slow
	await(t, "the backlog guard to let go", func() bool { return !g.guardActs("backlog") })
	c.soldTo(t, stock)
}

// guardActs tells whether the console's node says that a guard holds something back.
func (g *grown) guardActs(name string) bool {
	var got struct {
		Guards []struct {
			Name, Reason, Figure string
			Acting               bool
		}
	}
	must(g.t, json.Unmarshal(g.operate("GET", "/admin/v1/switches", "").body, &got))
	for _, guard := range got.Guards {
		if guard.Name == name {
			if guard.Acting && (guard.Reason == "" || guard.Figure == "") {
				g.t.Errorf("a guard that acts and does not say why: %+v", guard)
			}
			return guard.Acting
		}
	}
	g.t.Fatalf("there is no guard %s", name)
	return false
}

// Dead letters wait for an operator, not for the order writers: they stop nobody.
func TestDeadLettersAreNoBacklog(t *testing.T) {
	t.Parallel()
	maria := testenv.MariaDB(t)
	database := maria.URL(t)
	schema := database[strings.LastIndexByte(database, '/')+1:]
	s := serve(t, "--database", database, "--backlog-high", "4", "--backlog-low", "2", "--write-attempts-max", "1")
	maria.SQL(t, "ALTER TABLE "+schema+".seckill_order ADD CONSTRAINT poison CHECK (user_id NOT LIKE 'poisoned%')")
	activity := s.activity(20, -time.Second, `,"limit_per_user":5`)
	_, err := s.buy(activity, "poisoned", "", 5)
	must(t, err)
	await(t, "the dead letter", func() bool { return s.books(activity).Dead == 5 })
	await(t, "others to buy", func() bool {
		a, err := s.buy(activity, newBuyer(), "", 1)
		return err == nil && a.status == http.StatusAccepted
	})
}
