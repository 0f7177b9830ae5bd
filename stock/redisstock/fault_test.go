package redisstock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
)

// within asks for one attempt with a deadline, and wants the answer by then, give or take
// what a busy machine needs.
func within(t *testing.T, s *Stock, d time.Duration, a seckill.Attempt) (stock.Decision, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	begin := time.Now()
	ds, err := s.Reserve(ctx, testRun, 1, []seckill.Attempt{a})
	if took := time.Since(begin); took > d+6*time.Second {
		t.Errorf("an answer took %v, with a deadline of %v", took, d)
	}
	if err != nil {
		return stock.Decision{}, err
	}
	return ds[0], nil
}

// eventually repeats an attempt until the stock decides, as a buyer would.
func eventually(t *testing.T, s *Stock, a seckill.Attempt) stock.Decision {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		d, err := within(t, s, time.Second, a)
		if err == nil && d.Verdict != stock.Unknown {
			return d
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer for 20 s: %+v, %v", d, err)
		}
	}
}

// A Redis that has forgotten its scripts is told them again, in the middle of a sale.
func TestScriptFlush(t *testing.T) {
	redis := testenv.Redis(t)
	rush(t, redis.URL(), func() {
		for range 30 {
			redis.Must(t, "SCRIPT", "FLUSH")
			<-time.After(5 * time.Millisecond)
		}
	})
}

// Connections that break in the middle of calls sell no unit twice and lose none.
func TestConnectionsBreak(t *testing.T) {
	redis := testenv.Redis(t)
	rush(t, redis.URL(), func() {
		for range 30 {
			redis.Must(t, "CLIENT", "KILL", "TYPE", "normal")
			<-time.After(5 * time.Millisecond)
		}
	})
}

// A Redis that has lost everything says nothing about units: each attempt hears that the
// run is not there, none that it is sold out. A load under a higher epoch brings it back.
func TestFlushAll(t *testing.T) {
	for _, subs := range []int{1, 8} {
		redis := testenv.Redis(t)
		s := open(t, redis.URL())
		load(t, s, 1000, subs, 1)
		var lost atomic.Bool
		var wait sync.WaitGroup
		for c := range 8 {
			wait.Go(func() {
				for i := range 200 {
					was := lost.Load()
					ds, err := s.Reserve(t.Context(), testRun, 1, []seckill.Attempt{attempt(fmt.Sprintf("%d-%d", c, i), 1)})
					if err != nil {
						t.Error(err)
						return
					}
					if v := ds[0].Verdict; v != stock.NotLoaded && (was || v != stock.Taken) {
						t.Errorf("lost: %v, got %+v", was, ds[0])
					}
					if c == 0 && i == 100 {
						redis.Must(t, "FLUSHALL")
						lost.Store(true)
					}
				}
			})
		}
		wait.Wait()
		if _, err := s.Level(t.Context(), testRun); !errors.Is(err, stock.ErrNotLoaded) {
			t.Fatalf("level: got %v, want ErrNotLoaded", err)
		}
		unknown, err := s.Settle(t.Context(), []stock.Settlement{{Run: testRun, Ticket: seckill.NewTicket(testRun), Buyer: "x", Failed: seckill.SoldOut}})
		if err != nil || len(unknown) != 1 {
			t.Fatalf("settle: unknown %v, %v", unknown, err)
		}
		now := time.Now()
		held := seckill.Order{ID: "1", Ticket: seckill.NewTicket(testRun), Run: testRun, Buyer: "held", Quantity: 1, Slot: 1, State: seckill.Paid, CreatedAt: now}
		spec := stock.Spec{Run: testRun, Epoch: 2, Units: 1, Limit: 1, SubStocks: subs, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), Held: []seckill.Order{held}}
		if err := s.Load(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		for buyer, want := range map[string]stock.Verdict{"held": stock.OverLimit, "new": stock.Taken} {
			ds, err := s.Reserve(t.Context(), testRun, 2, []seckill.Attempt{attempt(buyer, 1)})
			if err != nil || ds[0].Verdict != want {
				t.Errorf("%s: got %+v, %v, want verdict %d", buyer, ds, err, want)
			}
		}
	}
}

// Each single key that is lost makes the sub-stock unknown, not empty: without its buyers
// everybody could buy again, without its outbox nobody would get an order.
func TestAKeyIsLost(t *testing.T) {
	redis := testenv.Redis(t)
	for _, c := range []struct {
		outbox string
		lose   func(string) string
	}{
		{"stream", runKey}, {"stream", buyersKey}, {"stream", streamKey},
		{"list", waitingKey}, {"list", messagesKey},
	} {
		s := open(t, redis.URL(), func(o *Options) { o.Outbox = c.outbox })
		load(t, s, 10, 1, 1)
		ask(t, s, attempt("ann", 1))
		key := c.lose(s.tag(place{testRun, 0}))
		redis.Must(t, "DEL", key)
		for _, buyer := range []string{"ann", "bob"} {
			d := ask(t, s, attempt(buyer, 1))
			// Who is known stays known if only the outbox is lost.
			if d.Verdict != stock.NotLoaded && (buyer != "ann" || d.Verdict != stock.OverLimit) {
				t.Errorf("%s is lost: %s got %+v", key, buyer, d)
			}
		}
	}
	s := open(t, redis.URL())
	load(t, s, 4, 4, 1)
	redis.Must(t, "DEL", transfersKey(s.tag(place{testRun, 2})))
	if _, err := s.Level(t.Context(), testRun); !errors.Is(err, stock.ErrNotLoaded) {
		t.Errorf("level without transfers: %v", err)
	}
	if d := ask(t, s, attempt("all", 1)); d.Verdict == stock.Short {
		t.Errorf("got %+v", d)
	}
}

// A Redis that hangs is noticed within the deadline, by everything, and used again when
// it wakes. What was decided meanwhile is told to whoever asks again.
func TestRedisHangs(t *testing.T) {
	for _, subs := range []int{1, 4} {
		redis := testenv.Redis(t)
		s := open(t, redis.URL())
		load(t, s, 100, subs, 1)
		ask(t, s, attempt("warm", 1))
		redis.Pause()
		attempts := make([]seckill.Attempt, 20)
		var wait sync.WaitGroup
		for i := range attempts {
			attempts[i] = attempt(fmt.Sprint("buyer ", i), 1)
			wait.Go(func() {
				if d, err := within(t, s, 200*time.Millisecond, attempts[i]); err == nil && d.Verdict != stock.Unknown {
					t.Errorf("a Redis that hangs decided %+v", d)
				}
			})
		}
		wait.Wait()
		for name, call := range map[string]func(ctx context.Context) error{
			"Level":   func(ctx context.Context) error { _, err := s.Level(ctx, testRun); return err },
			"Outcome": func(ctx context.Context) error { _, err := s.Outcome(ctx, "x", attempts[0].Ticket); return err },
			"Backlog": func(ctx context.Context) error { _, err := s.Outbox().Backlog(ctx); return err },
			"Restock": func(ctx context.Context) error { _, err := s.Restock(ctx, testRun, 1, -1); return err },
			"Control": func(ctx context.Context) error { return s.Control(ctx, testRun, stock.Control{}) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			begin := time.Now()
			err := call(ctx)
			cancel()
			if took := time.Since(begin); err == nil || took > 6*time.Second || errors.Is(err, stock.ErrNotLoaded) || errors.Is(err, seckill.ErrNotFound) {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		}
		redis.Resume()
		for _, a := range attempts {
			if d := eventually(t, s, a); d.Verdict != stock.Taken && d.Verdict != stock.Known || d.Ticket != a.Ticket {
				t.Errorf("asked again: %+v", d)
			}
		}
		// The restock may or may not have been done; asking again tells, and does it once.
		if did, err := s.Restock(t.Context(), testRun, 1, -1); err != nil || did != -1 {
			t.Errorf("restock again: %d, %v", did, err)
		}
		if l := level(t, s); l.Available+l.Queued != 99 || l.Queued != 21 {
			t.Errorf("got %+v, want 21 sold of 100, and one taken away", l)
		}
	}
}

// Redis that is gone is noticed at once.
func TestRedisIsGone(t *testing.T) {
	redis := testenv.Redis(t)
	s := open(t, redis.URL())
	load(t, s, 10, 1, 1)
	redis.Kill()
	begin := time.Now()
	if d, err := within(t, s, 5*time.Second, attempt("ann", 1)); err == nil {
		t.Errorf("got %+v", d)
	}
	if took := time.Since(begin); took > 4500*time.Millisecond {
		t.Errorf("a refused connection took %v", took)
	}
	redis.Start(t)
	if d := eventually(t, s, attempt("ann", 1)); d.Verdict != stock.NotLoaded {
		t.Errorf("an empty Redis says %+v", d)
	}
}

// What was answered is still true after a crash, if Redis writes each command to disk.
func TestKillAndRestart(t *testing.T) {
	redis := testenv.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, redis.URL())
	load(t, s, 1000, 4, 1)
	var mu sync.Mutex
	var yes []seckill.Attempt
	var wait sync.WaitGroup
	for c := range 4 {
		wait.Go(func() {
			for i := range 100 {
				a := attempt(fmt.Sprintf("%d-%d", c, i), 1)
				if d := eventually(t, s, a); d.Verdict == stock.Taken || d.Verdict == stock.Known {
					mu.Lock()
					yes = append(yes, a)
					mu.Unlock()
				}
				if c == 0 && i%30 == 10 {
					redis.Kill()
					redis.Start(t)
				}
			}
		})
	}
	wait.Wait()
	if len(yes) != 400 {
		t.Fatalf("%d were taken, want 400", len(yes))
	}
	for _, a := range yes {
		if d := eventually(t, s, a); d.Verdict != stock.Known || d.Ticket != a.Ticket {
			t.Errorf("after the crash: %+v", d)
		}
	}
	if l := level(t, s); l.Queued != 400 || l.Available != 600 {
		t.Errorf("got %+v", l)
	}
}

// A Redis that may not write says so, decides nothing, and nothing is half done.
func TestRedisRefusesWrites(t *testing.T) {
	for name, c := range map[string]struct{ break_, mend []string }{
		"out of memory": {[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
		"read-only":     {[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
		"no replicas":   {[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			redis := testenv.Redis(t)
			s := open(t, redis.URL())
			load(t, s, 10, 1, 1)
			known := attempt("ann", 1)
			ask(t, s, known)
			before := level(t, s)
			redis.Must(t, c.break_...)
			d, err := within(t, s, time.Second, attempt("bob", 1))
			if err == nil {
				t.Errorf("decided %+v", d)
			}
			redis.Must(t, c.mend...)
			if after := level(t, s); after != before {
				t.Errorf("the level went from %+v to %+v", before, after)
			}
			if d := eventually(t, s, attempt("bob", 1)); d.Verdict != stock.Taken {
				t.Errorf("got %+v", d)
			}
			if d := eventually(t, s, known); d.Verdict != stock.Known {
				t.Errorf("got %+v", d)
			}
		})
	}
}

// A user with rights to the shop's keys and channels and nothing else is enough.
func TestUserWithFewRights(t *testing.T) {
	redis := testenv.Redis(t)
	prefix := "shop"
	redis.Must(t, "ACL", "SETUSER", "seller", "on", ">s3cret/@:", "~{shop:*", "~{shop}:*", "&shop:*",
		"-@all", "+@read", "+@write", "+@stream", "+@hash", "+@pubsub", "+@scripting", "+@connection", "+time")
	s := open(t, strings.Replace(redis.URL(), "redis://", "redis://seller:s3cret%2F%40%3A@", 1), func(o *Options) { o.Prefix = prefix })
	load(t, s, 10, 2, 1)
	if d := ask(t, s, attempt("ann", 1)); d.Verdict != stock.Taken {
		t.Fatalf("got %+v", d)
	}
	sub, err := s.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ds, err := sub.Receive(t.Context(), 1)
	if err != nil || len(ds) != 1 {
		t.Fatalf("received %v, %v", ds, err)
	}
	if err := sub.Ack(t.Context(), ds...); err != nil {
		t.Fatal(err)
	}
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
}

// An error about Redis never shows the password.
func TestErrorsKeepSecrets(t *testing.T) {
	redis := testenv.Redis(t)
	for _, url := range []string{
		"redis://user:hunter2@" + redis.Addr, "redis://user:hunter2@127.0.0.1:1", "redis://user:hunter2@a:b:c",
		"http://user:hunter2@host", "redis://user:hunter2%zz@host", "redis://user:hunter2@h1:1,h2:2", "redis-sentinel://u:hunter2@h:1",
		"redis://user:hunter2@h:1/x",
	} {
		s, err := Open(t.Context(), Options{URL: url})
		if err == nil {
			_ = s.Close()
			t.Errorf("%s was opened", url)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}
