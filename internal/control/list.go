package control

import (
	"errors"
	"hash/maphash"

	"seckill"
)

const (
	// BuyersMax bounds an audience.
	BuyersMax = 5_000_000
	// chunkBytes is about how long one part of a list is in the database.
	chunkBytes = 256 << 10
)

var errMangled = errors.New("a list of buyers in the database is not what was stored")

// list is a set of buyers' ids that takes little more room than they do: all ids in one
// piece, each with a byte of length before it, and a hash table of where they begin. It is exact: the id
// itself is compared. Once it is filled it may be read concurrently.
type list struct {
	seed  maphash.Seed // Drawn by chance, so that nobody can make ids that collide.
	data  []byte
	slots []uint32 // A power of two of them; an offset in data, and one more. 0 is free.
	n     int
}

// newList makes room for so many buyers, whose packed ids take so many bytes.
func newList(buyers, bytes int) *list {
	l := &list{seed: maphash.MakeSeed(), data: make([]byte, 0, bytes)}
	size := 16
	for !roomy(buyers, size) {
		size *= 2
	}
	l.slots = make([]uint32, size)
	return l
}

// roomy tells whether so many of the slots may be taken. The emptier the table, the fewer ids
// are compared for a buyer who is not in it.
func roomy(taken, slots int) bool { return taken*8 <= slots*5 }

// add puts a buyer in, and tells whether it was not in already.
func (l *list) add(buyer string) bool {
	if !roomy(l.n+1, len(l.slots)) {
		l.grow()
	}
	i, found := l.find(buyer)
	if found {
		return false
	}
	l.slots[i] = uint32(len(l.data)) + 1
	l.data = append(append(l.data, byte(len(buyer))), buyer...)
	l.n++
	return true
}

// has tells whether a buyer is in the list.
func (l *list) has(buyer string) bool {
	_, found := l.find(buyer)
	return found
}

// find returns the slot of a buyer, or the one where it would go.
func (l *list) find(buyer string) (slot int, found bool) {
	mask := len(l.slots) - 1
	for i := int(maphash.String(l.seed, buyer)) & mask; ; i = (i + 1) & mask {
		at := l.slots[i]
		if at == 0 {
			return i, false
		}
		if id := l.data[at:]; int(l.data[at-1]) == len(buyer) && string(id[:len(buyer)]) == buyer {
			return i, true
		}
	}
}

func (l *list) grow() {
	l.slots = make([]uint32, 2*len(l.slots))
	for at := 0; at < len(l.data); at += 1 + int(l.data[at]) {
		l.place(at)
	}
}

// place finds a slot for an id in data that has none.
func (l *list) place(at int) {
	mask := len(l.slots) - 1
	i := int(maphash.Bytes(l.seed, l.data[at+1:at+1+int(l.data[at])])) & mask
	for l.slots[i] != 0 {
		i = (i + 1) & mask
	}
	l.slots[i] = uint32(at) + 1
}

// chunks cuts the packed ids for the database, between two ids.
func (l *list) chunks() (chunks [][]byte) {
	from := 0
	for at := 0; at < len(l.data); {
		at += 1 + int(l.data[at])
		if at-from >= chunkBytes || at == len(l.data) {
			chunks = append(chunks, l.data[from:at:at])
			from = at
		}
	}
	return chunks
}

// addChunk takes in what chunks made.
func (l *list) addChunk(chunk []byte) error {
	at := len(l.data)
	l.data = append(l.data, chunk...)
	for at < len(l.data) {
		size := int(l.data[at])
		if size == 0 || size > seckill.BuyerBytesMax || at+1+size > len(l.data) || l.n == BuyersMax {
			return errMangled
		}
		if !roomy(l.n+1, len(l.slots)) {
			return errMangled // More than it was made for.
		}
		l.place(at)
		l.n++
		at += 1 + size
	}
	return nil
}
