package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/tracing"
	"seckill/internal/tracing/tracetest"
	"seckill/stock"
)

const (
	traceOfCaller = "4bf92f3577b34da6a3ce929d0e0e4736"
	askingHeader  = "Traceparent: 00-" + traceOfCaller + "-00f067aa0ba902b7-01"
	silentHeader  = "Traceparent: 00-" + traceOfCaller + "-00f067aa0ba902b7-00"
)

// traced is a door that traces, and a way to see what it told when it is closed.
func traced(t *testing.T, ratio float64) (w *world, told func() []tracetest.Span) {
	t.Helper()
	c := tracetest.New(t)
	tracer, err := tracing.Open(t.Context(), tracing.Options{Endpoint: c.URL, Ratio: ratio})
	if err != nil {
		t.Fatal(err)
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := tracer.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	w = open(t, func(o *Options) { o.Tracer = tracer })
	return w, func() []tracetest.Span { stop(); return c.Spans() }
}

// Purchases that the stock is asked about are traced by the ratio; what is refused before is not, unless its
// caller asks.
func TestWhichPurchasesAreTraced(t *testing.T) {
	w, told := traced(t, 1)
	ticket := w.buy("ann").json["ticket"]
	w.buy("ann", askingHeader) // The gate knows that she has one.
	w.buy("ann", silentHeader)
	w.buy("ann", askingHeader, askingHeader)
	w.do("POST", "/v1/activities/9/purchases", "x", askingHeader)
	w.do("GET", "/v1/activities/1", "", askingHeader)
	spans := told()
	if len(spans) != 3 {
		t.Fatalf("got %+v", spans)
	}
	var heard []string
	for _, s := range spans {
		outcome, _ := s.About["seckill.outcome"].(string)
		heard = append(heard, outcome)
	}
	if got := strings.Join(heard, " "); got != "accepted already_purchased invalid_request" {
		t.Errorf("the outcomes are %s", got)
	}
	first, second, third := spans[0], spans[1], spans[2]
	if first.Trace == traceOfCaller || first.About["seckill.ticket"] != ticket || first.About["seckill.activity"] != int64(1) || first.End.Before(first.Begin) {
		t.Errorf("the first: %+v, ticket %v", first, ticket)
	}
	if second.Trace != traceOfCaller || second.Parent != "00f067aa0ba902b7" || second.About["http.response.status_code"] != int64(409) || second.Failure != "" || len(second.Links) != 0 {
		t.Errorf("the second: %+v", second)
	}
	if third.About["seckill.activity"] != nil || third.About["seckill.ticket"] != nil {
		t.Errorf("the third: %+v", third)
	}
}

// With few traced, a caller that asks gets a ticket whose trace goes on behind the door.
func TestACallerThatAsksGetsATracedTicket(t *testing.T) {
	w, told := traced(t, 0.05)
	for i := range 10 {
		w.buy(strings.Repeat("a", i+1), askingHeader)
	}
	for _, at := range w.attempts {
		if !w.o.Tracer.Samples(at.Ticket) {
			t.Errorf("the ticket %s is not traced", at.Ticket)
		}
	}
	spans := told()
	if len(spans) != 10 || len(spans[0].Links) != 1 {
		t.Fatalf("got %d spans, %+v", len(spans), spans)
	}
	ticket, _ := spans[0].About["seckill.ticket"].(string)
	if at := tracing.Of(ticket); spans[0].Links[0] != (tracetest.Place{Trace: at.TraceID().String(), ID: at.SpanID().String()}) {
		t.Errorf("linked to %v, want %v", spans[0].Links, at)
	}
}

// The article's endpoint is traced by its own name, and a failure is in the log with the trace's id.
func TestTracesAndTheLog(t *testing.T) {
	w, told := traced(t, 1)
	w.setReserve(func(*seckill.Activity, seckill.Attempt) (stock.Decision, error) {
		return stock.Decision{}, errors.New("connection reset")
	})
	w.do("POST", "/seckill", `{"activity_id":1,"user_id":"ann"}`)
	spans := told()
	if len(spans) != 1 || spans[0].Name != "POST /seckill" || spans[0].About["http.response.status_code"] != int64(200) || spans[0].About["seckill.outcome"] != "busy" {
		t.Fatalf("got %+v", spans)
	}
	for _, want := range []string{"trace=" + spans[0].Trace, "activity=1", "run=2", `error="connection reset"`} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("no %s in %s", want, w.log)
		}
	}
	if strings.Contains(w.log.String(), "ann") {
		t.Errorf("the log says who it was: %s", w.log)
	}
}

// Tracing costs a refusal no memory.
func TestHotRefusalsAllocateNothingWithTracing(t *testing.T) {
	tracer, err := tracing.Open(t.Context(), tracing.Options{Endpoint: "http://127.0.0.1:1", Ratio: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close(t.Context())
	for _, c := range hotCases {
		s, ctx := hot(t, c.prepare, c.verdict)
		s.o.Tracer = tracer
		ctx.Request.Header.Set("Traceparent", silentHeader[len("Traceparent: "):])
		if n := testing.AllocsPerRun(200, func() {
			ctx.Response.Reset()
			s.handle(ctx)
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
