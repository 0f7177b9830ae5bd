// Package bench is a load generator for a seckill server. It plays buyers who click,
// measures what they see, follows their tickets to the end and, given an operator's
// client, checks the books afterwards. It uses the public API as any client would, and
// knows nothing of the server's inside. `seckill bench` and `seckill demo` use it.
package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/client"
)

// Options of a run. Either Rate or Rush makes it an open loop: clicks come at their
// times, whether or not earlier ones are answered. Otherwise Concurrency buyers click
// as fast as they are answered, a closed loop.
type Options struct {
	Server   string   // Address of the public listener. Required.
	Activity int64    // Required.
	Identity Identity // How buyers say who they are. Default: open.

	Buyers      int64         // Different buyers; 0 takes as many as there is time for. Up to 1e9.
	Clicks      int           // Of each buyer. Default 1, up to 1000.
	Quantity    int           // Units for each click. Default 1.
	Duration    time.Duration // Of the load. Default 10s if Buyers is 0, else until all have clicked. Up to 24h.
	Rate        float64       // Clicks per second of an open loop. Up to 1e6.
	Rush        time.Duration // Open loop: all clicks come within it, most of them early. Needs Buyers.
	Concurrency int           // Requests under way at most. Default 64, open loop 512; up to 4096.
	Scattered   bool          // Buyers are scattered numbers instead of random UUIDs.
	Seed        uint64        // Of the buyers' ids; 0 takes a random one.

	Timeout   time.Duration // Of one request. Default 10s.
	FollowFor time.Duration // How long tickets are followed after the load. Default 30s; below 0, not at all.
	FollowMax int           // Accepted tickets that are kept at most. Default 200000.
	Every     time.Duration // Between two points of the timeline. Default 1s.

	StartAt  time.Time      // When the load begins. Default: at once.
	Progress func(Progress) // Told at each point of the timeline, and while tickets are followed. Default none.
	Admin    *client.Admin  // Checks the books. Default: they are not checked.
}

func (o Options) withDefaults() (Options, error) {
	open := o.Rate > 0 || o.Rush > 0
	if o.Clicks == 0 {
		o.Clicks = 1
	}
	if o.Quantity == 0 {
		o.Quantity = 1
	}
	if o.Concurrency == 0 {
		o.Concurrency = 64
		if open {
			o.Concurrency = 512
		}
	}
	if o.Duration == 0 && o.Buyers == 0 {
		o.Duration = 10 * time.Second
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	setDuration(&o.Timeout, 10*time.Second)
	setDuration(&o.FollowFor, 30*time.Second)
	setDuration(&o.Every, time.Second)
	if o.FollowMax == 0 {
		o.FollowMax = 200_000
	}
	switch {
	case o.Activity < 1:
		return o, errors.New("activity: has to be named; accepted: the id of an activity, from 1")
	case o.Buyers < 0 || o.Buyers > 1_000_000_000:
		return o, errors.New("buyers: is out of bounds; accepted: 0 (as many as there is time for) to 1000000000")
	case o.Clicks < 1 || o.Clicks > 1000:
		return o, errors.New("clicks: is out of bounds; accepted: 1 to 1000")
	case o.Quantity < 1 || o.Quantity > 1_000_000:
		return o, errors.New("quantity: is out of bounds; accepted: 1 to 1000000")
	case o.Duration < 0 || o.Duration > 24*time.Hour:
		return o, errors.New("duration: is out of bounds; accepted: up to 24h")
	case !(o.Rate >= 0 && o.Rate <= 1_000_000):
		return o, errors.New("rate: is out of bounds; accepted: up to 1000000 clicks per second")
	case o.Concurrency < 1 || o.Concurrency > 4096:
		return o, errors.New("concurrency: is out of bounds; accepted: 1 to 4096")
	case o.Rush > 0 && (o.Buyers == 0 || o.Rate > 0):
		return o, errors.New("rush: needs a number of buyers, and no rate")
	}
	return o, nil
}

func setDuration(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Check says what is wrong with the options, by the name of the one that is: "rate: …".
func (o Options) Check() error {
	if o.Activity == 0 {
		o.Activity = 1 // It may be found out later.
	}
	_, err := o.withDefaults()
	return err
}

// Progress is what can be seen while it runs.
type Progress struct {
	Phase    string        // "load", then "follow".
	Elapsed  time.Duration // Since the load began.
	Planned  int64         // Clicks in all; 0 if only the duration bounds them.
	Requests int64         // Answered so far.
	Tally    Tally         // Of all so far.
	Recent   Point         // Since the last time.
	Tickets  Tickets       // As far as they are known.
}

// ErrViolated says that the books, or the tickets, show a broken promise.
var ErrViolated = errors.New("a promise was broken")

// Run generates the load and reports on it. When ctx ends, the load ends, and what
// was measured is reported as interrupted. The error is about a run that could not be
// made; broken promises are in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b, err := newRun(o)
	if err != nil {
		return nil, err
	}
	defer b.http.CloseIdleConnections()
	activity, err := b.public.Activity(ctx, o.Activity)
	if err != nil {
		return nil, fmt.Errorf("look at activity %d: %w", o.Activity, err)
	}
	b.report.Activity, b.report.Name, b.report.LimitPerUser = o.Activity, activity.Name, activity.LimitPerUser
	if o.Admin != nil {
		if err := b.booksBefore(ctx); err != nil {
			return nil, err
		}
	}
	if !sleepUntil(ctx, o.StartAt) {
		return nil, ctx.Err()
	}
	b.load(ctx)
	if ctx.Err() == nil && o.FollowFor > 0 {
		b.followRest(ctx)
	}
	b.report.Tickets = b.tickets.snapshot()
	if ctx.Err() == nil && o.Admin != nil {
		if err := b.booksAfter(ctx); err != nil {
			return nil, err
		}
	}
	b.report.Interrupted = ctx.Err() != nil
	b.report.Violations = b.violations()
	return &b.report, nil
}

// run is one run under way.
type run struct {
	Options
	gun     *gun
	ids     ids
	planned int64 // 0 without an end.
	http    *http.Client
	public  *client.Buyer

	tally   *tally
	tickets *tickets
	report  Report
	began   time.Time
	clicks  chan int64 // Of an open loop, when their time has come; nil of a closed one.
}

func newRun(o Options) (*run, error) {
	u, err := url.Parse(o.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("server: is not an address; accepted: http://host:port or https://host")
	}
	b := &run{Options: o, gun: newGun(u, o), ids: ids{seed: o.Seed, scattered: o.Scattered}, planned: o.Buyers * int64(o.Clicks)}
	b.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: followers, IdleConnTimeout: 5 * time.Second}}
	b.public, err = client.NewBuyer(client.Options{Server: o.Server, HTTP: b.http})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	b.tally = newTally(o.Concurrency)
	b.tickets = newTickets(o.FollowMax)
	b.report = Report{Server: u.Scheme + "://" + u.Host, Loop: "closed", Concurrency: o.Concurrency, Buyers: o.Buyers, Clicks: o.Clicks, Quantity: o.Quantity, Seed: o.Seed}
	if o.Rate > 0 || o.Rush > 0 {
		b.report.Loop, b.report.Rate = "open", o.Rate
	}
	return b, nil
}

// load clicks until the time is up or all have clicked.
func (b *run) load(ctx context.Context) {
	loading := ctx
	b.began = time.Now()
	if b.Duration > 0 {
		var cancel context.CancelFunc
		loading, cancel = context.WithDeadline(ctx, b.began.Add(b.Duration))
		defer cancel()
	}
	following, stopFollowing := context.WithCancel(ctx)
	var others errgroup.Group
	if b.FollowFor > 0 {
		for range followers {
			others.Go(func() error { b.followLive(following); return nil })
		}
	}
	ended := make(chan struct{})
	others.Go(func() error { b.watchTime(ended); return nil })

	if b.Rate > 0 || b.Rush > 0 {
		b.clicks = make(chan int64)
		others.Go(func() error { b.schedule(loading); return nil })
	}
	var workers errgroup.Group
	for i := range b.Concurrency {
		workers.Go(func() error { b.work(loading, b.tally.workers[i]); return nil })
	}
	_ = workers.Wait() // None of them fails.
	b.report.measured(b.began)
	close(ended)
	stopFollowing()
	_ = others.Wait()
	b.tally.collect()
	b.report.add(b.tally, b.unsent())
}

// unsent counts the clicks of an open loop whose time had come but that no connection
// was free for.
func (b *run) unsent() int64 {
	if b.Rate == 0 || b.Duration == 0 {
		return 0
	}
	due := int64(b.Rate * b.Duration.Seconds())
	if b.planned > 0 {
		due = min(due, b.planned)
	}
	return max(0, due-b.tally.total.requests())
}

// watchTime makes a point of the timeline each Every until the load has ended.
func (b *run) watchTime(ended <-chan struct{}) {
	ticker := time.NewTicker(b.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			b.point()
			return
		case <-ticker.C:
			b.point()
		}
	}
}

func (b *run) point() {
	elapsed := time.Since(b.began)
	p := b.tally.collect()
	p.At = elapsed.Seconds()
	if len(b.report.Timeline) < timelineMax {
		b.report.Timeline = append(b.report.Timeline, p)
	}
	b.tell("load", p)
}

const timelineMax = 90_000 // A day of seconds.

func (b *run) tell(phase string, recent Point) {
	if b.Progress == nil {
		return
	}
	total := b.tally.totals()
	b.Progress(Progress{
		Phase: phase, Elapsed: time.Since(b.began), Planned: b.planned, Requests: total.requests(),
		Tally: total, Recent: recent, Tickets: b.tickets.snapshot(),
	})
}
