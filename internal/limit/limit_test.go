package limit

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func limiter(tb testing.TB, o Options) *Limiter {
	tb.Helper()
	if o.Name == "" {
		o.Name = "ip"
	}
	l, err := New(o)
	must(tb, err)
	return l
}

// passed counts how many of n requests of a key pass at one moment.
func passed(l *Limiter, key uint64, now time.Time, n int) (ok int) {
	for range n {
		if l.Take(key, now).OK {
			ok++
		}
	}
	return ok
}

// A burst passes at once, and then as many as the rate says, whatever the two are.
func TestABurstPassesAndThenTheRate(t *testing.T) {
	now := time.Now()
	for _, o := range []Options{{Rate: 10, Burst: 20}, {Rate: 5, Burst: 5}, {Rate: 1, Burst: 1}, {Rate: 0.1, Burst: 3}, {Rate: 99_999, Burst: 7}, {Rate: 100, Burst: 10_000}} {
		l := limiter(t, o)
		if got := passed(l, 1, now, o.Burst+100); got != o.Burst {
			t.Errorf("%v/s:%d: got %d at once", o.Rate, o.Burst, got)
		}
		// For a hundred intervals, ten requests in each.
		step, ok := time.Duration(1e8/o.Rate), 0
		for i := range 1000 {
			if l.Take(1, now.Add(time.Duration(i+1)*step)).OK {
				ok++
			}
		}
		if ok < 99 || ok > 103 { // Intervals are rounded to 256 ns.
			t.Errorf("%v/s:%d: got %d in the time of 100", o.Rate, o.Burst, ok)
		}
		if got := passed(l, 2, now, o.Burst+1); got != o.Burst {
			t.Errorf("%v/s:%d: another key got %d", o.Rate, o.Burst, got)
		}
	}
}

// What a result says of the future holds: at RetryAfter one passes and not before, and after Reset the
// whole burst.
func TestResultsTellTheFuture(t *testing.T) {
	l := limiter(t, Options{Rate: 10, Burst: 20})
	now := time.Now()
	for i := range 20 {
		if r := l.Take(1, now); !r.OK || r.Remaining != 19-i || r.RetryAfter != 0 {
			t.Fatalf("request %d: got %+v", i, r)
		}
	}
	r := l.Take(1, now)
	if r.OK || r.Remaining != 0 || r.RetryAfter < 99*time.Millisecond || r.RetryAfter > 101*time.Millisecond {
		t.Fatalf("got %+v", r)
	}
	if early := l.Take(1, now.Add(r.RetryAfter-time.Millisecond)); early.OK {
		t.Errorf("before its time: got %+v", early)
	}
	again := l.Take(1, now.Add(r.RetryAfter))
	if !again.OK {
		t.Errorf("in its time: got %+v", again)
	}
	if got := passed(l, 1, now.Add(r.RetryAfter+again.Reset), 30); got != 20 {
		t.Errorf("after the reset: got %d", got)
	}
}

// A limit that is off lets everything through and says nothing.
func TestOffIsNil(t *testing.T) {
	var off *Limiter
	if r := off.Take(1, time.Now()); !r.OK || r.Remaining != -1 || off.Forgotten() != 0 || off.Bytes() != 0 {
		t.Errorf("got %+v", r)
	}
	if b := off.AppendState(off.AppendPolicy(nil), Result{}); b != nil {
		t.Errorf("got %q", b)
	}
}

// A clock that jumps leaves nobody out for longer than two bursts take.
func TestClockJumps(t *testing.T) {
	l := limiter(t, Options{Rate: 10, Burst: 20})
	now := time.Now()
	passed(l, 1, now.Add(time.Hour), 30)
	if r := l.Take(1, now); r.OK || r.RetryAfter > 3*time.Second {
		t.Errorf("after a jump back: got %+v", r)
	}
	if r := l.Take(1, now.Add(1000*time.Hour)); !r.OK || r.Remaining != 19 {
		t.Errorf("after a jump ahead: got %+v", r)
	}
}

// However many goroutines ask for one key, a burst passes and no more.
func TestOneKeyFromManySides(t *testing.T) {
	l := limiter(t, Options{Rate: 1, Burst: 1000, Cells: 64})
	now := time.Now()
	var ok atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { ok.Add(int64(passed(l, 7, now, 1000))) })
	}
	all.Wait()
	if ok.Load() != 1000 {
		t.Errorf("got %d", ok.Load())
	}
}

// OAT-015, denial of service: ten million made-up keys take no memory, an honest buyer passes all the
// while, and one who is over the limit stays so.
func TestOAT015TenMillionKeys(t *testing.T) {
	l := limiter(t, Options{Rate: 10, Burst: 20})
	random := rand.New(rand.NewPCG(1, 2))
	begin := time.Now()
	honest, offender := uint64(1)<<63+5, uint64(1)<<62+5
	passed(l, offender, begin, 20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	honestOK, offenderOK := 0, 0
	for i := range floodKeys {
		now := begin.Add(time.Duration(i) * 10 * time.Microsecond) // 100,000 a second.
		l.Take(random.Uint64(), now)
		if i%100_000 == 0 && l.Take(honest, now).OK { // Once a second.
			honestOK++
		}
		if i%1000 == 0 && l.Take(offender, now).OK { // A hundred a second.
			offenderOK++
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	if honestOK != floodKeys/100_000 {
		t.Errorf("the honest buyer got %d of %d", honestOK, floodKeys/100_000)
	}
	if offenderOK > floodKeys/10_000+2 { // 10/s.
		t.Errorf("the offender got %d", offenderOK)
	}
	t.Logf("table %d MiB; forgotten in debt: %d", l.Bytes()>>20, l.Forgotten())
}

// When a set is full of debts, the newcomer passes, and who is at his limit is remembered before
// those that came once.
func TestTheLeastDebtIsForgotten(t *testing.T) {
	l := limiter(t, Options{Rate: 1, Burst: 10, Cells: 64})
	now := time.Now()
	passed(l, 1, now, 10) // Keys that begin with the same bits share a set.
	for key := range uint64(10_000) {
		if !l.Take(key+2, now).OK {
			t.Fatalf("newcomer %d was refused", key)
		}
	}
	if r := l.Take(1, now); r.OK {
		t.Error("who was at his limit was forgotten")
	}
	if got := l.Forgotten(); got != 10_000-(setCells-1) {
		t.Errorf("got %d forgotten", got)
	}
}

// A key is hot when it is faster here than one gateway's share, however it spreads its requests.
func TestHotKeys(t *testing.T) {
	now := time.Now()
	hot := func(l *Limiter, gaps ...time.Duration) bool {
		at := now
		for i := range 400 {
			l.Take(1, at)
			at = at.Add(gaps[i%len(gaps)])
		}
		return l.hot.count(1) > 0
	}
	for name, c := range map[string]struct {
		gaps []time.Duration
		want bool
	}{
		"a click a second":           {[]time.Duration{time.Second}, false},
		"at the share":               {[]time.Duration{900 * time.Millisecond}, false},
		"at half the rate":           {[]time.Duration{200 * time.Millisecond}, true},
		"at ten times the rate":      {[]time.Duration{10 * time.Millisecond}, true},
		"small bursts, then a pause": {append(make([]time.Duration, 8), 850*time.Millisecond), true},
	} {
		if got := hot(limiter(t, Options{Rate: 10, Burst: 20, Shared: true}), c.gaps...); got != c.want {
			t.Errorf("%s: hot is %v", name, got)
		}
	}
	l := limiter(t, Options{Rate: 10, Burst: 2, Shared: true, HotMax: 160})
	for key := range uint64(100_000) {
		passed(l, key, now, 2)
	}
	if got := len(l.hot.drain()); got != 160 {
		t.Errorf("got %d hot keys of 160", got)
	}
	if got := len(l.hot.drain()); got != 0 {
		t.Errorf("got %d hot keys of a round without requests", got)
	}
}

// The hash is the one that its authors published, and who shares a /64 shares a key.
func TestKeys(t *testing.T) {
	var secret, text [16]byte
	for i := range secret {
		secret[i], text[i] = byte(i), byte(i)
	}
	reference := Keys{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])}
	if got := reference.hash(text[:15]); got != 0xa129ca6149be45e5 {
		t.Errorf("got %x", got)
	}
	k := NewKeys([]byte("a secret"))
	addr := func(s string) uint64 { return k.Addr(netip.MustParseAddr(s)) }
	if addr("2001:db8::1") != addr("2001:db8::ffff:1") || addr("2001:db8::1") == addr("2001:db8:0:1::1") {
		t.Error("IPv6 does not go by /64")
	}
	if addr("192.0.2.1") != addr("::ffff:192.0.2.1") || addr("192.0.2.1") == addr("192.0.2.2") {
		t.Error("IPv4 does not go by address")
	}
	if k.String("ann") != NewKeys([]byte("a secret")).String("ann") || k.String("ann") == k.String("ann\x00") || k.String("") == k.String("\x00") {
		t.Error("names do not have keys of their own")
	}
	if a, b := NewKeys(nil), NewKeys(nil); a.String("ann") == b.String("ann") {
		t.Error("the secret that nobody gave is known")
	}
}

func TestHeaders(t *testing.T) {
	ip, user := limiter(t, Options{Rate: 10, Burst: 20}), limiter(t, Options{Name: "user", Rate: 0.5, Burst: 1})
	if got := string(user.AppendPolicy(ip.AppendPolicy(nil))); got != `"ip";q=20;w=2, "user";q=1;w=2` {
		t.Errorf("got %s", got)
	}
	now := time.Now()
	b := ip.AppendState(nil, ip.Take(1, now))
	user.Take(1, now)
	if got := string(user.AppendState(b, user.Take(1, now))); got != `"ip";r=19;t=1, "user";r=0;t=2` {
		t.Errorf("got %s", got)
	}
	passed(ip, 1, now, 20)
	if got := string(ip.AppendState(nil, ip.Take(1, now))); got != `"ip";r=0;t=1` { // As Retry-After says.
		t.Errorf("refused: got %s", got)
	}
	passed(ip, 2, now, 15)
	if got := string(ip.AppendState(nil, ip.Take(2, now))); got != `"ip";r=4;t=2` { // Until all of it is back.
		t.Errorf("let through: got %s", got)
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	for _, o := range []Options{
		{}, {Name: "a", Rate: 1}, {Name: "a", Burst: 1}, {Name: "a b", Rate: 1, Burst: 1}, {Name: strings.Repeat("a", 33), Rate: 1, Burst: 1},
		{Name: "a", Rate: math.NaN(), Burst: 1}, {Name: "a", Rate: math.Inf(1), Burst: 1}, {Name: "a", Rate: 1e6, Burst: 1}, {Name: "a", Rate: 1e-9, Burst: 1},
		{Name: "a", Rate: 1, Burst: 1, Cells: 1}, {Name: "a", Rate: 1, Burst: 1, HotMax: 1}, {Name: "a", Rate: 1, Burst: 1, Every: 1}, {Name: "a", Rate: 1, Burst: 1, Gateways: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// A request allocates nothing: neither its key, nor the check, nor its headers.
func TestARequestAllocatesNothing(t *testing.T) {
	l, k, now := limiter(t, Options{Rate: 1, Burst: 1, Shared: true}), NewKeys(nil), time.Now()
	addr, b, buyer := netip.MustParseAddr("2001:db8::1"), make([]byte, 0, 64), "550e8400-e29b-41d4-a716-446655440000"
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Second)
		l.Take(k.Addr(addr), now)
		b = l.AppendState(l.AppendPolicy(b[:0])[:0], l.Take(k.String(buyer), now))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkKeyAddr(b *testing.B) {
	k, addr := NewKeys(nil), netip.MustParseAddr("2001:db8::1")
	for b.Loop() {
		k.Addr(addr)
	}
}

func BenchmarkKeyString(b *testing.B) {
	k := NewKeys(nil)
	for b.Loop() {
		k.String("550e8400-e29b-41d4-a716-446655440000")
	}
}

// Many keys, from all processors.
func BenchmarkTakeManyKeys(b *testing.B) {
	for name, keys := range map[string]uint64{"100000": 100_000, "distinct": math.MaxUint64} {
		b.Run(name, func(b *testing.B) {
			l, k, now := limiter(b, Options{Rate: 10, Burst: 20}), NewKeys(nil), time.Now()
			passed(l, 1, now, 1)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				random := rand.New(rand.NewPCG(rand.Uint64(), 0))
				for pb.Next() {
					key := random.Uint64() % keys
					l.Take(key*(k.k0|1), now) // A cheap way to spread them.
				}
			})
		})
	}
}

// One key, from all processors, which is refused.
func BenchmarkTakeOneKey(b *testing.B) {
	l, now := limiter(b, Options{Rate: 10, Burst: 20}), time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Take(1, now)
		}
	})
}

// A key that is hot, of a limit that is shared.
func BenchmarkTakeHotKey(b *testing.B) {
	l, now := limiter(b, Options{Rate: 100_000, Burst: 20, Shared: true}), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(20 * time.Microsecond)
		l.Take(1, now)
	}
}
