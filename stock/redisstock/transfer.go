package redisstock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"seckill"
)

// Units move from one sub-stock to another in three steps, each atomic:
//
//  1. give: they leave the giver, which notes them under the next number for this taker.
//  2. take: the taker adds what the giver has noted beyond the taker's mark, and moves the mark.
//  3. forget: the giver drops what is at or below the mark.
//
// Whoever comes may do 2 and 3 again, or for somebody who died: a number at or below the mark does
// nothing. So the units of a run are those in stock and those noted beyond the marks.

// errSilent says that units may be where nobody answers.
var errSilent = errors.New("a sub-stock does not answer, and there is nothing left elsewhere")

// fetchTimeout bounds one fetch. Whoever waits may give up earlier.
const fetchTimeout = 2 * time.Second

// flights are the fetches under way in this process: one per taker at a time.
type flights struct {
	mu    sync.Mutex
	under map[flightKey]*flight // Bounded by the sub-stocks of the runs that are asked for.
}

type flightKey struct {
	run   seckill.RunID
	epoch int64
	taker int
}

// flight is one fetch. What comes of it is set before done is closed.
type flight struct {
	begun time.Time
	done  chan struct{}
	fetched
	err error
}

// fetched is what came of a fetch: units that may be enough, or the proof that, at
// some moment since it began, there were no more than total anywhere.
type fetched struct {
	proven bool
	total  int64
}

// fetch brings units to a sub-stock, so that it has as many as are wanted, or proves that there
// are not so many. A proof is of a moment after since. It does not promise that the units
// are still there when it returns.
func (s *Stock) fetch(ctx context.Context, sp *split, taker int, want int64, since time.Time) (fetched, error) {
	key := flightKey{sp.run, sp.epoch, taker}
	for {
		s.flights.mu.Lock()
		f := s.flights.under[key]
		if f == nil {
			if s.ctx.Err() != nil {
				s.flights.mu.Unlock()
				return fetched{}, ErrClosed
			}
			f = &flight{begun: time.Now(), done: make(chan struct{})}
			s.flights.under[key] = f
			s.workers.Go(func() { s.fly(key, f, sp, want) })
		}
		s.flights.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return fetched{}, fmt.Errorf("units are on their way for too long: %w", context.Cause(ctx))
		}
		// A proof that began before the question is one of too early a moment.
		if f.err == nil && f.proven && f.begun.Before(since) {
			continue
		}
		return f.fetched, f.err
	}
}

func (s *Stock) fly(key flightKey, f *flight, sp *split, want int64) {
	ctx, cancel := context.WithTimeout(s.ctx, fetchTimeout)
	defer cancel()
	f.fetched, f.err = s.bring(ctx, sp, key.taker, want)
	s.flights.mu.Lock()
	delete(s.flights.under, key)
	s.flights.mu.Unlock()
	close(f.done)
}

// bring does the work of fetch.
func (s *Stock) bring(ctx context.Context, sp *split, taker int, want int64) (fetched, error) {
	// What was proven before counts as a first look: if no counter has moved since, nothing
	// has come back since.
	counters, total := sp.whenEmpty(), int64(0)
	for round := 0; ; round++ {
		if round > 2 {
			// Others are fetching, too: whoever waits a little lets them sell what they got.
			select {
			case <-time.After(rand.N(2 * time.Millisecond)):
			case <-ctx.Done():
			}
		}
		if err := ctx.Err(); err != nil {
			return fetched{}, err
		}
		all, err := s.look(ctx, sp)
		if err != nil {
			return fetched{}, err
		}
		if err := all.belong(sp.epoch); err != nil {
			return fetched{}, err
		}
		sp.note(all)
		if err := s.interrupt("looked"); err != nil {
			return fetched{}, err
		}
		switch now := all.total(); {
		case all[taker].available >= want:
			return fetched{}, nil
		case now < want && all.anySilent():
			return fetched{}, errSilent
		case now < want && counters != nil && total < want && all.proves(counters):
			if total == 0 {
				sp.noteEmpty(counters)
			}
			return fetched{proven: true, total: total}, nil
		case now < want:
			counters, total = all.counters(), now
			continue
		}
		counters = nil
		got, err := s.collect(ctx, sp, all, taker, want)
		if err != nil && !errors.Is(err, errOtherEpoch) {
			return fetched{}, err
		}
		if got {
			return fetched{}, nil
		}
	}
}

// collect moves what is on its way to the taker, then, if that is not enough, has others
// give, the richest first; and finishes what is on its way elsewhere if they have too little.
// It tells whether the taker got anything.
func (s *Stock) collect(ctx context.Context, sp *split, all statuses, taker int, want int64) (bool, error) {
	lists := map[int]map[int][]parcel{} // Taker to giver to parcels.
	add := func(giver int, p parcel) {
		if lists[p.taker] == nil {
			lists[p.taker] = map[int][]parcel{}
		}
		lists[p.taker][giver] = append(lists[p.taker][giver], p)
	}
	lacks := want - all[taker].available
	var others int64
	for i := range all {
		if i != taker {
			others += all[i].available
		}
	}
	all.onTheWay(func(giver int, p parcel) {
		add(giver, p)
		if p.taker == taker {
			lacks -= p.units
		}
	})
	if lacks > 0 && others >= lacks {
		var err error
		if lists[taker], err = s.giveAll(ctx, sp, all, taker, lacks, lists[taker]); err != nil {
			return false, err
		}
	}
	if lacks <= 0 || others >= lacks {
		// Nobody needs what is on its way elsewhere.
		lists = map[int]map[int][]parcel{taker: lists[taker]}
	}
	got := false
	for to, from := range lists {
		if len(from) == 0 {
			continue
		}
		if err := s.take(ctx, sp, to, from); err != nil {
			return got, err
		}
		got = got || to == taker
	}
	return got, nil
}

// giveAll has sub-stocks give to the taker until it will have what it lacks, and adds the
// parcels to those that are on their way.
func (s *Stock) giveAll(ctx context.Context, sp *split, all statuses, taker int, lacks int64, way map[int][]parcel) (map[int][]parcel, error) {
	if way == nil {
		way = map[int][]parcel{}
	}
	var givers []int
	for i := range all {
		if i != taker && all[i].available > 0 {
			givers = append(givers, i)
		}
	}
	slices.SortStableFunc(givers, func(a, b int) int { return cmp.Compare(all[b].available, all[a].available) })
	for _, giver := range givers {
		if lacks <= 0 {
			break
		}
		if err := s.interrupt("before give"); err != nil {
			return way, err
		}
		before := int64(0)
		for _, p := range way[giver] {
			before += p.units
		}
		parcels, err := s.give(ctx, sp, giver, taker, lacks, all[taker].marks[giver])
		if err != nil {
			return way, err
		}
		if err := s.interrupt("gave"); err != nil {
			return way, err
		}
		if len(parcels) > 0 {
			way[giver] = parcels
		}
		for _, p := range parcels {
			lacks -= p.units
		}
		lacks += before
	}
	return way, nil
}

// give is the first step. It returns all that is on its way from the giver to the taker.
func (s *Stock) give(ctx context.Context, sp *split, giver, taker int, units, mark int64) ([]parcel, error) {
	tag := s.tag(place{sp.run, giver})
	a, err := s.do(ctx, call{giveScript, []string{runKey(tag), transfersKey(tag)}, []string{
		strconv.FormatInt(sp.epoch, 10), strconv.Itoa(taker), strconv.FormatInt(units, 10), strconv.FormatInt(mark, 10),
	}})
	if err != nil {
		return nil, err
	}
	numbers, err := accepted(&a)
	if err != nil {
		return nil, err
	}
	sp.set(giver, numbers[0])
	var parcels []parcel
	for i := 1; i+1 < len(numbers); i += 2 {
		parcels = append(parcels, parcel{taker, numbers[i], numbers[i+1]})
	}
	return parcels, nil
}

// take is the second and the third step, for parcels of several givers to one taker.
func (s *Stock) take(ctx context.Context, sp *split, taker int, from map[int][]parcel) error {
	if err := s.interrupt("before take"); err != nil {
		return err
	}
	args := []string{strconv.FormatInt(sp.epoch, 10)}
	var givers []int
	for giver := range from {
		givers = append(givers, giver)
	}
	slices.Sort(givers)
	for _, giver := range givers {
		args = append(args, strconv.Itoa(giver), strconv.Itoa(len(from[giver])))
		slices.SortFunc(from[giver], func(a, b parcel) int { return cmp.Compare(a.number, b.number) })
		for _, p := range from[giver] {
			args = append(args, strconv.FormatInt(p.number, 10), strconv.FormatInt(p.units, 10))
		}
	}
	tag := s.tag(place{sp.run, taker})
	a, err := s.do(ctx, call{takeScript, []string{runKey(tag), transfersKey(tag)}, args})
	if err != nil {
		return err
	}
	numbers, err := accepted(&a)
	if err != nil {
		return err
	}
	sp.set(taker, numbers[0])
	if err := s.interrupt("took"); err != nil {
		return err
	}
	if len(numbers) != 1+len(givers) {
		return fmt.Errorf("take answers %d marks for %d givers", len(numbers)-1, len(givers))
	}
	calls := make([]call, len(givers))
	for i, giver := range givers {
		tag := s.tag(place{sp.run, giver})
		calls[i] = call{forgetScript, []string{runKey(tag), transfersKey(tag)}, []string{
			args[0], strconv.Itoa(taker), strconv.FormatInt(numbers[1+i], 10),
		}}
	}
	var errs []error
	for _, a := range s.doAll(ctx, calls) {
		errs = append(errs, a.err)
	}
	if err := errors.Join(errs...); err != nil {
		// The units have arrived, and whoever gives next forgets them.
		s.log.Debug("a transfer is not yet forgotten", "error", err)
	}
	return s.interrupt("forgot")
}

// accepted reads the answer of give.lua and take.lua.
func accepted(a *rueidis.RedisMessage) ([]int64, error) {
	numbers, err := a.AsIntSlice()
	switch {
	case err != nil:
		return nil, err
	case len(numbers) < 2 || numbers[0] != 1:
		return nil, errOtherEpoch
	}
	return numbers[1:], nil
}
