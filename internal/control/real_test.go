package control_test

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/control"
	"seckill/internal/sqlstore"
	"seckill/internal/testenv"
)

var operator = seckill.Actor{Who: "operator", From: "192.0.2.1", Reason: "a test"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node is a board with connections of its own, as a process has them. It runs until the test ends.
func node(t *testing.T, url string) (*control.Board, *sqlstore.DB) {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
	must(t, err)
	must(t, db.Migrate(t.Context()))
	b, err := control.New(control.Options{Store: db, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, b.Refresh(t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) }) // It has no error to tell.
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = db.Close() // The server may have been killed.
	})
	return b, db
}

// within fails unless a board shows something in ten times the time that it should take: a machine that runs
// other tests as well takes its time. It logs how long it took.
func within(t *testing.T, most time.Duration, b *control.Board, what string, seen func(*control.Snapshot) bool) {
	t.Helper()
	began := time.Now()
	for !seen(b.Snapshot()) {
		if time.Since(began) > 10*most {
			t.Fatalf("%s: not seen after %v", what, time.Since(began))
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Logf("%s: seen after %v, wanted within %v", what, time.Since(began), most)
}

func listedSale(t *testing.T, db *sqlstore.DB) *seckill.Activity {
	t.Helper()
	a, err := db.CreateActivity(t.Context(), seckill.Activity{
		Name: "x", Total: 1, StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), LimitPerUser: 1, SubStocks: 1, Audience: seckill.AudienceListed,
	}, operator)
	must(t, err)
	return &a
}

// What one node changes, another on the same database shows within a second.
func twoNodes(t *testing.T, url string) {
	ctx := t.Context()
	here, db := node(t, url)
	there, _ := node(t, url)
	sale := listedSale(t, db)
	eve := netip.MustParseAddr("192.0.2.66")

	_, err := here.SetSwitch(ctx, seckill.SwitchIntake, 0, operator)
	must(t, err)
	if here.Switches().Intake {
		t.Error("not turned at once where it was")
	}
	within(t, time.Second, there, "a switch", func(s *control.Snapshot) bool { return !s.Switches.Intake })

	due := time.Now().Add(1500 * time.Millisecond)
	_, err = here.PlanSwitch(ctx, seckill.SwitchIntake, 1, due, operator)
	must(t, err)
	within(t, 1600*time.Millisecond, there, "a plan", func(s *control.Snapshot) bool { return s.Switches.Intake })
	if time.Now().Before(due) {
		t.Error("a plan was carried out early")
	}

	made, err := here.AddBlock(ctx, seckill.BlockCIDR, "192.0.2.0/24", time.Time{}, operator)
	must(t, err)
	within(t, time.Second, there, "a block", func(s *control.Snapshot) bool { return s.Blocked(eve, "", "") != nil })
	must(t, here.RemoveBlock(ctx, made.ID, operator))
	within(t, time.Second, there, "its removal", func(s *control.Snapshot) bool { return s.Blocked(eve, "", "") == nil })
	here.BlockFor(seckill.BlockDevice, "d", time.Minute, "too fast")
	within(t, time.Second, there, "an automatic block", func(s *control.Snapshot) bool { return s.Blocked(eve, "", "d") != nil })

	_, err = here.SetAudience(ctx, sale.ID, func(add func(string) error) error { return add("ann") }, operator)
	must(t, err)
	if s := here.Snapshot(); !s.Eligible(sale, "ann") || s.Eligible(sale, "bob") {
		t.Error("the list does not hold at once where it was sent")
	}
	within(t, time.Second, there, "an audience", func(s *control.Snapshot) bool { return s.Eligible(sale, "ann") })

	// The plan is in the database by now, once, in the name of who made it.
	entries, err := db.Audit(ctx, 0, 100)
	must(t, err)
	carriedOut := 0
	for _, e := range entries {
		if e.Action == "switch.set" && e.Actor == operator {
			carriedOut++
		}
	}
	if carriedOut != 2 {
		t.Errorf("the audit log tells of %d turns, want 2", carriedOut)
	}
}

func TestTwoNodesOnSQLite(t *testing.T) {
	twoNodes(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
}

func TestTwoNodesOnMariaDB(t *testing.T) {
	twoNodes(t, testenv.MariaDB(t, testenv.MariaFast...).URL(t))
}

// A list of a million is replaced while buyers are asked for, and seen whole by another node.
func TestAMillionBuyers(t *testing.T) {
	server := testenv.MariaDB(t, testenv.MariaFast...)
	for name, url := range map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "x.db"), "MariaDB": server.URL(t)} {
		t.Run(name, func(t *testing.T) {
			here, db := node(t, url)
			there, _ := node(t, url)
			sale := listedSale(t, db)
			buyer := func(list, i int) string {
				return "550e8400-e29b-41d4-000" + strconv.Itoa(list) + "-" + strconv.Itoa(100_000_000_000+i)
			}
			for list := range 2 {
				began := time.Now()
				state, err := here.SetAudience(t.Context(), sale.ID, func(add func(string) error) error {
					for i := range 1_000_000 {
						if err := add(buyer(list, i)); err != nil {
							return err
						}
					}
					return nil
				}, operator)
				must(t, err)
				t.Logf("stored in %v", time.Since(began))
				if state.Count != 1_000_000 || state.Version != int64(list+1) {
					t.Fatalf("stored %+v", state)
				}
				within(t, 2*time.Second, there, "a million", func(s *control.Snapshot) bool { return s.Eligible(sale, buyer(list, 999_999)) })
				s := there.Snapshot()
				for i := 0; i < 1_000_000; i += 89 {
					if !s.Eligible(sale, buyer(list, i)) || s.Eligible(sale, buyer(1-list, i)) {
						t.Fatalf("list %d: buyer %d is taken for the wrong one", list, i)
					}
				}
			}
		})
	}
}

// A database that is killed takes nothing with it: everything keeps its last value, plans go by the
// clock, and the program's own blocks hold. When it is back, all of it goes on.
func TestTheDatabaseIsKilled(t *testing.T) {
	server := testenv.MariaDB(t)
	url := server.URL(t)
	b, db := node(t, url)
	sale := listedSale(t, db)
	_, err := b.SetSwitch(t.Context(), seckill.SwitchAdmissionPercent, 25, operator)
	must(t, err)
	_, err = b.AddBlock(t.Context(), seckill.BlockUser, "eve", time.Time{}, operator)
	must(t, err)
	_, err = b.SetAudience(t.Context(), sale.ID, func(add func(string) error) error { return add("ann") }, operator)
	must(t, err)
	_, err = b.PlanSwitch(t.Context(), seckill.SwitchIntake, 0, time.Now().Add(2*time.Second), operator)
	must(t, err)
	server.Kill()
	within(t, 5*time.Second, b, "an outage", func(*control.Snapshot) bool { return b.Stale() > time.Second })
	b.BlockFor(seckill.BlockUser, "mallory", time.Minute, "too fast")
	within(t, 3*time.Second, b, "a plan without a database", func(s *control.Snapshot) bool { return !s.Switches.Intake })
	s := b.Snapshot()
	if s.Switches.AdmissionPercent != 25 || s.Blocked(netip.Addr{}, "eve", "") == nil || s.Blocked(netip.Addr{}, "mallory", "") == nil || !s.Eligible(sale, "ann") {
		t.Errorf("something was forgotten: %+v", s.Switches)
	}
	server.Start(t)
	within(t, 5*time.Second, b, "the end of the outage", func(*control.Snapshot) bool { return b.Stale() < time.Second })
	other, _ := node(t, url)
	within(t, 5*time.Second, other, "what happened meanwhile", func(s *control.Snapshot) bool {
		return !s.Switches.Intake && s.Switches.AdmissionPercent == 25 && s.Blocked(netip.Addr{}, "mallory", "") != nil && s.Eligible(sale, "ann")
	})
}
