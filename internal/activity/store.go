package activity

import (
	"context"
	"time"

	"seckill"
)

// Store is what activities need of the database. internal/sqlstore implements it. A
// method that changes something also writes the audit log and raises the
// version, in one transaction.
type Store interface {
	// Version of the control state; it rises with each change of it.
	Version(ctx context.Context) (int64, error)
	// Activities returns all of them, by id, and the version that they are of.
	Activities(ctx context.Context) ([]seckill.Activity, int64, error)

	// CreateActivity stores an activity with its first run, and returns it with its id.
	CreateActivity(ctx context.Context, a seckill.Activity, by seckill.Actor) (seckill.Activity, error)
	// ChangeActivity reads one under a lock, lets change alter it, and stores it. An error
	// of change is returned as it is, and nothing is stored. Total and Run are not stored.
	ChangeActivity(ctx context.Context, id int64, action string, by seckill.Actor, change func(*seckill.Activity) error) (seckill.Activity, error)
	// NewRun stores the next run of an activity: a.StartsAt, EndsAt and Total as given,
	// phase scheduled, not paused. Conflict (a *seckill.Refusal) unless after is the present run.
	NewRun(ctx context.Context, id int64, after int, startsAt, endsAt time.Time, units int64, by seckill.Actor) (seckill.Activity, error)

	// BeginRestock notes a wish for units more (or fewer) in the present run. More units are
	// in the run's row when it returns. If the run is in the stock, the stock is to be told by the
	// Restock that is returned, and FinishRestock called with what it did; if not, the
	// row alone changes and the Restock is done (at most the row's available units go).
	BeginRestock(ctx context.Context, id int64, units int64, by seckill.Actor) (Restock, error)
	// FinishRestock forgets the wish; what the stock took away leaves the run's row.
	FinishRestock(ctx context.Context, r Restock, did int64) error
	// Restocks returns the wishes that are not finished.
	Restocks(ctx context.Context) ([]Restock, error)

	// LiveOrders returns orders that hold units of a run, in the order in which they were made, from behind the order after ("" from the start).
	LiveOrders(ctx context.Context, run seckill.RunID, after string, max int) ([]seckill.Order, error)
	// Units of a run as the database counts them.
	Units(ctx context.Context, run seckill.RunID) (Units, error)
	// OldRuns returns the runs that ended before a moment and have neither an order awaiting
	// payment, nor a to-do, nor a dead letter that waits; at most max, and only such as
	// MarkDropped was not called for.
	OldRuns(ctx context.Context, before time.Time, max int) ([]seckill.RunID, error)
	MarkDropped(ctx context.Context, run seckill.RunID) error
}

// Units of a run in the database. Total = Available + AwaitingPayment + Paid, always.
type Units struct {
	Total           int64
	Available       int64 // Not under a live order; reservations on their way are in here.
	AwaitingPayment int64
	Paid            int64
	Dead            int64 // Under dead letters that wait; in Available as well.
}

// Restock is a wish for more or fewer units that may not have reached the stock.
type Restock struct {
	ID    int64
	Run   seckill.RunID
	Units int64 // Wished for.
	Done  bool  // The run is not in the stock: nothing is left to do.
	Did   int64 // When Done.
}
