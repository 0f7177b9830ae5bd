package entry

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func idOf(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// What was used is known for its life, with new uses coming all the time, and in the end is forgotten.
func TestSeenKnowsForALife(t *testing.T) {
	s := NewSeen(time.Minute, 1<<20)
	for i := range 600 { // Ten minutes.
		now := start.Add(time.Duration(i) * time.Second)
		if !s.Use(idOf(i), 0, now) {
			t.Fatalf("use %d was known before", i)
		}
		for _, age := range []int{0, 1, 30, 60} {
			if i >= age && s.Use(idOf(i-age), 0, now) {
				t.Fatalf("use %d was forgotten after %d s", i-age, age)
			}
		}
	}
	// The halves of each shard go with the next use in it.
	for i := range 10_000 {
		s.Use(idOf(1e6+i), 0, start.Add(time.Hour))
	}
	if !s.Use(idOf(599), 0, start.Add(time.Hour)) || s.Len() != 10_001 || s.Forgotten() != 0 {
		t.Errorf("%d are known, %d forgotten", s.Len(), s.Forgotten())
	}
}

// However much is used, no more is remembered than was said; that is counted, and the newest stay.
func TestSeenIsBounded(t *testing.T) {
	s := NewSeen(time.Minute, 64*1024)
	for i := range 1_000_000 {
		if !s.Use(idOf(i), 0, start) {
			t.Fatalf("use %d was known before", i)
		}
	}
	if n := s.Len(); n > 64*1024 || n < 30*1024 {
		t.Errorf("%d are known", n)
	}
	if got := s.Forgotten() + int64(s.Len()); got != 1_000_000 {
		t.Errorf("%d are forgotten or known", got)
	}
	for i := 990_000; i < 1_000_000; i++ {
		if s.Use(idOf(i), 0, start) {
			t.Fatalf("use %d was forgotten", i)
		}
	}
}

// Of many who use one thing at once, one does.
func TestSeenLetsOneThrough(t *testing.T) {
	s := NewSeen(time.Minute, 1<<20)
	var all sync.WaitGroup
	var first atomic.Int64
	for range 8 {
		all.Go(func() {
			for i := range 10_000 {
				if s.Use(idOf(i), 0, start) {
					first.Add(1)
				}
			}
		})
	}
	all.Wait()
	if first.Load() != 10_000 {
		t.Errorf("got %d", first.Load())
	}
}
