package order

import (
	"context"
	"errors"

	"seckill"
	"seckill/stock"
)

// Store is what this stage needs of the database. internal/sqlstore implements it
// for SQLite and MySQL. Every method is one transaction, and may be called
// again after an error: what an unknown commit left behind is found, not doubled.
type Store interface {
	// WriteOrders makes orders of reservations of one run and answers each, in order.
	// Tickets that have an order already are answered with it as it is now. A
	// reservation whose buyer already has a live order under its slot is refused as
	// AlreadyPurchased; one that the run's available units cannot cover, as SoldOut. The
	// others go through: one multi-row insert, one conditional update of the stock row.
	WriteOrders(ctx context.Context, run seckill.RunID, rs []seckill.Reservation) ([]Written, error)

	// Bury keeps dead letters. A ticket that has a dead letter already keeps that one.
	Bury(ctx context.Context, letters ...seckill.DeadLetter) error

	// MoveOrder moves an order out of awaiting payment, if it is still there; who
	// changes the row wins. Paid is refused once pay_before has passed by the database's
	// clock. Either way the order is returned as it then is, moved tells whether this
	// call moved it; if it did, the same transaction gave the units of a cancelled
	// order back to the run's row and wrote the to-do for the stock. buyer "" is anybody;
	// an order that is not there, or not the buyer's, is seckill.ErrNotFound.
	MoveOrder(ctx context.Context, id, buyer string, to seckill.OrderState, paymentRef string, by *seckill.Actor) (o seckill.Order, todo Todo, moved bool, err error)

	// ExpireOrders expires at most max orders whose pay_before has passed by the
	// database's clock, like MoveOrder, and returns their to-dos.
	ExpireOrders(ctx context.Context, max int) ([]Todo, error)

	// Todos returns what the stock has not been told yet, oldest first, ids above after.
	Todos(ctx context.Context, after int64, max int) ([]Todo, error)
	// TodosDone forgets to-dos that the stock has said yes to.
	TodosDone(ctx context.Context, ids ...int64) error

	// Order by id, and a buyer's orders, newest first, ids below before ("" from the newest).
	Order(ctx context.Context, id, buyer string) (seckill.Order, error)
	Orders(ctx context.Context, buyer, before string, max int) ([]seckill.Order, error)

	// DeadLetters lists what waits for an operator, newest first, ids below before (0 from the newest).
	DeadLetters(ctx context.Context, before int64, max int) ([]seckill.DeadLetter, error)
	// RetryDead marks a dead letter as being retried; from then on WriteOrders takes
	// its ticket. Conflict (a *seckill.Refusal) if it was retried or dropped for good already.
	RetryDead(ctx context.Context, id int64, by seckill.Actor) (seckill.DeadLetter, error)
	// Retrying lists dead letters whose retry has not ended.
	Retrying(ctx context.Context, max int) ([]seckill.DeadLetter, error)
	// RetriedDead ends a retry: the letter is settled, or is back among those that wait
	// with a new reason.
	RetriedDead(ctx context.Context, id int64, settled bool, reason string) error
	// DropDead writes a dead letter off. With returnStock the to-do gives the units back to
	// the stock, else they leave the run's total in the same transaction. The to-do has
	// ID 0 if the letter names no reservation.
	DropDead(ctx context.Context, id int64, returnStock bool, by seckill.Actor) (Todo, error)
}

// Written is the database's answer to one reservation: an order, or a refusal.
type Written struct {
	Order   *seckill.Order
	New     bool           // The order was inserted by this call.
	Refused seckill.Reason // AlreadyPurchased or SoldOut, when Order is nil.
	Dead    bool           // The ticket lies among the dead letters; nothing was done.
}

// Todo is something that the stock has to be told, kept in the database until it
// has said yes.
type Todo struct {
	ID int64
	stock.Settlement
}

// ErrUnavailable marks errors of a database that cannot be reached, is read-only, full,
// or gave up a transaction for a lock: the same call will go through later. Any
// other error of WriteOrders may be the fault of one reservation in the batch.
var ErrUnavailable = errors.New("the database is not available")
