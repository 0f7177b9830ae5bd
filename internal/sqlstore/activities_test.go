package sqlstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/activity"
)

// Each change of an activity is stored whole, raises the version and is in the audit log.
func claimActivities(t *testing.T, p *place) {
	version := func() int64 {
		t.Helper()
		v, err := p.Version(t.Context())
		must(t, err)
		return v
	}
	v0 := version()
	start := time.Date(2031, 2, 3, 4, 5, 6, 789_123_000, time.FixedZone("far", 8*3600))
	want := seckill.Activity{
		Name: "茶杯 🍵", Description: strings.Repeat("长", 100), PriceCents: 1999, Run: 1, Total: 40, StartsAt: start, EndsAt: start.Add(time.Hour),
		LimitPerUser: 2, SubStocks: 3, PreloadBefore: 90 * time.Second, PaymentWindow: 15 * time.Minute,
		Challenge: true, EntryToken: true, Audience: seckill.AudienceListed,
	}
	a, err := p.CreateActivity(t.Context(), want, operator)
	must(t, err)
	want.ID, want.CreatedAt, want.StartsAt, want.EndsAt = a.ID, a.CreatedAt, start.UTC(), start.Add(time.Hour).UTC()
	equal(t, "created", a, want)
	if a.ID < 1 || time.Since(a.CreatedAt).Abs() > time.Minute {
		t.Fatalf("id %d, created at %v", a.ID, a.CreatedAt)
	}
	equal(t, "version", version(), v0+1)

	changed, err := p.ChangeActivity(t.Context(), a.ID, "activity.pause", operator, func(a *seckill.Activity) error {
		a.Paused, a.Phase, a.Epoch = true, seckill.PhaseLoaded, 7
		a.Run, a.Total = 99, 99 // Not stored.
		return nil
	})
	must(t, err)
	want.Paused, want.Phase, want.Epoch = true, seckill.PhaseLoaded, 7
	equal(t, "changed", changed, want)
	all, v, err := p.Activities(t.Context())
	must(t, err)
	equal(t, "version of the list", v, v0+2)
	equal(t, "activities", len(all), 1)
	equal(t, "read back", all[0], want)

	own := errors.New("the caller's own")
	_, err = p.ChangeActivity(t.Context(), a.ID, "x", operator, func(a *seckill.Activity) error { a.Paused = false; return own })
	equal(t, "error of the change", err, own)
	_, err = p.ChangeActivity(t.Context(), a.ID, "x", operator, func(*seckill.Activity) error { return nil })
	must(t, err)
	_, err = p.ChangeActivity(t.Context(), a.ID+1, "x", operator, func(*seckill.Activity) error { return nil })
	equal(t, "no such activity", err, seckill.ErrNotFound)
	equal(t, "version", version(), v0+2)

	entries, err := p.Audit(t.Context(), 0, 10)
	must(t, err)
	equal(t, "audit entries", len(entries), 2)
	if e := entries[0]; e.Action != "activity.pause" || e.Actor != operator || e.Object != "activity/1" ||
		!strings.Contains(e.Detail, `"paused":[false,true]`) || strings.Contains(e.Detail, "name") || e.At.IsZero() {
		t.Fatalf("audit: %+v", e)
	}
	older, err := p.Audit(t.Context(), entries[0].ID, 10)
	must(t, err)
	if len(older) != 1 || older[0].Action != "activity.create" {
		t.Fatalf("older: %+v", older)
	}
	t.Run("NewRun", func(t *testing.T) { newRun(t, p, want) })
}

// A new run has stock of its own, and there is one next run.
func newRun(t *testing.T, p *place, was seckill.Activity) {
	p.mustOrder(t, reservation(was.RunID(), "first-run", 1))
	want := was
	want.Run, want.Total, want.Phase, want.Paused = 2, 7, seckill.PhaseScheduled, false
	want.StartsAt, want.EndsAt = was.StartsAt.Add(24*time.Hour), was.EndsAt.Add(24*time.Hour)
	a, err := p.NewRun(t.Context(), was.ID, 1, want.StartsAt, want.EndsAt, 7, operator)
	must(t, err)
	equal(t, "new run", a, want)
	conflict(t, "the same run again", func() error {
		_, err := p.NewRun(t.Context(), was.ID, 1, want.StartsAt, want.EndsAt, 7, operator)
		return err
	})
	p.mustOrder(t, reservation(a.RunID(), "first-run", 1))
	p.balanced(t, was.RunID(), 40, 1)
	p.balanced(t, a.RunID(), 7, 1)
}

// Units come and go with the run's row, before or after the stock hears of it as
// is safe.
func claimRestock(t *testing.T, p *place) {
	run := p.sale(t, 10, time.Hour)
	begin := func(units int64) activity.Restock {
		t.Helper()
		r, err := p.BeginRestock(t.Context(), run.Activity, units, operator)
		must(t, err)
		return r
	}
	// Not in the stock yet: done at once.
	equal(t, "more", begin(5), activity.Restock{Run: run, Units: 5, Done: true, Did: 5})
	p.balanced(t, run, 15, 0)
	p.mustWrite(t, run, buyers(run, 0, 3)...)
	equal(t, "at most what is available", begin(-50), activity.Restock{Run: run, Units: -50, Done: true, Did: -12})
	p.balanced(t, run, 3, 3)

	_, err := p.ChangeActivity(t.Context(), run.Activity, "load", operator, func(a *seckill.Activity) error {
		a.Phase = seckill.PhaseLoaded
		return nil
	})
	must(t, err)
	more := begin(10)
	p.balanced(t, run, 13, 3)
	less := begin(-6)
	p.balanced(t, run, 13, 3)
	if more.Done || less.Done || more.ID == less.ID || more.ID == 0 {
		t.Fatalf("restocks: %+v %+v", more, less)
	}
	open, err := p.Restocks(t.Context())
	must(t, err)
	if len(open) != 2 || open[0] != more || open[1] != less {
		t.Fatalf("open restocks: %+v", open)
	}
	for range 2 { // Twice is once.
		must(t, p.FinishRestock(t.Context(), more, 10))
		must(t, p.FinishRestock(t.Context(), less, -4))
	}
	p.balanced(t, run, 9, 3)
	all, _, err := p.Activities(t.Context())
	must(t, err)
	equal(t, "total of the activity", all[0].Total, 9)
	last := begin(1)
	if last.ID <= less.ID {
		t.Fatalf("the id %d was used before; the stock would ignore it", last.ID)
	}
	must(t, p.FinishRestock(t.Context(), last, 1))

	_, err = p.BeginRestock(t.Context(), 999, 1, operator)
	equal(t, "no such activity", err, seckill.ErrNotFound)
	if _, err = p.BeginRestock(t.Context(), run.Activity, 0, operator); !errors.As(err, new(*seckill.Refusal)) {
		t.Fatalf("restock by nothing: %v", err)
	}
}

// A run may be forgotten when it is over and nothing of it is open.
func claimOldRuns(t *testing.T, p *place) {
	run := p.sale(t, 10, time.Hour)
	end := time.Now().Add(2 * time.Hour)
	old := func() int {
		t.Helper()
		runs, err := p.OldRuns(t.Context(), end, 10)
		must(t, err)
		return len(runs)
	}
	equal(t, "nothing open", old(), 1)
	runs, err := p.OldRuns(t.Context(), time.Now().Add(-2*time.Hour), 10)
	must(t, err)
	equal(t, "not over yet", len(runs), 0)

	o := p.mustOrder(t, reservation(run, "b", 1))
	equal(t, "an order awaits payment", old(), 0)
	_, todo, _, err := p.MoveOrder(t.Context(), o.ID, "", seckill.Paid, "", nil)
	must(t, err)
	equal(t, "the stock was not told", old(), 0)
	must(t, p.TodosDone(t.Context(), todo.ID))
	equal(t, "all told", old(), 1)
	must(t, p.Bury(t.Context(), letter(reservation(run, "c", 1), "x")))
	equal(t, "a dead letter waits", old(), 0)
	p.raw(t, "UPDATE seckill_dead_letter SET state = 3")
	equal(t, "the letter is settled", old(), 1)
	must(t, p.MarkDropped(t.Context(), run))
	equal(t, "dropped", old(), 0)
	r, err := p.BeginRestock(t.Context(), run.Activity, 1, operator)
	must(t, err)
	equal(t, "a restock of a dropped run is done", r.Done, true)
}

// Repair puts right what the row says, from the orders; it never makes it less than nothing.
func claimRepair(t *testing.T, p *place) {
	run := p.sale(t, 10, time.Hour)
	p.mustWrite(t, run, buyers(run, 0, 4)...)
	repair := func() int64 {
		t.Helper()
		delta, err := p.RepairAvailable(t.Context(), run, operator)
		must(t, err)
		return delta
	}
	equal(t, "nothing to repair", repair(), 0)
	p.raw(t, "UPDATE seckill_stock SET available_stock = 9")
	equal(t, "too much", repair(), -3)
	p.raw(t, "UPDATE seckill_stock SET available_stock = 0")
	equal(t, "too little", repair(), 6)
	p.balanced(t, run, 10, 4)
	p.raw(t, "UPDATE seckill_stock SET total_stock = 3")
	equal(t, "sold more than there is", repair(), -6)
	_, err := p.RepairAvailable(t.Context(), seckill.RunID{Activity: 9, Run: 9}, operator)
	equal(t, "no such run", err, seckill.ErrNotFound)
}
