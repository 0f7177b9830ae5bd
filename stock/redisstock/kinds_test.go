package redisstock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/stock"
)

// asList has the outbox be a list.
func asList(o *Options) { o.Outbox = "list" }

// With a list for an outbox a stock does all that the contract asks for, split or not, on one
// Redis and on a cluster.
func TestConformanceList(t *testing.T) {
	t.Parallel()
	conform(t, testenv.Redis(t).URL(), 1, asList)
}

func TestConformanceListSplit(t *testing.T) {
	t.Parallel()
	conform(t, testenv.Redis(t).URL(), 8, asList)
}

func TestConformanceListCluster(t *testing.T) {
	t.Parallel()
	conform(t, testenv.RedisCluster(t, 3).URL(), 8, asList)
}

// collectAll takes n reservations out of an outbox, acknowledges them, and returns their tickets.
func collectAll(t *testing.T, s *Stock, n int) map[string]bool {
	t.Helper()
	sub, err := s.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := map[string]bool{}
	for len(got) < n {
		ds, err := sub.Receive(ctx, 7)
		if err != nil {
			t.Fatalf("%d of %d came: %v", len(got), n, err)
		}
		for _, d := range ds {
			_, rs, err := queue.DecodeReservations(d.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rs {
				got[r.Ticket] = true
			}
		}
		if err := sub.Ack(t.Context(), ds...); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// A setting that changes while reservations wait loses none: a process of either setting sells on, lists and
// hands out what is in an outbox of the other kind, one half each; and the next run is of the
// kind that is set by then.
func TestOutboxMayBeChanged(t *testing.T) {
	redis := testenv.Redis(t)
	for now, then := range map[string]string{"stream": "list", "list": "stream"} {
		for _, subs := range []int{1, 4} {
			before := open(t, redis.URL(), func(o *Options) { o.Outbox = now })
			load(t, before, 100, subs, 1)
			after := open(t, redis.URL(), func(o *Options) { o.Outbox, o.Prefix = then, before.prefix })
			want := map[string]bool{}
			for i := range 40 {
				seller := before
				if i%2 == 1 {
					seller = after
				}
				want[ask(t, seller, attempt(fmt.Sprint(i), 1)).Ticket] = true
			}
			waiting, err := after.Outbox().Backlog(t.Context())
			if err != nil || waiting.Waiting != 40 || time.Since(waiting.Oldest) > time.Hour {
				t.Errorf("%s, then %s: backlog %+v, %v, want 40", now, then, waiting, err)
			}
			rs, err := after.Queued(t.Context(), testRun, "", 100)
			if err != nil || len(rs) != 40 {
				t.Errorf("%s, then %s: %d are queued, %v, want 40", now, then, len(rs), err)
			}
			if err := before.Close(); err != nil {
				t.Fatal(err)
			}
			if got := collectAll(t, after, 40); !maps.Equal(got, want) {
				t.Errorf("%s, then %s: got %v, want %v", now, then, got, want)
			}
			// The run is loaded again, and is of the other kind then, for whoever reads on.
			again := specOf(2, 100, subs)
			if err := after.Load(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			want = map[string]bool{}
			for i := range 20 {
				ds, err := after.Reserve(t.Context(), testRun, 2, []seckill.Attempt{attempt(fmt.Sprint(i), 1)})
				if err != nil || ds[0].Verdict != stock.Taken {
					t.Fatalf("%+v, %v", ds, err)
				}
				want[ds[0].Ticket] = true
			}
			if got := collectAll(t, after, 20); !maps.Equal(got, want) {
				t.Errorf("%s after %s: got %v, want %v", then, now, got, want)
			}
			all, err := after.statuses(t.Context(), testRun, subs)
			if err != nil || all[subs-1].kind.String() != then {
				t.Errorf("loaded as %v, %v, want %s", all, err, then)
			}
		}
	}
}

// A list counts how often a message was given to somebody, whether that one left or died; and
// hands what comes back out first, in its order.
func TestListCountsAttempts(t *testing.T) {
	const claim = 200 * time.Millisecond
	s := open(t, testenv.Redis(t).URL(), asList, func(o *Options) { o.ClaimAfter = claim })
	load(t, s, 100, 1, 1)
	for i := range 5 {
		ask(t, s, attempt(fmt.Sprint(i), 1))
	}
	// One dies with three, and one leaves with all.
	dead := &subscription{s: s, name: "dead"}
	where := place{testRun, 0}
	if f := s.kind.outbox(s).look(t.Context(), dead, []question{{place: where, count: 3}}); len(f[0].entries) != 3 || f[0].entries[2].attempt != 1 {
		t.Fatalf("got %+v", f)
	}
	take := func(sub queue.Subscription) (got []string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for len(got) < 5 {
			ds, err := sub.Receive(ctx, 5)
			if err != nil {
				t.Fatalf("%v came: %v", got, err)
			}
			for _, d := range ds {
				got = append(got, fmt.Sprintf("%s:%d", ids(d)[0], d.Attempt))
			}
		}
		return got
	}
	leaves, err := s.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := take(leaves)
	slices.Sort(got)
	if want := "[0:2 1:2 2:2 3:1 4:1]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if err := leaves.Close(); err != nil {
		t.Fatal(err)
	}
	last, err := s.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask(t, s, attempt("5", 1))
	if got, want := fmt.Sprint(take(last)), "[0:3 1:3 2:3 3:2 4:2]"; got != want && got != "[0:3 1:3 2:3 3:2 4:2 5:1]" {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What a slow consumer acknowledges after it was taken for dead stays done: it is not handed out
// again out of the list, and nothing else is lost by it.
func TestLateAckOfAListStays(t *testing.T) {
	const claim = 100 * time.Millisecond
	s := open(t, testenv.Redis(t).URL(), asList, func(o *Options) { o.ClaimAfter = claim })
	load(t, s, 100, 1, 1)
	for i := range 6 {
		ask(t, s, attempt(fmt.Sprint(i), 1))
	}
	where, o := place{testRun, 0}, s.kind.outbox(s)
	slow := &subscription{s: s, name: "slow"}
	f := o.look(t.Context(), slow, []question{{place: where, count: 4}})[0]
	if len(f.entries) != 4 {
		t.Fatalf("got %+v", f)
	}
	<-time.After(2 * claim)
	// Somebody finds it dead, and has room for one only.
	other := &subscription{s: s, name: "other"}
	if f := o.look(t.Context(), other, []question{{place: where, count: 1, claim: true}})[0]; len(f.entries) != 1 || f.entries[0].attempt != 2 {
		t.Fatalf("got %+v", f)
	}
	var acked []string
	for _, e := range f.entries {
		acked = append(acked, e.id)
	}
	if a, err := s.do(t.Context(), o.ack(s.tag(where), acked)); err != nil {
		t.Fatal(err)
	} else if n, _ := a.AsInt64(); n != 4 {
		t.Errorf("%d were acknowledged, want 4", n)
	}
	rest := o.look(t.Context(), other, []question{{place: where, count: 100}})[0]
	if rest.err != nil || len(rest.entries) != 2 {
		t.Errorf("got %+v, want the two that were never given", rest)
	}
	// Nothing is left but the two in hand.
	for _, key := range []string{messagesKey(s.tag(where)), takenKey(s.tag(where))} {
		n, err := s.client.Do(t.Context(), s.client.B().Hlen().Key(key).Build()).AsInt64()
		if want := map[string]int64{messagesKey(s.tag(where)): 3, takenKey(s.tag(where)): 4}[key]; err != nil || n != want {
			t.Errorf("%s has %d fields, %v, want %d", key, n, err, want)
		}
	}
}
