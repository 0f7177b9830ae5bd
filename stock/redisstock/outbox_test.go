package redisstock

import (
	"context"
	"fmt"
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

// The outbox is a source as the contract of queues wants it, split or not.
func TestOutboxIsASource(t *testing.T) {
	redis := testenv.Redis(t)
	for _, subs := range []int{1, 5} {
		t.Run(fmt.Sprint(subs), func(t *testing.T) {
			queuetest.RunSource(t, func(t *testing.T) func(*testing.T) queuetest.Source {
				first := open(t, redis.URL())
				load(t, first, 1<<30, subs, 1<<20)
				return func(t *testing.T) queuetest.Source {
					s := open(t, redis.URL(), func(o *Options) { o.Prefix, o.ClaimAfter = first.prefix, time.Hour })
					return queuetest.Source{Source: s.Outbox(), IDs: ids, Put: func(ctx context.Context, ids ...string) error {
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
	redis := testenv.Redis(t)
	const claim = 600 * time.Millisecond
	s := open(t, redis.URL(), func(o *Options) { o.ClaimAfter = claim })
	load(t, s, 100, 1, 1)
	for i := range 10 {
		ask(t, s, attempt(fmt.Sprint(i), 1))
	}
	key := outboxKey(s.tag(place{testRun, 0}))
	died := time.Now()
	redis.Must(t, "XREADGROUP", "GROUP", group, "dead", "COUNT", "4", "STREAMS", key, ">")
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
	redis := testenv.Redis(t)
	slow := func(o *Options) { o.ClaimAfter = time.Hour }
	ends := open(t, redis.URL(), slow)
	stays := open(t, redis.URL(), slow, func(o *Options) { o.Prefix = ends.prefix })
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
		key := outboxKey(stays.tag(place{testRun, sub}))
		for _, c := range redis.Must(t, "XINFO", "CONSUMERS", key, group).([]any) {
			name := c.([]any)[1].(string)
			if name != handedBack && name != other.(*subscription).name {
				t.Errorf("consumer %s is left behind", name)
			}
		}
	}
}

// A reservation whose message was acknowledged though it is not settled is still listed,
// in its place, and leaves the list when it is settled.
func TestLeftBehindIsListed(t *testing.T) {
	for _, subs := range []int{1, 4} {
		s := open(t, testenv.Redis(t).URL())
		load(t, s, 100, subs, 2)
		var want []string
		batch := func(n int) {
			var as []seckill.Attempt
			for i := range n {
				as = append(as, attempt(fmt.Sprintf("%d %d", len(want), i), 1+i%2))
			}
			ds, err := s.Reserve(t.Context(), testRun, 1, as)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				want = append(want, d.Ticket)
			}
		}
		batch(6)
		batch(1)
		sub, err := s.Outbox().Subscribe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for got := 0; got < 7; {
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
		if l := level(t, s); l.Available != 100 || l.Queued != 0 {
			t.Errorf("got %+v", l)
		}
	}
}

// An answer that was lost on its way is not a message lost: the consumer asks again for what
// it has been given, without waiting until others may claim it.
func TestLostAnswerIsReadAgain(t *testing.T) {
	s := open(t, testenv.Redis(t).URL(), func(o *Options) { o.ClaimAfter = time.Hour })
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
