package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/activity"
	board "seckill/internal/control"
	"seckill/internal/telemetry"
)

const token = "s3cret-token-of-the-test"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// neighbours are all that the server talks to. Each call is noted, and fails with err if set.
type neighbours struct {
	activity.Operator // For Check and CheckRun alone.

	mu         sync.Mutex
	calls      []string
	err        error
	booksErr   error
	notReady   error
	activities []*seckill.Activity
	log        strings.Builder
	stale      time.Duration
	buyers     []string
	created    seckill.Activity
}

func newNeighbours() *neighbours {
	start := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	n := &neighbours{}
	for id := range int64(5) {
		n.activities = append(n.activities, &seckill.Activity{
			ID: id + 1, Name: fmt.Sprint("activity ", id+1), Run: 1, Epoch: 1, Phase: seckill.PhaseLoaded, Total: 100,
			StartsAt: start.AddDate(-10, 0, 0), EndsAt: start.AddDate(50, 0, 0), LimitPerUser: 1, SubStocks: 1,
			PreloadBefore: 5 * time.Minute, PaymentWindow: 15 * time.Minute, Audience: seckill.AudienceEveryone, CreatedAt: start,
		})
	}
	return n
}

func (n *neighbours) note(by seckill.Actor, format string, args ...any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, fmt.Sprintf(format, args...)+fmt.Sprintf(" by %s from %s: %s", by.Who, by.From, by.Reason))
	return n.err
}

func (n *neighbours) called() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	calls := n.calls
	n.calls = nil
	return calls
}

func (n *neighbours) find(id int64) (seckill.Activity, error) {
	for _, a := range n.activities {
		if a.ID == id {
			return *a, n.err
		}
	}
	return seckill.Activity{}, seckill.ErrNotFound
}

func (n *neighbours) command(name string, id int64, by seckill.Actor) (seckill.Activity, error) {
	if err := n.note(by, "%s %d", name, id); err != nil {
		return seckill.Activity{}, err
	}
	return n.find(id)
}

func (n *neighbours) Create(_ context.Context, a seckill.Activity, by seckill.Actor) (seckill.Activity, error) {
	n.created = a
	a.ID, a.Run = 6, 1
	return a, n.note(by, "create %s", a.Name)
}
func (n *neighbours) Get(_ context.Context, id int64) (seckill.Activity, error) { return n.find(id) }
func (n *neighbours) List(context.Context) ([]*seckill.Activity, error)         { return n.activities, n.err }
func (n *neighbours) Preload(_ context.Context, id int64, by seckill.Actor) (seckill.Activity, error) {
	return n.command("preload", id, by)
}
func (n *neighbours) Pause(_ context.Context, id int64, by seckill.Actor) (seckill.Activity, error) {
	return n.command("pause", id, by)
}
func (n *neighbours) Resume(_ context.Context, id int64, by seckill.Actor) (seckill.Activity, error) {
	return n.command("resume", id, by)
}
func (n *neighbours) Close(_ context.Context, id int64, by seckill.Actor) (seckill.Activity, error) {
	return n.command("close", id, by)
}
func (n *neighbours) Restock(_ context.Context, id, units int64, by seckill.Actor) (seckill.Activity, int64, bool, error) {
	a, err := n.command(fmt.Sprint("restock ", units), id, by)
	return a, units, false, err
}
func (n *neighbours) Rerun(_ context.Context, id int64, startsAt, endsAt time.Time, units int64, by seckill.Actor) (seckill.Activity, error) {
	return n.command(fmt.Sprint("rerun ", units), id, by)
}
func (n *neighbours) Available(seckill.RunID) (int64, bool) { return 60, true }
func (n *neighbours) Books(context.Context, seckill.RunID) (seckill.Books, error) {
	return seckill.Books{Total: 100, Available: 60, Queued: 1, AwaitingPayment: 20, Paid: 15, Dead: 4}.Balance(), n.booksErr
}
func (n *neighbours) Reconcile(_ context.Context, id int64, repair bool, by seckill.Actor) (seckill.Books, []seckill.Finding, error) {
	_, err := n.command(fmt.Sprint("reconcile ", repair), id, by)
	return seckill.Books{Total: 1, Available: 1, Balanced: true}, nil, err
}
func (n *neighbours) DeadLetters(_ context.Context, before int64, limit int) (letters []seckill.DeadLetter, err error) {
	for id := int64(3); id > 0; id-- {
		if (before == 0 || id < before) && len(letters) < limit {
			letters = append(letters, seckill.DeadLetter{ID: id, Reason: "why", Attempts: 3, Payload: []byte{0xff, byte(id)}})
		}
	}
	return letters, n.err
}
func (n *neighbours) DropDead(_ context.Context, id int64, returnStock bool, by seckill.Actor) error {
	return n.note(by, "drop %d %v", id, returnStock)
}
func (n *neighbours) Paid(_ context.Context, id, ref string, by seckill.Actor) (seckill.Order, error) {
	return seckill.Order{ID: id, State: seckill.Paid, PaymentRef: ref}, n.note(by, "paid %s %s", id, ref)
}
func (n *neighbours) Orders(_ context.Context, buyer, before string, limit int) (list []seckill.Order, err error) {
	for id := 3; id > 0; id-- {
		if text := strconv.Itoa(id); buyer == "buyer-7" && (before == "" || text < before) && len(list) < limit {
			list = append(list, seckill.Order{ID: text, Buyer: buyer, State: seckill.Paid})
		}
	}
	return list, n.err
}
func (n *neighbours) Audit(_ context.Context, before int64, limit int) (entries []seckill.AuditEntry, err error) {
	for id := int64(3); id > 0; id-- {
		if (before == 0 || id < before) && len(entries) < limit {
			entries = append(entries, seckill.AuditEntry{ID: id, Action: "activity.pause", Detail: []string{"", `{"a":1}`, `{"a"`, ""}[id]})
		}
	}
	return entries, n.err
}
func (n *neighbours) States() []seckill.SwitchState {
	return []seckill.SwitchState{
		{Name: "intake", Value: 1},
		{Name: "admission_percent", Value: 30, ChangedAt: time.Unix(1, 0), ChangedBy: seckill.Actor{Who: "ann", Reason: "too much"},
			Scheduled: []seckill.SwitchPlan{{ID: 7, Value: 100, At: time.Unix(2, 0), By: seckill.Actor{Who: "bob", Reason: "later"}}}},
		{Name: "challenge"},
		{Name: "consumers", Value: 1},
	}
}
func (n *neighbours) Stale() time.Duration { return n.stale }
func (n *neighbours) SetSwitch(_ context.Context, name string, value int64, by seckill.Actor) (seckill.SwitchState, error) {
	return seckill.SwitchState{Name: name, Value: value, ChangedAt: time.Unix(1, 0), ChangedBy: by}, n.note(by, "switch %s %d", name, value)
}
func (n *neighbours) PlanSwitch(_ context.Context, name string, value int64, at time.Time, by seckill.Actor) (seckill.SwitchState, error) {
	s := seckill.SwitchState{Name: name, Scheduled: []seckill.SwitchPlan{{ID: 8, Value: value, At: at, By: by}}}
	return s, n.note(by, "plan %s %d", name, value)
}
func (n *neighbours) CancelPlan(_ context.Context, name string, id int64, by seckill.Actor) error {
	return n.note(by, "cancel %s %d", name, id)
}
func (n *neighbours) CheckBlock(kind seckill.BlockKind, value string) []seckill.FieldError {
	_, wrong := board.Canonical(kind, value)
	return wrong
}
func (n *neighbours) Blocks(_ context.Context, before int64, limit int) (list []seckill.Block, err error) {
	for id := int64(3); id > 0; id-- {
		if (before == 0 || id < before) && len(list) < limit {
			list = append(list, seckill.Block{ID: id, Kind: seckill.BlockUser, Value: "eve", Automatic: id == 2, By: seckill.Actor{Who: "system", Reason: "fast"}})
		}
	}
	return list, n.err
}
func (n *neighbours) AddBlock(_ context.Context, kind seckill.BlockKind, value string, until time.Time, by seckill.Actor) (seckill.Block, error) {
	return seckill.Block{ID: 4, Kind: kind, Value: value, Until: until, By: by}, n.note(by, "block %s %s %v", kind, value, !until.IsZero())
}
func (n *neighbours) RemoveBlock(_ context.Context, id int64, by seckill.Actor) error {
	return n.note(by, "unblock %d", id)
}
func (n *neighbours) Audience(_ context.Context, id int64) (seckill.AudienceState, error) {
	_, err := n.find(id)
	return seckill.AudienceState{Activity: id}, err
}
func (n *neighbours) SetAudience(_ context.Context, id int64, read func(func(string) error) error, by seckill.Actor) (seckill.AudienceState, error) {
	if _, err := n.find(id); err != nil {
		return seckill.AudienceState{}, err
	}
	n.buyers = nil
	if err := read(func(b string) error { n.buyers = append(n.buyers, b); return nil }); err != nil {
		return seckill.AudienceState{}, err
	}
	return seckill.AudienceState{Count: int64(len(n.buyers)), Version: 5, UpdatedAt: time.Unix(1, 0)}, n.note(by, "audience %d", id)
}
func (n *neighbours) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(p)
}
func (n *neighbours) logged() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

func (n *neighbours) server(t *testing.T, change func(*Options)) *Server {
	t.Helper()
	o := Options{
		Operator: n, Levels: n, Books: n, Reconciler: n, Desk: n, Audit: n, Metrics: telemetry.New("test"),
		Switches: n, Blocks: n, Audiences: n, Accounts: newPeople(n), Live: &onceFeed{},
		Nodes: func(context.Context) ([]seckill.Node, time.Time, error) {
			return []seckill.Node{{ID: "n1", Roles: []string{"gateway"}, SeenAt: time.Unix(5, 0)}, {ID: "n2"}}, time.Unix(6, 0), n.err
		},
		RetryDead: func(_ context.Context, id int64, by seckill.Actor) (Retry, error) {
			return Retry{Outcomes: []seckill.Outcome{{Progress: seckill.Failed, Reason: seckill.SoldOut}}}, n.note(by, "retry %d", id)
		},
		Log: slog.New(slog.NewTextHandler(n, nil)), Token: token, Ready: func() error { return n.notReady },
		Console: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				notFound(w, r)
			}
		}),
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	must(t, err)
	return s
}

// ask sends a request with the token, and whatever change adds.
func ask(s http.Handler, method, path, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// problemOf reads a problem, and fails the test if the answer is none.
func problemOf(t *testing.T, w *httptest.ResponseRecorder) (reason string, fields map[string]string) {
	t.Helper()
	var p struct {
		Status int
		Reason string
		Msg    string
		Errors []struct{ Field, Rule string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Msg == "" ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("not a problem: %d %v %s", w.Code, w.Header(), w.Body)
	}
	fields = map[string]string{}
	for _, f := range p.Errors {
		fields[f.Field] = f.Rule
	}
	return p.Reason, fields
}

// broken is a body that ends in the middle.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

var errSecret = errors.New("dial tcp 10.0.0.7:3306: refused")
