package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"seckill"
	"seckill/internal/problem"
)

// Times of a stream of events.
const (
	heartbeat   = 15 * time.Second
	aheadLeast  = time.Second     // Between two events that only tell how many are ahead.
	streamWrite = 5 * time.Second // After that a caller that does not read is let go.
)

// hub knows the buyers that wait on a stream of events. Each has one goroutine, which
// keeps nothing but what it said last: a slow one holds up nobody else.
type hub struct {
	s       *Server
	closing chan struct{}
	clients sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	count   int
	waiting map[string][]*client // By ticket.
}

// client is one stream of events.
type client struct {
	hub           *hub
	buyer, ticket string
	woken         chan struct{}
	conn          net.Conn
}

func newHub(s *Server) *hub {
	return &hub{s: s, closing: make(chan struct{}), waiting: map[string][]*client{}}
}

// full tells whether there is no room for another client. It spares the rest of the way;
// join decides.
func (h *hub) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed || h.count >= h.s.o.StreamsMax
}

// serve takes over a connection, and returns at once: what the engine keeps for a request
// goes back to it then.
func (h *hub) serve(conn net.Conn, buyer, ticket string, first *seckill.Outcome) {
	c := &client{hub: h, buyer: buyer, ticket: ticket, woken: make(chan struct{}, 1), conn: conn}
	if !h.join(c) {
		c.write(busyAnswer())
		_ = conn.Close() // The caller is gone either way.
		return
	}
	// The first outcome is from before joining: look again at once, lest a change is missed.
	c.woken <- struct{}{}
	go c.run(first)
}

// join makes room for a client; false if there is none, or the hub is closed. Each that
// joined has to leave.
func (h *hub) join(c *client) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.count >= h.s.o.StreamsMax {
		return false
	}
	h.count++
	h.clients.Add(1)
	h.waiting[c.ticket] = append(h.waiting[c.ticket], c)
	h.s.o.Metrics.SSEClients.Inc()
	return true
}

func (c *client) leave() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.waiting[c.ticket]
	for i := range list {
		if list[i] == c {
			list[i] = list[len(list)-1]
			list[len(list)-1] = nil
			list = list[:len(list)-1]
			break
		}
	}
	if len(list) == 0 {
		delete(h.waiting, c.ticket)
	} else {
		h.waiting[c.ticket] = list
	}
	h.count--
	h.s.o.Metrics.SSEClients.Dec()
	h.clients.Done()
}

// wake has those who wait for a ticket look again.
func (h *hub) wake(ticket string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.waiting[ticket] {
		select {
		case c.woken <- struct{}{}:
		default: // It is going to look anyway.
		}
	}
}

// close sends everybody away.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.closing)
	}
}

// wait returns when everybody is gone, or ctx has ended.
func (h *hub) wait(ctx context.Context) error {
	gone := make(chan struct{})
	go func() {
		h.clients.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for streams of events: %w", ctx.Err())
	}
}

// run says what becomes of the ticket until that is final, or the caller is gone.
func (c *client) run(now *seckill.Outcome) {
	defer c.leave()
	defer c.conn.Close() //nolint:errcheck // The caller is gone either way.
	said := *now
	if !c.write(append(streamHead(), c.event(now)...)) {
		return
	}
	spoke := time.Now()
	timer := time.NewTimer(nextLook(now, 0))
	defer timer.Stop()
	for said.Progress == seckill.Queued {
		woken := false
		select {
		case <-c.hub.closing:
			// Somebody else answers those who come back, not all at once.
			c.write(strconv.AppendInt([]byte("retry: "), 500+rand.Int64N(4500), 10), []byte("\n\n"))
			return
		case <-c.woken:
			woken = true
		case <-timer.C:
		}
		quiet := time.Since(spoke)
		o, changed := c.look(&said)
		switch {
		case changed && (woken || o.Progress != seckill.Queued || quiet >= aheadLeast):
			if !c.write(c.event(&o)) {
				return
			}
			said, spoke, quiet = o, time.Now(), 0
		case quiet >= heartbeat:
			if !c.write([]byte(":\n\n")) {
				return
			}
			spoke, quiet = time.Now(), 0
		}
		timer.Reset(nextLook(&said, quiet))
	}
}

// look tells what has become of the ticket, and whether that is news. What cannot be told now
// is no news; a ticket that is gone was lost with the stock that gave it.
func (c *client) look(said *seckill.Outcome) (o seckill.Outcome, changed bool) {
	o, err := c.hub.s.outcome(c.buyer, c.ticket)
	if err != nil {
		if problem.Of(err).Reason != seckill.NotFound {
			return *said, false
		}
		o = seckill.Outcome{Progress: seckill.Failed, Reason: seckill.NotFound}
	}
	return o, o.Progress != said.Progress || o.Ahead != said.Ahead
}

// nextLook is when to look again, at the latest for the next heartbeat.
func nextLook(o *seckill.Outcome, quiet time.Duration) time.Duration {
	return max(min(pollAfter(o.Ahead)+aheadLeast-pollLeast, heartbeat-quiet), time.Millisecond)
}

func (c *client) write(parts ...[]byte) bool {
	if c.conn.SetWriteDeadline(time.Now().Add(streamWrite)) != nil {
		return false
	}
	for _, b := range parts {
		if _, err := c.conn.Write(b); err != nil {
			return false
		}
	}
	return true
}

const streamType = "text/event-stream; charset=utf-8"

// streamHead is the head of the answer. It ends with the connection, which every client of
// every version understands.
func streamHead() []byte {
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: " + streamType + "\r\nCache-Control: no-store\r\n" +
		"X-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n" +
		"retry: " + strconv.Itoa(1000+rand.IntN(2000)) + "\n\n")
}

func (c *client) event(o *seckill.Outcome) []byte {
	b := append(make([]byte, 0, 512), "id: "...)
	b = append(b, o.Progress.String()...)
	if o.Progress == seckill.Queued {
		b = append(b, '-')
		b = strconv.AppendInt(b, o.Ahead, 10)
	}
	b = append(b, "\ndata: "...)
	b = appendOutcome(b, c.ticket, o)
	return append(b, "\n\n"...)
}

// isFinal tells whether a Last-Event-ID is that of an event after which nothing comes.
func isFinal(lastEventID string) bool {
	return strings.HasPrefix(lastEventID, seckill.Confirmed.String()) || strings.HasPrefix(lastEventID, seckill.Failed.String())
}
