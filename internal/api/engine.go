package api

import (
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/problem"
)

func newEngine(s *Server) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:      s.handle,
		ErrorHandler: s.broken,
		Logger:       quiet{},

		ReadBufferSize:     headerBytesMax,
		MaxRequestBodySize: bodyBytesMax,
		// There are no timeouts here: our connections keep the times, as the engine would ask the clock three times for each request.

		// The listener turns away what is too much, and says so in our own words.
		Concurrency: s.o.ConnsMax + 1024,

		TCPKeepalive:                 true,
		CloseOnShutdown:              true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true,
		LazyRequestTime:              true,
		// What a request needs goes from one connection to the next while it is warm. The engine waits for a request by
		// reading one byte; see conn.Read.
		ReduceMemoryUsage: true,
		// A stream of events keeps the connection, and nothing else of a request.
		KeepHijackedConns: true,
	}
}

// quiet drops what the engine has to say: it is about connections that callers broke, and
// it quotes what they sent.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// handle answers one request, whatever happens on the way.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer s.guard(ctx)
	k, _ := ctx.Conn().(*conn)
	if k != nil && k.held.Load() {
		s.out.flush() // It may be long until this one is answered, too.
	}
	c := s.calls.Get().(*call)
	c.begin(s, ctx)
	s.route(c)
	if s.stopping.Load() {
		ctx.SetConnectionClose()
	}
	c.end()
	s.calls.Put(c)
	if k != nil { // Who is sent away does not come back for the rest of his answer.
		k.mayHold = !ctx.Hijacked() && !ctx.Request.Header.ConnectionClose() && !ctx.Response.ConnectionClose()
	}
}

// guard makes a panic of one request that request's trouble alone. What was in use then is
// not used again.
func (s *Server) guard(ctx *fasthttp.RequestCtx) {
	if p := recover(); p != nil {
		s.o.Log.Error("a request panicked", "panic", p, "method", string(ctx.Method()), "path", string(ctx.Path()), "stack", string(debug.Stack()))
		ctx.Response.Reset()
		s.writeProblem(ctx, problem.Plain(seckill.Internal), 0, languageOf(ctx))
		ctx.SetConnectionClose()
	}
}

// broken answers what is no request.
func (s *Server) broken(ctx *fasthttp.RequestCtx, err error) {
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger.Store(true)
	}
	ref, status := notHTTP, fasthttp.StatusBadRequest
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		if s.o.Auth.Open() && string(ctx.Path()) == articlePath {
			writeArticle(ctx, tooLargeBody, "", languageOf(ctx))
			return
		}
		ref, status = tooLargeBody, 0
	case errors.As(err, &small):
		ref, status = tooLargeHeader, fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		ref, status = tooSlow, fasthttp.StatusRequestTimeout
	}
	s.writeProblem(ctx, ref, status, languageOf(ctx))
}

func languageOf(ctx *fasthttp.RequestCtx) problem.Lang {
	return problem.Negotiate(view(ctx.Request.Header.Peek("Accept-Language")))
}

// The refusals of what is no request. They must not be changed.
var (
	tooLargeBody   = &seckill.Refusal{Reason: seckill.TooLarge, Detail: "The body may have at most " + strconv.Itoa(bodyBytesMax) + " bytes."}
	tooLargeHeader = &seckill.Refusal{Reason: seckill.TooLarge, Detail: "The request line and the headers may have at most " + strconv.Itoa(headerBytesMax) + " bytes."}
	tooSlow        = &seckill.Refusal{Reason: seckill.InvalidRequest, Detail: "The request did not arrive in time."}
	notHTTP        = &seckill.Refusal{Reason: seckill.InvalidRequest, Detail: "The request is not well-formed HTTP."}
)

// listener bounds how many connections there are at once.
type listener struct {
	net.Listener
	s *Server
}

// Accept answers a connection that is too much with "busy", and waits for the next.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // The engine looks at what it is.
		}
		c := &conn{Conn: raw, s: l.s, peer: addrOf(raw.RemoteAddr())}
		if l.s.conns.Add(1) <= int64(l.s.o.ConnsMax) {
			l.s.open.add(c)
			return c, nil
		}
		c.linger.Store(true)
		_ = raw.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = raw.Write(busyAnswer())
		go c.Close() //nolint:errcheck // Bounded by lingersMax and lingerTime; the caller is gone either way.
	}
}

// addrOf is the zero Addr of what is no address of IP.
func addrOf(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap().WithZone("")
}

func busyAnswer() []byte {
	ref := problem.Plain(seckill.Busy)
	body := problem.Encode(ref, problem.EN)
	b := []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: " + problem.ContentType + "\r\nCache-Control: no-store\r\nConnection: close\r\nRetry-After: ")
	b = strconv.AppendInt(b, int64(problem.RetryAfter(ref)), 10)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	return append(b, body...)
}

// Bounds of closing slowly.
const (
	lingersMax = 16
	lingerTime = time.Second
	// What a caller goes on sending is read no faster than this, so that he waits, and not those who share the processors
	// with him: 1 MB/s.
	lingerPiece = 16 << 10
	lingerPause = 16 * time.Millisecond
)

// conn counts itself, and can close in a way that lets a caller who is still sending
// read the answer: closing with unread bytes resets the connection, and the answer with it.
type conn struct {
	net.Conn
	s      *Server
	peer   netip.Addr // The other end.
	linger atomic.Bool
	closed atomic.Bool
	spoken atomic.Bool // Something was read.

	// What follows belongs to whoever serves the connection.
	begun    time.Duration // When the request began that is being read; on the server's clock, as are the others.
	readBy   time.Duration
	writeBy  time.Duration
	room     *[roomBytes]byte
	leftOver []byte // Of room: read from the connection, and not given to the engine yet.
	mayHold  bool   // What is written next is a whole answer, and the connection goes on.

	// What follows belongs to s.out while an answer is held.
	held   atomic.Bool
	reply  *reply
	raw    syscall.RawConn
	rest   []byte // Of the answer, if the caller had no room for all of it.
	failed error
}

// roomBytes is what is read at once while a request is awaited: most requests fit.
const roomBytes = 2 << 10

// slack is how much less time than it is told anybody may get: a small part of the shortest. Deadlines are set anew
// only when they move by half of it, and the clock they are taken from is as coarse.
func (s *Server) slack() time.Duration {
	return min(s.o.ReadTimeout, s.o.WriteTimeout, s.o.IdleTimeout) / 16
}

// tick sets the clock of the connections' deadlines.
func (s *Server) tick() { s.clock.Store(int64(time.Since(s.made))) }

func (s *Server) sinceMade() time.Duration { return time.Duration(s.clock.Load()) }

// Read knows what the engine wants: one byte when it awaits a request, which then has the idle time to come, and more when
// it is in the middle of one. It reads more than that byte, and so most requests cost one system call.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.leftOver) > 0 || len(p) > 1 { // A part of the next request is there already: its rest is awaited without a turn.
		if err := c.settle(); err != nil {
			return 0, err
		}
	}
	if len(c.leftOver) > 0 {
		n := copy(p, c.leftOver)
		c.leftOver = c.leftOver[n:]
		return n, nil
	}
	if len(p) > 1 {
		return c.read(p, c.begun+c.s.o.ReadTimeout)
	}
	if c.room == nil {
		c.room = new([roomBytes]byte)
	}
	n, err := c.await(c.room[:])
	c.begun = c.s.sinceMade()
	if n == 0 {
		return 0, err
	}
	c.leftOver = c.room[copy(p, c.room[:n]):n]
	return len(p), nil
}

// await reads the beginning of a request.
func (c *conn) await(p []byte) (int, error) {
	if c.spoken.Load() {
		// The next request of a kept connection is seldom there the moment the last one was answered. Others first: a read
		// that finds nothing costs a system call and the way through the poller.
		c.s.out.yield()
		if err := c.settle(); err != nil {
			return 0, err
		}
		return c.read(p, c.s.sinceMade()+c.s.o.IdleTimeout)
	}
	n, err := c.read(p, c.s.sinceMade()+c.s.o.ReadTimeout)
	if n > 0 {
		c.spoken.Store(true)
	}
	return n, err
}

func (c *conn) read(p []byte, by time.Duration) (int, error) {
	if on := by - c.readBy; on < 0 || on >= c.s.slack()/2 {
		c.readBy = by
		if err := c.SetReadDeadline(c.s.made.Add(by)); err != nil {
			return 0, err //nolint:wrapcheck // The engine looks at what it is.
		}
	}
	if !c.spoken.Load() {
		if err := c.s.open.hurryOne(c); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p) //nolint:wrapcheck // The engine looks at what it is.
}

// Write gives the caller the write timeout to take an answer.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.settle(); err != nil {
		return 0, err
	}
	mayHold := c.mayHold
	c.mayHold = false
	c.begun = c.s.sinceMade() // Of the next request, if its first byte is there already.
	if by := c.begun + c.s.o.WriteTimeout; by-c.writeBy >= c.s.slack()/2 {
		c.writeBy = by
		if err := c.Conn.SetWriteDeadline(c.s.made.Add(by)); err != nil {
			return 0, err //nolint:wrapcheck // The engine looks at what it is.
		}
	}
	if mayHold && c.s.out.hold(c, p) {
		return len(p), nil
	}
	return c.Conn.Write(p) //nolint:wrapcheck // The engine looks at what it is.
}

// SetWriteDeadline is for a stream of events, which keeps its own times from then on.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writeBy = math.MaxInt64
	return c.Conn.SetWriteDeadline(t) //nolint:wrapcheck // The caller only asks whether it worked.
}

func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.s.open.remove(c)
	if c.held.Load() {
		c.s.out.flush()
	}
	defer c.s.conns.Add(-1)
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger.Load() {
		select {
		case c.s.lingers <- struct{}{}:
			if half.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
				c.drain()
			}
			<-c.s.lingers
		default: // Too many do this: reset it.
		}
	}
	return c.Conn.Close()
}

// drain reads what the caller still sends, until he stops or the time is over.
func (c *conn) drain() {
	for {
		if _, err := io.CopyN(io.Discard, c.Conn, lingerPiece); err != nil {
			return
		}
		time.Sleep(lingerPause)
	}
}

// connSet knows the connections that are open, for the end.
type connSet struct {
	hurried atomic.Bool // Before the deadlines are: whoever sets a later one looks here after that.

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func (s *connSet) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		s.conns = map[*conn]struct{}{}
	}
	s.conns[c] = struct{}{}
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// silentGrace is how long a first byte may take once the door shuts.
const silentGrace = 250 * time.Millisecond

// hurry is for connections that have not sent a byte yet: browsers open some in advance, and
// a shutdown need not wait for them as long as for a request.
func (s *connSet) hurry() {
	s.hurried.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if !c.spoken.Load() {
			_ = c.SetReadDeadline(time.Now().Add(silentGrace)) // One that is closed needs no hurry.
		}
	}
}

// hurryOne is hurry for a connection that begins to read when the door is shut already.
func (s *connSet) hurryOne(c *conn) error {
	if !s.hurried.Load() {
		return nil
	}
	return c.SetReadDeadline(time.Now().Add(silentGrace)) //nolint:wrapcheck // The engine looks at what it is.
}

// cut closes whatever is still open, and tells how many that were.
func (s *connSet) cut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Conn.Close() // Whoever serves it sees that it is closed, and lets go of it.
	}
	return len(s.conns)
}

// SetKeepAlive and SetKeepAlivePeriod let the engine find connections of which nothing
// but the address is left.
func (c *conn) SetKeepAlive(on bool) error {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		return t.SetKeepAlive(on)
	}
	return nil
}

// SetKeepAlivePeriod is part of what the engine asks for.
func (c *conn) SetKeepAlivePeriod(d time.Duration) error {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		return t.SetKeepAlivePeriod(d)
	}
	return nil
}
