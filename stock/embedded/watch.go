package embedded

import (
	"context"
	"errors"

	"seckill/stock"
)

// errBehind ends a Watch whose notify was too slow: it missed something, and its
// caller has to look for itself before it watches again.
var errBehind = errors.New("the watcher fell behind and missed events")

// watchers hold what each Watch has not yet been told. The engine's lock guards the
// map; a channel that is closed was left behind.
type watchers map[chan stock.Event]struct{}

// tell makes events part of the pending batch: they are told once that is durable. The
// lock is held.
func (e *Engine) tell(events ...stock.Event) {
	if len(e.watch) == 0 {
		return
	}
	e.pending.events = append(e.pending.events, events...)
}

// tellUnits tells that units became available, once per batch. The lock is held.
func (e *Engine) tellUnits(s *stream) {
	if s.told != e.pending {
		s.told = e.pending
		e.tell(stock.Event{Kind: stock.EventUnits, Run: s.id})
	}
}

// show hands events to each watcher. The lock is held.
func (w watchers) show(events []stock.Event) {
	for c := range w {
		for _, ev := range events {
			select {
			case c <- ev:
				continue
			default:
			}
			delete(w, c)
			close(c)
			break
		}
	}
}

// Watch implements [stock.Stock]. It fails if notify is so slow that events had to be
// left out.
func (e *Engine) Watch(ctx context.Context, notify func(stock.Event)) error {
	c := make(chan stock.Event, watchBuffer)
	e.mu.Lock()
	if e.ending {
		e.mu.Unlock()
		return ErrClosed
	}
	e.watch[c] = struct{}{}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.watch, c)
		e.mu.Unlock()
	}()
	for {
		select {
		case ev, ok := <-c:
			if !ok {
				return errBehind
			}
			notify(ev)
		case <-ctx.Done():
			return nil
		case <-e.closing:
			return ErrClosed
		}
	}
}
