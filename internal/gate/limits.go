package gate

import (
	"strings"
	"time"

	"seckill"
	"seckill/internal/limit"
)

// Limits are how often somebody may try. A nil limiter limits nothing.
type Limits struct {
	Keys             limit.Keys
	IP, User, Device *limit.Limiter

	// Abuse bounds how often a buyer may be refused as too fast until he is handed to Punish.
	Abuse  *limit.Limiter
	Punish func(buyer string)
}

// entries is the budget of who wants to enter: it is as great as that of purchases, and apart from it, so that
// nobody is too fast who enters and then buys.
const entries = 0x5851f42d4c957f2d

// Budgets of who looks at his orders, and of who pays or cancels one: each is as great as that of purchases, and
// apart from the others, so that the next step of an honest buyer is never one too many.
const (
	looks   = 0x14057b7ef767814f
	changes = 0x2545f4914f6cdd1d
)

// CheckOrders bounds how often an address and a buyer may ask for orders, or change one: each time costs the database
// something. Nothing else keeps a buyer from orders that he has.
func (g *Gate) CheckOrders(r *Request, change bool) *seckill.Refusal {
	r.limited, r.budget = limited{}, looks
	if change {
		r.budget = changes
	}
	return g.rateLimited(r)
}

// limited is what the limits said to a request.
type limited struct {
	ip, user, device                limit.Result
	ipAsked, userAsked, deviceAsked bool
}

// rateLimited asks the limits in their order; the first that refuses ends it.
func (g *Gate) rateLimited(r *Request) *seckill.Refusal {
	l := &r.limited
	worst := time.Duration(-1)
	if r.Addr.IsValid() && g.limits.IP != nil {
		l.ip, l.ipAsked = g.limits.IP.Take(g.limits.Keys.Addr(r.Addr)^r.budget, r.Now), true
		if !l.ip.OK {
			worst = l.ip.RetryAfter
		}
	}
	if worst < 0 && r.Buyer != "" && g.limits.User != nil {
		l.user, l.userAsked = g.limits.User.Take(g.limits.Keys.String(r.Buyer)^r.budget, r.Now), true
		if !l.user.OK {
			worst = l.user.RetryAfter
			if r.budget == 0 || r.budget == entries {
				g.abused(r)
			}
		}
	}
	if worst < 0 && r.Device != "" && g.limits.Device != nil {
		l.device, l.deviceAsked = g.limits.Device.Take(g.limits.Keys.String(r.Device)^r.budget, r.Now), true
		if !l.device.OK {
			worst = l.device.RetryAfter
		}
	}
	if worst < 0 {
		return nil
	}
	r.refusal = seckill.Refusal{Reason: seckill.RateLimited, RetryAfter: max(worst, time.Millisecond)}
	return &r.refusal
}

// abused counts a click that was too fast.
func (g *Gate) abused(r *Request) {
	if g.limits.Abuse == nil || g.limits.Punish == nil {
		return
	}
	if !g.limits.Abuse.Take(g.limits.Keys.String(r.Buyer), r.Now).OK {
		g.limits.Punish(strings.Clone(r.Buyer))
	}
}

// LimitedByAddress tells whether it was the limit by address that refused a request.
func (g *Gate) LimitedByAddress(r *Request) bool { return r.limited.ipAsked && !r.limited.ip.OK }

// AppendLimits appends the values of the RateLimit-Policy and the RateLimit header for a request
// that was checked; both stay empty if no limit was asked.
func (g *Gate) AppendLimits(policy, state []byte, r *Request) (p, s []byte) {
	for _, a := range [...]struct {
		l     *limit.Limiter
		r     limit.Result
		asked bool
	}{{g.limits.IP, r.limited.ip, r.limited.ipAsked}, {g.limits.User, r.limited.user, r.limited.userAsked}, {g.limits.Device, r.limited.device, r.limited.deviceAsked}} {
		if a.asked {
			policy, state = a.l.AppendPolicy(policy), a.l.AppendState(state, a.r)
		}
	}
	return policy, state
}
