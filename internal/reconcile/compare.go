package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
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
	anew     bool // The run may be rebuilt.
	rebuild  bool // It has to be: nothing else will repair what was found.
}

// note writes the audit log about a repair, before it is made: one that nobody can look up
// is none.
func (c *comparison) note(ctx context.Context, action string, what map[string]any) error {
	what["run"] = c.run.Run
	detail, err := json.Marshal(what)
	if err != nil {
		panic(err) // Numbers and strings always encode.
	}
	object := "activity/" + strconv.FormatInt(c.run.Activity, 10)
	if err := c.o.Store.Note(ctx, c.by, action, object, string(detail)); err != nil {
		return fmt.Errorf("note the repair: %w", err)
	}
	return nil
}

func (c *comparison) find(kind string, units int64, repaired bool, format string, args ...any) {
	c.findings = append(c.findings, seckill.Finding{Kind: kind, Units: units, Repaired: repaired, Detail: fmt.Sprintf(format, args...)})
	if repaired {
		c.say(&c.findings[len(c.findings)-1])
	}
}

func (c *comparison) say(f *seckill.Finding) {
	c.o.Log.Info("reconcile: repaired", "activity", c.run.Activity, "run", c.run.Run, "kind", f.Kind, "units", f.Units,
		"who", c.by.Who, "from", c.by.From, "reason", c.by.Reason)
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
		if by, err = c.o.Store.RepairAvailable(ctx, c.run, c.by); err != nil {
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
		if err := c.note(ctx, "reconcile.settle", map[string]any{"reservations": len(unsettled), "units": units}); err != nil {
			return err
		}
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
		if err := c.note(ctx, "reconcile.rewrite", map[string]any{"reservations": len(orphans), "units": units}); err != nil {
			return err
		}
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
	paid      int64 // Those of them that are paid.
	dead      int64 // Units under dead letters.
	all       bool  // There were few enough to look at each.
}

// queued looks at each queued reservation, unless there are more than most.
func (c *comparison) queued(ctx context.Context, most int) (q queued, err error) {
	seen := 0
	for after := ""; ; {
		page, err := c.o.Stock.Queued(ctx, c.run, after, TicketsMax)
		if err != nil {
			return q, fmt.Errorf("list queued reservations: %w", err)
		}
		if seen += len(page); seen > most {
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
				if o.State == seckill.Paid {
					q.paid += units
				}
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
	var l look
	for range tries {
		var err error
		if l, err = c.look(ctx, quietMax, c.o.Pause); err != nil {
			return err
		}
		if l.quiet {
			return c.drift(ctx, &l.first, l.queued)
		}
	}
	c.inMotion(&l.first, &l.second)
	return nil
}

// look is two readings around a look at each queued reservation.
type look struct {
	first, second reading
	queued        queued
	quiet         bool // Nothing moved, and nothing is to be moved.
}

func (c *comparison) look(ctx context.Context, queuedMax int, pause time.Duration) (l look, err error) {
	if l.first, err = c.read(ctx, c.run); err != nil {
		return l, err
	}
	if l.queued, err = c.queued(ctx, queuedMax); err != nil {
		return l, err
	}
	if !wait(ctx, pause) {
		return l, ctx.Err()
	}
	if l.second, err = c.read(ctx, c.run); err != nil {
		return l, err
	}
	l.quiet = l.first.loaded && l.queued.all && l.first.same(&l.second) && len(l.first.Todos)+len(l.first.Restocks) == 0
	return l, nil
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

// gap is what a quiet run has more in the stock than in the database.
type gap struct {
	expected int64 // Units that the database would sell.
	drift    int64 // Units that the stock would sell besides.
	lost     bool  // Units are nowhere in the stock.
	oversold bool  // Live orders hold more units than there are: no stock can be right.
	orders   int64 // Units of orders.
	paid     int64 // Units of paid orders.
}

func gapOf(g *reading, q queued) gap {
	// Units under dead letters that the stock has forgotten are not for sale either.
	forgotten := max(0, g.Dead-q.dead)
	expected := g.Total - g.live() - q.orderless - forgotten
	return gap{
		expected: expected, drift: g.level.Available - expected, lost: sum(&g.level)+forgotten < g.Total,
		oversold: g.live() > g.Total,
		orders:   g.level.AwaitingPayment + g.level.Paid - (g.live() - q.live), paid: g.level.Paid - (g.Paid - q.paid),
	}
}

// drift judges a quiet run. Where the stock has other orders than the database, more or fewer
// units for sale would only hide it: such a run has to be rebuilt.
func (c *comparison) drift(ctx context.Context, g *reading, q queued) error {
	gap := gapOf(g, q)
	others := gap.orders != 0 || gap.paid != 0
	if gap.drift != 0 {
		kind := "stock_drift"
		if gap.drift < 0 && gap.lost {
			kind = "lost_unit"
		}
		var did int64
		if c.repair && !(others && c.anew) {
			var err error
			if did, err = c.restock(ctx, g, gap.drift); err != nil {
				return err
			}
			// More orders than units are for people to mend.
			c.rebuild = c.anew && did != -gap.drift && !gap.oversold
		}
		c.find(kind, max(gap.drift, -gap.drift), did == -gap.drift && did != 0,
			"the stock has %d units to sell, the database %d", g.level.Available, gap.expected)
	}
	switch {
	case gap.orders > 0:
		c.find("missing_order", gap.orders, false, "the stock believes in orders for %d units that the database does not have, or has ended", gap.orders)
	case gap.orders < 0:
		c.find("unknown_order", -gap.orders, false, "the stock does not know of orders for %d units", -gap.orders)
	case gap.paid != 0:
		c.find("stale_order", max(gap.paid, -gap.paid), false, "the stock has orders for %d paid units, the database has %d", g.level.Paid, g.Paid-q.paid)
	}
	c.rebuild = c.rebuild || c.anew && others
	return nil
}

func (c *comparison) restock(ctx context.Context, g *reading, drift int64) (did int64, err error) {
	if err := c.note(ctx, "reconcile.restock", map[string]any{"quantity": -drift, "available": g.level.Available}); err != nil {
		return 0, err
	}
	if did, err = c.o.Stock.Restock(ctx, c.run, repairID(c.run, &g.level, drift), -drift); err != nil {
		return 0, fmt.Errorf("restock the stock: %w", err)
	}
	return did, nil
}

// startAnew has the run rebuilt, and looks whether that has repaired what was found.
func (c *comparison) startAnew(ctx context.Context) error {
	if err := c.o.Rebuild(ctx, c.run, c.by); err != nil {
		return fmt.Errorf("rebuild the run: %w", err)
	}
	after := comparison{Reconciler: c.Reconciler, run: c.run, by: c.by}
	if err := after.units(ctx); err != nil {
		return err
	}
	books, err := c.Books(ctx, c.run)
	if err != nil {
		return err
	}
	if !books.Balanced || len(after.findings) > 0 {
		return nil
	}
	for i := range c.findings {
		if f := &c.findings[i]; !f.Repaired && rebuilds[f.Kind] {
			f.Repaired = true
			c.say(f)
		}
	}
	return nil
}

// rebuilds are the kinds of findings that a rebuild repairs.
var rebuilds = map[string]bool{
	"stock_drift": true, "lost_unit": true, "missing_order": true, "unknown_order": true, "stale_order": true,
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
