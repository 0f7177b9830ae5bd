package redisstock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"seckill"
)

const (
	// listEvery is how often the list of runs is read while somebody consumes.
	listEvery = time.Second
	// hotFor is how long an outbox is looked at often after there was something: longer than
	// reserve.lua is silent after a wake.
	hotFor = 60 * time.Millisecond
	// hotEvery and coldEvery are how often an outbox is looked at: the latter is for wakes
	// that were missed.
	hotEvery  = 4 * time.Millisecond
	coldEvery = 300 * time.Millisecond
	// relistEvery is how often a run whose level is asked for is put on the list again: the
	// list may be lost with a part of a cluster that had no part of the run.
	relistEvery = 10 * time.Second
)

// hub knows which outboxes there are, and which of them have just been filled. Its
// goroutine runs from the first subscription on.
type hub struct {
	s *Stock

	mu      sync.Mutex
	running bool
	closed  bool
	runs    map[seckill.RunID]listing
	hot     map[place]time.Time // Until when.
	relist  map[seckill.RunID]time.Time
	subs    map[*subscription]struct{}
	kick    chan struct{} // Tells the loop that the list is due.
}

// listing is what the list says of a run.
type listing struct {
	subs    int
	expires int64 // Unix ms.
	text    string
}

func (h *hub) start(s *Stock) {
	h.s = s
	h.runs, h.hot = map[seckill.RunID]listing{}, map[place]time.Time{}
	h.relist, h.subs = map[seckill.RunID]time.Time{}, map[*subscription]struct{}{}
	h.kick = make(chan struct{}, 1)
}

// join adds a subscription.
func (h *hub) join(sub *subscription) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.subs[sub] = struct{}{}
	if !h.running {
		h.running = true
		h.s.workers.Go(h.keepList)
		h.s.workers.Go(h.hearWakes)
	}
	return nil
}

func (h *hub) part(sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, sub)
}

// close ends all subscriptions.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	all := make([]*subscription, 0, len(h.subs))
	for sub := range h.subs {
		all = append(all, sub)
	}
	h.mu.Unlock()
	var wait sync.WaitGroup
	for _, sub := range all {
		wait.Go(func() { _ = sub.Close() })
	}
	wait.Wait()
}

// places lists all outboxes, and whether each is hot.
func (h *hub) places() (all []place, hot []bool) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for run, l := range h.runs {
		for sub := range l.subs {
			p := place{run, sub}
			until, known := h.hot[p]
			if known && now.After(until) {
				delete(h.hot, p)
				known = false
			}
			all, hot = append(all, p), append(hot, known)
		}
	}
	return all, hot
}

// touch has an outbox looked at often for a while.
func (h *hub) touch(p place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hot[p] = time.Now().Add(hotFor)
}

// warm says that there is something in an outbox; back, that it was handed back.
func (h *hub) warm(p place, back bool) {
	h.mu.Lock()
	h.hot[p] = time.Now().Add(hotFor)
	l, known := h.runs[p.run]
	if !known || l.subs <= p.sub {
		// A run that is not listed yet: what has just been woken is there for sure.
		h.runs[p.run] = listing{subs: max(l.subs, p.sub+1), expires: l.expires}
	}
	subs := make([]*subscription, 0, len(h.subs))
	for sub := range h.subs {
		subs = append(subs, sub)
	}
	h.mu.Unlock()
	if !known {
		signal(h.kick)
	}
	for _, sub := range subs {
		if back {
			sub.claimSoon(p)
		}
		signal(sub.wake)
	}
}

// mayHaveMissed has all outboxes looked at, also for what was handed back: while nobody listened, wakes were lost.
func (h *hub) mayHaveMissed() {
	h.mu.Lock()
	subs := make([]*subscription, 0, len(h.subs))
	for sub := range h.subs {
		subs = append(subs, sub)
	}
	h.mu.Unlock()
	for _, sub := range subs {
		sub.claimAllSoon()
		signal(sub.wake)
	}
}

// backMark follows the name of an outbox in a wake, if messages were handed back to it.
const backMark = " back"

// hearWakes listens to the channel that reserve.lua wakes consumers by.
func (h *hub) hearWakes() {
	ctx := rueidis.WithOnSubscriptionHook(h.s.ctx, func(rueidis.PubSubSubscription) { h.mayHaveMissed() })
	for h.s.ctx.Err() == nil {
		err := h.s.listen(ctx, h.s.wakeChannel(), func(message string) {
			name, back := strings.CutSuffix(message, backMark)
			if p, ok := parsePlaceName(name); ok && p.sub < subsMax {
				h.warm(p, back)
			}
		})
		if h.s.ctx.Err() != nil {
			return
		}
		h.s.log.Warn("consumers are not woken, and look for themselves", slog.Any("error", err))
		select {
		case <-time.After(100 * time.Millisecond):
		case <-h.s.ctx.Done():
		}
	}
}

// keepList reads the list of runs now and then, and drops from it what has expired.
func (h *hub) keepList() {
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(h.s.ctx, h.s.timeout)
		err := h.readList(ctx)
		cancel()
		if h.s.ctx.Err() != nil {
			return
		}
		if err != nil {
			h.s.log.Warn("the list of runs cannot be read", slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-h.kick:
		case <-h.s.ctx.Done():
			return
		}
	}
}

func (h *hub) readList(ctx context.Context) error {
	runs, err := h.s.readList(ctx)
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	for run, l := range runs {
		if l.expires < now {
			delete(runs, run)
			if _, err := h.s.do(ctx, call{unlistScript, []string{h.s.listKey()}, []string{runName(run), l.text}}); err != nil {
				return err
			}
		}
	}
	h.mu.Lock()
	for p, until := range h.hot {
		if _, ok := runs[p.run]; !ok && time.Now().After(until) {
			delete(h.hot, p)
		} else if !ok {
			runs[p.run] = h.runs[p.run] // Woken a moment ago, and perhaps listed in a moment.
		}
	}
	h.runs = runs
	subs := make([]*subscription, 0, len(h.subs))
	for sub := range h.subs {
		subs = append(subs, sub)
	}
	h.mu.Unlock()
	for _, sub := range subs {
		signal(sub.wake)
	}
	return nil
}

// readList reads which runs there are.
func (s *Stock) readList(ctx context.Context) (map[seckill.RunID]listing, error) {
	m, err := s.plain(ctx, s.client.B().Hgetall().Key(s.listKey()).Build())
	if err != nil {
		return nil, fmt.Errorf("read the list of runs: %w", err)
	}
	fields, err := m.AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("read the list of runs: %w", err)
	}
	runs := make(map[seckill.RunID]listing, len(fields))
	for name, text := range fields {
		if run, ok := parseRunName(name); ok {
			if l, ok := parseListing(text); ok {
				runs[run] = l
			}
		}
	}
	return runs, nil
}

func parseListing(text string) (listing, bool) {
	subs, expires, ok := strings.Cut(text, ":")
	n, err := strconv.Atoi(subs)
	at, err2 := strconv.ParseInt(expires, 10, 64)
	return listing{n, at, text}, ok && errors.Join(err, err2) == nil && n >= 1 && n <= subsMax
}

// listed tells how a run is listed; no sub-stocks if it is not.
func (s *Stock) listed(ctx context.Context, run seckill.RunID) (subs int, there bool, err error) {
	m, err := s.plain(ctx, s.client.B().Hget().Key(s.listKey()).Field(runName(run)).Build())
	if err != nil {
		return 0, false, fmt.Errorf("read the list of runs: %w", err)
	}
	if m.IsNil() {
		return 0, false, nil
	}
	text, err := m.ToString()
	if err != nil {
		return 0, false, fmt.Errorf("read the list of runs: %w", err)
	}
	l, ok := parseListing(text)
	return l.subs, ok, nil
}

// enlist puts a run on the list.
func (s *Stock) enlist(ctx context.Context, run seckill.RunID, subs int, expires int64) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	text := fmt.Sprintf("%d:%d", subs, expires)
	if _, err := s.plain(ctx, s.client.B().Hset().Key(s.listKey()).FieldValue().FieldValue(runName(run), text).Build()); err != nil {
		return fmt.Errorf("list the run: %w", err)
	}
	s.hub.mu.Lock()
	s.hub.runs[run] = listing{subs, expires, text}
	s.hub.mu.Unlock()
	return nil
}

// list makes sure, now and then, that a run which is there is on the list.
func (h *hub) list(run seckill.RunID, subs int, expires int64) {
	now := time.Now()
	h.mu.Lock()
	due := now.Sub(h.relist[run]) >= relistEvery
	if due {
		if len(h.relist) >= knownMax {
			clear(h.relist)
		}
		h.relist[run] = now
	}
	defer h.mu.Unlock()
	if !due || h.closed {
		return
	}
	h.s.workers.Go(func() {
		ctx, cancel := context.WithTimeout(h.s.ctx, h.s.timeout)
		defer cancel()
		field := h.s.client.B().Hsetnx().Key(h.s.listKey()).Field(runName(run)).Value(fmt.Sprintf("%d:%d", subs, expires)).Build()
		if _, err := h.s.plain(ctx, field); err != nil && h.s.ctx.Err() == nil {
			h.s.log.Warn("a run cannot be listed", slog.Any("error", err))
		}
	})
}

// unlist forgets a run that was dropped.
func (h *hub) unlist(run seckill.RunID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.runs, run)
	delete(h.relist, run)
}

// signal wakes whoever listens, and never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
