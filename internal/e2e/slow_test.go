package e2e

import (
	"bufio"
	"bytes"
	bits "encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// rss is what the server's process has in memory, in MiB.
func (s *server) rss() int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	must(s.t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest + " x")[0])
	must(s.t, err)
	return kib >> 10
}

// p99 lets honest buyers ask, on kept connections, and tells how long one in a hundred waits at least. All of them
// have to be answered as they should be.
func (s *server) p99(activity int64) time.Duration {
	s.t.Helper()
	const buyers, each = 8, 150
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for range buyers {
		buyer := newBuyer()
		all.Go(func() {
			for range each {
				begin := time.Now()
				a, err := s.buy(activity, buyer, "", 1)
				if err != nil || a.str("reason") != "sold_out" {
					s.t.Errorf("an honest buyer heard %d %s, %v", a.status, a.body, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(begin))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(took) != buyers*each {
		s.t.FailNow()
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// usualP99 is the middle of five: what a machine does once in a while is not the callers' doing.
func (s *server) usualP99(activity int64) time.Duration {
	s.t.Helper()
	var all [5]time.Duration
	for i := range all {
		all[i] = s.p99(activity)
	}
	slices.Sort(all[:])
	return all[len(all)/2]
}

// attack is connections that a caller keeps busy.
type attack struct {
	t     *testing.T
	addr  string
	conns []net.Conn
	all   sync.WaitGroup
	over  atomic.Bool
}

// callers open so many connections, from addresses of their own, as one has not enough ports. What each does on its own is up to do,
// which has to come back when the connection is closed.
func callers(t *testing.T, addr string, n int, do func(c net.Conn, over *atomic.Bool)) *attack {
	t.Helper()
	a := &attack{t: t, addr: addr}
	var mu sync.Mutex
	var open sync.WaitGroup
	var refused atomic.Int64
	for w := range 16 {
		open.Go(func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(w+1))}, Timeout: 20 * time.Second}
			for range n / 16 {
				c, err := d.DialContext(t.Context(), "tcp", addr)
				if err != nil {
					refused.Add(1)
					continue
				}
				mu.Lock()
				a.conns = append(a.conns, c)
				mu.Unlock()
				if do != nil {
					a.all.Go(func() { do(c, &a.over) })
				}
			}
		})
	}
	open.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d callers were not connected", n)
	}
	return a
}

func (a *attack) stop() {
	a.over.Store(true)
	for _, c := range a.conns {
		c.Close()
	}
	a.all.Wait()
}

const purchaseHead = "POST /v1/activities/1/purchases HTTP/1.1\r\nHost: shop\r\nX-User-Id: slow\r\n"

// slowloris sends its headers one by one, and never the last.
func slowloris(c net.Conn, over *atomic.Bool) {
	if _, err := io.WriteString(c, purchaseHead); err != nil {
		return
	}
	for tick := time.NewTicker(200 * time.Millisecond); !over.Load(); <-tick.C {
		if _, err := io.WriteString(c, "X: 1\r\n"); err != nil {
			return // It was cut off, as it should be.
		}
	}
}

// halfOpen sends half a body, and nothing else.
func halfOpen(c net.Conn, _ *atomic.Bool) {
	_, _ = io.WriteString(c, purchaseHead+"Content-Length: 100\r\n\r\n{")
	_, _ = io.Copy(io.Discard, c)
}

// headerBomb sends more headers than there may be, again and again.
func headerBomb(addr string) func(net.Conn, *atomic.Bool) {
	bomb := []byte(purchaseHead + strings.Repeat("X-Bomb: "+strings.Repeat("b", 1000)+"\r\n", 64))
	return func(c net.Conn, over *atomic.Bool) {
		for !over.Load() {
			_, _ = c.Write(bomb)
			_, _ = io.Copy(io.Discard, c)
			c.Close()
			<-time.After(50 * time.Millisecond)
			var err error
			if c, err = net.Dial("tcp", addr); err != nil {
				return
			}
		}
		c.Close()
	}
}

// endless sends a body in chunks that has no end.
func endless(addr string) func(net.Conn, *atomic.Bool) {
	chunk := []byte("1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n")
	return func(c net.Conn, over *atomic.Bool) {
		for !over.Load() {
			_, err := io.WriteString(c, purchaseHead+"Transfer-Encoding: chunked\r\n\r\n")
			for n := 0; err == nil && !over.Load() && n < 1000; n++ { // 4 MB; it ends at 64 KB.
				_, err = c.Write(chunk)
			}
			c.Close()
			<-time.After(50 * time.Millisecond)
			if c, err = net.Dial("tcp", addr); err != nil {
				return
			}
		}
		c.Close()
	}
}

// noise is what a machine that runs other tests as well may add to a quantile.
const noise = 500 * time.Millisecond

// idleCallers is how many connections do nothing at all, unless the machine does not allow that many open files.
const idleCallers = 20_000

// filesFor makes room for so many connections in this process and in those that it starts, and tells for how many there is room.
func filesFor(t *testing.T, conns int) int {
	t.Helper()
	const others = 500
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	want := uint64(conns + others)
	if limit.Cur >= want {
		return conns
	}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: want, Max: max(want, limit.Max)}) == nil {
		return conns
	}
	limit.Cur = limit.Max
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	return min(conns, int(limit.Max)-others)
}

// Slow callers of every kind, and 20,000 who say nothing, cost the others no time: their p99 at most doubles, besides what
// a busy machine adds, and the server's memory stays bounded. Who never ends a request is cut off.
func TestOAT015SlowCallers(t *testing.T) {
	idle := filesFor(t, idleCallers)
	if idle < idleCallers {
		t.Logf("this machine allows only %d connections, %d are wanted", idle, idleCallers)
	}
	s := serve(t)
	activity := s.activity(1, -time.Second, "")
	s.confirmed(activity, "first")
	s.p99(activity) // Warms up.
	for _, c := range []struct {
		name string
		n    int
		do   func(net.Conn, *atomic.Bool)
		most int // MiB more.
	}{
		{"slowloris", 512, slowloris, 64},
		{"half-open", 512, halfOpen, 64},
		{"header bombs", 32, headerBomb(s.listen), 64},
		{"endless bodies", 32, endless(s.listen), 96},
		{"idle", idle, nil, 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			had := s.rss()
			before := s.usualP99(activity)
			a := callers(t, s.listen, c.n, c.do)
			defer a.stop()
			during := s.usualP99(activity)
			if during > 2*before+noise {
				t.Errorf("p99 went from %v to %v", before, during)
			}
			has := s.rss()
			if has-had > c.most {
				t.Errorf("memory grew from %d to %d MiB", had, has)
			}
			t.Logf("%d callers: p99 from %v to %v, %.1f x; memory from %d to %d MiB", c.n, before, during, during.Seconds()/before.Seconds(), had, has)
			if c.name == "slowloris" || c.name == "half-open" {
				cut := a.conns[len(a.conns)-1]
				must(t, cut.SetReadDeadline(time.Now().Add(20*time.Second)))
				res, err := http.ReadResponse(bufio.NewReader(cut), nil)
				if c.name == "slowloris" && (err != nil || res.StatusCode != http.StatusRequestTimeout) {
					t.Errorf("who never ends a request: %v, %v, want 408", res, err)
				}
			}
		})
	}
}

// P10 over HTTP: forged buyers, each with a name, an address and a device of his own, are refused out of bounded memory, and
// honest buyers get what they came for meanwhile. `make bench-goals ARGS=p10` does it with ten million.
func TestOAT015ForgedBuyersOverHTTP(t *testing.T) {
	s := serve(t, "--trusted-proxies", "127.0.0.0/8", "--limit-ip", "10/s:20", "--limit-user", "5/s:5", "--limit-device", "10/s:20")
	gone, there := s.activity(1, -time.Second, ""), s.activity(10_000, -time.Second, "")
	s.confirmed(gone, "first")
	const forged, conns = 100_000, 32
	var next, refused atomic.Int64
	var atTenth atomic.Int64
	var all sync.WaitGroup
	for range conns {
		all.Go(func() {
			c, err := net.Dial("tcp", s.listen)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			in := bufio.NewReader(c)
			var b bytes.Buffer
			for i := next.Add(1); i <= forged; i = next.Add(1) {
				var v4 [4]byte
				bits.BigEndian.PutUint32(v4[:], uint32(i)*2654435761) // An odd multiplier: each is another.
				b.Reset()
				fmt.Fprintf(&b, "POST /v1/activities/%d/purchases HTTP/1.1\r\nHost: shop\r\nX-User-Id: forged-%x\r\nX-Device-Id: d-%x\r\nX-Forwarded-For: %s\r\nContent-Length: 0\r\n\r\n",
					gone, v4, v4, netip.AddrFrom4(v4))
				if _, err := c.Write(b.Bytes()); err != nil {
					t.Error(err)
					return
				}
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				if res.StatusCode == http.StatusGone {
					refused.Add(1)
				}
				if i == forged/10 {
					atTenth.Store(int64(s.rss()))
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	honest := 0
	for tick := time.NewTicker(250 * time.Millisecond); ; <-tick.C {
		a, err := s.buy(there, newBuyer(), "", 1)
		if err != nil || a.status != http.StatusAccepted {
			t.Errorf("an honest buyer heard %d %s, %v", a.status, a.body, err)
		}
		honest++
		select {
		case <-over:
		default:
			continue
		}
		break
	}
	has := s.rss()
	if grown := has - int(atTenth.Load()); grown > 100 {
		t.Errorf("memory grew by %d MiB after the first tenth", grown)
	}
	if refused.Load() != forged {
		t.Errorf("%d of %d forged buyers heard that it is sold out", refused.Load(), forged)
	}
	t.Logf("%d forged buyers; %d honest ones were served; memory %d MiB, after the first tenth %d MiB", refused.Load(), honest, has, atTenth.Load())
}
