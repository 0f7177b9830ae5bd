package admin

import (
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"seckill"
	"seckill/internal/problem"
)

// Wrong tokens that an address may try at once, and how soon it may try one more.
const (
	triesBurst = 20
	triesEvery = time.Second
	// addressesMax is how many addresses are remembered. When there are more, all are
	// forgotten: a flood of addresses gains a burst each, and memory stays bounded.
	addressesMax = 4096
)

// admitToken lets those through who know the token.
func (s *Server) admitToken(r *http.Request) *seckill.Refusal {
	given := r.Header.Values("Authorization")
	if len(given) > 1 {
		return seckill.Invalid("Authorization", seckill.RuleRepeated, "")
	}
	if len(given) == 0 {
		return problem.Plain(seckill.Unauthenticated) // Nothing was tried.
	}
	from := clientAddress(r)
	// Before the comparison: else an address that guesses would be told when it is right.
	if wait := s.tries.wait(from, time.Now()); wait > 0 {
		return &seckill.Refusal{Reason: seckill.RateLimited, RetryAfter: wait}
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if strings.EqualFold(scheme, "Bearer") && s.isToken(token) {
		return nil
	}
	s.tries.failed(from, time.Now())
	s.o.Log.Warn("admin: a wrong token was tried", "from", from, "method", r.Method, "path", r.URL.Path)
	return problem.Plain(seckill.Unauthenticated)
}

// clientAddress is the address of the connection. What a header says of it is not
// believed: this listener has no proxy that buyers could pass through.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// tries counts wrong tokens by address, as buckets that drain with time.
type tries struct {
	mu sync.Mutex
	// until is when an address's bucket is empty again.
	until map[netip.Prefix]time.Time
}

func newTries() tries { return tries{until: map[netip.Prefix]time.Time{}} }

// network is what counts as one address: whoever has one of IPv6 has 2^64.
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

// wait tells how long an address has to wait before it may try again.
func (t *tries) wait(from string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Not the difference of durations: that of a moment long ago overflows.
	return max(0, t.until[network(from)].Add(-(triesBurst-1)*triesEvery).Sub(now))
}

// charge counts a try before it is made, or tells how long to wait.
func (t *tries) charge(from string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := t.until[network(from)].Add(-(triesBurst - 1) * triesEvery).Sub(now); wait > 0 {
		return wait
	}
	t.count(from, now)
	return 0
}

// forgive takes back one try, since it was right.
func (t *tries) forgive(from string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until, ok := t.until[network(from)]; ok {
		t.until[network(from)] = until.Add(-triesEvery)
	}
}

func (t *tries) failed(from string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(from, now)
}

func (t *tries) count(from string, now time.Time) {
	if len(t.until) >= addressesMax {
		clear(t.until)
	}
	key := network(from)
	until := t.until[key]
	if until.Before(now) {
		until = now
	}
	t.until[key] = until.Add(triesEvery)
}

func stack() string { return string(debug.Stack()) }
