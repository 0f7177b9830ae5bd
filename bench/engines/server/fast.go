package main

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

type fast struct {
	s *fasthttp.Server
	h *hub
	o options

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newFast(h *hub, o options) *fast {
	f := &fast{h: h, o: o, conns: map[net.Conn]struct{}{}}
	f.s = &fasthttp.Server{
		Handler:                       f.handle,
		ConnState:                     f.track,
		ReadTimeout:                   readTimeout,
		IdleTimeout:                   idleTimeout,
		MaxRequestBodySize:            bodyMax,
		ReadBufferSize:                4 << 10,
		WriteBufferSize:               4 << 10,
		ReduceMemoryUsage:             o.reduce,
		KeepHijackedConns:             o.sse == "keep",
		CloseOnShutdown:               true,
		NoDefaultServerHeader:         true,
		NoDefaultContentType:          true,
		LazyRequestTime:               true,
		DisablePreParseMultipartForm:  true,
		DisableHeaderNamesNormalizing: false,
	}
	return f
}

func (f *fast) serve(ln net.Listener) error { return f.s.Serve(ln) }

func (f *fast) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if f.o.drain {
		defer time.AfterFunc(announce, f.wakeReaders).Stop()
	}
	return f.s.ShutdownWithContext(ctx)
}

// track knows the open connections, at no cost per request.
func (f *fast) track(c net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateNew:
		f.mu.Lock()
		f.conns[c] = struct{}{}
		f.mu.Unlock()
	case fasthttp.StateClosed, fasthttp.StateHijacked:
		f.mu.Lock()
		delete(f.conns, c)
		f.mu.Unlock()
	}
}

// wakeReaders ends connections that have not sent a whole request yet.
// Shutdown counts a connection that never said anything as busy for 5 s.
func (f *fast) wakeReaders() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
}

func (f *fast) handle(ctx *fasthttp.RequestCtx) {
	if leaving.Load() {
		ctx.SetConnectionClose()
	}
	path := ctx.Path()
	switch {
	case ctx.IsPost() && isPurchase(path):
		if quantity(ctx.PostBody()) < 1 {
			ctx.SetStatusCode(400)
			return
		}
		r := &ctx.Response
		r.SetStatusCode(410)
		r.Header.SetContentType("application/problem+json")
		r.Header.Set("Cache-Control", "no-store")
		r.Header.Set("Content-Language", "en")
		r.SetBodyRaw(problem)
	case ctx.IsGet() && string(path) == "/events":
		f.events(ctx)
	case ctx.IsPost() && string(path) == "/fire":
		f.h.fire()
	default:
		ctx.SetStatusCode(404)
	}
}

func (f *fast) events(ctx *fasthttp.RequestCtx) {
	switch f.o.sse {
	case "stream":
		ctx.SetContentType("text/event-stream")
		ctx.Response.Header.Set("Cache-Control", "no-cache")
		ctx.SetConnectionClose()
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			_, _ = w.WriteString(firstEvent)
			if w.Flush() != nil {
				return
			}
			<-f.h.done
			_, _ = w.WriteString(lastEvent)
			_ = w.Flush()
		})
	case "hijack":
		ctx.HijackSetNoResponse(true)
		ctx.Hijack(func(c net.Conn) {
			f.h.add(c, c.(unsafeConn).UnsafeConn())
			untilGone(c)
			f.h.remove(c)
		})
	case "keep":
		// With KeepHijackedConns the request context and the reader go back to
		// their pools as soon as this handler returns.
		ctx.HijackSetNoResponse(true)
		ctx.Hijack(func(c net.Conn) {
			raw := c.(unsafeConn).UnsafeConn()
			f.h.add(raw, raw)
			go func() {
				untilGone(raw)
				f.h.remove(raw)
				_ = raw.Close()
			}()
		})
	}
}

// unsafeConn is what fasthttp's hijacked connections also are.
type unsafeConn interface{ UnsafeConn() net.Conn }

// untilGone returns when the client hangs up, or when the hub wakes it.
func untilGone(c net.Conn) {
	var b [1]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			return
		}
	}
}
