package testenv

import (
	"io"
	"net"
	"sync"
	"testing"
)

// ProxyServer stands between a client and a server, to hurt what goes between them. It may
// be used concurrently.
type ProxyServer struct {
	Addr string // Where clients connect, host:port.

	listener net.Listener
	target   string

	mu      sync.Mutex
	cut     bool
	stalled chan struct{} // Closed while bytes flow.
	conns   map[net.Conn]struct{}
	all     sync.WaitGroup
}

// Proxy hands on connections to target, host:port, until the test ends.
func Proxy(tb testing.TB, target string) *ProxyServer {
	tb.Helper()
	return ProxyAt(tb, "127.0.0.1:0", target)
}

// ProxyAt is Proxy on an address of the caller's choice.
func ProxyAt(tb testing.TB, addr, target string) *ProxyServer {
	tb.Helper()
	var config net.ListenConfig
	l, err := config.Listen(tb.Context(), "tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	p := &ProxyServer{Addr: l.Addr().String(), listener: l, target: target, stalled: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(p.stalled)
	p.all.Go(p.serve)
	tb.Cleanup(func() {
		_ = l.Close()
		p.Unstall()
		p.Cut()
		p.all.Wait()
	})
	return p
}

// Cut breaks all connections, and refuses new ones until Heal.
func (p *ProxyServer) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		reset(c)
	}
}

// Heal lets connections in again.
func (p *ProxyServer) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Stall lets no byte through until Unstall; connections stay.
func (p *ProxyServer) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stalled:
		p.stalled = make(chan struct{})
	default:
	}
}

// Unstall lets bytes through again.
func (p *ProxyServer) Unstall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stalled:
	default:
		close(p.stalled)
	}
}

func (p *ProxyServer) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.handOn(c) })
	}
}

func (p *ProxyServer) handOn(client net.Conn) {
	defer p.forget(client)
	if !p.keep(client) {
		return
	}
	server, err := net.Dial("tcp", p.target) //nolint:noctx // The target is on this machine.
	if err != nil {
		reset(client)
		return
	}
	defer p.forget(server)
	if !p.keep(server) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			p.copy(way[1], way[0])
			// One end that is gone takes the other with it.
			_ = client.Close()
			_ = server.Close()
		})
	}
	both.Wait()
}

func (p *ProxyServer) copy(to io.Writer, from io.Reader) {
	room := make([]byte, 32<<10)
	for {
		n, err := from.Read(room)
		p.mu.Lock()
		flows := p.stalled
		p.mu.Unlock()
		<-flows
		if n > 0 {
			if _, err := to.Write(room[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keep notes a connection, or resets it while everything is cut.
func (p *ProxyServer) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		reset(c)
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *ProxyServer) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

// reset closes a connection the hard way: the other end sees an error, not an end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
