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

// desk is where orders are looked up and changed. What it refuses is a *seckill.Refusal; what
// is not there, or not the buyer's, is seckill.ErrNotFound.
type desk interface {
	Order(ctx context.Context, buyer, id string) (seckill.Order, error)
	// Orders of a buyer, newest first, those before an id ("" from the newest).
	Orders(ctx context.Context, buyer, before string, max int) ([]seckill.Order, error)
	Cancel(ctx context.Context, buyer, id string) (seckill.Order, error)
	Pay(ctx context.Context, buyer, id, ref string) (seckill.Order, error)
}

// Bounds of a page of orders.
const (
	ordersDefault = 20
	ordersMax     = 100
)

func (s *Server) orders(c *call, _ string) {
	before, most, ref := c.page()
	if ref != nil {
		c.refuse(ref)
		return
	}
	buyer, ref := c.buyer()
	if ref == nil {
		ref = c.mayAsk(buyer)
	}
	if ref != nil {
		c.refuse(ref)
		return
	}
	ctx := s.patience.of(time.Now())
	// One more than is shown tells whether there is another page.
	list, err := s.o.Desk.Orders(ctx, strings.Clone(buyer), before, most+1)
	if err != nil {
		c.refuse(s.refusalOf("listing orders", err))
		return
	}
	b := append(c.scratch[:0], `{"orders":[`...)
	for i := range list[:min(len(list), most)] {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOrder(b, &list[i])
	}
	b = append(b, ']')
	if len(list) > most {
		b = append(b, `,"cursor":`...)
		b = problem.AppendString(b, list[most-1].ID)
	}
	c.scratch = append(b, '}')
	c.json(fasthttp.StatusOK, c.scratch)
}

// mayAsk refuses who asks the database for orders too often, or changes them.
func (c *call) mayAsk(buyer string) *seckill.Refusal {
	r := &c.want
	r.Buyer, r.Addr, r.Now = buyer, c.client(), c.now
	ref := c.s.gate.CheckOrders(r, c.ctx.IsPost())
	c.tellLimits(ref)
	return ref
}

// page reads which page of a list is wanted.
func (c *call) page() (before string, most int, ref *seckill.Refusal) {
	most = ordersDefault
	var seen [2]bool
	for k, v := range c.ctx.QueryArgs().All() {
		switch name, value := string(k), string(v); name {
		case "cursor":
			if seen[0] {
				return "", 0, repeated(name)
			}
			seen[0] = true
			if !isOrderID(value) {
				return "", 0, seckill.Invalid(name, seckill.RuleFormat, "a cursor as it was given")
			}
			before = value
		case "limit":
			if seen[1] {
				return "", 0, repeated(name)
			}
			seen[1] = true
			n, err := strconv.Atoi(value)
			switch {
			case err != nil:
				return "", 0, seckill.Invalid(name, seckill.RuleType, "integer")
			case n < 1:
				return "", 0, seckill.Invalid(name, seckill.RuleMin, "1")
			case n > ordersMax:
				return "", 0, seckill.Invalid(name, seckill.RuleMax, strconv.Itoa(ordersMax))
			}
			most = n
		}
	}
	return before, most, nil
}

// isOrderID tells whether s can be an order's id, so that nobody has to look for what cannot be.
func isOrderID(s string) bool {
	if s == "" || len(s) > 19 || s[0] == '0' {
		return false
	}
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil && s[0] != '-' && s[0] != '+'
}

func (s *Server) order(c *call, id string) {
	s.withOrder(c, id, "looking up an order", s.o.Desk.Order)
}

func (s *Server) cancelOrder(c *call, id string) {
	if ref := parseNothing(c.ctx.Request.Body()); ref != nil {
		c.refuse(ref)
		return
	}
	s.withOrder(c, id, "cancelling an order", s.o.Desk.Cancel)
}

// simulated is the reference of a payment that names none.
const simulated = "simulated"

func (s *Server) payOrder(c *call, id string) {
	payment, ref := parsePayment(c.ctx.Request.Body())
	if ref != nil {
		c.refuse(ref)
		return
	}
	if payment == "" {
		payment = simulated
	}
	payment = strings.Clone(payment)
	s.withOrder(c, id, "paying an order", func(ctx context.Context, buyer, id string) (seckill.Order, error) {
		return s.o.Desk.Pay(ctx, buyer, id, payment)
	})
}

// withOrder does something with a buyer's order, and shows what has become of it.
func (s *Server) withOrder(c *call, id, what string, do func(ctx context.Context, buyer, id string) (seckill.Order, error)) {
	buyer, ref := c.buyer()
	if ref != nil {
		c.refuse(ref)
		return
	}
	if !isOrderID(id) {
		c.refuse(problem.Plain(seckill.NotFound))
		return
	}
	if ref := c.mayAsk(buyer); ref != nil {
		c.refuse(ref)
		return
	}
	ctx := s.patience.of(time.Now())
	o, err := do(ctx, strings.Clone(buyer), strings.Clone(id))
	if err != nil {
		c.refuse(s.refusalOf(what, err))
		return
	}
	c.scratch = appendOrder(c.scratch[:0], &o)
	c.json(fasthttp.StatusOK, c.scratch)
}

func appendOrder(b []byte, o *seckill.Order) []byte {
	b = append(b, `{"id":`...)
	b = problem.AppendString(b, o.ID)
	b = append(b, `,"activity_id":`...)
	b = strconv.AppendInt(b, o.Run.Activity, 10)
	b = append(b, `,"run":`...)
	b = strconv.AppendInt(b, int64(o.Run.Run), 10)
	b = append(b, `,"ticket":`...)
	b = problem.AppendString(b, o.Ticket)
	b = append(b, `,"state":"`...)
	b = append(b, o.State.String()...)
	b = append(b, `","quantity":`...)
	b = strconv.AppendInt(b, int64(o.Quantity), 10)
	b = append(b, `,"amount_cents":`...)
	b = strconv.AppendInt(b, o.AmountCents, 10)
	b = append(b, `,"created_at":`...)
	b = appendTime(b, o.CreatedAt)
	b = append(b, `,"pay_before":`...)
	b = appendTime(b, o.PayBefore)
	return append(b, '}')
}
