package tracing

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Purchase is one request to buy that is traced. Nil is one that is not.
type Purchase struct {
	t      *Tracer
	begin  time.Time
	caller trace.SpanContext // Valid if the caller asked for the trace.
	server trace.SpanContext // The request's own span.

	ticket  string            // Of its attempt; "" while there is none.
	reserve trace.SpanContext // Where the ticket's trace has the reservation. Zero if that is not traced.
}

// Accept looks at a request's traceparent. A caller that is tracing has its request traced, also one
// that is refused at once, unless too many ask for it.
func (t *Tracer) Accept(traceparent string, begin time.Time) *Purchase {
	if t == nil || traceparent == "" {
		return nil
	}
	caller, ok := parseTraceparent(traceparent)
	if !ok || !caller.IsSampled() || !t.mayAsk(begin) {
		return nil
	}
	return &Purchase{t: t, begin: begin, caller: caller, server: within(caller.TraceID())}
}

// mayAsk counts what is traced for callers. Around the turn of a second a few more may pass.
func (t *Tracer) mayAsk(now time.Time) bool {
	if second, last := now.Unix(), t.second.Load(); second != last && t.second.CompareAndSwap(last, second) {
		t.asked.Store(0)
	}
	return t.asked.Add(1) <= t.askedMax
}

// Begin is for a request that the stock is asked about, when it has a ticket. p is what Accept said. A
// caller's trace goes on in the request; the reservation and what follows are in the
// ticket's own trace, and both are linked.
func (t *Tracer) Begin(p *Purchase, ticket string, begin time.Time) *Purchase {
	traced := t.Samples(ticket)
	if !traced && p == nil {
		return nil
	}
	place := Of(ticket)
	if p == nil {
		p = &Purchase{t: t, begin: begin, server: within(place.TraceID())}
	}
	p.ticket = ticket
	if traced {
		p.reserve = place
	}
	return p
}

// ID is what a line of the log says of the trace in which the request is; empty, and so left out, if
// there is none.
func (p *Purchase) ID() slog.Attr {
	if p == nil {
		return slog.Attr{}
	}
	return slog.String("trace", p.server.TraceID().String())
}

// Answer is what the caller heard.
type Answer struct {
	Route    string // Method and pattern of the path.
	Status   int
	Activity int64  // 0 if the request named none.
	Outcome  string // Name of the refusal, or "accepted".
	Ticket   string // That was given; "" if none was.
}

// End tells of the request, when it is answered.
func (p *Purchase) End(end time.Time, a Answer) {
	if p == nil {
		return
	}
	m := made{
		at: p.server, parent: p.caller, name: a.Route, kind: trace.SpanKindServer, begin: p.begin, end: end,
		about: []attribute.KeyValue{
			attribute.String("http.request.method", "POST"), attribute.String("http.route", a.Route[len("POST "):]),
			attribute.Int("http.response.status_code", a.Status), attribute.String("seckill.outcome", a.Outcome),
		},
	}
	if a.Activity != 0 {
		m.about = append(m.about, attribute.Int64("seckill.activity", a.Activity))
	}
	if a.Ticket != "" {
		m.about = append(m.about, attribute.String("seckill.ticket", a.Ticket))
	}
	if p.caller.IsValid() && p.reserve.IsValid() {
		m.link = p.reserve
	}
	if a.Status >= 500 {
		m.failure = a.Outcome
	}
	p.t.tell(m)
}

// Reservation is one attempt's part in a call of the stock.
type Reservation struct {
	Waited     time.Duration // For the call, since it came.
	Begin, End time.Time     // Of the call.
	Batch      int           // Attempts in the call.
	Run        int
	Taken      bool  // It has got its units, and the ticket is good.
	Err        error // If it is not known what was decided.
}

// Reserved tells of the call of the stock. It may be later than End.
func (p *Purchase) Reserved(r Reservation) {
	if p == nil {
		return
	}
	m := made{
		at: within(p.server.TraceID()), parent: p.server, name: "reserve", kind: trace.SpanKindInternal, begin: r.Begin, end: r.End,
		about: []attribute.KeyValue{
			attribute.Int("seckill.batch", r.Batch), attribute.Float64("seckill.waited_ms", ms(r.Waited)), attribute.Bool("seckill.taken", r.Taken),
			attribute.Int("seckill.run", r.Run), attribute.String("seckill.ticket", p.ticket),
		},
	}
	switch {
	case !p.reserve.IsValid():
	case p.caller.IsValid():
		// The first of its trace. The caller's is another one.
		m.at, m.parent, m.link = within(p.reserve.TraceID()), trace.SpanContext{}, p.server
		fallthrough
	default:
		// A reservation that may exist is where others expect it. Of the rest there may be several
		// with the same ticket.
		if r.Taken || r.Err != nil {
			m.at = p.reserve
		}
	}
	if r.Err != nil {
		m.failure = r.Err.Error()
	}
	p.t.tell(m)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type purchaseKey struct{}

// With puts a purchase that is traced into a context.
func With(ctx context.Context, p *Purchase) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, purchaseKey{}, p)
}

// From takes it out again; nil if there is none.
func From(ctx context.Context) *Purchase {
	p, _ := ctx.Value(purchaseKey{}).(*Purchase)
	return p
}
