package activity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"seckill"
	"seckill/stock"
)

// OperatorOptions of an [Operator]. All are required.
type OperatorOptions struct {
	Registry *Registry
	Store    Store
	Stock    operable
	Log      *slog.Logger
}

// operable is what operators' commands need of the stock.
type operable interface {
	loadable
	Restock(ctx context.Context, run seckill.RunID, id int64, units int64) (int64, error)
}

// Operator carries out operators' commands. A command is done when the database has it.
// Before the call returns this node and the stock know as well, if they can be reached; if
// not, the keeper tells the stock later, and the registry hears within a second. The
// admin API calls it, and the demo.
type Operator struct {
	o      OperatorOptions
	loader loader
}

// NewOperator makes an operator.
func NewOperator(o OperatorOptions) (*Operator, error) {
	if o.Registry == nil || o.Store == nil || o.Stock == nil || o.Log == nil {
		return nil, errors.New("activity: Registry, Store, Stock and Log are required")
	}
	return &Operator{o, loader{o.Store, o.Stock}}, nil
}

// errUnchanged ends a change that has nothing to do, so that nothing is stored.
var errUnchanged = errors.New("unchanged")

// Get returns an activity as the database has it, or as it was last known while that is away.
func (o *Operator) Get(ctx context.Context, id int64) (seckill.Activity, error) {
	o.refresh(ctx)
	if !o.o.Registry.Loaded() {
		return seckill.Activity{}, errors.New("the activities were not read yet")
	}
	a, ok := o.o.Registry.Activity(id)
	if !ok {
		return seckill.Activity{}, seckill.ErrNotFound
	}
	return *a, nil
}

// List returns all activities, by id, as the database has them, or as they were last
// known while that is away. They are shared, and must not be changed.
func (o *Operator) List(ctx context.Context) ([]*seckill.Activity, error) {
	o.refresh(ctx)
	if !o.o.Registry.Loaded() {
		return nil, errors.New("the activities were not read yet")
	}
	return o.o.Registry.Activities(), nil
}

// refresh brings this node up to date. While the database is away the registry logs
// that, and keeps what it has.
func (o *Operator) refresh(ctx context.Context) (fresh bool) {
	if o.o.Registry.Refresh(ctx) != nil {
		o.o.Registry.Nudge()
		return false
	}
	return true
}

// Create stores an activity. If its preload is due, it is preloaded at once.
func (o *Operator) Create(ctx context.Context, a seckill.Activity, by seckill.Actor) (seckill.Activity, error) {
	if fields := o.Check(a); len(fields) > 0 {
		return seckill.Activity{}, &seckill.Refusal{Reason: seckill.InvalidRequest, Fields: fields}
	}
	a.ID, a.Run, a.Epoch, a.Phase, a.Paused = 0, 1, 0, seckill.PhaseScheduled, false
	a.StartsAt, a.EndsAt, a.CreatedAt = wholeMS(a.StartsAt), wholeMS(a.EndsAt), wholeMS(time.Now())
	created, err := o.o.Store.CreateActivity(ctx, a, by)
	if err != nil {
		return seckill.Activity{}, fmt.Errorf("create activity: %w", err)
	}
	return o.begin(ctx, created, by), nil
}

// wholeMS is what every database can keep of a time.
func wholeMS(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Rerun starts the next run of an activity whose present run is over.
func (o *Operator) Rerun(ctx context.Context, id int64, startsAt, endsAt time.Time, units int64, by seckill.Actor) (seckill.Activity, error) {
	if fields := o.CheckRun(startsAt, endsAt, units); len(fields) > 0 {
		return seckill.Activity{}, &seckill.Refusal{Reason: seckill.InvalidRequest, Fields: fields}
	}
	a, err := o.Get(ctx, id)
	if err != nil {
		return a, err
	}
	if a.State(time.Now(), false) != seckill.StateEnded {
		return a, conflict("the present run is not over; close it first")
	}
	next, err := o.o.Store.NewRun(ctx, id, a.Run, wholeMS(startsAt), wholeMS(endsAt), units, by)
	if err != nil {
		return a, fmt.Errorf("store the next run: %w", err)
	}
	return o.begin(ctx, next, by), nil
}

func conflict(detail string) error {
	return &seckill.Refusal{Reason: seckill.Conflict, Detail: detail}
}

// begin preloads a run that was just stored if that is due. If it cannot be, the run is
// stored all the same, and the keeper goes on trying.
func (o *Operator) begin(ctx context.Context, a seckill.Activity, by seckill.Actor) seckill.Activity {
	if preloadDue(&a, time.Now()) {
		loaded, err := o.preload(ctx, a, by)
		if err != nil {
			o.o.Log.Warn("activity: the preload is left to the keeper", "activity", a.ID, "run", a.Run, "error", err)
		} else {
			a = loaded
		}
	}
	return o.settled(ctx, a)
}

// settled makes this node know of a change before its caller is answered.
func (o *Operator) settled(ctx context.Context, a seckill.Activity) seckill.Activity {
	if !o.refresh(ctx) {
		o.o.Registry.learn(a)
	}
	if a.Phase == seckill.PhaseLoaded {
		if err := o.o.Registry.RefreshLevel(ctx, a.RunID()); err != nil {
			o.o.Log.Warn("activity: the level cannot be read", "activity", a.ID, "run", a.Run, "error", err)
		}
	}
	// The database may have gone on meanwhile; what is newest is the best answer.
	if now, ok := o.o.Registry.Activity(a.ID); ok {
		return *now
	}
	return a
}

// Preload brings the present run into the stock before its time. It is done already
// if the run is there.
func (o *Operator) Preload(ctx context.Context, id int64, by seckill.Actor) (seckill.Activity, error) {
	a, err := o.Get(ctx, id)
	if err != nil {
		return a, err
	}
	if a, err = o.preload(ctx, a, by); err != nil {
		return a, err
	}
	return o.settled(ctx, a), nil
}

// preload loads a scheduled run. If somebody else is doing that as well, it looks again.
func (o *Operator) preload(ctx context.Context, a seckill.Activity, by seckill.Actor) (seckill.Activity, error) {
	for try := 1; ; try++ {
		switch {
		case a.State(time.Now(), false) == seckill.StateEnded:
			return a, conflict("the activity is over")
		case a.Phase == seckill.PhaseRebuilding:
			return a, conflict("the activity is being put right after the stock was lost")
		case a.Phase == seckill.PhaseLoaded:
			return a, nil
		}
		loaded, err := o.loader.load(ctx, a, seckill.PhaseScheduled, "activity.preload", by)
		if !errors.Is(err, errOvertaken) || try == rounds {
			return loaded, err
		}
		if err := o.o.Registry.Refresh(ctx); err != nil {
			return a, err
		}
		now, ok := o.o.Registry.Activity(a.ID)
		if !ok || now.Run != a.Run {
			return a, conflict("the activity was changed meanwhile")
		}
		a = *now
	}
}

// Pause stops the sale until [Operator.Resume]. Pausing twice is fine.
func (o *Operator) Pause(ctx context.Context, id int64, by seckill.Actor) (seckill.Activity, error) {
	return o.control(ctx, id, "activity.pause", by, func(a *seckill.Activity) error {
		return setPaused(a, true)
	})
}

// Resume ends a pause. Resuming what is not paused is fine.
func (o *Operator) Resume(ctx context.Context, id int64, by seckill.Actor) (seckill.Activity, error) {
	return o.control(ctx, id, "activity.resume", by, func(a *seckill.Activity) error {
		return setPaused(a, false)
	})
}

func setPaused(a *seckill.Activity, paused bool) error {
	switch {
	case a.State(time.Now(), false) == seckill.StateEnded:
		return conflict("the activity is over")
	case a.Paused == paused:
		return errUnchanged
	}
	a.Paused = paused
	return nil
}

// Close ends the present run before its time. Closing what is over is fine.
func (o *Operator) Close(ctx context.Context, id int64, by seckill.Actor) (seckill.Activity, error) {
	return o.control(ctx, id, "activity.close", by, func(a *seckill.Activity) error {
		now := wholeMS(time.Now())
		if a.State(now, false) == seckill.StateEnded {
			return errUnchanged
		}
		a.Phase, a.EndsAt = seckill.PhaseClosed, now
		return nil
	})
}

// control changes an activity, and tells the stock.
func (o *Operator) control(ctx context.Context, id int64, action string, by seckill.Actor, change func(*seckill.Activity) error) (seckill.Activity, error) {
	a, err := o.o.Store.ChangeActivity(ctx, id, action, by, change)
	if errors.Is(err, errUnchanged) {
		a, err = o.Get(ctx, id)
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w", action, err)
	}
	if !o.refresh(ctx) {
		o.o.Registry.learn(a)
	}
	// Told again also when nothing changed: whoever repeats a command doubts that it arrived.
	err = o.o.Stock.Control(ctx, a.RunID(), controlOf(&a))
	if err != nil && !errors.Is(err, stock.ErrNotLoaded) {
		o.o.Log.Warn("activity: telling the stock is left to the keeper", "activity", a.ID, "run", a.Run, "step", action, "error", err)
	}
	return o.settled(ctx, a), nil
}

// Restock adds units to the present run, or takes away at most what is available. It
// returns what was done, or that the stock could not be told yet: then the keeper
// will, and only the books know when.
func (o *Operator) Restock(ctx context.Context, id, units int64, by seckill.Actor) (a seckill.Activity, did int64, pending bool, err error) {
	if a, err = o.Get(ctx, id); err != nil {
		return a, 0, false, err
	}
	switch {
	case units == 0:
		return a, 0, false, seckill.Invalid("quantity", seckill.RuleFormat, "other than 0")
	case units < -StockMax:
		return a, 0, false, seckill.Invalid("quantity", seckill.RuleMin, strconv.Itoa(-StockMax))
	case units > StockMax-a.Total:
		return a, 0, false, seckill.Invalid("quantity", seckill.RuleMax, strconv.FormatInt(StockMax-a.Total, 10))
	case a.State(time.Now(), false) == seckill.StateEnded:
		return a, 0, false, conflict("the activity is over")
	}
	r, err := o.o.Store.BeginRestock(ctx, id, units, by)
	if err != nil {
		return a, 0, false, fmt.Errorf("begin restock: %w", err)
	}
	did = r.Did
	if !r.Done {
		if did, err = tellRestock(ctx, o.o.Store, o.o.Stock, r); err != nil {
			o.o.Log.Warn("activity: the restock is left to the keeper", "activity", id, "run", r.Run.Run, "error", err)
			did, pending = 0, true
		}
	}
	return o.settled(ctx, a), did, pending, nil
}

// restocker is what restocking needs of the stock.
type restocker interface {
	Restock(ctx context.Context, run seckill.RunID, id int64, units int64) (int64, error)
}

func tellRestock(ctx context.Context, store Store, stock restocker, r Restock) (int64, error) {
	did, err := stock.Restock(ctx, r.Run, r.ID, r.Units)
	if err != nil {
		return 0, fmt.Errorf("restock the stock: %w", err)
	}
	if err := store.FinishRestock(ctx, r, did); err != nil {
		return did, fmt.Errorf("finish restock: %w", err)
	}
	return did, nil
}
