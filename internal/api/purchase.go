package api

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/problem"
	"seckill/internal/tracing"
	"seckill/stock"
)

// reserver asks the stock, together with whoever else asks.
type reserver interface {
	Reserve(ctx context.Context, a *seckill.Activity, at seckill.Attempt) (stock.Decision, error)
}

// purchase answers POST /v1/activities/{id}/purchases. What the caller says of the body's
// type is not looked at: people's scripts send JSON as whatever their tool assumes, and
// no cookie identifies a buyer here, so a page of somebody else's cannot buy for one.
func (s *Server) purchase(c *call, id string) {
	c.trace = s.o.Tracer.Accept(c.traceparent, c.now)
	ticket, ahead, ref := s.tryPurchase(c, id)
	c.endTrace("POST /v1/activities/{id}/purchases", ticket, ref)
	if ref != nil {
		s.o.Metrics.Purchases[ref.Reason].Inc()
		c.refuse(ref)
		return
	}
	s.o.Metrics.Purchases[seckill.NoReason].Inc()
	b := c.scratch[:0]
	b = append(b, `{"ticket":`...)
	b = problem.AppendString(b, ticket)
	b = append(b, `,"state":"queued","ahead":`...)
	b = strconv.AppendInt(b, ahead, 10)
	b = append(b, `,"poll_after_ms":`...)
	b = strconv.AppendInt(b, pollAfter(ahead).Milliseconds(), 10)
	b = append(b, '}')
	c.json(fasthttp.StatusAccepted, b)
	b = append(b[:0], "/v1/tickets/"...)
	b = append(b, ticket...)
	c.ctx.Response.Header.SetCanonical(hLocation, b)
	c.scratch = b
}

func (s *Server) tryPurchase(c *call, id string) (ticket string, ahead int64, ref *seckill.Refusal) {
	activity, there, ref := parseActivityID(id)
	if ref != nil {
		return "", 0, ref
	}
	if ref := c.badHeader(); ref != nil {
		return "", 0, ref
	}
	w, ref := parseWish(c.ctx.Request.Body(), s.o.Auth.Open())
	if ref != nil {
		return "", 0, ref
	}
	buyer, ref := c.buyerOr(w.userID)
	if ref != nil {
		return "", 0, ref
	}
	if !there {
		activity = 0
	}
	c.want.Token = w.entryToken
	return s.buy(c, activity, buyer, w.quantity)
}

// buy is the way of every purchase: the gate, then the stock, then what the stock said.
func (s *Server) buy(c *call, activity int64, buyer string, quantity int) (ticket string, ahead int64, ref *seckill.Refusal) {
	r := &c.want
	r.Activity, _ = s.o.Activities.Activity(activity)
	r.Buyer, r.Quantity, r.Key, r.Now = buyer, quantity, c.key, c.now
	r.Addr, r.Device = c.client(), c.device
	answer := s.gate.Check(r)
	c.tellLimits(answer.Refusal)
	if answer.Refusal != nil {
		return "", 0, answer.Refusal
	}
	if answer.Ticket != "" {
		return answer.Ticket, answer.Ahead, nil
	}

	// From here on others keep what they are given, so nothing may be a view.
	at := seckill.Attempt{
		Ticket: c.newTicket(), Buyer: strings.Clone(buyer), Quantity: quantity, Key: r.AttemptKey(),
	}
	begin := time.Now()
	d, err := s.o.Reserver.Reserve(tracing.With(s.patience.of(begin), c.trace), r.Activity, at)
	if refused, ok := errors.AsType[*seckill.Refusal](err); ok {
		return "", 0, refused // The stock was not asked.
	}
	s.o.Metrics.PurchaseSeconds.Observe(time.Since(begin).Seconds())
	if err != nil {
		return "", 0, s.refusalOf("reserving", err, slog.Int64("activity", activity), slog.Int("run", r.Activity.Run), c.trace.ID())
	}
	s.gate.Learn(r, answer.Mark, d)
	return d.Ticket, d.Ahead, c.refusalFor(d)
}

// newTicket draws the attempt's ticket, and has the purchase traced if that is one of those that are, or if
// its caller asked for it.
func (c *call) newTicket() string {
	if c.trace == nil {
		ticket := c.want.Ticket()
		c.trace = c.s.o.Tracer.Begin(nil, ticket, c.now)
		return ticket
	}
	ticket := c.s.o.Tracer.Draw(c.want.Ticket)
	c.trace = c.s.o.Tracer.Begin(c.trace, ticket, c.now)
	return ticket
}

// endTrace tells of a request that is traced.
func (c *call) endTrace(route, ticket string, ref *seckill.Refusal) {
	if c.trace == nil {
		return
	}
	a := tracing.Answer{Route: route, Status: fasthttp.StatusAccepted, Outcome: "accepted", Ticket: ticket}
	if ref != nil {
		a.Status, a.Outcome, a.Ticket = ref.Reason.Status(), ref.Reason.String(), ref.Ticket
	}
	if route == articleRoute {
		a.Status = fasthttp.StatusOK
	}
	if c.want.Activity != nil {
		a.Activity = c.want.Activity.ID
	}
	c.trace.End(c.s.o.Now(), a)
}

// refusalFor says what a buyer hears of a decision; nil of a yes.
func (c *call) refusalFor(d stock.Decision) *seckill.Refusal {
	switch d.Verdict {
	case stock.Taken, stock.Known:
		return nil
	case stock.Replayed:
		// The entry is this buyer's alone, and so is its ticket.
		c.refusal = seckill.Refusal{Reason: seckill.Replayed, Ticket: c.want.Ticket()}
		return &c.refusal
	case stock.KeyMismatch:
		return problem.Plain(seckill.IdempotencyMismatch)
	case stock.Paused:
		return problem.Plain(seckill.Paused)
	case stock.NotStarted:
		c.refusal = seckill.Refusal{Reason: seckill.NotStarted, StartsAt: c.want.Activity.StartsAt}
		return &c.refusal
	case stock.Ended:
		return problem.Plain(seckill.Ended)
	case stock.OverLimit:
		c.refusal = seckill.Refusal{Reason: seckill.AlreadyPurchased, Ticket: d.Ticket}
		return &c.refusal
	case stock.Short:
		return problem.Plain(seckill.SoldOut)
	case stock.NotLoaded:
		if c.want.Activity.Phase == seckill.PhaseClosed { // Closed before it was ever in the stock.
			return problem.Plain(seckill.Ended)
		}
		return problem.Plain(seckill.Busy)
	default: // The stock does not know the run, or knows a newer one than we: soon it or we will.
		return problem.Plain(seckill.Busy)
	}
}

// Bounds of when a buyer is told to ask again.
const (
	pollLeast = 400 * time.Millisecond
	pollMost  = 15 * time.Second
	pollEach  = 200 * time.Microsecond // For each reservation in front.
)

// pollAfter tells a waiting buyer when to ask again: the later, the more are in front, and
// spread the wider.
func pollAfter(ahead int64) time.Duration {
	wait := pollMost
	if ahead < int64(pollMost/pollEach) {
		wait = min(pollLeast+time.Duration(max(ahead, 0))*pollEach, pollMost)
	}
	return wait + rand.N(wait/2)
}

// parseActivityID reads an activity's id out of a path. A number that is too great for an id is
// one of an activity that does not exist.
func parseActivityID(s string) (id int64, there bool, ref *seckill.Refusal) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false, seckill.Invalid("id", seckill.RuleType, "integer")
		}
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if s == "" || id == 0 && err == nil {
		return 0, false, seckill.Invalid("id", seckill.RuleMin, "1")
	}
	return id, err == nil, nil
}
