package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"
	"go.uber.org/goleak"

	"seckill"
	"seckill/internal/auth"
	"seckill/internal/page"
	"seckill/internal/telemetry"
	"seckill/stock"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The engine's clock for the Date header never ends, and what looks for idle
		// workers sleeps for up to ten seconds after its listener has closed.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// world is a door with made-up neighbours behind it.
type world struct {
	*Server
	t      *testing.T
	client *http.Client
	dial   func() (net.Conn, error)
	served chan error
	log    *syncBuilder

	mu        sync.Mutex
	list      []*seckill.Activity
	available map[seckill.RunID]int64

	reserve  func(a *seckill.Activity, at seckill.Attempt) (stock.Decision, error)
	asked    atomic.Int64
	attempts []seckill.Attempt

	outcomeOf func(buyer, ticket string) (seckill.Outcome, error)
	ordersOf  map[string]seckill.Order
	deskErr   error
}

// syncBuilder is a log that may be written and read at once.
type syncBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (w *world) Activity(id int64) (*seckill.Activity, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.list {
		if a.ID == id {
			return a, true
		}
	}
	return nil, false
}

func (w *world) Activities() []*seckill.Activity {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list
}

func (w *world) Available(run seckill.RunID) (int64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.available[run]
	return n, ok
}

func (w *world) Reserve(_ context.Context, a *seckill.Activity, at seckill.Attempt) (stock.Decision, error) {
	w.asked.Add(1)
	w.mu.Lock()
	w.attempts = append(w.attempts, at)
	reserve := w.reserve
	w.mu.Unlock()
	return reserve(a, at)
}

func (w *world) setReserve(f func(a *seckill.Activity, at seckill.Attempt) (stock.Decision, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reserve = f
}

func (w *world) Outcome(_ context.Context, buyer, ticket string) (seckill.Outcome, error) {
	w.mu.Lock()
	f := w.outcomeOf
	w.mu.Unlock()
	return f(buyer, ticket)
}

func (w *world) setOutcome(f func(buyer, ticket string) (seckill.Outcome, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomeOf = f
}

func (w *world) find(id, buyer string) (seckill.Order, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, ok := w.ordersOf[id]
	if w.deskErr != nil {
		return o, w.deskErr
	}
	if !ok || o.Buyer != buyer {
		return o, fmt.Errorf("order %s: %w", id, seckill.ErrNotFound)
	}
	return o, nil
}

// deskOf is the desk of a world: its names would clash with the door's own.
type deskOf struct{ w *world }

func (d deskOf) Order(_ context.Context, buyer, id string) (seckill.Order, error) {
	return d.w.find(id, buyer)
}

func (d deskOf) Orders(_ context.Context, buyer, before string, max int) (list []seckill.Order, err error) {
	for id := 9; id > 0 && len(list) < max; id-- {
		s := fmt.Sprint(id)
		if o, err := d.w.find(s, buyer); err == nil && (before == "" || s < before) {
			list = append(list, o)
		}
	}
	return list, d.w.deskErr
}

func (d deskOf) Cancel(_ context.Context, buyer, id string) (seckill.Order, error) {
	return d.move(id, buyer, seckill.Cancelled, "")
}

func (d deskOf) Pay(_ context.Context, buyer, id, ref string) (seckill.Order, error) {
	return d.move(id, buyer, seckill.Paid, ref)
}

func (d deskOf) move(id, buyer string, to seckill.OrderState, ref string) (seckill.Order, error) {
	o, err := d.w.find(id, buyer)
	if err != nil {
		return o, err
	}
	if o.State != to && o.State != seckill.AwaitingPayment {
		return o, seckill.Refuse(seckill.Conflict)
	}
	o.State, o.PaymentRef = to, ref
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.ordersOf[id] = o
	return o, nil
}

// sale is an open activity.
func sale(id int64) *seckill.Activity {
	return &seckill.Activity{
		ID: id, Name: "手机 <Phone>", Description: "d", PriceCents: 12345, Run: 2, Epoch: 7, Phase: seckill.PhaseLoaded, Total: 100,
		StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour), LimitPerUser: 1, SubStocks: 1,
		PaymentWindow: 15 * time.Minute, Audience: seckill.AudienceEveryone,
	}
}

// open makes a world with an open sale 1 that everybody can buy from, served in memory.
func open(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	ln := fasthttputil.NewInmemoryListener()
	return openOn(t, ln, ln.Dial, change...)
}

// openTCP is open on a real socket.
func openTCP(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return openOn(t, ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }, change...)
}

func openOn(t *testing.T, ln net.Listener, dial func() (net.Conn, error), change ...func(*Options)) *world {
	t.Helper()
	w := &world{
		t: t, dial: dial, list: []*seckill.Activity{sale(1)}, available: map[seckill.RunID]int64{{Activity: 1, Run: 2}: 100},
		ordersOf: map[string]seckill.Order{}, log: &syncBuilder{}, served: make(chan error, 1),
	}
	w.reserve = func(_ *seckill.Activity, at seckill.Attempt) (stock.Decision, error) {
		return stock.Decision{Verdict: stock.Taken, Ticket: at.Ticket, Ahead: 7, Left: 1}, nil
	}
	w.outcomeOf = func(string, string) (seckill.Outcome, error) { return seckill.Outcome{}, seckill.ErrNotFound }
	o := bare(w)
	o.Log = slog.New(slog.NewTextHandler(w.log, nil))
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	must(t, err)
	w.Server = s
	w.client = &http.Client{
		Transport: &http.Transport{
			DialContext:        func(context.Context, string, string) (net.Conn, error) { return dial() },
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	go func() { w.served <- s.Serve(ln) }()
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		must(t, s.Shutdown(ctx))
		must(t, <-w.served)
	})
	return w
}

// bare is the options of a door in front of a world.
func bare(w *world) Options {
	return Options{
		Activities: w, Reserver: w, Outcomes: w, Desk: deskOf{w}, Auth: auth.Open(), Metrics: telemetry.New("test"), Announce: time.Millisecond,
		Page: func(path string) (page.Asset, bool) { return page.Asset{}, false },
	}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	json   map[string]any
	closes bool // The connection ends after it.
}

// do sends a request; headers are "Name: value".
func (w *world) do(method, path, body string, headers ...string) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, "http://shop"+path, strings.NewReader(body))
	must(w.t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header[name] = append(req.Header[name], value)
	}
	res, err := w.client.Do(req)
	must(w.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	must(w.t, err)
	a := answer{status: res.StatusCode, header: res.Header, body: string(raw), closes: res.Close}
	if strings.Contains(res.Header.Get("Content-Type"), "json") && len(raw) > 0 {
		if err := json.Unmarshal(raw, &a.json); err != nil {
			w.t.Fatalf("%s %s: %s: %v", method, path, raw, err)
		}
	}
	return a
}

// buy sends a purchase of one unit of sale 1.
func (w *world) buy(buyer string, headers ...string) answer {
	w.t.Helper()
	return w.do("POST", "/v1/activities/1/purchases", "", append(headers, "X-User-Id: "+buyer)...)
}

// refused checks that an answer is a problem with a reason, and returns the first field it names.
func (a answer) refused(t *testing.T, what string, status int, reason string) (field, rule string) {
	t.Helper()
	if a.status != status || a.json["reason"] != reason || a.json["status"] != float64(status) || a.header.Get("Content-Type") != "application/problem+json" || a.json["msg"] == "" {
		t.Errorf("%s: got %d %s %v, want %d %s", what, a.status, a.body, a.header, status, reason)
	}
	if (status == 429 || status == 503) != (a.header.Get("Retry-After") != "") {
		t.Errorf("%s: status %d with Retry-After %q", what, status, a.header.Get("Retry-After"))
	}
	if list, _ := a.json["errors"].([]any); len(list) > 0 {
		one := list[0].(map[string]any)
		field, _ = one["field"].(string)
		rule, _ = one["rule"].(string)
	}
	return field, rule
}

// raw sends bytes over a connection of its own, and reads one answer.
func (w *world) raw(request string) (answer, error) {
	w.t.Helper()
	c, err := w.dial()
	must(w.t, err)
	defer c.Close()
	go io.WriteString(c, request)
	must(w.t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: res.StatusCode, header: res.Header, body: string(raw), closes: res.Close}
	_ = json.Unmarshal(raw, &a.json)
	return a, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("%s: not after 10 s", what)
		case <-tick.C:
		}
	}
}

// hanging is a reserver that never answers.
type hanging struct{ free chan struct{} }

func (h hanging) Reserve(ctx context.Context, _ *seckill.Activity, _ seckill.Attempt) (stock.Decision, error) {
	select {
	case <-h.free:
	case <-ctx.Done():
	}
	return stock.Decision{}, ctx.Err()
}
