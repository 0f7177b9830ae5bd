package embedded

import (
	"context"
	"errors"
	"fmt"

	"seckill"
	"seckill/stock"
)

// unitsMax bounds the units of a run, so that sums of them cannot overflow.
const unitsMax = 1 << 40

// Load implements [stock.Stock].
func (e *Engine) Load(ctx context.Context, spec stock.Spec) error {
	fresh, err := fromSpec(spec)
	if err != nil {
		return fmt.Errorf("load activity %d, run %d: %w", spec.Run.Activity, spec.Run.Run, err)
	}
	return e.change(ctx, func() (uint64, error) {
		s, old, lsn := e.lookup(spec.Run)
		if old != nil && old.epoch >= spec.Epoch {
			return lsn, nil
		}
		if s == nil {
			s = &stream{id: spec.Run}
			e.streams[spec.Run] = s
		}
		fresh.returns = 1
		if old != nil {
			fresh.returns = old.returns + 1
			old.vacate()
		}
		fresh.box = &e.outbox
		s.run = fresh
		e.append(s, func(b []byte, lsn uint64) []byte {
			for _, p := range fresh.tickets {
				p.lsn = lsn
			}
			s.entries += len(fresh.tickets)
			return encodeState(b, fresh, lsn, func(b []byte) []byte { return b })
		})
		e.tell(stock.Event{Kind: stock.EventRun, Run: spec.Run})
		e.tellUnits(s)
		return s.lsn, nil
	})
}

// fromSpec makes a run outside of the lock.
func fromSpec(spec stock.Spec) (*run, error) {
	switch {
	case spec.Run.Activity < 1 || spec.Run.Run < 1 || spec.Run.Run > 1<<31-1:
		return nil, fmt.Errorf("there is no such run")
	case spec.Epoch < 1:
		return nil, fmt.Errorf("epoch %d is below 1", spec.Epoch)
	case spec.Units < 0 || spec.Units > unitsMax:
		return nil, fmt.Errorf("%d units are not within 0 and %d", spec.Units, int64(unitsMax))
	case spec.Limit < 1 || spec.Limit > 1<<31-1:
		return nil, fmt.Errorf("limit %d per buyer is not within 1 and %d", spec.Limit, 1<<31-1)
	}
	r := newRun(spec.Run)
	r.epoch, r.limit, r.paused = spec.Epoch, spec.Limit, spec.Paused
	r.startsAt, r.endsAt = plain(spec.StartsAt), plain(spec.EndsAt)
	r.available = spec.Units
	for i := range spec.Held {
		if err := r.hold(&spec.Held[i]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// hold adds a live order that the run has already.
func (r *run) hold(o *seckill.Order) error {
	switch {
	case !o.State.Live():
		return nil // It holds nothing.
	case !seckill.ValidBuyer(o.Buyer) || o.Ticket == "" || r.tickets[o.Ticket] != nil:
		return fmt.Errorf("order %s: the ticket or the buyer cannot be", o.ID)
	case o.Quantity < 1 || o.Quantity > seckill.QuantityMax || o.Slot < 1 || o.Slot > seckill.QuantityMax:
		return fmt.Errorf("order %s: quantity %d or slot %d is out of bounds", o.ID, o.Quantity, o.Slot)
	}
	p := r.newPurchase(o.Ticket, o.Buyer, "")
	p.quantity, p.slot, p.state = int32(o.Quantity), int32(o.Slot), state(o.State)
	p.reservedMS = o.CreatedAt.UnixMilli()
	p.order = orderOf(p, r.id, o)
	r.add(p)
	return nil
}

// vacate takes the run's messages out of the outbox.
func (r *run) vacate() {
	for _, m := range r.messages {
		r.discard(m)
	}
}

// Control implements [stock.Stock]. A zero EndsAt leaves the end where it is.
func (e *Engine) Control(ctx context.Context, id seckill.RunID, c stock.Control) error {
	return e.change(ctx, func() (uint64, error) {
		s, r, lsn := e.lookup(id)
		if r == nil {
			return lsn, stock.ErrNotLoaded
		}
		endsAt := plain(c.EndsAt)
		if endsAt.IsZero() {
			endsAt = r.endsAt
		}
		if r.paused == c.Paused && r.endsAt.Equal(endsAt) {
			return lsn, nil
		}
		r.paused, r.endsAt = c.Paused, endsAt
		e.append(s, func(b []byte, lsn uint64) []byte { return encodeControl(b, lsn, r) })
		e.tell(stock.Event{Kind: stock.EventRun, Run: id})
		return s.lsn, nil
	})
}

// Restock implements [stock.Stock]. Ids are remembered as long as the run is.
func (e *Engine) Restock(ctx context.Context, id seckill.RunID, restock, units int64) (int64, error) {
	if units < -unitsMax || units > unitsMax {
		return 0, fmt.Errorf("restock %d: %d units are too many", restock, units)
	}
	var did int64
	err := e.change(ctx, func() (uint64, error) {
		s, r, lsn := e.lookup(id)
		if r == nil {
			return lsn, stock.ErrNotLoaded
		}
		if before, again := r.restocks[restock]; again {
			did = before
			return lsn, nil
		}
		did = max(units, -r.available)
		r.restock(restock, did)
		e.append(s, func(b []byte, lsn uint64) []byte { return encodeRestock(b, lsn, restock, did) })
		if did > 0 {
			e.tellUnits(s)
		}
		return s.lsn, nil
	})
	if err != nil {
		return 0, err
	}
	return did, nil
}

// Drop implements [stock.Stock].
func (e *Engine) Drop(ctx context.Context, id seckill.RunID) error {
	return e.change(ctx, func() (uint64, error) {
		s, r, lsn := e.lookup(id)
		if r == nil {
			return lsn, nil
		}
		r.vacate()
		s.run = nil
		e.append(s, encodeDrop)
		e.tell(stock.Event{Kind: stock.EventRun, Run: id})
		return s.lsn, nil
	})
}

// Bind implements [stock.Stock].
func (e *Engine) Bind(ctx context.Context, database string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if database == "" {
		return "", errors.New("bind the stock: the database has no identity")
	}
	// Not e.mu: nobody's purchase waits for this.
	e.bindMu.Lock()
	defer e.bindMu.Unlock()
	select {
	case <-e.closing:
		return "", ErrClosed
	default:
	}
	if e.bound == "" {
		bound, err := e.store.bind(database)
		if err != nil {
			return "", fmt.Errorf("bind the stock: %w", err)
		}
		e.bound = bound
	}
	return e.bound, nil
}

// Settle implements [stock.Stock].
func (e *Engine) Settle(ctx context.Context, settlements []stock.Settlement) (unknown []string, err error) {
	for i := range settlements {
		if err := checkSettlement(&settlements[i]); err != nil {
			return nil, fmt.Errorf("settlement of %s: %w", settlements[i].Ticket, err)
		}
	}
	err = e.change(ctx, func() (uint64, error) {
		var depends uint64
		for i := range settlements {
			known, lsn := e.settle(&settlements[i])
			if !known {
				unknown = append(unknown, settlements[i].Ticket)
			}
			depends = max(depends, lsn)
		}
		return depends, nil
	})
	if err != nil {
		return nil, err
	}
	return unknown, nil
}

func checkSettlement(s *stock.Settlement) error {
	switch {
	case s.Order == nil && int(s.Failed) >= seckill.Reasons:
		return fmt.Errorf("there is no reason %d", s.Failed)
	case s.Order != nil && (s.Order.State < seckill.AwaitingPayment || s.Order.State > seckill.Expired):
		return fmt.Errorf("there is no state %d of an order", s.Order.State)
	}
	return nil
}

// settle does one settlement, and tells what the answer depends on. The lock is held.
func (e *Engine) settle(what *stock.Settlement) (known bool, depends uint64) {
	s, r, lsn := e.lookup(what.Run)
	if r == nil {
		return false, lsn
	}
	p := r.tickets[what.Ticket]
	if p == nil || what.Buyer != "" && what.Buyer != p.buyer.id {
		return false, lsn
	}
	to := stateOf(what)
	if !to.follows(p.state) {
		return true, p.lsn
	}
	var order *seckill.Order
	var reason seckill.Reason
	if what.Order != nil {
		order = orderOf(p, r.id, what.Order)
	} else {
		reason = what.Failed
	}
	writtenOff := what.WrittenOff && !to.live()
	released := r.move(p, to, reason, order, writtenOff)
	e.append(s, func(b []byte, lsn uint64) []byte {
		p.lsn = lsn
		return encodeSettle(b, lsn, p, writtenOff)
	})
	e.tell(stock.Event{Kind: stock.EventSettled, Run: r.id, Ticket: p.ticket, Buyer: p.buyer.id, Released: released})
	if released {
		e.tellUnits(s)
	}
	return true, s.lsn
}
