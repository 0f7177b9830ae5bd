package entry

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const seenShards = 64

// Seen remembers for a time what was used on this node, up to so many. When there are more, the
// oldest are forgotten: the stock still refuses them. It may be used concurrently.
type Seen struct {
	seed      maphash.Seed
	life      time.Duration
	half      int // How many a shard remembers in one of its halves.
	forgotten atomic.Int64
	shards    [seenShards]seenShard
}

// seenShard has two halves. New ones go into the younger; when that is full, or as old as
// what is in it has to live, the older one is dropped.
type seenShard struct {
	mu      sync.Mutex
	began   time.Time // Of the younger half.
	younger map[uint64]uint64
	older   map[uint64]uint64
}

// NewSeen remembers at least life long, and up to usesMax uses.
func NewSeen(life time.Duration, usesMax int) *Seen {
	return &Seen{seed: maphash.MakeSeed(), life: life, half: max(1, usesMax/2/seenShards)}
}

// Use tells whether id was not used before, or by the same owner. An owner of 0 is never the same.
func (s *Seen) Use(id []byte, owner uint64, now time.Time) bool {
	h := maphash.Bytes(s.seed, id)
	shard := &s.shards[h%seenShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if age := now.Sub(shard.began); age > s.life || len(shard.younger) >= s.half {
		if age <= s.life { // The older half may still be needed.
			s.forgotten.Add(int64(len(shard.older)))
		}
		if age > 2*s.life {
			shard.younger = nil
		}
		shard.older, shard.younger, shard.began = shard.younger, make(map[uint64]uint64), now
	}
	for _, half := range []map[uint64]uint64{shard.younger, shard.older} {
		if by, used := half[h]; used {
			return by == owner && owner != 0
		}
	}
	shard.younger[h] = owner
	return true
}

// Forgotten counts what was forgotten too early.
func (s *Seen) Forgotten() int64 { return s.forgotten.Load() }

// Len is how many uses are remembered.
func (s *Seen) Len() (n int) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		n += len(shard.younger) + len(shard.older)
		shard.mu.Unlock()
	}
	return n
}
