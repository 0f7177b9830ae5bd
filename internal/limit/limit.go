// Package limit bounds how often a key (an address, a buyer, a device) may do something. It
// keeps what it knows in a table of fixed size, allocates nothing for a request, and asks
// nobody; gateways that share a limit settle it with one another a little later (see
// [Limiter.Run]). It knows nothing of requests or of why somebody is limited: the public
// door is its user.
//
// # When a request has several limits
//
// They are asked in their order, and the first refusal ends it. Those that were asked before have
// counted the request; that is as it should be, as it was made.
//
// # What a flood of made-up keys can do
//
// A key that has not been seen, or was forgotten, may do as much as its burst: to be forgotten
// harms nobody, and the question is only whether somebody can make the table forget
// him. A cell whose debt is paid is forgotten at no loss, so what counts are keys with a debt:
// with 10/s that of one request lasts 100 ms, and 100,000 made-up keys a second hold 10,000 cells. When
// all cells of a set are in debt the one with the least debt goes. One request of a new key makes less debt
// than whoever is at his limit has, so that he stays, and nobody can aim: where a key goes is
// decided by a secret.
package limit

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Options of a Limiter. Zero fields take the defaults.
type Options struct {
	Name  string  // What the headers and Redis keys call it: "ip". Needed; a-z, 0-9, "-" and "_", up to 32.
	Rate  float64 // Requests a second that a key may go on making. Needed; more than 0, up to 100,000.
	Burst int     // Requests that it may make at once. Needed; from 1 to 10,000.
	Cells int     // Keys that are remembered, 2^19 (16 MiB; see Bytes); from 64 to 2^28.

	Shared   bool          // Whether Run settles it with other gateways.
	Gateways int           // How many gateways there may be, 8; from 1. See [Limiter.Run].
	HotMax   int           // Keys that are settled in one round at the most, 512; from 16 to 65536.
	Every    time.Duration // How often, 200 ms; from 10 ms to 10 s.
	Log      *slog.Logger  // Hears when settling fails, and works again. Default slog.Default.
}

// Limiter holds one limit for all keys. A nil one limits nothing. It may be used concurrently.
type Limiter struct {
	o         Options
	begin     time.Time
	interval  int64 // Between requests at the rate, ns; a multiple of 1<<streakBits.
	tolerance int64 // How much debt a request may find, ns: that of a burst but one.
	debtMax   int64 // How much debt can be, ns: two bursts.
	leak      int64 // How long it takes to forget one of the streak, ns.
	hotAt     uint64
	policy    string
	sets      []set
	shift     uint
	forgotten atomic.Int64
	hot       *hot // Nil when the limit is not shared.
}

// Result is what a limit says to a request.
type Result struct {
	OK         bool
	Remaining  int           // Further requests that may come at once; -1 if there is no limit.
	Reset      time.Duration // When the whole burst is back.
	RetryAfter time.Duration // When the next request may come; 0 if OK.
}

// streakBits are the low bits of a cell's time, which hold its streak. So times are as
// fine as 256 ns.
const (
	streakBits = 8
	streakMax  = 1<<streakBits - 1
)

// before keeps times above 0, the time of an empty cell.
const before = int64(time.Hour)

// New makes a limiter that has seen nobody.
func New(o Options) (*Limiter, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("rate limit %q: %w", o.Name, err)
	}
	interval := int64(math.Round(1e9/o.Rate/(1<<streakBits))) << streakBits
	l := &Limiter{
		o: o, begin: time.Now(),
		interval:  interval,
		tolerance: int64(o.Burst-1) * interval,
		debtMax:   2 * int64(o.Burst) * interval,
		leak:      int64(o.Gateways) * interval,
		hotAt:     uint64(min(max(1, o.Burst/2), streakMax)),
		policy:    policyOf(o),
	}
	n := uint(bits.Len(uint((o.Cells - 1) / setCells)))
	l.sets, l.shift = make([]set, 1<<n), 64-n
	if o.Shared {
		l.hot = newHot(o.HotMax)
	}
	return l, nil
}

func (o *Options) complete() error {
	if o.Cells == 0 {
		o.Cells = 1 << 19
	}
	if o.Gateways == 0 {
		o.Gateways = 8
	}
	if o.HotMax == 0 {
		o.HotMax = 512
	}
	if o.Every == 0 {
		o.Every = 200 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	within := func(ok bool, what string) error {
		if ok {
			return nil
		}
		return errors.New(what)
	}
	return errors.Join(
		within(validName(o.Name), "the name must be 1 to 32 of a-z, 0-9, - and _"),
		within(o.Rate > 0 && o.Rate <= 100_000 && 1e9/o.Rate*float64(o.Burst) < 1e17, "the rate must be above 0 and up to 100,000 a second, and bring a burst back within three years"),
		within(o.Burst >= 1 && o.Burst <= 10_000, "the burst must be from 1 to 10,000"),
		within(o.Cells >= 64 && o.Cells <= 1<<28, "the cells must be from 64 to 2^28"),
		within(o.Gateways >= 1 && o.Gateways <= 1000, "the gateways must be from 1 to 1000"),
		within(o.HotMax >= 16 && o.HotMax <= 1<<16, "HotMax must be from 16 to 65536"),
		within(o.Every >= 10*time.Millisecond && o.Every <= 10*time.Second, "Every must be from 10 ms to 10 s"),
	)
}

func validName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// clock is the time that cells are kept in.
func (l *Limiter) clock(now time.Time) int64 {
	return (int64(now.Sub(l.begin)) + before) &^ streakMax
}

// Take counts a request of a key (see [Keys]), or refuses it. A refused one costs nothing.
func (l *Limiter) Take(key uint64, now time.Time) Result {
	if l == nil {
		return Result{OK: true, Remaining: -1}
	}
	t := l.clock(now)
	s := &l.sets[key>>l.shift]
	s.mu.Lock()
	i, known := s.find(key)
	var tat int64
	var streak uint64
	if known {
		tat, streak = s.cells[i].time(), s.cells[i].streak()
	}
	if idle := t - tat; idle > 0 {
		streak -= min(streak, uint64(idle/l.leak))
		tat = t
	}
	// A clock that was set back must not leave anybody out for longer than he deserves.
	tat = min(tat, t+l.debtMax)
	if debt := tat - t; debt > l.tolerance {
		s.mu.Unlock()
		return Result{Reset: time.Duration(debt), RetryAfter: time.Duration(debt - l.tolerance)}
	}
	if !known && s.cells[i].time() > t {
		l.forgotten.Add(1)
	}
	tat += l.interval
	streak = min(streak+1, streakMax)
	s.cells[i] = cell{key, uint64(tat) | streak}
	s.mu.Unlock()

	if l.hot != nil && streak >= l.hotAt {
		l.hot.add(key)
	}
	debt := tat - t
	return Result{OK: true, Remaining: int((l.tolerance + l.interval - debt) / l.interval), Reset: time.Duration(debt)}
}

// raise makes the debt of a key at least as much as it is with all gateways.
func (l *Limiter) raise(key uint64, tat int64) {
	s := &l.sets[key>>l.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	i, known := s.find(key)
	if s.cells[i].time() >= tat {
		return
	}
	streak := l.hotAt // It is hot elsewhere, or it would not be heard of.
	if known {
		streak = s.cells[i].streak()
	}
	s.cells[i] = cell{key, uint64(tat)&^streakMax | streak}
}

// Forgotten counts the keys that were forgotten while they were in debt: the table is too small.
func (l *Limiter) Forgotten() int64 {
	if l == nil {
		return 0
	}
	return l.forgotten.Load()
}

// Bytes is what the table takes in memory. It does not change.
func (l *Limiter) Bytes() int {
	if l == nil {
		return 0
	}
	return len(l.sets) * setBytes
}
