package embedded

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"seckill"
)

// The entries of a run, written and read. What is written here by an encode
// function is read by the method of replay that stands below it.

// replay brings a run back from rows.
type replay struct {
	id   seckill.RunID
	run  *run   // Nil while it is not there.
	lsn  uint64 // Of the last entry.
	prev uint64 // The last row of the log.
	open bool   // A kindState was last, or a purchase of it: more may follow.
	last uint64 // Position of that purchase.
}

// part reads part n of the snapshot that ends with entry seq. The snapshot of nothing
// has one part of no bytes.
func (rp *replay) part(n int, seq uint64, row []byte) error {
	if len(row) == 0 {
		rp.prev, rp.lsn = seq, seq
		return nil
	}
	err := readRow(row, func(h header) error {
		if h.run != rp.id || h.prev != uint64(n) {
			return fmt.Errorf("%w: part %d of a snapshot is not in its place", errDamaged, n)
		}
		return nil
	}, rp.entry)
	if err != nil {
		return err
	}
	rp.prev, rp.lsn = seq, seq
	return nil
}

// row reads the next row of the log, which ends with entry seq.
func (rp *replay) row(seq uint64, row []byte) error {
	err := readRow(row, func(h header) error {
		if h.run != rp.id {
			return fmt.Errorf("%w: a row of another run", errDamaged)
		}
		// A run that was dropped and is loaded again begins anew.
		if h.prev != rp.prev && (h.prev != 0 || rp.run != nil) {
			return fmt.Errorf("%w: row %d is missing", errDamaged, h.prev)
		}
		return nil
	}, func(k kind, lsn uint64, d *decoder) error {
		// The purchases of a load are under the number of the load.
		if lsn <= rp.lsn && (k != kindPurchase || lsn != rp.lsn) || lsn > seq {
			return fmt.Errorf("%w: entry %d is out of order", errDamaged, lsn)
		}
		rp.lsn = lsn
		return rp.entry(k, lsn, d)
	})
	if err != nil {
		return err
	}
	rp.open = false
	rp.prev, rp.lsn = seq, seq
	return nil
}

func (rp *replay) entry(k kind, lsn uint64, d *decoder) error {
	rp.open = rp.open && k == kindPurchase
	if rp.run == nil && k != kindState && k != kindDrop {
		return fmt.Errorf("%w: the run is not there", errDamaged)
	}
	switch k {
	case kindState:
		return rp.state(d)
	case kindPurchase:
		return rp.purchase(lsn, d)
	case kindReserve:
		return rp.reserve(lsn, d)
	case kindSettle:
		return rp.settle(lsn, d)
	case kindRestock:
		id, did := d.varint(), d.within(-unitsMax, unitsMax)
		if _, again := rp.run.restocks[id]; again || rp.run.available+did < 0 {
			return fmt.Errorf("%w: restock %d makes no sense", errDamaged, id)
		}
		rp.run.restock(id, did)
	case kindControl:
		rp.run.paused, rp.run.endsAt = d.bool(), d.time()
	case kindDrop:
		rp.run = nil
	case kindAck:
		if m := rp.run.messages[d.uvarint()]; m != nil {
			rp.run.discard(m)
		}
	default:
		return fmt.Errorf("%w: no such kind of entry", errDamaged)
	}
	return nil
}

// encodeState writes a whole run: its state, and each purchase in the order of their
// positions. A load has one sequence number for all of it; in a snapshot each
// purchase has its own. After each entry, added may put the bytes somewhere and go on
// with others.
func encodeState(b []byte, r *run, lsn uint64, added func(b []byte) []byte) []byte {
	b, start := begin(b, kindState, lsn)
	b = binary.AppendVarint(b, r.epoch)
	b = binary.AppendVarint(b, int64(r.limit))
	b = appendTime(appendTime(b, r.startsAt), r.endsAt)
	b = appendBool(b, r.paused)
	b = binary.AppendVarint(b, r.available)
	b = binary.AppendUvarint(b, r.returns)
	b = binary.AppendUvarint(b, r.positions)
	b = binary.AppendUvarint(b, uint64(len(r.restocks)))
	for _, id := range slices.Sorted(maps.Keys(r.restocks)) {
		b = binary.AppendVarint(binary.AppendVarint(b, id), r.restocks[id])
	}
	finish(b, start)
	b = added(b)
	for _, p := range r.inOrder() {
		b = added(encodePurchase(b, p))
	}
	return b
}

// inOrder lists the purchases by position.
func (r *run) inOrder() []*purchase {
	return slices.SortedFunc(maps.Values(r.tickets), func(a, b *purchase) int { return cmp.Compare(a.position, b.position) })
}

func (rp *replay) state(d *decoder) error {
	r := newRun(rp.id)
	r.epoch = d.within(1, math.MaxInt64)
	r.limit = int(d.within(1, math.MaxInt32))
	r.startsAt, r.endsAt = d.time(), d.time()
	r.paused = d.bool()
	r.available = d.within(0, math.MaxInt64/2)
	r.returns = d.uvarint()
	positions := d.uvarint()
	for range d.count() {
		id := d.varint()
		r.restocks[id] = d.varint()
	}
	if d.bad {
		return d.end()
	}
	rp.run, rp.open, rp.last = r, true, 0
	r.positions = positions
	return nil
}

func encodePurchase(b []byte, p *purchase) []byte {
	b, start := begin(b, kindPurchase, p.lsn)
	b = appendString(appendString(appendString(b, p.ticket), p.buyer.id), p.key)
	b = binary.AppendVarint(binary.AppendVarint(b, int64(p.quantity)), int64(p.slot))
	b = binary.AppendUvarint(b, p.position)
	b = binary.AppendVarint(b, p.reservedMS)
	b = append(b, byte(p.state), byte(p.reason))
	b = encodeOrder(b, p.order)
	if p.message != nil {
		b = binary.AppendUvarint(b, p.message.lsn)
	} else {
		b = binary.AppendUvarint(b, 0)
	}
	finish(b, start)
	return b
}

func (rp *replay) purchase(lsn uint64, d *decoder) error {
	if !rp.open {
		return fmt.Errorf("%w: a purchase without its run", errDamaged)
	}
	r := rp.run
	ticket, buyerID, key := d.string(), d.string(), d.string()
	quantity, slot := d.within(1, seckill.QuantityMax), d.within(1, seckill.QuantityMax)
	position, reservedMS := d.uvarint(), d.varint()
	st, reason := state(d.byte()), seckill.Reason(d.byte())
	hasOrder := st != queued && st != failed
	order := decodeOrder(d, hasOrder)
	carrier := d.uvarint()
	if d.bad || r.tickets[ticket] != nil || st > stateMax || int(reason) >= seckill.Reasons ||
		position <= rp.last || position > r.positions || carrier != 0 && st != queued {
		return fmt.Errorf("%w: a purchase makes no sense", errDamaged)
	}
	p := r.newPurchase(ticket, buyerID, key)
	p.quantity, p.slot, p.position, p.reservedMS = int32(quantity), int32(slot), position, reservedMS
	p.state, p.reason, p.lsn = st, reason, lsn
	if hasOrder {
		order.State = seckill.OrderState(st)
		p.order = orderOf(p, r.id, order)
	}
	r.place(p)
	rp.last = position
	if carrier == 0 {
		return nil
	}
	m := r.messages[carrier]
	if m == nil {
		m = &message{lsn: carrier, run: r.id, atMS: reservedMS}
		r.messages[carrier] = m
	}
	m.purchases = append(m.purchases, p)
	m.left++
	p.message = m
	return nil
}

func encodeReserve(b []byte, lsn uint64, atMS int64, taken []*purchase) []byte {
	b, start := begin(b, kindReserve, lsn)
	b = binary.AppendVarint(b, atMS)
	b = binary.AppendUvarint(b, uint64(len(taken)))
	for _, p := range taken {
		b = appendString(appendString(appendString(b, p.ticket), p.buyer.id), p.key)
		b = binary.AppendVarint(binary.AppendVarint(b, int64(p.quantity)), int64(p.slot))
	}
	finish(b, start)
	return b
}

func (rp *replay) reserve(lsn uint64, d *decoder) error {
	r, atMS, n := rp.run, d.varint(), d.count()
	taken := make([]*purchase, 0, min(n, len(d.b)/5+1))
	for range n {
		ticket, buyerID, key := d.string(), d.string(), d.string()
		quantity, slot := d.within(1, seckill.QuantityMax), d.within(1, seckill.QuantityMax)
		if d.bad || r.tickets[ticket] != nil || r.available < quantity {
			return fmt.Errorf("%w: a reservation makes no sense", errDamaged)
		}
		p := r.newPurchase(ticket, buyerID, key)
		p.quantity, p.slot, p.reservedMS = int32(quantity), int32(slot), atMS
		r.take(p)
		taken = append(taken, p)
	}
	if len(taken) > 0 {
		r.carry(lsn, atMS, taken)
	}
	return nil
}

func encodeSettle(b []byte, lsn uint64, p *purchase, writtenOff bool) []byte {
	b, start := begin(b, kindSettle, lsn)
	b = appendString(b, p.ticket)
	b = append(b, byte(p.state), byte(p.reason))
	b = appendBool(b, writtenOff)
	b = encodeOrder(b, p.order)
	finish(b, start)
	return b
}

func (rp *replay) settle(lsn uint64, d *decoder) error {
	r, ticket := rp.run, d.string()
	to, reason, writtenOff := state(d.byte()), seckill.Reason(d.byte()), d.bool()
	hasOrder := to != failed
	order := decodeOrder(d, hasOrder)
	p := r.tickets[ticket]
	if d.bad || p == nil || to > stateMax || int(reason) >= seckill.Reasons || !to.follows(p.state) {
		return fmt.Errorf("%w: a settlement makes no sense", errDamaged)
	}
	if hasOrder {
		order.State = seckill.OrderState(to)
		order = orderOf(p, r.id, order)
	}
	p.lsn = lsn
	r.move(p, to, reason, order, writtenOff)
	return nil
}

// encodeOrder writes what a purchase does not know of its order; nothing if there is none.
func encodeOrder(b []byte, o *seckill.Order) []byte {
	if o == nil {
		return b
	}
	b = binary.AppendVarint(appendString(b, o.ID), o.AmountCents)
	return appendTime(appendTime(appendString(b, o.PaymentRef), o.CreatedAt), o.PayBefore)
}

func decodeOrder(d *decoder, there bool) *seckill.Order {
	if !there {
		return nil
	}
	return &seckill.Order{
		ID: d.string(), AmountCents: d.varint(), PaymentRef: d.string(),
		CreatedAt: d.time(), PayBefore: d.time(),
	}
}

func encodeRestock(b []byte, lsn uint64, id, did int64) []byte {
	b, start := begin(b, kindRestock, lsn)
	b = binary.AppendVarint(binary.AppendVarint(b, id), did)
	finish(b, start)
	return b
}

func encodeControl(b []byte, lsn uint64, r *run) []byte {
	b, start := begin(b, kindControl, lsn)
	b = appendTime(appendBool(b, r.paused), r.endsAt)
	finish(b, start)
	return b
}

func encodeDrop(b []byte, lsn uint64) []byte {
	b, start := begin(b, kindDrop, lsn)
	finish(b, start)
	return b
}

func encodeAck(b []byte, lsn, carrier uint64) []byte {
	b, start := begin(b, kindAck, lsn)
	b = binary.AppendUvarint(b, carrier)
	finish(b, start)
	return b
}
