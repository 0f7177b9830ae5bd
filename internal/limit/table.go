package limit

import (
	"sync"
	"unsafe"
)

// setCells is how many cells share a lock and two cache lines of 64 bytes.
const (
	setCells = 7
	setBytes = int(unsafe.Sizeof(set{}))
)

// set holds the keys whose first bits are its number.
type set struct {
	mu    sync.Mutex
	_     [8]byte
	cells [setCells]cell
}

// cell is what is known of one key.
type cell struct {
	key uint64
	// word is the time at which the key's debt is paid (the theoretical arrival time of GCRA),
	// and in its low bits the streak: how many requests came faster than one gateway's share.
	word uint64
}

func (c cell) time() int64    { return int64(c.word &^ streakMax) }
func (c cell) streak() uint64 { return c.word & streakMax }

// find returns the key's cell, or else the one with the least debt. An empty cell is that of key 0 without
// debt, which is as good as none.
func (s *set) find(key uint64) (i int, known bool) {
	least := ^uint64(0)
	for j := range s.cells {
		c := &s.cells[j]
		if c.key == key {
			return j, true
		}
		if c.word < least {
			i, least = j, c.word
		}
	}
	return i, false
}
