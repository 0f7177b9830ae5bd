package embedded

import (
	"context"

	"seckill"
	"seckill/stock"
)

// Outcome implements [stock.Stock].
func (e *Engine) Outcome(ctx context.Context, buyer, ticket string) (o seckill.Outcome, err error) {
	id, ok := seckill.TicketRun(ticket)
	if !ok {
		return o, seckill.ErrNotFound
	}
	err = e.read(ctx, func() (uint64, error) {
		_, r, lsn := e.lookup(id)
		if r == nil {
			return lsn, seckill.ErrNotFound
		}
		p := r.tickets[ticket]
		if p == nil || p.buyer.id != buyer {
			return lsn, seckill.ErrNotFound
		}
		o = r.outcome(p)
		return p.lsn, nil
	})
	if err != nil {
		return seckill.Outcome{}, err
	}
	return o, nil
}

// Level implements [stock.Stock].
func (e *Engine) Level(ctx context.Context, id seckill.RunID) (l stock.Level, err error) {
	err = e.read(ctx, func() (uint64, error) {
		_, r, lsn := e.lookup(id)
		if r == nil {
			return lsn, stock.ErrNotLoaded
		}
		l = r.level()
		return lsn, nil
	})
	if err != nil {
		return stock.Level{}, err
	}
	return l, nil
}

// Queued implements [stock.Stock]. If the ticket to go on after is not known any more
// it begins anew, so that none is left out.
func (e *Engine) Queued(ctx context.Context, id seckill.RunID, after string, limit int) (list []seckill.Reservation, err error) {
	err = e.read(ctx, func() (uint64, error) {
		_, r, lsn := e.lookup(id)
		if r == nil {
			return lsn, stock.ErrNotLoaded
		}
		for p := r.queuedAfter(after); p != nil && len(list) < limit; p = p.next {
			list = append(list, p.reservation(id))
		}
		return lsn, nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// queuedAfter is the first queued purchase that comes after a ticket.
func (r *run) queuedAfter(ticket string) *purchase {
	last := r.tickets[ticket]
	switch {
	case last == nil:
		return r.head
	case last.state == queued:
		return last.next
	}
	p := r.head
	for p != nil && p.position < last.position {
		p = p.next
	}
	return p
}
