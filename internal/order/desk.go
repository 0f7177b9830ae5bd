package order

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill"
	"seckill/stock"
)

// Desk is where buyers and operators ask for orders and dead letters. What changes
// something tells the stock in the same call, right after the commit; should the
// stock not answer in time, the call still succeeds, and the Settler tells it.
type Desk struct {
	Store Store   // Required.
	Stock settler // Required.

	// TellTimeout is how long the stock may take to hear of a change before the caller
	// is answered; 1 s by default.
	TellTimeout time.Duration
	Log         *slog.Logger // Discards by default.
	Unknown     Unknown      // Nobody by default.
	// Hold leaves it to the Settler, and its ReturnWindow, to bring the units of cancelled orders back.
	Hold bool
}

// Order of a buyer; NotFound (a *seckill.Refusal) if it is not there, or another's.
func (d *Desk) Order(ctx context.Context, buyer, id string) (seckill.Order, error) {
	o, err := d.Store.Order(ctx, id, buyer)
	return o, found(err)
}

// Orders of a buyer, newest first, ids below before ("" from the newest).
func (d *Desk) Orders(ctx context.Context, buyer, before string, limit int) ([]seckill.Order, error) {
	return d.Store.Orders(ctx, buyer, before, limit)
}

// Cancel gives the units of a buyer's order back. A cancelled order is cancelled
// already; Conflict if it was paid or has expired.
func (d *Desk) Cancel(ctx context.Context, buyer, id string) (seckill.Order, error) {
	return d.move(ctx, id, buyer, seckill.Cancelled, "", nil)
}

// Pay is a buyer's simulated payment; see Paid.
func (d *Desk) Pay(ctx context.Context, buyer, id, paymentRef string) (seckill.Order, error) {
	return d.move(ctx, id, buyer, seckill.Paid, paymentRef, nil)
}

// Paid notes that an order was paid. A paid order is paid already; Conflict if it was paid
// under another reference, was cancelled, has expired, or its time to pay is over.
func (d *Desk) Paid(ctx context.Context, id, paymentRef string, by seckill.Actor) (seckill.Order, error) {
	return d.move(ctx, id, "", seckill.Paid, paymentRef, &by)
}

func (d *Desk) move(ctx context.Context, id, buyer string, to seckill.OrderState, paymentRef string, by *seckill.Actor) (seckill.Order, error) {
	o, todo, moved, err := d.Store.MoveOrder(ctx, id, buyer, to, paymentRef, by)
	if err != nil {
		return seckill.Order{}, found(err)
	}
	if moved {
		if to.Live() || !d.Hold {
			d.tell(ctx, todo)
		}
		return o, nil
	}
	switch {
	case o.State == seckill.Paid && to == seckill.Paid && o.PaymentRef != paymentRef:
		// Somebody paid twice; whoever reports it has to know.
		return seckill.Order{}, &seckill.Refusal{Reason: seckill.Conflict, Detail: "The order is paid already, under another reference."}
	case o.State == to:
		return o, nil
	}
	detail := "The order is " + o.State.String() + "."
	switch o.State {
	case seckill.AwaitingPayment:
		detail = "The time to pay is over."
	case seckill.Paid:
		detail = "The order is paid."
	case seckill.Cancelled:
		detail = "The order was cancelled."
	case seckill.Expired:
		detail = "The order has expired."
	}
	return seckill.Order{}, &seckill.Refusal{Reason: seckill.Conflict, Detail: detail}
}

// tell goes on when the caller has hung up: the change is made.
func (d *Desk) tell(ctx context.Context, todo Todo) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), orDefault(d.TellTimeout, time.Second))
	defer cancel()
	if err := tell(ctx, d.Stock, d.Store, d.Unknown, []Todo{todo}); err != nil {
		logger(d.Log).Warn("a change will be settled later", "ticket", todo.Ticket, "error", err)
	}
}

// found turns the store's word into a refusal.
func found(err error) error {
	if errors.Is(err, seckill.ErrNotFound) {
		return seckill.Refuse(seckill.NotFound)
	}
	return err
}

// Rewrite takes reservations through database and stock that no queue carries any
// more. What the database knows already is answered with what it knows.
func (d *Desk) Rewrite(ctx context.Context, run seckill.RunID, rs []seckill.Reservation) error {
	written, err := d.Store.WriteOrders(ctx, run, rs)
	if err != nil {
		return fmt.Errorf("write %d orders: %w", len(rs), err)
	}
	settlements := make([]stock.Settlement, 0, len(written))
	for i, w := range written {
		if !w.Dead { // An operator decides on those, and has the stock told.
			settlements = append(settlements, settlementOf(w, stock.Settlement{Run: run, Ticket: rs[i].Ticket, Buyer: rs[i].Buyer}))
		}
	}
	unknown, err := d.Stock.Settle(ctx, settlements)
	if err != nil {
		return fmt.Errorf("settle %d reservations: %w", len(settlements), err)
	}
	d.Unknown.hear(unknown)
	return nil
}
