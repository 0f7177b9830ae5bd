package api

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// Bounds of answers that leave together.
const (
	turnsMin = 16      // Connections that wait for their turn to read, from which on answers are held.
	heldMax  = 64      // Answers that are held at once.
	replyMax = 1 << 10 // Bytes of an answer that may be held; refusals have about half of it.
)

// outgoing holds the answers of a busy moment, and writes them one right after the other. A write to somebody on the same
// machine (nginx, in front) wakes him, which is a good part of what a refusal costs; who was woken by the first of many is
// awake for the others.
//
// An answer is held while many connections wait for their turn to read, its own among them. It leaves when that turn comes,
// or before, with those of others: nobody has to look after it, and nothing is held where there is time.
type outgoing struct {
	turns atomic.Int32 // Connections that let others run before they read.

	mu   sync.Mutex
	held []*conn

	writing sync.Mutex // Held until what was taken is written: whoever gets it knows that all before is out.
	taken   []*conn
	try     attempt
}

// attempt writes what there is room for, and waits for nobody.
type attempt struct {
	p   []byte
	n   int
	err error
	do  func(fd uintptr) bool
}

type reply struct {
	n int
	b [replyMax]byte
}

var replies = sync.Pool{New: func() any { return new(reply) }}

// yield lets others run.
func (o *outgoing) yield() {
	o.turns.Add(1)
	runtime.Gosched()
	o.turns.Add(-1)
}

// hold takes an answer of a connection that will call settle before it waits for anything else, if it is worth it.
func (o *outgoing) hold(c *conn, p []byte) bool {
	if !writesNow || o.turns.Load() < turnsMin || len(p) > replyMax || !c.findRaw() {
		return false
	}
	a := replies.Get().(*reply)
	a.n = copy(a.b[:], p)
	c.reply = a
	c.held.Store(true)
	o.mu.Lock()
	o.held = append(o.held, c)
	full := len(o.held) >= heldMax
	o.mu.Unlock()
	if full {
		o.flush()
	}
	return true
}

// flush writes what is held; when it returns, all that was held before is out.
func (o *outgoing) flush() {
	o.writing.Lock()
	defer o.writing.Unlock()
	o.mu.Lock()
	o.taken, o.held = o.held, o.taken[:0]
	o.mu.Unlock()
	for _, c := range o.taken {
		o.write(c)
	}
	clear(o.taken)
}

// write leaves to the connection itself what its caller has no room for.
func (o *outgoing) write(c *conn) {
	t := &o.try
	if t.do == nil {
		t.do = func(fd uintptr) bool {
			t.n, t.err = writeNow(fd, t.p)
			return true
		}
	}
	t.p, t.n, t.err = c.reply.b[:c.reply.n], 0, nil
	if err := c.raw.Write(t.do); err != nil { // Closed, or the time to take the answer is over.
		t.err = err
	}
	switch n := max(t.n, 0); {
	case n == len(t.p):
	case t.err == nil, errors.Is(t.err, syscall.EAGAIN), errors.Is(t.err, syscall.EINTR):
		c.rest = slices.Clone(t.p[n:])
	default:
		c.failed = t.err
	}
	replies.Put(c.reply)
	c.reply = nil
	c.held.Store(false)
}

// findRaw tells whether the connection can be written to without waiting; one that speaks TLS cannot.
func (c *conn) findRaw() bool {
	if c.raw != nil {
		return true
	}
	bare, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := bare.SyscallConn()
	if err != nil {
		return false
	}
	c.raw = raw
	return true
}

// settle has the answer leave that is held, if there is one.
func (c *conn) settle() error {
	if c.held.Load() {
		c.s.out.flush()
	}
	if c.failed != nil {
		return c.failed
	}
	if len(c.rest) == 0 {
		return nil
	}
	rest := c.rest
	c.rest = nil
	_, err := c.Conn.Write(rest)
	return err //nolint:wrapcheck // The engine looks at what it is.
}
