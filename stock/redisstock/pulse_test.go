package redisstock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"seckill/internal/testenv"
	"seckill/stock"
)

// pulses checks what a pulse says, and returns its beats.
func pulses(t *testing.T, s *Stock, epoch int64, strange bool) []int64 {
	t.Helper()
	beats, why, err := s.Pulse(t.Context(), testRun, epoch)
	if err != nil || (why != "") != strange {
		t.Fatalf("strange %q, %v; want strange %v", why, err, strange)
	}
	return beats
}

// A Redis that was started again may have an older state, whatever it says it has, until
// somebody knows better or loads the run anew.
func TestPulseFindsARestart(t *testing.T) {
	redis := testenv.Redis(t, testenv.RedisAOF...)
	s := open(t, redis.URL())
	load(t, s, 100, 4, 1)
	first := pulses(t, s, 1, false)
	second := pulses(t, twin(t, s, redis.URL()), 1, false) // Another process.
	for i := range first {
		if len(first) != 4 || second[i] <= first[i] {
			t.Errorf("beats %v, then %v", first, second)
		}
	}
	redis.Kill()
	redis.Start(t)
	for range 2 { // It is not forgotten by being told.
		pulses(t, s, 1, true)
	}
	if err := s.Trust(t.Context(), testRun, 1); err != nil {
		t.Fatal(err)
	}
	pulses(t, s, 1, false)
	redis.Kill()
	redis.Start(t)
	pulses(t, s, 1, true)
	now := time.Now()
	err := s.Load(t.Context(), stock.Spec{
		Run: testRun, Epoch: 2, Units: 100, Limit: 1, SubStocks: 4, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	pulses(t, s, 2, false)
	if _, _, err := s.Pulse(t.Context(), testRun, 1); !errors.Is(err, stock.ErrNotLoaded) {
		t.Errorf("of an earlier epoch: %v", err)
	}
	redis.Must(t, "FLUSHALL")
	if _, _, err := s.Pulse(t.Context(), testRun, 2); !errors.Is(err, stock.ErrNotLoaded) {
		t.Errorf("of a run that is lost: %v", err)
	}
}

// A slot that an operator moves takes all that it has along. What comes from elsewhere does not.
func TestPulseBearsAMovedSlot(t *testing.T) {
	cluster := testenv.RedisCluster(t, 3)
	s := open(t, cluster.URL())
	load(t, s, 100, 4, 1)
	pulses(t, s, 1, false)
	key := runKey(s.tag(place{testRun, 2}))
	from, slot := cluster.MasterOf(t, key)
	to := cluster.Masters[0]
	if to == from {
		to = cluster.Masters[1]
	}
	cluster.MoveSlot(t, slot, from, to, func(string) {})
	for range 2 {
		pulses(t, s, 1, false)
	}
	to.Must(t, "HSET", key, "v", strings.Repeat("0", 40))
	pulses(t, s, 1, true)
}

// Whoever may not ask a server who it is still counts.
func TestPulseWithoutRights(t *testing.T) {
	redis := testenv.Redis(t)
	redis.Must(t, "ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "+@all", "-@dangerous")
	s := open(t, strings.Replace(redis.URL(), "redis://", "redis://shop:secret@", 1))
	load(t, s, 100, 1, 1)
	first, second := pulses(t, s, 1, false), pulses(t, s, 1, false)
	if second[0] != first[0]+1 {
		t.Errorf("beats %v, then %v", first, second)
	}
}
