package order

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/tracing"
	"seckill/internal/tracing/tracetest"
)

// The trace of each ticket tells of each try at its order, and of no other; a dead letter's line in the log has the
// trace's id.
func TestWriterTraces(t *testing.T) {
	c := tracetest.New(t)
	tracer, err := tracing.Open(t.Context(), tracing.Options{Endpoint: c.URL, Ratio: 1})
	must(t, err)
	rs := reserved(run1, "a", "late", "poison")
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.AttemptsMax, r.Tracer, r.Log = 3, tracer, slog.New(slog.NewTextHandler(&log, nil))
		r.store.before = func(_ context.Context, rs []seckill.Reservation) error {
			for _, one := range rs {
				if one.Buyer == "poison" {
					return errors.New("poisoned")
				}
			}
			return nil
		}
		r.queue.Send("m", run1, rs...)
		r.queue.Send("m again", run1, rs[0])
		stop := running(t, r.Run)
		pass(time.Minute)
		stop()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must(t, tracer.Close(ctx))

	said := func(i int) (all string) {
		at := tracing.Of(rs[i].Ticket)
		for name, spans := range c.Of(at.TraceID().String()) {
			for _, s := range spans {
				if name != "order.write" || s.Parent != at.SpanID().String() || s.About["seckill.activity"] != int64(1) {
					t.Errorf("%s: %+v", name, s)
				}
				order, _ := s.About["seckill.order"].(string)
				all += strings.TrimSpace(strings.Join([]string{order, s.Failure, map[any]string{true: "new", false: "old"}[s.About["seckill.new"]]}, " ")) + "; "
			}
		}
		return all
	}
	equal(t, "the sound one", said(0), "1  new; 1  old; ")
	equal(t, "the poisoned one", said(2), "poisoned old; poisoned old; poisoned old; ")
	equal(t, "the refused one", said(1), "old; ")
	if id := "trace=" + tracing.Of(rs[2].Ticket).TraceID().String(); strings.Count(log.String(), id) != 4 || strings.Count(log.String(), "\n") != 4 {
		t.Errorf("want %s in each line of %s", id, log.String())
	}
}
