package limit

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"unsafe"
)

// Keys makes the keys of a limiter, by a hash with a secret (SipHash-2-4): without
// the secret nobody can find two names with one key, or aim at a place in the
// table, and Redis does not learn the names.
type Keys struct{ k0, k1 uint64 }

// NewKeys makes Keys of a secret. Gateways that share limits need the same one. Without a
// secret, each process has its own.
func NewKeys(secret []byte) Keys {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		rand.Read(secret)
	}
	sum := sha256.Sum256(append([]byte("seckill rate limits\x00"), secret...))
	return Keys{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
}

// Addr is the key of a client address: of one address of IPv4, or of one network /64 of IPv6, as
// whoever has one address there has all of them.
func (k Keys) Addr(a netip.Addr) uint64 {
	a = a.Unmap()
	if a.Is4() {
		b := a.As4()
		return k.hash(b[:])
	}
	b := a.As16()
	return k.hash(b[:8])
}

// String is the key of a buyer or a device.
func (k Keys) String(s string) uint64 {
	return k.hash(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// hash is SipHash-2-4.
func (k Keys) hash(p []byte) uint64 {
	v0, v1 := k.k0^0x736f6d6570736575, k.k1^0x646f72616e646f6d
	v2, v3 := k.k0^0x6c7967656e657261, k.k1^0x7465646279746573
	last := uint64(len(p)) << 56
	for len(p) >= 8 {
		m := binary.LittleEndian.Uint64(p)
		p = p[8:]
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	for i, c := range p {
		last |= uint64(c) << (8 * i)
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	for range 4 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (a, b, c, d uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
