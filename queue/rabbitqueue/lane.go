package rabbitqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// lane is a link that is used by one call at a time, and made anew when it breaks.
type lane struct {
	queue *Queue
	role  role
	turn  chan struct{} // Holds one token while nobody uses the link.
	link  *link         // Nil if there is none. Whoever has the token owns it.
}

func newLane(q *Queue, r role) *lane {
	a := &lane{queue: q, role: r, turn: make(chan struct{}, 1)}
	a.turn <- struct{}{}
	return a
}

// do calls f with a link. A link of before that turns out to be broken, or to be of a queue
// that was deleted, gets one more try with a new one. When ctx ends, or after limit, do
// returns, and the link is gone: nothing that was sent on it is done much later.
func (a *lane) do(ctx context.Context, limit time.Duration, f func(context.Context, *link) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	ctx, stop := a.queue.while(ctx)
	defer stop()
	select {
	case <-a.turn:
		defer func() { a.turn <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the call before: %w", context.Cause(ctx))
	}
	if a.queue.life.Err() != nil {
		return ErrClosed // Close had its turn, and nobody would close another link.
	}
	for {
		if a.link != nil && a.link.broken() {
			a.link.drop()
			a.link = nil
		}
		old := a.link != nil
		if !old {
			var err error
			if a.link, err = a.queue.dial(ctx, a.role); err != nil {
				return err
			}
		}
		err := a.once(ctx, f)
		if err == nil || !old || ctx.Err() != nil {
			return err
		}
	}
}

// once calls f with the link that is there.
func (a *lane) once(ctx context.Context, f func(context.Context, *link) error) error {
	l := a.link
	stop := context.AfterFunc(ctx, l.abandon)
	err := f(ctx, l)
	if stop() && err == nil {
		return nil
	}
	l.drop()
	a.link = nil
	if err == nil || ctx.Err() == nil {
		return err // It was done just before the time was over.
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = cause // What the library says is only how it noticed.
	}
	if reason := l.blocked.Load(); reason != nil {
		err = fmt.Errorf("the broker takes no messages at present (%s): %w", *reason, err)
	}
	return err
}

// close waits for the call under way and says goodbye.
func (a *lane) close() {
	<-a.turn
	defer func() { a.turn <- struct{}{} }()
	if a.link != nil {
		a.link.close(a.queue.options.CloseTimeout)
		a.link = nil
	}
}

// while is ctx, and ends with the queue too.
func (q *Queue) while(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(q.life, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// Pauses between attempts to connect, while they fail.
const (
	pauseLeast = 50 * time.Millisecond
	pauseMost  = 2 * time.Second
)

// pace keeps the calls of a program from hammering a broker that is away.
type pace struct {
	mu    sync.Mutex
	pause time.Duration
	until time.Time // Nobody connects before.
}

func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	left := time.Until(p.until)
	p.mu.Unlock()
	if left <= 0 {
		return nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// note takes down how an attempt ended.
func (p *pace) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.pause, p.until = 0, time.Time{}
	case errors.Is(err, context.Canceled):
	case time.Now().After(p.until): // Of several that fail together, one counts.
		p.pause = min(max(2*p.pause, pauseLeast), pauseMost)
		p.until = time.Now().Add(p.pause/2 + rand.N(p.pause/2))
	}
}
