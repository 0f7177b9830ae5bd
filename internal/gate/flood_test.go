package gate

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"seckill"
	"seckill/internal/limit"
	"seckill/stock"
)

// heap is what the process holds, in bytes, after the garbage is collected.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// asDefault is a limiter as large as they are by default.
func asDefault(t *testing.T, name string, rate float64, burst int) *limit.Limiter {
	t.Helper()
	l, err := limit.New(limit.Options{Name: name, Rate: rate, Burst: burst})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// OAT-015 and P10: ten million forged buyers, each with a name, an address and a device of his own, at 100,000 a second, one in sixteen
// with a key, so that the node learns something of each. Once a tenth of them has come, whatever is bounded is full: the heap
// grows no more. An honest buyer who comes in between is let through each time, and who is over his limit stays refused.
func TestOAT015TenMillionForgedBuyers(t *testing.T) {
	var punished int
	g := open(t, Options{BuyersMax: 2_000, Limits: Limits{
		Keys: limit.NewKeys(nil), IP: asDefault(t, "ip", 10, 20), User: asDefault(t, "user", 5, 5), Device: asDefault(t, "device", 10, 20),
		Abuse: asDefault(t, "abuse", 20, 1200), Punish: func(string) { punished++ },
	}})
	sold, open := sale(1), sale(1)
	sold.ID = 2
	begin := time.Now() // The limits' clock begins now.
	for _, a := range []*seckill.Activity{sold, open} {
		a.StartsAt, a.EndsAt = begin.Add(-time.Hour), begin.Add(time.Hour)
	}
	var room [32]byte
	var full int64
	honest, offender := 0, 0
	r := &Request{}
	for i := range forged {
		at := begin.Add(time.Duration(i) * 10 * time.Microsecond)
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(i)*2654435761) // An odd multiplier: each is another.
		name := strconv.AppendUint(append(room[:0], "forged-"...), uint64(binary.BigEndian.Uint32(b[:])), 16)
		*r = Request{Activity: sold, Buyer: unsafe.String(&name[0], len(name)), Device: unsafe.String(&name[0], len(name)), Quantity: 1, Addr: netip.AddrFrom4(b), Now: at}
		if i%16 == 0 {
			r.Key = "k"
		}
		switch answer := g.Check(r); {
		case answer.Refusal == nil:
			g.Learn(r, answer.Mark, stock.Decision{Verdict: stock.Short})
		case answer.Refusal.Reason != seckill.SoldOut:
			t.Fatalf("forged buyer %d: %v", i, answer.Refusal)
		}
		if i%10_000 == 0 { // Ten times a second.
			*r = Request{Activity: open, Buyer: "offender", Quantity: 1, Now: at} // From addresses that nobody knows.
			for range 10 {                                                        // A hundred times a second.
				if g.Check(r).Refusal == nil {
					offender++
				}
			}
		}
		if i%50_000 == 0 { // Twice a second.
			*r = Request{Activity: open, Buyer: "honest", Quantity: 1, Addr: netip.MustParseAddr("192.0.2.1"), Device: "phone", Now: at}
			if g.Check(r).Refusal == nil {
				honest++
			}
		}
		if i == forged/10 {
			full = heap()
		}
	}
	if grown := heap() - full; grown > 8<<20 {
		t.Errorf("the heap grew by %d KiB after the first tenth", grown>>10)
	}
	if honest != forged/50_000 {
		t.Errorf("the honest buyer passed %d of %d times", honest, forged/50_000)
	}
	seconds := forged / 100_000
	if offender > 5*seconds+10 {
		t.Errorf("the offender passed %d times in %d s, his limit is 5 a second", offender, seconds)
	}
	if punished == 0 && forged > 5_000_000 {
		t.Error("the offender was never handed over")
	}
	t.Logf("heap %d MiB; handed over %d times", heap()>>20, punished)
	runtime.KeepAlive(g)
}
