package control

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"seckill"
)

const (
	// automaticMax bounds the automatic blocks that the database does not know of yet.
	automaticMax = 10_000
	// automaticBatch is how many of them are written at once.
	automaticBatch = 500
)

// system is who makes automatic blocks.
const system = "system"

// automatic is the blocks that this node has made by itself and the database does not
// know of yet.
type automatic struct {
	mu      sync.Mutex
	waiting map[key]seckill.Block // Bounded by automaticMax.
	fresh   []key                 // Those that are not in the snapshot yet.
	arrived chan struct{}
}

// BlockFor blocks somebody for a while, for a reason that operators will read. It does not
// block itself: the block holds on this node within milliseconds, on all others and in the database
// within a second, or as soon as the database is back. It tells whether the block was taken:
// what is blocked for as long already needs none, and there may be too many.
func (b *Board) BlockFor(kind seckill.BlockKind, value string, d time.Duration, reason string) bool {
	value, wrong := Canonical(kind, value)
	if wrong != nil || d <= 0 {
		return false
	}
	now := time.Now()
	until := now.Add(d).UTC().Truncate(time.Microsecond)
	// One that is asked for again and again is not made longer each time.
	least := now.Add(d - d/4)
	k := key{kind, value}
	if have := b.Snapshot().blocks.get(k); have != nil && have.covers(least, now) {
		return false
	}
	a := &b.automatic
	a.mu.Lock()
	defer a.mu.Unlock()
	was, there := a.waiting[k]
	if there && !was.Until.Before(least) || !there && len(a.waiting) >= automaticMax {
		return false
	}
	if a.waiting == nil {
		a.waiting = map[key]seckill.Block{}
	}
	a.waiting[k] = seckill.Block{Kind: kind, Value: value, Until: until, Automatic: true, By: seckill.Actor{Who: system, Reason: strings.ToValidUTF8(reason, "?")}}
	a.fresh = append(a.fresh, k)
	wake(a.arrived)
	return true
}

// takeAutomatic puts what has arrived into the snapshot.
func (b *Board) takeAutomatic() {
	a := &b.automatic
	a.mu.Lock()
	taken := make(map[key]seckill.Block, len(a.fresh))
	for _, k := range a.fresh {
		if w, ok := a.waiting[k]; ok {
			taken[k] = w
		}
	}
	a.fresh = nil
	a.mu.Unlock()
	if len(taken) > 0 {
		b.publish(func(s *Snapshot) { s.blocks = over(s.blocks, taken) })
	}
	wake(b.nudged)
}

// over puts automatic blocks over those that do not hold as long.
func over(s *blocks, made map[key]seckill.Block) *blocks {
	now := time.Now()
	changes := map[key]*Block{}
	for k, m := range made {
		if have := s.get(k); have == nil || !have.covers(m.Until, now) {
			changes[k] = &Block{Kind: k.kind, Until: m.Until, value: k.value, automatic: true}
		}
	}
	if len(changes) == 0 {
		return s
	}
	return s.with(changes)
}

// onTop puts what the database does not know of yet over what was read from it.
func (a *automatic) onTop(s *blocks, all bool) *blocks {
	if !all {
		return s
	}
	a.mu.Lock()
	waiting := maps.Clone(a.waiting)
	a.mu.Unlock()
	return over(s, waiting)
}

// done forgets what the database knows, and was read from there. It tells whether others wait.
func (a *automatic) done(written []seckill.Block) (more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range written {
		// It may have been made anew meanwhile.
		if k := (key{w.Kind, w.Value}); a.waiting[k] == w {
			delete(a.waiting, k)
		}
	}
	return len(a.waiting) > 0
}

// writeAutomatic tells the database of some of what waits, and returns it.
func (b *Board) writeAutomatic(ctx context.Context) ([]seckill.Block, error) {
	a := &b.automatic
	a.mu.Lock()
	var batch []seckill.Block
	for k, w := range a.waiting {
		if !w.Until.After(time.Now()) {
			delete(a.waiting, k)
			continue
		}
		if batch = append(batch, w); len(batch) == automaticBatch {
			break
		}
	}
	a.mu.Unlock()
	if len(batch) == 0 {
		return nil, nil
	}
	err := b.within(ctx, 1, func(ctx context.Context) error {
		return b.o.Store.AddAutomaticBlocks(ctx, batch, seckill.Actor{Who: system})
	})
	if refusal := refused(err); refusal != nil {
		b.o.Log.Warn("control: automatic blocks were not taken", "blocks", len(batch), "reason", refusal.Detail)
		b.automatic.done(batch)
		return nil, nil //nolint:nilerr // It was no for good, and has been told.
	}
	return batch, err
}
