package main

import (
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	firstEvent = "event: state\nid: 1\ndata: {\"state\":\"queued\",\"ahead\":17}\n\n"
	lastEvent  = "event: state\nid: 2\ndata: {\"state\":\"confirmed\",\"order\":\"o-1\"}\n\n"
	rawHead    = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" +
		"Cache-Control: no-cache\r\nConnection: close\r\n\r\n"
)

// hub lets waiting clients go, once. Engines that keep a goroutine per client
// wait on done; taken-over connections are written to by the hub itself.
type hub struct {
	done  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	conns map[net.Conn]syscall.RawConn
}

func newHub() *hub {
	return &hub{done: make(chan struct{}), conns: map[net.Conn]syscall.RawConn{}}
}

// add sends the first event to a taken-over connection and remembers it. key
// is what remove will be called with, raw the connection below it.
func (h *hub) add(key, raw net.Conn) {
	rc, err := raw.(syscall.Conn).SyscallConn()
	if err != nil || !writeNow(rc, []byte(rawHead+firstEvent)) {
		return
	}
	h.mu.Lock()
	h.conns[key] = rc
	h.mu.Unlock()
}

func (h *hub) remove(key net.Conn) {
	h.mu.Lock()
	delete(h.conns, key)
	h.mu.Unlock()
}

// writeNow tries once, without a deadline's timer. A client whose buffer is
// full must not cost the others anything: it is dropped, and comes back with
// its Last-Event-ID.
func writeNow(rc syscall.RawConn, b []byte) bool {
	n := 0
	err := rc.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), b)
		return true
	})
	return err == nil && n == len(b)
}

// fire sends the last event to everyone, and only then hangs up on them.
func (h *hub) fire() {
	h.once.Do(func() {
		close(h.done)
		h.mu.Lock()
		conns := h.conns
		h.conns = map[net.Conn]syscall.RawConn{}
		h.mu.Unlock()
		keys := make([]net.Conn, 0, len(conns))
		for c := range conns {
			keys = append(keys, c)
		}
		last := []byte(lastEvent)
		shards := runtime.GOMAXPROCS(0)
		var group sync.WaitGroup
		for i := range shards {
			group.Go(func() {
				for j := i; j < len(keys); j += shards {
					writeNow(conns[keys[j]], last)
				}
			})
		}
		group.Wait()
		for _, c := range keys {
			// Close does nothing on a hijacked connection that fasthttp still
			// owns; there the deadline wakes its reader, and that ends it.
			_ = c.SetReadDeadline(time.Unix(1, 0))
			_ = c.Close()
		}
	})
}
