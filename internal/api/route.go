package api

import (
	"strings"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/problem"
)

// route is what there is at a path: what answers a GET, and what a POST.
type route struct {
	allow     string
	get, post func(s *Server, c *call, id string)
}

const (
	allowRead  = "GET, HEAD, OPTIONS"
	allowWrite = "POST, OPTIONS"
)

var (
	routeActivities = &route{allowRead, (*Server).activities, nil}
	routeActivity   = &route{allowRead, (*Server).activity, nil}
	routeChallenge  = &route{allowRead, (*Server).challenge, nil}
	routeEntry      = &route{allowWrite, nil, (*Server).enter}
	routePurchases  = &route{allowWrite, nil, (*Server).purchase}
	routeTicket     = &route{allowRead, (*Server).ticket, nil}
	routeEvents     = &route{allowRead, (*Server).events, nil}
	routeOrders     = &route{allowRead, (*Server).orders, nil}
	routeOrder      = &route{allowRead, (*Server).order, nil}
	routeCancel     = &route{allowWrite, nil, (*Server).cancelOrder}
	routePay        = &route{allowWrite, nil, (*Server).payOrder}
	routeHealth     = &route{allowRead, (*Server).health, nil}
	routeArticle    = &route{allowWrite, nil, (*Server).article}
	routePage       = &route{allowRead, (*Server).page, nil}
)

// find tells what is at a path, nil if nothing is, and the id in it.
func (s *Server) find(path string) (r *route, id string) {
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		switch {
		case path == "/healthz":
			return routeHealth, ""
		case path == articlePath && s.o.Auth.Open():
			return routeArticle, ""
		case s.o.Page != nil:
			if _, ok := s.o.Page(path); ok {
				return routePage, path
			}
		}
		return nil, ""
	}
	collection, rest, deeper := strings.Cut(rest, "/")
	id, action, _ := strings.Cut(rest, "/")
	if deeper && (id == "" || strings.HasSuffix(rest, "/")) {
		return nil, ""
	}
	switch collection {
	case "activities":
		switch {
		case !deeper:
			return routeActivities, ""
		case action == "":
			return routeActivity, id
		case action == "purchases":
			return routePurchases, id
		case action == "challenge" && s.o.Gate.Entry != nil:
			return routeChallenge, id
		case action == "entry" && s.o.Gate.Entry != nil:
			return routeEntry, id
		}
	case "tickets":
		switch {
		case !deeper:
		case action == "":
			return routeTicket, id
		case action == "events":
			return routeEvents, id
		}
	case "orders":
		switch {
		case !deeper:
			return routeOrders, ""
		case action == "":
			return routeOrder, id
		case action == "cancel":
			return routeCancel, id
		case action == "pay" && s.o.SimulatePayment:
			return routePay, id
		}
	}
	return nil, ""
}

func (s *Server) route(c *call) {
	r, id := s.find(view(c.ctx.Path()))
	if r == nil {
		c.refuse(problem.Plain(seckill.NotFound))
		return
	}
	switch m := &c.ctx.Request.Header; {
	case m.IsPost() && r.post != nil:
		r.post(s, c, id)
	case (m.IsGet() || m.IsHead()) && r.get != nil:
		r.get(s, c, id)
	case m.IsOptions():
		c.ctx.Response.SetStatusCode(fasthttp.StatusNoContent)
		c.ctx.Response.Header.SetCanonical(hAllow, []byte(r.allow))
	default:
		c.ctx.Response.Header.SetCanonical(hAllow, []byte(r.allow))
		s.writeProblem(c.ctx, seckill.Invalid("method", seckill.RuleOneOf, r.allow), fasthttp.StatusMethodNotAllowed, c.lang)
	}
}

func (s *Server) health(c *call, _ string) { c.json(fasthttp.StatusOK, []byte(`{"status":"ok"}`)) }
