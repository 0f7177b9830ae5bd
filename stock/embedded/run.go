package embedded

import (
	"math/bits"
	"time"

	"seckill"
	"seckill/stock"
)

// run is one run in memory. Its methods change memory only; they are what both a
// live decision and the replay of the log go through.
type run struct {
	id       seckill.RunID
	epoch    int64
	limit    int
	startsAt time.Time
	endsAt   time.Time
	paused   bool

	available, queued, awaiting, paid int64 // Units.

	returns  uint64
	buyers   map[string]*buyer
	tickets  map[string]*purchase
	restocks map[int64]int64     // Id to what was done. As many as operators ask for.
	messages map[uint64]*message // What the outbox holds of the run.

	positions    uint64    // Position of the latest purchase.
	head, tail   *purchase // Those that are queued, oldest first.
	reservations int64     // How many those are.

	box *outbox // Nil while the log is replayed.
}

// buyer is what a run knows of one buyer. There is none for buyers who got nothing.
type buyer struct {
	id       string
	held     int64     // Units of live purchases.
	finished int       // Purchases that are not live.
	newest   *purchase // Latest reserved first.
}

// purchase is a reservation and what became of it. Ticket, key, quantity, slot,
// time and buyer never change, and may be read without the lock.
type purchase struct {
	ticket, key string
	buyer       *buyer
	older       *purchase // The buyer's one before.
	prev, next  *purchase // In the queue.
	message     *message  // The one that carries it, while the outbox holds that.
	order       *seckill.Order
	lsn         uint64 // Entry that changed it last.
	position    uint64
	reservedMS  int64
	quantity    int32
	slot        int32
	state       state
	reason      seckill.Reason
}

// state of a purchase. The numbers are stored.
type state uint8

const (
	queued    state = 0
	awaiting  state = state(seckill.AwaitingPayment)
	paid      state = state(seckill.Paid)
	cancelled state = state(seckill.Cancelled)
	expired   state = state(seckill.Expired)
	failed    state = 5
	stateMax        = failed
)

func (s state) live() bool { return s == queued || s == awaiting || s == paid }

// follows tells whether the state comes after another. Nothing comes after a paid,
// cancelled, expired or failed one, and what has an order has not failed.
func (s state) follows(from state) bool {
	return from == queued && s != queued || from == awaiting && s != queued && s != awaiting && s != failed
}

// stateOf is the state that a settlement asks for.
func stateOf(s *stock.Settlement) state {
	if s.Order == nil {
		return failed
	}
	return state(s.Order.State)
}

func newRun(id seckill.RunID) *run {
	return &run{
		id: id, buyers: map[string]*buyer{}, tickets: map[string]*purchase{},
		restocks: map[int64]int64{}, messages: map[uint64]*message{},
	}
}

// newPurchase copies the strings, in one piece: the caller's may be views of a buffer.
func (r *run) newPurchase(ticket, buyerID, key string) *purchase {
	p := &purchase{}
	b := r.buyers[buyerID]
	if b != nil {
		text := ticket + key
		p.ticket, p.key = text[:len(ticket)], text[len(ticket):]
	} else {
		text := ticket + buyerID + key
		b = &buyer{id: text[len(ticket) : len(ticket)+len(buyerID)]}
		p.ticket, p.key = text[:len(ticket)], text[len(ticket)+len(buyerID):]
		r.buyers[b.id] = b
	}
	p.buyer = b
	return p
}

// add puts a new purchase in its place. Units available are not touched.
func (r *run) add(p *purchase) {
	r.positions++
	p.position = r.positions
	r.place(p)
}

// place puts a purchase in its place, as the latest of its run and of its buyer.
func (r *run) place(p *purchase) {
	r.tickets[p.ticket] = p
	p.older, p.buyer.newest = p.buyer.newest, p
	if p.state.live() {
		p.buyer.held += int64(p.quantity)
	} else {
		p.buyer.finished++
	}
	r.count(p, 1)
	if p.state == queued {
		p.prev = r.tail
		if r.tail != nil {
			r.tail.next = p
		} else {
			r.head = p
		}
		r.tail = p
		r.reservations++
	}
}

// count adds the units of a purchase to where they are, or takes them away.
func (r *run) count(p *purchase, sign int64) {
	units := sign * int64(p.quantity)
	switch p.state {
	case queued:
		r.queued += units
	case awaiting:
		r.awaiting += units
	case paid:
		r.paid += units
	}
}

// take is add for a new reservation, whose units leave the available ones.
func (r *run) take(p *purchase) {
	r.available -= int64(p.quantity)
	r.add(p)
}

// move brings a purchase into a state that follows its own, and tells whether units
// became available.
func (r *run) move(p *purchase, to state, reason seckill.Reason, order *seckill.Order, writtenOff bool) (released bool) {
	if p.state == queued {
		r.dequeue(p)
	}
	r.count(p, -1)
	p.state, p.reason, p.order = to, reason, order
	r.count(p, 1)
	if to.live() {
		return false
	}
	b := p.buyer
	b.held -= int64(p.quantity)
	b.finished++
	if !writtenOff {
		r.available += int64(p.quantity)
		r.returns++
	}
	if b.finished > FinishedMax {
		r.forgetOldest(b)
	}
	return !writtenOff
}

// restock changes the available units, under an id that is new.
func (r *run) restock(id, units int64) {
	r.restocks[id] = units
	r.available += units
	if units > 0 {
		r.returns++
	}
}

func (r *run) dequeue(p *purchase) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		r.head = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		r.tail = p.prev
	}
	p.prev, p.next = nil, nil
	r.reservations--
	if m := p.message; m != nil {
		p.message = nil
		m.left--
		r.box.less(m, 1)
		if m.left == 0 {
			r.discard(m)
		}
	}
}

// carry makes the message of reservations that were taken together.
func (r *run) carry(lsn uint64, atMS int64, taken []*purchase) *message {
	m := &message{lsn: lsn, run: r.id, atMS: atMS, purchases: taken, left: len(taken)}
	for _, p := range taken {
		p.message, p.lsn = m, lsn
	}
	r.messages[lsn] = m
	return m
}

// discard takes a message out of the outbox. Whatever still holds it sees that it is gone.
func (r *run) discard(m *message) {
	delete(r.messages, m.lsn)
	r.box.less(m, m.left)
	for _, p := range m.purchases {
		if p.message == m {
			p.message = nil
		}
	}
	m.left, m.gone = 0, true
	r.box.trim(m)
}

// forgetOldest drops the buyer's finished purchase that was reserved first.
func (r *run) forgetOldest(b *buyer) {
	var link, oldest **purchase
	for link = &b.newest; *link != nil; link = &(*link).older {
		if !(*link).state.live() {
			oldest = link
		}
	}
	delete(r.tickets, (*oldest).ticket)
	*oldest = (*oldest).older
	b.finished--
}

// find returns the buyer's purchase of a ticket or of a key.
func (b *buyer) find(ticket, key string) (byTicket, byKey *purchase) {
	for p := b.newest; p != nil; p = p.older {
		if p.ticket == ticket {
			return p, nil
		}
		if byKey == nil && key != "" && p.key == key {
			byKey = p
		}
	}
	return nil, byKey
}

// latest is the ticket that the buyer holds units by, the latest of several.
func (b *buyer) latest() string {
	for p := b.newest; p != nil; p = p.older {
		if p.state.live() {
			return p.ticket
		}
	}
	return ""
}

// freeSlot is the lowest number from 1 that no live purchase of the buyer has.
func (b *buyer) freeSlot() int32 {
	var low uint64 // Slots 1 to 64.
	live := 0
	for p := b.newest; p != nil; p = p.older {
		if p.state.live() {
			live++
			if p.slot <= 64 {
				low |= 1 << (p.slot - 1)
			}
		}
	}
	if low != 1<<64-1 {
		return int32(bits.TrailingZeros64(^low)) + 1
	}
	used := make([]bool, live+2)
	for p := b.newest; p != nil; p = p.older {
		if p.state.live() && int(p.slot) < len(used) {
			used[p.slot] = true
		}
	}
	slot := int32(1)
	for used[slot] {
		slot++
	}
	return slot
}

// ahead is how many reservations are in front of this one: exact while they are
// settled in their order, and never too low.
func (r *run) ahead(p *purchase) int64 {
	if p.state != queued {
		return 0
	}
	return min(int64(p.position-r.head.position), r.reservations-1)
}

func (p *purchase) reservation(id seckill.RunID) seckill.Reservation {
	return seckill.Reservation{
		Ticket: p.ticket, Run: id, Buyer: p.buyer.id, Quantity: int(p.quantity), Slot: int(p.slot),
		ReservedAt: time.UnixMilli(p.reservedMS).UTC(),
	}
}

func (r *run) outcome(p *purchase) seckill.Outcome {
	switch p.state {
	case queued:
		return seckill.Outcome{Progress: seckill.Queued, Ahead: r.ahead(p)}
	case failed:
		return seckill.Outcome{Progress: seckill.Failed, Reason: p.reason}
	}
	order := *p.order
	return seckill.Outcome{Progress: seckill.Confirmed, Order: &order}
}

func (r *run) level() stock.Level {
	return stock.Level{
		Epoch: r.epoch, Available: r.available, Queued: r.queued,
		AwaitingPayment: r.awaiting, Paid: r.paid, Returns: r.returns,
	}
}

// orderOf copies an order as the purchase's own: what both know is the purchase's,
// and times are as they come back from the log.
func orderOf(p *purchase, id seckill.RunID, o *seckill.Order) *seckill.Order {
	return &seckill.Order{
		ID: o.ID, Ticket: p.ticket, Run: id, Buyer: p.buyer.id, Quantity: int(p.quantity), Slot: int(p.slot),
		AmountCents: o.AmountCents, State: o.State, PaymentRef: o.PaymentRef,
		CreatedAt: plain(o.CreatedAt), PayBefore: plain(o.PayBefore),
	}
}

// plain is a time without a place and without the monotonic clock.
func plain(t time.Time) time.Time { return t.UTC().Round(0) }
