package e2e

import (
	"fmt"
	"testing"
	"time"

	"seckill/internal/testenv"
)

// On a cluster of three masters, over which the stock is spread in eight parts, every unit is
// sold to one buyer; also while a part moves from one master to another and back in mid-sale.
func TestGrownCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, 3)
	g := growOn(t, cluster.URL())
	const stock, buyers = 97, 400
	t.Run("at rest", func(t *testing.T) {
		g.crowdTo(g.opened(stock, `,"sub_stocks":8`), buyers, 0).soldTo(t, stock)
	})
	t.Run("a slot moves", func(t *testing.T) {
		c := g.crowdTo(g.opened(stock, `,"sub_stocks":8`), buyers, 2*time.Second)
		c.sold(10)
		from, slot := cluster.MasterOf(t, fmt.Sprintf("{seckill:%d:1:3}:run", c.activity))
		to := cluster.Masters[0]
		if to == from {
			to = cluster.Masters[1]
		}
		// At each step somebody buys, so that the sale is not over before the move is.
		bought := 10
		buys := func(string) { bought++; c.sold(bought) }
		cluster.MoveSlot(t, slot, from, to, buys)
		cluster.MoveSlot(t, slot, to, from, buys)
		t.Logf("%d were sold until the slot had moved twice", bought)
		c.soldTo(t, stock)
	})
}
