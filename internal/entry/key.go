package entry

import (
	"cmp"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of keys.
const (
	SecretBytesMin = 16
	KeysMax        = 64 // In a ring.
)

// Key is a secret that all nodes share. What signs is derived from it, for each purpose
// apart.
type Key struct {
	ID        string // Tells it from the others. Not secret.
	Secret    []byte // At least 16 bytes.
	NotBefore time.Time
}

// String leaves out the secret, also where a key is printed by mistake.
func (k Key) String() string { return "key " + k.ID }

// GoString does as well.
func (k Key) GoString() string { return k.String() }

// NewKey makes a key that signs from notBefore on.
func NewKey(notBefore time.Time) Key {
	k := Key{Secret: make([]byte, 32), NotBefore: notBefore}
	var id [8]byte
	rand.Read(k.Secret)
	rand.Read(id[:])
	k.ID = hex.EncodeToString(id[:])
	return k
}

// KeysOf makes keys of secrets that an operator gives: the first signs, all of them are believed. To
// change it without refusing anybody, give the new one second to all nodes, then first, and
// take out the old one when the tokens that it signed have expired.
func KeysOf(secrets ...string) []Key {
	keys := make([]Key, len(secrets))
	for i, s := range secrets {
		sum := sha256.Sum256([]byte("seckill key id\x00" + s))
		keys[i] = Key{ID: hex.EncodeToString(sum[:8]), Secret: []byte(s), NotBefore: time.Unix(int64(len(secrets)-i), 0)}
	}
	return keys
}

// Rotation says when keys change. Zero fields take the defaults.
type Rotation struct {
	Every time.Duration // How long a key signs, 24 h; from 1 h.
	Ahead time.Duration // How long before it signs all nodes are to know it, 5 min.
	Keep  time.Duration // How long one that signs no more is still believed, 2 h: longer than any token lives.
}

// Rotate returns the keys as they have to be now, and whether that is a change to be
// stored. Whoever stores it must see to it that only one of several nodes does.
func Rotate(keys []Key, now time.Time, r Rotation) (next []Key, changed bool) {
	r.Every = max(cmp.Or(r.Every, 24*time.Hour), time.Hour)
	r.Ahead = cmp.Or(r.Ahead, 5*time.Minute)
	r.Keep = cmp.Or(r.Keep, 2*time.Hour)
	next = slices.Clone(keys)
	slices.SortStableFunc(next, func(a, b Key) int { return a.NotBefore.Compare(b.NotBefore) })
	for len(next) > 1 && now.Sub(next[1].NotBefore) > r.Keep {
		next, changed = next[1:], true
	}
	if len(next) == 0 {
		return []Key{NewKey(now)}, true
	}
	newest := next[len(next)-1].NotBefore
	if begin := newest.Add(r.Every); !now.Before(begin.Add(-r.Ahead)) {
		if soonest := now.Add(r.Ahead); begin.Before(soonest) {
			begin = soonest
		}
		next, changed = append(next, NewKey(begin)), true
	}
	return next, changed
}

// Ring holds the keys that are believed, and can be given others while it is used.
type Ring struct {
	keys atomic.Pointer[[]*ringKey] // By NotBefore, the newest first.
}

// ringKey is a key, ready for use.
type ringKey struct {
	tag       uint32 // Names the key in what it signs.
	notBefore time.Time
	token     *mac
	proof     *mac
}

// NewRing makes a ring of at least one key.
func NewRing(keys ...Key) (*Ring, error) {
	r := &Ring{}
	if err := r.Set(keys...); err != nil {
		return nil, err
	}
	return r, nil
}

// Set puts other keys in place of those that there are.
func (r *Ring) Set(keys ...Key) error {
	if len(keys) == 0 || len(keys) > KeysMax {
		return fmt.Errorf("there must be 1 to %d keys", KeysMax)
	}
	next := make([]*ringKey, 0, len(keys))
	for _, k := range keys {
		if len(k.Secret) < SecretBytesMin {
			return fmt.Errorf("the secret of %v has less than %d bytes", k, SecretBytesMin)
		}
		sum := sha256.Sum256([]byte(k.ID))
		key := &ringKey{tag: binary.BigEndian.Uint32(sum[:]), notBefore: k.NotBefore}
		var err, err2 error
		key.token, err = newMac(k.Secret, "seckill entry token 1")
		key.proof, err2 = newMac(k.Secret, "seckill proof of work 1")
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("derive from %v: %w", k, err)
		}
		if slices.ContainsFunc(next, func(other *ringKey) bool { return other.tag == key.tag }) {
			return fmt.Errorf("%v is there twice", k)
		}
		next = append(next, key)
	}
	slices.SortStableFunc(next, func(a, b *ringKey) int { return b.notBefore.Compare(a.notBefore) })
	r.keys.Store(&next)
	return nil
}

// signing is the newest key whose time has come; the oldest, if none has.
func (r *Ring) signing(now time.Time) *ringKey {
	keys := *r.keys.Load()
	for _, k := range keys {
		if !now.Before(k.notBefore) {
			return k
		}
	}
	return keys[len(keys)-1]
}

// find believes a key before its time too: the clock of the node that signed may be ahead.
func (r *Ring) find(tag uint32) *ringKey {
	for _, k := range *r.keys.Load() {
		if k.tag == tag {
			return k
		}
	}
	return nil
}

// signedBytesMax bounds what one signature covers.
const signedBytesMax = 512

// mac is HMAC-SHA256 with a key, of which many may be under way.
type mac struct{ pool sync.Pool }

type macRoom struct {
	hash hash.Hash
	in   [signedBytesMax]byte
	out  [sha256.Size]byte
}

func newMac(secret []byte, purpose string) (*mac, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, sha256.Size)
	if err != nil {
		return nil, err
	}
	m := &mac{}
	m.pool.New = func() any { return &macRoom{hash: hmac.New(sha256.New, key)} }
	return m, nil
}

// sum signs head and tail as one; together they must fit into signedBytesMax.
func (m *mac) sum(head []byte, tail string) [sha256.Size]byte {
	room := m.pool.Get().(*macRoom)
	n := copy(room.in[:], head)
	if n += copy(room.in[n:], tail); n != len(head)+len(tail) {
		panic("entry: too much to sign")
	}
	room.hash.Reset()
	room.hash.Write(room.in[:n])
	room.hash.Sum(room.out[:0])
	sum := room.out
	m.pool.Put(room)
	return sum
}
