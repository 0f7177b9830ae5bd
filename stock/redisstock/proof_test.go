package redisstock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
)

// Each give, take, release and restock moves the counter of its sub-stock, and nothing else
// does: it is what tells that something came back behind a reader.
func TestCounterMoves(t *testing.T) {
	s := open(t, testenv.Redis(t).URL())
	load(t, s, 10, 2, 5)
	sp, err := s.split(t.Context(), testRun)
	if err != nil {
		t.Fatal(err)
	}
	before := []int64{0, 0}
	moved := func(what string, want ...int64) {
		t.Helper()
		all, err := s.statuses(t.Context(), testRun, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i, now := range all.counters() {
			if got := now - before[i]; got != want[i] {
				t.Errorf("%s: counter %d moved by %d, want %d", what, i, got, want[i])
			}
		}
		before = all.counters()
	}
	moved("nothing", 0, 0)
	parcels, err := s.give(t.Context(), sp, 0, 1, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	moved("give", 1, 0)
	for i := range 2 {
		if err := s.take(t.Context(), sp, 1, map[int][]parcel{0: parcels}); err != nil {
			t.Fatal(err)
		}
		moved("take, and again", 0, int64(1-i))
	}
	a := attempt(buyerAt(1, 2), 1)
	ask(t, s, a)
	moved("a sale", 0, 0)
	for i := range 2 {
		if _, err := s.Settle(t.Context(), []stock.Settlement{{Run: testRun, Ticket: a.Ticket, Buyer: a.Buyer, Failed: seckill.SoldOut}}); err != nil {
			t.Fatal(err)
		}
		moved("release, and again", 0, int64(1-i))
	}
	for i := range 2 {
		if _, err := s.Restock(t.Context(), testRun, 2, 1); err != nil {
			t.Fatal(err)
		}
		moved("restock, and again", int64(1-i), 0)
	}
}

// However a unit moves behind a reader who goes from one sub-stock to the next, two looks
// never prove that there is none.
func TestNoProofWhileAUnitMoves(t *testing.T) {
	s := open(t, testenv.Redis(t).URL())
	const subs = 4
	load(t, s, 1, subs, 1)
	sp, err := s.split(t.Context(), testRun)
	if err != nil {
		t.Fatal(err)
	}
	at, empty, ended := 0, 0, false
	hop := func() {
		to := rand.IntN(subs)
		if to == at {
			return
		}
		all, err := s.statuses(t.Context(), testRun, subs)
		if err != nil {
			t.Fatal(err)
		}
		parcels, err := s.give(t.Context(), sp, at, to, 1, all[to].marks[at])
		if err == nil {
			err = s.take(t.Context(), sp, to, map[int][]parcel{at: parcels})
		}
		if err != nil {
			t.Fatal(err)
		}
		at = to
	}
	look := func() statuses {
		all := make(statuses, subs)
		for i := range all {
			if rand.IntN(2) == 0 && !ended {
				hop()
			}
			a := s.doAll(t.Context(), []call{s.statusCall(place{testRun, i})})[0]
			if err := all[i].read(a); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	for range 1000 {
		first, second := look(), look()
		if first.total() == 0 {
			empty++
			if second.proves(first.counters()) {
				t.Fatalf("proved that nothing is left, but the unit is at %d", at)
			}
		}
	}
	if empty == 0 {
		t.Error("the unit never moved behind the reader, and nothing was tried")
	}
	ended = true
	if first := look(); !look().proves(first.counters()) || first.total() != 1 {
		t.Error("what does not move is not proved")
	}
}

// Whoever asks after a unit came back is not answered by a proof that began before.
func TestProofIsNotOlderThanTheQuestion(t *testing.T) {
	redis := testenv.Redis(t)
	const subs = 4
	s := open(t, redis.URL())
	load(t, s, 0, subs, 1)
	looked, proved, goOn := 0, make(chan struct{}), make(chan struct{})
	s.interrupt = func(at string) error {
		if at == "looked" {
			if looked++; looked == 2 {
				close(proved)
				<-goOn
			}
		}
		return nil
	}
	buyer, later := buyerAt(1, subs), buyerAt(1, subs)+"x"
	for home(later, subs) != 1 {
		later += "x"
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		ds, err := s.Reserve(t.Context(), testRun, 1, []seckill.Attempt{attempt(buyer, 1)})
		if err != nil || ds[0].Verdict != stock.Short || ds[0].Left != 0 {
			t.Errorf("got %+v, %v, want sold out", ds, err)
		}
	})
	<-proved
	if did, err := s.Restock(t.Context(), testRun, 2, 1); err != nil || did != 1 {
		t.Fatalf("restock: %d, %v", did, err)
	}
	wait.Go(func() {
		ds, err := s.Reserve(t.Context(), testRun, 1, []seckill.Attempt{attempt(later, 1)})
		if err != nil || ds[0].Verdict != stock.Taken {
			t.Errorf("got %+v, %v, want the unit that came back", ds, err)
		}
	})
	// The second one waits for the first one's fetch by now, or will find it over.
	<-time.After(50 * time.Millisecond)
	close(goOn)
	wait.Wait()
}
