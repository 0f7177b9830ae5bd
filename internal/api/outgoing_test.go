package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
)

// busy has a door hold its answers, as it does when many connections wait for their turn.
func busy(s *Server) { s.out.turns.Add(turnsMin) }

// line is a connection of a busy door, and its caller.
func line(t *testing.T) (c *conn, caller *net.TCPConn) {
	t.Helper()
	s := &Server{made: time.Now(), o: Options{ReadTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute}}
	busy(s)
	return lineOf(t, s)
}

func lineOf(t *testing.T, s *Server) (c *conn, caller *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	far, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	near, err := ln.Accept()
	must(t, err)
	t.Cleanup(func() { near.Close(); far.Close() })
	must(t, far.SetDeadline(time.Now().Add(10*time.Second)))
	c = &conn{Conn: near, s: s}
	c.spoken.Store(true)
	return c, far.(*net.TCPConn)
}

// answer writes one as the engine does after a request, and tells whether it is held.
func (c *conn) answer(t *testing.T, p string) bool {
	t.Helper()
	c.mayHold = true
	if n, err := io.WriteString(c, p); err != nil || n != len(p) {
		t.Fatalf("wrote %d of %d bytes, %v", n, len(p), err)
	}
	return c.held.Load()
}

func hears(t *testing.T, caller io.Reader, want string) {
	t.Helper()
	p := make([]byte, len(want))
	if _, err := io.ReadFull(caller, p); err != nil || string(p) != want {
		t.Fatalf("heard %.40q, %v; want %.40q", p, err, want)
	}
}

// An answer that is held leaves before its connection does anything else, and when another's does.
func TestHeldAnswersLeave(t *testing.T) {
	for name, next := range map[string]func(c *conn) error{
		"its turn to read": func(c *conn) error {
			c.s.clock.Store(-int64(time.Hour)) // It waits for nothing.
			_, _ = c.Read(make([]byte, 1))
			return nil
		},
		"another request that is there already": func(c *conn) error {
			c.leftOver = []byte("GET")
			_, err := c.Read(make([]byte, 3))
			return err
		},
		"the rest of a request that has begun": func(c *conn) error {
			c.begun = -2 * time.Minute // It waits for nothing.
			_, _ = c.Read(make([]byte, 3))
			return nil
		},
		"another answer": func(c *conn) error { _, err := io.WriteString(c, "and more"); return err },
		"the end":        (*conn).Close,
		"another's turn": func(c *conn) error {
			other, _ := lineOf(t, c.s)
			other.answer(t, "another answer")
			return other.settle()
		},
	} {
		c, caller := line(t)
		if !c.answer(t, "the answer") {
			t.Errorf("%s: it is not held", name)
		}
		must(t, next(c))
		if c.held.Load() {
			t.Errorf("%s: it is still held", name)
		}
		hears(t, caller, "the answer")
	}
}

// No more are held than leave soon.
func TestNotManyAnswersAreHeld(t *testing.T) {
	first, caller := line(t)
	first.answer(t, "the first")
	for range heldMax - 2 {
		c, _ := lineOf(t, first.s)
		if !c.answer(t, "another") || !first.held.Load() {
			t.Fatal("not held")
		}
	}
	last, _ := lineOf(t, first.s)
	if last.answer(t, "the last") || first.held.Load() {
		t.Error("still held")
	}
	hears(t, caller, "the first")
}

// Whose answer is long, begins a stream, or is asked for when few others wait, gets it at once.
func TestAnswersThatAreNotHeld(t *testing.T) {
	c, caller := line(t)
	long := strings.Repeat("x", replyMax+1)
	if c.answer(t, long) {
		t.Error("a long one is held")
	}
	hears(t, caller, long)
	_, err := io.WriteString(c, "a piece")
	must(t, err)
	if c.held.Load() {
		t.Error("a piece is held")
	}
	hears(t, caller, "a piece")
	c.s.out.turns.Store(turnsMin - 1)
	if c.answer(t, "an answer") {
		t.Error("one is held though few wait")
	}
	hears(t, caller, "an answer")
	c.s.out.turns.Store(turnsMin)
	c.Conn = struct{ net.Conn }{c.Conn} // As one that speaks TLS.
	if c.answer(t, "a secret") {
		t.Error("one is held that cannot be written without waiting")
	}
	hears(t, caller, "a secret")
}

// Who does not read keeps nobody waiting but himself, and gets all of it in the end.
func TestHeldForWhoDoesNotRead(t *testing.T) {
	c, caller := line(t)
	must(t, c.Conn.(*net.TCPConn).SetWriteBuffer(4<<10))
	piece := strings.Repeat("0123456789abcdef", replyMax/16)
	said := 0
	for ; len(c.rest) == 0; said++ { // Until he has no room for a whole one.
		if !c.answer(t, piece) {
			t.Fatal("not held")
		}
		c.s.out.flush()
	}
	other, hearer := lineOf(t, c.s)
	other.answer(t, "an answer")
	must(t, other.settle())
	hears(t, hearer, "an answer")

	settled := make(chan error, 1)
	go func() { settled <- c.settle() }()
	for range said {
		hears(t, caller, piece)
	}
	must(t, <-settled)
	if len(c.rest) != 0 {
		t.Errorf("%d bytes are left", len(c.rest))
	}
}

// Who has gone, or has let the time to take an answer go by, ends his own connection only.
func TestHeldForWhoHasGone(t *testing.T) {
	for name, leave := range map[string]func(c *conn, caller *net.TCPConn){
		"gone": func(_ *conn, caller *net.TCPConn) {
			must(t, caller.SetLinger(0))
			must(t, caller.Close())
		},
		"too late": func(c *conn, _ *net.TCPConn) { must(t, c.SetWriteDeadline(time.Now().Add(-time.Second))) },
		"closed":   func(c *conn, _ *net.TCPConn) { must(t, c.Conn.Close()) },
	} {
		c, caller := line(t)
		c.answer(t, "an answer")
		other, hearer := lineOf(t, c.s)
		other.answer(t, "another answer")
		leave(c, caller)
		must(t, other.settle())
		hears(t, hearer, "another answer")
		if n, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: read %d, %v", name, n, err)
		}
		if n, err := io.WriteString(c, "more"); err == nil {
			t.Errorf("%s: wrote %d", name, n)
		}
	}
}

// hasHeld tells whether any answer ever was.
func hasHeld(s *Server) bool {
	s.out.writing.Lock()
	defer s.out.writing.Unlock()
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return cap(s.out.held)+cap(s.out.taken) > 0
}

// Everybody of a crowd gets his own answers, in order, whether he waits for each or asks for several at once.
func TestCrowdOfABusyDoor(t *testing.T) {
	const shops = 20
	w := openTCP(t)
	w.list = nil
	for id := range int64(shops) {
		a := sale(1 + id)
		a.Name = fmt.Sprintf("lamp %03d", id)
		w.list = append(w.list, a)
	}
	busy(w.Server)
	var crowd sync.WaitGroup
	for who := range 2 * heldMax {
		c, r := visit(t, w)
		crowd.Go(func() {
			for round := range 30 {
				asked := ""
				ids := []int{(who + round) % shops, (who * round) % shops, round % shops}[:1+who%3]
				for _, id := range ids {
					asked += fmt.Sprintf("GET /v1/activities/%d HTTP/1.1\r\nHost: x\r\n\r\n", 1+id)
				}
				if _, err := io.WriteString(c, asked); err != nil {
					t.Error(err)
					return
				}
				for _, id := range ids {
					if got := body(r); !strings.Contains(got, fmt.Sprintf(`"lamp %03d"`, id)) {
						t.Errorf("%d asked for %d and heard %.200q", who, id, got)
						return
					}
				}
			}
		})
	}
	crowd.Wait()
	until(t, "nobody waiting for a turn", func() bool { return w.out.turns.Load() == turnsMin })
	if !hasHeld(w.Server) {
		t.Error("no answer was held")
	}
}

// A stream of events is not held, however busy the door is.
func TestStreamOfABusyDoor(t *testing.T) {
	w := openTCP(t)
	busy(w.Server)
	w.setOutcome(func(string, string) (seckill.Outcome, error) {
		return seckill.Outcome{Progress: seckill.Queued, Ahead: 7}, nil
	})
	c, r := visit(t, w) // For less time than passes until the stream says that it is still there.
	fmt.Fprintf(c, "GET /v1/tickets/%s/events HTTP/1.1\r\nHost: x\r\nX-User-Id: ann\r\n\r\n", testTicket)
	for {
		line, err := r.ReadString('\n')
		must(t, err)
		if strings.Contains(line, `"ahead":7`) {
			return
		}
	}
}

// Of an answer that a caller has room for in part only, his connection writes the rest.
func TestHeldForWhoHasLittleRoom(t *testing.T) {
	c, caller := line(t)
	try := &c.s.out.try
	try.do = func(fd uintptr) bool {
		try.n, try.err = writeNow(fd, try.p[:4])
		return true
	}
	c.answer(t, "the answer")
	must(t, c.settle())
	hears(t, caller, "the answer")
	if c.answer(t, "another"); len(c.rest) > 0 {
		t.Error("the rest is still there")
	}
}

// body is that of the next answer, or why there is none.
func body(r *bufio.Reader) string {
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Who has sent more than one request hears the first answer before the next is there, or decided.
func TestAnswersBeforeTheNextRequest(t *testing.T) {
	const whole = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	free := make(chan struct{})
	defer close(free)
	w := openTCP(t, func(o *Options) {
		o.ReadTimeout, o.ReserveTimeout, o.Reserver = time.Minute, time.Minute, hanging{free}
	})
	busy(w.Server)
	for name, next := range map[string]string{
		"half a header": "GET /healthz HTTP/1.1\r\nHo", "half a body": "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", "an empty line": "\r\n",
		"one that takes long": "POST /v1/activities/1/purchases HTTP/1.1\r\nHost: x\r\nX-User-Id: ann\r\nContent-Length: 2\r\n\r\n{}",
	} {
		c, r := visit(t, w)
		fmt.Fprint(c, whole+next)
		if got := body(r); !strings.Contains(got, "ok") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// An answer after which the connection ends is written by the connection itself, which waits for a caller who has no room.
func TestLastAnswersAreNotHeld(t *testing.T) {
	w := openTCP(t)
	busy(w.Server)
	c, r := visit(t, w)
	fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if got := body(r); !strings.Contains(got, "ok") {
		t.Errorf("heard %q", got)
	}
	if hasHeld(w.Server) {
		t.Error("it was held")
	}
}
