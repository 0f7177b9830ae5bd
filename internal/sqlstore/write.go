package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"seckill"
	"seckill/internal/order"
)

// WriteOrders implements [order.Store]. The usual way is five statements, however many
// reservations there are: begin, the run, insert, the conditional update of the
// run's row, commit. That row, which all writers of a run want, is held from the
// update to the commit only.
//
// Whatever is not usual begins anew, the careful way: a ticket that has an order
// already or a buyer's slot that is taken (a unique key says so), more units than
// there are, a ticket that was refused or buried meanwhile.
//
// Refusals are decided under the lock of the run's row, and they and dead letters
// raise its marks. The conditional update asks for the marks that were read before, so
// a ticket cannot be refused, or buried, and become an order at the same time.
func (db *DB) WriteOrders(ctx context.Context, run seckill.RunID, rs []seckill.Reservation) ([]order.Written, error) {
	if len(rs) == 0 {
		return nil, nil
	}
	b := batch{run: run, rs: rs, sorted: make([]int, len(rs))}
	for i := range rs {
		b.sorted[i] = i
	}
	// All writers lock rows in one order.
	slices.SortFunc(b.sorted, func(i, j int) int {
		if order := strings.Compare(rs[i].Ticket, rs[j].Ticket); order != 0 {
			return order
		}
		return i - j
	})
	inserts, err := db.orderInserts(ctx)
	if err != nil {
		return nil, db.fail("prepare the writing of orders", err)
	}
	b.inserts = inserts
	err = db.inTx(ctx, func(t tx) error {
		err := b.write(ctx, t)
		if f := t.db.dialect.fault(err); f == faultDuplicate || f == faultDuplicateID {
			b.careful = true
		}
		return err
	})
	if err != nil {
		return nil, db.fail(fmt.Sprintf("write %d orders of run %d of activity %d", len(rs), run.Run, run.Activity), err)
	}
	return b.out, nil
}

// batch is one call of WriteOrders.
type batch struct {
	run    seckill.RunID
	rs     []seckill.Reservation
	sorted []int // Indices of rs by ticket.
	out    []order.Written

	inserts []preparedInsert // Largest first.

	// careful is the way of a batch that holds something known or something to refuse: the
	// run's row is locked first, then tickets and the buyers' live orders are looked up.
	careful bool
}

// head is what a batch needs to know of its run.
type head struct {
	price, available, marks int64
	hooks                   int64 // Version of the webhooks.
	window                  time.Duration
	now                     time.Time
}

func (b *batch) write(ctx context.Context, t tx) error {
	b.out = make([]order.Written, len(b.rs))
	h, err := b.readHead(ctx, t)
	if err != nil {
		return err
	}
	if err := b.answerKnown(ctx, t, h); err != nil {
		return err
	}
	var taken map[slotKey]bool
	if b.careful {
		if taken, err = b.liveSlots(ctx, t); err != nil {
			return err
		}
	}
	chosen, refused, err := b.choose(h, taken)
	if err != nil {
		return err
	}
	if len(refused) > 0 && !b.careful {
		b.careful = true
		return errAgain
	}
	if err := b.insert(ctx, t, h, chosen); err != nil {
		return err
	}
	// Before the run's row is locked: others wait for that.
	if err := b.outbox(ctx, t, h, chosen, refused); err != nil {
		return err
	}
	if err := b.takeUnits(ctx, t, h, len(refused) > 0); err != nil {
		return err
	}
	return b.keepRefusals(ctx, t, refused)
}

func (b *batch) readHead(ctx context.Context, t tx) (h head, err error) {
	if b.careful {
		_, err := lockRun(ctx, t, b.run)
		if errors.Is(err, sql.ErrNoRows) {
			return h, b.unknownRun()
		}
		if err != nil {
			return h, err
		}
	}
	var window int64
	var now stamp
	err = t.row(ctx, `SELECT a.price_cents, a.payment_window_ms, s.available_stock, s.marks, {now}, `+hooksVersion+`
		FROM seckill_stock s JOIN seckill_activity a ON a.id = s.activity_id WHERE s.activity_id = ? AND s.run = ?`,
		[]any{b.run.Activity, b.run.Run}, &h.price, &window, &h.available, &h.marks, &now, &h.hooks)
	if errors.Is(err, sql.ErrNoRows) {
		return h, b.unknownRun()
	}
	h.window, h.now = time.Duration(window)*time.Millisecond, now.Time
	return h, err
}

func (b *batch) unknownRun() error {
	return impossible{fmt.Sprintf("the database does not know run %d of activity %d", b.run.Run, b.run.Activity)}
}

// answerKnown answers tickets that were written, refused or buried before.
func (b *batch) answerKnown(ctx context.Context, t tx, h head) error {
	if !b.careful && h.marks == 0 {
		return nil // Nothing is known of any.
	}
	tickets := make([]string, 0, len(b.rs))
	for _, i := range b.sorted {
		tickets = append(tickets, b.rs[i].Ticket)
	}
	tickets = slices.Compact(tickets)
	var orders map[string]seckill.Order
	var err error
	if b.careful {
		if orders, err = ordersByTicket(ctx, t, tickets); err != nil {
			return err
		}
	}
	var refused map[string]seckill.Reason
	var dead map[string]bool
	if h.marks > 0 {
		if refused, err = refusedTickets(ctx, t, tickets); err != nil {
			return err
		}
		if dead, err = deadTickets(ctx, t, tickets, stateWaiting, stateDropped); err != nil {
			return err
		}
	}
	for i, r := range b.rs {
		if o, ok := orders[r.Ticket]; ok {
			b.out[i].Order = &o
		} else if reason, ok := refused[r.Ticket]; ok {
			b.out[i].Refused = reason
		} else if dead[r.Ticket] {
			b.out[i].Dead = true
		}
	}
	return nil
}

func (b *batch) answered(i int) bool {
	w := &b.out[i]
	return w.Order != nil || w.Refused != seckill.NoReason || w.Dead
}

// slotKey is what no two live orders of a run have in common.
type slotKey struct {
	buyer string
	slot  int
}

func (b *batch) liveSlots(ctx context.Context, t tx) (map[slotKey]bool, error) {
	taken := map[slotKey]bool{}
	for chunk := range slices.Chunk(b.sorted, t.db.dialect.rowsMax) {
		args := []any{b.run.Activity, b.run.Run}
		for _, i := range chunk {
			args = append(args, buyerID(b.rs[i].Buyer))
		}
		err := t.rows(ctx, func(scan func(...any) error) error {
			var buyer buyerID
			var k slotKey
			err := scan(&buyer, &k.slot)
			k.buyer = string(buyer)
			taken[k] = true
			return err
		}, `SELECT user_id, slot FROM seckill_order
			WHERE activity_id = ? AND run = ? AND slot IS NOT NULL AND user_id IN (`+marks(len(chunk))+`)`, args...)
		if err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// choose makes orders, in the order of the reservations, of those that fit. It returns
// the indices of those and of the refused. A ticket that stands in the batch twice is
// answered twice with the same.
func (b *batch) choose(h head, taken map[slotKey]bool) (chosen, refused []int, err error) {
	first := make(map[string]int, len(b.rs))
	orders := make([]seckill.Order, 0, len(b.rs)) // One piece of memory for all.
	if taken == nil {
		taken = make(map[slotKey]bool, len(b.rs))
	}
	left, payBefore := h.available, stored(h.now.Add(h.window))
	for i, r := range b.rs {
		if b.answered(i) {
			continue
		}
		if j, ok := first[r.Ticket]; ok {
			b.out[i] = b.out[j]
			b.out[i].New = false
			continue
		}
		first[r.Ticket] = i
		key := slotKey{r.Buyer, r.Slot}
		switch {
		case r.Quantity < 1 || h.price > 0 && int64(r.Quantity) > math.MaxInt64/h.price:
			return nil, nil, impossible{fmt.Sprintf("ticket %s: %d units at %d cents cannot be an order", r.Ticket, r.Quantity, h.price)}
		case taken[key]:
			b.out[i].Refused = seckill.AlreadyPurchased
			refused = append(refused, i)
		case int64(r.Quantity) > left:
			b.out[i].Refused = seckill.SoldOut
			refused = append(refused, i)
		default:
			taken[key] = true
			left -= int64(r.Quantity)
			orders = append(orders, seckill.Order{
				Ticket: r.Ticket, Run: b.run, Buyer: r.Buyer, Quantity: r.Quantity, Slot: r.Slot,
				AmountCents: int64(r.Quantity) * h.price, State: seckill.AwaitingPayment,
				CreatedAt: h.now, PayBefore: payBefore,
			})
			b.out[i] = order.Written{New: true, Order: &orders[len(orders)-1]}
		}
	}
	chosen = make([]int, 0, len(orders))
	for _, i := range b.sorted {
		if b.out[i].New {
			chosen = append(chosen, i)
		}
	}
	return chosen, refused, nil
}

// takeUnits is the judge: it takes the units of all new orders at once, or begins anew.
func (b *batch) takeUnits(ctx context.Context, t tx, h head, raiseMarks bool) error {
	var units, raise int64
	for i := range b.out {
		if b.out[i].New {
			units += int64(b.out[i].Order.Quantity)
		}
	}
	if raiseMarks {
		raise = 1
	}
	if units == 0 && raise == 0 {
		return nil
	}
	n, err := t.exec(ctx, `UPDATE seckill_stock SET available_stock = available_stock - ?, version = version + 1, marks = marks + ?
		WHERE activity_id = ? AND run = ? AND available_stock >= ? AND marks = ?`,
		units, raise, b.run.Activity, b.run.Run, units, h.marks)
	if err != nil {
		return err
	}
	if n == 0 {
		b.careful = true
		return errAgain
	}
	return nil
}

// keepRefusals remembers refusals, so that a message that comes again hears the same.
func (b *batch) keepRefusals(ctx context.Context, t tx, refused []int) error {
	for chunk := range slices.Chunk(refused, t.db.dialect.rowsMax) {
		var args []any
		for _, i := range chunk {
			args = append(args, b.rs[i].Ticket, b.run.Activity, b.run.Run, b.out[i].Refused.String())
		}
		_, err := t.exec(ctx, `INSERT INTO seckill_refused (ticket, activity_id, run, reason, create_time) VALUES `+
			strings.TrimSuffix(strings.Repeat("(?,?,?,?,{now}),", len(chunk)), ","), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

func refusedTickets(ctx context.Context, t tx, tickets []string) (map[string]seckill.Reason, error) {
	refused := map[string]seckill.Reason{}
	err := t.byTicket(ctx, tickets, func(scan func(...any) error) error {
		var ticket, name string
		if err := scan(&ticket, &name); err != nil {
			return err
		}
		reason, ok := seckill.ParseReason(name)
		if !ok {
			return fmt.Errorf("the database has a refusal %q, which this program does not know", name)
		}
		refused[ticket] = reason
		return nil
	}, "SELECT ticket, reason FROM seckill_refused WHERE ticket IN ")
	return refused, err
}

// byTicket runs a query that ends in "ticket IN " with lists of tickets.
func (t tx) byTicket(ctx context.Context, tickets []string, scan func(func(...any) error) error, query string) error {
	for chunk := range slices.Chunk(tickets, t.db.dialect.rowsMax) {
		if err := t.rows(ctx, scan, query+"("+marks(len(chunk))+")", anys(chunk)...); err != nil {
			return err
		}
	}
	return nil
}
