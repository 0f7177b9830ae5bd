package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	randv2 "math/rand/v2"
	"sync"
	"time"

	"seckill"
	"seckill/internal/telemetry"
)

// poster sends one request; [Client] does.
type poster interface {
	Send(ctx context.Context, target seckill.WebhookTarget, id string, body []byte) Answer
}

// Sender works off the outbox. Any number of them, in any number of processes, share the work: one at
// a time works for a webhook, under a lease; that of one that died runs out. Webhooks do not wait for
// one another.
type Sender struct {
	Store   Store              // Required.
	Client  poster             // Required.
	Metrics *telemetry.Metrics // Required.
	Log     *slog.Logger       // Discards by default.

	Every time.Duration // Between looks for work; 500 ms by default.
	// Lease is how long a webhook waits for a sender that died; 30 s by default, and more than
	// twice what a request takes at most.
	Lease       time.Duration
	InFlightMax int           // Requests to one webhook at a time; 8 by default.
	RetryFor    time.Duration // How long a delivery is tried; a day by default.
	Grace       time.Duration // How long requests under way may go on when Run is to end; 2 s by default.
	Keep        time.Duration // How long deliveries that have ended are kept; a week by default.
	KeepMax     int           // How many of them of each webhook and state; 100,000 by default.
	SweepEvery  time.Duration // A minute by default.
}

// storeTimeout bounds a call of the store, also one that a Run still makes when it is to end.
const storeTimeout = 3 * time.Second

// pendingEvery is how often what waits is counted.
const pendingEvery = 10 * time.Second

// page is how many deliveries are read at a time.
const page = 64

// jobName is who disables a webhook in the audit log.
const jobName = "webhooks"

func (s *Sender) withDefaults() *Sender {
	c := *s
	c.Every = orDefault(c.Every, 500*time.Millisecond)
	c.Lease = orDefault(c.Lease, 30*time.Second)
	c.InFlightMax = orDefault(c.InFlightMax, 8)
	c.RetryFor = orDefault(c.RetryFor, 24*time.Hour)
	c.Grace = orDefault(c.Grace, 2*time.Second)
	c.Keep = orDefault(c.Keep, 7*24*time.Hour)
	c.KeepMax = orDefault(c.KeepMax, 100_000)
	c.SweepEvery = orDefault(c.SweepEvery, time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &c
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Run works until ctx ends, and then returns nil. Requests under way get Grace; what became of one
// that does not end in it is not known, and it is repeated.
func (s *Sender) Run(ctx context.Context) error {
	c := s.withDefaults()
	owner := rand.Text()
	var joined sync.WaitGroup
	defer joined.Wait()
	joined.Go(func() { c.sweep(ctx) })
	joined.Go(func() { c.count(ctx) })

	var mu sync.Mutex
	working := map[int64]bool{} // Bounded by how many webhooks there may be.
	silent := false
	for ctx.Err() == nil {
		ids, err := c.due(ctx)
		if failed := err != nil && ctx.Err() == nil; failed != silent {
			if silent = failed; failed {
				c.Log.Warn("webhooks cannot be looked up", "error", err)
			}
		}
		for _, id := range ids {
			mu.Lock()
			busy := working[id]
			working[id] = true
			mu.Unlock()
			if busy {
				continue
			}
			joined.Go(func() {
				newSession(c, id, owner).run(ctx)
				mu.Lock()
				delete(working, id)
				mu.Unlock()
			})
		}
		wait(ctx, jitter(c.Every))
	}
	return nil
}

func (s *Sender) due(ctx context.Context) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.Store.DueWebhooks(ctx)
}

// sweep forgets what has ended long ago. Each sender does: it is cheap, and nobody has to be chosen.
func (s *Sender) sweep(ctx context.Context) {
	for {
		if wait(ctx, jitter(s.SweepEvery)); ctx.Err() != nil {
			return
		}
		if err := s.Store.SweepWebhooks(ctx, Limits{s.RetryFor, s.Keep, s.KeepMax}); err != nil && ctx.Err() == nil {
			s.Log.Warn("old deliveries could not be swept", "error", err)
		}
	}
}

func (s *Sender) count(ctx context.Context) {
	for ctx.Err() == nil {
		// What was last read stands if this fails: the looks for work tell why.
		if n, err := s.Store.PendingDeliveries(ctx); err == nil {
			s.Metrics.WebhookPending.Set(float64(n))
		}
		wait(ctx, pendingEvery)
	}
}

// The back-off of a delivery.
const (
	backoffLeast = 5 * time.Second
	backoffMost  = 2 * time.Hour
)

// The rest of a webhook that has failed failuresMax times in a row: one request is tried after each
// pause, whatever waits. Short, for it may be a few events only that the receiver cannot take.
const (
	failuresMax = 8
	pauseLeast  = time.Second
	pauseMost   = time.Minute
)

// doubled is least, doubled so many times, and at most most.
func doubled(least, most time.Duration, times int) time.Duration {
	for d := least; ; d, times = 2*d, times-1 {
		if d >= most || times <= 0 {
			return min(d, most)
		}
	}
}

// jitter is a duration give or take a quarter.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + randv2.N(d/2+1)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// canceled tells an answer that nobody waited for.
func canceled(a Answer) bool { return errors.Is(a.Err, context.Canceled) }
