package redisstock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
)

// While the slot of a sub-stock moves from one master to another, key by key, its buyers
// wait a little and are answered, each once; in the end exactly what there was is sold.
func TestSlotMigratesInMidSale(t *testing.T) {
	cluster := testenv.RedisCluster(t, 3)
	url := cluster.URL()
	rush(t, url, func() {
		// The prefix is random, and so is which master has the sub-stock.
		var key string
		var from *testenv.RedisServer
		for _, m := range cluster.Masters {
			for _, k := range m.Must(t, "KEYS", "*:buyers").([]any) {
				key, from = k.(string), m
			}
		}
		if from == nil {
			t.Error("no sub-stock is anywhere")
			return
		}
		slot := int(from.Must(t, "CLUSTER", "KEYSLOT", key).(int64))
		to := cluster.Masters[0]
		if to == from {
			to = cluster.Masters[1]
		}
		cluster.MoveSlot(t, slot, from, to, func(string) { <-time.After(3 * time.Millisecond) })
		cluster.MoveSlot(t, slot, to, from, func(string) { <-time.After(3 * time.Millisecond) })
	})
}

// At each step of a slot's move every operation on the sub-stock works, or fails as unknown and
// works when the move is over.
func TestEachOperationWhileASlotMoves(t *testing.T) {
	cluster := testenv.RedisCluster(t, 3)
	s := open(t, cluster.URL())
	load(t, s, 1000, 1, 1)
	from, slot := cluster.MasterOf(t, runKey(s.tag(place{testRun, 0})))
	to := cluster.Masters[0]
	if to == from {
		to = cluster.Masters[1]
	}
	sub, err := s.Outbox().Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, taken := 0, int64(0)
	var attempts []seckill.Attempt
	cluster.MoveSlot(t, slot, from, to, func(step string) {
		n++
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		a := attempt(fmt.Sprint("buyer ", n), 1)
		attempts = append(attempts, a)
		ds, err := s.Reserve(ctx, testRun, 1, []seckill.Attempt{a})
		if err == nil && ds[0].Verdict != stock.Taken && ds[0].Verdict != stock.Unknown {
			t.Errorf("after %q: %+v", step, ds[0])
		}
		if l, err := s.Level(ctx, testRun); err == nil && l.Available+l.Queued != 1000 {
			t.Errorf("after %q: level %+v", step, l)
		}
		if _, err := s.Outcome(ctx, a.Buyer, a.Ticket); err != nil {
			t.Logf("after %q: outcome: %v", step, err)
		}
	})
	for _, a := range attempts {
		if d := eventually(t, s, a); d.Verdict != stock.Known && d.Verdict != stock.Taken {
			t.Errorf("got %+v", d)
		}
		taken++
	}
	if l := level(t, s); l.Queued != taken || l.Available != 1000-taken {
		t.Errorf("got %+v, want %d sold", l, taken)
	}
	for got := int64(0); got < taken; {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		ds, err := sub.Receive(ctx, 10)
		over := ctx.Err() != nil
		cancel()
		if over {
			t.Fatalf("%d of %d came: %v", got, taken, err)
		}
		for _, d := range ds {
			got += int64(len(ids(d)))
		}
		if err := sub.Ack(t.Context(), ds...); err != nil {
			t.Fatal(err)
		}
	}
}

// A master that hangs holds up its own buyers only: the others of the same call are decided.
func TestOneMasterHangs(t *testing.T) {
	cluster := testenv.RedisCluster(t, 3, "--cluster-node-timeout", "30000")
	s := open(t, cluster.URL())
	const subs = 8
	load(t, s, 10_000, subs, 1)
	var batch []seckill.Attempt
	lost := map[int]bool{}
	hangs, _ := cluster.MasterOf(t, runKey(s.tag(place{testRun, 0})))
	for sub := range subs {
		m, _ := cluster.MasterOf(t, runKey(s.tag(place{testRun, sub})))
		if m == hangs {
			lost[sub] = true
		}
		batch = append(batch, attempt(buyerAt(sub, subs), 1))
	}
	if len(lost) == subs {
		t.Fatalf("all sub-stocks are at one master")
	}
	hangs.Pause()
	defer hangs.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	begin := time.Now()
	ds, err := s.Reserve(ctx, testRun, 1, batch)
	if took := time.Since(begin); err != nil || took > 6*time.Second {
		t.Fatalf("%v after %v", err, took)
	}
	taken := 0
	for sub, d := range ds {
		if d.Verdict == stock.Taken {
			taken++
		}
		if lost[sub] != (d.Verdict == stock.Unknown) {
			t.Errorf("sub-stock %d, hangs: %v: got %+v", sub, lost[sub], d)
		}
	}
	if taken != subs-len(lost) {
		t.Errorf("%d were taken, want %d", taken, subs-len(lost))
	}
	// From now on nobody waits for it.
	begin = time.Now()
	for range 20 {
		for i := range batch {
			batch[i].Ticket, batch[i].Buyer = seckill.NewTicket(testRun), batch[i].Buyer+"x"
		}
		if _, err := s.Reserve(t.Context(), testRun, 1, batch); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("20 calls took %v", took)
	}
	hangs.Resume()
	for sub := range subs {
		if d := eventually(t, s, attempt(buyerAt(sub, subs), 1)); d.Verdict != stock.Taken && d.Verdict != stock.OverLimit {
			t.Errorf("sub-stock %d: got %+v", sub, d)
		}
	}
}

// Sub-stocks spread the load over the masters: with a multiple of their number, each has as many
// sub-stocks as the others, and its buyers are within a fifth of an even share.
func TestSubStocksSpread(t *testing.T) {
	cluster := testenv.RedisCluster(t, 3)
	const buyers = 9000
	for _, subs := range []int{3, 6, 24} {
		for range 4 {
			s := open(t, cluster.URL()) // Of another prefix each time.
			load(t, s, buyers, subs, 1)
			if taken, _ := reserveMany(t, s, 0, buyers, false); taken != buyers {
				t.Fatalf("%d were taken", taken)
			}
			stocks, sold := map[string]int{}, map[string]int64{}
			for sub := range subs {
				tag := s.tag(place{testRun, sub})
				m, _ := cluster.MasterOf(t, runKey(tag))
				stocks[m.Addr]++
				sold[m.Addr] += m.Must(t, "HLEN", buyersKey(tag)).(int64) - 1
			}
			sum := int64(0)
			for addr, n := range sold {
				sum += n
				if stocks[addr] != subs/3 || n < buyers/3*4/5 || n > buyers/3*6/5 {
					t.Errorf("%d sub-stocks: a master has %d of them, and %d buyers of %d", subs, stocks[addr], n, buyers)
				}
			}
			if sum != buyers {
				t.Errorf("got %v", sold)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
