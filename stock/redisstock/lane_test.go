package redisstock

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
)

// scriptCalls counts the calls of scripts that a server was asked for.
func scriptCalls(t *testing.T, redis *testenv.RedisServer) int {
	t.Helper()
	m := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(redis.Must(t, "INFO", "commandstats").(string))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// firstAt is a buyer of a sub-stock who is not the one of buyerAt.
func firstAt(sub, subs int) string {
	for i := 0; ; i++ {
		if b := fmt.Sprintf("first-%d-%d", sub, i); home(b, subs) == sub {
			return b
		}
	}
}

// occupy has one call under way at each sub-stock of a Redis that is paused.
func occupy(t *testing.T, s *Stock, wait *sync.WaitGroup, subs int) {
	t.Helper()
	for sub := range subs {
		wait.Go(func() { _, _ = s.Reserve(t.Context(), testRun, 1, []seckill.Attempt{attempt(firstAt(sub, subs), 1)}) })
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		s.lanes.mu.Lock()
		flying := 0
		for _, l := range s.lanes.lanes {
			if len(l.waiting) == 0 {
				flying += l.flying
			}
		}
		s.lanes.mu.Unlock()
		if flying == subs {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls are under way, want %d", flying, subs)
		}
		<-time.After(time.Millisecond)
	}
}

// awaitWaiting waits until so many attempts wait in lanes.
func awaitWaiting(t *testing.T, s *Stock, want int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		s.lanes.mu.Lock()
		got := 0
		for _, l := range s.lanes.lanes {
			got += l.attempts
		}
		s.lanes.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait, want %d", got, want)
		}
		<-time.After(time.Millisecond)
	}
}

// What waits while a call to a sub-stock is under way goes in one call then, whoever asked, and each
// hears what is his: his ticket, his place, what he has already, or that he has too much.
func TestLaneGroupsWhatWaits(t *testing.T) {
	redis := testenv.Redis(t)
	s := open(t, redis.URL(), func(o *Options) { o.CallTimeout = 20 * time.Second })
	const subs, callers = 2, 18 // All of them are too few for another call beside the one under way.
	load(t, s, 1000, subs, 1)
	had := ask(t, s, attempt(buyerAt(0, subs), 1))
	before := scriptCalls(t, redis)
	redis.Pause()
	var wait sync.WaitGroup
	occupy(t, s, &wait, subs)
	got := make([][]stock.Decision, callers)
	asked := make([][]seckill.Attempt, callers)
	for c := range callers {
		asked[c] = []seckill.Attempt{
			attempt(fmt.Sprintf("%d a", c), 1), attempt(buyerAt(0, subs), 1), attempt(fmt.Sprintf("%d b", c), 1), attempt(fmt.Sprintf("%d a", c), 1),
			{Ticket: had.Ticket, Buyer: buyerAt(0, subs), Quantity: 1},
		}
		wait.Go(func() {
			var err error
			if got[c], err = s.Reserve(t.Context(), testRun, 1, asked[c]); err != nil {
				t.Error(err)
			}
		})
	}
	awaitWaiting(t, s, 5*callers)
	redis.Resume()
	wait.Wait()
	for c, ds := range got {
		want := []stock.Verdict{stock.Taken, stock.OverLimit, stock.Taken, stock.OverLimit, stock.Known}
		tickets := []string{asked[c][0].Ticket, had.Ticket, asked[c][2].Ticket, asked[c][0].Ticket, had.Ticket}
		for i, d := range ds {
			if d.Verdict != want[i] || d.Ticket != tickets[i] {
				t.Errorf("caller %d, attempt %d: got %+v, want verdict %d and ticket %s", c, i, d, want[i], tickets[i])
			}
		}
	}
	// Each that was taken has a place of its own in front of its home.
	for home, places := range placesByHome(asked, got, subs) {
		slices.Sort(places)
		if distinct := slices.Compact(slices.Clone(places)); len(distinct) != len(places) || len(places) == 0 {
			t.Errorf("at sub-stock %d so many are in front: %v", home, places)
		}
	}
	if calls := scriptCalls(t, redis) - before; calls > 2*subs {
		t.Errorf("%d calls for %d callers at %d sub-stocks", calls, callers, subs)
	}
	awaitWaiting(t, s, 0)
	// Those of one call are in its order, whatever they were grouped with.
	rs, err := s.Queued(t.Context(), testRun, "", 1000)
	if err != nil || len(rs) != 1+subs+2*callers {
		t.Fatalf("%d are queued, %v", len(rs), err)
	}
	// Who occupied a sub-stock may have been sent after the group of another one.
	rs = slices.DeleteFunc(rs, func(r seckill.Reservation) bool {
		return !strings.HasSuffix(r.Buyer, " a") && !strings.HasSuffix(r.Buyer, " b")
	})
	for i := 0; i < len(rs); i += 2 {
		a, b := rs[i].Buyer, rs[i+1].Buyer
		if a[:len(a)-1] != b[:len(b)-1] || a[len(a)-1] != 'a' || b[len(b)-1] != 'b' {
			t.Errorf("at %d: %q, then %q", i, a, b)
		}
	}
}

// Many do not wait for the call under way to end: a second one goes beside it, and no third. Few wait.
func TestLaneSendsManyBesideACall(t *testing.T) {
	redis := testenv.Redis(t)
	s := open(t, redis.URL(), func(o *Options) { o.CallTimeout = 20 * time.Second })
	const subs = 2
	load(t, s, 1000, subs, 1)
	ask(t, s, attempt(buyerAt(0, subs), 1))
	redis.Pause()
	var wait sync.WaitGroup
	occupy(t, s, &wait, subs)
	reserve := func(sub, n int) {
		var attempts []seckill.Attempt
		for i := 0; len(attempts) < n; i++ {
			if buyer := fmt.Sprintf("%d of %d", i, n); home(buyer, subs) == sub {
				attempts = append(attempts, attempt(buyer, 1))
			}
		}
		wait.Go(func() {
			ds, err := s.Reserve(t.Context(), testRun, 1, attempts)
			if err != nil || slices.ContainsFunc(ds, func(d stock.Decision) bool { return d.Verdict != stock.Taken }) {
				t.Errorf("%d at sub-stock %d: %v", n, sub, err)
			}
		})
	}
	reserve(0, laneWorth)
	awaitLane(t, s, 0, 2, 0)
	reserve(0, laneWorth+1)
	awaitLane(t, s, 0, 2, laneWorth+1)
	reserve(1, laneWorth-1)
	awaitLane(t, s, 1, 1, laneWorth-1)
	redis.Resume()
	wait.Wait()
	if l, err := s.Level(t.Context(), testRun); err != nil || l.Available != 1000-3-3*laneWorth {
		t.Errorf("%d units are left, %v", l.Available, err)
	}
}

// awaitLane waits until a lane has so many calls under way, and so many attempts wait.
func awaitLane(t *testing.T, s *Stock, sub, calls, attempts int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		s.lanes.mu.Lock()
		var got lane
		for k, l := range s.lanes.lanes {
			if k.sub == sub {
				got = *l
			}
		}
		s.lanes.mu.Unlock()
		if got.flying == calls && got.attempts == attempts {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("at sub-stock %d %d calls are under way and %d attempts wait, want %d and %d", sub, got.flying, got.attempts, calls, attempts)
		}
		<-time.After(time.Millisecond)
	}
}

func placesByHome(asked [][]seckill.Attempt, got [][]stock.Decision, subs int) map[int][]int64 {
	places := map[int][]int64{}
	for c := range got {
		for i, d := range got[c] {
			if d.Verdict == stock.Taken {
				h := home(asked[c][i].Buyer, subs)
				places[h] = append(places[h], d.Ahead)
			}
		}
	}
	return places
}

// Those go together who may: in their order, as many as one call decides, and not with others who want to
// stop where they do not; whoever has given up is left out.
func TestLaneBoards(t *testing.T) {
	s := &Stock{}
	s.lanes.lanes = map[laneKey]*lane{}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w := func(n int, stop bool, ctx context.Context) *waiter {
		return &waiter{ctx: ctx, buyers: make([]string, n), stop: stop}
	}
	all := []*waiter{
		w(200, true, t.Context()), w(200, true, gone), w(300, true, t.Context()), w(1, true, t.Context()),
		w(1, false, t.Context()), w(400, false, gone), w(2, false, t.Context()), w(1, true, t.Context()), w(3, true, gone),
	}
	l := &lane{waiting: slices.Clone(all), flying: 1}
	for _, w := range all {
		l.attempts += len(w.buyers)
	}
	s.lanes.lanes[laneKey{}] = l
	for _, want := range [][]int{{0, 2}, {3}, {4, 6}, {7}, nil} {
		var got []int
		for _, w := range s.board(laneKey{}, l) {
			got = append(got, slices.Index(all, w))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	// Few are left to the call that is still under way.
	few := &lane{waiting: []*waiter{w(laneWorth-1, true, t.Context())}, attempts: laneWorth - 1, flying: 2}
	if some := s.board(laneKey{}, few); some != nil || few.flying != 1 || few.attempts != laneWorth-1 {
		t.Errorf("%d go beside another call, %d calls are left", len(some), few.flying)
	}
	if l.attempts != 0 || l.flying != 0 || len(s.lanes.lanes) != 0 {
		t.Errorf("left are %d attempts, %d calls, %d lanes", l.attempts, l.flying, len(s.lanes.lanes))
	}
}

// Whoever waits for a sub-stock that hangs gives up in time, and is not asked for any more; others
// are served when it answers again.
func TestLaneLeavesOutWhoGaveUp(t *testing.T) {
	redis := testenv.Redis(t)
	s := open(t, redis.URL())
	load(t, s, 1000, 2, 1)
	ask(t, s, attempt(buyerAt(0, 2), 1))
	redis.Pause()
	defer redis.Resume()
	var wait sync.WaitGroup
	occupy(t, s, &wait, 2)
	for c := range 10 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			begin := time.Now()
			ds, err := s.Reserve(ctx, testRun, 1, []seckill.Attempt{attempt(fmt.Sprint("gave up ", c), 1)})
			if err == nil && ds[0].Verdict != stock.Unknown {
				t.Errorf("got %+v", ds)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("took %v, %v", took, err)
			}
		})
	}
	wait.Wait()
	redis.Resume()
	if d := eventually(t, s, attempt("later", 1)); d.Verdict != stock.Taken {
		t.Errorf("got %+v", d)
	}
	for c := range 10 {
		if n, err := s.client.Do(t.Context(), s.client.B().Hexists().Key(buyersKey(s.tag(place{testRun, home(fmt.Sprint("gave up ", c), 2)}))).
			Field(fmt.Sprint("gave up ", c)).Build()).AsInt64(); err != nil || n != 0 {
			t.Errorf("buyer %d gave up before he was asked for, and has something: %d, %v", c, n, err)
		}
	}
}

// More than a lane holds is refused at once.
func TestLaneIsBounded(t *testing.T) {
	redis := testenv.Redis(t)
	s := open(t, redis.URL())
	load(t, s, 1000, 2, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	key := laneKey{place{testRun, 0}, 2, 1, streamKind}
	redis.Pause()
	defer redis.Resume()
	w := func(n int) *waiter {
		return &waiter{ctx: ctx, buyers: make([]string, n), tokens: make([]string, n), done: make(chan struct{})}
	}
	if err := s.submit(key, w(1)); err != nil {
		t.Fatal(err)
	}
	var err error
	for n := 0; err == nil && n <= laneMax+laneFlights*attemptsMax; n += 500 {
		err = s.submit(key, w(500))
	}
	if !errors.Is(err, errCrowded) {
		t.Errorf("got %v, want %v", err, errCrowded)
	}
	cancel()
	redis.Resume()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.submit(key, w(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: got %v", err)
	}
}

// Places are read as they were written, for the attempts that were taken.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []spot
		var words, verdicts string
		for range rapid.IntRange(0, 4).Draw(t, "batches") {
			batch := rapid.Int64Min(1).Draw(t, "batch")
			places := rapid.SliceOfNDistinct(rapid.OneOf(rapid.IntRange(0, 99), rapid.IntRange(0, 1<<30)), 1, 40, rapid.ID[int]).Draw(t, "places")
			slices.Sort(places)
			words += string(appendPlaces(nil, batch, places))
			for _, p := range places {
				if rapid.Bool().Draw(t, "taken") {
					verdicts += string('0' + rune(stock.Taken))
					want = append(want, spot{strconv.FormatInt(batch, 36), p})
				} else {
					verdicts += rapid.SampledFrom([]string{".", "8", "7"}).Draw(t, "verdict")
				}
			}
		}
		got, err := parseSpots(strings.Fields(words + " =" + verdicts))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q %q: got %v, %v; want %v", words, verdicts, got, err, want)
		}
	})
}

// What cannot have been written is not read as something else.
func TestPlacesThatAreNone(t *testing.T) {
	for _, head := range []string{"1", "1:/", "1:p", "1:0P", "1:PPPPPPP0", "1:00 =9", "1:0 =99"} {
		if spots, err := parseSpots(strings.Fields(head)); err == nil {
			t.Errorf("%q is read as %v", head, spots)
		}
	}
	if spots, err := parseSpots([]string{"=989"}); err != nil || len(spots) > 0 {
		t.Errorf("a stock that is not split: got %v, %v", spots, err)
	}
}

// A message of another version, whose places nobody understands, is as good for orders as any.
func TestMessageWithUnknownPlaces(t *testing.T) {
	list, err := parseMessage(testRun, "1 process 7x:~ lqk5c\nann\n00000000000000000000\nbob\n00000000000000000001")
	if err != nil || len(list) != 2 || list[0].Buyer != "ann" || list[1].Buyer != "bob" {
		t.Errorf("got %+v, %v", list, err)
	}
}
