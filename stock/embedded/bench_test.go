package embedded_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/stock"
	"seckill/stock/embedded"
)

var benchRun = seckill.RunID{Activity: 7, Run: 1}

// benchStock is a stock on this machine's disk, with a limit of one.
func benchStock(b *testing.B, units int64) *embedded.Engine {
	b.Helper()
	e, err := embedded.Open(b.Context(), embedded.Options{Path: filepath.Join(b.TempDir(), "stock.db")})
	must(b, err)
	b.Cleanup(func() { must(b, e.Close()) })
	now := time.Now()
	must(b, e.Load(b.Context(), stock.Spec{
		Run: benchRun, Epoch: 1, Units: units, Limit: 1, SubStocks: 1,
		StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour),
	}))
	return e
}

func benchAttempt(n int64) seckill.Attempt {
	return seckill.Attempt{
		Ticket: fmt.Sprintf("7-1-%020d", n), Buyer: fmt.Sprintf("buyer-%030d", n), Quantity: 1, Key: fmt.Sprintf("key-%020d", n),
	}
}

// benchReserve sends attempts in batches from several callers at once. Making the
// attempts is in the figures.
func benchReserve(b *testing.B, e *embedded.Engine, batch, callers int, want stock.Verdict, attempt func(n int64) seckill.Attempt) {
	var next atomic.Int64
	b.SetParallelism((callers + 1) / 2)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		attempts := make([]seckill.Attempt, 0, batch)
		send := func() {
			ds, err := e.Reserve(b.Context(), benchRun, 1, attempts)
			if err != nil {
				b.Error(err)
			}
			for _, d := range ds {
				if d.Verdict != want {
					b.Errorf("verdict %d, want %d", d.Verdict, want)
				}
			}
			attempts = attempts[:0]
		}
		for pb.Next() {
			if attempts = append(attempts, attempt(next.Add(1))); len(attempts) == batch {
				send()
			}
		}
		if len(attempts) > 0 {
			send()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

func eachSize(b *testing.B, do func(b *testing.B, batch, callers int)) {
	for _, batch := range []int{1, 32, 256} {
		for _, callers := range []int{2, 64} {
			b.Run(fmt.Sprintf("batch=%d/callers=%d", batch, callers), func(b *testing.B) { do(b, batch, callers) })
		}
	}
}

// What is taken is on disk before the answer.
func BenchmarkReserveTaken(b *testing.B) {
	eachSize(b, func(b *testing.B, batch, callers int) {
		benchReserve(b, benchStock(b, 1<<40), batch, callers, stock.Taken, benchAttempt)
	})
}

// A refusal that saw nothing but what is on disk does not touch it.
func BenchmarkReserveSoldOut(b *testing.B) {
	eachSize(b, func(b *testing.B, batch, callers int) {
		benchReserve(b, benchStock(b, 0), batch, callers, stock.Short, benchAttempt)
	})
}

// Nor does that of a buyer who has his share: here one of ten thousand.
func BenchmarkReserveOverLimit(b *testing.B) {
	const buyers = 10_000
	eachSize(b, func(b *testing.B, batch, callers int) {
		e := benchStock(b, 1<<40)
		var all []seckill.Attempt
		for n := range int64(buyers) {
			all = append(all, benchAttempt(n))
		}
		_, err := e.Reserve(b.Context(), benchRun, 1, all)
		must(b, err)
		benchReserve(b, e, batch, callers, stock.OverLimit, func(n int64) seckill.Attempt {
			return seckill.Attempt{Ticket: "7-1-another0000000000000", Buyer: all[n%buyers].Buyer, Quantity: 1, Key: "another"}
		})
	})
}
