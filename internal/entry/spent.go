package entry

import (
	"hash/maphash"
	"time"

	"seckill"
)

// Spent refuses a pass that Use has used up on this node, unless by a purchase with the same
// idempotency key. It uses nothing up: a purchase that gets no unit may be tried again with its token.
func (d *Door) Spent(p Pass, key string, now time.Time) *seckill.Refusal {
	if d.tokens.used(p.Nonce[:], ownerOf(key), now) {
		return Used.Refusal()
	}
	return nil
}

// used tells whether id was used by another owner. An owner of 0 is another each time.
func (s *Seen) used(id []byte, owner uint64, now time.Time) bool {
	h := maphash.Bytes(s.seed, id)
	shard := &s.shards[h%seenShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if now.Sub(shard.began) > 2*s.life {
		return false
	}
	for _, half := range []map[uint64]uint64{shard.younger, shard.older} {
		if by, ok := half[h]; ok {
			return by != owner || owner == 0
		}
	}
	return false
}
