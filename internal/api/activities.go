package api

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/problem"
)

// activities is what this node knows of them, in memory.
type activities interface {
	Activity(id int64) (*seckill.Activity, bool)
	Activities() []*seckill.Activity
	// Available units of a run, as last heard; known is false if nothing was heard.
	Available(run seckill.RunID) (n int64, known bool)
}

// shownAfterEnd is how long an activity that has ended is still listed.
const shownAfterEnd = 24 * time.Hour

var vOneSecond = []byte("public, max-age=1")

func (s *Server) activities(c *call, _ string) {
	b := append(c.scratch[:0], `{"activities":[`...)
	first := true
	for _, a := range s.o.Activities.Activities() {
		if c.now.Sub(a.EndsAt) > shownAfterEnd {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = s.appendActivity(b, a, c.now)
	}
	b = append(b, ']', '}')
	c.scratch = b
	c.cacheable(b)
}

func (s *Server) activity(c *call, id string) {
	n, there, ref := parseActivityID(id)
	if ref != nil {
		c.refuse(ref)
		return
	}
	a, ok := s.o.Activities.Activity(n)
	if !there || !ok {
		c.refuse(problem.Plain(seckill.NotFound))
		return
	}
	c.scratch = s.appendActivity(c.scratch[:0], a, c.now)
	c.cacheable(c.scratch)
}

// serverTime is where an activity says what time it is. The tag that a cache keeps must not
// depend on it, or nothing would ever be the same.
const serverTime = `,"server_time":"`

func (s *Server) appendActivity(b []byte, a *seckill.Activity, now time.Time) []byte {
	remaining, known := s.o.Activities.Available(a.RunID())
	if !known && (a.Phase == seckill.PhaseScheduled || now.Before(a.StartsAt)) {
		remaining = a.Total
	}
	remaining = max(remaining, 0)
	soldOut := s.gate.SoldOut(a.RunID()) || known && remaining == 0
	if soldOut {
		remaining = 0
	}
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, a.ID, 10)
	b = append(b, `,"name":`...)
	b = problem.AppendString(b, a.Name)
	b = append(b, `,"description":`...)
	b = problem.AppendString(b, a.Description)
	b = append(b, `,"price_cents":`...)
	b = strconv.AppendInt(b, a.PriceCents, 10)
	b = append(b, `,"state":"`...)
	b = append(b, a.State(now, soldOut)...)
	b = append(b, `","run":`...)
	b = strconv.AppendInt(b, int64(a.Run), 10)
	b = append(b, `,"starts_at":`...)
	b = appendTime(b, a.StartsAt)
	b = append(b, `,"ends_at":`...)
	b = appendTime(b, a.EndsAt)
	b = append(b, serverTime...)
	b = now.UTC().AppendFormat(b, timeMillis)
	b = append(b, `","total":`...)
	b = strconv.AppendInt(b, a.Total, 10)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendInt(b, remaining, 10)
	b = append(b, `,"limit_per_user":`...)
	b = strconv.AppendInt(b, int64(a.LimitPerUser), 10)
	b = append(b, `,"payment_window_seconds":`...)
	b = strconv.AppendInt(b, int64(a.PaymentWindow.Seconds()), 10)
	b = append(b, `,"challenge":`...)
	b = strconv.AppendBool(b, s.gate.Challenged(a))
	b = append(b, `,"entry_token":`...)
	b = strconv.AppendBool(b, a.EntryToken)
	return append(b, '}')
}

// timeMillis is RFC 3339 with milliseconds, always of the same length.
const timeMillis = "2006-01-02T15:04:05.000Z07:00"

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// cacheable answers a GET that caches may keep for a second, or with 304 if the
// caller has it.
func (c *call) cacheable(body []byte) {
	h := &c.ctx.Response.Header
	var room [32]byte
	tag := appendTag(room[:0], body)
	h.SetCanonical(hETag, tag)
	if matches(c.ifNoneMatch, view(tag)) {
		c.ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
		h.SetCanonical(hCacheControl, vOneSecond)
		return
	}
	c.json(fasthttp.StatusOK, body)
	h.SetCanonical(hCacheControl, vOneSecond)
}

// appendTag makes a weak tag of a body without its server times.
func appendTag(b, body []byte) []byte {
	sum := fnv.New64a()
	for rest := view(body); rest != ""; {
		before, after, found := strings.Cut(rest, serverTime)
		_, _ = sum.Write([]byte(before)) // Never fails.
		if !found {
			break
		}
		rest = after[min(len(after), len("2006-01-02T15:04:05.000Z")):]
	}
	b = append(b, `W/"`...)
	b = strconv.AppendUint(b, sum.Sum64(), 36)
	return append(b, '"')
}

// matches tells whether an If-None-Match names a tag; the comparison is the weak one.
func matches(ifNoneMatch, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for ifNoneMatch != "" {
		var one string
		one, ifNoneMatch, _ = strings.Cut(ifNoneMatch, ",")
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}
