package reconcile

import (
	"context"
	"slices"

	"seckill"
)

// Store is what this stage needs of the database. internal/sqlstore implements it.
type Store interface {
	// OrdersByTicket returns the orders, in whatever state, that tickets have become; those
	// that have none are left out. At most TicketsMax tickets are asked for at once.
	OrdersByTicket(ctx context.Context, tickets []string) (map[string]seckill.Order, error)
	// DeadTickets returns those of the tickets whose dead letter is not settled: it waits
	// for an operator, or is being retried.
	DeadTickets(ctx context.Context, tickets []string) (map[string]bool, error)
	// RepairAvailable sets the available units of a run's row to its total less its live
	// orders, under the row's lock, and returns by how much that changed them. If it did, the
	// same transaction writes the audit log.
	RepairAvailable(ctx context.Context, run seckill.RunID, by seckill.Actor) (int64, error)
	// Note writes the audit log about what is changed elsewhere.
	Note(ctx context.Context, by seckill.Actor, action, object, detail string) error
}

// TicketsMax is how many tickets the database is asked for at once.
const TicketsMax = 500

// Facts of a run in the database.
type Facts struct {
	Total           int64
	Available       int64 // As the run's row says; reservations on their way are in here.
	AwaitingPayment int64
	Paid            int64
	Dead            int64 // Under dead letters that wait or are retried; in Available as well.

	Todos    []int64 // Ids of what the stock has not been told yet of the run, the oldest few.
	Restocks []int64 // Ids of the run's restocks that are not finished.
}

// live is what orders hold.
func (f *Facts) live() int64 { return f.AwaitingPayment + f.Paid }

// free is what a run that is not in the stock has: what no order holds, and no dead
// letter may still become.
func (f *Facts) free() int64 { return f.Available - f.Dead }

func (f *Facts) same(g *Facts) bool {
	return f.Total == g.Total && f.Available == g.Available && f.AwaitingPayment == g.AwaitingPayment &&
		f.Paid == g.Paid && f.Dead == g.Dead && slices.Equal(f.Todos, g.Todos) && slices.Equal(f.Restocks, g.Restocks)
}
