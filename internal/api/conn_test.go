package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/stock"
)

// visit is a connection to a world, whose end is awaited for at most ten seconds.
func visit(t *testing.T, w *world) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := w.dial()
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c, bufio.NewReader(c)
}

// health reads the answer to a request for /healthz.
func health(t *testing.T, r *bufio.Reader) {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	must(t, err)
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 || len(body) == 0 {
		t.Fatalf("%d, %q, %v", res.StatusCode, body, err)
	}
}

// Requests are understood wherever they are cut into pieces, also if a piece ends one and begins the next, and
// if they are longer than what is read at once.
func TestRequestsInPieces(t *testing.T) {
	w := open(t)
	long := "GET /healthz HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 2*roomBytes) + "\r\n\r\n"
	short := "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	whole := short + long + short + short
	for _, size := range []int{1, 2, 5, len(short) - 1, len(short), len(short) + 1, roomBytes - 1, roomBytes, roomBytes + 1, len(whole)} {
		c, r := visit(t, w)
		sent := make(chan error, 1)
		go func() {
			for rest := whole; rest != ""; {
				n := min(size, len(rest))
				if _, err := io.WriteString(c, rest[:n]); err != nil {
					sent <- err
					return
				}
				rest = rest[n:]
			}
			sent <- nil
		}()
		for range 4 {
			health(t, r)
		}
		must(t, <-sent)
	}
}

// A connection on which nothing comes is closed after the idle time, whether it is kept or new, and without a word
// if nothing was begun.
func TestIdleConnectionsAreClosed(t *testing.T) {
	w := openTCP(t, func(o *Options) { o.ReadTimeout, o.IdleTimeout = time.Minute, 80*time.Millisecond })
	c, r := visit(t, w)
	fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	health(t, r)
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("kept: %v", err)
	}
	w = openTCP(t, func(o *Options) { o.ReadTimeout, o.IdleTimeout = 80*time.Millisecond, time.Hour })
	_, r = visit(t, w)
	if rest, err := io.ReadAll(r); err != nil {
		t.Errorf("new: %q, %v", rest, err)
	}
}

// talk has a connection read what is said, a piece after each wait, in time that passes as it is wanted.
func talk(t *testing.T, read func(t *testing.T, c *conn, said func(wait time.Duration, piece string))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		s := &Server{made: time.Now(), o: Options{ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute}}
		stop := make(chan struct{})
		defer close(stop)
		defer near.Close()
		defer far.Close()
		go every(s.slack()/2, stop, s.tick)
		go func() { _, _ = io.Copy(io.Discard, far) }()
		read(t, &conn{Conn: near, s: s}, func(wait time.Duration, piece string) {
			<-time.After(wait)
			go func() { _, _ = io.WriteString(far, piece) }()
		})
	})
}

// mustRead reads as the engine does: one byte to await a request, more in the middle of one.
func mustRead(t *testing.T, c *conn, room int, want string) {
	t.Helper()
	p := make([]byte, room)
	if n, err := c.Read(p); err != nil || string(p[:n]) != want {
		t.Fatalf("read %q, %v; want %q", p[:n], err, want)
	}
}

// A request that comes in pieces after a rest has its whole time.
func TestRequestAfterARest(t *testing.T) {
	talk(t, func(t *testing.T, c *conn, said func(time.Duration, string)) {
		for range 3 {
			said(30*time.Second, "GET ")
			mustRead(t, c, 1, "G")
			mustRead(t, c, 100, "ET ")
			said(3*time.Second, "/")
			mustRead(t, c, 100, "/")
		}
	})
}

// Who is never idle, and never slow, may go on for longer than any of the times, though each piece ends a request and
// begins the next.
func TestBusyConnectionLivesOn(t *testing.T) {
	talk(t, func(t *testing.T, c *conn, said func(time.Duration, string)) {
		for range 30 {
			said(3*time.Second, "the end of one, the beginning of the next")
			mustRead(t, c, 100, "the end of one, the beginning of the next")
			_, err := c.Write([]byte("answer"))
			must(t, err)
		}
	})
}

// What was read with the first byte of a request is given out in whatever pieces are asked for.
func TestReadInSmallPieces(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	c := &conn{Conn: near, s: &Server{made: time.Now(), o: Options{ReadTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute}}}
	go func() {
		_, _ = io.WriteString(far, "hello world")
		_ = far.Close()
	}()
	got := ""
	for _, n := range []int{1, 3, 4, 100} {
		p := make([]byte, n)
		read, err := c.Read(p)
		must(t, err)
		got += string(p[:read]) + "|"
	}
	if got != "h|ell|o wo|rld|" {
		t.Errorf("got %q", got)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// deadlines notes those for writing.
type deadlines struct {
	net.Conn
	write time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }
func (d *deadlines) Write(p []byte) (int, error)        { return len(p), nil }

// Who sets a deadline for writing keeps his own times.
func TestOwnWriteDeadline(t *testing.T) {
	d := &deadlines{}
	c := &conn{Conn: d, s: &Server{made: time.Now(), o: Options{ReadTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute}}}
	_, err := c.Write(nil)
	must(t, err)
	if want := c.s.made.Add(time.Minute); !d.write.Equal(want) {
		t.Errorf("got %v, want %v", d.write, want)
	}
	own := c.s.made.Add(time.Second)
	must(t, c.SetWriteDeadline(own))
	c.s.clock.Store(int64(time.Hour))
	_, err = c.Write(nil)
	must(t, err)
	if !d.write.Equal(own) {
		t.Errorf("got %v, want %v", d.write, own)
	}
}

// The time for a request begins with its first byte, also on a kept connection that may be idle for long.
func TestSlowRequestOnAKeptConnection(t *testing.T) {
	w := openTCP(t, func(o *Options) { o.ReadTimeout, o.IdleTimeout = 500*time.Millisecond, time.Hour })
	for name, begun := range map[string]string{"header": "GET /healthz HT", "body": "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"} {
		c, r := visit(t, w)
		fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		health(t, r)
		fmt.Fprint(c, begun)
		res, err := http.ReadResponse(r, nil)
		must(t, err)
		res.Body.Close()
		if res.StatusCode != 408 {
			t.Errorf("%s: got %d", name, res.StatusCode)
		}
	}
}

// A caller who does not read his answers is let go after the write timeout.
func TestWhoDoesNotReadIsLetGo(t *testing.T) {
	w := openTCP(t, func(o *Options) { o.WriteTimeout, o.IdleTimeout = 80*time.Millisecond, time.Hour })
	c, _ := visit(t, w)
	var err error
	for err == nil { // Until the server has had enough.
		_, err = io.WriteString(c, strings.Repeat("GET /v1/activities/1 HTTP/1.1\r\nHost: x\r\n\r\n", 100))
	}
	until(t, "the connection closed", func() bool { return w.conns.Load() == 0 })
}

// A stream of events outlives the times of requests, and does without the room they were read into.
func TestStreamOutlivesTheTimes(t *testing.T) {
	w := openTCP(t, func(o *Options) {
		o.ReadTimeout, o.WriteTimeout, o.IdleTimeout = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	})
	var ahead atomic.Int64
	w.setOutcome(func(string, string) (seckill.Outcome, error) {
		return seckill.Outcome{Progress: seckill.Queued, Ahead: ahead.Load()}, nil
	})
	s := w.stream(testTicket)
	s.next()
	w.open.mu.Lock()
	for k := range w.open.conns {
		if k.room != nil {
			t.Error("the stream keeps its room")
		}
	}
	w.open.mu.Unlock()
	for n := range int64(3) {
		<-time.After(250 * time.Millisecond) // Together longer than any of the times.
		ahead.Store(n + 1)
		w.Notify(stock.Event{Kind: stock.EventSettled, Run: seckill.RunID{Activity: 1, Run: 2}, Ticket: testTicket, Buyer: "ann"})
		if data, _ := s.next(); !strings.Contains(data, fmt.Sprintf(`"ahead":%d`, n+1)) {
			t.Fatalf("got %q", data)
		}
	}
}
