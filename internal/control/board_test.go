package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ann = netip.MustParseAddr("192.0.2.7")

// listed is an activity for listed buyers.
func listed(id int64) *seckill.Activity {
	return &seckill.Activity{ID: id, Audience: seckill.AudienceListed}
}

// buyers adds the named ones to a list.
func buyers(names ...string) func(func(string) error) error {
	return func(add func(string) error) error {
		for _, n := range names {
			if err := add(n); err != nil {
				return err
			}
		}
		return nil
	}
}

// What one node changes holds on it at once, and on another within half a second.
func TestAChangeIsSeenEverywhere(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *database, bs []*Board, _ *journal) {
		ctx := t.Context()
		var id int64
		for _, c := range []struct {
			what   string
			change func() error
			seen   func(s *Snapshot) bool
		}{
			{"switch", func() error { _, err := bs[0].SetSwitch(ctx, "intake", 0, operator); return err }, func(s *Snapshot) bool { return !s.Switches.Intake }},
			{"percent", func() error { _, err := bs[0].SetSwitch(ctx, "admission_percent", 7, operator); return err }, func(s *Snapshot) bool { return s.Switches.AdmissionPercent == 7 }},
			{"challenge", func() error { _, err := bs[0].SetSwitch(ctx, "challenge", 1, operator); return err }, func(s *Snapshot) bool { return s.Switches.Challenge }},
			{"consumers", func() error { _, err := bs[0].SetSwitch(ctx, "consumers", 0, operator); return err }, func(s *Snapshot) bool { return !s.Switches.Consumers }},
			{"block", func() error {
				made, err := bs[0].AddBlock(ctx, seckill.BlockIP, "::ffff:192.0.2.7", time.Time{}, operator)
				id = made.ID
				return err
			}, func(s *Snapshot) bool { return s.Blocked(ann, "", "") != nil }},
			{"removal", func() error { return bs[0].RemoveBlock(ctx, id, operator) }, func(s *Snapshot) bool { return s.Blocked(ann, "", "") == nil }},
			{"audience", func() error { _, err := bs[0].SetAudience(ctx, 3, buyers("ann", "ann"), operator); return err }, func(s *Snapshot) bool { return s.Eligible(listed(3), "ann") && !s.Eligible(listed(3), "bob") }},
			{"another audience", func() error { _, err := bs[0].SetAudience(ctx, 3, buyers("bob"), operator); return err }, func(s *Snapshot) bool { return s.Eligible(listed(3), "bob") && !s.Eligible(listed(3), "ann") }},
		} {
			if c.seen(bs[0].Snapshot()) || c.seen(bs[1].Snapshot()) {
				t.Fatalf("%s: seen before", c.what)
			}
			must(t, c.change())
			if !c.seen(bs[0].Snapshot()) {
				t.Errorf("%s: not seen at once where it was made", c.what)
			}
			wait(500 * time.Millisecond)
			if !c.seen(bs[1].Snapshot()) {
				t.Errorf("%s: not seen by the other", c.what)
			}
		}
	})
}

// While the database is away, or hangs, everything keeps its last value, and the board says how old
// that is. The log tells of it once. Afterwards what was changed meanwhile is seen.
func TestTheLastIsKept(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		bubble(t, 1, func(t *testing.T, d *database, bs []*Board, log *journal) {
			ctx, b := t.Context(), bs[0]
			_, err := b.SetSwitch(ctx, "intake", 0, operator)
			must(t, err)
			_, err = b.AddBlock(ctx, seckill.BlockUser, "ann", time.Now().Add(30*time.Second), operator)
			must(t, err)
			_, err = b.SetAudience(ctx, 3, buyers("ann"), operator)
			must(t, err)
			wait(time.Second)
			if stale := b.Stale(); stale > 500*time.Millisecond {
				t.Errorf("stale by %v while all is well", stale)
			}
			d.set(func(d *database) { d.away, d.hangs = !hangs, hangs })
			wait(20 * time.Second)
			s := b.Snapshot()
			if s.Switches.Intake || s.Blocked(netip.Addr{}, "ann", "") == nil || !s.Eligible(listed(3), "ann") {
				t.Error("something was forgotten")
			}
			if stale := b.Stale(); stale < 19*time.Second || stale > 21*time.Second {
				t.Errorf("stale by %v after 20s", stale)
			}
			impatient, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := b.SetSwitch(impatient, "intake", 1, operator); !hangs && !errors.Is(err, errAway) || hangs && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a switch without a database: %v", err)
			}
			wait(10 * time.Second)
			if b.Snapshot().Blocked(netip.Addr{}, "ann", "") != nil {
				t.Error("a block did not end without the database")
			}
			// The database that comes back is an older copy, with the same versions on other things.
			d.set(func(d *database) {
				d.away, d.hangs = false, false
				delete(d.states, "intake")
				d.rows = []row{{Block: seckill.Block{ID: 1, Kind: seckill.BlockUser, Value: "bob"}, version: 1}}
			})
			wait(3 * time.Second) // A call that hangs ends after two.
			if s := b.Snapshot(); !s.Switches.Intake || s.Blocked(netip.Addr{}, "bob", "") == nil || b.Stale() > 500*time.Millisecond {
				t.Error("it is not seen that the database is another")
			}
			if text := log.String(); strings.Count(text, "an outage began") != 1 || strings.Count(text, "an outage is over") != 1 {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// A plan is carried out to the millisecond on every node, also while the database hangs, and once
// in the database.
func TestPlansGoByTheClock(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *database, bs []*Board, _ *journal) {
		ctx := t.Context()
		at := time.Now().Add(30*time.Second + 333*time.Millisecond)
		s, err := bs[0].PlanSwitch(ctx, "intake", 0, at, operator)
		must(t, err)
		if s.Value != 1 || len(s.Scheduled) != 1 || !s.Scheduled[0].At.Equal(at) {
			t.Errorf("planned: %+v", s)
		}
		_, err = bs[0].PlanSwitch(ctx, "intake", 1, at.Add(10*time.Second), operator)
		must(t, err)
		gone, err := bs[0].PlanSwitch(ctx, "challenge", 1, at, operator)
		must(t, err)
		must(t, bs[0].CancelPlan(ctx, "challenge", gone.Scheduled[0].ID, operator))
		wait(time.Second)
		for hangs := range 2 {
			d.set(func(d *database) { d.hangs = hangs == 1 })
			due := at.Add(time.Duration(hangs) * 10 * time.Second)
			wait(time.Until(due) - time.Millisecond)
			for i, b := range bs {
				if b.Switches().Intake != (hangs == 0) {
					t.Errorf("node %d: turned before its time", i)
				}
			}
			wait(2 * time.Millisecond)
			for i, b := range bs {
				if b.Switches().Intake == (hangs == 0) {
					t.Errorf("node %d: not turned at its time", i)
				}
				if is := b.States()[0]; is.Name != "intake" || is.Value != int64(hangs) || !is.ChangedAt.Equal(due) || is.ChangedBy != operator || len(is.Scheduled) != 1-hangs {
					t.Errorf("node %d: %+v", i, is)
				}
			}
		}
		d.set(func(d *database) { d.hangs = false })
		wait(5 * time.Second)
		if !bs[0].Switches().Intake || bs[0].Switches().Challenge || d.folds != 2 || len(d.plans) != 0 {
			t.Errorf("in the end: %+v, %d carried out, %d left", bs[0].Switches(), d.folds, len(d.plans))
		}
	})
}

// A database that goes away in the middle of an operator's change does not keep it from this node.
func TestAnOwnChangeNeedsNoReading(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *database, bs []*Board, _ *journal) {
		b := bs[0]
		b.o.Store = lostAfterwards{d}
		_, err := b.SetSwitch(t.Context(), "admission_percent", 5, operator)
		must(t, err)
		if s := b.States()[1]; b.Switches().AdmissionPercent != 5 || s.ChangedBy != operator || s.ChangedAt.IsZero() {
			t.Errorf("got %+v", s)
		}
		d.set(func(d *database) { d.away = false })
		_, err = b.AddBlock(t.Context(), seckill.BlockIP, "192.0.2.7", time.Time{}, operator)
		must(t, err)
		if b.Snapshot().Blocked(ann, "", "") == nil {
			t.Error("not blocked")
		}
	})
}

type lostAfterwards struct{ *database }

func (l lostAfterwards) SetSwitch(ctx context.Context, name string, value int64, now time.Time, by seckill.Actor) error {
	defer l.set(func(d *database) { d.away = true })
	return l.database.SetSwitch(ctx, name, value, now, by)
}

func (l lostAfterwards) AddBlock(ctx context.Context, b seckill.Block, by seckill.Actor) (seckill.Block, error) {
	defer l.set(func(d *database) { d.away = true })
	return l.database.AddBlock(ctx, b, by)
}

// Only what has changed is read, and all of it when that cannot be told any more.
func TestOnlyChangesAreRead(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *database, bs []*Board, _ *journal) {
		for i := range 20 {
			_, err := bs[0].AddBlock(t.Context(), seckill.BlockUser, fmt.Sprint(i), time.Time{}, operator)
			must(t, err)
		}
		must(t, bs[0].RemoveBlock(t.Context(), 3, operator))
		wait(time.Minute)
		if d.readWhole != 1 || bs[0].Snapshot().Blocks()[seckill.BlockUser] != 19 {
			t.Errorf("all was read %d times; %v", d.readWhole, bs[0].Snapshot().Blocks())
		}
		// Somebody else's removal was forgotten before it was read.
		d.set(func(d *database) {
			d.versions.Blocks++
			d.versions.BlockFloor = d.versions.Blocks
			d.rows = d.rows[10:]
		})
		wait(time.Second)
		if d.readWhole != 2 || bs[0].Snapshot().Blocks()[seckill.BlockUser] != 10 {
			t.Errorf("past the floor: all was read %d times; %v", d.readWhole, bs[0].Snapshot().Blocks())
		}
		d.set(func(d *database) { d.versions.Blocks, d.versions.BlockFloor, d.rows = 2, 0, nil })
		wait(time.Second)
		if d.readWhole != 3 || bs[0].Snapshot().Blocks()[seckill.BlockUser] != 0 {
			t.Errorf("a version that went back: all was read %d times; %v", d.readWhole, bs[0].Snapshot().Blocks())
		}
	})
}

// The program's own block holds at once on its node, even while the database hangs, and is in the
// database when it can be. One that is asked for again and again is written once.
func TestAutomaticBlocks(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *database, bs []*Board, _ *journal) {
		d.set(func(d *database) { d.hangs = true })
		wait(time.Second)
		if !bs[0].BlockFor(seckill.BlockIP, "192.0.2.7", time.Minute, "too fast") {
			t.Fatal("not taken")
		}
		wait(50 * time.Millisecond)
		if bs[0].Snapshot().Blocked(ann, "", "") == nil {
			t.Fatal("it does not hold")
		}
		for range 1000 {
			if bs[0].BlockFor(seckill.BlockIP, "192.0.2.7", time.Minute, "too fast") {
				t.Fatal("taken again")
			}
		}
		if bs[0].BlockFor("host", "x", time.Minute, "") || bs[0].BlockFor(seckill.BlockIP, "x", time.Minute, "") || bs[0].BlockFor(seckill.BlockIP, "192.0.2.8", 0, "") {
			t.Error("a block that cannot be is taken")
		}
		d.set(func(d *database) { d.hangs = false })
		wait(3 * time.Second)
		if bs[1].Snapshot().Blocked(ann, "", "") == nil || len(d.rows) != 1 || !d.rows[0].Automatic || d.rows[0].By.Reason != "too fast" {
			t.Fatalf("in the database: %+v", d.rows)
		}
		for range 100 {
			bs[0].BlockFor(seckill.BlockIP, "192.0.2.7", time.Minute, "too fast")
			wait(100 * time.Millisecond)
		}
		if len(d.rows) != 1 {
			t.Errorf("asked for again and again, it was written %d times", len(d.rows))
		}
		must(t, bs[1].RemoveBlock(t.Context(), d.rows[0].ID, operator))
		wait(time.Second)
		for i, b := range bs {
			if b.Snapshot().Blocked(ann, "", "") != nil {
				t.Errorf("node %d: an operator cannot remove it", i)
			}
		}
		if len(bs[0].automatic.waiting) != 0 {
			t.Errorf("%d wait still", len(bs[0].automatic.waiting))
		}
	})
}

// A flood of automatic blocks is bounded, and those that are over by then are not written.
func TestAutomaticBlocksAreBounded(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *database, bs []*Board, _ *journal) {
		d.set(func(d *database) { d.away = true })
		taken := 0
		for i := range automaticMax + 500 {
			if bs[0].BlockFor(seckill.BlockUser, fmt.Sprint(i), map[bool]time.Duration{true: time.Minute, false: time.Hour}[i%2 == 0], "x") {
				taken++
			}
		}
		if taken != automaticMax {
			t.Errorf("%d were taken", taken)
		}
		wait(time.Second)
		if n := bs[0].Snapshot().Blocks()[seckill.BlockUser]; n != automaticMax {
			t.Errorf("%d hold", n)
		}
		wait(2 * time.Minute)
		if n := bs[0].Snapshot().Blocks()[seckill.BlockUser]; n != automaticMax/2 {
			t.Errorf("%d hold when half of them are over", n)
		}
		least := automaticMax
		bs[0].Subscribe(func(s *Snapshot) { least = min(least, s.Blocks()[seckill.BlockUser]) })
		d.set(func(d *database) { d.away = false })
		wait(time.Second)
		if len(d.rows) != automaticMax/2 || len(bs[0].automatic.waiting) != 0 {
			t.Errorf("%d are in the database, %d wait", len(d.rows), len(bs[0].automatic.waiting))
		}
		if least != automaticMax/2 {
			t.Errorf("at one time no more than %d held", least)
		}
	})
}

// A list that cannot be read yet refuses nobody for good: it is not known. Lists of sales that are long
// over take no memory.
func TestListsThatAreNotReadAreNotKnown(t *testing.T) {
	bubble(t, 2, func(t *testing.T, d *database, bs []*Board, log *journal) {
		d.set(func(d *database) { d.lists = true })
		_, err := bs[0].SetAudience(t.Context(), 3, buyers("ann"), operator)
		must(t, err)
		wait(time.Second)
		if s := bs[1].Snapshot(); s.Known(listed(3)) || s.Eligible(listed(3), "ann") {
			t.Error("a list that cannot be read is known")
		}
		if bs[1].Known(bs[1].Snapshot(), listed(4)) {
			t.Error("a list that nobody has looked for is known not to be there")
		}
		wait(2 * time.Second)
		if s := bs[1].Snapshot(); !s.Known(listed(4)) || s.Eligible(listed(4), "ann") || !s.Eligible(&seckill.Activity{ID: 3, Audience: seckill.AudienceEveryone}, "bob") {
			t.Error("an activity without a list")
		}
		d.set(func(d *database) { d.lists = false })
		wait(2 * time.Second)
		if s := bs[1].Snapshot(); !s.Known(listed(3)) || !s.Eligible(listed(3), "ann") || !strings.Contains(log.String(), "audiences cannot be read") {
			t.Errorf("it was not read when it could be: %s", log)
		}
		d.set(func(d *database) {
			h := d.heads[3]
			h.EndsAt = time.Now().Add(-listsAfterEnd)
			d.heads[3] = h
		})
		wait(2 * time.Minute)
		if s := bs[1].Snapshot(); s.audiences[3].list != nil || s.Known(listed(3)) {
			t.Error("the list of a sale that is over is kept")
		}
		d.set(func(d *database) { // A new run.
			h := d.heads[3]
			h.EndsAt = time.Now().Add(time.Hour)
			d.heads[3] = h
			d.versions.Activities++
		})
		wait(time.Second)
		if s := bs[1].Snapshot(); !s.Eligible(listed(3), "ann") {
			t.Error("with another run the list has gone")
		}
		d.set(func(d *database) { delete(d.heads, 3); d.versions.Audiences++ })
		wait(time.Second)
		if s := bs[1].Snapshot(); len(s.audiences) != 0 {
			t.Error("the list of an activity that is for everyone is kept")
		}
	})
}

// A list whose reading fails changes nothing, and two are not held in memory at once.
func TestListsAreReplacedWhole(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *database, bs []*Board, _ *journal) {
		b, ctx := bs[0], t.Context()
		_, err := b.SetAudience(ctx, 3, buyers("ann"), operator)
		must(t, err)
		if _, err := b.SetAudience(ctx, 999, nil, operator); !errors.Is(err, seckill.ErrNotFound) {
			t.Errorf("no activity: %v", err)
		}
		broken := errors.New("cut off")
		_, err = b.SetAudience(ctx, 3, func(add func(string) error) error {
			must(t, add("bob"))
			_, err := b.SetAudience(ctx, 3, buyers("eve"), operator)
			if r := refused(err); r == nil || r.Reason != seckill.Conflict {
				t.Errorf("two at once: %v", err)
			}
			return broken
		}, operator)
		if !errors.Is(err, broken) || !b.Snapshot().Eligible(listed(3), "ann") || d.heads[3].Version != 1 {
			t.Errorf("after a list that broke off: %v, %+v", err, d.heads[3])
		}
		if _, err := b.SetAudience(ctx, 3, buyers(), operator); err != nil || b.Snapshot().Eligible(listed(3), "ann") {
			t.Errorf("an empty list: %v", err)
		}
	})
}

// Subscribers hear of each change, and the metrics show it.
func TestChangesAreTold(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *database, bs []*Board, _ *journal) {
		b := bs[0]
		var last *Snapshot
		b.Subscribe(func(s *Snapshot) { last = s })
		_, err := b.SetSwitch(t.Context(), "admission_percent", 40, operator)
		must(t, err)
		_, err = b.SetSwitch(t.Context(), "intake", 0, operator)
		must(t, err)
		_, err = b.AddBlock(t.Context(), seckill.BlockCIDR, "192.0.2.0/24", time.Time{}, operator)
		must(t, err)
		if last != b.Snapshot() || last.Switches.AdmissionPercent != 40 {
			t.Errorf("told %+v", last)
		}
		got := map[string]float64{}
		families, err := b.o.Metrics.Registry.Gather()
		must(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					got[f.GetName()+" "+l.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		for name, want := range map[string]float64{
			"seckill_switch intake": 0, "seckill_switch consumers": 1, "seckill_switch challenge": 0, "seckill_switch admission_percent": 40,
			"seckill_blocks cidr": 1, "seckill_blocks user": 0,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s: got %v, want %v", name, v, want)
			}
		}
	})
}

// A board that would be too slow is not made.
func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("without a store")
	}
	b, err := New(Options{Store: newDatabase(), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	if b.Switches() != seckill.DefaultSwitches() || b.Stale() < time.Hour {
		t.Errorf("a new board: %+v, stale %v", b.Switches(), b.Stale())
	}
	if _, err := New(Options{Store: newDatabase(), Log: slog.New(slog.DiscardHandler), RefreshEvery: time.Second}); err == nil {
		t.Error("with a refresh each second")
	}
}
