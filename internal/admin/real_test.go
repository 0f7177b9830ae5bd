package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/account"
	"seckill/internal/activity"
	"seckill/internal/admin"
	"seckill/internal/console"
	"seckill/internal/control"
	"seckill/internal/live"
	"seckill/internal/order"
	"seckill/internal/reconcile"
	"seckill/internal/sqlstore"
	"seckill/internal/telemetry"
	"seckill/stock"
)

const token = "s3cret-token-of-the-test"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node starts a console on a database: accounts, sessions, switches, audit log, nodes and the live
// stream are the real ones. Nothing is for sale on it.
func node(t *testing.T, db *sqlstore.DB, id string) (url string) {
	t.Helper()
	log, metrics := slog.New(slog.DiscardHandler), telemetry.New("test")
	desk, err := account.New(account.Options{Store: db, Token: token, Log: log})
	must(t, err)
	board, err := control.New(control.Options{Store: db, Log: log, Metrics: metrics})
	must(t, err)
	must(t, board.Refresh(t.Context()))
	reporter, err := live.New(live.Options{
		Metrics: metrics, Store: db, ID: id, Node: func() seckill.Node { return seckill.Node{Roles: []string{"console"}, StartedAt: time.Now()} }, Log: log, Console: true,
		Activities: func() []*seckill.Activity { return nil },
		Books:      func(context.Context, seckill.RunID) (seckill.Books, error) { return seckill.Books{}, nil },
		Level:      func(seckill.RunID) (stock.Level, bool) { return stock.Level{}, false },
	})
	must(t, err)
	s, err := admin.New(admin.Options{
		Operator: &activity.Operator{}, Levels: &activity.Registry{}, Books: &reconcile.Reconciler{}, Reconciler: &reconcile.Reconciler{}, Desk: &order.Desk{Store: db},
		RetryDead: func(context.Context, int64, seckill.Actor) (admin.Retry, error) { return admin.Retry{}, nil },
		Audit:     db, Switches: board, Metrics: metrics, Log: log, Token: token, Ready: func() error { return nil },
		Console: console.Handler(), Accounts: desk, Live: reporter, Nodes: db.Nodes, PurchaseRate: reporter.PurchaseRate,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reporter.Run(ctx) }()
	server := httptest.NewUnstartedServer(s)
	server.Config.RegisterOnShutdown(s.EndStreams)
	server.Start()
	t.Cleanup(func() {
		s.EndStreams()
		server.Close()
		cancel()
		must(t, <-ended)
	})
	return server.URL
}

// person is a browser.
type person struct {
	t      *testing.T
	client *http.Client
	csrf   string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &person{t: t, client: &http.Client{Jar: jar, Timeout: 30 * time.Second}}
}

func (p *person) ask(method, url, body string) (status int, text string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, url, bytes.NewBufferString(body))
	must(p.t, err)
	if p.csrf != "" {
		r.Header.Set("X-CSRF-Token", p.csrf)
	}
	answer, err := p.client.Do(r)
	must(p.t, err)
	defer func() { must(p.t, answer.Body.Close()) }()
	got, err := io.ReadAll(answer.Body)
	must(p.t, err)
	return answer.StatusCode, string(got)
}

func (p *person) logIn(url, body string) int {
	p.t.Helper()
	status, text := p.ask("POST", url+"/admin/v1/session", body)
	var s struct{ CSRF string }
	must(p.t, json.Unmarshal([]byte(text), &s))
	p.csrf = s.CSRF
	return status
}

func (p *person) expect(want int, method, url, body string) string {
	p.t.Helper()
	got, text := p.ask(method, url, body)
	if got != want {
		p.t.Fatalf("%s %s: got %d %s, want %d", method, url, got, text, want)
	}
	return text
}

// An administrator, a second operator, a viewer and a stranger do, over two consoles on one database, what
// they should and nothing else, and the audit log tells all of it.
func TestPeopleAtTwoConsoles(t *testing.T) {
	db, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "db"), sqlstore.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, db.Migrate(t.Context()))
	one, two := node(t, db, "one"), node(t, db, "two")
	const accounts, intake = "/admin/v1/accounts", "/admin/v1/switches/intake"
	const password = "correct horse battery"

	chief := newPerson(t)
	if got := chief.logIn(one, `{"token":"`+token+`"}`); got != 200 {
		t.Fatalf("by token: %d", got)
	}
	for _, who := range []string{"olga:operator", "oscar:operator", "vic:viewer"} {
		name, role, _ := strings.Cut(who, ":")
		chief.expect(201, "POST", one+accounts, fmt.Sprintf(`{"name":%q,"password":%q,"role":%q,"reason":"new here"}`, name, password, role))
	}
	// The session of one node is one of the other, and so are the accounts.
	if list := chief.expect(200, "GET", two+accounts, ""); strings.Count(list, `"name"`) != 3 || strings.Contains(list, "argon2") {
		t.Errorf("accounts: %s", list)
	}

	olga, vic, stranger := newPerson(t), newPerson(t), newPerson(t)
	for _, c := range []struct {
		p    *person
		body string
		want int
	}{
		{olga, `{"name":"olga","password":"` + password + `"}`, 200}, {vic, `{"name":"vic","password":"` + password + `"}`, 200},
		{stranger, `{"name":"vic","password":"a guess of mine"}`, 401}, {stranger, `{"name":"` + password + `","password":"olga"}`, 401}, {stranger, `{"token":"a guess of mine"}`, 401},
	} {
		if got := c.p.logIn(two, c.body); got != c.want {
			t.Fatalf("%s: %d, want %d", c.body, got, c.want)
		}
	}
	off := `{"value":false,"reason":"too much"}`
	olga.expect(200, "PUT", two+intake, off)
	for status, p := range map[int]*person{403: vic, 401: stranger} {
		p.expect(status, "PUT", one+intake, off)
		p.expect(status, "GET", one+accounts, "")
		p.expect(map[int]int{403: 200, 401: 401}[status], "GET", one+"/admin/v1/switches", "")
	}
	olga.expect(403, "POST", one+accounts, `{"name":"eve","password":"`+password+`","role":"admin"}`)
	chief.expect(409, "POST", two+accounts, `{"name":"olga","password":"`+password+`","role":"admin"}`)

	// Who is made less may less at once; who is disabled is out, also where he was not disabled, within moments.
	chief.expect(200, "PUT", one+accounts+"/olga", `{"disabled":true}`)
	olga.expect(401, "PUT", one+intake, off)
	for status := 0; status != 401; <-time.After(50 * time.Millisecond) {
		status, _ = olga.ask("GET", two+"/admin/v1/session", "")
	}
	if got := olga.logIn(one, `{"name":"olga","password":"`+password+`"}`); got != 401 {
		t.Errorf("disabled, and logs in: %d", got)
	}
	vic.expect(204, "DELETE", two+"/admin/v1/session", "")
	vic.expect(401, "GET", two+"/admin/v1/session", "")
	chief.expect(204, "DELETE", one+accounts+"/oscar", "")

	audited(t, chief.expect(200, "GET", one+"/admin/v1/audit", ""), password)
	bothLive(t, chief, one, two)
}

// audited checks that the log tells everything of the evening, and no secret.
func audited(t *testing.T, text, password string) {
	t.Helper()
	var log struct {
		Audit []struct{ Who, From, Reason, Action, Object string }
	}
	must(t, json.Unmarshal([]byte(text), &log))
	var got []string
	for _, e := range log.Audit {
		got = append(got, strings.TrimSpace(strings.Join([]string{e.Who, e.Action, e.Object, e.Reason}, " ")))
		if e.From != "127.0.0.1" {
			t.Errorf("from %q", e.From)
		}
	}
	want := `admin-token account.remove account/oscar
vic session.logout account/vic
olga session.refused account/olga
admin-token account.change account/olga
olga switch.set switch/intake too much
admin-token session.refused account/admin-token
unknown session.refused account/unknown
vic session.refused account/vic
vic session.login account/vic
olga session.login account/olga
admin-token account.create account/vic new here
admin-token account.create account/oscar new here
admin-token account.create account/olga new here
admin-token session.login account/admin-token`
	if all := strings.Join(got, "\n"); all != want || strings.Contains(text, password) || strings.Contains(text, "guess") || strings.Contains(text, "argon2") {
		t.Errorf("audit:\n%s\nwant:\n%s", all, want)
	}
}

// bothLive checks that both nodes are there, and that the stream of one counts both.
func bothLive(t *testing.T, chief *person, one, two string) {
	t.Helper()
	for !strings.Contains(chief.expect(200, "GET", two+"/admin/v1/nodes", ""), `"id":"one"`) {
		<-time.After(50 * time.Millisecond)
	}
	answer, err := chief.client.Get(one + "/admin/v1/live")
	must(t, err)
	defer func() { must(t, answer.Body.Close()) }()
	var event bytes.Buffer
	for !strings.Contains(event.String(), `"nodes":2`) {
		_, err := io.CopyN(&event, answer.Body, 1)
		must(t, err)
	}
	if !strings.Contains(event.String(), "event: live\ndata: {\"at\":") || !strings.Contains(event.String(), `"node":"one"`) {
		t.Errorf("events: %s", &event)
	}
}
