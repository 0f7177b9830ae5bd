package redisstock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"seckill"
	"seckill/stock"
)

// A call of Reserve on a run that is split becomes a call of the script for each home, and each
// costs the same again however few attempts are in it. So attempts for one sub-stock wait while a call to it
// is under way, and then go together, whichever calls of Reserve they came with. Nobody
// waits for a timer, and a sub-stock that hangs holds up its own buyers only.

const (
	// laneFlights is how many calls for one sub-stock may be under way at once. While Redis decides on one, the next
	// arrives: a Redis that has to wait for it falls asleep, and is woken for each call.
	laneFlights = 2
	// laneWorth is how many attempts have to wait for a call beside another one: small calls cost more than sleep.
	laneWorth = 200
	// laneMax bounds the attempts that wait for one sub-stock.
	laneMax = 16384
)

// lanes are those of all sub-stocks that this process sells from.
type lanes struct {
	mu    sync.Mutex
	lanes map[laneKey]*lane // Bounded by the sub-stocks whose calls are under way.
}

type laneKey struct {
	place
	subs  int
	epoch int64
	kind  kind // Of the outbox.
}

// lane is where attempts for one sub-stock wait. The lock of lanes is held for all of it.
type lane struct {
	waiting  []*waiter
	attempts int
	flying   int
}

// waiter is some attempts out of one call of Reserve.
type waiter struct {
	ctx     context.Context
	buyers  []string
	tokens  []string
	places  string // What orders them; see reserve.lua.
	stop    bool
	done    chan struct{}
	decided decided // Set before done is closed.
	err     error
}

// decided is what reserve.lua says to attempts.
type decided struct {
	code      int64
	verdicts  string
	available int64
	before    int64 // Reservations that were there before the first of them.
	extra     []rueidis.RedisMessage
}

// submit has a waiter's attempts decided, with others or alone.
func (s *Stock) submit(k laneKey, w *waiter) error {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	l := s.lanes.lanes[k]
	if l == nil {
		l = &lane{}
		s.lanes.lanes[k] = l
	}
	if l.attempts+len(w.buyers) > laneMax {
		return errCrowded
	}
	l.waiting = append(l.waiting, w)
	l.attempts += len(w.buyers)
	if l.mayFly(l.flying) {
		l.flying++
		s.workers.Go(func() { s.flyLane(k, l) })
	}
	return nil
}

// mayFly tells whether a call is worth while beside so many others.
func (l *lane) mayFly(others int) bool {
	return others == 0 || others < laneFlights && l.attempts >= laneWorth
}

// flyLane makes calls until nobody waits.
func (s *Stock) flyLane(k laneKey, l *lane) {
	for {
		some := s.board(k, l)
		if len(some) == 0 {
			return
		}
		s.decideTogether(k, some)
	}
}

// board takes those out of a lane who can go in one call. If there are none the flight is over.
func (s *Stock) board(k laneKey, l *lane) (some []*waiter) {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	n, attempts := 0, 0
	for ; n < len(l.waiting) && (n > 0 || l.mayFly(l.flying-1)); n++ {
		w := l.waiting[n]
		if len(some) > 0 && (w.stop != some[0].stop || attempts+len(w.buyers) > attemptsMax) {
			break
		}
		l.attempts -= len(w.buyers)
		if w.ctx.Err() != nil {
			continue // Nobody waits for it any more.
		}
		some = append(some, w)
		attempts += len(w.buyers)
	}
	l.waiting = append(l.waiting[:0:0], l.waiting[n:]...)
	if len(some) == 0 {
		if l.flying--; l.flying == 0 {
			delete(s.lanes.lanes, k)
		}
	}
	return some
}

// decideTogether makes one call, and tells each waiter his part of the answer.
func (s *Stock) decideTogether(k laneKey, some []*waiter) {
	ctx, cancel := context.WithDeadline(s.ctx, latest(some))
	defer cancel()
	var buyers, tokens []string
	order := []byte(s.process)
	for _, w := range some {
		buyers, tokens = append(buyers, w.buyers...), append(tokens, w.tokens...)
		order = append(order, w.places...)
	}
	a := s.doAll(ctx, []call{s.reserveCall(k, buyers, tokens, string(order), some[0].stop)})[0]
	d, err := readDecided(a, len(buyers))
	for _, w := range some {
		if w.err = err; err == nil {
			w.decided, w.err = d.cut(len(w.buyers))
		}
		close(w.done)
	}
}

// latest is the last deadline.
func latest(some []*waiter) (t time.Time) {
	for _, w := range some {
		if d, ok := w.ctx.Deadline(); ok && d.After(t) {
			t = d
		}
	}
	return t
}

// reserveCall is a call of the script.
func (s *Stock) reserveCall(k laneKey, buyers, tokens []string, order string, stop bool) call {
	tag := s.tag(k.place)
	args := make([]string, 8, 8+2*len(buyers))
	args[0], args[1] = strconv.FormatInt(k.epoch, 10), strconv.Itoa(k.subs)
	args[2], args[3], args[4] = s.offset, s.wakeChannel(), placeName(k.place)
	args[5], args[6], args[7] = bit(stop), common(buyers, tokens), order
	for i := range buyers {
		args = append(args, buyers[i], tokens[i])
	}
	keys := append([]string{runKey(tag), buyersKey(tag)}, k.kind.outbox(s).keys(tag)...)
	return call{reserveScript, keys, args}
}

// common is what attempts have in common; see reserve.lua.
func common(buyers, tokens []string) string {
	if len(buyers) > 1 {
		seen := make(map[string]struct{}, len(buyers))
		for _, b := range buyers {
			seen[b] = struct{}{}
		}
		if len(seen) < len(buyers) {
			return "1"
		}
	}
	if slices.ContainsFunc(tokens, func(t string) bool { return len(t) != ticketBytes }) {
		return "0"
	}
	return "2"
}

// readDecided reads an answer of reserve.lua to so many attempts.
func readDecided(a answer, attempts int) (d decided, err error) {
	if a.err != nil {
		return d, a.err
	}
	fields, err := a.ToArray()
	if err != nil || len(fields) == 0 {
		return d, fmt.Errorf("reserve answers nothing: %w", err)
	}
	if d.code, err = fields[0].AsInt64(); err != nil || d.code != reserveDecided {
		return d, err
	}
	if len(fields) < 4 {
		return d, errors.New("reserve answers too little")
	}
	var errs [3]error
	d.verdicts, errs[0] = fields[1].ToString()
	d.available, errs[1] = fields[2].AsInt64()
	d.before, errs[2] = fields[3].AsInt64()
	if err := errors.Join(errs[:]...); err != nil || len(d.verdicts) != attempts {
		return d, fmt.Errorf("reserve answers %d of %d attempts: %w", len(d.verdicts), attempts, err)
	}
	d.before -= int64(strings.Count(d.verdicts, string('0'+rune(stock.Taken))))
	d.extra = fields[4:]
	return d, nil
}

// cut takes off what is said of the first so many attempts.
func (d *decided) cut(n int) (first decided, err error) {
	first = *d
	if d.code != reserveDecided {
		return first, nil
	}
	first.verdicts, d.verdicts = d.verdicts[:n], d.verdicts[n:]
	extra := 0
	for _, v := range []byte(first.verdicts) {
		switch stock.Verdict(v - '0') {
		case stock.Taken:
			d.before++
		case stock.Known:
			extra += 2
		case stock.OverLimit:
			extra++
		}
	}
	if extra > len(d.extra) {
		return first, errors.New("reserve answers too little")
	}
	first.extra, d.extra = d.extra[:extra], d.extra[extra:]
	return first, nil
}

// Places in a batch are written as what each is more than the one before, and most of these are one sign: five bits
// of it each, the lowest first, and another bit if there are more (VLQ, as in source maps).
const (
	placeZero = '0'
	placeMore = 1 << 5
)

// appendPlaces writes ascending places in a batch.
func appendPlaces(b []byte, batch int64, places []int) []byte {
	b = append(strconv.AppendInt(append(b, ' '), batch, 36), ':')
	last := 0
	for _, p := range places {
		v := p - last
		last = p
		for ; v >= placeMore; v >>= 5 {
			b = append(b, placeZero+byte(v&(placeMore-1)|placeMore))
		}
		b = append(b, placeZero+byte(v))
	}
	return b
}

// spot is where an attempt was: in a batch, at a place.
type spot struct {
	batch string
	place int
}

// parsePlaces reads what appendPlaces wrote.
func parsePlaces(word string) (spots []spot, err error) {
	batch, places, ok := strings.Cut(word, ":")
	at, v, shift := 0, 0, 0
	for _, c := range []byte(places) {
		bits := int(c) - placeZero
		if bits < 0 || bits >= 2*placeMore || shift > 30 {
			return nil, fmt.Errorf("%q are no places", word)
		}
		v |= bits & (placeMore - 1) << shift
		if shift += 5; bits < placeMore {
			at += v
			spots = append(spots, spot{batch, at})
			v, shift = 0, 0
		}
	}
	if !ok || shift > 0 {
		return nil, fmt.Errorf("%q are no places", word)
	}
	return spots, nil
}

// copyOf has strings of its own: the caller's may be views of a buffer that is used again while a call
// that was given up is still under way.
func copyOf(run seckill.RunID, attempts []seckill.Attempt, at []int) (buyers, tokens []string) {
	buyers, tokens = make([]string, len(at)), make([]string, len(at))
	for n, i := range at {
		buyers[n], tokens[n] = strings.Clone(attempts[i].Buyer), token(run, &attempts[i])
	}
	return buyers, tokens
}
