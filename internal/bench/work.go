package bench

import (
	"context"
	"time"
)

// work clicks until ctx ends or all clicks are made. Each click has a number, which says whose it is and, in an open loop,
// when its time is.
func (b *run) work(ctx context.Context, w *worker) {
	barrel := b.gun.barrel()
	defer barrel.close()
	for {
		if ctx.Err() != nil {
			return
		}
		n, more := b.next()
		if !more {
			return
		}
		sent := time.Now()
		from := sent
		if b.clicks != nil {
			// The time that the click should have been made counts, not the time at which a
			// connection was free for it: else a server that stalls would also stop the clock.
			from = b.began.Add(b.due(n))
		}
		buyer := string(b.ids.buyer(w.buf[:0], b.whose(n)))
		a := barrel.purchase(buyer)
		now := time.Now()
		w.record(a, now.Sub(from), sent.Sub(from))
		if a.failed == noFailure && a.ticket != "" {
			b.tickets.add(accepted{ticket: a.ticket, buyer: buyer, at: now})
		}
	}
}

// next is the number of the next click, of an open loop when its time has come; false if there is none.
func (b *run) next() (n int64, more bool) {
	if b.clicks != nil {
		n, more = <-b.clicks
		return n, more
	}
	n = b.tally.next.Add(1) - 1
	return n, b.planned == 0 || n < b.planned
}

// whose click n is. In a rush everybody clicks once, then everybody again; else a
// buyer's clicks come one after the other, and so often at the same time.
func (b *run) whose(n int64) int64 {
	if b.Rush > 0 {
		return n % b.Buyers
	}
	return n / int64(b.Clicks)
}

// due is when click n of an open loop is to be made, from the beginning of the load.
func (b *run) due(n int64) time.Duration {
	if b.Rush > 0 {
		u := float64(n) / float64(b.planned)
		return time.Duration(u * u * float64(b.Rush)) // Half of the clicks come in the first quarter.
	}
	return time.Duration(float64(n) / b.Rate * float64(time.Second))
}

// sleepUntil waits for a time; false if ctx ends first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// schedule hands out the clicks of an open loop, each at its time, or later if no connection is free.
func (b *run) schedule(ctx context.Context) {
	defer close(b.clicks)
	sleep, stop := sleeper(ctx)
	defer stop()
	for n := int64(0); b.planned == 0 || n < b.planned; n++ {
		if !sleep(b.began.Add(b.due(n))) {
			return
		}
		select {
		case b.clicks <- n:
		case <-ctx.Done():
			return
		}
	}
}
