package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"seckill"
	"seckill/stock"
)

const (
	// quietMax is how many queued reservations a run may have and still be compared unit
	// by unit: more of them means that a rush is on.
	quietMax = 20 * TicketsMax
	// tries is how often a run is looked at to find it quiet.
	tries = 5
)

// comparison is one reconciliation of one run.
type comparison struct {
	*Reconciler
	run      seckill.RunID
	repair   bool
	by       seckill.Actor
	findings []seckill.Finding
}

func (c *comparison) find(kind string, units int64, repaired bool, format string, args ...any) {
	c.findings = append(c.findings, seckill.Finding{Kind: kind, Units: units, Repaired: repaired, Detail: fmt.Sprintf(format, args...)})
	if repaired {
		c.o.Log.Info("reconcile: repaired", "activity", c.run.Activity, "run", c.run.Run, "kind", kind, "units", units,
			"who", c.by.Who, "from", c.by.From, "reason", c.by.Reason)
	}
}

// compare goes from what needs no second look to what does.
func (c *comparison) compare(ctx context.Context, a *seckill.Activity) error {
	facts, err := c.row(ctx)
	if err != nil {
		return err
	}
	_, loaded, err := c.level(ctx, c.run)
	if err != nil {
		return err
	}
	if loaded {
		if err := c.stale(ctx); err != nil {
			return err
		}
		if err := c.units(ctx); err != nil {
			return err
		}
	} else if a.Phase == seckill.PhaseLoaded && a.State(time.Now(), false) != seckill.StateEnded {
		c.find("not_loaded", facts.free(), false, "the stock does not have the run; the keeper rebuilds it from the database")
	}
	if facts.Dead > 0 {
		c.find("dead_letters", facts.Dead, false, "units lie under dead letters that wait for an operator")
	}
	return nil
}

// row compares the database with itself. One read is enough: it is one transaction.
func (c *comparison) row(ctx context.Context) (Facts, error) {
	facts, err := c.o.Facts(ctx, c.run)
	if err != nil {
		return facts, fmt.Errorf("read the database: %w", err)
	}
	if over := facts.live() - facts.Total; over > 0 {
		c.find("oversold", over, false, "live orders hold %d units, the run has %d; some orders have to be cancelled", facts.live(), facts.Total)
		return facts, nil
	}
	drift := facts.Available - (facts.Total - facts.live())
	if drift == 0 {
		return facts, nil
	}
	var by int64
	if c.repair {
		// The database counts again under the row's lock: orders may move meanwhile.
		if by, err = c.o.Store.RepairAvailable(ctx, c.run); err != nil {
			return facts, fmt.Errorf("repair the row: %w", err)
		}
	}
	c.find("row_drift", drift, by != 0, "the run's row has %d units available; its total less its live orders is %d",
		facts.Available, facts.Total-facts.live())
	return facts, nil
}

// stale looks for reservations that have been queued for longer than they should: those
// that are orders already, and those that no queue carries any more.
func (c *comparison) stale(ctx context.Context) error {
	// The queues first: what is in none of them now, and still queued in the stock after
	// that, was not settled by a consumer in between.
	waiting, oldest, err := c.o.Backlog(ctx)
	if err != nil {
		return fmt.Errorf("read the backlog: %w", err)
	}
	before := time.Now().Add(-c.o.Grace)
	var unsettled []stock.Settlement
	var orphans []seckill.Reservation
	for after := ""; ; {
		page, err := c.o.Stock.Queued(ctx, c.run, after, TicketsMax)
		if err != nil {
			return fmt.Errorf("list queued reservations: %w", err)
		}
		old := page
		// Oldest first: the first that is young ends it.
		if i := slices.IndexFunc(page, func(r seckill.Reservation) bool { return r.ReservedAt.After(before) }); i >= 0 {
			old = page[:i]
		}
		known, err := c.known(ctx, old)
		if err != nil {
			return err
		}
		for _, r := range old {
			switch o, isOrder := known.orders[r.Ticket]; {
			case isOrder:
				unsettled = append(unsettled, stock.Settlement{Run: c.run, Ticket: r.Ticket, Buyer: r.Buyer, Order: &o})
			case !known.dead[r.Ticket] && (waiting == 0 || !oldest.IsZero() && r.ReservedAt.Before(oldest.Add(-time.Second))):
				orphans = append(orphans, r)
			}
		}
		if len(old) < TicketsMax || len(unsettled)+len(orphans) >= quietMax {
			break
		}
		after = page[len(page)-1].Ticket
	}
	if err := c.settle(ctx, unsettled); err != nil {
		return err
	}
	return c.rewrite(ctx, orphans)
}

func (c *comparison) settle(ctx context.Context, unsettled []stock.Settlement) error {
	if len(unsettled) == 0 {
		return nil
	}
	var units int64
	for _, s := range unsettled {
		units += int64(s.Order.Quantity)
	}
	if c.repair {
		// The order is committed, and telling of it twice is harmless.
		for part := range slices.Chunk(unsettled, TicketsMax) {
			if _, err := c.o.Stock.Settle(ctx, part); err != nil {
				return fmt.Errorf("settle: %w", err)
			}
		}
	}
	c.find("unsettled", units, c.repair, "%d reservations are orders in the database and queued in the stock for more than %v, such as %s",
		len(unsettled), c.o.Grace, unsettled[0].Ticket)
	return nil
}

func (c *comparison) rewrite(ctx context.Context, orphans []seckill.Reservation) error {
	if len(orphans) == 0 {
		return nil
	}
	var units int64
	for _, r := range orphans {
		units += int64(r.Quantity)
	}
	repaired := c.repair && c.o.Rewrite != nil
	if repaired {
		for part := range slices.Chunk(orphans, TicketsMax) {
			if err := c.o.Rewrite(ctx, c.run, part); err != nil {
				return fmt.Errorf("rewrite reservations: %w", err)
			}
		}
	}
	c.find("orphan_reservation", units, repaired, "%d reservations are queued in the stock for more than %v, and in no queue, such as %s",
		len(orphans), c.o.Grace, orphans[0].Ticket)
	return nil
}

// known is what the database says of tickets.
type known struct {
	orders map[string]seckill.Order
	dead   map[string]bool
}

func (c *comparison) known(ctx context.Context, rs []seckill.Reservation) (k known, err error) {
	if len(rs) == 0 {
		return k, nil
	}
	tickets := make([]string, len(rs))
	for i, r := range rs {
		tickets[i] = r.Ticket
	}
	if k.orders, err = c.o.Store.OrdersByTicket(ctx, tickets); err != nil {
		return k, fmt.Errorf("look up orders: %w", err)
	}
	if k.dead, err = c.o.Store.DeadTickets(ctx, tickets); err != nil {
		return k, fmt.Errorf("look up dead letters: %w", err)
	}
	return k, nil
}

// queued is what the stock's queued reservations mean for the database's count.
type queued struct {
	orderless int64 // Units that no live order holds yet.
	live      int64 // Units of live orders that the stock was not told of.
	dead      int64 // Units under dead letters.
	all       bool  // There were few enough to look at each.
}

func (c *comparison) queued(ctx context.Context) (q queued, err error) {
	seen := 0
	for after := ""; ; {
		page, err := c.o.Stock.Queued(ctx, c.run, after, TicketsMax)
		if err != nil {
			return q, fmt.Errorf("list queued reservations: %w", err)
		}
		if seen += len(page); seen > quietMax {
			return q, nil
		}
		known, err := c.known(ctx, page)
		if err != nil {
			return q, err
		}
		for _, r := range page {
			units := int64(r.Quantity)
			if o := known.orders[r.Ticket]; o.State.Live() {
				q.live += units
			} else {
				q.orderless += units
			}
			if known.dead[r.Ticket] {
				q.dead += units
			}
		}
		if len(page) < TicketsMax {
			q.all = true
			return q, nil
		}
		after = page[len(page)-1].Ticket
	}
}

// units compares what the stock has to sell with what the database would sell. It needs
// two readings, around a look at each queued reservation, between which nothing moved.
func (c *comparison) units(ctx context.Context) error {
	var first, second reading
	for try := 0; ; try++ {
		var q queued
		var err error
		if first, err = c.read(ctx, c.run); err != nil {
			return err
		}
		if q, err = c.queued(ctx); err != nil {
			return err
		}
		if !wait(ctx, c.o.Pause) {
			return ctx.Err()
		}
		if second, err = c.read(ctx, c.run); err != nil {
			return err
		}
		quiet := first.loaded && q.all && first.same(&second)
		if quiet && len(first.Todos)+len(first.Restocks) == 0 {
			return c.drift(ctx, &first, q)
		}
		if try == tries-1 {
			break
		}
	}
	c.inMotion(&first, &second)
	return nil
}

// inMotion says what can be said of a run that does not keep still.
func (c *comparison) inMotion(first, second *reading) {
	both := func(a, b []int64) (n int64) {
		for _, id := range a {
			if slices.Contains(b, id) {
				n++
			}
		}
		return n
	}
	if n := both(first.Todos, second.Todos); n > 0 {
		c.find("unfinished_todo", 0, false, "%d changes of orders have not reached the stock yet", n)
	}
	if n := both(first.Restocks, second.Restocks); n > 0 {
		c.find("unfinished_restock", 0, false, "%d restocks have not reached the stock yet", n)
	}
	// A level is one moment's, and whatever moves inside of the stock leaves its sum as it is.
	off := sum(&second.level) - second.Total
	if second.loaded && off != 0 && first.Total == second.Total && len(second.Todos)+len(second.Restocks) == 0 && second.Dead == 0 {
		c.find("in_motion", off, false, "the stock knows of %d units, the run has %d; units moved during each look, so nothing was repaired",
			sum(&second.level), second.Total)
	}
}

func sum(l *stock.Level) int64 { return l.Available + l.Queued + l.AwaitingPayment + l.Paid }

// drift judges a quiet run.
func (c *comparison) drift(ctx context.Context, g *reading, q queued) error {
	// Units under dead letters that the stock has forgotten are not for sale either.
	forgotten := max(0, g.Dead-q.dead)
	expected := g.Total - g.live() - q.orderless - forgotten
	drift := g.level.Available - expected
	if drift != 0 {
		kind := "stock_drift"
		if drift < 0 && sum(&g.level)+forgotten < g.Total {
			kind = "lost_unit"
		}
		var did int64
		if c.repair {
			var err error
			if did, err = c.o.Stock.Restock(ctx, c.run, repairID(c.run, &g.level, drift), -drift); err != nil {
				return fmt.Errorf("restock the stock: %w", err)
			}
		}
		c.find(kind, max(drift, -drift), did == -drift && did != 0,
			"the stock has %d units to sell, the database %d", g.level.Available, expected)
	}
	switch orders := g.level.AwaitingPayment + g.level.Paid; {
	case orders > g.live()-q.live:
		c.find("missing_order", orders-(g.live()-q.live), false, "the stock believes in orders for %d units that the database does not have, or has ended",
			orders-(g.live()-q.live))
	case orders < g.live()-q.live:
		c.find("unknown_order", g.live()-q.live-orders, false, "the stock does not know of orders for %d units",
			g.live()-q.live-orders)
	}
	return nil
}

// repairID makes the id of a restock that repairs a drift: the same for everybody who sees
// the same, so that two repairs at once are one, and another after each repair, since that
// moves the level. Ids of operators' restocks are positive.
func repairID(run seckill.RunID, level *stock.Level, drift int64) int64 {
	seen, err := json.Marshal([]any{run, level, drift})
	if err != nil {
		panic(err) // Numbers always encode.
	}
	h := fnv.New64a()
	_, _ = h.Write(seen) // A hash takes everything.
	return -int64(h.Sum64()>>1) - 1
}
