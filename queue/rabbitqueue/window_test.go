package rabbitqueue

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever is acknowledged in whatever order, the broker hears exactly that: nothing is
// covered by a multiple acknowledgement that was not acknowledged, and nothing is left out.
func TestWindowSettlesExactlyWhatItIsTold(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		var w window
		broker := map[uint64]bool{} // Not acknowledged, as the broker has it.
		ours := map[uint64]bool{}   // Not acknowledged, as the consumer has it.
		next := uint64(1)
		for range 100 {
			for range dice.IntN(5) {
				w.add(next, time.Time{})
				broker[next], ours[next] = true, true
				next++
			}
			var tags []uint64
			for range dice.IntN(6) {
				tag := 1 + dice.Uint64N(next+2) // Also what was acknowledged before, or was never there.
				tags = append(tags, tag)
				if tag < next {
					delete(ours, tag)
				}
			}
			upTo, single := w.settle(tags)
			for tag := uint64(1); tag <= upTo; tag++ {
				delete(broker, tag)
			}
			for _, tag := range single {
				if !broker[tag] {
					t.Fatalf("seed %d: %d is acknowledged twice: that ends the channel", seed, tag)
				}
				delete(broker, tag)
			}
			if len(broker) != len(ours) || w.count != len(ours) {
				t.Fatalf("seed %d: the broker waits for %d, the window counts %d, the consumer has %d", seed, len(broker), w.count, len(ours))
			}
			for tag := range ours {
				if !broker[tag] || !w.has([]uint64{tag}) {
					t.Fatalf("seed %d: %d is lost", seed, tag)
				}
			}
		}
	}
}
