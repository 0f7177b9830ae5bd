package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// throttle is a TCP proxy that lets through only so many bytes a second each way, all connections together, as a
// token bucket of the network would (`tc tbf`). What does not pass yet waits in the sockets' buffers.
type throttle struct {
	listener net.Listener
	to       string
	up, down bucket
	all      sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// throttleBurst is how much may pass at once after a pause, as time at the rate.
const throttleBurst = 8 * time.Millisecond

// openThrottle lets so many bytes a second through to an address. Rate 0 is no bound.
func openThrottle(to string, rate float64) (*throttle, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &throttle{listener: l, to: to, up: bucket{rate: rate}, down: bucket{rate: rate}, open: map[net.Conn]struct{}{}}
	t.all.Go(t.serve)
	return t, nil
}

func (t *throttle) address() string { return t.listener.Addr().String() }

// close ends every connection.
func (t *throttle) close() {
	_ = t.listener.Close()
	t.mu.Lock()
	t.closed = true
	for c := range t.open {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.all.Wait()
}

func (t *throttle) serve() {
	for {
		from, err := t.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			t.all.Go(func() { t.join(from) })
		}
	}
}

// join copies both ways until one side ends.
func (t *throttle) join(from net.Conn) {
	defer t.forget(from)
	to, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", t.to)
	if err != nil || !t.keep(from, to) {
		return
	}
	defer t.forget(to)
	var both sync.WaitGroup
	one := func(to, from net.Conn, b *bucket) {
		b.copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	both.Go(func() { one(to, from, &t.up) })
	both.Go(func() { one(from, to, &t.down) })
	both.Wait()
}

// keep notes connections, and closes them if it is too late for that.
func (t *throttle) keep(conns ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range conns {
		if t.closed {
			_ = c.Close()
			continue
		}
		t.open[c] = struct{}{}
	}
	return !t.closed
}

func (t *throttle) forget(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
	_ = c.Close()
}

// bucket is one direction.
type bucket struct {
	rate float64 // Bytes a second.

	mu   sync.Mutex
	free time.Time // When all that was let through so far has passed at the rate.
}

// copy copies until one side ends, in pieces that are small, so that connections share the rate evenly.
func (b *bucket) copy(to io.Writer, from io.Reader) {
	piece := make([]byte, 512)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			if wait := b.take(time.Now(), n); wait > 0 {
				time.Sleep(wait)
			}
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// take tells how long so many bytes have to wait.
func (b *bucket) take(now time.Time, bytes int) time.Duration {
	if b.rate <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if idle := now.Add(-throttleBurst); b.free.Before(idle) {
		b.free = idle
	}
	b.free = b.free.Add(time.Duration(float64(bytes) / b.rate * float64(time.Second)))
	return b.free.Sub(now)
}
