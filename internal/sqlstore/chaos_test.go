package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/order"
)

// Whatever is done at the same time, by whomever: units are neither made nor lost, no
// buyer has one slot twice, and each ticket has one fate.
func claimChaos(t *testing.T, p *place) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	run := p.sale(t, 50, 20*time.Millisecond)
	c := chaos{place: p, run: run}
	var workers []func(context.Context) error
	for n := range 6 {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		workers = append(workers, func(ctx context.Context) error {
			for range p.races / 5 {
				if err := c.step(ctx, rnd); err != nil && !errors.Is(err, order.ErrUnavailable) &&
					!errors.As(err, new(*seckill.Refusal)) {
					return err
				}
			}
			return nil
		})
	}
	together(t, workers...)
	c.check(t)
}

type chaos struct {
	*place
	run seckill.RunID

	mu   sync.Mutex
	seen []seckill.Reservation
	ids  []string
}

func pick[T any](rnd *rand.Rand, list []T) (v T) {
	if len(list) > 0 {
		v = list[rnd.IntN(len(list))]
	}
	return v
}

func (c *chaos) step(ctx context.Context, rnd *rand.Rand) error {
	c.mu.Lock()
	r, id := pick(rnd, c.seen), pick(rnd, c.ids)
	c.mu.Unlock()
	switch rnd.IntN(10) {
	case 0:
		_, _, _, err := c.MoveOrder(ctx, id, "", seckill.Paid, "ref", nil)
		return ignoreMissing(err)
	case 1:
		_, _, _, err := c.MoveOrder(ctx, id, "", seckill.Cancelled, "", nil)
		return ignoreMissing(err)
	case 2:
		_, err := c.ExpireOrders(ctx, 5)
		return err
	case 3:
		if r.Ticket == "" {
			return nil
		}
		return c.Bury(ctx, letter(r, "chaos"))
	case 4:
		letters, err := c.DeadLetters(ctx, 0, 20)
		if err != nil || len(letters) == 0 {
			return err
		}
		l := pick(rnd, letters)
		if rnd.IntN(2) == 0 {
			_, err = c.DropDead(ctx, l.ID, rnd.IntN(4) > 0, operator)
			return err
		}
		_, err = c.RetryDead(ctx, l.ID, operator)
		return err
	case 5:
		letters, err := c.Retrying(ctx, 1)
		if err != nil || len(letters) == 0 {
			return err
		}
		w, err := c.WriteOrders(ctx, c.run, []seckill.Reservation{*letters[0].Reservation})
		if err != nil || w[0].Dead {
			return err
		}
		return c.RetriedDead(ctx, letters[0].ID, rnd.IntN(2) == 0, "again")
	case 6:
		_, err := c.BeginRestock(ctx, c.run.Activity, int64(rnd.IntN(5)-2), operator)
		return err
	}
	return c.writeSome(ctx, rnd)
}

func (c *chaos) writeSome(ctx context.Context, rnd *rand.Rand) error {
	var rs []seckill.Reservation
	c.mu.Lock()
	for range 1 + rnd.IntN(5) {
		r := pick(rnd, c.seen)
		if r.Ticket == "" || rnd.IntN(3) > 0 {
			r = reservation(c.run, fmt.Sprint("b", rnd.IntN(40)), 1+rnd.IntN(3))
			r.Slot = 1 + rnd.IntN(2)
			c.seen = append(c.seen, r)
		}
		rs = append(rs, r)
	}
	c.mu.Unlock()
	written, err := c.WriteOrders(ctx, c.run, rs)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range written {
		if w.New {
			c.ids = append(c.ids, w.Order.ID)
		}
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, seckill.ErrNotFound) {
		return nil
	}
	return err
}

func (c *chaos) check(t *testing.T) {
	t.Helper()
	count := func(query string) (n int64) {
		t.Helper()
		must(t, c.write.QueryRowContext(t.Context(), query).Scan(&n))
		return n
	}
	live := count("SELECT COALESCE(SUM(quantity), 0) FROM seckill_order WHERE status IN (1, 2)")
	total := count("SELECT total_stock FROM seckill_stock")
	c.balanced(t, c.run, total, live)
	equal(t, "live orders without a slot, or others with one",
		count("SELECT COUNT(*) FROM seckill_order WHERE (status IN (1, 2)) <> (slot IS NOT NULL)"), 0)
	equal(t, "orders that were refused too",
		count("SELECT COUNT(*) FROM seckill_order o JOIN seckill_refused r ON r.ticket = o.ticket"), 0)
	equal(t, "orders that were dropped too",
		count("SELECT COUNT(*) FROM seckill_order o JOIN seckill_dead_letter d ON d.ticket = o.ticket WHERE d.state = 4"), 0)
	equal(t, "tickets that were refused and dropped",
		count("SELECT COUNT(*) FROM seckill_refused r JOIN seckill_dead_letter d ON d.ticket = r.ticket WHERE d.state = 4"), 0)
	t.Logf("%d orders, %d live units of %d, %d refused, %d letters", count("SELECT COUNT(*) FROM seckill_order"), live, total,
		count("SELECT COUNT(*) FROM seckill_refused"), count("SELECT COUNT(*) FROM seckill_dead_letter"))
}
