package api

import (
	"net"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/problem"
)

// events answers GET /v1/tickets/{ticket}/events with a stream.
func (s *Server) events(c *call, ticket string) {
	buyer, ticket, ref := c.ticketOf(ticket)
	if ref != nil {
		c.refuse(ref)
		return
	}
	if s.hub.full() {
		c.refuse(problem.Plain(seckill.Busy))
		return
	}
	o, err := s.outcome(buyer, ticket)
	h := &c.ctx.Response.Header
	switch {
	case err != nil:
		c.refuse(s.refusalOf("looking up a ticket", err))
	case o.Progress != seckill.Queued && isFinal(c.lastEventID):
		// The caller has heard it all; 204 is what keeps an EventSource from coming back.
		c.ctx.Response.SetStatusCode(fasthttp.StatusNoContent)
		h.SetCanonical(hCacheControl, vNoStore)
	case c.ctx.IsHead():
		h.SetContentType(streamType)
		h.SetCanonical(hCacheControl, vNoStore)
	default:
		if k, ok := c.ctx.Conn().(*conn); ok {
			k.room = nil // Nothing is read any more.
		}
		c.ctx.HijackSetNoResponse(true)
		c.ctx.Hijack(func(hijacked net.Conn) {
			if bare, ok := hijacked.(interface{ UnsafeConn() net.Conn }); ok {
				hijacked = bare.UnsafeConn()
			}
			s.hub.serve(hijacked, buyer, ticket, &o)
		})
	}
}
