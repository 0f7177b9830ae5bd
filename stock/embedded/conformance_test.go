package embedded_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"seckill/stock"
	"seckill/stock/embedded"
	"seckill/stock/stocktest"
)

// The engine keeps every promise of package stock, on a file and by its own clock.
func TestConformance(t *testing.T) { stocktest.Run(t, onFile) }

// It keeps them in memory too, where the clock is in the test's hands, but for
// outliving its handle.
func TestConformanceInMemory(t *testing.T) { stocktest.Run(t, inMemory) }

func FuzzAgreesWithModel(f *testing.F) { stocktest.Fuzz(f, onFile) }

func onFile(t *testing.T) stocktest.Harness {
	path := filepath.Join(t.TempDir(), "stock.db")
	return stocktest.Harness{
		Durable: true,
		Open: func(t *testing.T) stock.Stock {
			// A small log, so that compaction is in the middle of everything.
			e, err := embedded.Open(t.Context(), embedded.Options{Path: path, CompactBytesMin: 2 << 10})
			must(t, err)
			return e
		},
	}
}

func inMemory(*testing.T) stocktest.Harness {
	start := time.Now()
	var passed atomic.Int64
	now := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	return stocktest.Harness{
		Now:     now,
		Advance: func(d time.Duration) { passed.Add(int64(d)) },
		Open: func(t *testing.T) stock.Stock {
			e, err := embedded.Open(t.Context(), embedded.Options{Now: now})
			must(t, err)
			return e
		},
	}
}
