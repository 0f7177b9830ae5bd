package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/config"
)

// opened is a program that is opened and not run; closing gives back what it holds.
func opened(t *testing.T, c config.Config) *App {
	t.Helper()
	a, err := New(t.Context(), c, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// Each limit that is on has its metric of what it has forgotten; one that is off has none.
func TestLimitsHaveTheirMetric(t *testing.T) {
	c := testConfig(t)
	c.LimitDevice.PerSecond, c.LimitDevice.Burst = 0, 0
	families, err := opened(t, c).metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range families {
		if f.GetName() == "seckill_limit_forgotten_total" {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = true
			}
		}
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"abuse", "ip", "user"}) {
		t.Errorf("got %q", names)
	}
}

// A buyer of an activity whose list nobody has looked for is told to come again, and by then it was looked for.
func TestABuyerHasTheListLookedFor(t *testing.T) {
	a := opened(t, testConfig(t))
	act := &seckill.Activity{ID: 7, Audience: seckill.AudienceListed}
	c := controls{a.board}
	if eligible, known := c.Eligible(act, "ann"); eligible || known {
		t.Errorf("at first: got eligible %v, known %v, want neither", eligible, known)
	}
	if err := a.board.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if eligible, known := c.Eligible(act, "ann"); eligible || !known {
		t.Errorf("after the look: got eligible %v, known %v, want a definite no", eligible, known)
	}
}

// The first buyer who asks hears whether he is on the list: whether an activity has one is known as soon as it can be
// bought from, though nobody has asked.
func TestListsAreKnownBeforeBuyersAsk(t *testing.T) {
	a, err := New(t.Context(), testConfig(t), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	ask := asker(t)
	now := time.Now().UTC()
	status, body := ask("POST", "http://"+a.AdminAddr()+"/admin/v1/activities", "Authorization", "Bearer token",
		fmt.Sprintf(`{"name":"x","stock":1,"audience":"listed","starts_at":%q,"ends_at":%q}`, now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)))
	if status != http.StatusCreated {
		t.Fatalf("create: %d %s", status, body)
	}
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		act, ok := a.registry.Activity(1)
		if ok && a.board.Snapshot().Known(act) {
			break
		}
		select {
		case <-deadline:
			t.Fatal("whether there is a list is not known after 10 s")
		case <-tick.C:
		}
	}
	if status, body = ask("POST", "http://"+a.PublicAddr()+"/v1/activities/1/purchases", "X-User-Id", "stranger", ""); status != http.StatusForbidden || !strings.Contains(body, "not_eligible") {
		t.Errorf("a stranger: %d %s", status, body)
	}
}
