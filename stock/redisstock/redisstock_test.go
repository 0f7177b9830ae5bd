package redisstock

import (
	"context"
	"crypto/rand"
	"flag"
	"os"
	"testing"
	"time"

	"seckill/internal/testenv"
	"seckill/stock"
	"seckill/stock/stocktest"
)

// checks is how many random sequences each form of the stock is put through, unless the command line says
// otherwise: there are many forms, and most of an operation is round trips.
const checks = "40"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// open opens a stock of a prefix of its own.
func open(tb testing.TB, url string, change ...func(*Options)) *Stock {
	tb.Helper()
	o := Options{URL: url, Prefix: rand.Text()}
	for _, f := range change {
		f(&o)
	}
	s, err := Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// splitting is a stock that splits each run.
type splitting struct {
	*Stock
	subs int
}

func (s splitting) Load(ctx context.Context, spec stock.Spec) error {
	spec.SubStocks = s.subs
	return s.Stock.Load(ctx, spec)
}

func conform(t *testing.T, url string, subs int, change ...func(*Options)) {
	stocktest.Run(t, func(t *testing.T) stocktest.Harness {
		prefix := rand.Text()
		return stocktest.Harness{
			Open: func(t *testing.T) stock.Stock {
				return splitting{open(t, url, func(o *Options) {
					o.Prefix = prefix
					o.ClaimAfter = time.Hour // What is handed back must not wait for it.
					for _, f := range change {
						f(o)
					}
				}), subs}
			},
			Durable:    true,
			ClockError: 50 * time.Millisecond,
			Patience:   20 * time.Second,
		}
	})
}

// One Redis does all that the contract asks for.
func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, testenv.Redis(t).URL(), 1)
}

// Nor does it matter into how many parts the stock is split.
func TestConformanceSplit(t *testing.T) {
	t.Parallel()
	conform(t, testenv.Redis(t).URL(), 8)
}

// A cluster of three masters is as good as one Redis.
func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	conform(t, testenv.RedisCluster(t, 3).URL(), 1)
}

func TestConformanceClusterSplit(t *testing.T) {
	t.Parallel()
	conform(t, testenv.RedisCluster(t, 3).URL(), 8)
}
