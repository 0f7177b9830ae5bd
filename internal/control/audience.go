package control

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"seckill"
)

const (
	// listsAfterEnd is how long after its end the list of an activity is kept in memory.
	listsAfterEnd = 24 * time.Hour
	// storeFor bounds the writing of a list to the database.
	storeFor = 2 * time.Minute
)

// Audience of an activity, as the database has it.
func (b *Board) Audience(ctx context.Context, activity int64) (seckill.AudienceState, error) {
	return b.o.Store.Audience(ctx, activity)
}

// SetAudience replaces the list of an activity by the buyers that read adds, all at once. They have
// to be valid; one that is added twice counts once. An error of read is returned as it is, and nothing
// is changed. One list at a time is read, as it is held in memory.
func (b *Board) SetAudience(ctx context.Context, activity int64, read func(add func(buyer string) error) error, by seckill.Actor) (seckill.AudienceState, error) {
	select {
	case b.uploading <- struct{}{}:
		defer unlock(b.uploading)
	default:
		return seckill.AudienceState{}, &seckill.Refusal{Reason: seckill.Conflict, Detail: "Another list is being sent; try again when it is done."}
	}
	if _, err := b.o.Store.Audience(ctx, activity); err != nil {
		return seckill.AudienceState{}, err
	}
	made := newList(0, 0)
	err := read(func(buyer string) error {
		if made.n == BuyersMax && !made.has(buyer) {
			return &seckill.Refusal{Reason: seckill.TooLarge, Detail: "A list holds at most " + strconv.Itoa(BuyersMax) + " buyers."}
		}
		made.add(buyer)
		return nil
	})
	if err != nil {
		return seckill.AudienceState{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeFor)
	defer cancel()
	stored, err := b.o.Store.PutAudience(ctx, activity, int64(made.n), made.chunks(), by)
	if err != nil {
		return stored, err
	}
	made.data = bytes.Clone(made.data) // Without the room for more.
	b.learnList(ctx, stored, made)
	return stored, nil
}

// learnList takes in a list that this node has just stored, if it needs it. If that cannot be told
// now, the loop will read it.
func (b *Board) learnList(ctx context.Context, stored seckill.AudienceState, made *list) {
	wake(b.nudged)
	if lock(ctx, b.listing) != nil {
		return
	}
	defer unlock(b.listing)
	heads, err := b.heads(ctx)
	if err != nil {
		return
	}
	for _, h := range heads {
		if h.Activity == stored.Activity && h.Version == stored.Version && h.needed() {
			b.setAudience(h.Activity, h.with(made))
		}
	}
}

// Known is that of the snapshot, and has the database looked into for an activity of which it cannot be said yet
// whether it has a list: other nodes make activities and lists at any time, and this one may hear of the activity
// first. The answer is there a moment later.
func (b *Board) Known(s *Snapshot, a *seckill.Activity) bool {
	if s.Known(a) {
		return true
	}
	if s.audiences[a.ID] == nil && b.wanted.add(a.ID) {
		wake(b.listed)
	}
	return false
}

// wanted are activities of which somebody has asked whether they have a list. Those are activities that there
// are, so they are never many.
type wanted struct {
	mu  sync.Mutex
	ids map[int64]bool
}

// add tells whether nobody has asked before.
func (w *wanted) add(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ids[id] {
		return false
	}
	if w.ids == nil {
		w.ids = map[int64]bool{}
	}
	w.ids[id] = true
	return true
}

func (w *wanted) all() map[int64]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.ids)
}

func (w *wanted) drop(ids map[int64]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.ids, func(id int64, _ bool) bool { return ids[id] })
}

// needed tells whether the list of an activity has to be in memory.
func (h *AudienceHead) needed() bool { return time.Since(h.EndsAt) <= listsAfterEnd }

func (h *AudienceHead) with(l *list) *audience {
	return &audience{version: h.Version, updated: h.UpdatedAt, list: l}
}

// is tells whether the list is the one that a head is of. A database that was restored may
// give one version twice.
func (a *audience) is(h *AudienceHead) bool {
	return a != nil && a.list != nil && a.version == h.Version && a.updated.Equal(h.UpdatedAt)
}

func (b *Board) heads(ctx context.Context) (heads []AudienceHead, err error) {
	err = b.within(ctx, 1, func(ctx context.Context) error {
		heads, err = b.o.Store.Audiences(ctx)
		return err
	})
	return heads, err
}

func (b *Board) listLoop(ctx context.Context) {
	// Looked at from time to time, too, as activities end.
	tick := time.NewTicker(b.o.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-b.listed:
		}
		err := b.readLists(ctx)
		if ctx.Err() != nil {
			return
		}
		b.lists.note(err)
		if err != nil {
			if !pause(ctx, time.Second) {
				return
			}
			wake(b.listed)
		}
	}
}

// readLists reads the lists that are needed and have changed.
func (b *Board) readLists(ctx context.Context) error {
	if err := lock(ctx, b.listing); err != nil {
		return fmt.Errorf("wait for another reading of lists: %w", err)
	}
	defer unlock(b.listing)
	// Before the database is looked into: who asks later is not answered by what it said before.
	asked, change := b.wanted.all(), b.changes.Load()
	heads, err := b.heads(ctx)
	if err != nil {
		return fmt.Errorf("read which lists there are: %w", err)
	}
	needed := map[int64]bool{}
	var toRead []AudienceHead
	for _, h := range heads {
		needed[h.Activity] = true
		have := b.Snapshot().audiences[h.Activity]
		switch {
		case !h.needed():
			// Known to be there, so that nobody is told that a buyer is not on it.
			if have == nil || have.list != nil {
				b.setAudience(h.Activity, h.with(nil))
			}
		case !have.is(&h):
			if have == nil {
				b.setAudience(h.Activity, h.with(nil))
			}
			toRead = append(toRead, h)
		}
	}
	for activity := range b.Snapshot().audiences {
		if !needed[activity] {
			b.setAudience(activity, nil)
		}
	}
	b.setListless(asked, needed, change)
	for _, h := range toRead {
		read, err := b.readList(ctx, h)
		if err != nil {
			return fmt.Errorf("read the audience of activity %d: %w", h.Activity, err)
		}
		b.setAudience(h.Activity, h.with(read))
	}
	return nil
}

// setListless publishes that those have no list who were asked for and are not among the lists, unless lists have
// changed since: then they are about to be read again.
func (b *Board) setListless(asked, lists map[int64]bool, change uint64) {
	if len(asked) == 0 {
		return
	}
	current := false
	b.publish(func(s *Snapshot) {
		if current = b.changes.Load() == change; !current {
			return
		}
		s.listless = maps.Clone(s.listless)
		if s.listless == nil {
			s.listless = map[int64]bool{}
		}
		for id := range asked {
			if !lists[id] {
				s.listless[id] = true
			}
		}
	})
	if current {
		b.wanted.drop(asked)
	}
}

func (b *Board) readList(ctx context.Context, h AudienceHead) (*list, error) {
	read := newList(int(min(h.Count, BuyersMax)), int(min(h.Bytes, BuyersMax*(1+seckill.BuyerBytesMax))))
	err := b.within(ctx, 10, func(ctx context.Context) error {
		return b.o.Store.AudienceChunks(ctx, h.Activity, h.Version, read.addChunk)
	})
	if err == nil && (int64(read.n) != h.Count || int64(len(read.data)) != h.Bytes) {
		// Replaced meanwhile, most likely; then the next look finds the new one.
		err = fmt.Errorf("%d of %d buyers are there", read.n, h.Count)
	}
	return read, err
}
