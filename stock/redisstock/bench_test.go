package redisstock

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
)

// articleScript is the script of the article that the product was asked to improve on: no
// queue, no limit above 1, no time.
const articleScript = `if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return -2 end
local stock = redis.call('GET', KEYS[1])
if not stock then return -1 end
if tonumber(stock) <= 0 then return 0 end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
return 1`

// BenchmarkReserve counts decisions a second by calls of a batch each, several at once, on a
// Redis that writes an append-only file. One decision is one op.
func BenchmarkReserve(b *testing.B) {
	for _, batch := range []int{1, 32, 200} {
		for _, subs := range []int{1, 8} {
			b.Run(fmt.Sprintf("batch=%d/subs=%d", batch, subs), func(b *testing.B) {
				callers := 4
				if batch == 1 {
					callers = 128
				}
				redis := testenv.Redis(b, testenv.RedisAOFUnrewritten...)
				benchReserve(b, open(b, redis.URL()), batch, callers, subs, 1<<30, redis)
			})
		}
	}
	b.Run("batch=200/sold-out", func(b *testing.B) {
		redis := testenv.Redis(b, testenv.RedisAOFUnrewritten...)
		benchReserve(b, open(b, redis.URL()), 200, 4, 1, 0, redis)
	})
}

// BenchmarkReserveCluster is BenchmarkReserve on a cluster of three masters, with a stock in as
// many parts as given.
func BenchmarkReserveCluster(b *testing.B) {
	for _, subs := range []int{1, 3, 24} {
		b.Run(fmt.Sprintf("batch=200/subs=%d", subs), func(b *testing.B) {
			cluster := testenv.RedisCluster(b, 3, testenv.RedisAOFUnrewritten...)
			benchReserve(b, open(b, cluster.URL()), 200, 4, subs, 1<<30, cluster.Masters...)
		})
	}
}

// BenchmarkArticle is the article's script by redis-benchmark, 32 calls in a pipeline.
func BenchmarkArticle(b *testing.B) {
	redis := testenv.Redis(b, testenv.RedisAOFUnrewritten...)
	redis.Must(b, "SET", "{seckill}:stock:1", "1000000000")
	sha := redis.Must(b, "SCRIPT", "LOAD", articleScript).(string)
	report := cpu(b, redis)
	b.ResetTimer()
	rate := article(b, redis, sha, b.N, max(b.N, 1000))
	b.StopTimer()
	report()
	b.ReportMetric(rate, "decisions/s")
}

// benchBuyer has 12 digits, as those of redis-benchmark have.
func benchBuyer(n int64) string { return fmt.Sprintf("%012d", n) }

// cpu reports what servers and this process spend on one op, which depends less on who
// else is on the machine than a rate does.
func cpu(b *testing.B, servers ...*testenv.RedisServer) (report func()) {
	used := func() (redis, own time.Duration) {
		for _, s := range servers {
			redis += redisCPU(b, s)
		}
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return redis, time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	redis, own := used()
	return func() {
		redisNow, ownNow := used()
		b.ReportMetric(float64((redisNow-redis).Nanoseconds())/float64(b.N), "redis-ns/op")
		b.ReportMetric(float64((ownNow-own).Nanoseconds())/float64(b.N), "go-ns/op")
	}
}

func redisCPU(tb testing.TB, s *testenv.RedisServer) (sum time.Duration) {
	info := s.Must(tb, "INFO", "cpu").(string)
	for _, m := range regexp.MustCompile(`used_cpu_(?:user|sys):([0-9.]+)`).FindAllStringSubmatch(info, -1) {
		sec, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			tb.Fatal(err)
		}
		sum += time.Duration(sec * float64(time.Second))
	}
	return sum
}

func hostPortOf(addr string) (host, port string) {
	m := regexp.MustCompile(`^(.*):(\d+)$`).FindStringSubmatch(addr)
	return m[1], m[2]
}

func benchReserve(b *testing.B, s *Stock, batch, callers, subs int, units int64, servers ...*testenv.RedisServer) {
	run := seckill.RunID{Activity: 1, Run: 1}
	now := time.Now()
	spec := stock.Spec{Run: run, Epoch: 1, Units: units, Limit: 1, SubStocks: subs, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour)}
	if err := s.Load(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
	var next, taken atomic.Int64
	var wait sync.WaitGroup
	attempts := make([][]seckill.Attempt, callers)
	for c := range attempts {
		attempts[c] = make([]seckill.Attempt, batch)
	}
	report := cpu(b, servers...)
	b.ResetTimer()
	for c := range callers {
		wait.Go(func() {
			mine := attempts[c]
			for {
				from := next.Add(int64(batch)) - int64(batch)
				if from >= int64(b.N) {
					return
				}
				for i := range mine {
					mine[i] = seckill.Attempt{Ticket: seckill.NewTicket(run), Buyer: benchBuyer(from + int64(i)), Quantity: 1}
				}
				ds, err := s.Reserve(b.Context(), run, 1, mine)
				if err != nil {
					b.Error(err)
					return
				}
				for _, d := range ds {
					if d.Verdict == stock.Taken {
						taken.Add(1)
					}
				}
			}
		})
	}
	wait.Wait()
	b.StopTimer()
	report()
	if got := taken.Load(); units > 0 && got < int64(b.N) || units == 0 && got > 0 {
		b.Fatalf("%d of %d were taken", got, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}
