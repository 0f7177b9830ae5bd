package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/problem"
)

// outcomes tells what has become of a buyer's ticket; seckill.ErrNotFound if there is
// none, or it is another buyer's.
type outcomes interface {
	Outcome(ctx context.Context, buyer, ticket string) (seckill.Outcome, error)
}

func (s *Server) ticket(c *call, ticket string) {
	buyer, ticket, ref := c.ticketOf(ticket)
	if ref != nil {
		c.refuse(ref)
		return
	}
	o, err := s.outcome(buyer, ticket)
	if err != nil {
		c.refuse(s.refusalOf("looking up a ticket", err))
		return
	}
	c.scratch = appendOutcome(c.scratch[:0], ticket, &o)
	c.json(fasthttp.StatusOK, c.scratch)
}

// ticketOf tells who asks for which ticket; what it returns may be kept.
func (c *call) ticketOf(path string) (buyer, ticket string, ref *seckill.Refusal) {
	buyer, ref = c.buyer()
	if ref != nil {
		return "", "", ref
	}
	if _, ok := seckill.TicketRun(path); !ok {
		return "", "", problem.Plain(seckill.NotFound)
	}
	return strings.Clone(buyer), strings.Clone(path), nil
}

func (s *Server) outcome(buyer, ticket string) (seckill.Outcome, error) {
	ctx := s.patience.of(time.Now())
	return s.o.Outcomes.Outcome(ctx, buyer, ticket) //nolint:wrapcheck // The caller says what it was for.
}

func appendOutcome(b []byte, ticket string, o *seckill.Outcome) []byte {
	b = append(b, `{"ticket":`...)
	b = problem.AppendString(b, ticket)
	b = append(b, `,"state":"`...)
	b = append(b, o.Progress.String()...)
	b = append(b, '"')
	switch o.Progress {
	case seckill.Queued:
		b = append(b, `,"ahead":`...)
		b = strconv.AppendInt(b, o.Ahead, 10)
		b = append(b, `,"poll_after_ms":`...)
		b = strconv.AppendInt(b, pollAfter(o.Ahead).Milliseconds(), 10)
	case seckill.Failed:
		b = append(b, `,"reason":`...)
		b = problem.AppendString(b, o.Reason.String())
	case seckill.Confirmed:
		if o.Order != nil {
			b = append(b, `,"order":`...)
			b = appendOrder(b, o.Order)
		}
	}
	return append(b, '}')
}
