package account

import (
	"net/netip"
	"sync"
	"time"
)

// bounds of tries: so many at once, and one more so often.
type bounds struct {
	burst int
	every time.Duration
}

// A try is counted three times over. What one address may try at one name is few, and what it may try at all names
// together is little more, so that guessing at many accounts is as slow as at one. What all addresses together may
// try at a name is more than any one of them can use up: a stranger does not lock a person out. Many strangers
// can keep it used up, and so it does not hold where that person has come in from before.
var (
	atNameFromAddress = bounds{10, 10 * time.Second}
	fromAddress       = bounds{30, 5 * time.Second}
	atName            = bounds{100, time.Second}
)

const (
	// welcomeFor is how long an address from which somebody came in is known to be his.
	welcomeFor = 30 * 24 * time.Hour
	// triedMax is how many of each are remembered. When there are more, all are forgotten: what a flood
	// of them gains is bounded by the addresses that it takes.
	triedMax = 4096
)

// pair is who is tried, and from where.
type pair struct {
	name string
	from netip.Prefix
}

// tries counts tries as buckets that drain with time, on this node. A try is counted before it is made, so that many
// at once gain nothing.
type tries struct {
	mu      sync.Mutex
	pairs   map[pair]time.Time // When a bucket is empty again.
	from    map[netip.Prefix]time.Time
	names   map[string]time.Time
	welcome map[pair]time.Time // When somebody came in last.
}

func newTries() *tries {
	return &tries{
		pairs: map[pair]time.Time{}, from: map[netip.Prefix]time.Time{}, names: map[string]time.Time{}, welcome: map[pair]time.Time{},
	}
}

// network is what counts as one address: whoever has one of IPv6 has 2^64. All that are none are one.
func network(from string) netip.Prefix {
	a, err := netip.ParseAddr(from)
	if err != nil {
		return netip.Prefix{}
	}
	a = a.Unmap().WithZone("")
	size := 64
	if a.Is4() {
		size = 32
	}
	return netip.PrefixFrom(a, size).Masked()
}

func pairOf(name, from string) pair {
	return pair{name[:min(len(name), nameBytesMax)], network(from)}
}

// try counts one more, or tells how long to wait. What has to wait is counted nowhere.
func (t *tries) try(name, from string, now time.Time) (wait time.Duration) {
	p := pairOf(name, from)
	t.mu.Lock()
	defer t.mu.Unlock()
	wait = max(atNameFromAddress.wait(t.pairs[p], now), fromAddress.wait(t.from[p.from], now))
	came, here := t.welcome[p]
	if !here || now.Sub(came) > welcomeFor {
		wait = max(wait, atName.wait(t.names[p.name], now))
	}
	if wait > 0 {
		return wait
	}
	count(t.pairs, p, atNameFromAddress.every, now)
	count(t.from, p.from, fromAddress.every, now)
	count(t.names, p.name, atName.every, now)
	return 0
}

// wait is how long a bucket has no room for one more.
func (b bounds) wait(until, now time.Time) time.Duration {
	// Not the difference of durations: that of a moment long ago overflows.
	return max(0, until.Add(-time.Duration(b.burst-1)*b.every).Sub(now))
}

func count[K comparable](buckets map[K]time.Time, k K, every time.Duration, now time.Time) {
	if len(buckets) >= triedMax {
		clear(buckets)
	}
	until := buckets[k]
	if until.Before(now) {
		until = now
	}
	buckets[k] = until.Add(every)
}

// forgive forgets what somebody tried who knew the password: all at his name from his address, and of what others may
// have tried as well, the last.
func (t *tries) forgive(name, from string, now time.Time) {
	p := pairOf(name, from)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pairs, p)
	takeBack(t.from, p.from, fromAddress.every)
	takeBack(t.names, p.name, atName.every)
	if len(t.welcome) >= triedMax {
		clear(t.welcome)
	}
	t.welcome[p] = now
}

func takeBack[K comparable](buckets map[K]time.Time, k K, every time.Duration) {
	if until, ok := buckets[k]; ok {
		buckets[k] = until.Add(-every)
	}
}
