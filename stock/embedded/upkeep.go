package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"seckill"
)

// partBytes is about the size of a snapshot's part. A commit waits for one at most.
const partBytes = 512 << 10

// compactFactor is how many times its snapshot a run's log may be.
const compactFactor = 2

// recover replays all runs.
func (e *Engine) recover(ctx context.Context) error {
	ids, last, err := e.store.runs()
	if err != nil {
		return fmt.Errorf("read the stock's file: %w", err)
	}
	var messages []*message
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := e.restore(id)
		if err != nil {
			return fmt.Errorf("replay activity %d, run %d: %w", id.Activity, id.Run, err)
		}
		e.streams[id] = s
		last = max(last, s.lsn)
		if s.run == nil {
			continue
		}
		s.run.box = &e.outbox
		for _, m := range s.run.messages {
			messages = append(messages, m)
		}
	}
	slices.SortFunc(messages, func(a, b *message) int { return cmp.Compare(a.lsn, b.lsn) })
	e.logged, e.durable = last, last
	e.outbox.show(messages)
	return nil
}

func (e *Engine) restore(id seckill.RunID) (*stream, error) {
	s := &stream{id: id}
	rp := replay{id: id}
	err := e.store.read(id, 1<<63-1, func(part int, seq uint64, body []byte) error {
		if part >= 0 {
			s.snapshot += int64(len(body))
			return rp.part(part, seq, body)
		}
		s.stored += int64(len(body))
		return rp.row(seq, body)
	})
	if err != nil {
		return nil, err
	}
	s.run, s.lsn, s.prev, s.durable = rp.run, rp.lsn, rp.prev, rp.prev
	return s, nil
}

// due tells whether a stream has work for the maintainer. The lock is held.
func (e *Engine) due(s *stream) bool {
	if s.run == nil {
		return true
	}
	if _, nothing := e.store.(volatile); nothing {
		return false
	}
	return s.stored >= e.compactMin && s.stored >= compactFactor*s.snapshot && s.stored >= s.compactFrom
}

// maintain compacts logs and forgets dropped runs. It works on the file alone, on a
// replay of its own: no decision waits for it.
func (e *Engine) maintain() {
	for {
		select {
		case <-e.upkeep:
		case <-e.closing:
			return
		}
		for _, s := range e.allDue() {
			if err := e.tend(s); errors.Is(err, errClosing) {
				return
			} else if err != nil {
				e.log.Warn("the stock's log of a run was not compacted; it is tried again later",
					slog.Int64("activity", s.id.Activity), slog.Int("run", s.id.Run), slog.Any("error", err))
				e.mu.Lock()
				s.compactFrom = s.stored + e.compactMin
				e.mu.Unlock()
			}
		}
	}
}

func (e *Engine) allDue() (list []*stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.streams {
		if e.due(s) {
			list = append(list, s)
		}
	}
	return list
}

func (e *Engine) tend(s *stream) error {
	e.mu.Lock()
	dropped, upTo, stored := s.run == nil, s.durable, s.stored
	if dropped && s.lsn > upTo {
		e.mu.Unlock()
		return nil // The commit that is under way asks for it again.
	}
	if dropped {
		// From here on a Load begins a new log, whose rows come after.
		delete(e.streams, s.id)
	}
	e.mu.Unlock()
	if dropped {
		return e.store.forget(s.id, upTo, true)
	}
	return e.compact(s, upTo, stored)
}

var errClosing = errors.New("closing")

// compact replaces the first rows of a log, that many bytes, by a snapshot.
func (e *Engine) compact(s *stream, upTo uint64, stored int64) error {
	rp := replay{id: s.id}
	err := e.store.read(s.id, upTo, func(part int, seq uint64, body []byte) error {
		select {
		case <-e.closing:
			return errClosing
		default:
		}
		if part >= 0 {
			return rp.part(part, seq, body)
		}
		return rp.row(seq, body)
	})
	if err != nil {
		return err
	}
	if rp.run == nil || rp.prev != upTo {
		return fmt.Errorf("row %d is not there", upTo)
	}
	parts := snapshot(rp.run, rp.lsn)
	var size int64
	for n, body := range parts {
		size += int64(len(body))
		if err := e.store.putPart(s.id, upTo, n, body); err != nil {
			return err
		}
	}
	if err := e.store.install(s.id, upTo, len(parts)); err != nil {
		return err
	}
	e.mu.Lock()
	s.stored -= stored
	s.snapshot, s.compactFrom = size, 0
	e.mu.Unlock()
	return e.store.forget(s.id, upTo, false)
}

// snapshot writes a run in parts.
func snapshot(r *run, lsn uint64) (parts [][]byte) {
	entries := 0
	end := func(b []byte) {
		header{r.id, uint64(len(parts)), entries}.put(b)
		parts = append(parts, b)
		entries = 0
	}
	b := encodeState(make([]byte, headerBytes), r, lsn, func(b []byte) []byte {
		entries++
		if len(b) < partBytes {
			return b
		}
		end(b)
		return make([]byte, headerBytes, partBytes+1024)
	})
	if entries > 0 {
		end(b)
	}
	return parts
}
