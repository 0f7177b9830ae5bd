package api

import (
	"strconv"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/problem"
)

const (
	articlePath  = "/seckill"
	articleRoute = "POST " + articlePath
)

// article answers POST /seckill, which believes the user_id in its body. The status is
// always 200; what happened is in the code.
func (s *Server) article(c *call, _ string) {
	c.trace = s.o.Tracer.Accept(c.traceparent, c.now)
	ticket, ref := s.tryArticle(c)
	c.endTrace(articleRoute, ticket, ref)
	if ref != nil {
		s.o.Metrics.Purchases[ref.Reason].Inc()
		writeArticle(c.ctx, ref, "", c.lang)
		return
	}
	s.o.Metrics.Purchases[seckill.NoReason].Inc()
	writeArticle(c.ctx, nil, ticket, c.lang)
}

func (s *Server) tryArticle(c *call) (ticket string, ref *seckill.Refusal) {
	if ref := c.badHeader(); ref != nil {
		return "", ref
	}
	a, ref := parseArticle(c.ctx.Request.Body())
	if ref != nil {
		return "", ref
	}
	buyer, ref := c.buyerOr(a.userID)
	if ref != nil {
		return "", ref
	}
	ticket, _, ref = s.buy(c, a.activityID, buyer, 1)
	return ticket, ref
}

// articleCode is one of the codes that the article's callers know.
func articleCode(r seckill.Reason) int {
	switch status := r.Status(); status {
	case fasthttp.StatusForbidden, fasthttp.StatusNotFound, fasthttp.StatusConflict, fasthttp.StatusGone, fasthttp.StatusTooManyRequests:
		return status
	case fasthttp.StatusServiceUnavailable, fasthttp.StatusInternalServerError:
		return fasthttp.StatusServiceUnavailable
	case fasthttp.StatusPreconditionRequired:
		return fasthttp.StatusForbidden
	default:
		return fasthttp.StatusBadRequest
	}
}

func writeArticle(ctx *fasthttp.RequestCtx, ref *seckill.Refusal, ticket string, lang problem.Lang) {
	code, msg := fasthttp.StatusOK, [...]string{
		problem.EN: "You are in the queue. Please look at your ticket for the result.",
		problem.ZH: "抢购请求已提交，正在排队，请稍后查看结果",
	}[lang]
	if ref != nil {
		code, msg = articleCode(ref.Reason), problem.Msg(ref.Reason, lang)
		if len(ref.Fields) > 0 {
			msg = problem.FieldMsg(ref.Fields[0], lang)
		}
		ticket = ref.Ticket
	}
	b := append([]byte(nil), `{"code":`...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, `,"msg":`...)
	b = problem.AppendString(b, msg)
	if ticket != "" {
		b = append(b, `,"ticket":`...)
		b = problem.AppendString(b, ticket)
	}
	b = append(b, '}')
	ctx.Response.SetStatusCode(fasthttp.StatusOK)
	h := &ctx.Response.Header
	h.SetContentTypeBytes(vJSON)
	h.SetCanonical(hCacheControl, vNoStore)
	h.SetCanonical(hContentLanguage, vLanguages[lang])
	h.SetCanonical(hNoSniff, vNoSniff)
	ctx.Response.SetBody(b)
}
