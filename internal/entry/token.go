package entry

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"time"

	"seckill"
)

// NonceBytes is the length of what makes a token one of its kind.
const NonceBytes = 16

// Nonce is what may be used once.
type Nonce [NonceBytes]byte

// A token is these bytes in base64 for URLs. Its length leaves no bits over, so that there is one way
// to write a token.
//
//	 0  version and flags
//	 2  tag of the key
//	 6  activity
//	14  run
//	18  when it was given, Unix milliseconds
//	26  how long it lives, milliseconds
//	30  nonce
//	46  SHA-256 of nonce and buyer, its first half
//	62  HMAC-SHA256 of all before, its first half
const (
	tokenVersion = 1
	flagProved   = 1 // It cost a proof.
	signedBytes  = 62
	tokenBytes   = signedBytes + macBytes
	macBytes     = 16
	tokenLength  = tokenBytes / 3 * 4
)

// pass is what a token says.
type pass struct {
	proved bool
	run    seckill.RunID
	given  time.Time
	life   time.Duration
	nonce  Nonce
	buyer  [16]byte
}

// buyerTag stands for a buyer beside a nonce.
func buyerTag(nonce []byte, buyer string) (tag [16]byte) {
	var room [NonceBytes + seckill.BuyerBytesMax]byte
	n := copy(room[:], nonce)
	n += copy(room[n:], buyer)
	sum := sha256.Sum256(room[:n])
	copy(tag[:], sum[:])
	return tag
}

func (r *Ring) sign(p pass, now time.Time) string {
	var b [tokenBytes]byte
	key := r.signing(now)
	b[0] = tokenVersion
	if p.proved {
		b[1] = flagProved
	}
	binary.BigEndian.PutUint32(b[2:], key.tag)
	binary.BigEndian.PutUint64(b[6:], uint64(p.run.Activity))
	binary.BigEndian.PutUint32(b[14:], uint32(p.run.Run))
	binary.BigEndian.PutUint64(b[18:], uint64(p.given.UnixMilli()))
	binary.BigEndian.PutUint32(b[26:], uint32(p.life.Milliseconds()))
	copy(b[30:], p.nonce[:])
	copy(b[46:], p.buyer[:])
	sum := key.token.sum(b[:signedBytes], "")
	copy(b[signedBytes:], sum[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// read believes nothing but the signature.
func (r *Ring) read(token string) (p pass, v Verdict) {
	if len(token) != tokenLength {
		return p, Malformed
	}
	var in [tokenLength]byte
	var b [tokenBytes]byte
	copy(in[:], token)
	// The decoder leaves out line breaks, and so says less than it should.
	if n, err := base64.RawURLEncoding.Decode(b[:], in[:]); err != nil || n != tokenBytes || b[0] != tokenVersion {
		return p, Malformed
	}
	key := r.find(binary.BigEndian.Uint32(b[2:]))
	if key == nil {
		return p, UnknownKey
	}
	sum := key.token.sum(b[:signedBytes], "")
	if subtle.ConstantTimeCompare(b[signedBytes:], sum[:macBytes]) == 0 {
		return p, BadSignature
	}
	p.proved = b[1] == flagProved
	p.run = seckill.RunID{Activity: int64(binary.BigEndian.Uint64(b[6:])), Run: int(binary.BigEndian.Uint32(b[14:]))}
	p.given = time.UnixMilli(int64(binary.BigEndian.Uint64(b[18:])))
	p.life = time.Duration(binary.BigEndian.Uint32(b[26:])) * time.Millisecond
	p.nonce = Nonce(b[30:46])
	p.buyer = [16]byte(b[46:62])
	return p, Good
}
