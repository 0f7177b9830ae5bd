package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/tracing"
	"seckill/internal/tracing/tracetest"
	"seckill/queue"
	"seckill/queue/memqueue"
)

// The trace of each reservation tells of each try to publish it, with why it failed. A message that cannot be
// read goes over all the same.
func TestRelayTraces(t *testing.T) {
	c := tracetest.New(t)
	tracer, err := tracing.Open(t.Context(), tracing.Options{Endpoint: c.URL, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	run := seckill.RunID{Activity: 1, Run: 1}
	var tickets []string
	synctest.Test(t, func(t *testing.T) {
		outbox, b := memqueue.New(), &broker{got: map[string]int{}, failures: 1}
		defer outbox.Close()
		var rs []seckill.Reservation
		for range 2 {
			rs = append(rs, seckill.Reservation{Ticket: seckill.NewTicket(run), Run: run, Buyer: "b", Quantity: 1, Slot: 1, ReservedAt: time.Now()})
			tickets = append(tickets, rs[len(rs)-1].Ticket)
		}
		if err := outbox.Publish(t.Context(), queue.Message{ID: "r", Body: queue.EncodeReservations(run, rs)}); err != nil {
			t.Fatal(err)
		}
		fill(t, outbox, 1)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- (&Relay{Outbox: outbox, Broker: b, Tracer: tracer}).Run(ctx) }()
		<-time.After(time.Minute)
		stop()
		if err := <-ended; err != nil || b.has() != 2 {
			t.Errorf("the broker has %d messages, %v", b.has(), err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := tracer.Close(ctx); err != nil {
		t.Error(err)
	}
	if n := len(c.Spans()); n != 4 {
		t.Errorf("%d spans, want two of each reservation", n)
	}
	for _, ticket := range tickets {
		at := tracing.Of(ticket)
		spans := c.Of(at.TraceID().String())["relay.publish"]
		if len(spans) != 2 || spans[0].Failure != "not now" || spans[1].Failure != "" || spans[1].Parent != at.SpanID().String() || spans[1].About["seckill.messages"] == nil {
			t.Errorf("ticket %s: %+v", ticket, spans)
		}
	}
}
