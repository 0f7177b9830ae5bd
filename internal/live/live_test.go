package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill"
	"seckill/internal/telemetry"
	"seckill/stock"
)

// neighbours is a database in memory with a clock that is wrong, and what a node knows of a sale.
type neighbours struct {
	mu       sync.Mutex
	nodes    map[string]seckill.Node
	beats    int
	err      error
	booksErr error
	counts   int
	list     []*seckill.Activity
	log      strings.Builder
}

// ahead is what the database's clock is ahead of the nodes'.
const ahead = 3 * time.Hour

func (n *neighbours) Beat(_ context.Context, node seckill.Node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.beats++
		node.SeenAt = time.Now().Add(ahead)
		n.nodes[node.ID] = node
	}
	return n.err
}

func (n *neighbours) Leave(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.nodes, id)
	return n.err
}

func (n *neighbours) Nodes(context.Context) ([]seckill.Node, time.Time, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.nodes)), time.Now().Add(ahead), n.err
}

func (n *neighbours) Books(context.Context, seckill.RunID) (seckill.Books, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts++
	return seckill.Books{Total: 100, Available: 60, Queued: 10, AwaitingPayment: 20, Paid: 6, Dead: 4}.Balance(), n.booksErr
}

func (n *neighbours) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(p)
}

func (n *neighbours) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func newNeighbours() *neighbours {
	n := &neighbours{nodes: map[string]seckill.Node{}}
	n.list = []*seckill.Activity{n.activity(2), n.activity(1)}
	return n
}

func (n *neighbours) activity(id int64) *seckill.Activity {
	return &seckill.Activity{ID: id, Name: fmt.Sprint("a", id), Run: 3, Phase: seckill.PhaseLoaded, Total: 100,
		StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour)}
}

// node makes a reporter of a console, and its metrics.
func (n *neighbours) node(t *testing.T, id string) (*Reporter, *telemetry.Metrics) {
	t.Helper()
	m := telemetry.New("test")
	r, err := New(Options{
		Metrics: m, Store: n, ID: id, Node: func() seckill.Node { return seckill.Node{Version: "v"} }, Log: slog.New(slog.NewTextHandler(n, nil)), Console: true,
		Activities: func() []*seckill.Activity { return n.list }, Books: n.Books,
		Level: func(seckill.RunID) (stock.Level, bool) {
			return stock.Level{Available: 50, Queued: 14, AwaitingPayment: 30, Paid: 6}, true
		},
		Guards: func() []seckill.Guard {
			return []seckill.Guard{{Name: "breaker"}, {Name: "backlog", Acting: true, Since: time.Unix(9, 0), Reason: "r", Figure: "f"}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

// run runs a reporter until the test is told to stop it.
func run(t *testing.T, r *Reporter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func watch(t *testing.T, r *Reporter) (next func() event, stop func()) {
	t.Helper()
	wait, stop, err := r.Watch()
	if err != nil {
		t.Fatal(err)
	}
	return func() event {
		t.Helper()
		id, text, err := wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var e event
		if err := json.Unmarshal(text, &e); err != nil || id == 0 {
			t.Fatalf("%d %s: %v", id, text, err)
		}
		return e
	}, stop
}

func seconds(n float64) { <-time.After(time.Duration(n * float64(time.Second))) }

// A second's purchases, orders and waits are told as they were, with the books and what acts by itself.
func TestASecondIsToldAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNeighbours()
		r, m := n.node(t, "one")
		if _, known := r.PurchaseRate(); known {
			t.Error("a rate is known before anything was measured")
		}
		m.Purchases[seckill.NoReason].Add(1000) // Before it began: no rate.
		defer run(t, r)()
		next, stop := watch(t, r)
		defer stop()
		seconds(0.5)
		m.Purchases[seckill.NoReason].Add(30)
		m.Purchases[seckill.SoldOut].Add(400)
		m.OrdersWritten.WithLabelValues("confirmed").Add(25)
		m.OrdersWritten.WithLabelValues("failed").Add(7)
		for i := range 1000 {
			m.PurchaseSeconds.Observe(0.001 + float64(i)*0.00001)
		}
		m.OrderLagSeconds.Observe(0.1)
		m.QueueBacklog.WithLabelValues("1").Set(5)
		m.QueueBacklog.WithLabelValues("2").Set(7)
		m.QueueOldest.Set(1.25)
		e := next()
		if want := map[string]float64{"accepted": 30, "sold_out": 400}; !maps.Equal(e.Outcomes, want) || e.Orders != 25 || e.Backlog != 12 || e.Oldest != 1.3 || e.Node != "one" || e.Nodes != 1 {
			t.Errorf("event: %+v", e)
		}
		if rate, known := r.PurchaseRate(); rate != 430 || !known {
			t.Errorf("rate: %v, %v", rate, known)
		}
		near := func(what string, got *float64, want float64) {
			t.Helper()
			if got == nil || math.Abs(*got-want) > 0.15*want {
				t.Errorf("%s: got %v, want about %v", what, got, want)
			}
		}
		near("p50", e.Latency.P50, 6)
		near("p90", e.Latency.P90, 10)
		near("p99", e.Latency.P99, 12) // The bucket goes to 12.8.
		near("p99 of the orders", e.Lag.P99, 128)
		books := seckill.Books{Total: 100, Available: 60, Queued: 10, AwaitingPayment: 20, Paid: 6, Dead: 4, Balanced: true}
		want := []activity{{1, 3, "a1", seckill.StateOpen, books}, {2, 3, "a2", seckill.StateOpen, books}}
		if !slices.Equal(e.Activities, want) {
			t.Errorf("activities: got %+v, want %+v", e.Activities, want)
		}
		if len(e.Guards) != 2 || e.Guards[0].Since != nil || !e.Guards[1].Acting || !e.Guards[1].Since.Equal(time.Unix(9, 0)) {
			t.Errorf("guards: %+v", e.Guards)
		}
		if quiet := next(); quiet.Outcomes["accepted"] != 0 || quiet.Orders != 0 || quiet.Latency.P50 == nil || !quiet.At.After(e.At) {
			t.Errorf("a second without purchases: %+v", quiet)
		}
		for range readingsMax {
			e = next()
		}
		if e.Latency.P50 != nil || e.Lag.P50 != nil {
			t.Errorf("quantiles of nothing: %+v, %+v", e.Latency, e.Lag)
		}
	})
}

// Rates of all nodes add up, the worst wait is shown, and a node that fell silent counts no more.
func TestNodesAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNeighbours()
		one, m1 := n.node(t, "one")
		two, m2 := n.node(t, "two")
		n.nodes["odd"] = seckill.Node{ID: "odd", SeenAt: time.Now().Add(ahead + time.Hour), Figures: "{not ours"}
		n.nodes["gone"] = seckill.Node{ID: "gone", SeenAt: time.Now().Add(ahead - freshFor), Figures: `{"o":{"accepted":1000}}`}
		defer run(t, one)()
		stopTwo := run(t, two)
		next, stop := watch(t, one)
		defer stop()
		var e event
		seconds(0.5)
		for range 8 { // Each second alike, so that it does not matter which the others have heard of.
			seconds(1)
			m1.Purchases[seckill.NoReason].Add(10)
			m2.Purchases[seckill.NoReason].Add(5)
			m2.Purchases[seckill.RateLimited].Add(2)
			m1.PurchaseSeconds.Observe(0.001)
			m2.PurchaseSeconds.Observe(1)
			m2.OrderLagSeconds.Observe(1)
			e = next()
		}
		if want := map[string]float64{"accepted": 15, "sold_out": 0, "rate_limited": 2}; !maps.Equal(e.Outcomes, want) || e.Nodes != 3 {
			t.Errorf("%d nodes, %v; want 3, %v", e.Nodes, e.Outcomes, want)
		}
		if e.Latency.P50 == nil || *e.Latency.P50 < 800 || e.Lag.P50 == nil {
			t.Errorf("the worst wait: %+v, %+v", e.Latency, e.Lag)
		}
		stopTwo()
		seconds(2.5)
		if e = next(); e.Nodes != 2 {
			t.Errorf("%d nodes after one has left", e.Nodes)
		}
		n.set(func() { n.nodes["odd"] = seckill.Node{ID: "odd", SeenAt: time.Now().Add(ahead)} })
		seconds(freshFor.Seconds() + 2.5)
		if e = next(); e.Nodes != 1 {
			t.Errorf("%d nodes after one fell silent", e.Nodes)
		}
	})
}

// The database being away ends no stream: this node's own figures go on, and the books become
// those that it knows of the stock. It is said once in the log.
func TestTheDatabaseMayBeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNeighbours()
		r, m := n.node(t, "one")
		n.nodes["two"] = seckill.Node{ID: "two", SeenAt: time.Now().Add(ahead + time.Hour), Figures: `{"o":{"accepted":7}}`}
		defer run(t, r)()
		next, stop := watch(t, r)
		defer stop()
		next()
		if e := next(); e.Nodes != 2 || e.Outcomes["accepted"] != 7 || e.Activities[0].Available != 60 {
			t.Fatalf("before: %+v", e)
		}
		n.set(func() { n.err, n.booksErr = errors.New("away"), errors.New("away") })
		seconds(freshFor.Seconds() + 1)
		m.Purchases[seckill.NoReason].Add(3)
		e := next()
		for e.Outcomes["accepted"] == 0 {
			e = next()
		}
		want := seckill.Books{Total: 100, Available: 50, Queued: 10, AwaitingPayment: 30, Paid: 6, Dead: 4, Balanced: true}
		if e.Nodes != 1 || e.Outcomes["accepted"] != 3 || e.Activities[0].Books != want {
			t.Errorf("away: %+v", e)
		}
		n.set(func() { n.err, n.booksErr = nil, nil })
		seconds(2.5)
		if e := next(); e.Nodes != 2 || e.Activities[0].Available != 60 {
			t.Errorf("afterwards: %+v", e)
		}
		if log := n.log.String(); strings.Count(log, "does not answer") != 1 || strings.Count(log, "answers again") != 1 {
			t.Errorf("log: %s", log)
		}
	})
}

// Consoles share one text, a slow one skips, too many are refused, and nobody is kept waiting at the end.
func TestWatchersShareAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNeighbours()
		r, _ := n.node(t, "one")
		stopRun := run(t, r)
		seconds(5.5)
		if body := r.sample.Load().body; body != nil {
			t.Errorf("nobody watches, and it was made: %s", body)
		}
		counted := n.counts
		if counted != len(n.list) {
			t.Errorf("nobody watches, and books were counted %d times in 5 s", counted)
		}
		first, stopFirst, err := r.Watch()
		if err != nil {
			t.Fatal(err)
		}
		second, stopSecond, _ := r.Watch()
		idA, a, _ := first(t.Context())
		_, b, _ := second(t.Context())
		if &a[0] != &b[0] {
			t.Error("two consoles have a text each")
		}
		seconds(10)
		idB, _, _ := first(t.Context())
		if late := time.UnixMilli(idB).Sub(time.UnixMilli(idA)); late < 9*time.Second {
			t.Errorf("a slow console was given what was of %v later", late)
		}
		var stops []func()
		for range watchersMax - 2 {
			_, stop, err := r.Watch()
			if err != nil {
				t.Fatal(err)
			}
			stops = append(stops, stop)
		}
		if _, _, err := r.Watch(); err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("one more than the most: %v", err)
		}
		stops[0]()
		stops[0]()
		_, again, err := r.Watch()
		if err != nil {
			t.Errorf("after one has gone: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := second(ctx); err == nil {
			if _, _, err = second(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("after its end: %v", err)
			}
		}
		for _, stop := range append(stops[1:], again, stopFirst, stopSecond) {
			stop()
		}
		if got := r.watchers.Load(); got != 0 {
			t.Errorf("%d watch for ever", got)
		}
		stopRun()
		if len(n.nodes) != 0 {
			t.Errorf("the node is still listed: %v", n.nodes)
		}
	})
}

// A node that is no console beats all the same, and asks for nothing.
func TestEveryNodeBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, m := newNeighbours(), telemetry.New("test")
		r, err := New(Options{Metrics: m, Store: n, ID: "w", Node: func() seckill.Node { return seckill.Node{Version: "v"} }, Log: slog.Default()})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, r)
		seconds(1.5)
		m.Purchases[seckill.NoReason].Add(3)
		seconds(2)
		n.set(func() {
			if n.beats != 4 || n.nodes["w"].Version != "v" || !strings.HasPrefix(n.nodes["w"].Figures, `{"o":{"accepted":`) {
				t.Errorf("%d beats in 3.5 s, %+v", n.beats, n.nodes)
			}
		})
		stop()
		for _, o := range []Options{{}, {Metrics: m, Store: n, ID: "w", Node: func() seckill.Node { return seckill.Node{} }, Log: slog.Default(), Console: true}} {
			if _, err := New(o); err == nil {
				t.Errorf("made of %+v", o)
			}
		}
	})
}

// A quantile lies where the observations are, whatever buckets they fall in.
func TestQuantiles(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Buckets: []float64{1, 2, 4}})
	if q := histogram(h).quantile(0.5); q != nil {
		t.Errorf("of nothing: %v", *q)
	}
	for range 10 {
		h.Observe(1.5)
	}
	before := histogram(h)
	for _, v := range []float64{3, 3, 3, 3, 100, 100, 100, 100} {
		h.Observe(v)
	}
	after := histogram(h).since(before)
	for q, want := range map[float64]float64{0.25: 3000, 0.5: 4000, 0.9: 4000, 1: 4000} {
		if got := after.quantile(q); got == nil || *got != want {
			t.Errorf("quantile %v: got %v, want %v", q, *got, want)
		}
	}
	if got := before.quantile(0.5); *got != 1500 {
		t.Errorf("before: got %v, want 1500", *got)
	}
}

// There is a bound to what a sample shows: what goes on first, then what ended last.
func TestActivitiesAreBounded(t *testing.T) {
	n := newNeighbours()
	r, _ := n.node(t, "one")
	n.list = nil
	for id := range int64(3 * activitiesMax) {
		a := n.activity(id + 1)
		a.EndsAt = time.Now().Add(-time.Duration(id+1) * time.Hour)
		n.list = append(n.list, a)
	}
	n.list = append(n.list, n.activity(1000))
	shown := r.shown(time.Now())
	if len(shown) != activitiesMax || shown[0].ID != 1 || shown[activitiesMax-2].ID != activitiesMax-1 || shown[activitiesMax-1].ID != 1000 {
		t.Errorf("%d shown, from %d, then %d, %d", len(shown), shown[0].ID, shown[activitiesMax-2].ID, shown[activitiesMax-1].ID)
	}
	r.count(t.Context())
	n.list = n.list[:1]
	r.count(t.Context())
	if got := len(r.books.runs); got != 1 {
		t.Errorf("the books of %d runs are kept, want 1", got)
	}
}

// A rate is of a second, however long it was between two readings, and of readings at one moment there is none.
func TestRatesAreOfASecond(t *testing.T) {
	m := telemetry.New("test")
	start := time.Now()
	before := read(m, start)
	m.Purchases[seckill.Busy].Add(30)
	m.OrdersWritten.WithLabelValues("confirmed").Add(5)
	now := read(m, start.Add(2*time.Second))
	if f := between(now, before, before); f.Outcomes["busy"] != 15 || f.Orders != 2.5 {
		t.Errorf("in two seconds: %+v", f)
	}
	if f := between(before, before, before); len(f.Outcomes) != 0 || f.Orders != 0 {
		t.Errorf("in none: %+v", f)
	}
}
