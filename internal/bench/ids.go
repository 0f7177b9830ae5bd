package bench

import (
	"encoding/hex"
	"strconv"
)

// ids makes the buyers of a run out of their numbers, so that a million of them take
// no memory. They are never 1 to N: a server that spreads buyers by a hash would be
// flattered by that, and a key space that is dense is one that nobody has.
type ids struct {
	seed      uint64
	scattered bool
}

// buyer n of the run, appended to dst. Two numbers never give the same scattered id, and
// a random UUID twice with a chance that may be neglected.
func (d ids) buyer(dst []byte, n int64) []byte {
	if d.scattered {
		// A bijection of the numbers below 2^40: an odd factor, and a shift by the seed.
		const mask = 1<<40 - 1
		return strconv.AppendUint(dst, (uint64(n)*0x9E3779B97F4A7C15+d.seed)&mask, 10)
	}
	var b [16]byte
	hi, lo := mix(d.seed+2*uint64(n)*0x9E3779B97F4A7C15), mix(d.seed+(2*uint64(n)+1)*0x9E3779B97F4A7C15)
	for i := range 8 {
		b[i], b[8+i] = byte(hi>>(8*i)), byte(lo>>(8*i))
	}
	b[6] = b[6]&0x0f | 0x40 // Version 4, variant 1 of RFC 9562.
	b[8] = b[8]&0x3f | 0x80
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
