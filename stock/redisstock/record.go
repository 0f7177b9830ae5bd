package redisstock

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill"
)

// States of a purchase in a record. Between them are those of orders, by their numbers.
const (
	stateQueued = '0'
	stateFailed = '5'
	stateBehind = '6' // Queued, but its message is out of the outbox.
)

// purchase is one line of a buyer's record; see record.lua.
type purchase struct {
	own            string // Of the ticket.
	state          byte
	quantity, slot int
	position       int64 // When queued; see record.lua.
	rest           string
}

var errRecord = errors.New("a buyer's record makes no sense")

// find returns the purchase of a ticket out of a record.
func find(record, own string) (purchase, bool, error) {
	for line := range strings.SplitSeq(record, "\n") {
		if !strings.HasPrefix(line, own) {
			continue
		}
		name, tail, ok := strings.Cut(line, " ")
		if !ok || tail == "" {
			return purchase{}, false, errRecord
		}
		p := purchase{state: tail[0], rest: tail[1:]}
		var err error
		if p.own, p.quantity, p.slot, err = parseToken(name); err != nil {
			return purchase{}, false, err
		}
		if p.state == stateQueued || p.state == stateBehind {
			if p.position, err = strconv.ParseInt(p.rest, 10, 64); err != nil {
				return purchase{}, false, errRecord
			}
		}
		return p, true, nil
	}
	return purchase{}, false, nil
}

// recordOf is a record of purchases that a load brings.
func recordOf(orders []*seckill.Order) string {
	var b strings.Builder
	for _, o := range slices.Backward(orders) { // The latest first.
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(o.Ticket[len(o.Ticket)-ticketBytes:])
		if o.Quantity != 1 {
			fmt.Fprintf(&b, "%d:", o.Quantity)
		}
		if o.Slot != 1 {
			fmt.Fprintf(&b, "/%d", o.Slot)
		}
		fmt.Fprintf(&b, " %d%s", o.State, encodeOrder(o))
	}
	return b.String()
}

// outcome is what a buyer may know of a purchase.
func (p *purchase) outcome(run seckill.RunID, buyer string) (seckill.Outcome, error) {
	switch p.state {
	case stateQueued, stateBehind:
		return seckill.Outcome{Progress: seckill.Queued}, nil
	case stateFailed:
		n, err := strconv.Atoi(p.rest)
		if err != nil || n < 0 || n >= seckill.Reasons {
			return seckill.Outcome{}, errRecord
		}
		return seckill.Outcome{Progress: seckill.Failed, Reason: seckill.Reason(n)}, nil
	}
	o, err := decodeOrder(p.rest)
	if err != nil {
		return seckill.Outcome{}, err
	}
	o.Ticket, o.Run, o.Buyer = long(run, p.own), run, buyer
	o.Quantity, o.Slot, o.State = p.quantity, p.slot, seckill.OrderState(p.state-'0')
	return seckill.Outcome{Progress: seckill.Confirmed, Order: o}, nil
}

// encodeOrder writes what the purchase itself does not say of an order, without a space:
// id, amount, created, pay before, payment reference.
func encodeOrder(o *seckill.Order) string {
	b := make([]byte, 0, 64)
	b = append(b, url.QueryEscape(o.ID)...)
	b = strconv.AppendInt(append(b, ','), o.AmountCents, 10)
	b = appendTime(append(b, ','), o.CreatedAt)
	b = appendTime(append(b, ','), o.PayBefore)
	b = append(append(b, ','), url.QueryEscape(o.PaymentRef)...)
	return string(b)
}

func decodeOrder(s string) (*seckill.Order, error) {
	fields := strings.Split(s, ",")
	if len(fields) != 5 {
		return nil, errRecord
	}
	o := &seckill.Order{}
	var errs [5]error
	o.ID, errs[0] = url.QueryUnescape(fields[0])
	o.AmountCents, errs[1] = strconv.ParseInt(fields[1], 10, 64)
	o.CreatedAt, errs[2] = parseTime(fields[2])
	o.PayBefore, errs[3] = parseTime(fields[3])
	o.PaymentRef, errs[4] = url.QueryUnescape(fields[4])
	if errors.Join(errs[:]...) != nil {
		return nil, errRecord
	}
	return o, nil
}

// appendTime writes seconds and, if there are any, nanoseconds, in base 36; nothing for
// the zero time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	b = strconv.AppendInt(b, t.Unix(), 36)
	if ns := t.Nanosecond(); ns != 0 {
		b = strconv.AppendInt(append(b, '.'), int64(ns), 36)
	}
	return b
}

func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	whole, part, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 36, 64)
	if err != nil {
		return time.Time{}, err
	}
	var ns int64
	if part != "" {
		if ns, err = strconv.ParseInt(part, 36, 64); err != nil || ns < 0 || ns >= 1e9 {
			return time.Time{}, errRecord
		}
	}
	return time.Unix(sec, ns).UTC(), nil
}
