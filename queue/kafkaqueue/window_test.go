package kafkaqueue

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Only what has no gap below it is committed, in whatever order it is acknowledged.
func TestWindowMovesToTheFirstGap(t *testing.T) {
	w := newWindow(0, 10)
	var marks []*mark
	for offset := int64(10); offset < 15; offset++ {
		marks = append(marks, w.deliver(offset, 3))
	}
	for _, step := range []struct {
		ack  int
		next int64
	}{{1, 10}, {3, 10}, {0, 12}, {4, 12}, {2, 15}} {
		w.ack(marks[step.ack])
		if w.next != step.next {
			t.Errorf("after the acknowledgement of %d: got %d, want %d", 10+step.ack, w.next, step.next)
		}
	}
	if len(w.marks) != 0 || w.epoch != 3 || w.committed != 10 {
		t.Errorf("got %d marks, epoch %d, committed %d, want 0, 3 and still 10", len(w.marks), w.epoch, w.committed)
	}
}

// Offsets that are not there, as after a compaction or a transaction, are no gap.
func TestWindowStepsOverMissingOffsets(t *testing.T) {
	w := newWindow(0, 0)
	first, second := w.deliver(4, -1), w.deliver(9, -1)
	w.ack(first)
	w.ack(second)
	if w.next != 10 {
		t.Errorf("got %d, want 10", w.next)
	}
}

// A partition that has lost its end goes on from an earlier offset: what was known of the
// lost records says nothing about those that took their place.
func TestWindowBeginsAnewWhenThePartitionGoesBack(t *testing.T) {
	w := newWindow(0, 0)
	w.ack(w.deliver(0, 1))
	lost := w.deliver(1, 1)
	w.ack(w.deliver(2, 1))
	again := w.deliver(0, 2)
	w.ack(lost)
	if w.next != 0 || w.committed != 0 {
		t.Fatalf("got next %d, committed %d, want to begin at 0", w.next, w.committed)
	}
	w.ack(again)
	w.ack(w.deliver(1, 2))
	if w.next != 2 || w.epoch != 2 {
		t.Errorf("got next %d of epoch %d, want 2 of 2", w.next, w.epoch)
	}
}

// Whatever the order: next is the lowest offset that is not acknowledged.
func TestWindowAgreesWithAList(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	w, acked := newWindow(0, 0), []bool{}
	var open []*mark
	for range 2000 {
		if dice.IntN(2) == 0 {
			open = append(open, w.deliver(int64(len(acked)), 0))
			acked = append(acked, false)
		} else if len(open) > 0 {
			i := dice.IntN(len(open))
			acked[open[i].offset] = true
			w.ack(open[i])
			open = append(open[:i], open[i+1:]...)
		}
		want := int64(0)
		for want < int64(len(acked)) && acked[want] {
			want++
		}
		if w.next != want {
			t.Fatalf("got %d, want %d", w.next, want)
		}
	}
}

// The same trouble is told once in a while, each of two at once.
func TestTroublesAreToldSparingly(t *testing.T) {
	told := newTroubles(nil)
	if !told.again("a") || told.again("a") || !told.again("b") {
		t.Error("want the first of each, and no second")
	}
	told.told["a"] = time.Now().Add(-warnEvery)
	if !told.again("a") {
		t.Error("what still is wrong after a while is not told again")
	}
}
