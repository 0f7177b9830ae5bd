package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"seckill/internal/testenv"
)

// adminToken is what every server of these tests is started with.
const adminToken = "token-of-the-tests"

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "seckill-e2e-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(folder, "seckill")
	build := exec.Command("go", "build", "-o", binary, "seckill/cmd/seckill")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// server is the program as a process of its own, with a data folder that outlives it.
type server struct {
	t             *testing.T
	args          []string
	data          string
	listen, admin string
	cmd           *exec.Cmd
	exited        chan error
	log           *lockedBuffer
	http          *http.Client
}

// lockedBuffer keeps what the process writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts `seckill serve` with open identities, and waits until it is ready. It is
// killed with the test.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{
		t: t, args: args, data: t.TempDir(), listen: freeAddr(t), admin: freeAddr(t), log: &lockedBuffer{},
		http: &http.Client{
			Timeout:   20 * time.Second,
			Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256},
		},
	}
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		s.kill()
		if t.Failed() {
			t.Logf("the server said:\n%s", s.log)
		}
	})
	s.start()
	return s
}

func freeAddr(t *testing.T) string {
	t.Helper()
	return testenv.FreePort(t)
}

// start starts the process (again) and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	args := append([]string{
		"serve", "--listen", s.listen, "--admin-listen", s.admin, "--data", s.data,
		"--auth", "open", "--simulate-payment", "--limit-ip", "off", "--limit-user", "off", "--limit-device", "off",
	}, s.args...)
	s.cmd = exec.Command(binary, args...)
	s.cmd.Env = append(os.Environ(), "SECKILL_ADMIN_TOKEN="+adminToken)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, exited := make(chan error), make(chan error, 1)
	s.exited = exited
	go func(cmd *exec.Cmd) {
		// The server dies with the thread that started it, and a thread may end with somebody
		// else's locked goroutine: this one is the server's own.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	}(s.cmd)
	must(s.t, <-started)
	await(s.t, "the server to be ready", func() bool {
		select {
		case err := <-exited:
			s.t.Fatalf("the server ended at its start: %v\n%s", err, s.log)
		default:
		}
		resp, err := s.http.Get("http://" + s.admin + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// kill ends the process by SIGKILL and waits for its end.
func (s *server) kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	s.cmd.Process.Kill()
	s.ended(10 * time.Second)
}

// ended waits for the end of the process and returns how it exited.
func (s *server) ended(patience time.Duration) (err error, ok bool) {
	if s.cmd == nil {
		return nil, true
	}
	select {
	case err := <-s.exited:
		s.cmd = nil
		return err, true
	case <-time.After(patience):
		return nil, false
	}
}

// answer is what the server said.
type answer struct {
	status int
	header http.Header
	body   []byte
	json   map[string]any
}

func (a answer) str(key string) string {
	v, _ := a.json[key].(string)
	return v
}

func (a answer) num(key string) int64 {
	v, _ := a.json[key].(json.Number)
	n, _ := v.Int64()
	return n
}

// call makes one request; an error is a connection that broke.
func (s *server) call(method, url, buyer string, header map[string]string, body string) (answer, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if buyer != "" {
		req.Header.Set("X-User-Id", buyer)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, err
	}
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := decoder.Decode(&a.json); err != nil {
			return a, fmt.Errorf("the answer is no JSON: %w: %.200q", err, a.body)
		}
	}
	return a, nil
}

// ask is a buyer's request that has to be answered.
func (s *server) ask(method, path, buyer, body string) answer {
	s.t.Helper()
	a, err := s.call(method, "http://"+s.listen+path, buyer, nil, body)
	must(s.t, err)
	return a
}

// order is an operator's request that has to be answered.
func (s *server) operate(method, path, body string) answer {
	s.t.Helper()
	a, err := s.call(method, "http://"+s.admin+path, "", map[string]string{"Authorization": "Bearer " + adminToken}, body)
	must(s.t, err)
	return a
}

// activity creates one that opens after a delay and lasts for an hour; more is JSON of
// further fields.
func (s *server) activity(stock int, delay time.Duration, more string) int64 {
	s.t.Helper()
	now := time.Now().UTC()
	a := s.operate("POST", "/admin/v1/activities", fmt.Sprintf(`{"name":"test","stock":%d,"starts_at":%q,"ends_at":%q%s}`,
		stock, now.Add(delay).Format(time.RFC3339Nano), now.Add(time.Hour).Format(time.RFC3339Nano), more))
	if a.status != http.StatusCreated {
		s.t.Fatalf("create activity: %d %s", a.status, a.body)
	}
	return a.num("id")
}

// books of an activity's present run.
type books struct {
	Total           int64 `json:"total"`
	Available       int64 `json:"available"`
	Queued          int64 `json:"queued"`
	AwaitingPayment int64 `json:"awaiting_payment"`
	Paid            int64 `json:"paid"`
	Dead            int64 `json:"dead"`
	Balanced        bool  `json:"balanced"`
}

func (s *server) books(activity int64) books {
	s.t.Helper()
	a := s.operate("GET", fmt.Sprintf("/admin/v1/activities/%d", activity), "")
	var got struct{ Books books }
	must(s.t, json.Unmarshal(a.body, &got))
	return got.Books
}

// settled waits until nothing is in motion, and returns the books, which balance.
func (s *server) settled(activity int64) books {
	s.t.Helper()
	var b books
	await(s.t, "the books to balance with nothing queued", func() bool {
		b = s.books(activity)
		return b.Balanced && b.Queued == 0
	})
	return b
}

// buy is one click. An unknown answer (a broken connection, 503) is an error.
func (s *server) buy(activity int64, buyer, key string, quantity int) (answer, error) {
	header := map[string]string{}
	if key != "" {
		header["Idempotency-Key"] = key
	}
	a, err := s.call("POST", fmt.Sprintf("http://%s/v1/activities/%d/purchases", s.listen, activity), buyer, header, fmt.Sprintf(`{"quantity":%d}`, quantity))
	if err == nil && a.status >= 500 {
		return a, fmt.Errorf("%w: %d %s", errUnknown, a.status, a.str("reason"))
	}
	return a, err
}

var errUnknown = errors.New("unknown outcome")

// final waits for the end of a ticket.
func (s *server) final(buyer, ticket string) answer {
	s.t.Helper()
	var a answer
	await(s.t, "ticket "+ticket+" to be final", func() bool {
		a = s.ask("GET", "/v1/tickets/"+ticket, buyer, "")
		if a.status == http.StatusServiceUnavailable {
			return false // A busy machine: the stock did not answer in time.
		}
		if a.status != http.StatusOK {
			s.t.Fatalf("ticket %s: %d %s", ticket, a.status, a.body)
		}
		return a.str("state") != "queued"
	})
	return a
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await asks again and again until it is so, for at most 30 s.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
