// Package stock is the contract of what decides who gets a unit. A driver decides
// attempts atomically (units, limit per buyer, idempotency key, outcome and outbox
// in one step) and is the only thing that ever changes how many units are left.
//
// It is not the judge of last resort: that is the database, which refuses to
// hold more live orders than there are units, whatever a stock believes.
//
// A reservation in the stock:
//
//	           ┌── Failed ───────────────────────────► units back
//	queued ────┤
//	           └── AwaitingPayment ──┬── Paid
//	                                 └── Cancelled, Expired ─► units back
//
// It only moves to the right, each move happens once, however often and in
// whatever order it is told. Units go back at most once.
//
// Drivers: embedded (this process and a file), redisstock. One suite, stocktest,
// checks all of them.
package stock

import (
	"context"
	"errors"
	"time"

	"seckill"
	"seckill/queue"
)

// Stock decides, and remembers what it decided. All methods may be called
// concurrently. A method that fails has an unknown effect unless it says otherwise,
// and may be called again with the same arguments.
type Stock interface {
	// Load puts a run in place in one step: units, window, limit, and the buyers of
	// Spec.Held; whatever the stock had of that run is replaced. A Spec with the
	// epoch that is in place already, or an older one, changes nothing and is no error.
	Load(ctx context.Context, spec Spec) error

	// Reserve decides attempts of one run in their order, and answers each. The same
	// ticket again is answered with what was decided for it, unless it comes with another
	// idempotency key than the one that it was taken with (Replayed), or with another quantity (KeyMismatch). Once Reserve has
	// returned, a Taken reservation is as durable as the driver promises, and in the
	// outbox. Epoch is what the caller believes in; an attempt under another one is Stale.
	// An error says nothing about any of the attempts.
	Reserve(ctx context.Context, run seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]Decision, error)

	// Settle tells what became of reservations. It returns the tickets that the
	// stock has never heard of (it lost them), which change nothing.
	Settle(ctx context.Context, settlements []Settlement) (unknown []string, err error)

	// Restock adds units to a run, or takes away at most what is available when
	// units is negative, and returns what it did. The same id does it once and returns
	// the same again. ErrNotLoaded if the run is not there.
	Restock(ctx context.Context, run seckill.RunID, id int64, units int64) (int64, error)

	// Control changes what may change while a run is in place.
	// ErrNotLoaded if the run is not there.
	Control(ctx context.Context, run seckill.RunID, c Control) error

	// Outcome of a buyer's ticket; seckill.ErrNotFound if there is none, or it is
	// another buyer's.
	Outcome(ctx context.Context, buyer, ticket string) (seckill.Outcome, error)

	// Level of a run's units; ErrNotLoaded if the run is not there.
	Level(ctx context.Context, run seckill.RunID) (Level, error)

	// Queued lists the reservations of a run that are not settled, oldest first,
	// for reconciliation; at most max, those after the ticket `after` ("" from the start).
	Queued(ctx context.Context, run seckill.RunID, after string, max int) ([]seckill.Reservation, error)

	// Drop forgets a run that is over. Dropping what is not there is no error.
	Drop(ctx context.Context, run seckill.RunID) error

	// Watch calls notify with what happens, until ctx ends (then it returns nil) or
	// the connection fails. It may miss what happens while it does not run, and
	// notify must not block.
	Watch(ctx context.Context, notify func(Event)) error

	// Bind ties the stock to the database of that identity, for ever, unless it is tied to one
	// already, and returns the identity that it is tied to. That is as durable as
	// the driver promises when Bind returns. A stock of another database has reservations
	// that must not become orders there.
	Bind(ctx context.Context, database string) (bound string, err error)

	// Outbox holds each reservation until a consumer has taken care of it. A message
	// is one or more reservations of one run, in the form of queue.EncodeReservations.
	Outbox() queue.Source

	// Close ends the driver; calls under way may fail.
	Close() error
}

// ErrNotLoaded says that the stock knows nothing of the run: it was never
// loaded, was dropped, or was lost.
var ErrNotLoaded = errors.New("the run is not loaded into the stock")

// Spec is a run as it is to be put in place.
type Spec struct {
	Run       seckill.RunID
	Epoch     int64 // From 1; a higher one replaces what is there.
	Units     int64 // Available now.
	Limit     int   // Units per buyer.
	SubStocks int   // From 1; a driver that need not spread the load may ignore it.
	StartsAt  time.Time
	EndsAt    time.Time
	Paused    bool
	Held      []seckill.Order // Live orders that the run has already (a rebuild).
}

// Control is what an operator may change while a run is in place.
type Control struct {
	Paused bool
	EndsAt time.Time // Brought forward when the activity is closed.
}

// Verdict is what the stock says of one attempt.
type Verdict uint8

// The verdicts, in the order in which they are checked.
const (
	NotLoaded   Verdict = iota // The run is not there; says nothing about the units.
	Stale                      // The caller's epoch is not the one in place.
	Known                      // This ticket, or this buyer's idempotency key, was decided before: same ticket.
	KeyMismatch                // The key was used before with another quantity.
	Paused
	NotStarted // By the stock's own clock.
	Ended
	OverLimit // What the buyer holds plus the quantity is over the limit.
	Short     // Fewer units than asked for; nothing was taken.
	Taken
	Replayed // This ticket was taken with another idempotency key.
	Unknown  // Not decided in time, or not known: for this attempt alone, what an error is for all.
)

// Decision is the answer to one attempt.
type Decision struct {
	Verdict Verdict
	Ticket  string // Known, Taken: the buyer's. OverLimit: the latest that the buyer holds, "" if none.
	Ahead   int64  // Known, Taken: reservations in front of this one, roughly.
	Left    int64  // Units available after the decision. Zero with Short means sold out.
}

// Settlement says what became of a reservation: it failed, or there is an order in
// the state that Order says.
type Settlement struct {
	Run    seckill.RunID
	Ticket string
	Buyer  string
	Failed seckill.Reason // If the reservation failed; then Order is nil.
	Order  *seckill.Order
	// WrittenOff is said of a failed reservation whose units an operator took out of
	// the run's total: they do not go back.
	WrittenOff bool
}

// Frees tells whether the buyer no longer holds the units after the settlement.
func (s *Settlement) Frees() bool { return s.Order == nil || !s.Order.State.Live() }

// Level is where the units of a run are, as the stock knows it.
type Level struct {
	Epoch           int64
	Available       int64
	Queued          int64
	AwaitingPayment int64
	Paid            int64
	Returns         uint64 // Rises whenever units become available: by release, restock or load.
}

// Event is something that happened in the stock.
type Event struct {
	Kind   EventKind
	Run    seckill.RunID
	Ticket string // Of EventSettled.
	Buyer  string // Of EventSettled.
	// Released is said of an EventSettled that gave units back, so that what is
	// remembered of the buyer is to be forgotten.
	Released bool
}

// EventKind is the kind of an event.
type EventKind uint8

// The kinds of events.
const (
	EventSettled EventKind = iota // A reservation moved: ask for its outcome.
	EventUnits                    // Units became available.
	EventRun                      // The run was loaded, dropped, or its control changed.
)
