package bench

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"seckill"
	"seckill/client"
)

const (
	followers   = 16                     // Tickets that are followed at once.
	followPause = 100 * time.Millisecond // Of one that follows during the load, so that it does not become the load.
)

// accepted is a purchase that the server has taken.
type accepted struct {
	ticket, buyer string
	at            time.Time
	ended         *ticketState // Nil until it is final.
}

// Tickets says what became of the accepted purchases.
type Tickets struct {
	Accepted  int64            `json:"accepted"` // Distinct tickets.
	Kept      int64            `json:"kept"`     // Those that are followed; memory is bounded.
	Confirmed int64            `json:"confirmed"`
	Failed    map[string]int64 `json:"failed"`  // By reason.
	Unknown   int64            `json:"unknown"` // The server has never heard of them.
	Pending   int64            `json:"pending"` // Not final when the time for following was up.
	Lag       Quantiles        `json:"lag_ms"`  // Accepted to final, of those that were watched live.
}

// tickets keeps the accepted purchases.
type tickets struct {
	mu      sync.Mutex
	max     int
	seen    map[string]bool
	kept    []*accepted
	fresh   chan *accepted // Offered to those who follow live.
	over    int64          // Accepted beyond what is kept.
	counts  Tickets
	lag     *hdrhistogram.Histogram
	settled map[*accepted]bool
}

func newTickets(most int) *tickets {
	return &tickets{
		max: most, seen: map[string]bool{}, fresh: make(chan *accepted), settled: map[*accepted]bool{},
		lag: newHistogram(), counts: Tickets{Failed: map[string]int64{}},
	}
}

// add keeps a ticket, once: the same one may be answered to a repeated click.
func (t *tickets) add(a accepted) {
	t.mu.Lock()
	if t.seen[a.ticket] {
		t.mu.Unlock()
		return
	}
	if len(t.kept) >= t.max {
		t.over++
		t.mu.Unlock()
		return
	}
	t.seen[a.ticket] = true
	kept := &a
	t.kept = append(t.kept, kept)
	t.mu.Unlock()
	select {
	case t.fresh <- kept:
	default: // Nobody is free; it is asked for after the load.
	}
}

// settle notes the end of a ticket, once.
func (t *tickets) settle(a *accepted, state ticketState, unknown bool, lag time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settled[a] {
		return
	}
	t.settled[a] = true
	switch {
	case unknown:
		t.counts.Unknown++
	case state.State == "confirmed":
		t.counts.Confirmed++
		a.ended = &state
	default:
		t.counts.Failed[state.Reason]++
		a.ended = &state
	}
	if lag > 0 {
		_ = t.lag.RecordValue(min(max(lag.Microseconds(), latencyMinFloor), latencyMaxUS))
	}
}

func (t *tickets) snapshot() Tickets {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Failed = map[string]int64{}
	maps.Copy(c.Failed, t.counts.Failed)
	c.Accepted, c.Kept = int64(len(t.kept))+t.over, int64(len(t.kept))
	c.Pending = c.Kept - int64(len(t.settled))
	c.Lag = quantiles(t.lag)
	return c
}

// pending returns the tickets that are not final, as far as is known.
func (t *tickets) pending() []*accepted {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*accepted
	for _, a := range t.kept {
		if !t.settled[a] {
			list = append(list, a)
		}
	}
	return list
}

// followLive watches tickets while the load lasts, one at a time, by the server's
// events, and so sees to the millisecond when an order is there. It takes a sample.
func (b *run) followLive(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-b.tickets.fresh:
			b.watch(ctx, a)
		}
		if !sleepUntil(ctx, time.Now().Add(followPause)) {
			return
		}
	}
}

func (b *run) watch(ctx context.Context, a *accepted) {
	name, value, err := b.Identity.header(a.buyer)
	if err != nil {
		return // It is asked for after the load, and counted then.
	}
	buyer, err := client.NewBuyer(client.Options{Server: b.Server, HTTP: b.http, Header: http.Header{name: {value}}, AttemptsMax: 1})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.FollowFor)
	defer cancel()
	t, err := buyer.Watch(ctx, a.ticket, nil)
	if err != nil || !t.Final() {
		return
	}
	state := ticketState{State: t.State, Reason: t.Reason}
	if t.Order != nil {
		state.Order = &struct {
			PayBefore time.Time `json:"pay_before"`
			Quantity  int       `json:"quantity"`
		}{t.Order.PayBefore, t.Order.Quantity}
	}
	b.tickets.settle(a, state, false, time.Since(a.at))
}

// followRest asks for the tickets that are not final yet, again and again until they
// are or time is up.
func (b *run) followRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.FollowFor)
	defer cancel()
	barrels := make([]*barrel, followers)
	for i := range barrels {
		barrels[i] = b.gun.barrel()
		defer barrels[i].close()
	}
	for {
		rest := b.tickets.pending()
		if b.tell("follow", Point{}); len(rest) == 0 {
			return
		}
		var g errgroup.Group
		for i, barrel := range barrels {
			g.Go(func() error {
				for n := i; n < len(rest) && ctx.Err() == nil; n += followers {
					b.ask(barrel, rest[n])
				}
				return nil
			})
		}
		_ = g.Wait() // None of them fails.
		if !sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
			return
		}
	}
}

func (b *run) ask(from *barrel, a *accepted) {
	state, got := from.ticket(a.buyer, a.ticket)
	switch {
	case got.failed != noFailure:
		// Unclear; it is asked for again.
	case got.reason == seckill.NotFound:
		b.tickets.settle(a, state, true, 0)
	case got.reason == seckill.NoReason && (state.State == "confirmed" || state.State == "failed"):
		b.tickets.settle(a, state, false, 0)
	}
}
