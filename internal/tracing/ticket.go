package tracing

import (
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// Of tells where in which trace a ticket's reservation is: the trace's id is the first 16 bytes
// of the SHA-256 of the ticket, the span's id the next 8. Spans of what is done with the reservation later
// have that span as their parent.
func Of(ticket string) trace.SpanContext {
	hash := sha256.Sum256([]byte(ticket))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(hash[:16]), SpanID: trace.SpanID(hash[16:24]), TraceFlags: trace.FlagsSampled,
	})
}

// sampled tells whether a trace is among the share that is wanted, by OpenTelemetry's own rule for
// ratios: it depends on the trace's id alone.
func sampled(id trace.TraceID, ratio float64) bool {
	switch {
	case ratio >= 1:
		return true
	case ratio <= 0:
		return false
	}
	return binary.BigEndian.Uint64(id[8:])>>1 < uint64(ratio*(1<<63))
}

// Samples tells whether a ticket's purchase is traced.
func (t *Tracer) Samples(ticket string) bool {
	if t == nil || t.ratio <= 0 {
		return false
	}
	return t.ratio >= 1 || sampled(Of(ticket).TraceID(), t.ratio)
}

// drawsMax bounds how many tickets are drawn for one that is traced.
const drawsMax = 5000

// Draw draws tickets until one is traced: so a purchase whose caller asks for a trace is traced by
// the order writer, too, which knows nothing but the ticket. It gives up when none can be, and
// returns the last.
func (t *Tracer) Draw(draw func() string) string {
	ticket := draw()
	if t == nil || t.ratio <= 0 {
		return ticket
	}
	for range int(min(drawsMax, 10/t.ratio)) {
		if t.Samples(ticket) {
			break
		}
		last := ticket
		if ticket = draw(); ticket == last {
			break // The ticket of an entry is always the same.
		}
	}
	return ticket
}

// ID is what a line of the log says of a ticket's trace; empty, and so left out, if there is none.
func (t *Tracer) ID(ticket string) slog.Attr {
	if !t.Samples(ticket) {
		return slog.Attr{}
	}
	return slog.String("trace", Of(ticket).TraceID().String())
}

// within is a new span's place in a trace.
func within(id trace.TraceID) trace.SpanContext {
	var span trace.SpanID
	for !span.IsValid() {
		binary.NativeEndian.PutUint64(span[:], rand.Uint64())
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled})
}
