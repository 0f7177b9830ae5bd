package redisstock

import (
	"context"
	"slices"
	"sync"
	"time"

	"seckill"
	"seckill/stock"
)

// knownMax bounds the runs that a process keeps in mind; what is forgotten is read again.
const knownMax = 4096

// knownRuns are the runs that this process has asked about.
type knownRuns struct {
	mu   sync.RWMutex
	runs map[seckill.RunID]*split
}

// split is what this process knows of a run under one epoch: into how many sub-stocks
// it is split, which cannot change, and how many units each had when it was last heard of,
// which may be wrong by now. No answer depends on the latter but Decision.Left.
type split struct {
	run   seckill.RunID
	epoch int64
	subs  int

	mu        sync.Mutex
	available []int64
	kinds     []kind  // Of the outboxes.
	moving    int64   // On their way between two.
	empty     []int64 // Counters under which nothing was left.
	silent    []bool  // Sub-stocks that do not answer at present.
}

// set notes what a sub-stock had.
func (sp *split) set(sub int, available int64) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.available[sub] = available
}

// note is set for all, after they were looked at.
func (sp *split) note(all statuses) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for i := range all {
		if !all[i].silent {
			sp.available[i], sp.kinds[i] = all[i].available, all[i].kind
		}
	}
	sp.moving = all.moving()
}

// kindOf tells how the outbox of a sub-stock is kept.
func (sp *split) kindOf(sub int) kind {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.kinds[sub]
}

// units tells what each sub-stock had, and the sum with what was on its way.
func (sp *split) units() (each []int64, total int64) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	each = slices.Clone(sp.available)
	total = sp.moving
	for _, n := range each {
		total += n
	}
	return each, total
}

// noteEmpty keeps the counters under which nothing was left anywhere.
func (sp *split) noteEmpty(counters []int64) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.empty = counters
}

func (sp *split) whenEmpty() []int64 {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.empty
}

// lookup returns what is known of a run, nil if nothing is.
func (k *knownRuns) lookup(run seckill.RunID) *split {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.runs[run]
}

func (k *knownRuns) store(sp *split) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.runs) >= knownMax {
		clear(k.runs)
	}
	k.runs[sp.run] = sp
}

func (k *knownRuns) forget(run seckill.RunID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.runs, run)
}

// split returns how a run is split, from memory if it is there; stock.ErrNotLoaded if
// Redis does not know the run.
func (s *Stock) split(ctx context.Context, run seckill.RunID) (*split, error) {
	if sp := s.known.lookup(run); sp != nil {
		return sp, nil
	}
	return s.learn(ctx, run)
}

// learn reads how a run is split.
func (s *Stock) learn(ctx context.Context, run seckill.RunID) (*split, error) {
	s.known.forget(run)
	first, err := s.oneOf(ctx, run)
	if err != nil {
		return nil, err
	}
	if !first.there {
		return nil, stock.ErrNotLoaded
	}
	sp := &split{
		run: run, epoch: first.epoch, subs: first.subs,
		available: make([]int64, first.subs), kinds: slices.Repeat([]kind{first.kind}, first.subs), silent: make([]bool, first.subs),
	}
	if sp.subs > 1 {
		all, err := s.look(ctx, sp)
		if err != nil {
			return nil, err
		}
		sp.note(all)
	} else {
		sp.note(statuses{first})
	}
	s.known.store(sp)
	return sp, nil
}

// oneOf reads the first sub-stock of a run, and if that does not answer, another one: each
// knows how many there are.
func (s *Stock) oneOf(ctx context.Context, run seckill.RunID) (status, error) {
	short, cancel := context.WithTimeout(ctx, aPart(ctx, 4))
	defer cancel()
	first, err := s.statuses(short, run, 1)
	if err == nil {
		return first[0], nil
	}
	if !silent(err) || ctx.Err() != nil {
		return status{}, err
	}
	calls := make([]call, othersMost)
	for i := range calls {
		calls[i] = s.statusCall(place{run, 1 + i})
	}
	short, cancel = context.WithTimeout(ctx, aPart(ctx, 4))
	defer cancel()
	for _, a := range s.doAll(short, calls) {
		var st status
		if a.err == nil && st.read(a) == nil && st.there {
			return st, nil
		}
	}
	if first, err = s.statuses(ctx, run, 1); err != nil {
		return status{}, err
	}
	return first[0], nil
}

const (
	// lookTimeout is how long sub-stocks have to tell their status, at most, before they are
	// taken for silent.
	lookTimeout = time.Second
	// probeEvery is how often a silent sub-stock is asked, and probesMax how often in all: then
	// the next buyer finds out.
	probeEvery = 100 * time.Millisecond
	// othersMost is how many others are asked when the first does not answer.
	othersMost = 5
	probesMax  = 300
)

// aPart is a part of the time that is left, so that there is some when nobody answers.
func aPart(ctx context.Context, parts int) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return lookTimeout
	}
	return min(time.Until(deadline)/time.Duration(parts), lookTimeout)
}

// isSilent tells whether a sub-stock is not worth asking: nobody waits for a deadline
// again and again because one part of a cluster hangs.
func (sp *split) isSilent(sub int) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.silent[sub]
}

func (sp *split) setSilent(sub int, silent bool) (changed bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	changed = sp.silent[sub] != silent
	sp.silent[sub] = silent
	return changed
}

// suspect notes that a sub-stock did not answer, and has somebody ask it until it does.
func (s *Stock) suspect(sp *split, sub int) {
	if sp.subs == 1 {
		return // There is nothing to spare by it.
	}
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	if s.ctx.Err() != nil || !sp.setSilent(sub, true) {
		return
	}
	s.workers.Go(func() {
		defer sp.setSilent(sub, false)
		for range probesMax {
			select {
			case <-time.After(probeEvery):
			case <-s.ctx.Done():
				return
			}
			ctx, cancel := context.WithTimeout(s.ctx, lookTimeout)
			_, err := s.do(ctx, s.statusCall(place{sp.run, sub}))
			cancel()
			if !silent(err) {
				return
			}
		}
	})
}
