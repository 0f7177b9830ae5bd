package tracing

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"seckill"
)

// Published tells of a reservation that went from the outbox to the broker.
func (t *Tracer) Published(r seckill.Reservation, begin, end time.Time, messages int, err error) {
	t.after(r, made{
		name: "relay.publish", kind: trace.SpanKindProducer, begin: begin, end: end,
		about: []attribute.KeyValue{attribute.Int("seckill.messages", messages)},
	}, err)
}

// Write is one try at making an order.
type Write struct {
	Begin, End time.Time // Of the transaction.
	Batch      int       // Reservations in it.
	Tries      int       // With this reservation before.
	Order      string    // Its id; "" if there is none.
	New        bool      // It was not there before.
	Err        error     // Why the database did not take it.
}

// Wrote tells of an order that was written, or was not.
func (t *Tracer) Wrote(r seckill.Reservation, w Write) {
	if t == nil {
		return
	}
	about := []attribute.KeyValue{
		attribute.Int("seckill.batch", w.Batch), attribute.Int("seckill.attempt", w.Tries+1), attribute.Bool("seckill.new", w.New),
	}
	if w.Order != "" {
		about = append(about, attribute.String("seckill.order", w.Order))
	}
	t.after(r, made{name: "order.write", kind: trace.SpanKindConsumer, begin: w.Begin, end: w.End, about: about}, w.Err)
}

// after tells of something that was done with a reservation, if that is traced.
func (t *Tracer) after(r seckill.Reservation, m made, err error) {
	if !t.Samples(r.Ticket) {
		return
	}
	m.parent = Of(r.Ticket).WithRemote(true)
	m.at = within(m.parent.TraceID())
	m.about = append(m.about,
		attribute.Int64("seckill.activity", r.Run.Activity), attribute.Int("seckill.run", r.Run.Run), attribute.String("seckill.ticket", r.Ticket),
	)
	if !r.ReservedAt.IsZero() { // By the stock's clock; the other is this machine's.
		m.about = append(m.about, attribute.Float64("seckill.since_reserved_ms", max(ms(m.begin.Sub(r.ReservedAt)), 0)))
	}
	if err != nil {
		m.failure = err.Error()
	}
	t.tell(m)
}
