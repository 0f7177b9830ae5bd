package redisstock

import (
	"context"
	"errors"
	"slices"
	"time"

	"seckill/stock"
)

// Attempts on a run that is split, in short:
//
//   - A buyer's home decides about him. Homes are asked at once, each in one call; see lane.go.
//   - What a home is short of is fetched from others before the buyer hears anything; see
//     transfer.go. That nothing is left is said after all have been looked at twice.
//   - Attempts of one call are decided in their order as far as one process can see: up to
//     the first whose home seems to have too little, at once; that one alone, with
//     what has to be fetched for it; then on. Units that other processes sell meanwhile may go
//     to a later attempt of the same call before an earlier one.
//
// spread decides on a stock that is split.
func (b *batch) spread(ctx context.Context) error {
	b.id = b.s.batches.Add(1)
	for i := range b.decisions {
		b.decisions[i].Verdict = stock.Unknown
	}
	ctx, cancel := b.inTime(ctx)
	defer cancel()
	todo := make([]int, len(b.attempts))
	for i := range todo {
		todo[i] = i
	}
	var failed error
	decided := false
	for len(todo) > 0 && ctx.Err() == nil {
		n, nothing := b.ahead(todo)
		var err error
		if n > 0 {
			var rest []int
			rest, err = b.together(ctx, todo[:n], nothing)
			todo = append(rest, todo[n:]...)
		} else {
			err = b.single(ctx, todo[0])
			todo = todo[1:]
		}
		if errors.Is(err, errOtherSplit) {
			return err
		}
		if err != nil {
			failed = err
		} else {
			decided = true
		}
	}
	if !decided && failed != nil {
		return failed
	}
	if !decided && len(b.attempts) > 0 {
		return errSlow
	}
	return nil
}

// inTime ends a little before ctx does, so that what is decided by then is told.
func (b *batch) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, _ := ctx.Deadline()
	spare := min(time.Until(deadline)/5, 100*time.Millisecond)
	return context.WithDeadline(ctx, deadline.Add(-spare))
}

// ahead tells how many of the attempts can be asked at once: those whose homes seem to have
// enough for all of them. With nothing seeming to be left at all, it is all of them.
func (b *batch) ahead(todo []int) (n int, nothing bool) {
	each, total := b.sp.units()
	if total <= 0 {
		return len(todo), true
	}
	for n < len(todo) {
		a := &b.attempts[todo[n]]
		h := home(a.Buyer, b.sp.subs)
		if each[h] -= int64(a.Quantity); each[h] < 0 {
			break
		}
		n++
	}
	return n, false
}

// together asks the homes of attempts at once, and returns those attempts that are still to
// be decided, in order.
func (b *batch) together(ctx context.Context, at []int, nothing bool) (todo []int, err error) {
	parts := b.byHome(at)
	broken := map[int]bool{}
	parts = slices.DeleteFunc(parts, func(p part) bool {
		if !b.sp.isSilent(p.sub) {
			return false
		}
		for _, i := range p.at {
			broken[i] = true
		}
		err = errSilent
		return true
	})
	todo, errs := b.ask(ctx, parts, !nothing)
	for i, e := range errs {
		if e == nil {
			continue
		}
		err = e
		if errors.Is(e, errOtherSplit) {
			return nil, e
		}
		if silent(e) {
			b.s.suspect(b.sp, parts[i].sub)
		}
		for _, i := range parts[i].at {
			broken[i] = true
		}
	}
	if err != nil && len(broken) < len(at) {
		err = nil // Some are decided. The others stay unknown.
	}
	var decided []int
	left := map[int]bool{}
	for _, i := range todo {
		left[i] = true
	}
	for _, i := range at {
		switch {
		case broken[i] || left[i]:
		case b.decisions[i].Verdict == stock.Short:
			todo = append(todo, i)
		default:
			decided = append(decided, i)
		}
	}
	_, total := b.sp.units()
	b.left(decided, total)
	slices.Sort(todo)
	if nothing && len(todo) > 0 {
		todo = b.soldOut(ctx, todo)
	}
	for _, i := range todo {
		b.decisions[i] = stock.Decision{Verdict: stock.Unknown}
	}
	return todo, err
}

// byHome groups attempts. The homes come in the order of their first attempt.
func (b *batch) byHome(at []int) []part {
	var parts []part
	of := make([]int, b.sp.subs) // 1 + index of the home's latest part.
	for _, i := range at {
		h := home(b.attempts[i].Buyer, b.sp.subs)
		if of[h] == 0 || len(parts[of[h]-1].at) == attemptsMax {
			parts = append(parts, part{sub: h})
			of[h] = len(parts)
		}
		p := &parts[of[h]-1]
		p.at = append(p.at, i)
	}
	return parts
}

// soldOut settles attempts that are short everywhere, if nothing is left anywhere; it
// returns those that have to be looked at one by one.
func (b *batch) soldOut(ctx context.Context, short []int) []int {
	f, err := b.s.fetch(ctx, b.sp, home(b.attempts[short[0]].Buyer, b.sp.subs), 1, time.Now())
	if err != nil || !f.proven || f.total > 0 {
		return short
	}
	for _, i := range short {
		b.decisions[i] = stock.Decision{Verdict: stock.Short}
	}
	return nil
}

// single decides one attempt, fetching units for it until it is clear that there are not
// enough, or until ctx ends: then it stays unknown.
func (b *batch) single(ctx context.Context, i int) error {
	a, d := &b.attempts[i], &b.decisions[i]
	h := home(a.Buyer, b.sp.subs)
	for ctx.Err() == nil {
		if b.sp.isSilent(h) {
			return errSilent
		}
		_, errs := b.ask(ctx, []part{{h, []int{i}}}, false)
		if errs[0] != nil {
			if silent(errs[0]) {
				b.s.suspect(b.sp, h)
			}
			*d = stock.Decision{Verdict: stock.Unknown}
			return errs[0]
		}
		if d.Verdict != stock.Short {
			_, total := b.sp.units()
			b.left([]int{i}, total)
			return nil
		}
		*d = stock.Decision{Verdict: stock.Unknown}
		f, err := b.s.fetch(ctx, b.sp, h, int64(a.Quantity), time.Now())
		switch {
		case errors.Is(err, stock.ErrNotLoaded):
			d.Verdict = stock.NotLoaded
			return nil
		case errors.Is(err, errOtherEpoch):
			d.Verdict = stock.Stale
			return nil
		case err != nil:
			return err
		case f.proven && f.total < int64(a.Quantity):
			*d = stock.Decision{Verdict: stock.Short, Left: f.total}
			return nil
		}
	}
	return errors.Join(errSlow, context.Cause(ctx))
}
