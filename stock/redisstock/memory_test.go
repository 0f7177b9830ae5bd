package redisstock

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
)

// usedMemory is what Redis has allocated for data.
func usedMemory(tb testing.TB, r *testenv.RedisServer) int64 {
	tb.Helper()
	m := regexp.MustCompile(`used_memory_dataset:(\d+)`).FindStringSubmatch(r.Must(tb, "INFO", "memory").(string))
	if m == nil {
		tb.Fatal("no used_memory_dataset")
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	return n
}

// keysMemory is the memory of all keys, in bytes, as MEMORY USAGE tells it exactly.
func keysMemory(tb testing.TB, r *testenv.RedisServer) (sum int64) {
	tb.Helper()
	for _, key := range r.Must(tb, "KEYS", "*").([]any) {
		sum += r.Must(tb, "MEMORY", "USAGE", key.(string), "SAMPLES", "0").(int64)
	}
	return sum
}

// uuid is like a random UUID, and always the same for a number.
func uuid(i int) string {
	x := uint64(i)*0x9E3779B97F4A7C15 + 1
	y := x * 0xD1B54A32D192ED03
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", uint32(x>>32), uint16(x>>16), uint16(x), uint16(y>>48), y&0xffffffffffff)
}

// reserveMany reserves for buyers from..to, in batches, with a key each if keyed, and counts
// those that were taken.
func reserveMany(tb testing.TB, s *Stock, from, to int, keyed bool) (taken int, attempts []seckill.Attempt) {
	tb.Helper()
	const batch = 250
	for at := from; at < to; at += batch {
		var as []seckill.Attempt
		for i := at; i < min(at+batch, to); i++ {
			a := attempt(uuid(i), 1)
			if keyed {
				a.Key = uuid(-i)
			}
			as = append(as, a)
		}
		ds, err := s.Reserve(tb.Context(), testRun, 1, as)
		if err != nil {
			tb.Fatal(err)
		}
		for i, d := range ds {
			if d.Verdict == stock.Taken {
				taken++
				attempts = append(attempts, as[i])
			}
		}
	}
	return taken, attempts
}

// A buyer who got a unit takes at most 200 bytes of Redis's memory: while his order waits in
// the outbox, when it is written, and with an idempotency key as well.
func TestMemoryPerBuyer(t *testing.T) {
	const buyers, most = 50_000, 200
	for _, keyed := range []bool{false, true} {
		redis := testenv.Redis(t)
		s := open(t, redis.URL())
		load(t, s, buyers, 1, 1)
		before := keysMemory(t, redis)
		taken, attempts := reserveMany(t, s, 0, buyers, keyed)
		if taken != buyers {
			t.Fatalf("%d were taken", taken)
		}
		queued := float64(keysMemory(t, redis)-before) / buyers
		settleAndAck(t, s, attempts)
		written := float64(keysMemory(t, redis)-before) / buyers
		t.Logf("with key: %v: %.0f bytes per buyer while queued, %.0f with an order", keyed, queued, written)
		if queued > most || written > most {
			t.Errorf("with key: %v: %.0f bytes per buyer while queued, %.0f with an order, more than %d", keyed, queued, written, most)
		}
	}
}

// settleAndAck makes orders of all that is queued.
func settleAndAck(tb testing.TB, s *Stock, attempts []seckill.Attempt) {
	tb.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	var settlements []stock.Settlement
	for i, a := range attempts {
		o := &seckill.Order{
			ID: strconv.Itoa(1_000_000 + i), Ticket: a.Ticket, Run: testRun, Buyer: a.Buyer, Quantity: 1, Slot: 1, AmountCents: 129900,
			State: seckill.AwaitingPayment, CreatedAt: now, PayBefore: now.Add(15 * time.Minute),
		}
		settlements = append(settlements, stock.Settlement{Run: testRun, Ticket: a.Ticket, Buyer: a.Buyer, Order: o})
	}
	for some := range slices.Chunk(settlements, 1000) {
		if unknown, err := s.Settle(tb.Context(), some); err != nil || len(unknown) > 0 {
			tb.Fatalf("%d unknown, %v", len(unknown), err)
		}
	}
	sub, err := s.Outbox().Subscribe(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = sub.Close() }()
	for {
		b, err := s.Outbox().Backlog(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		if n := s.client.Do(tb.Context(), s.client.B().Xlen().Key(streamKey(s.tag(place{testRun, 0}))).Build()); b.Waiting == 0 {
			if left, err := n.AsInt64(); err != nil || left == 0 {
				return
			}
		}
		ds, err := sub.Receive(tb.Context(), 100)
		if err != nil {
			tb.Fatal(err)
		}
		if err := sub.Ack(tb.Context(), ds...); err != nil {
			tb.Fatal(err)
		}
	}
}

// A million buyers who got nothing leave no key and no byte behind, whatever they were
// refused for.
func TestRefusedLeaveNothing(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	s := open(t, redis.URL())
	load(t, s, 100, 4, 1)
	if taken, _ := reserveMany(t, s, 0, 2000, true); taken != 100 {
		t.Fatalf("%d were taken, want 100", taken)
	}
	keys, bytes, dataset := redis.Must(t, "DBSIZE"), keysMemory(t, redis), usedMemory(t, redis)
	const refused = 1_000_000
	if taken, _ := reserveMany(t, s, 10_000, 10_000+refused, true); taken != 0 {
		t.Fatalf("%d were taken", taken)
	}
	if after := redis.Must(t, "DBSIZE"); after != keys {
		t.Errorf("there were %v keys, now %v", keys, after)
	}
	if after := keysMemory(t, redis); after != bytes {
		t.Errorf("the keys had %d bytes, now %d", bytes, after)
	}
	// The server itself moves by some KiB, buffers and all.
	if grown := usedMemory(t, redis) - dataset; grown > 256<<10 {
		t.Errorf("Redis grew by %d bytes", grown)
	}
}

// All keys of a run expire when they have been kept long enough after its end, and a
// consumer takes it off the list.
func TestKeysExpire(t *testing.T) {
	redis := testenv.Redis(t)
	s := open(t, redis.URL(), func(o *Options) { o.KeepFor = 2 * time.Hour })
	load(t, s, 100, 4, 3)
	reserveMany(t, s, 0, 20, true)
	if _, err := s.Restock(t.Context(), testRun, 1, 5); err != nil {
		t.Fatal(err)
	}
	keys := 0
	for _, key := range redis.Must(t, "KEYS", "*").([]any) {
		if key == s.listKey() {
			continue
		}
		keys++
		ttl := time.Duration(redis.Must(t, "PTTL", key.(string)).(int64)) * time.Millisecond
		if ttl < 2*time.Hour || ttl > 3*time.Hour+time.Minute { // The run ends in an hour.
			t.Errorf("%s expires in %v", key, ttl)
		}
	}
	if keys != 4*6 {
		t.Errorf("there are %d keys, want 24", keys)
	}
	redis.Must(t, "HSET", s.listKey(), runName(testRun), "4:1000")
	if err := s.hub.readList(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := redis.Must(t, "HLEN", s.listKey()); n != int64(0) {
		t.Errorf("an expired run is still listed")
	}
}
