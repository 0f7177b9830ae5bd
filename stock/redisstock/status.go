package redisstock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"seckill"
	"seckill/stock"
)

// status is where the units of one sub-stock are, at one moment.
type status struct {
	there   bool // It has what it needs to have.
	silent  bool // It did not answer; nothing else is known.
	epoch   int64
	subs    int
	sells   bool // Its load is complete.
	expires int64
	kind    kind // Of the outbox.

	available, queued, awaiting, paid int64

	returns int64
	moves   int64 // Rises with each give, take, release and restock.

	given []parcel      // On their way to others, those that have arrived included.
	marks map[int]int64 // Of each giver, the last number that was taken.
}

// parcel is units on their way to a taker.
type parcel struct {
	taker         int
	number, units int64
}

// statuses are those of all sub-stocks of a run, each at a moment of its own.
type statuses []status

// complete tells whether all are there, sell, and belong together.
func (all statuses) complete() bool {
	for i := range all {
		if s := &all[i]; !s.there || !s.sells || s.epoch != all[0].epoch || s.subs != len(all) {
			return false
		}
	}
	return true
}

// errOtherEpoch says that a run is under another epoch by now, or is being loaded.
var errOtherEpoch = errors.New("another epoch of the run is in place")

// belong tells why sub-stocks are not all of one epoch: one is lost, or being replaced.
func (all statuses) belong(epoch int64) error {
	for i := range all {
		if s := &all[i]; !s.there && !s.silent {
			return stock.ErrNotLoaded
		}
	}
	for i := range all {
		if s := &all[i]; s.there && (!s.sells || s.epoch != epoch || s.subs != len(all)) {
			return errOtherEpoch
		}
	}
	return nil
}

// anySilent tells whether something is not known.
func (all statuses) anySilent() bool {
	return slices.ContainsFunc(all, func(s status) bool { return s.silent })
}

// onTheWay calls f for each parcel of a giver that its taker has not got yet.
func (all statuses) onTheWay(f func(giver int, p parcel)) {
	for giver := range all {
		for _, p := range all[giver].given {
			if p.taker < len(all) && !all[p.taker].silent && p.number > all[p.taker].marks[giver] {
				f(giver, p)
			}
		}
	}
}

func (all statuses) moving() (units int64) {
	all.onTheWay(func(_ int, p parcel) { units += p.units })
	return units
}

func (all statuses) total() int64 {
	units := all.moving()
	for i := range all {
		units += all[i].available
	}
	return units
}

func (all statuses) counters() []int64 {
	counters := make([]int64, len(all))
	for i := range all {
		counters[i] = all[i].moves
	}
	return counters
}

// proves tells whether an earlier look, whose counters are given, was true as a whole: if
// no counter has moved since, nothing was given, taken or brought back between the looks,
// so there was a moment between them with at most the units that the earlier one saw.
func (all statuses) proves(counters []int64) bool {
	return !all.anySilent() && slices.Equal(counters, all.counters())
}

func (s *Stock) statusCall(p place) call {
	tag := s.tag(p)
	return call{statusScript, []string{runKey(tag), transfersKey(tag)}, nil}
}

// statuses reads the first n sub-stocks of a run.
func (s *Stock) statuses(ctx context.Context, run seckill.RunID, n int) (statuses, error) {
	calls := make([]call, n)
	for i := range calls {
		calls[i] = s.statusCall(place{run, i})
	}
	all := make(statuses, n)
	for i, a := range s.doAll(ctx, calls) {
		if a.err != nil {
			return nil, a.err
		}
		if err := all[i].read(a); err != nil {
			return nil, fmt.Errorf("status of sub-stock %d: %w", i, err)
		}
	}
	return all, nil
}

// look is statuses for somebody who can go on without those that do not answer.
func (s *Stock) look(ctx context.Context, sp *split) (statuses, error) {
	ctx, cancel := context.WithTimeout(ctx, aPart(ctx, 3))
	defer cancel()
	all := make(statuses, sp.subs)
	var calls []call
	var at []int
	for i := range all {
		if all[i].silent = sp.isSilent(i); !all[i].silent {
			calls, at = append(calls, s.statusCall(place{sp.run, i})), append(at, i)
		}
	}
	for n, a := range s.doAll(ctx, calls) {
		st := &all[at[n]]
		switch {
		case silent(a.err):
			st.silent = true
			s.suspect(sp, at[n])
		case a.err != nil:
			return nil, a.err
		default:
			if err := st.read(a); err != nil {
				return nil, fmt.Errorf("status of sub-stock %d: %w", at[n], err)
			}
		}
	}
	return all, nil
}

func (st *status) read(a answer) error {
	fields, err := a.ToArray()
	if err != nil || len(fields) == 0 {
		return err
	}
	var numbers [11]int64
	for i := range numbers {
		text, err := fields[i].ToString()
		if err == nil {
			numbers[i], err = strconv.ParseInt(text, 10, 64)
		}
		if err != nil {
			return fmt.Errorf("field %d: %w", i+1, err)
		}
	}
	st.there, st.epoch, st.subs, st.sells = true, numbers[0], int(numbers[1]), numbers[2] == 1
	st.available, st.queued, st.awaiting, st.paid = numbers[3], numbers[4], numbers[5], numbers[6]
	st.returns, st.moves, st.expires = numbers[7], numbers[8], numbers[9]
	if st.kind = kind(numbers[10]); st.kind < streamKind || st.kind > listKind {
		return fmt.Errorf("there is no kind %d of outbox", st.kind)
	}
	transfers, err := fields[11].AsStrSlice()
	if err != nil {
		return fmt.Errorf("transfers: %w", err)
	}
	st.marks = map[int]int64{}
	for i := 0; i+1 < len(transfers); i += 2 {
		if err := st.transfer(transfers[i], transfers[i+1]); err != nil {
			return fmt.Errorf("transfer %q: %w", transfers[i], err)
		}
	}
	return nil
}

func (st *status) transfer(field, value string) error {
	if field == "" || field[0] == 'o' {
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return err
	}
	other, number, isParcel := strings.Cut(field[1:], ":")
	sub, err := strconv.Atoi(other)
	if err != nil {
		return err
	}
	if !isParcel {
		st.marks[sub] = n
		return nil
	}
	p := parcel{taker: sub, units: n}
	if p.number, err = strconv.ParseInt(number, 10, 64); err != nil {
		return err
	}
	st.given = append(st.given, p)
	return nil
}

// levelReads is how often a level that says "nothing left" is read again while units move.
const levelReads = 5

// Level implements [stock.Stock]. While units move between sub-stocks it may be off by
// those, but it is never zero then.
func (s *Stock) Level(ctx context.Context, run seckill.RunID) (stock.Level, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	all, err := s.whole(ctx, run)
	if err != nil {
		return epochOf(all), err
	}
	units := all.total()
	for read := 1; len(all) > 1 && units == 0; read++ {
		again, err := s.statuses(ctx, run, len(all))
		if err != nil {
			return stock.Level{}, err
		}
		if !again.complete() {
			return epochOf(again), stock.ErrNotLoaded
		}
		if slices.Equal(all.counters(), again.counters()) {
			break
		}
		all, units = again, again.total()
		if read == levelReads {
			units = max(units, 1)
		}
	}
	l := stock.Level{Epoch: all[0].epoch, Available: units}
	for i := range all {
		l.Queued += all[i].queued
		l.AwaitingPayment += all[i].awaiting
		l.Paid += all[i].paid
		l.Returns += uint64(all[i].returns)
	}
	s.hub.list(run, len(all), all[0].expires)
	return l, nil
}

// whole reads all sub-stocks of a run. stock.ErrNotLoaded if one is not there, or not of the
// others' load; then what there is comes with it.
func (s *Stock) whole(ctx context.Context, run seckill.RunID) (statuses, error) {
	subs := 1
	if sp := s.known.lookup(run); sp != nil {
		subs = sp.subs
	}
	all, err := s.statuses(ctx, run, subs)
	if err == nil && all[0].there && all[0].subs != subs {
		s.known.forget(run)
		all, err = s.statuses(ctx, run, all[0].subs)
	}
	if err != nil {
		return nil, err
	}
	if !all.complete() {
		s.known.forget(run)
		return all, stock.ErrNotLoaded
	}
	if sp := s.known.lookup(run); sp != nil && sp.subs == len(all) && sp.epoch == all[0].epoch {
		sp.note(all)
	}
	return all, nil
}

// epochOf is all that can be told of a run that is not whole: what a load has to go beyond.
func epochOf(all statuses) stock.Level {
	var l stock.Level
	for i := range all {
		l.Epoch = max(l.Epoch, all[i].epoch)
	}
	return l
}
