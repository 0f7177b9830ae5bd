package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/argon2"

	"seckill"
)

// What a new password is hashed with: 19 MiB, two passes, one lane. It takes some tens of
// milliseconds, so that the node goes on selling while somebody logs in.
const (
	memoryKiB = 19 << 10
	passes    = 2
	lanes     = 1
	saltBytes = 16
	hashBytes = 32
)

// What a stored password may ask for at most, so that a row of the database cannot take the node's memory.
const (
	memoryKiBMax = 64 << 10
	passesMax    = 10
	lanesMax     = 4
)

const (
	// hashesMax is how many passwords are hashed at a time: it bounds memory and processor.
	hashesMax = 2
	// waitersMax is how many logins wait for that; more are asked to come again.
	waitersMax = 32
)

// hasher hashes passwords with argon2id, few at a time.
type hasher struct {
	slots   chan struct{}
	waiting atomic.Int32
}

func newHasher() *hasher { return &hasher{slots: make(chan struct{}, hashesMax)} }

// settings are what a password was hashed with.
type settings struct {
	memory, passes uint32
	lanes          uint8
	salt, hash     []byte
}

// turn waits until it may hash, and returns how to let go.
func (h *hasher) turn(ctx context.Context) (done func(), err error) {
	if h.waiting.Add(1) > waitersMax {
		h.waiting.Add(-1)
		return nil, seckill.Refuse(seckill.Busy)
	}
	defer h.waiting.Add(-1)
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hash makes what is stored of a password.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	s := settings{memory: memoryKiB, passes: passes, lanes: lanes, salt: make([]byte, saltBytes)}
	rand.Read(s.salt)
	done, err := h.turn(ctx)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	defer done()
	s.hash = s.of(password, hashBytes)
	return s.String(), nil
}

// verify tells whether a password is the one that was stored.
func (h *hasher) verify(ctx context.Context, password, stored string) (bool, error) {
	s, err := parse(stored)
	if err != nil {
		return false, err
	}
	done, err := h.turn(ctx)
	if err != nil {
		return false, fmt.Errorf("check a password: %w", err)
	}
	defer done()
	return subtle.ConstantTimeCompare(s.of(password, len(s.hash)), s.hash) == 1, nil
}

func (s *settings) of(password string, size int) []byte {
	return argon2.IDKey([]byte(password), s.salt, s.passes, s.memory, s.lanes, uint32(size))
}

// String is the form in which such hashes are passed around everywhere.
func (s *settings) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, s.memory, s.passes, s.lanes, b64.EncodeToString(s.salt), b64.EncodeToString(s.hash))
}

// parse reads it again. Its errors do not hold what it read.
func parse(stored string) (s settings, err error) {
	wrong := fmt.Errorf("a stored password cannot be read; give the account a new one")
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return s, wrong
	}
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &s.memory, &s.passes, &s.lanes); err != nil || n != 3 {
		return s, wrong
	}
	b64 := base64.RawStdEncoding.Strict()
	var errSalt, errHash error
	s.salt, errSalt = b64.DecodeString(parts[4])
	s.hash, errHash = b64.DecodeString(parts[5])
	switch {
	case errSalt != nil || errHash != nil, len(s.salt) < 8, len(s.hash) < 16, len(s.hash) > 64,
		s.lanes < 1 || s.lanes > lanesMax, s.passes < 1 || s.passes > passesMax, s.memory < 8*uint32(s.lanes) || s.memory > memoryKiBMax:
		return s, wrong
	}
	return s, nil
}
