package redisstock

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"seckill"
	"seckill/stock"
)

// Answers of reserve.lua.
const (
	reserveNotLoaded = iota
	reserveStale
	reserveOtherSplit
	reserveDecided
)

// undecided stands in the answer of reserve.lua for an attempt that was left out.
const undecided = '.'

// errOtherSplit says that a run is not split as it was thought to be.
var errOtherSplit = errors.New("the run is split in another way")

// Reserve implements [stock.Stock]. With sub-stocks it may answer [stock.Unknown] to
// some of the attempts and decide others: one part of a cluster may fail, and units may be
// on their way for longer than ctx lasts.
func (s *Stock) Reserve(ctx context.Context, run seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
	for i := range attempts {
		if err := checkAttempt(&attempts[i]); err != nil {
			return nil, fmt.Errorf("attempt %d: %w", i+1, err)
		}
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	for try := 1; ; try++ {
		sp, err := s.split(ctx, run)
		if err == nil && sp.epoch != epoch {
			sp, err = s.learn(ctx, run)
		}
		switch {
		case errors.Is(err, stock.ErrNotLoaded):
			return allOf(stock.NotLoaded, len(attempts)), nil
		case err != nil:
			return nil, err
		case sp.epoch != epoch:
			return allOf(stock.Stale, len(attempts)), nil
		}
		b := &batch{s: s, sp: sp, attempts: attempts, decisions: make([]stock.Decision, len(attempts))}
		if sp.subs == 1 {
			err = b.alone(ctx)
		} else {
			err = b.spread(ctx)
		}
		if errors.Is(err, errOtherSplit) && try < 3 {
			s.known.forget(run)
			continue
		}
		if err != nil {
			return nil, err
		}
		return b.decisions, nil
	}
}

func allOf(v stock.Verdict, n int) []stock.Decision {
	decisions := make([]stock.Decision, n)
	for i := range decisions {
		decisions[i].Verdict = v
	}
	return decisions
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

// batch is one call of Reserve.
type batch struct {
	s         *Stock
	sp        *split
	attempts  []seckill.Attempt
	decisions []stock.Decision
	id        int64 // Of this call in this process, if the run is split.
}

// alone decides on a stock that is not split.
func (b *batch) alone(ctx context.Context) error {
	for from := 0; from < len(b.attempts); from += attemptsMax {
		at := make([]int, min(attemptsMax, len(b.attempts)-from))
		for i := range at {
			at[i] = from + i
		}
		_, errs := b.ask(ctx, []part{{0, at}}, false)
		if errs[0] != nil {
			return errs[0]
		}
		_, total := b.sp.units()
		b.left(at, total)
	}
	return nil
}

// left fills in how many units there were after each of some decisions, given how many
// there are after the last.
func (b *batch) left(decided []int, units int64) {
	for _, i := range slices.Backward(decided) {
		d := &b.decisions[i]
		if d.Verdict == stock.NotLoaded || d.Verdict == stock.Stale {
			continue
		}
		d.Left = max(units, 0)
		if d.Verdict == stock.Taken {
			units += int64(b.attempts[i].Quantity)
		}
	}
}

// part is those attempts of buyers of one sub-stock, at most attemptsMax.
type part struct {
	sub int
	at  []int // Indexes into the batch, in order.
}

// ask puts attempts to their sub-stocks, and notes the decisions. It returns those that were
// left out, if stop asks for leaving out what comes after one that is short, and an error
// or nil for each group.
func (b *batch) ask(ctx context.Context, groups []part, stop bool) (out []int, errs []error) {
	errs = make([]error, len(groups))
	note := func(i int, d decided, err error) {
		if err == nil {
			var rest []int
			rest, err = b.read(groups[i], d)
			out = append(out, rest...)
		}
		errs[i] = err
	}
	if b.sp.subs == 1 {
		calls := make([]call, len(groups))
		for i, g := range groups {
			buyers, tokens := copyOf(b.sp.run, b.attempts, g.at)
			calls[i] = b.s.reserveCall(b.lane(g), buyers, tokens, "-", stop)
		}
		for i, a := range b.s.doAll(ctx, calls) {
			d, err := readDecided(a, len(groups[i].at))
			note(i, d, err)
		}
		return out, errs
	}
	waiters := make([]*waiter, len(groups))
	for i, g := range groups {
		w := &waiter{ctx: ctx, stop: stop, done: make(chan struct{})}
		w.buyers, w.tokens = copyOf(b.sp.run, b.attempts, g.at)
		w.places = string(appendPlaces(nil, b.id, g.at))
		if errs[i] = b.s.submit(b.lane(g), w); errs[i] == nil {
			waiters[i] = w
		}
	}
	for i, w := range waiters {
		if w == nil {
			continue
		}
		select {
		case <-w.done:
			note(i, w.decided, w.err)
			continue
		default:
		}
		select {
		case <-w.done:
			note(i, w.decided, w.err)
		case <-ctx.Done():
			errs[i] = fmt.Errorf("%w: %w", errSlow, context.Cause(ctx))
		}
	}
	return out, errs
}

func (b *batch) lane(g part) laneKey {
	return laneKey{place{b.sp.run, g.sub}, b.sp.subs, b.sp.epoch, b.sp.kindOf(g.sub)}
}

const (
	ticketBytes  = 20 // Of a ticket, those that are not the same for the whole run.
	foreign      = "????????????????????"
	digestLength = 8
)

// token writes an attempt as the scripts take it; see record.lua.
func token(run seckill.RunID, a *seckill.Attempt) string {
	own := short(run, a.Ticket)
	if a.Quantity == 1 && a.Key == "" && own != foreign {
		return strings.Clone(own)
	}
	text := make([]byte, 0, ticketBytes+8+1+digestLength)
	text = append(text, own...)
	text = strconv.AppendInt(text, int64(a.Quantity), 10)
	text = append(text, ':')
	if a.Key != "" {
		text = append(text, digest(a.Key)...)
	}
	return string(text)
}

// parseToken reads the ticket's own part, the quantity and the slot.
func parseToken(s string) (own string, quantity, slot int, err error) {
	if len(s) < ticketBytes {
		return "", 0, 0, errRecord
	}
	own, s = s[:ticketBytes], s[ticketBytes:]
	quantity, slot = 1, 1
	first, last, hasSlot := strings.Cut(s, "/")
	if hasSlot {
		if slot, err = strconv.Atoi(last); err != nil {
			return "", 0, 0, errRecord
		}
	}
	if units, _, keyed := strings.Cut(first, ":"); keyed {
		if quantity, err = strconv.Atoi(units); err != nil {
			return "", 0, 0, errRecord
		}
	} else if first != "" {
		return "", 0, 0, errRecord
	}
	return own, quantity, slot, nil
}

// short is the part of a ticket that is its own, or foreign if it is not one of the run.
func short(run seckill.RunID, ticket string) string {
	id, ok := seckill.TicketRun(ticket)
	if !ok || id != run {
		return foreign
	}
	own := ticket[len(ticket)-ticketBytes:]
	if ticket != long(run, own) { // The same numbers in other digits.
		return foreign
	}
	return own
}

// long is the whole ticket.
func long(run seckill.RunID, own string) string {
	b := make([]byte, 0, 48)
	b = strconv.AppendInt(b, run.Activity, 36)
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(run.Run), 36)
	b = append(b, '-')
	return string(append(b, own...))
}

// digest stands for an idempotency key. Keys are a buyer's own, so that whoever finds two
// with one digest has only himself to fool.
func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:digestLength*3/4])
}

// read notes what is decided for a group, and returns those that were left undecided.
func (b *batch) read(g part, d decided) (out []int, err error) {
	switch d.code {
	case reserveOtherSplit:
		return nil, errOtherSplit
	case reserveNotLoaded, reserveStale:
		for _, i := range g.at {
			b.decisions[i] = stock.Decision{Verdict: stock.NotLoaded}
			if d.code == reserveStale {
				b.decisions[i].Verdict = stock.Stale
			}
		}
		b.s.known.forget(b.sp.run)
		return nil, nil
	}
	b.sp.set(g.sub, d.available)
	return b.note(g, d.verdicts, d.before, d.extra)
}

// note takes apart what the script says of each attempt. reservations are those that were
// there before.
func (b *batch) note(g part, verdicts string, reservations int64, extra []rueidis.RedisMessage) (out []int, err error) {
	next := func() *rueidis.RedisMessage {
		if len(extra) == 0 {
			err = errors.New("reserve answers too little")
			return &rueidis.RedisMessage{}
		}
		m := &extra[0]
		extra = extra[1:]
		return m
	}
	subs := int64(b.sp.subs)
	for n, i := range g.at {
		if verdicts[n] == undecided {
			out = append(out, i)
			continue
		}
		d := &b.decisions[i]
		*d = stock.Decision{Verdict: stock.Verdict(verdicts[n] - '0')}
		switch d.Verdict {
		case stock.Taken:
			d.Ticket = strings.Clone(b.attempts[i].Ticket)
			d.Ahead = reservations * subs
			reservations++
		case stock.Known, stock.OverLimit:
			own, e := next().ToString()
			if own != "" {
				d.Ticket = long(b.sp.run, own)
			}
			if d.Verdict == stock.Known && e == nil {
				d.Ahead, e = next().AsInt64()
				d.Ahead *= subs
			}
			if err == nil {
				err = e
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
