package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill"
	"seckill/internal/tracing"
	"seckill/internal/tracing/tracetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ticket      = "7-2-71jbqnfp7jetqsq5vh9z" // The one of docs/message.md.
	ticketTrace = "ebb134647bd19e939d88e921d243624e"
	caller      = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
	route       = "POST /v1/activities/{id}/purchases"
)

var run = seckill.RunID{Activity: 7, Run: 2}

func open(t *testing.T, o tracing.Options) *tracing.Tracer {
	t.Helper()
	tr, err := tracing.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, tr) })
	return tr
}

// shut hands what waits to the collector.
func shut(t *testing.T, tr *tracing.Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := tr.Close(ctx); err != nil {
		t.Error(err)
	}
}

// wholeWay tells of everything that happens to one purchase, a millisecond each.
func wholeWay(tr *tracing.Tracer, traceparent string, begin time.Time) {
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	p := tr.Begin(tr.Accept(traceparent, at(0)), ticket, at(0))
	tracing.From(tracing.With(context.Background(), p)).Reserved(tracing.Reservation{
		Waited: time.Millisecond, Begin: at(1), End: at(2), Batch: 3, Run: 2, Taken: true,
	})
	p.End(at(3), tracing.Answer{Route: route, Status: 202, Activity: 7, Outcome: "accepted", Ticket: ticket})
	r := seckill.Reservation{Ticket: ticket, Run: run, Buyer: "secret-buyer", Quantity: 1, Slot: 1, ReservedAt: at(2)}
	tr.Published(r, at(4), at(5), 2, nil)
	tr.Wrote(r, tracing.Write{Begin: at(6), End: at(7), Batch: 5, Order: "12", New: true})
}

// one is the only span of its name in a trace.
func one(t *testing.T, c *tracetest.Collector, trace, name string) tracetest.Span {
	t.Helper()
	spans := c.Of(trace)[name]
	if len(spans) != 1 {
		t.Fatalf("the trace %s has %d spans %q, want one; all: %+v", trace, len(spans), name, c.Spans())
	}
	return spans[0]
}

// A purchase is one trace, whose id and first reservation follow from the ticket: the door's, the relay's and the
// writer's spans find one another though nothing but the ticket went from one to the next.
func TestOnePurchaseIsOneTrace(t *testing.T) {
	c := tracetest.New(t)
	tr := open(t, tracing.Options{Endpoint: c.URL, Ratio: 1, Version: "v9", Node: "n1"})
	begin := time.Now().Truncate(time.Millisecond)
	wholeWay(tr, "", begin)
	shut(t, tr)

	if n := len(c.Spans()); n != 4 || c.Paths()[0] != "/v1/traces" {
		t.Fatalf("%d spans at %q: %+v", n, c.Paths(), c.Spans())
	}
	server, reserve := one(t, c, ticketTrace, route), one(t, c, ticketTrace, "reserve")
	publish, write := one(t, c, ticketTrace, "relay.publish"), one(t, c, ticketTrace, "order.write")
	if server.Parent != "" || reserve.Parent != server.ID || publish.Parent != reserve.ID || write.Parent != reserve.ID {
		t.Errorf("parents: server %q, reserve %q of %q, publish %q and write %q of %q", server.Parent, reserve.Parent, server.ID, publish.Parent, write.Parent, reserve.ID)
	}
	if reserve.ID != tracing.Of(ticket).SpanID().String() {
		t.Errorf("the reservation is at %s, want %s", reserve.ID, tracing.Of(ticket).SpanID())
	}
	if server.Kind+reserve.Kind+publish.Kind+write.Kind != "serverinternalproducerconsumer" {
		t.Errorf("kinds: %s %s %s %s", server.Kind, reserve.Kind, publish.Kind, write.Kind)
	}
	for i, s := range []tracetest.Span{server, reserve, publish, write} {
		want := [][2]int{{0, 3}, {1, 2}, {4, 5}, {6, 7}}[i]
		if s.Begin.Sub(begin).Milliseconds() != int64(want[0]) || s.End.Sub(begin).Milliseconds() != int64(want[1]) || s.Failure != "" || len(s.Links) != 0 {
			t.Errorf("%s: %+v, want ms %v", s.Name, s, want)
		}
		if s.Process["service.name"] != "seckill" || s.Process["service.version"] != "v9" || s.Process["service.instance.id"] != "n1" {
			t.Errorf("%s is of %v", s.Name, s.Process)
		}
		for k, v := range s.About {
			if text, _ := v.(string); strings.Contains(text, "secret-buyer") {
				t.Errorf("%s: %s says who the buyer is", s.Name, k)
			}
		}
	}
	if server.About["seckill.outcome"] != "accepted" || server.About["http.response.status_code"] != int64(202) || server.About["http.route"] != "/v1/activities/{id}/purchases" ||
		reserve.About["seckill.batch"] != int64(3) || reserve.About["seckill.waited_ms"] != 1.0 || reserve.About["seckill.taken"] != true ||
		write.About["seckill.order"] != "12" || write.About["seckill.since_reserved_ms"] != 4.0 || write.About["seckill.batch"] != int64(5) || write.About["seckill.new"] != true {
		t.Errorf("said of it: %v, %v, %v", server.About, reserve.About, write.About)
	}
}

// A caller's own trace goes on in the request. The ticket's trace is another one, and each knows the other.
func TestACallersTraceIsLinked(t *testing.T) {
	c := tracetest.New(t)
	tr := open(t, tracing.Options{Endpoint: c.URL + "/v1/traces", Ratio: 1})
	wholeWay(tr, caller, time.Now())
	shut(t, tr)
	server, reserve, write := one(t, c, callerTrace, route), one(t, c, ticketTrace, "reserve"), one(t, c, ticketTrace, "order.write")
	if server.Parent != callerSpan || len(server.Links) != 1 || server.Links[0] != reserve.Place {
		t.Errorf("the request: %+v, want parent %s and a link to %v", server, callerSpan, reserve.Place)
	}
	if reserve.Parent != "" || len(reserve.Links) != 1 || reserve.Links[0] != server.Place || write.Parent != reserve.ID {
		t.Errorf("the reservation: %+v, order %+v", reserve, write)
	}
	if c.Paths()[0] != "/v1/traces" {
		t.Errorf("asked at %q", c.Paths())
	}
}

// Where no ticket can be traced, a caller's trace still has the request and the stock, and nothing else is told.
func TestACallersTraceWithoutTheTickets(t *testing.T) {
	c := tracetest.New(t)
	tr := open(t, tracing.Options{Endpoint: c.URL, Ratio: 0})
	wholeWay(tr, caller, time.Now())
	wholeWay(tr, "", time.Now())
	shut(t, tr)
	server, reserve := one(t, c, callerTrace, route), one(t, c, callerTrace, "reserve")
	if reserve.Parent != server.ID || len(server.Links)+len(reserve.Links) != 0 || len(c.Spans()) != 2 {
		t.Errorf("got %+v", c.Spans())
	}
}

// An attempt that got nothing leaves the place of the reservation free for one with the same ticket that gets it; one
// whose end is not known takes it, since the order may come.
func TestOnlyAReservationIsWhereOthersExpectIt(t *testing.T) {
	c := tracetest.New(t)
	tr := open(t, tracing.Options{Endpoint: c.URL, Ratio: 1})
	now := time.Now()
	p := tr.Begin(nil, ticket, now)
	p.Reserved(tracing.Reservation{Begin: now, End: now, Batch: 1, Run: 2})
	p.Reserved(tracing.Reservation{Begin: now, End: now, Batch: 1, Run: 2, Err: errors.New("connection reset")})
	p.End(now, tracing.Answer{Route: route, Status: 503, Outcome: "busy"})
	tr.Wrote(seckill.Reservation{Ticket: ticket, Run: run}, tracing.Write{Begin: now, End: now, Batch: 1, Tries: 1, Err: errors.New("disk full")})
	shut(t, tr)
	place := tracing.Of(ticket).SpanID().String()
	spans := c.Of(ticketTrace)["reserve"]
	if len(spans) != 2 || spans[0].ID == place || spans[0].Failure != "" || spans[1].ID != place || spans[1].Failure != "connection reset" {
		t.Errorf("got %+v", spans)
	}
	if s := one(t, c, ticketTrace, route); s.Failure != "busy" || s.About["seckill.ticket"] != nil {
		t.Errorf("the request: %+v", s)
	}
	if s := one(t, c, ticketTrace, "order.write"); s.Failure != "disk full" || s.About["seckill.attempt"] != int64(2) || s.About["seckill.order"] != nil {
		t.Errorf("the order: %+v", s)
	}
}

// Callers are strangers: what they ask for is bounded, second by second.
func TestCallersMayNotAskForEverything(t *testing.T) {
	tr := open(t, tracing.Options{Endpoint: "http://127.0.0.1:1", AskedMax: 3})
	now := time.Unix(1000, 0)
	for second := range 2 {
		traced := 0
		for range 100 {
			if tr.Accept(caller, now.Add(time.Duration(second)*time.Second)) != nil {
				traced++
			}
		}
		if traced != 3 {
			t.Errorf("second %d: %d were traced, want 3", second, traced)
		}
	}
}

// A traceparent that is not well-formed, or not sampled, asks for nothing.
func TestTraceparents(t *testing.T) {
	tr := open(t, tracing.Options{Endpoint: "http://127.0.0.1:1", AskedMax: 1000})
	trace, span := strings.Repeat("a", 32), strings.Repeat("b", 16)
	for header, want := range map[string]bool{
		"00-" + trace + "-" + span + "-01":                    true,
		"00-" + trace + "-" + span + "-03":                    true,
		"cc-" + trace + "-" + span + "-01-more":               true,
		"cc-" + trace + "-" + span + "-01":                    true,
		"00-" + trace + "-" + span + "-00":                    false,
		"00-" + trace + "-" + span + "-02":                    false,
		"00-" + trace + "-" + span + "-01-more":               false,
		"cc-" + trace + "-" + span + "-01more":                false,
		"ff-" + trace + "-" + span + "-01":                    false,
		"0G-" + trace + "-" + span + "-01":                    false,
		"00-" + trace + "-" + span + "-0":                     false,
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": false,
		"00-" + strings.Repeat("A", 32) + "-" + span + "-01":  false,
		"00-" + trace + "_" + span + "-01":                    false,
		"00_" + trace + "-" + span + "-01":                    false,
		"00-" + trace + "-" + span + "_01":                    false,
		"00-" + trace + "-" + span + "-zz":                    false,
		"":                                                    false, "-": false, strings.Repeat("-", 55): false, strings.Repeat("x", 8000): false,
	} {
		if got := tr.Accept(header, time.Now()) != nil; got != want {
			t.Errorf("%.80q: got %t, want %t", header, got, want)
		}
	}
}

// A tracer that is off does nothing, whatever is asked of it, and one that is on costs a request that is not
// traced no memory.
func TestWhatIsNotTracedCostsNothing(t *testing.T) {
	off, err := tracing.Open(t.Context(), tracing.Options{Ratio: 1})
	if err != nil || off != nil {
		t.Fatalf("without an endpoint: %v, %v", off, err)
	}
	wholeWay(off, caller, time.Now())
	on := open(t, tracing.Options{Endpoint: "http://127.0.0.1:1", Ratio: 1e-9})
	now, plain := time.Now(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	for name, tr := range map[string]*tracing.Tracer{"off": off, "on": on} {
		if n := testing.AllocsPerRun(100, func() {
			p := tr.Begin(tr.Accept(plain, now), ticket, now)
			tracing.From(tracing.With(t.Context(), p)).Reserved(tracing.Reservation{})
			p.End(now, tracing.Answer{})
			tr.Wrote(seckill.Reservation{Ticket: ticket}, tracing.Write{})
		}); n > 0 && name == "off" || n > 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if a := on.ID(ticket); !a.Equal(slog.Attr{}) {
		t.Errorf("the log would name a trace that nobody has: %v", a)
	}
}

// A collector that is away is told of once, and once more when it is back. Nobody waits.
func TestACollectorThatIsAway(t *testing.T) {
	c := tracetest.New(t)
	var log locked
	tr := open(t, tracing.Options{Endpoint: c.URL, Ratio: 1, ExportEvery: 5 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	c.Away(true)
	asked := func() int { return len(c.Paths()) }
	for range 3 {
		before := asked()
		wholeWay(tr, "", time.Now())
		await(t, "the collector to be asked", func() bool { return asked() > before })
	}
	c.Away(false)
	before := asked()
	wholeWay(tr, "", time.Now())
	await(t, "the collector to be asked", func() bool { return asked() > before })
	shut(t, tr)
	if n := len(c.Spans()); n < 1 || n > 4 {
		t.Errorf("%d spans arrived, want those of the last purchase", n)
	}
	if said := log.String(); strings.Count(said, "does not take them") != 1 || strings.Count(said, "takes them again") != 1 || strings.Count(said, "\n") != 2 {
		t.Errorf("logged %s", said)
	}
}

// A collector that takes the connection and says nothing holds nobody up: what is too much is dropped, and
// a stop takes no longer than it may.
func TestACollectorThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tr, err := tracing.Open(t.Context(), tracing.Options{Endpoint: "http://" + l.Addr().String(), Ratio: 1, QueueMax: 10, ExportEvery: time.Millisecond, ExportTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for range 1000 {
		wholeWay(tr, "", begin)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("4,000 spans took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin = time.Now()
	if err := tr.Close(ctx); err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("the stop took %v: %v", time.Since(begin), err)
	}
}

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !so(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
