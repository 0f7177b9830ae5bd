package cli_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	words "seckill"
	"seckill/internal/account"
	"seckill/internal/activity"
	"seckill/internal/admin"
	"seckill/internal/console"
	"seckill/internal/control"
	"seckill/internal/sqlstore"
	"seckill/internal/telemetry"
)

// nobody stands in for those neighbours of the admin API that have nothing to do with the control state.
type nobody struct{ *activity.Operator }

func (nobody) List(context.Context) ([]*words.Activity, error) { return nil, nil }
func (nobody) Available(words.RunID) (int64, bool)             { return 0, false }
func (nobody) Books(context.Context, words.RunID) (b words.Books, err error) {
	return b, nil
}
func (nobody) Reconcile(context.Context, int64, bool, words.Actor) (b words.Books, f []words.Finding, err error) {
	return b, f, nil
}
func (nobody) DeadLetters(context.Context, int64, int) ([]words.DeadLetter, error) { return nil, nil }
func (nobody) DropDead(context.Context, int64, bool, words.Actor) error            { return nil }
func (nobody) Paid(context.Context, string, string, words.Actor) (o words.Order, err error) {
	return o, nil
}
func (nobody) Orders(context.Context, string, string, int) ([]words.Order, error) { return nil, nil }

// controlled starts an admin API whose control state is real, with one activity for listed buyers.
func controlled(t *testing.T) (environ []string, db *sqlstore.DB, board *control.Board) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "c.db"), sqlstore.Options{})
	check(err)
	t.Cleanup(func() { check(db.Close()) })
	check(db.Migrate(t.Context()))
	_, err = db.CreateActivity(t.Context(), words.Activity{
		Name: "x", Total: 1, StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), LimitPerUser: 1, SubStocks: 1, Audience: words.AudienceListed,
	}, words.Actor{})
	check(err)
	log := slog.New(slog.DiscardHandler)
	board, err = control.New(control.Options{Store: db, Log: log})
	check(err)
	check(board.Refresh(t.Context()))
	people, err := account.New(account.Options{Store: db, Token: token, Log: log})
	check(err)
	api, err := admin.New(admin.Options{
		Accounts: people,
		Operator: nobody{}, Levels: nobody{}, Books: nobody{}, Reconciler: nobody{}, Desk: nobody{}, Audit: db, Metrics: telemetry.New("test"), Log: log,
		RetryDead: func(context.Context, int64, words.Actor) (r admin.Retry, err error) { return r, nil },
		Switches:  board, Blocks: board, Audiences: board, Token: token, Ready: func() error { return nil }, Console: console.Handler(),
		Guards: func() []words.Guard {
			return []words.Guard{{Name: "backlog", Acting: true, Since: time.Now(), Reason: "too many wait", Figure: "7 of 5"}}
		},
	})
	check(err)
	s := httptest.NewServer(api)
	t.Cleanup(s.Close)
	return []string{"SECKILL_SERVER=" + s.URL, "SECKILL_ADMIN_TOKEN=" + token}, db, board
}

// Switches, blocks and audiences by the command line, against the real control state.
func TestControlCommands(t *testing.T) {
	environ, db, board := controlled(t)
	run := func(status int, want string, args ...string) string {
		t.Helper()
		r := seckill(t, environ, args...)
		if got := r.stdout + r.stderr; r.status != status || !regexp.MustCompile(want).MatchString(got) {
			t.Fatalf("%q: got status %d and\n%s\nwant %d and %s", args, r.status, got, status, want)
		}
		return r.stdout
	}
	run(0, `(?s)intake +true +true +- +- +-\nadmission_percent +100 .*backlog +true .* 7 of 5 +too many wait`, "switch", "list")
	run(0, "Every purchase would be refused", "switch", "set", "intake", "off", "--reason", "why", "--dry-run")
	run(0, `intake +true`, "switch", "list")
	run(0, `intake +false +true .* admin-token +为什么\n`, "switch", "set", "intake", "off", "--reason", "为什么")
	run(0, `(?s)SCHEDULED.*1 +intake +true +20.* admin-token +later\n`, "switch", "set", "intake", "on", "--at", "+1h", "--reason", "later")
	run(0, `(?s)intake +false .*1 +intake +true`, "switch", "list")
	run(0, `scheduled change 1 of intake: taken back`, "switch", "cancel", "intake", "1")
	run(1, `not_found`, "switch", "cancel", "intake", "1", "--json")
	run(0, `^\{"name":"admission_percent","value":0,`, "switch", "set", "admission_percent", "0", "--reason", "x", "--json")
	if s := board.Switches(); s.Intake || s.AdmissionPercent != 0 {
		t.Errorf("the board shows %+v", s)
	}
	// What the server finds wrong is said by the flag's name.
	run(2, `seckill: --at: .*later than now`, "switch", "set", "intake", "on", "--at", "2020-01-01T00:00:00Z", "--reason", "x")

	run(0, "There are no blocks", "block", "list")
	run(0, `1 +cidr +192.0.2.0/24 +20.* operator +admin-token +scripts\n`, "block", "add", "cidr", "192.0.2.7/24", "--for", "2h", "--reason", "scripts")
	run(0, `2 +user +eve +- `, "block", "add", "user", "eve", "--reason", "x")
	run(0, `3 +device +d +2030-`, "block", "add", "device", "d", "--until", "2030-06-01T00:00:00Z", "--reason", "x")
	run(2, `seckill: value: `, "block", "add", "ip", "192.0.2", "--reason", "x")
	run(0, `(?s)3 +device.*2 +user.*1 +cidr`, "block", "list")
	run(0, "block 2: removed", "block", "remove", "2", "--reason", "a mistake")
	run(1, "not_found", "block", "remove", "2")
	var list struct{ Blocks []map[string]any }
	if err := json.Unmarshal([]byte(run(0, "", "block", "list", "--json")), &list); err != nil || len(list.Blocks) != 2 {
		t.Errorf("got %+v and %v", list, err)
	}

	run(0, "activity 1: there is no list of buyers", "activity", "audience", "1")
	text, array := filepath.Join(t.TempDir(), "buyers.txt"), filepath.Join(t.TempDir(), "buyers")
	for name, content := range map[string]string{text: "ann\nbob\nann\n", array: ` ["eve"]`} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(0, "activity 1: 2 buyers, version 1", "activity", "audience", "1", text, "--reason", "the list")
	sale := &words.Activity{ID: 1, Audience: words.AudienceListed}
	if s := board.Snapshot(); !s.Eligible(sale, "bob") || s.Eligible(sale, "eve") {
		t.Error("the list does not hold")
	}
	run(0, `^\{"count":1,"version":2,`, "activity", "audience", "1", array, "--json")
	run(0, "activity 1: 1 buyers, version 2", "activity", "audience", "1")
	run(1, "not_found", "activity", "audience", "9", array)

	entries, err := db.Audit(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action+":"+e.Actor.Reason)
	}
	const want = "activity.audience: activity.audience:the list block.remove:a mistake block.add:x block.add:x block.add:scripts " +
		"switch.set:x switch.unschedule: switch.schedule:later switch.set:为什么 activity.create:"
	if got := strings.Join(actions, " "); got != want {
		t.Errorf("audit: got %s\nwant %s", got, want)
	}
}
