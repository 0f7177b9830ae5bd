// Package reconcile compares the stock, the queue and the database of a run: it counts
// the books, says what is wrong, and repairs what can be repaired while the sale goes on.
//
// The database is the judge. Reconciliation never changes an order, and never makes
// units of something that may only be on its way: a difference counts when it is
// there in two readings with nothing in motion in between.
//
// The admin API asks for it, and a job looks now and then.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"seckill"
	"seckill/stock"
)

// Options of a [Reconciler].
type Options struct {
	Store Store // Required.
	// Facts reads a run of the database. Required. The units have to be of one moment; what
	// is unfinished may be read after them.
	Facts      func(ctx context.Context, run seckill.RunID) (Facts, error)
	Stock      stocks       // Required.
	Activities activities   // Required.
	Log        *slog.Logger // Required.

	// Backlog tells what waits in all queues between the stock and the database, asked in the
	// order in which a reservation passes them. Required.
	Backlog func(ctx context.Context) (waiting int64, oldest time.Time, err error)
	// Rewrite has the order writer take reservations that no queue carries any more. The
	// database decides by their tickets whether they are orders already. Nil: they
	// are found, and not repaired.
	Rewrite func(ctx context.Context, run seckill.RunID, rs []seckill.Reservation) error

	// Rebuild has the stock get a run anew from the database, and returns when that is done. It
	// writes the audit log. Nil: what only that would repair is found, and not repaired.
	Rebuild func(ctx context.Context, run seckill.RunID, by seckill.Actor) error
	// LiveOrders pages through the orders that hold units of a run, as for a rebuild, so that
	// [Reconciler.Check] can ask the stock for each. Nil: the stock is too far away for
	// that, and the sums have to do.
	LiveOrders func(ctx context.Context, run seckill.RunID, after string, max int) ([]seckill.Order, error)

	Every time.Duration // Between looks of [Reconciler.Run]. Default 1 min.
	// Grace is how old a reservation has to be before it is missed. Default 1 min.
	Grace time.Duration
	// Pause between two readings that have to agree. Default 200 ms.
	Pause time.Duration
}

// stocks is what reconciliation needs of the stock.
type stocks interface {
	Level(ctx context.Context, run seckill.RunID) (stock.Level, error)
	Queued(ctx context.Context, run seckill.RunID, after string, max int) ([]seckill.Reservation, error)
	Settle(ctx context.Context, settlements []stock.Settlement) (unknown []string, err error)
	Restock(ctx context.Context, run seckill.RunID, id int64, units int64) (int64, error)
	Outcome(ctx context.Context, buyer, ticket string) (seckill.Outcome, error)
}

// activities is what this node knows of them.
type activities interface {
	Activity(id int64) (*seckill.Activity, bool)
	Activities() []*seckill.Activity
}

// Reconciler compares, reports and repairs.
type Reconciler struct{ o Options }

// New makes a reconciler.
func New(o Options) (*Reconciler, error) {
	if o.Store == nil || o.Facts == nil || o.Stock == nil || o.Activities == nil || o.Log == nil || o.Backlog == nil {
		return nil, errors.New("reconcile: Store, Facts, Stock, Activities, Log and Backlog are required")
	}
	for d, value := range map[*time.Duration]time.Duration{
		&o.Every: time.Minute, &o.Grace: time.Minute, &o.Pause: 200 * time.Millisecond,
	} {
		if *d <= 0 {
			*d = value
		}
	}
	return &Reconciler{o}, nil
}

// reading is the stock and the database, one read after the other.
type reading struct {
	Facts
	level  stock.Level
	loaded bool // The stock has the run.
}

// read takes a reading of a run.
func (r *Reconciler) read(ctx context.Context, run seckill.RunID) (g reading, err error) {
	if g.level, g.loaded, err = r.level(ctx, run); err != nil {
		return g, err
	}
	if g.Facts, err = r.o.Facts(ctx, run); err != nil {
		return g, fmt.Errorf("read the database: %w", err)
	}
	return g, nil
}

// same says that neither side changed from one reading to the next. Both then held at
// one moment, that between the first read of the database and the second of the stock.
func (g *reading) same(h *reading) bool {
	return g.loaded == h.loaded && g.level == h.level && g.Facts.same(&h.Facts)
}

func (r *Reconciler) level(ctx context.Context, run seckill.RunID) (stock.Level, bool, error) {
	level, err := r.o.Stock.Level(ctx, run)
	if errors.Is(err, stock.ErrNotLoaded) {
		return stock.Level{}, false, nil
	}
	if err != nil {
		return stock.Level{}, false, fmt.Errorf("read the stock: %w", err)
	}
	return level, true, nil
}

// books of a reading. What lies among the dead letters is queued in the stock, too, and
// is counted once.
func (g *reading) books() seckill.Books {
	b := seckill.Books{
		Total: g.Total, Available: g.free(),
		AwaitingPayment: g.AwaitingPayment, Paid: g.Paid, Dead: g.Dead,
	}
	if g.loaded {
		b.Available = g.level.Available
		b.Queued = max(0, g.level.Queued-g.Dead)
	}
	return b.Balance()
}

// Waits between readings of books that do not balance: about 300 ms in all.
var bookWaits = []time.Duration{
	10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond,
}

// Books of a run. Stock and database are not read at one moment: while units move the
// books may not balance, and are read again a few times, or until ctx ends, before
// they are returned like that.
func (r *Reconciler) Books(ctx context.Context, run seckill.RunID) (seckill.Books, error) {
	for i := 0; ; i++ {
		g, err := r.read(ctx, run)
		if err != nil {
			return seckill.Books{}, err
		}
		books := g.books()
		if books.Balanced || i == len(bookWaits) || !wait(ctx, bookWaits[i]) {
			return books, nil
		}
	}
}

// wait reports whether ctx lasted.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Report of a reconciliation. Its JSON is the admin API's answer.
type Report struct {
	Balanced bool              `json:"balanced"`
	Books    seckill.Books     `json:"books"`
	Findings []seckill.Finding `json:"findings"` // Never nil.
}

// Reconcile compares the present run of an activity, and repairs what it can if repair
// is set.
func (r *Reconciler) Reconcile(ctx context.Context, activityID int64, repair bool, by seckill.Actor) (seckill.Books, []seckill.Finding, error) {
	report, err := r.Report(ctx, activityID, repair, by)
	return report.Books, report.Findings, err
}

// Report is [Reconciler.Reconcile] in one piece.
func (r *Reconciler) Report(ctx context.Context, activityID int64, repair bool, by seckill.Actor) (Report, error) {
	a, ok := r.o.Activities.Activity(activityID)
	if !ok {
		return Report{}, seckill.ErrNotFound
	}
	c := comparison{Reconciler: r, run: a.RunID(), repair: repair, by: by, findings: []seckill.Finding{},
		anew: repair && r.o.Rebuild != nil && a.Phase == seckill.PhaseLoaded}
	if err := c.compare(ctx, a); err != nil {
		return Report{}, err
	}
	if c.rebuild {
		if err := c.startAnew(ctx); err != nil {
			return Report{}, err
		}
	}
	books, err := r.Books(ctx, c.run)
	if err != nil {
		return Report{}, err
	}
	return Report{books.Balanced, books, c.findings}, nil
}

// overFor is how long the job still looks at a run that is over: as long as the
// stock remembers it.
const overFor = 168 * time.Hour

// Run looks at every run that is in the stock, now and then, until ctx ends. It logs
// what it finds, once as long as it stays the same, and repairs nothing.
func (r *Reconciler) Run(ctx context.Context) error {
	said := map[seckill.RunID][]seckill.Finding{}
	for wait(ctx, r.o.Every) {
		said = r.round(ctx, said)
	}
	return nil
}

// round looks at every run once, and returns what it found. What was said in the last
// round is not said again.
func (r *Reconciler) round(ctx context.Context, said map[seckill.RunID][]seckill.Finding) map[seckill.RunID][]seckill.Finding {
	found := map[seckill.RunID][]seckill.Finding{}
	for _, a := range r.o.Activities.Activities() {
		if a.Phase == seckill.PhaseScheduled || time.Since(a.EndsAt) > overFor {
			continue
		}
		report, err := r.look(ctx, a.ID)
		switch {
		case ctx.Err() != nil:
			return found
		case err != nil:
			r.o.Log.Warn("reconcile: a run cannot be compared", "activity", a.ID, "run", a.Run, "error", err)
			found[a.RunID()] = said[a.RunID()]
			continue
		}
		found[a.RunID()] = report.Findings
		for _, f := range report.Findings {
			if !slices.Contains(said[a.RunID()], f) {
				r.o.Log.Warn("reconcile: finding", "activity", a.ID, "run", a.Run, "kind", f.Kind, "units", f.Units, "detail", f.Detail)
			}
		}
	}
	return found
}

func (r *Reconciler) look(ctx context.Context, id int64) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Every)
	defer cancel()
	return r.Report(ctx, id, false, seckill.Actor{Who: "reconcile"})
}
