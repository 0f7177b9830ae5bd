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
