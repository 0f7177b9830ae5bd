package e2e

import (
	"maps"
	"os"
	"strings"
	"testing"

	"seckill/internal/testenv"
)

// A gateway that no worker is there for finds by itself that Redis came back as it was some purchases
// ago, and lets nobody buy. The worker that comes rebuilds the run with all its buyers.
func TestGrownGatewayAloneHolds(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t, testenv.RedisAOF...)
	g := growOn(t, redis.URL())
	g.forgets = true
	const stock = 20
	activity := g.opened(stock, `,"sub_stocks":4`)
	tickets := g.buyAll(activity, "early", 3)
	older := t.TempDir()
	redis.Stop()
	must(t, os.CopyFS(older, os.DirFS(redis.File("appendonlydir"))))
	redis.Start(t)
	await(t, "the sale to go on", func() bool {
		a, err := g.buy(activity, "early-0", "", 1)
		return err == nil && a.str("reason") == "already_purchased"
	})
	maps.Copy(tickets, g.buyAll(activity, "late", 5))
	if audit := g.audit(); strings.Contains(audit, "activity.hold") {
		t.Errorf("held by a restart that lost nothing: %s", audit)
	}
	for _, w := range g.workers {
		w.kill()
	}
	redis.Kill()
	must(t, os.RemoveAll(redis.File("appendonlydir")))
	must(t, os.CopyFS(redis.File("appendonlydir"), os.DirFS(older)))
	redis.Start(t)
	await(t, "the run to be held", func() bool { return strings.Contains(g.audit(), "activity.hold") })
	for i := range g.gateways {
		await(t, "a gateway to refuse", func() bool {
			a, err := g.click(i, activity, "early-0", "key")
			must(t, err)
			return a.str("reason") == "busy"
		})
	}
	g.workers[0].start()
	g.knowsItsBuyers(activity, tickets, stock)
}
