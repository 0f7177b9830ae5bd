package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill"
)

const (
	// checkQueuedMax is quietMax for a check: a process that starts may find a long queue.
	checkQueuedMax = 400 * TicketsMax
	checkTries     = 3
	checkPause     = 20 * time.Millisecond
	ordersPage     = 1000
)

// Check tells what is wrong with the stock's state of a run, "" for nothing: that it is
// an older one, or that the database is. It repairs nothing. Unless it is sure, units
// moved during each look, and what is wrong may show later. Of doubted tickets, the stock is
// asked one by one.
//
// It is for who has the run held, or rebuilt: what is wrong is told of one moment in
// which nothing moved, or of an order that the stock does not know, which no motion explains.
func (r *Reconciler) Check(ctx context.Context, run seckill.RunID, doubted []string) (wrong string, sure bool, err error) {
	c := comparison{Reconciler: r, run: run}
	if wrong, err = c.doubted(ctx, doubted); err != nil || wrong != "" {
		return wrong, wrong != "", err
	}
	for range checkTries {
		l, err := c.look(ctx, checkQueuedMax, checkPause)
		if err != nil {
			return "", false, err
		}
		if l.quiet {
			if wrong = gapOf(&l.first, l.queued).String(); wrong != "" {
				return wrong, true, nil
			}
			sure = true
			break
		}
	}
	wrong, err = c.each(ctx)
	return wrong, sure || wrong != "", err
}

func (g gap) String() string {
	switch {
	case g.orders > 0:
		return fmt.Sprintf("the stock has orders for %d units that the database does not have", g.orders)
	case g.orders < 0:
		return fmt.Sprintf("the database has orders for %d units that the stock does not have", -g.orders)
	case g.paid != 0:
		return fmt.Sprintf("the stock has %d paid units more than the database", g.paid)
	case g.drift != 0 && !g.oversold: // More orders than units are for people to mend.
		return fmt.Sprintf("the stock has %d units more to sell than the database", g.drift)
	}
	return ""
}

// doubted looks at tickets that the stock did not know when it was told of them.
func (c *comparison) doubted(ctx context.Context, tickets []string) (wrong string, err error) {
	if len(tickets) == 0 {
		return "", nil
	}
	found, err := c.o.Store.OrdersByTicket(ctx, tickets[:min(len(tickets), TicketsMax)])
	if err != nil {
		return "", fmt.Errorf("look up orders: %w", err)
	}
	for _, o := range found {
		if wrong, err = c.unknown(ctx, &o); err != nil || wrong != "" {
			return wrong, err
		}
	}
	return "", nil
}

// each looks at every order that holds units.
func (c *comparison) each(ctx context.Context) (wrong string, err error) {
	if c.o.LiveOrders == nil {
		return "", nil
	}
	for after := ""; ; {
		page, err := c.o.LiveOrders(ctx, c.run, after, ordersPage)
		if err != nil {
			return "", fmt.Errorf("read live orders: %w", err)
		}
		for i := range page {
			if wrong, err = c.unknown(ctx, &page[i]); err != nil || wrong != "" {
				return wrong, err
			}
		}
		if len(page) < ordersPage {
			return "", nil
		}
		after = page[len(page)-1].ID
	}
}

// unknown tells whether an order holds units, and the stock has never heard of it. An order
// comes into the stock before it comes into the database, and leaves it only when it has
// ended; so it is asked for again whether it has.
func (c *comparison) unknown(ctx context.Context, o *seckill.Order) (wrong string, err error) {
	if o.Run != c.run || !o.State.Live() {
		return "", nil
	}
	_, err = c.o.Stock.Outcome(ctx, o.Buyer, o.Ticket)
	if err == nil || !errors.Is(err, seckill.ErrNotFound) {
		return "", err
	}
	now, err := c.o.Store.OrdersByTicket(ctx, []string{o.Ticket})
	if err != nil {
		return "", fmt.Errorf("look up an order: %w", err)
	}
	if !now[o.Ticket].State.Live() {
		return "", nil
	}
	return "the stock does not know order " + o.ID, nil
}
