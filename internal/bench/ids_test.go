package bench

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"seckill"
)

// Ids are valid, all different, the same again for the same seed, and not 1 to N.
func TestIDs(t *testing.T) {
	forms := map[bool]*regexp.Regexp{
		false: regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
		true:  regexp.MustCompile(`^[0-9]{1,13}$`),
	}
	for scattered, form := range forms {
		d := ids{seed: 42, scattered: scattered}
		seen, small := map[string]bool{}, 0
		for n := range int64(20_000) {
			id := string(d.buyer(nil, n))
			if !form.MatchString(id) || !seckill.ValidBuyer(id) || seen[id] {
				t.Fatalf("scattered %t, number %d: got %q", scattered, n, id)
			}
			seen[id] = true
			if len(id) <= 5 {
				small++
			}
		}
		if again := string(d.buyer(nil, 7)); !seen[again] || string((ids{seed: 43, scattered: scattered}).buyer(nil, 7)) == again {
			t.Errorf("scattered %t: %q is not the seed's", scattered, again)
		}
		if small > 100 {
			t.Errorf("scattered %t: %d of 20000 ids are small numbers", scattered, small)
		}
	}
}

// Whatever the schedule, times do not fall, and in a rush all clicks are within it.
func TestSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &run{}
		b.Buyers, b.Clicks = rapid.Int64Range(1, 1000).Draw(t, "buyers"), rapid.IntRange(1, 5).Draw(t, "clicks")
		b.planned = b.Buyers * int64(b.Clicks)
		if rapid.Bool().Draw(t, "rush") {
			b.Rush = 1_000_000_000
		} else {
			b.Rate = rapid.Float64Range(0.1, 1e6).Draw(t, "rate")
		}
		made := map[int64]int{}
		last := b.due(0)
		for n := range b.planned {
			if b.due(n) < last || b.Rush > 0 && b.due(n) > b.Rush {
				t.Fatalf("click %d is due at %v after %v", n, b.due(n), last)
			}
			last = b.due(n)
			made[b.whose(n)]++
		}
		for buyer := range b.Buyers {
			if made[buyer] != b.Clicks {
				t.Fatalf("buyer %d has %d clicks, want %d", buyer, made[buyer], b.Clicks)
			}
		}
	})
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := Thousands(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A long timeline is joined without losing a request.
func TestThinLosesNothing(t *testing.T) {
	var points []Point
	for i := range 1000 {
		points = append(points, Point{At: float64(i), Errors: 1, Outcomes: map[string]int64{"accepted": int64(i)}})
	}
	got := thin(points)
	var errors, accepted int64
	for _, p := range got {
		errors, accepted = errors+p.Errors, accepted+p.Outcomes["accepted"]
	}
	if len(got) > pointsMax || errors != 1000 || accepted != 499_500 || got[len(got)-1].At != 999 {
		t.Errorf("got %d points, %d errors, %d accepted", len(got), errors, accepted)
	}
	short := thin([]Point{{At: 1, Errors: 1}, {At: 2, Errors: 1}, {At: 2.01, Errors: 1}})
	if len(short) != 2 || short[1].At != 2.01 || short[1].Errors != 2 {
		t.Errorf("got %+v, want the rest of an interval joined to the one before", short)
	}
}
