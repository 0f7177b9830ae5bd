package redisstock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/queuetest"
	"seckill/stock"
)

// ids are the buyers of a delivery, which the suite of queues takes for messages.
func ids(d queue.Delivery) (list []string) {
	_, rs, err := queue.DecodeReservations(d.Body)
	if err != nil {
		return []string{err.Error()}
	}
	for _, r := range rs {
		list = append(list, r.Buyer)
	}
	return list
}

// eachKind runs a test with both kinds of outbox, on a Redis of their own.
func eachKind(t *testing.T, test func(t *testing.T, redis *testenv.RedisServer, as func(*Options))) {
	for _, name := range kindNames {
		t.Run(name, func(t *testing.T) {
			test(t, testenv.Redis(t), func(o *Options) { o.Outbox = name })
		})
	}
}

// The outbox is a source as the contract of queues wants it, split or not, on one Redis or a cluster.
func TestOutboxIsASource(t *testing.T) {
	one, cluster := testenv.Redis(t).URL(), testenv.RedisCluster(t, 3).URL()
	for _, c := range []struct {
		url, kind string
		subs      int
	}{{one, "stream", 1}, {one, "stream", 5}, {one, "list", 1}, {one, "list", 8}, {cluster, "stream", 8}, {cluster, "list", 8}} {
		as := func(o *Options) { o.Outbox, o.ClaimAfter = c.kind, time.Hour }
		t.Run(fmt.Sprintf("%s/%d/cluster=%v", c.kind, c.subs, c.url == cluster), func(t *testing.T) {
			queuetest.RunSource(t, func(t *testing.T) func(*testing.T) queuetest.Source {
				first := open(t, c.url, as)
				load(t, first, 1<<30, c.subs, 1<<20)
				return func(t *testing.T) queuetest.Source {
					s := open(t, c.url, as, func(o *Options) { o.Prefix = first.prefix })
					return queuetest.Source{Source: s.Outbox(), IDs: ids, CountsAttempts: c.kind == "list", Put: func(ctx context.Context, ids ...string) error {
						for _, id := range ids {
							ds, err := s.Reserve(ctx, testRun, 1, []seckill.Attempt{attempt(id, 1)})
							if err != nil {
								return err
							}
							if ds[0].Verdict != stock.Taken {
								return fmt.Errorf("%s: %+v", id, ds[0])
							}
						}
						return nil
					}}
				}
			})
		})
	}
}

// What a consumer took that died without a word goes to another after a while, and not
// before; one that is slow and alive keeps it.
func TestDeadConsumerIsTakenOver(t *testing.T) {
	eachKind(t, deadConsumerIsTakenOver)
}

func deadConsumerIsTakenOver(t *testing.T, redis *testenv.RedisServer, as func(*Options)) {
	const claim = 600 * time.Millisecond
	s := open(t, redis.URL(), as, func(o *Options) { o.ClaimAfter = claim })
	load(t, s, 100, 1, 1)
	for i := range 10 {
		ask(t, s, attempt(fmt.Sprint(i), 1))
	}
	died := time.Now()
	dead := &subscription{s: s, name: "dead"}
	for _, f := range s.kind.outbox(s).look(t.Context(), dead, []question{{place: place{testRun, 0}, count: 4}}) {
		if f.err != nil || len(f.entries) != 4 {
			t.Fatalf("the dead one got %+v", f)
		}
	}
	slow, err := s.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held, err := slow.Receive(t.Context(), 3)
	if err != nil || len(held) != 3 {
		t.Fatalf("received %d, %v", len(held), err)
	}
	other, err := s.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]time.Duration{}
	for len(seen) < 7 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		ds, err := other.Receive(ctx, 10)
		cancel()
		if err != nil {
			t.Fatalf("%d came: %v", len(seen), err)
		}
		for _, d := range ds {
			seen[ids(d)[0]] = time.Since(died)
		}
		if err := other.Ack(t.Context(), ds...); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range held {
		if _, stolen := seen[ids(d)[0]]; stolen {
			t.Errorf("%s was taken from a consumer that lives", ids(d)[0])
		}
	}
	for i := range 4 {
		if after := seen[fmt.Sprint(i)]; after < claim {
			t.Errorf("%d was taken over after %v, before %v", i, after, claim)
		}
	}
	// The slow one is kept alive for as long as it takes.
	<-time.After(3 * claim)
	ctx, cancel := context.WithTimeout(t.Context(), claim)
	defer cancel()
	if ds, err := other.Receive(ctx, 10); err == nil {
		t.Errorf("%d messages were taken from a consumer that lives", len(ds))
	}
	if err := slow.Ack(t.Context(), held...); err != nil {
		t.Error(err)
	}
	if b, err := s.Outbox().Backlog(t.Context()); err != nil || b.Waiting != 0 {
		t.Errorf("backlog: %+v, %v", b, err)
	}
}

// A process that closes hands back at once what its consumers have, also to other processes,
// and leaves no consumer behind.
func TestCloseHandsBackToOthers(t *testing.T) {
	eachKind(t, closeHandsBackToOthers)
}

func closeHandsBackToOthers(t *testing.T, redis *testenv.RedisServer, as func(*Options)) {
	slow := func(o *Options) { o.ClaimAfter = time.Hour }
	ends := open(t, redis.URL(), as, slow)
	stays := open(t, redis.URL(), as, slow, func(o *Options) { o.Prefix = ends.prefix })
	load(t, ends, 100, 3, 1)
	for i := range 30 {
		ask(t, ends, attempt(fmt.Sprint(i), 1))
	}
	sub, err := ends.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for got := 0; got < 30; {
		ds, err := sub.Receive(t.Context(), 30)
		if err != nil {
			t.Fatal(err)
		}
		got += len(ds)
	}
	other, err := stays.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	got := map[string]bool{}
	begin := time.Now()
	wait.Go(func() {
		for len(got) < 30 {
			ds, err := other.Receive(t.Context(), 30)
			if err != nil {
				t.Error(err)
				return
			}
			for _, d := range ds {
				got[d.ID] = true
			}
		}
	})
	if err := ends.Close(); err != nil {
		t.Fatal(err)
	}
	wait.Wait()
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("handing back took %v", took)
	}
	for sub := range 3 {
		for _, name := range consumers(t, redis, stays, place{testRun, sub}) {
			if name != handedBack && name != other.(*subscription).name {
				t.Errorf("consumer %s is left behind", name)
			}
		}
	}
}

// A wake that nobody heard is made up for: who begins to listen, or listens again, looks for what was handed back.
func TestALostWakeIsMadeUpFor(t *testing.T) {
	eachKind(t, func(t *testing.T, redis *testenv.RedisServer, as func(*Options)) {
		s := open(t, redis.URL(), as, func(o *Options) { o.ClaimAfter = time.Hour })
		load(t, s, 100, 1, 1)
		ask(t, s, attempt("ann", 1))
		// Somebody else's, and looked at for what was handed back before there is anything.
		other := &subscription{s: s, name: "other"}
		outbox := s.kind.outbox(s)
		if f := outbox.look(t.Context(), other, []question{{place: place{testRun, 0}, count: 1}}); f[0].err != nil || len(f[0].entries) != 1 {
			t.Fatalf("the other one got %+v", f)
		}
		ask(t, s, attempt("bob", 1))
		sub, err := s.Outbox().Subscribe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if ds, err := sub.Receive(ctx, 1); err != nil || len(ds) != 1 {
			t.Fatalf("received %d, %v", len(ds), err)
		}
		if a := s.doAll(ctx, []call{outbox.leave(s.tag(place{testRun, 0}), other)})[0]; a.err != nil {
			t.Fatal(a.err)
		}
		redis.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
		if ds, err := sub.Receive(ctx, 1); err != nil || len(ds) != 1 {
			t.Fatalf("of what was handed back without a wake, %d came: %v", len(ds), err)
		}
	})
}

// Whoever asks again hears about how many are in front of him, whether all of a call were decided alike or one by one.
func TestPlaceInTheQueue(t *testing.T) {
	for _, quantity := range []int{1, 2} {
		s := open(t, testenv.Redis(t).URL())
		load(t, s, 1000, 1, 2)
		var last seckill.Attempt
		for call := range 3 {
			var as []seckill.Attempt
			for i := range 10 {
				as = append(as, attempt(fmt.Sprint(call, " ", i), quantity))
			}
			if _, err := s.Reserve(t.Context(), testRun, 1, as); err != nil {
				t.Fatal(err)
			}
			last = as[9]
		}
		if d := ask(t, s, last); d.Verdict != stock.Known || d.Ahead < 20 || d.Ahead > 29 {
			t.Errorf("the last of 30, with %d units each: got %+v, want 20 to 29 in front", quantity, d)
		}
	}
}

// An outbox that had as much as was asked for is looked at again at once; one that had less rests.
func TestAFullOutboxIsReadOn(t *testing.T) {
	s := open(t, testenv.Redis(t).URL())
	sub := &subscription{s: s, held: map[handle]struct{}{}, views: map[place]*view{}}
	p := place{testRun, 0}
	for _, c := range []struct {
		asked int
		rests bool
	}{{1, false}, {2, true}} {
		sub.view(p).looked = time.Now()
		if _, err := sub.keep(p, s.kind, c.asked, &found{entries: []entry{{id: fmt.Sprint(c.asked), text: "1 -\nann\n00000000000000000000"}}}); err != nil {
			t.Fatal(err)
		}
		if rests := !sub.view(p).looked.IsZero(); rests != c.rests {
			t.Errorf("one of %d: got rests %v", c.asked, rests)
		}
	}
}

// consumers are those that an outbox knows.
func consumers(t *testing.T, redis *testenv.RedisServer, s *Stock, p place) (names []string) {
	t.Helper()
	tag := s.tag(p)
	if s.kind == streamKind {
		for _, c := range redis.Must(t, "XINFO", "CONSUMERS", streamKey(tag), group).([]any) {
			names = append(names, c.([]any)[1].(string))
		}
		return names
	}
	for _, field := range redis.Must(t, "HKEYS", takenKey(tag)).([]any) {
		if name, ok := strings.CutPrefix(field.(string), aliveMark); ok {
			names = append(names, name)
		}
	}
	return names
}

// reserveAmongGreedy reserves for n buyers, between others who want more than they may have, and returns the tickets.
// Those of one home of so many come after those of another, so that the last ones are far from the first.
func reserveAmongGreedy(t *testing.T, s *Stock, n, subs int) (tickets []string) {
	t.Helper()
	var as []seckill.Attempt
	for i := range n {
		as = append(as, attempt(fmt.Sprintf("%d of %d", i, n), 1+i%2), attempt(fmt.Sprintf("greedy %d", i), 3))
	}
	slices.SortStableFunc(as, func(a, b seckill.Attempt) int { return cmp.Compare(home(a.Buyer, subs), home(b.Buyer, subs)) })
	ds, err := s.Reserve(t.Context(), testRun, 1, as)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range ds {
		if as[i].Quantity < 3 {
			tickets = append(tickets, d.Ticket)
		} else if d.Verdict != stock.OverLimit {
			t.Fatalf("got %+v for more than one may have", d)
		}
	}
	return tickets
}

// A reservation whose message was acknowledged though it is not settled is still listed,
// in its place, and leaves the list when it is settled.
func TestLeftBehindIsListed(t *testing.T) {
	eachKind(t, leftBehindIsListed)
}

func leftBehindIsListed(t *testing.T, redis *testenv.RedisServer, as func(*Options)) {
	for _, subs := range []int{1, 4} {
		s := open(t, redis.URL(), as)
		load(t, s, 1000, subs, 2)
		var want []string
		batch := func(n int) { want = append(want, reserveAmongGreedy(t, s, n, 1)...) }
		want = append(want, reserveAmongGreedy(t, s, 40, subs)...)
		batch(6)
		batch(1)
		sub, err := s.Outbox().Subscribe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for got := 0; got < 47; {
			ds, err := sub.Receive(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				got += len(ids(d))
			}
			if err := sub.Ack(t.Context(), ds...); err != nil {
				t.Fatal(err)
			}
		}
		batch(5)
		if b, err := s.Outbox().Backlog(t.Context()); err != nil || b.Waiting != 5 {
			t.Fatalf("backlog: %+v, %v, want 5", b, err)
		}
		list := func() (tickets []string, rs []seckill.Reservation) {
			rs, err := s.Queued(t.Context(), testRun, "", 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rs {
				tickets = append(tickets, r.Ticket)
			}
			return tickets, rs
		}
		got, rs := list()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("with %d sub-stocks:\n got %v\nwant %v", subs, got, want)
		}
		for _, r := range rs {
			if unknown, err := s.Settle(t.Context(), []stock.Settlement{{Run: testRun, Ticket: r.Ticket, Buyer: r.Buyer, Failed: seckill.SoldOut}}); err != nil || len(unknown) > 0 {
				t.Fatalf("unknown %v, %v", unknown, err)
			}
		}
		if got, _ := list(); len(got) > 0 {
			t.Errorf("still listed: %v", got)
		}
		if b, err := s.Outbox().Backlog(t.Context()); err != nil || b.Waiting != 0 {
			t.Errorf("backlog: %+v, %v", b, err)
		}
		if l := level(t, s); l.Available != 1000 || l.Queued != 0 {
			t.Errorf("got %+v", l)
		}
	}
}

// An answer that was lost on its way is not a message lost: the consumer asks again for what
// it has been given, without waiting until others may claim it.
func TestLostAnswerIsReadAgain(t *testing.T) {
	eachKind(t, lostAnswerIsReadAgain)
}

func lostAnswerIsReadAgain(t *testing.T, redis *testenv.RedisServer, as func(*Options)) {
	s := open(t, redis.URL(), as, func(o *Options) { o.ClaimAfter = time.Hour })
	load(t, s, 100, 2, 1)
	n := 0
	s.interrupt = func(at string) error {
		if at == "read the outbox" {
			if n++; n%2 == 1 {
				return errCrash
			}
		}
		return nil
	}
	sub, err := s.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for round := range 10 {
		for i := range 3 {
			ask(t, s, attempt(fmt.Sprintf("%d-%d", round, i), 1))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for len(got) < 3*(round+1) {
			ds, err := sub.Receive(ctx, 10)
			if ctx.Err() != nil {
				t.Fatalf("%d of %d came: %v", len(got), 3*(round+1), err)
			}
			for _, d := range ds {
				for _, id := range ids(d) {
					got[id]++
				}
			}
			if err := sub.Ack(t.Context(), ds...); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
	}
	for id, times := range got {
		if times != 1 {
			t.Errorf("%s came %d times", id, times)
		}
	}
}
