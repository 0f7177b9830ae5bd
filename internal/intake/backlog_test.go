package intake

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The intake stops at the high mark, stays stopped until the low one, and starts again there; what it
// cannot read changes nothing.
func TestStopsAndStartsAtItsMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type step struct {
			waiting int64
			broken  bool
			stopped bool
		}
		var now atomic.Pointer[step] // In one piece: it is read at the moment at which it changes.
		now.Store(&step{})
		b := &Backlog{High: 100, Low: 50, Waiting: func(context.Context) (int64, error) {
			s := now.Load()
			if s.broken {
				return 0, errors.New("not now")
			}
			return s.waiting, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		for _, step := range []step{
			{0, false, false}, {99, false, false}, {100, false, true}, {51, false, true}, {0, true, true},
			{50, false, false}, {99, false, false}, {100, true, false}, {1000, false, true}, {0, false, false},
		} {
			now.Store(&step)
			<-time.After(time.Second)
			if b.Stopped() != step.stopped {
				t.Errorf("with %d waiting (unreadable: %v): stopped is %v, want %v", step.waiting, step.broken, b.Stopped(), step.stopped)
			}
			if g := b.Guard(); g.Acting != step.stopped || g.Acting != (g.Reason != "") || !strings.Contains(g.Figure, "stops at 100") {
				t.Errorf("with %d waiting operators see %+v", step.waiting, g)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Marks that cannot work are an error and no silent guard.
func TestWrongMarks(t *testing.T) {
	waiting := func(context.Context) (int64, error) { return 0, nil }
	for _, b := range []*Backlog{{High: 10, Low: 11, Waiting: waiting}, {Waiting: waiting}, {High: 10}} {
		if err := b.Run(t.Context()); err == nil {
			t.Errorf("%+v runs", b)
		}
	}
}
