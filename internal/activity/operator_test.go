package activity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill"
)

// refused returns the reason and the fields of a refusal.
func refused(err error) string {
	var refusal *seckill.Refusal
	if !errors.As(err, &refusal) {
		return fmt.Sprint(err)
	}
	text := refusal.Reason.String()
	for _, f := range refusal.Fields {
		text += fmt.Sprintf(" %s:%s:%s", f.Field, f.Rule, f.Arg)
	}
	return text
}

// Each field of an activity that is out of its bounds is refused with the bound.
func TestCreateRefusesWhatIsOutOfBounds(t *testing.T) {
	now := time.Now()
	for want, change := range map[string]func(*seckill.Activity){
		"name:required:":  func(a *seckill.Activity) { a.Name = " \u3000" },
		"name:length:128": func(a *seckill.Activity) { a.Name = strings.Repeat("é", 65) },
		"name:format:text without control characters":        func(a *seckill.Activity) { a.Name = "a\nb" },
		"description:length:4096":                            func(a *seckill.Activity) { a.Description = strings.Repeat("x", 4097) },
		"description:format:text without control characters": func(a *seckill.Activity) { a.Description = "a\x00" },
		"price_cents:min:0":                                  func(a *seckill.Activity) { a.PriceCents = -1 },
		"price_cents:max:1000000000000":                      func(a *seckill.Activity) { a.PriceCents = 1 << 62 },
		"stock:min:1":                                        func(a *seckill.Activity) { a.Total = 0 },
		"stock:max:100000000":                                func(a *seckill.Activity) { a.Total = 100_000_001 },
		"limit_per_user:min:1":                               func(a *seckill.Activity) { a.LimitPerUser = 0 },
		"limit_per_user:max:1000000":                         func(a *seckill.Activity) { a.LimitPerUser = 1_000_001 },
		"sub_stocks:min:1":                                   func(a *seckill.Activity) { a.SubStocks = -1 },
		"sub_stocks:max:1024":                                func(a *seckill.Activity) { a.SubStocks = 1025 },
		"preload_before_seconds:min:0":                       func(a *seckill.Activity) { a.PreloadBefore = -time.Second },
		"preload_before_seconds:max:86400":                   func(a *seckill.Activity) { a.PreloadBefore = 86401 * time.Second },
		"payment_window_seconds:min:1":                       func(a *seckill.Activity) { a.PaymentWindow = 0 },
		"payment_window_seconds:max:604800":                  func(a *seckill.Activity) { a.PaymentWindow = 604801 * time.Second },
		"audience:one_of:everyone, listed":                   func(a *seckill.Activity) { a.Audience = "friends" },
		"ends_at:after:starts_at":                            func(a *seckill.Activity) { a.EndsAt = a.StartsAt },
		"ends_at:after:now":                                  func(a *seckill.Activity) { a.StartsAt, a.EndsAt = now.Add(-time.Hour), now.Add(-time.Minute) },
		"starts_at:min:2000-01-01T00:00:00Z":                 func(a *seckill.Activity) { a.StartsAt = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC) },
		"ends_at:max:2200-01-01T00:00:00Z":                   func(a *seckill.Activity) { a.EndsAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		h := newHouse(t)
		a := sale(time.Hour)
		change(&a)
		_, err := h.operator.Create(ctx, a, by)
		if got := refused(err); got != "invalid_request "+want || h.store.count("create") != 0 {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := len(newHouse(t).operator.Check(seckill.Activity{})); got != 8 {
		t.Errorf("an empty activity has %d mistakes, want 8 at once", got)
	}
}

// The bounds themselves are fine.
func TestCreateTakesTheBounds(t *testing.T) {
	h := newHouse(t)
	for _, change := range []func(*seckill.Activity){
		func(a *seckill.Activity) {
			a.Name, a.Description = strings.Repeat("x", 128), strings.Repeat("\n", 4096)
		},
		func(a *seckill.Activity) {
			a.Total, a.LimitPerUser, a.SubStocks, a.PriceCents = 100_000_000, 1_000_000, 1024, 0
		},
		func(a *seckill.Activity) { a.PreloadBefore, a.PaymentWindow = 0, time.Second },
		func(a *seckill.Activity) { a.PreloadBefore, a.PaymentWindow = 24*time.Hour, 168*time.Hour },
	} {
		a := sale(48 * time.Hour)
		change(&a)
		if made := h.create(t, a); made.Phase != seckill.PhaseScheduled || made.Run != 1 || made.Name != a.Name {
			t.Errorf("made %+v", made)
		}
	}
}

// An activity whose preload is due is ready, or open, when the call returns, on this node
// and in the stock; others are scheduled.
func TestCreatePreloadsWhatIsDue(t *testing.T) {
	for in, want := range map[time.Duration]seckill.State{
		time.Hour: seckill.StateScheduled, time.Minute: seckill.StateReady, -time.Minute: seckill.StateOpen,
	} {
		h := newHouse(t)
		a := h.create(t, sale(in))
		seen, ok := h.registry.Activity(a.ID)
		if got := a.State(time.Now(), false); got != want || !ok || *seen != a {
			t.Errorf("starts in %v: %s, want %s; this node sees %+v", in, got, want, seen)
		}
		if n, known := h.registry.Available(a.RunID()); known != (want != seckill.StateScheduled) || known && n != 100 {
			t.Errorf("starts in %v: %d units, known %v", in, n, known)
		}
	}
}

// An activity is created also while the stock is away; the keeper preloads it later.
func TestCreateDoesNotNeedTheStock(t *testing.T) {
	h := newHouse(t)
	h.stock.set(away, nil)
	a := h.create(t, sale(0))
	if a.Phase != seckill.PhaseScheduled || a.Epoch != 0 {
		t.Fatalf("made %+v", a)
	}
	h.stock.set(nil, nil)
	must(t, h.keeper.Tend(ctx, &a))
	if got := h.store.get(a.ID).Phase; got != seckill.PhaseLoaded {
		t.Errorf("phase %d", got)
	}
}

// Pause, resume and close hold on this node and in the stock when the call returns.
func TestCommandsTakeEffectBeforeTheyReturn(t *testing.T) {
	h := newHouse(t)
	a := h.create(t, sale(0))
	for _, c := range []struct {
		do   func() (seckill.Activity, error)
		want seckill.State
	}{
		{func() (seckill.Activity, error) { return h.operator.Pause(ctx, a.ID, by) }, seckill.StatePaused},
		{func() (seckill.Activity, error) { return h.operator.Pause(ctx, a.ID, by) }, seckill.StatePaused},
		{func() (seckill.Activity, error) { return h.operator.Resume(ctx, a.ID, by) }, seckill.StateOpen},
		{func() (seckill.Activity, error) { return h.operator.Resume(ctx, a.ID, by) }, seckill.StateOpen},
		{func() (seckill.Activity, error) { return h.operator.Preload(ctx, a.ID, by) }, seckill.StateOpen},
		{func() (seckill.Activity, error) { return h.operator.Close(ctx, a.ID, by) }, seckill.StateEnded},
		{func() (seckill.Activity, error) { return h.operator.Close(ctx, a.ID, by) }, seckill.StateEnded},
	} {
		got, err := c.do()
		must(t, err)
		seen, _ := h.registry.Activity(a.ID)
		control := h.stock.run(a.RunID()).control
		if got.State(time.Now(), false) != c.want || *seen != got || control.Paused != got.Paused || !control.EndsAt.Equal(got.EndsAt) {
			t.Errorf("want %s, got %+v; node %+v; stock %+v", c.want, got, seen, control)
		}
	}
	want := []string{"activity.create", "activity.preload", "activity.loaded", "activity.pause", "activity.resume", "activity.close"}
	if !slices.Equal(h.store.audit, want) {
		t.Errorf("audit %q, want %q: nothing twice", h.store.audit, want)
	}
	for name, do := range map[string]func() (seckill.Activity, error){
		"pause":   func() (seckill.Activity, error) { return h.operator.Pause(ctx, a.ID, by) },
		"resume":  func() (seckill.Activity, error) { return h.operator.Resume(ctx, a.ID, by) },
		"preload": func() (seckill.Activity, error) { return h.operator.Preload(ctx, a.ID, by) },
		"restock": func() (seckill.Activity, error) {
			a, _, _, err := h.operator.Restock(ctx, a.ID, 1, by)
			return a, err
		},
	} {
		if _, err := do(); refused(err) != "conflict" {
			t.Errorf("%s of what is over: %v", name, err)
		}
	}
}

// A command that the database took holds on this node even if it cannot be read back.
func TestACommandHoldsWhileTheDatabaseCannotBeRead(t *testing.T) {
	h := newHouse(t)
	a := h.create(t, sale(0))
	h.store.set(func(name string) error {
		if name == "version" {
			return errAway
		}
		return nil
	}, nil)
	got, err := h.operator.Pause(ctx, a.ID, by)
	must(t, err)
	if seen, _ := h.registry.Activity(a.ID); !got.Paused || !seen.Paused {
		t.Errorf("got %+v, this node sees %+v", got, seen)
	}
	made := h.create(t, sale(0))
	if seen, ok := h.registry.Activity(made.ID); !ok || *seen != made || made.Phase != seckill.PhaseLoaded {
		t.Errorf("made %+v, this node sees %+v", made, seen)
	}
}

// A command that the database did not take is an error, and changes nothing here.
func TestACommandFailsWithTheDatabase(t *testing.T) {
	h := newHouse(t)
	a := h.create(t, sale(0))
	h.store.set(away, nil)
	if _, err := h.operator.Pause(ctx, a.ID, by); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	if seen, _ := h.registry.Activity(a.ID); seen.Paused || h.stock.run(a.RunID()).control.Paused {
		t.Error("paused all the same")
	}
	if _, err := h.operator.Pause(ctx, 77, by); !errors.Is(err, errAway) {
		t.Errorf("an activity that is not there: %v", err)
	}
	h.store.set(nil, nil)
	if _, err := h.operator.Pause(ctx, 77, by); !errors.Is(err, seckill.ErrNotFound) {
		t.Errorf("an activity that is not there: %v", err)
	}
}

// A restock reaches stock and database; one that the stock cannot hear of is left to the keeper.
func TestRestock(t *testing.T) {
	h := newHouse(t)
	a := h.create(t, sale(0))
	restock := func(units, wantDid, wantTotal int64, wantPending bool) {
		t.Helper()
		got, did, pending, err := h.operator.Restock(ctx, a.ID, units, by)
		must(t, err)
		if did != wantDid || pending != wantPending || got.Total != wantTotal {
			t.Errorf("restock %d: did %d, pending %v, total %d; want %d, %v, %d", units, did, pending, got.Total, wantDid, wantPending, wantTotal)
		}
	}
	restock(10, 10, 110, false)
	h.stock.buy(a, "ann")
	restock(-1000, -109, 1, false)
	if n, _ := h.registry.Available(a.RunID()); n != 0 {
		t.Errorf("this node believes in %d units", n)
	}
	restock(5, 5, 6, false)
	h.stock.set(away, nil)
	restock(3, 0, 9, true)
	h.stock.set(nil, nil)
	must(t, h.keeper.FinishRestocks(ctx))
	must(t, h.keeper.FinishRestocks(ctx))
	if got := h.stock.run(a.RunID()).level.Available; got != 8 {
		t.Errorf("%d units in the stock, want 8", got)
	}
	for units, want := range map[int64]string{
		0:            "invalid_request quantity:format:other than 0",
		100_000_000:  "invalid_request quantity:max:99999991",
		-100_000_001: "invalid_request quantity:min:-100000000",
		1<<63 - 1:    "invalid_request quantity:max:99999991",
		-(1<<63 - 1): "invalid_request quantity:min:-100000000",
	} {
		if _, _, _, err := h.operator.Restock(ctx, a.ID, units, by); refused(err) != want {
			t.Errorf("restock %d: %v, want %s", units, err, want)
		}
	}
	scheduled := h.create(t, sale(time.Hour))
	if got, did, _, err := h.operator.Restock(ctx, scheduled.ID, -7, by); err != nil || did != -7 || got.Total != 93 {
		t.Errorf("before the preload: %+v, %d, %v", got, did, err)
	}
}

// A new run begins only when the present one is over, with its own units and no buyers.
func TestRerun(t *testing.T) {
	h := newHouse(t)
	a := h.create(t, sale(0))
	h.stock.buy(a, "ann")
	now := time.Now()
	if _, err := h.operator.Rerun(ctx, a.ID, now, now.Add(time.Hour), 7, by); refused(err) != "conflict" {
		t.Fatalf("rerun of what is open: %v", err)
	}
	_, err := h.operator.Close(ctx, a.ID, by)
	must(t, err)
	if _, err := h.operator.Rerun(ctx, a.ID, now, now, 0, by); refused(err) != "invalid_request stock:min:1 ends_at:after:starts_at" {
		t.Errorf("bad rerun: %v", err)
	}
	again, err := h.operator.Rerun(ctx, a.ID, now, now.Add(time.Hour), 7, by)
	must(t, err)
	if again.Run != 2 || again.State(time.Now(), false) != seckill.StateOpen || again.Total != 7 {
		t.Errorf("got %+v", again)
	}
	if !h.stock.buy(again, "ann") || !h.stock.run(a.RunID()).buyers["ann"] {
		t.Error("ann cannot buy in the second run, or is forgotten in the first")
	}
	if _, err := h.operator.Rerun(ctx, 77, now, now.Add(time.Hour), 7, by); !errors.Is(err, seckill.ErrNotFound) {
		t.Errorf("rerun of nothing: %v", err)
	}
}
