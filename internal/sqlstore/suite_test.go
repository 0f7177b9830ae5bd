package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill"
	"seckill/internal/order"
	"seckill/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// claims hold of every database. Each runs on an empty one.
var claims = []struct {
	name  string
	check func(*testing.T, *place)
}{
	{"Migrate", claimMigrate},
	{"Write", claimWrite},
	{"Refuse", claimRefuse},
	{"WriteTogether", claimWriteTogether},
	{"LastUnits", claimLastUnits},
	{"RefuseWaits", claimRefuseWaits},
	{"Faults", claimFaults},
	{"Move", claimMove},
	{"Expire", claimExpire},
	{"ExpireRuns", claimExpireRuns},
	{"RaceOfPayCancelExpire", claimRace},
	{"Lists", claimLists},
	{"Todos", claimTodos},
	{"DeadLetters", claimDeadLetters},
	{"BuryOrWrite", claimBuryOrWrite},
	{"Activities", claimActivities},
	{"Restock", claimRestock},
	{"OldRuns", claimOldRuns},
	{"Repair", claimRepair},
	{"RepairIsAudited", claimRepairIsAudited},
	{"Identity", claimIdentity},
	{"Switches", claimSwitches},
	{"Plans", claimPlans},
	{"Blocks", claimBlocks},
	{"AutomaticBlocks", claimAutomaticBlocks},
	{"BlocksAreBounded", claimBlocksAreBounded},
	{"BlocksTogether", claimBlocksTogether},
	{"Audiences", claimAudiences},
	{"Nodes", claimNodes},
	{"SharedKeys", claimSharedKeys},
	{"Notes", claimNotes},
	{"Accounts", claimAccounts},
	{"AccountsAreBounded", claimAccountsAreBounded},
	{"Sessions", claimSessions},
	{"SessionsEnd", claimSessionsEnd},
	{"LoginsTogether", claimLoginsTogether},
	{"Webhooks", claimWebhooks},
	{"WebhookOutbox", claimWebhookOutbox},
	{"WebhookPayload", claimWebhookPayload},
	{"WebhookLease", claimWebhookLease},
	{"WebhookOrder", claimWebhookOrder},
	{"WebhookDeliveries", claimWebhookDeliveries},
	{"WebhookSweep", claimWebhookSweep},
	{"Chaos", claimChaos},
}

// place is one empty database of a test.
type place struct {
	*DB
	url   string
	races int // How often a race is run.
}

func TestSQLite(t *testing.T) {
	for _, c := range claims {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, open(t, sqliteURL(t), 1000))
		})
	}
}

func TestMariaDB(t *testing.T) {
	server := testenv.MariaDB(t, testenv.MariaFast...)
	for _, c := range claims {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, open(t, server.URL(t), 200))
		})
	}
}

func sqliteURL(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "a b%?#.db") }

func open(t testing.TB, url string, races int) *place {
	t.Helper()
	db, err := Open(t.Context(), url, Options{})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, db.Migrate(t.Context()))
	return &place{DB: db, url: url, races: races}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal reports what differs, got before want.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

// raw runs a statement past the store, as somebody with a client would.
func (p *place) raw(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := p.write.ExecContext(t.Context(), query, args...)
	must(t, err)
}

var operator = seckill.Actor{Who: "operator", From: "192.0.2.1", Reason: "a test"}

// sale makes an activity of so many units whose orders have to be paid within window.
func (p *place) sale(t testing.TB, units int64, window time.Duration) seckill.RunID {
	t.Helper()
	start := time.Now().Truncate(time.Second).UTC()
	a, err := p.CreateActivity(t.Context(), seckill.Activity{
		Name: "茶杯", PriceCents: 250, Total: units, StartsAt: start, EndsAt: start.Add(time.Hour),
		LimitPerUser: 1, SubStocks: 1, PreloadBefore: 5 * time.Minute, PaymentWindow: window, Audience: seckill.AudienceEveryone,
	}, operator)
	must(t, err)
	return a.RunID()
}

// buyers makes reservations of one unit by so many buyers.
func buyers(run seckill.RunID, from, to int) []seckill.Reservation {
	var rs []seckill.Reservation
	for i := from; i < to; i++ {
		rs = append(rs, reservation(run, fmt.Sprintf("buyer-%d", i), 1))
	}
	return rs
}

func reservation(run seckill.RunID, buyer string, quantity int) seckill.Reservation {
	return seckill.Reservation{
		Ticket: seckill.NewTicket(run), Run: run, Buyer: buyer, Quantity: quantity, Slot: 1,
		ReservedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
}

func (p *place) mustWrite(t testing.TB, run seckill.RunID, rs ...seckill.Reservation) []order.Written {
	t.Helper()
	w, err := p.WriteOrders(t.Context(), run, rs)
	must(t, err)
	if len(w) != len(rs) {
		t.Fatalf("%d answers to %d reservations", len(w), len(rs))
	}
	return w
}

// mustOrder writes one reservation, which has to become a new order.
func (p *place) mustOrder(t testing.TB, r seckill.Reservation) seckill.Order {
	t.Helper()
	w := p.mustWrite(t, r.Run, r)[0]
	if w.Order == nil || !w.New {
		t.Fatalf("no new order, but %+v", w)
	}
	return *w.Order
}

// balanced checks the books of a run in the database by SQL of the test's own.
func (p *place) balanced(t testing.TB, run seckill.RunID, total, live int64) {
	t.Helper()
	var gotTotal, available, gotLive int64
	must(t, p.write.QueryRowContext(t.Context(),
		"SELECT total_stock, available_stock FROM seckill_stock WHERE activity_id = ? AND run = ?", run.Activity, run.Run).
		Scan(&gotTotal, &available))
	var sum sql.NullInt64
	must(t, p.write.QueryRowContext(t.Context(),
		"SELECT SUM(quantity) FROM seckill_order WHERE activity_id = ? AND run = ? AND status IN (1, 2)", run.Activity, run.Run).
		Scan(&sum))
	gotLive = sum.Int64
	if gotTotal != total || gotLive != live || available != total-live {
		t.Fatalf("total %d, live %d, available %d; want %d, %d, %d", gotTotal, gotLive, available, total, live, total-live)
	}
}

// together runs functions at once and fails with their errors.
func together(t testing.TB, fs ...func(context.Context) error) {
	t.Helper()
	errs := make(chan error, len(fs))
	start := make(chan struct{})
	for _, f := range fs {
		go func() { <-start; errs <- f(t.Context()) }()
	}
	close(start)
	for range fs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func (p *place) isSQLite() bool { return strings.HasPrefix(p.url, "sqlite:") }
