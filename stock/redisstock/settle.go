package redisstock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"seckill"
	"seckill/stock"
)

// Answers of settle.lua.
const (
	settleNotLoaded = iota
	settleOtherSplit
	settleDone
)

// settleWave is how many calls go to Redis at once, so that buyers' calls come in between.
const settleWave = 16

// settlePatience is how long a run may be split in two ways at once: while a load with
// another number of sub-stocks goes over the old one.
const settlePatience = 20 * time.Millisecond

// Settle implements [stock.Stock]. A settlement needs its buyer: it tells where to look.
func (s *Stock) Settle(ctx context.Context, settlements []stock.Settlement) (unknown []string, err error) {
	for i := range settlements {
		if err := checkSettlement(&settlements[i]); err != nil {
			return nil, fmt.Errorf("settlement of %s: %w", settlements[i].Ticket, err)
		}
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	byRun := map[seckill.RunID][]int{}
	for i := range settlements {
		run := settlements[i].Run
		byRun[run] = append(byRun[run], i)
	}
	known := make([]bool, len(settlements))
	var errs []error
	for run, at := range byRun {
		errs = append(errs, s.settleRun(ctx, run, settlements, at, known))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i := range settlements {
		if !known[i] {
			unknown = append(unknown, settlements[i].Ticket)
		}
	}
	return unknown, nil
}

func checkSettlement(s *stock.Settlement) error {
	switch {
	case buyerOf(s) == "":
		return errors.New("it names no buyer")
	case s.Order == nil && int(s.Failed) >= seckill.Reasons:
		return fmt.Errorf("there is no reason %d", s.Failed)
	case s.Order != nil && (s.Order.State < seckill.AwaitingPayment || s.Order.State > seckill.Expired):
		return fmt.Errorf("there is no state %d of an order", s.Order.State)
	}
	return nil
}

func buyerOf(s *stock.Settlement) string {
	if s.Buyer == "" && s.Order != nil {
		return s.Order.Buyer
	}
	return s.Buyer
}

// settleRun settles those of one run, and notes which tickets are known.
func (s *Stock) settleRun(ctx context.Context, run seckill.RunID, settlements []stock.Settlement, at []int, known []bool) error {
	cached := s.known.lookup(run) != nil
	for try := 1; ; try++ {
		sp, err := s.split(ctx, run)
		if errors.Is(err, stock.ErrNotLoaded) {
			return nil // Nobody has heard of any of them.
		}
		if err != nil {
			return err
		}
		again, err := s.settleSplit(ctx, sp, settlements, at, known, cached)
		if err != nil || len(again) == 0 {
			return err
		}
		if try == 5 {
			return fmt.Errorf("settle: %w", errOtherSplit)
		}
		if try > 1 {
			select {
			case <-time.After(settlePatience):
			case <-ctx.Done():
				return fmt.Errorf("settle: %w", context.Cause(ctx))
			}
		}
		s.known.forget(run)
		at, cached = again, false
	}
}

// settleSplit settles on the sub-stocks, and returns those that may have to go elsewhere.
func (s *Stock) settleSplit(ctx context.Context, sp *split, settlements []stock.Settlement, at []int, known []bool, cached bool) (again []int, err error) {
	var parts []part
	of := make([]int, sp.subs) // 1 + index of the home's latest part.
	for _, i := range at {
		h := home(buyerOf(&settlements[i]), sp.subs)
		if of[h] == 0 || len(parts[of[h]-1].at) == settlementsMax {
			parts = append(parts, part{sub: h})
			of[h] = len(parts)
		}
		p := &parts[of[h]-1]
		p.at = append(p.at, i)
	}
	calls := make([]call, len(parts))
	for n, p := range parts {
		tag := s.tag(place{sp.run, p.sub})
		args := make([]string, 3, 3+5*len(p.at))
		args[0], args[1], args[2] = strconv.Itoa(sp.subs), s.eventsChannel(), runName(sp.run)
		for _, i := range p.at {
			args = append(args, settlementArgs(sp.run, &settlements[i])...)
		}
		calls[n] = call{settleScript, []string{runKey(tag), buyersKey(tag), behindKey(tag)}, args}
	}
	for from := 0; from < len(calls); from += settleWave {
		to := min(from+settleWave, len(calls))
		for n, a := range s.doAll(ctx, calls[from:to]) {
			var code int64
			err := a.err
			if err == nil {
				code, err = s.settled(sp, parts[from+n], a, known)
			}
			if err != nil {
				return nil, err // The others may or may not be done; all of them may be told again.
			}
			// What this process remembers of the split may be of an earlier load.
			if code == settleOtherSplit || code == settleNotLoaded && cached {
				again = append(again, parts[from+n].at...)
			}
		}
	}
	return again, nil
}

// settled reads the answer of one sub-stock.
func (s *Stock) settled(sp *split, p part, a answer, known []bool) (code int64, err error) {
	fields, err := a.ToArray()
	if err != nil || len(fields) == 0 {
		return 0, fmt.Errorf("settle answers nothing: %w", err)
	}
	if code, err = fields[0].AsInt64(); err != nil || code != settleDone {
		return code, err
	}
	answers, err := fields[1].ToString()
	if err != nil || len(answers) != len(p.at) {
		return code, fmt.Errorf("settle answers %d of %d settlements: %w", len(answers), len(p.at), err)
	}
	for n, i := range p.at {
		known[i] = answers[n] != '0'
	}
	available, err := fields[2].AsInt64()
	if err == nil {
		sp.set(p.sub, available)
	}
	return code, err
}

// settlementArgs writes a settlement as the script takes it.
func settlementArgs(run seckill.RunID, s *stock.Settlement) []string {
	state, rest, writtenOff := byte(stateFailed), strconv.Itoa(int(s.Failed)), "0"
	if s.Order != nil {
		state, rest = '0'+byte(s.Order.State), encodeOrder(s.Order)
	}
	if s.WrittenOff && s.Frees() {
		writtenOff = "1"
	}
	own := short(run, s.Ticket)
	return []string{buyerOf(s), own, string(state), writtenOff, rest}
}
