package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/testenv"
)

// grown is the program as several processes on one Redis and one MariaDB.
type grown struct {
	*server            // A node with all roles but the worker's: the tests' way in.
	gateways []string  // Public addresses.
	nodes    []*server // Of the gateways, in their order.
	workers  []*server
	redis    *testenv.RedisServer
	maria    *testenv.Maria
	schema   string // The database in it.
	forgets  bool   // Redis loses all in this test: who buys may have an order that he has not heard of.
}

// grow starts two gateways, one of them the console as well, and two workers.
func grow(t *testing.T, redisFlags ...string) *grown {
	t.Helper()
	redis := testenv.Redis(t, redisFlags...)
	g := growOn(t, redis.URL())
	g.redis = redis
	return g
}

// growOn is grow on a Redis that runs already, with settings for all processes.
func growOn(t *testing.T, stock string, settings ...string) *grown {
	t.Helper()
	maria := testenv.MariaDB(t)
	return growBy(t, maria, maria.URL(t), stock, settings...)
}

// growBy is growOn on a database that is there already.
func growBy(t *testing.T, maria *testenv.Maria, database, stock string, settings ...string) *grown {
	t.Helper()
	settings = append([]string{"--stock", stock, "--database", database}, settings...)
	roles := func(roles string) *server { return serve(t, append([]string{"--roles", roles}, settings...)...) }
	g := &grown{server: roles("gateway,console"), maria: maria, schema: database[strings.LastIndexByte(database, '/')+1:]}
	other := roles("gateway")
	g.gateways, g.nodes = []string{g.listen, other.listen}, []*server{g.server, other}
	g.workers = []*server{roles("worker"), roles("worker")}
	return g
}

// rushTo is rush over all gateways.
func (g *grown) rushTo(activity int64, buyers, clicks int) (accepted map[string]string, refused map[string]int) {
	g.t.Helper()
	accepted, refused = map[string]string{}, map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range buyers {
		buyer := newBuyer()
		for click := range clicks {
			all.Go(func() {
				a, err := g.call("POST", fmt.Sprintf("http://%s/v1/activities/%d/purchases", g.gateways[click%len(g.gateways)], activity), buyer, nil, "")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					g.t.Errorf("buyer %s: %v", buyer, err)
				case a.status == http.StatusAccepted && accepted[buyer] != "":
					g.t.Errorf("buyer %s got two tickets", buyer)
				case a.status == http.StatusAccepted:
					accepted[buyer] = a.str("ticket")
				default:
					refused[a.str("reason")]++
				}
			})
		}
	}
	all.Wait()
	return accepted, refused
}

// Several gateways and workers on one Redis and one database, the stock in eight parts: every
// unit is sold to one buyer, and the database agrees row by row.
func TestGrown(t *testing.T) {
	t.Parallel()
	g := grow(t)
	activity := g.activity(97, -time.Second, `,"sub_stocks":8`)
	g.seenBy(activity)
	accepted, refused := g.rushTo(activity, 500, 2)
	if len(accepted) != 97 {
		t.Errorf("%d buyers were accepted, want 97; refused: %v", len(accepted), refused)
	}
	for buyer, ticket := range accepted {
		if final := g.final(buyer, ticket); final.str("state") != "confirmed" {
			t.Errorf("ticket %s ended as %s", ticket, final.body)
		}
	}
	if b := g.settled(activity); b.AwaitingPayment != 97 || b.Available != 0 {
		t.Errorf("books %+v, want 97 awaiting payment", b)
	}
	rows := strings.Fields(g.maria.SQL(t, "SELECT ticket FROM "+g.schema+".seckill_order WHERE activity_id = 1 AND status = 1"))
	inDatabase := map[string]bool{}
	for _, ticket := range rows {
		inDatabase[ticket] = true
	}
	for buyer, ticket := range accepted {
		if !inDatabase[ticket] {
			t.Errorf("the ticket %s of %s is not in the database", ticket, buyer)
		}
	}
}

// seenBy waits until every gateway knows an activity.
func (g *grown) seenBy(activity int64) {
	g.t.Helper()
	for _, gateway := range g.gateways {
		await(g.t, "the activity to be known to "+gateway, func() bool {
			a, err := g.call("GET", fmt.Sprintf("http://%s/v1/activities/%d", gateway, activity), "", nil, "")
			return err == nil && a.str("state") == "open"
		})
	}
}

// A worker that is killed in the middle of the work is replaced by the other within seconds.
func TestGrownWorkerDies(t *testing.T) {
	t.Parallel()
	g := grow(t)
	activity := g.activity(400, -time.Second, `,"sub_stocks":4`)
	g.seenBy(activity)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		<-time.After(50 * time.Millisecond)
		g.workers[0].kill()
	}()
	accepted, _ := g.rushTo(activity, 450, 1)
	<-killed
	for buyer, ticket := range accepted {
		if final := g.final(buyer, ticket); final.str("state") != "confirmed" {
			t.Errorf("ticket %s ended as %s", ticket, final.body)
		}
	}
	if b := g.settled(activity); b.AwaitingPayment != 400 || b.Available != 0 {
		t.Errorf("books %+v, want 400 awaiting payment", b)
	}
}

// Redis that loses everything in the middle of a sale costs nobody who has an order his
// purchase, and sells no unit twice: the run is rebuilt from the database by itself.
func TestGrownRedisLosesEverything(t *testing.T) {
	t.Parallel()
	g := grow(t)
	activity := g.activity(50, -time.Second, `,"sub_stocks":4`)
	g.seenBy(activity)
	first, _ := g.rushTo(activity, 20, 1)
	for buyer, ticket := range first {
		g.final(buyer, ticket)
	}
	g.redis.Must(t, "FLUSHALL")
	await(t, "the activity to be open again", func() bool {
		a, err := g.buy(activity, "after", "key", 1)
		return err == nil && a.status == http.StatusAccepted
	})
	for buyer := range first {
		await(t, "an earlier buyer to be refused", func() bool {
			a, err := g.buy(activity, buyer, "", 1)
			if err == nil && a.status == http.StatusAccepted {
				t.Fatalf("buyer %s bought again", buyer)
			}
			return err == nil && a.str("reason") == "already_purchased"
		})
	}
	g.rushTo(activity, 60, 1)
	if b := g.settled(activity); b.AwaitingPayment != 50 || b.Available != 0 {
		t.Errorf("books %+v, want all 50 sold", b)
	}
}
