package embedded

import (
	"context"
	"fmt"
	"strings"
	"time"

	"seckill"
	"seckill/stock"
)

// Reserve implements [stock.Stock]. A refusal that saw nothing but what is on disk
// answers at once.
func (e *Engine) Reserve(ctx context.Context, id seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
	for i := range attempts {
		if err := checkAttempt(&attempts[i]); err != nil {
			return nil, fmt.Errorf("attempt %d: %w", i+1, err)
		}
	}
	decisions := make([]stock.Decision, len(attempts))
	err := e.change(ctx, func() (uint64, error) {
		s, r, lsn := e.lookup(id)
		switch {
		case r == nil: // All are NotLoaded.
			return lsn, nil
		case r.epoch != epoch:
			for i := range decisions {
				decisions[i].Verdict = stock.Stale
			}
			return lsn, nil
		}
		e.decide(s, attempts, decisions)
		return s.lsn, nil
	})
	if err != nil {
		return nil, err
	}
	return decisions, nil
}

// checkAttempt refuses what the outbox could not carry.
func checkAttempt(a *seckill.Attempt) error {
	switch {
	case !seckill.ValidBuyer(a.Buyer):
		return fmt.Errorf("the buyer's id is not 1 to %d printable bytes", seckill.BuyerBytesMax)
	case a.Key != "" && !seckill.ValidKey(a.Key):
		return fmt.Errorf("the idempotency key is not 1 to %d printable bytes", seckill.KeyBytesMax)
	case a.Quantity < 1 || a.Quantity > seckill.QuantityMax:
		return fmt.Errorf("quantity %d is not within 1 and %d", a.Quantity, seckill.QuantityMax)
	}
	return nil
}

// decide answers the attempts in their order and logs what was taken. The lock is held.
func (e *Engine) decide(s *stream, attempts []seckill.Attempt, decisions []stock.Decision) {
	r := s.run
	now := e.now()
	closed := r.closed(now)
	var taken []*purchase
	for i := range attempts {
		a, d := &attempts[i], &decisions[i]
		d.Verdict = closed
		b := r.buyers[a.Buyer]
		if b == nil || !r.known(b, a, d) {
			r.refuse(b, a, d)
		}
		if d.Verdict == stock.Taken {
			p := r.newPurchase(a.Ticket, a.Buyer, a.Key)
			p.quantity, p.slot = int32(a.Quantity), p.buyer.freeSlot()
			p.reservedMS = now.UnixMilli()
			d.Ticket, d.Ahead = p.ticket, r.reservations
			r.take(p)
			if taken == nil {
				taken = make([]*purchase, 0, len(attempts)-i)
			}
			taken = append(taken, p)
		}
		d.Left = r.available
	}
	if len(taken) == 0 {
		return
	}
	atMS := now.UnixMilli()
	e.append(s, func(b []byte, lsn uint64) []byte {
		e.pending.messages = append(e.pending.messages, r.carry(lsn, atMS, taken))
		return encodeReserve(b, lsn, atMS, taken)
	})
}

// closed says why the run sells nothing now, or Taken.
func (r *run) closed(now time.Time) stock.Verdict {
	switch {
	case r.paused:
		return stock.Paused
	case now.Before(r.startsAt):
		return stock.NotStarted
	case !now.Before(r.endsAt):
		return stock.Ended
	}
	return stock.Taken
}

// known answers an attempt that was decided before.
func (r *run) known(b *buyer, a *seckill.Attempt, d *stock.Decision) bool {
	byTicket, byKey := b.find(a.Ticket, a.Key)
	p := byTicket
	switch {
	case byTicket != nil && byTicket.key != "" && byTicket.key != a.Key:
		d.Verdict = stock.Replayed
		return true
	case byTicket != nil && int(byTicket.quantity) != a.Quantity:
		d.Verdict = stock.KeyMismatch
		return true
	case byTicket != nil:
	case byKey == nil:
		return false
	case int(byKey.quantity) != a.Quantity:
		d.Verdict = stock.KeyMismatch
		return true
	default:
		p = byKey
	}
	d.Verdict, d.Ticket, d.Ahead = stock.Known, p.ticket, r.ahead(p)
	return true
}

// refuse turns Taken into what speaks against it: first the buyer, then the units.
func (r *run) refuse(b *buyer, a *seckill.Attempt, d *stock.Decision) {
	if d.Verdict != stock.Taken {
		return
	}
	var held int64
	if b != nil {
		held = b.held
	}
	switch {
	case held+int64(a.Quantity) > int64(r.limit):
		d.Verdict = stock.OverLimit
		if b != nil {
			d.Ticket = b.latest()
		}
	case int64(a.Quantity) > r.available:
		d.Verdict = stock.Short
	case !r.names(a.Ticket) || r.tickets[a.Ticket] != nil:
		// Nobody makes such a ticket by mistake; the outbox could not carry it.
		d.Verdict = stock.KeyMismatch
	default:
		d.Verdict = stock.Taken
	}
}

// names tells whether a ticket is one of this run.
func (r *run) names(ticket string) bool {
	id, ok := seckill.TicketRun(ticket)
	return ok && id == r.id && strings.IndexFunc(ticket, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}
