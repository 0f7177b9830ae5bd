package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill/internal/cli"
)

// The server's engine leaves a goroutine behind for up to ten seconds after it has shut
// down, and one for ever that keeps the time of day; neither can be told to end.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// ran is what a command did.
type ran struct {
	status         int
	stdout, stderr string
}

// seckill runs a command line in this process, with variables as "NAME=value".
func seckill(t *testing.T, environ []string, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	status := cli.Run(t.Context(), args, &out, &errs, environ)
	return ran{status, out.String(), errs.String()}
}

// screen is a stream that a test reads while a command writes.
type screen struct {
	mu      sync.Mutex
	text    strings.Builder
	written chan struct{}
}

func newScreen() *screen { return &screen{written: make(chan struct{}, 1)} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	select {
	case s.written <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the screen shows what found looks for.
func (s *screen) await(t *testing.T, what string, found func(text string) bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !found(s.String()) {
		select {
		case <-s.written:
		case <-deadline:
			t.Fatalf("there is no %s on the screen:\n%s", what, s.String())
		}
	}
}

const token = "0perator"

// server is `seckill serve` in this process.
type server struct {
	public, admin string
	environ       []string // For commands that talk to it.
	out           *screen
	stop          func() int
}

func start(t *testing.T, args ...string) *server {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{out: newScreen()}
	errs := newScreen()
	ended := make(chan int, 1)
	args = append([]string{"serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--auth=open", "--data", t.TempDir(), "--log-format=json", "--simulate-payment",
		"--limit-ip=off", "--limit-user=off", "--limit-device=off"}, args...)
	go func() {
		ended <- cli.Run(ctx, args, s.out, errs, []string{"SECKILL_ADMIN_TOKEN=" + token})
	}()
	s.stop = sync.OnceValue(func() int { cancel(); return <-ended })
	t.Cleanup(func() { s.stop() })
	var said struct{ Msg, Public, Admin string }
	s.out.await(t, "line about the addresses", func(text string) bool {
		for line := range strings.Lines(text) {
			if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
				return true
			}
		}
		return false
	})
	s.public, s.admin = "http://"+said.Public, "http://"+said.Admin
	s.environ = []string{"SECKILL_SERVER=" + s.admin, "SECKILL_ADMIN_TOKEN=" + token}
	return s
}

// An operator's whole day through the command line, against a real server.
func TestOperatorsDay(t *testing.T) {
	s := start(t)
	run := func(status int, want string, args ...string) string {
		t.Helper()
		r := seckill(t, s.environ, args...)
		if r.status != status || !strings.Contains(r.stdout+r.stderr, want) {
			t.Fatalf("%q: got status %d, %q and %q; want %d and %q", args, r.status, r.stdout, r.stderr, status, want)
		}
		return r.stdout
	}
	run(0, "There are no activities", "activity", "list")
	run(0, "10 total = 10 available", "activity", "create", "--name", "水壶", "--stock", "10", "--starts-at", "now", "--for", "1h", "--price-cents", "990", "--reason", "a test")
	run(0, "9.90", "activity", "list")
	run(0, "水壶", "activity", "show", "1")

	body := run(0, "", "activity", "show", "1", "--json")
	var shown struct {
		ID    int64
		Books map[string]any
	}
	if err := json.Unmarshal([]byte(body), &shown); err != nil || shown.ID != 1 || shown.Books["balanced"] != true {
		t.Errorf("got %s and %v", body, err)
	}
	run(0, "paused", "activity", "pause", "1")
	run(0, "open", "activity", "resume", "1")
	run(0, "+5 units", "activity", "restock", "1", "--quantity", "5")
	run(0, "-15 units", "activity", "restock", "1", "--quantity", "-100")
	run(0, "+15 units", "activity", "restock", "1", "--quantity", "15")
	run(0, "", "activity", "preload", "1")

	run(0, "15 total = 0 available + 0 queued + 15 awaiting payment", "bench", "--server", s.public, "--server-admin", s.admin, "--buyers", "40", "--clicks", "2", "--activity", "1")
	run(0, "activity 1: 15 total = ", "reconcile", "1")
	run(0, "activity 1: 15 total = ", "reconcile", "--repair")
	run(0, "There are no dead letters", "dead", "list")
	run(1, "not_found", "dead", "retry", "7")
	run(1, "not_found", "dead", "drop", "7", "--write-off")
	run(1, "not_found", "activity", "show", "99")

	run(0, "ended", "activity", "close", "1")
	run(0, "run", "activity", "rerun", "1", "--stock", "3", "--starts-at", "+1h", "--for", "1h")
	if text := run(0, "", "activity", "show", "1"); !strings.Contains(text, "3 total = 3 available") {
		t.Errorf("got %q, want the second run's books", text)
	}
	if r := seckill(t, []string{"SECKILL_SERVER=" + s.admin, "SECKILL_ADMIN_TOKEN=wr0ng"}, "activity", "list"); r.status != 1 || !strings.Contains(r.stderr, "is the admin token the one") || strings.Contains(r.stderr, "wr0ng") {
		t.Errorf("got status %d and %q", r.status, r.stderr)
	}
	if status := s.stop(); status != 0 {
		t.Errorf("the server ended with %d:\n%s", status, s.out)
	}
	if text := s.out.String(); strings.Contains(text, token) || !strings.Contains(text, `"stopped"`) {
		t.Errorf("the log shows the token, or not the end:\n%s", text)
	}
}

// What the server finds wrong with a value is told by the flag's name, as a fault of the
// command line.
func TestServersVerdictOnFlags(t *testing.T) {
	s := start(t)
	r := seckill(t, s.environ, "activity", "create", "--name", "x", "--stock", "-1", "--limit-per-user", "-2", "--starts-at", "now", "--for", "1h")
	if r.status != 2 || !strings.Contains(r.stderr, "seckill: --stock: ") || !strings.Contains(r.stderr, "seckill: --limit-per-user: ") || strings.Count(r.stderr, "\n") != 2 {
		t.Errorf("got status %d and %q", r.status, r.stderr)
	}
}

// A demo with simulated buyers sells out, balances, and ends by itself.
func TestDemoSellsOut(t *testing.T) {
	var out, errs bytes.Buffer
	status := cli.Run(t.Context(), []string{
		"demo", "--starts-in=300ms", "--stock=7", "--buyers=60", "--exit", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--data", t.TempDir(),
	}, &out, &errs, []string{"LANG=en_US.UTF-8"})
	for _, want := range []string{"buyer page", "console", "admin token", "The sale is open.", "7 of 7 units, to 7 of 60 buyers who clicked 180 times", "7 total = 0 available + 0 queued + 7 awaiting payment + 0 paid + 0 dead: balanced", "sold out after", "no unit oversold"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
	if status != 0 || errs.Len() > 0 || t.Failed() {
		t.Errorf("got status %d\n%s\n%s", status, &out, &errs)
	}
}

// Without --exit the demo stays until it is stopped, speaks the terminal's language, and
// takes its folder with it.
func TestDemoStaysUntilStopped(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs := newScreen(), newScreen()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, []string{"demo", "--starts-in=0s", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"}, out, errs, []string{"LANG=zh_CN.UTF-8"})
	}()
	out.await(t, "last line", func(text string) bool { return strings.Contains(text, "Ctrl-C") })
	for _, want := range []string{"抢购页面", "管理令牌", "100 件「演示水壶」", "开抢了"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	cancel()
	if status := <-ended; status != 0 {
		t.Errorf("got status %d and %q", status, errs)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 { //nolint:usetesting // Where the demo would leave something.
		t.Errorf("%q are left", left)
	}
}

// Migrating twice is harmless.
func TestMigrate(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "m.db")
	for range 2 {
		if r := seckill(t, nil, "migrate", "--database", db); r.status != 0 || !strings.Contains(r.stdout, "up to date") {
			t.Errorf("got %+v", r)
		}
	}
	if r := seckill(t, nil, "migrate", "--database", "mysql://u:s3cret@127.0.0.1:1/n"); r.status != 1 || strings.Contains(r.stderr, "s3cret") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("got %+v", r)
	}
}
