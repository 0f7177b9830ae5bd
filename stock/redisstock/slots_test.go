package redisstock

import (
	"fmt"
	"testing"

	"seckill"
	"seckill/internal/testenv"
)

// A slot is what Redis takes it for, and the order of arcs is never another one: the keys of
// runs that are loaded depend on it.
func TestSlotIsThatOfRedis(t *testing.T) {
	node := testenv.RedisCluster(t, 3).Masters[0]
	for i := range 50 {
		p := place{seckill.RunID{Activity: int64(1000 + i), Run: 1 + i%7}, i}
		tag := makeTag("seckill", p)
		want := node.Must(t, "CLUSTER", "KEYSLOT", runKey(tag)).(int64)
		if got := slotOf([]byte(tag[1 : len(tag)-1])); int64(got) != want {
			t.Errorf("%s: got slot %d, want %d", tag, got, want)
		}
	}
	run := seckill.RunID{Activity: 42, Run: 7}
	got := fmt.Sprint(makeTag("seckill", place{run, 0}), makeTag("seckill", place{run, 1}), makeTag("seckill", place{run, 23}))
	if want := "{seckill:42:7:0}{seckill:42:7:1:1}{seckill:42:7:23:23}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The sub-stocks of a run, as many as a multiple of the masters, are spread evenly over masters that
// have equal ranges of slots, whatever the run.
func TestSubStocksLieApart(t *testing.T) {
	for run := range 300 {
		id := seckill.RunID{Activity: int64(1 + run), Run: 1 + run%5}
		for _, masters := range []int{2, 3, 4, 6, 12} {
			counts := make([]int, masters)
			for sub := range 48 {
				tag := makeTag("shop", place{id, sub})
				counts[int(slotOf([]byte(tag[1:len(tag)-1])))*masters/slotsAll]++
				if (sub+1)%masters != 0 {
					continue
				}
				for m, n := range counts {
					if n != (sub+1)/masters {
						t.Fatalf("%v: master %d of %d has %d of %d sub-stocks", id, m+1, masters, n, sub+1)
					}
				}
			}
		}
	}
}
