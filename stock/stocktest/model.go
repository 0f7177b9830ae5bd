package stocktest

import (
	"fmt"
	"slices"
	"time"

	"seckill"
	"seckill/stock"
)

// model is a stock that is obviously right: no concurrency, no disk, and it looks
// through all it has each time. It keeps everything it ever decided.
type model struct {
	now   func() time.Time
	runs  map[seckill.RunID]*modelRun
	bound string
}

type modelRun struct {
	spec      stock.Spec
	available int64
	purchases []*modelPurchase // In the order of the reservations.
	restocks  map[int64]int64
}

type modelPurchase struct {
	ticket, buyer, key string
	quantity, slot     int
	state              int // One of the seckill.OrderState, or those below.
	reason             seckill.Reason
	order              *seckill.Order
	acked              bool // The outbox need not deliver it.
}

const (
	modelQueued = 0
	modelFailed = 99
)

func (p *modelPurchase) live() bool {
	return p.state == modelQueued || p.state == int(seckill.AwaitingPayment) || p.state == int(seckill.Paid)
}

func (m *model) bind(database string) string {
	if m.bound == "" {
		m.bound = database
	}
	return m.bound
}

func (m *model) load(spec stock.Spec) {
	if old := m.runs[spec.Run]; old != nil && old.spec.Epoch >= spec.Epoch {
		return
	}
	r := &modelRun{spec: spec, available: spec.Units, restocks: map[int64]int64{}}
	for _, o := range spec.Held {
		r.purchases = append(r.purchases, &modelPurchase{
			ticket: o.Ticket, buyer: o.Buyer, quantity: o.Quantity, slot: o.Slot,
			state: int(o.State), order: &o,
		})
	}
	m.runs[spec.Run] = r
}

func (m *model) reserve(id seckill.RunID, epoch int64, attempts []seckill.Attempt) (ds []stock.Decision) {
	for _, a := range attempts {
		ds = append(ds, m.decide(id, epoch, a))
	}
	return ds
}

// decide checks in the order of the verdicts.
func (m *model) decide(id seckill.RunID, epoch int64, a seckill.Attempt) stock.Decision {
	r := m.runs[id]
	if r == nil {
		return stock.Decision{Verdict: stock.NotLoaded}
	}
	if r.spec.Epoch != epoch {
		return stock.Decision{Verdict: stock.Stale}
	}
	for _, p := range r.purchases {
		if p.ticket == a.Ticket {
			if p.key != "" && p.key != a.Key {
				return stock.Decision{Verdict: stock.Replayed, Left: r.available}
			}
			if p.quantity != a.Quantity {
				return stock.Decision{Verdict: stock.KeyMismatch, Left: r.available}
			}
			return stock.Decision{Verdict: stock.Known, Ticket: p.ticket, Left: r.available}
		}
	}
	for _, p := range r.purchases {
		if p.buyer == a.Buyer && a.Key != "" && p.key == a.Key {
			if p.quantity != a.Quantity {
				return stock.Decision{Verdict: stock.KeyMismatch, Left: r.available}
			}
			return stock.Decision{Verdict: stock.Known, Ticket: p.ticket, Left: r.available}
		}
	}
	held, latest := 0, ""
	slots := map[int]bool{}
	for _, p := range r.purchases {
		if p.buyer == a.Buyer && p.live() {
			held += p.quantity
			latest = p.ticket
			slots[p.slot] = true
		}
	}
	now := m.now()
	switch {
	case r.spec.Paused:
		return stock.Decision{Verdict: stock.Paused, Left: r.available}
	case now.Before(r.spec.StartsAt):
		return stock.Decision{Verdict: stock.NotStarted, Left: r.available}
	case !now.Before(r.spec.EndsAt):
		return stock.Decision{Verdict: stock.Ended, Left: r.available}
	case held+a.Quantity > r.spec.Limit:
		return stock.Decision{Verdict: stock.OverLimit, Ticket: latest, Left: r.available}
	case int64(a.Quantity) > r.available:
		return stock.Decision{Verdict: stock.Short, Left: r.available}
	}
	slot := 1
	for slots[slot] {
		slot++
	}
	r.available -= int64(a.Quantity)
	r.purchases = append(r.purchases, &modelPurchase{
		ticket: a.Ticket, buyer: a.Buyer, key: a.Key, quantity: a.Quantity, slot: slot, state: modelQueued,
	})
	return stock.Decision{Verdict: stock.Taken, Ticket: a.Ticket, Left: r.available}
}

func (r *modelRun) find(ticket string) *modelPurchase {
	i := slices.IndexFunc(r.purchases, func(p *modelPurchase) bool { return p.ticket == ticket })
	if i < 0 {
		return nil
	}
	return r.purchases[i]
}

// settle tells whether the ticket is known.
func (m *model) settle(s stock.Settlement) bool {
	r := m.runs[s.Run]
	if r == nil {
		return false
	}
	p := r.find(s.Ticket)
	if p == nil {
		return false
	}
	to := modelFailed
	if s.Order != nil {
		to = int(s.Order.State)
	}
	switch p.state {
	case modelQueued:
	case int(seckill.AwaitingPayment):
		if to == modelFailed || to == int(seckill.AwaitingPayment) {
			return true
		}
	default: // Nothing comes after a final state.
		return true
	}
	p.state, p.reason, p.order = to, s.Failed, s.Order
	if !p.live() && !s.WrittenOff {
		r.available += int64(p.quantity)
	}
	return true
}

func (m *model) restock(id seckill.RunID, restock, units int64) (int64, bool) {
	r := m.runs[id]
	if r == nil {
		return 0, false
	}
	if _, again := r.restocks[restock]; !again {
		did := max(units, -r.available)
		r.restocks[restock] = did
		r.available += did
	}
	return r.restocks[restock], true
}

func (m *model) control(id seckill.RunID, c stock.Control) bool {
	r := m.runs[id]
	if r == nil {
		return false
	}
	r.spec.Paused, r.spec.EndsAt = c.Paused, c.EndsAt
	return true
}

// outcome is false for what is not there or another buyer's.
func (m *model) outcome(buyer, ticket string) (seckill.Outcome, bool) {
	id, _ := seckill.TicketRun(ticket)
	r := m.runs[id]
	if r == nil {
		return seckill.Outcome{}, false
	}
	p := r.find(ticket)
	switch {
	case p == nil || p.buyer != buyer:
		return seckill.Outcome{}, false
	case p.state == modelQueued:
		return seckill.Outcome{Progress: seckill.Queued}, true
	case p.state == modelFailed:
		return seckill.Outcome{Progress: seckill.Failed, Reason: p.reason}, true
	}
	return seckill.Outcome{Progress: seckill.Confirmed, Order: p.order}, true
}

// level leaves Returns out.
func (m *model) level(id seckill.RunID) (stock.Level, bool) {
	r := m.runs[id]
	if r == nil {
		return stock.Level{}, false
	}
	l := stock.Level{Epoch: r.spec.Epoch, Available: r.available}
	for _, p := range r.purchases {
		switch p.state {
		case modelQueued:
			l.Queued += int64(p.quantity)
		case int(seckill.AwaitingPayment):
			l.AwaitingPayment += int64(p.quantity)
		case int(seckill.Paid):
			l.Paid += int64(p.quantity)
		}
	}
	return l, true
}

// queued lists "ticket buyer quantity slot".
func (m *model) queued(id seckill.RunID) (list []string) {
	if r := m.runs[id]; r != nil {
		for _, p := range r.purchases {
			if p.state == modelQueued {
				list = append(list, fmt.Sprint(p.ticket, " ", p.buyer, " ", p.quantity, " ", p.slot))
			}
		}
	}
	return list
}

// waits lists what the outbox has to deliver: queued, and nobody took care of it.
func (m *model) waits() map[string]*modelPurchase {
	list := map[string]*modelPurchase{}
	for _, r := range m.runs {
		for _, p := range r.purchases {
			if p.state == modelQueued && !p.acked {
				list[p.ticket] = p
			}
		}
	}
	return list
}

// finished counts a buyer's purchases that are over. Drivers may forget old ones.
func (r *modelRun) finished(buyer string) (n int) {
	for _, p := range r.purchases {
		if p.buyer == buyer && !p.live() {
			n++
		}
	}
	return n
}
