package redisstock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"seckill"
	"seckill/stock"
)

// Outcome implements [stock.Stock].
func (s *Stock) Outcome(ctx context.Context, buyer, ticket string) (seckill.Outcome, error) {
	var none seckill.Outcome
	run, ok := seckill.TicketRun(ticket)
	own := short(run, ticket)
	if !ok || own == foreign || buyer == "" {
		return none, seckill.ErrNotFound
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	cached := s.known.lookup(run) != nil
	for {
		sp, err := s.split(ctx, run)
		if errors.Is(err, stock.ErrNotLoaded) {
			return none, seckill.ErrNotFound
		}
		if err != nil {
			return none, err
		}
		o, err := s.outcome(ctx, sp, buyer, own)
		if !cached || !errors.Is(err, seckill.ErrNotFound) && !errors.Is(err, errOtherSplit) {
			return o, err
		}
		// The buyer's home may be elsewhere by now.
		fresh, err := s.learn(ctx, run)
		if errors.Is(err, stock.ErrNotLoaded) || err == nil && fresh.subs == sp.subs {
			return none, seckill.ErrNotFound
		}
		if err != nil {
			return none, err
		}
		cached = false
	}
}

func (s *Stock) outcome(ctx context.Context, sp *split, buyer, own string) (seckill.Outcome, error) {
	var none seckill.Outcome
	tag := s.tag(place{sp.run, home(buyer, sp.subs)})
	results, err := s.deliver(ctx, []rueidis.Completed{
		s.client.B().Hget().Key(buyersKey(tag)).Field(strings.Clone(buyer)).Build(),
		s.client.B().Hmget().Key(runKey(tag)).Field("k", "n", "u").Build(),
	})
	if err != nil {
		return none, err
	}
	record, err := results[0].ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return none, seckill.ErrNotFound
	case err != nil:
		return none, fmt.Errorf("read a buyer's record: %w", err)
	}
	counts, err := results[1].AsIntSlice()
	switch {
	case err != nil || len(counts) != 3:
		return none, fmt.Errorf("read a sub-stock's counts: %w", err)
	case counts[0] != int64(sp.subs):
		return none, errOtherSplit
	}
	p, found, err := find(record, own)
	if err != nil || !found {
		return none, cmp.Or(err, seckill.ErrNotFound)
	}
	o, err := p.outcome(sp.run, buyer)
	if o.Progress == seckill.Queued {
		o.Ahead = max(0, min(p.position-counts[2]-1, counts[1]-1)) * int64(sp.subs)
	}
	return o, err
}

const (
	// queuedPage is how many messages of an outbox are looked through in one call.
	queuedPage = 50
)

// waiting is a reservation that is queued, with what its place in the list depends on.
type waiting struct {
	seckill.Reservation
	micros int64  // When it was decided.
	call   string // What names the call that decided it, if that went to several sub-stocks.
	number int    // Its place in that call.
	order  int    // Its place in its sub-stock's outbox.
}

// Queued implements [stock.Stock]. It reads all that is queued for each page; the
// backlog's threshold bounds that. If the ticket to go on after is not queued any more, it
// goes on after where that was, as far as this can be told, else it begins anew.
func (s *Stock) Queued(ctx context.Context, run seckill.RunID, after string, limit int) ([]seckill.Reservation, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	all, err := s.whole(ctx, run)
	if err != nil {
		return nil, err
	}
	var list []waiting
	for sub := range all {
		if list, err = s.queuedAt(ctx, place{run, sub}, all[sub].kind, list); err != nil {
			return nil, err
		}
	}
	sortWaiting(list)
	from := 0
	if after != "" {
		from = 1 + slices.IndexFunc(list, func(w waiting) bool { return w.Ticket == after })
	}
	var page []seckill.Reservation
	for _, w := range list[from:] {
		if len(page) == limit {
			break
		}
		page = append(page, w.Reservation)
	}
	return page, nil
}

// sortWaiting puts reservations in their order. Those of one call keep theirs, though each
// sub-stock has decided at a moment of its own.
func sortWaiting(list []waiting) {
	began := map[string]int64{}
	for _, w := range list {
		if w.call == "-" {
			continue
		}
		if t, ok := began[w.call]; !ok || w.micros < t {
			began[w.call] = w.micros
		}
	}
	slices.SortStableFunc(list, func(a, b waiting) int {
		at, bt := a.micros, b.micros
		if a.call != "-" {
			at = began[a.call]
		}
		if b.call != "-" {
			bt = began[b.call]
		}
		if c := cmp.Or(cmp.Compare(at, bt), cmp.Compare(a.call, b.call)); c != 0 || a.call != "-" {
			return cmp.Or(c, cmp.Compare(a.number, b.number))
		}
		return cmp.Compare(a.order, b.order)
	})
}

// queuedAt adds what is queued at one sub-stock.
func (s *Stock) queuedAt(ctx context.Context, p place, k kind, list []waiting) ([]waiting, error) {
	tag := s.tag(p)
	first := len(list)
	key, start := k.outbox(s).queued(tag)
	for from, behind := start, "1"; from != ""; behind = "0" {
		a, err := s.do(ctx, call{queuedScript, []string{buyersKey(tag), behindKey(tag), key}, []string{
			from, strconv.Itoa(queuedPage), behind, strconv.Itoa(int(k)),
		}})
		if err != nil {
			return nil, err
		}
		texts, err := a.AsStrSlice()
		if err != nil || len(texts) == 0 {
			return nil, fmt.Errorf("queued answers nothing: %w", err)
		}
		for _, text := range texts[1:] {
			some, err := parseMessage(p.run, text)
			if err != nil {
				return nil, err
			}
			for i := range some {
				some[i].order = len(list) + i
			}
			list = append(list, some...)
		}
		from = texts[0]
	}
	return once(list, first), nil
}

// once drops, of what comes behind the first so many, reservations that are there before: one may
// have been left behind while its sub-stock was read, or have come twice.
func once(list []waiting, first int) []waiting {
	seen := make(map[string]bool, len(list)-first)
	kept := list[:first]
	for _, w := range list[first:] {
		if !seen[w.Ticket] {
			seen[w.Ticket] = true
			kept = append(kept, w)
		}
	}
	return kept
}

// parseSpots reads where those were that a message has; see reserve.lua.
func parseSpots(words []string) (spots []spot, err error) {
	for _, word := range words {
		verdicts, some := strings.CutPrefix(word, "=")
		if !some {
			more, err := parsePlaces(word)
			if err != nil {
				return nil, err
			}
			spots = append(spots, more...)
			continue
		}
		if len(spots) == 0 {
			return nil, nil // Of a stock that is not split.
		}
		if len(verdicts) != len(spots) {
			return nil, fmt.Errorf("%d verdicts for %d places", len(verdicts), len(spots))
		}
		taken := spots[:0]
		for i, v := range []byte(verdicts) {
			if stock.Verdict(v-'0') == stock.Taken {
				taken = append(taken, spots[i])
			}
		}
		spots = taken
	}
	return spots, nil
}

// parseMessage reads a message of an outbox; see reserve.lua. Empty tokens are reservations
// that are left out.
func parseMessage(run seckill.RunID, text string) ([]waiting, error) {
	lines := strings.Split(text, "\n")
	head := lines[0]
	words := strings.Fields(head)
	if len(words) < 2 || len(lines)%2 == 0 {
		return nil, fmt.Errorf("message has the head %q and %d lines", head, len(lines))
	}
	us, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("message has the head %q", head)
	}
	call := words[1]
	// Without them reservations are listed by their times alone. No order may fail for that, such as one that another
	// version has put there.
	spots, _ := parseSpots(words[2:])
	var list []waiting
	for i := range len(lines) / 2 {
		buyer, token := lines[2*i+1], lines[2*i+2]
		if token == "" {
			continue
		}
		w := waiting{micros: us, call: call, number: i}
		var own string
		own, w.Quantity, w.Slot, err = parseToken(token)
		if i < len(spots) {
			w.call, w.number = call+"."+spots[i].batch, spots[i].place
		}
		if err != nil {
			return nil, fmt.Errorf("message has the reservation %q", token)
		}
		w.Ticket, w.Run, w.Buyer = long(run, own), run, buyer
		w.ReservedAt = time.UnixMilli(us / 1000).UTC()
		list = append(list, w)
	}
	return list, nil
}
