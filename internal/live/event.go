package live

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"seckill"
)

const (
	// activitiesMax is how many activities a sample shows: those that are not over, then the latest.
	activitiesMax = 50
	// Books are counted several at a time. Of what is over, or while nobody watches, they are counted seldom.
	booksAtOnce = 8
	seldom      = 10 * time.Second
)

// event is a sample as consoles get it.
type event struct {
	At         time.Time          `json:"at"`
	Node       string             `json:"node"`
	Nodes      int                `json:"nodes"`
	Activities []activity         `json:"activities"`
	Outcomes   map[string]float64 `json:"outcomes"`
	Latency    latency            `json:"latency_ms"`
	Backlog    float64            `json:"backlog"`
	Oldest     float64            `json:"backlog_oldest_seconds"`
	Orders     float64            `json:"orders_per_second"`
	Lag        lag                `json:"order_lag_ms"`
	Guards     []guard            `json:"guards"`
}

type activity struct {
	ID    int64         `json:"id"`
	Run   int           `json:"run"`
	Name  string        `json:"name"`
	State seckill.State `json:"state"`
	seckill.Books
}

// latency is null where there was nothing to measure.
type latency struct {
	P50 *float64 `json:"p50"`
	P90 *float64 `json:"p90"`
	P99 *float64 `json:"p99"`
}

type lag struct {
	P50 *float64 `json:"p50"`
	P99 *float64 `json:"p99"`
}

type guard struct {
	Name   string     `json:"name"`
	Acting bool       `json:"acting"`
	Since  *time.Time `json:"since"` // null if it never acted.
	Reason string     `json:"reason"`
	Figure string     `json:"figure"`
}

// publish makes the next sample. Its text is made only if somebody watches.
func (r *Reporter) publish() {
	all, mine, nodes, ok := r.together()
	if !ok {
		return
	}
	s := &sample{at: mine.at, all: all, next: make(chan struct{})}
	before := r.sample.Load()
	s.id = max(mine.at.UnixMilli(), before.id+1)
	if r.watchers.Load() > 0 {
		s.body = []byte(encode(r.event(all, mine, nodes)))
	}
	r.sample.Store(s)
	close(before.next)
}

func (r *Reporter) event(all figures, mine reading, nodes int) event {
	e := event{
		At: mine.at.UTC(), Node: r.o.ID, Nodes: nodes, Outcomes: all.Outcomes, Orders: round(all.Orders, 10),
		Backlog: mine.backlog, Oldest: round(mine.oldest, 10), Activities: []activity{}, Guards: []guard{},
	}
	for name, n := range e.Outcomes {
		e.Outcomes[name] = round(n, 10) // Sums of tenths are not tenths.
	}
	if len(all.Latency) == 3 {
		e.Latency = latency{&all.Latency[0], &all.Latency[1], &all.Latency[2]}
	}
	if len(all.Lag) == 2 {
		e.Lag = lag{&all.Lag[0], &all.Lag[1]}
	}
	for _, a := range r.shown(mine.at) {
		if b, ok := r.booksOf(a, mine.at); ok {
			e.Activities = append(e.Activities, activity{a.ID, a.Run, a.Name, a.State(mine.at, b.Available == 0), b})
		}
	}
	if r.o.Guards != nil {
		for _, g := range r.o.Guards() {
			shown := guard{Name: g.Name, Acting: g.Acting, Reason: g.Reason, Figure: g.Figure}
			if !g.Since.IsZero() {
				since := g.Since.UTC()
				shown.Since = &since
			}
			e.Guards = append(e.Guards, shown)
		}
	}
	return e
}

// shown are the activities of a sample, by id.
func (r *Reporter) shown(now time.Time) []*seckill.Activity {
	all := slices.Clone(r.o.Activities())
	slices.SortFunc(all, func(a, b *seckill.Activity) int {
		return cmp.Or(cmp.Compare(over(a, now), over(b, now)), b.EndsAt.Compare(a.EndsAt), cmp.Compare(b.ID, a.ID))
	})
	all = all[:min(len(all), activitiesMax)]
	slices.SortFunc(all, func(a, b *seckill.Activity) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// over is 1 if an activity is, else 0.
func over(a *seckill.Activity, now time.Time) int {
	if a.State(now, false) == seckill.StateEnded {
		return 1
	}
	return 0
}

// booksOf are the books as they were counted last; if that was too long ago, what this node
// knows of the stock. Those who are dead, and the total, only the database knows.
func (r *Reporter) booksOf(a *seckill.Activity, now time.Time) (seckill.Books, bool) {
	c, counted := r.books.of(a.RunID())
	if counted && now.Sub(c.at) < freshFor || counted && over(a, now) == 1 {
		return c.books, true
	}
	l, known := r.o.Level(a.RunID())
	if !known {
		return c.books, counted
	}
	b := seckill.Books{Total: a.Total, Available: l.Available, Queued: max(l.Queued-c.books.Dead, 0), AwaitingPayment: l.AwaitingPayment, Paid: l.Paid, Dead: c.books.Dead}
	return b.Balance(), true
}

// counted is what the books of a run were.
type counted struct {
	books seckill.Books
	at    time.Time // When they were counted.
	tried time.Time // When it was tried last.
}

// books are those of all runs that are shown.
type books struct {
	mu     *sync.Mutex
	runs   map[seckill.RunID]counted
	wanted chan struct{} // Somebody has begun to watch.
}

func newBooks() books {
	return books{new(sync.Mutex), map[seckill.RunID]counted{}, make(chan struct{}, 1)}
}

func (b *books) want() {
	select {
	case b.wanted <- struct{}{}:
	default:
	}
}

func (b *books) of(run seckill.RunID) (counted, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.runs[run]
	return c, !c.at.IsZero()
}

func (b *books) set(run seckill.RunID, change func(*counted)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.runs[run]
	change(&c)
	b.runs[run] = c
}

// keep forgets all runs but these.
func (b *books) keep(shown []*seckill.Activity) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := make(map[seckill.RunID]counted, len(shown))
	for _, a := range shown {
		if c, ok := b.runs[a.RunID()]; ok {
			kept[a.RunID()] = c
		}
	}
	b.runs = kept
}

// count counts the books that it is time for.
func (r *Reporter) count(ctx context.Context) {
	now := time.Now()
	shown := r.shown(now)
	r.books.keep(shown)
	ctx, cancel := context.WithTimeout(ctx, storeFor)
	defer cancel()
	slots := make(chan struct{}, booksAtOnce)
	var counts sync.WaitGroup
	for _, a := range shown {
		c, _ := r.books.of(a.RunID())
		rarely := r.watchers.Load() == 0 || over(a, now) == 1
		if rarely && now.Sub(c.tried) < seldom {
			continue
		}
		slots <- struct{}{}
		counts.Go(func() {
			defer func() { <-slots }()
			b, err := r.o.Books(ctx, a.RunID())
			r.books.set(a.RunID(), func(c *counted) {
				c.tried = now
				if err == nil {
					c.books, c.at = b, time.Now()
				}
			})
			if err != nil && ctx.Err() == nil {
				r.o.Log.Debug("live: books cannot be counted", "activity", a.ID, "run", a.Run, "error", err)
			}
		})
	}
	counts.Wait()
}
