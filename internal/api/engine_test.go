package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/stock"
)

// A body that is too large is 413, and the caller gets to read that though it is still sending.
func TestTooLargeBody(t *testing.T) {
	w := openTCP(t)
	big := strings.Repeat("x", 2<<20)
	for _, path := range []string{"/v1/activities/1/purchases", "/v1/orders/1/cancel", "/nothing"} {
		for range 5 { // Also on a connection that was used before.
			w.do("GET", "/healthz", "")
			w.do("POST", path, big, "X-User-Id: ann").refused(t, path, 413, "too_large")
		}
	}
	if got := w.do("POST", "/seckill", big); got.status != 200 || got.json["code"] != 400.0 {
		t.Errorf("article: %d %s", got.status, got.body)
	}
	chunked, err := w.raw("POST /v1/activities/1/purchases HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n" + big + "\r\n0\r\n\r\n")
	must(t, err)
	chunked.refused(t, "chunked", 413, "too_large")
	expect, err := w.raw("POST /v1/activities/1/purchases HTTP/1.1\r\nHost: x\r\nContent-Length: 64\r\n\r\n" + strings.Repeat("x", 64))
	must(t, err)
	expect.refused(t, "small", 400, "invalid_request")
}

// What is no HTTP is answered with a problem, and the connection ends.
func TestBrokenRequests(t *testing.T) {
	w := openTCP(t)
	for name, c := range map[string]struct {
		request string
		status  int
		reason  string
	}{
		"garbage":            {"\x16\x03\x01 hello\r\n\r\n", 400, "invalid_request"},
		"no version":         {"GET /\r\n\r\n", 400, "invalid_request"},
		"bad header":         {"GET /healthz HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n", 400, "invalid_request"},
		"two lengths":        {"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, "invalid_request"},
		"negative length":    {"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "invalid_request"},
		"odd coding":         {"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400, "invalid_request"},
		"broken chunk":       {"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "invalid_request"},
		"header bomb":        {"GET /healthz HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Bomb: "+strings.Repeat("b", 100)+"\r\n", 2000) + "\r\n", 431, "too_large"},
		"long request line":  {"GET /" + strings.Repeat("a", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "too_large"},
		"one endless header": {"GET /healthz HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 100_000) + "\r\n\r\n", 431, "too_large"},
	} {
		got, err := w.raw(c.request)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got.refused(t, name, c.status, c.reason)
	}
	if w.log.String() != "" {
		t.Errorf("logged %q", w.log)
	}
}

// A caller who is slow is let go after the read timeout, whatever it dribbles.
func TestSlowRequestsAreLetGo(t *testing.T) {
	w := openTCP(t, func(o *Options) { o.ReadTimeout = 50 * time.Millisecond })
	for name, start := range map[string]string{
		"header": "GET /healthz HTT", "headers": "GET /healthz HTTP/1.1\r\nHost: x\r\n", "body": "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab",
	} {
		got, err := w.raw(start)
		must(t, err)
		got.refused(t, name, 408, "invalid_request")
	}
}

// A panic is one request's trouble: it hears 500, the log has the stack, and the next is served.
func TestAPanicIsOneRequestsTrouble(t *testing.T) {
	w := open(t)
	w.setReserve(func(*seckill.Activity, seckill.Attempt) (stock.Decision, error) { panic("boom") })
	w.buy("ann").refused(t, "panic", 500, "internal")
	if log := w.log.String(); !strings.Contains(log, "boom") || !strings.Contains(log, "purchase.go") {
		t.Errorf("log %q", log)
	}
	if got := w.do("GET", "/healthz", ""); got.status != 200 {
		t.Errorf("then %d", got.status)
	}
}

// More connections than there may be hear "busy", and when some go, others come in.
func TestTooManyConnections(t *testing.T) {
	w := openTCP(t, func(o *Options) { o.ConnsMax = 3 })
	var held []net.Conn
	for range 3 {
		c, err := w.dial()
		must(t, err)
		held = append(held, c)
		fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		io.Copy(io.Discard, res.Body)
	}
	for range 20 {
		got, err := w.raw("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		got.refused(t, "fourth", 503, "busy")
	}
	for _, c := range held {
		c.Close()
	}
	until(t, "room for a new connection", func() bool {
		got, err := w.raw("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		return err == nil && got.status == 200
	})
	until(t, "all connections counted off", func() bool { return w.conns.Load() == 0 })
}

// While the door shuts, every request that was sent gets its whole answer, or its connection was
// closed before a byte of it: nothing is cut off, and no purchase is taken whose buyer hears nothing.
func TestShutdownAnswersWhatIsUnderWay(t *testing.T) {
	w := openTCP(t)
	var taken, answered, refused atomic.Int64
	slow := make(chan struct{})
	w.setReserve(func(_ *seckill.Activity, at seckill.Attempt) (stock.Decision, error) {
		taken.Add(1)
		if strings.HasPrefix(at.Buyer, "slow") {
			<-slow
		}
		return stock.Decision{Verdict: stock.Taken, Ticket: at.Ticket}, nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var clients sync.WaitGroup
	for i := range 40 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("b%d-%d", i, n)
				if n == 20 && i < 5 {
					name = "slow-" + name
				}
				ok, gone := hammer(t, w, name)
				if gone {
					refused.Add(1)
					return
				}
				if ok {
					answered.Add(1)
				}
			}
		})
	}
	until(t, "slow requests under way", func() bool { return taken.Load() > 1000 })
	begin := time.Now()
	done := make(chan error, 1)
	go func() { done <- w.Shutdown(ctx) }()
	until(t, "most clients turned away", func() bool { return refused.Load() >= 30 })
	close(slow)
	must(t, <-done)
	clients.Wait()
	if took := time.Since(begin); took > 9*time.Second {
		t.Errorf("it took %v", took)
	}
	if answered.Load() != taken.Load() || refused.Load() != 40 {
		t.Errorf("%d taken, %d answered, %d clients turned away", taken.Load(), answered.Load(), refused.Load())
	}
}

// A shutdown is announced: for a while callers are served as before, and asked to close.
func TestShutdownIsAnnounced(t *testing.T) {
	w := openTCP(t, func(o *Options) { o.Announce = time.Second })
	if got := w.do("GET", "/healthz", ""); got.status != 200 || got.closes {
		t.Fatalf("before: %d %v", got.status, got.header)
	}
	done := make(chan error, 1)
	go func() { done <- w.Shutdown(context.Background()) }()
	until(t, "the announcement", w.stopping.Load)
	for range 3 {
		got, err := w.raw("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if err != nil || got.status != 200 || !got.closes {
			t.Errorf("got %d %v, %v", got.status, got.header, err)
		}
	}
	must(t, <-done)
}

// Connections that never sent a byte do not hold a shutdown up.
func TestShutdownDoesNotWaitForSilence(t *testing.T) {
	w := openTCP(t, func(o *Options) { o.ReadTimeout, o.IdleTimeout = time.Minute, time.Hour })
	for range 5 {
		c, err := w.dial()
		must(t, err)
		defer c.Close()
	}
	until(t, "all accepted", func() bool { return w.conns.Load() == 5 })
	begin := time.Now()
	must(t, w.Shutdown(context.Background()))
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	w.open.mu.Lock()
	defer w.open.mu.Unlock()
	if n := len(w.open.conns); n != 0 {
		t.Errorf("%d connections are still known", n)
	}
}

// hammer buys on a connection of its own for each ten requests, and tells whether an answer came whole, or
// the connection was gone before the first byte of it.
func hammer(t *testing.T, w *world, name string) (ok, gone bool) {
	c, err := w.dial()
	if err != nil {
		return false, true
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "POST /v1/activities/1/purchases HTTP/1.1\r\nHost: x\r\nX-User-Id: %s\r\n\r\n", name); err != nil {
		return false, true
	}
	r := bufio.NewReader(c)
	if _, err := r.Peek(1); err != nil {
		return false, true
	}
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Errorf("%s: cut off: %v", name, err)
		return false, false
	}
	if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 202 {
		t.Errorf("%s: %d, %v", name, res.StatusCode, err)
		return false, false
	}
	return true, false
}

// A caller that asks and does not read its answers holds a shutdown up no longer than its time,
// and makes no error of it.
func TestShutdownCutsOffWhoDoesNotRead(t *testing.T) {
	w := openTCP(t, func(o *Options) { o.WriteTimeout = time.Minute })
	c, err := w.dial()
	must(t, err)
	defer c.Close()
	must(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
	for err == nil { // Until neither side can send any more.
		_, err = io.WriteString(c, strings.Repeat("GET /v1/activities/1 HTTP/1.1\r\nHost: x\r\n\r\n", 100))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	begin := time.Now()
	must(t, w.Shutdown(ctx))
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A shutdown that runs out of time tells what is under way to give up.
func TestShutdownThatRunsOutOfTime(t *testing.T) {
	w := open(t, func(o *Options) { o.Reserver = hanging{make(chan struct{})}; o.ReserveTimeout = 20 * time.Second })
	answered := make(chan int, 1)
	go func() { answered <- w.buy("ann").status }()
	until(t, "a request under way", func() bool { return w.engine.GetOpenConnectionsCount() > 0 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	must(t, w.Shutdown(ctx))
	if status := <-answered; status != 503 {
		t.Errorf("got %d", status)
	}
}

// Options that cannot be are all named at once.
func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{ReadTimeout: -1, ConnsMax: -1})
	for _, want := range []string{"Activities", "Reserver", "Outcomes", "Desk", "Auth", "Metrics", "ReadTimeout", "ConnsMax"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
}
