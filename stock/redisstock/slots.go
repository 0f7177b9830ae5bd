package redisstock

import (
	"strconv"
	"sync"
)

// The masters of a cluster usually have a range of its slots each, of one length. So the sub-stocks of a
// run are put into slots that lie far apart: the slots are seen as twelve arcs, and a run goes
// through them in an order of its own. With 2, 3, 4, 6 or 12 masters, a number of sub-stocks that is
// a multiple of theirs is spread evenly, and any other number as evenly as can be told
// without knowing it: whoever looks for a sub-stock need not know how many there are.

const (
	slotsAll = 16384
	arcs     = 12
	// tagsMax bounds the tags that a process keeps in mind.
	tagsMax = 16384
)

// arcOrders are the orders of arcs. In each, the first so many are spread evenly over the halves,
// thirds, quarters, sixths and twelfths of all slots whenever they can be. They are part of the
// names of keys: a change loses the stock of each run that is split.
var arcOrders = [arcs][arcs]int{
	{0, 6, 10, 4, 9, 2, 3, 7, 11, 5, 8, 1},
	{1, 7, 11, 5, 3, 8, 10, 0, 4, 6, 9, 2},
	{2, 8, 4, 11, 0, 6, 5, 9, 1, 7, 10, 3},
	{3, 9, 7, 1, 5, 10, 0, 6, 8, 2, 11, 4},
	{4, 10, 2, 8, 1, 6, 11, 3, 7, 0, 9, 5},
	{5, 11, 2, 7, 9, 0, 3, 8, 4, 10, 1, 6},
	{6, 0, 10, 4, 3, 8, 9, 1, 5, 11, 2, 7},
	{7, 1, 11, 5, 9, 2, 4, 8, 0, 10, 6, 3},
	{8, 2, 5, 10, 6, 0, 11, 3, 7, 1, 4, 9},
	{9, 3, 7, 1, 11, 4, 6, 0, 8, 2, 5, 10},
	{10, 4, 2, 8, 7, 0, 5, 9, 1, 6, 3, 11},
	{11, 5, 1, 8, 3, 6, 9, 2, 4, 10, 7, 0},
}

// arcOf tells in which arc a sub-stock lies. The first one lies where chance puts the run.
func arcOf(first uint16, sub int) int {
	return arcOrders[int(first)*arcs/slotsAll][sub%arcs]
}

// inArc tells whether a slot lies well inside an arc, so that masters whose ranges are a little
// off make no difference.
func inArc(slot uint16, arc int) bool {
	const margin = arcs * 8 // An eighth at each end.
	at := int(slot)*margin - arc*8*slotsAll
	return at >= slotsAll && at < 7*slotsAll
}

// tags remembers tags, since to find one takes a dozen tries.
type tags struct {
	mu sync.RWMutex
	of map[place]string
}

// tag is the part of a key that decides its slot: {prefix:activity:run:sub-stock}, and behind the
// sub-stock the first number that brings it into its arc, for all but the first one.
func (s *Stock) tag(p place) string {
	s.tags.mu.RLock()
	tag, known := s.tags.of[p]
	s.tags.mu.RUnlock()
	if known {
		return tag
	}
	tag = makeTag(s.prefix, p)
	s.tags.mu.Lock()
	defer s.tags.mu.Unlock()
	if len(s.tags.of) >= tagsMax {
		clear(s.tags.of)
	}
	s.tags.of[p] = tag
	return tag
}

func makeTag(prefix string, p place) string {
	b := make([]byte, 0, 96)
	b = append(b, prefix...)
	b = append(b, ':')
	b = strconv.AppendInt(b, p.run.Activity, 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(p.run.Run), 10)
	b = append(b, ':')
	run := len(b)
	b = append(b, '0')
	if p.sub > 0 {
		arc := arcOf(slotOf(b), p.sub)
		b = strconv.AppendInt(b[:run], int64(p.sub), 10)
		b = append(b, ':')
		sub := len(b)
		for n := int64(1); ; n++ {
			if b = strconv.AppendInt(b[:sub], n, 10); inArc(slotOf(b), arc) {
				break
			}
		}
	}
	return "{" + string(b) + "}"
}

// slotOf is the slot of a tag: its CRC16 of the XMODEM kind, as the specification of Redis
// Cluster has it.
func slotOf(tag []byte) uint16 {
	var crc uint16
	for _, c := range tag {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slotsAll
}
