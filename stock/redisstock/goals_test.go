package redisstock

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
	"seckill/stock"
)

// goalRounds is in how many rounds the two sides of a goal take turns, so that whatever else runs
// on the machine slows both. The middle of their ratios counts.
const goalRounds = 15

// seller sells to ever new buyers.
type seller struct {
	s       *Stock
	subs    int
	run     seckill.RunID
	servers []*testenv.RedisServer
	next    int64
	callers int               // Calls under way at once.
	wants   func(string) bool // Which buyers come; nil: everybody.
}

func newSeller(b *testing.B, s *Stock, subs int, servers ...*testenv.RedisServer) *seller {
	x := &seller{s: s, subs: subs, run: seckill.RunID{Activity: 1}, servers: servers, callers: 8}
	x.renew(b)
	return x
}

// renew begins another sale.
func (x *seller) renew(b *testing.B) {
	now := time.Now()
	x.run.Run++
	spec := stock.Spec{Run: x.run, Epoch: 1, Units: 1 << 30, Limit: 1, SubStocks: x.subs, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour)}
	if err := x.s.Load(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
}

// sell decides n attempts by calls of 200 and tells what one cost. They are made before
// the clock starts, as making them is not the stock's.
func (x *seller) sell(b *testing.B, n int) (cpu, wall float64) {
	const batch = 200
	batches := make([][]seckill.Attempt, max(n/batch, 1))
	for i := range batches {
		for ; len(batches[i]) < batch; x.next++ {
			if buyer := benchBuyer(x.next); x.wants == nil || x.wants(buyer) {
				batches[i] = append(batches[i], seckill.Attempt{Ticket: seckill.NewTicket(x.run), Buyer: buyer, Quantity: 1})
			}
		}
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	before, begin := x.cpu(b), time.Now()
	for range x.callers {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(batches)); i = next.Add(1) - 1 {
				ds, err := x.s.Reserve(b.Context(), x.run, 1, batches[i])
				if err != nil {
					b.Error(err)
					return
				}
				for _, d := range ds {
					if d.Verdict != stock.Taken {
						b.Errorf("got %+v", d)
						return
					}
				}
			}
		})
	}
	wait.Wait()
	sold := float64(len(batches) * batch)
	return float64(x.cpu(b)-before) / sold, float64(time.Since(begin).Nanoseconds()) / sold
}

// cpu is what the servers have used, in ns.
func (x *seller) cpu(b *testing.B) (ns int64) {
	for _, r := range x.servers {
		ns += redisCPU(b, r).Nanoseconds()
	}
	return ns
}

// calls counts calls of scripts.
func (x *seller) calls(b *testing.B) (n float64) {
	for _, r := range x.servers {
		stats := r.Must(b, "INFO", "commandstats").(string)
		if m := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(stats); m != nil {
			calls, _ := strconv.ParseFloat(m[1], 64)
			n += calls
		}
	}
	return n
}

// reportRatio reports the middle of ratios, and the lowest and highest.
func reportRatio(b *testing.B, name string, ratios []float64) {
	slices.Sort(ratios)
	b.ReportMetric(ratios[0], name+"-least")
	b.ReportMetric(ratios[len(ratios)/2], name)
	b.ReportMetric(ratios[len(ratios)-1], name+"-most")
}

// BenchmarkGoalP3 compares decisions through this package with the article's script by
// redis-benchmark, 32 calls in a pipeline, both on a Redis that writes an append-only file: by
// the clock ("faster") and by the CPU time of Redis ("lighter"). It needs -benchtime 500000x or so.
func BenchmarkGoalP3(b *testing.B) {
	ours := testenv.Redis(b, testenv.RedisAOFUnrewritten...)
	x := newSeller(b, open(b, ours.URL()), 1, ours)
	theirs := testenv.Redis(b, testenv.RedisAOFUnrewritten...)
	theirs.Must(b, "SET", "{seckill}:stock:1", "1000000000")
	sha := theirs.Must(b, "SCRIPT", "LOAD", articleScript).(string)
	n := max(b.N/goalRounds, 1000)
	x.sell(b, n)
	var faster, lighter []float64
	b.ResetTimer()
	for sale := range goalRounds {
		x.renew(b)
		cpu, wall := x.sell(b, n)
		before := redisCPU(b, theirs)
		rate := article(b, theirs, sha, sale, n)
		lighter = append(lighter, float64((redisCPU(b, theirs)-before).Nanoseconds())/float64(n)/cpu)
		faster = append(faster, 1e9/wall/rate)
	}
	reportRatio(b, "faster", faster)
	reportRatio(b, "lighter", lighter)
}

// article runs the article's script n times, and tells how many a second. Each sale has buyers of its own,
// since redis-benchmark draws the same ones again now and then (its seed is clock and process):
// they would be refused, for a third of the price.
func article(b *testing.B, redis *testenv.RedisServer, sha string, sale, n int) (rate float64) {
	users := fmt.Sprintf("{seckill}:users:%d", sale)
	_, port := hostPortOf(redis.Addr)
	out, err := exec.CommandContext(b.Context(), "redis-benchmark", "-p", port, "-P", "32", "-c", "50", "-n", strconv.Itoa(n),
		"-r", "1000000000", "-q", "EVALSHA", sha, "2", "{seckill}:stock:1", users, "__rand_int__").CombinedOutput()
	found := regexp.MustCompile(`([0-9.]+) requests per second`).FindSubmatch(out)
	if err != nil || found == nil {
		b.Fatalf("redis-benchmark: %v\n%s", err, out)
	}
	if sold := redis.Must(b, "SCARD", users).(int64); sold < int64(n)*95/100 {
		b.Fatalf("the article's script sold %d units to %d buyers", sold, n)
	}
	rate, _ = strconv.ParseFloat(string(found[1]), 64)
	return rate
}

// BenchmarkGoalP5 compares the CPU time of all masters of a cluster with that of one Redis, for the
// same decisions ("dearer": at most 1 is the goal), with as much under way at each master as at the one.
// It also tells how far the master with the most or the least to do is from an even share, in percent: of
// decisions ("uneven-%", at most 20 is the goal) and of CPU time.
//
// Where there are fewer processors than servers, three servers take turns on them, and each finds its memory
// out of the caches: a third of the work costs more than a third. So the same sale is also held with the
// buyers of one master after those of another ("dearer-in-turn"): each has a processor to itself then,
// as it has on a machine of its own. And all at once is compared with three servers that know nothing of each
// other and sell a third each, at once ("dearer-than-three").
func BenchmarkGoalP5(b *testing.B) {
	for _, subs := range []int{3, 6, 24} {
		b.Run(fmt.Sprintf("subs=%d", subs), func(b *testing.B) {
			one := testenv.Redis(b, testenv.RedisAOFUnrewritten...)
			cluster := testenv.RedisCluster(b, 3, testenv.RedisAOFUnrewritten...)
			x := newSeller(b, open(b, one.URL()), 1, one)
			y := newSeller(b, open(b, cluster.URL()), subs, cluster.Masters...)
			y.callers = 3 * x.callers // So that as much is under way at each master as at the one.
			n := max(b.N/goalRounds, 1000)
			three := make([]*seller, 3)
			for i := range three {
				redis := testenv.Redis(b, testenv.RedisAOFUnrewritten...)
				three[i] = newSeller(b, open(b, redis.URL()), 1, redis)
			}
			x.sell(b, n)
			y.sell(b, n)
			sellAtOnce(b, three, n)
			each := make([]time.Duration, len(cluster.Masters))
			for i, m := range cluster.Masters {
				each[i] = -redisCPU(b, m)
			}
			calls := y.calls(b)
			var dearer, dearerInTurn, dearerThanThree []float64
			b.ResetTimer()
			for range goalRounds {
				alone, _ := x.sell(b, n)
				spread, _ := y.sell(b, n)
				inTurn := sellInTurn(b, cluster, y, n)
				apart := sellAtOnce(b, three, n)
				dearer, dearerInTurn = append(dearer, spread/alone), append(dearerInTurn, inTurn/alone)
				dearerThanThree = append(dearerThanThree, spread/apart)
			}
			b.StopTimer()
			reportRatio(b, "dearer", dearer)
			reportRatio(b, "dearer-in-turn", dearerInTurn)
			reportRatio(b, "dearer-than-three", dearerThanThree)
			b.ReportMetric(float64(2*goalRounds*n)/(y.calls(b)-calls), "attempts/call")
			decisions, cpu := make([]float64, len(each)), make([]float64, len(each))
			for i, m := range cluster.Masters {
				cpu[i] = float64(each[i] + redisCPU(b, m))
			}
			for sub := range subs {
				tag := y.s.tag(place{y.run, sub})
				m, _ := cluster.MasterOf(b, runKey(tag))
				decisions[slices.Index(cluster.Masters, m)] += float64(m.Must(b, "HLEN", buyersKey(tag)).(int64) - 1)
			}
			b.ReportMetric(uneven(decisions), "uneven-%")
			b.ReportMetric(uneven(cpu), "uneven-cpu-%")
		})
	}
}

// sellInTurn sells n to buyers of one part after those of another, and tells what CPU time one cost the server of
// that part: the others only await their turn.
func sellInTurn(b *testing.B, cluster *testenv.RedisClusterServers, x *seller, n int) (cpu float64) {
	defer func(servers []*testenv.RedisServer, callers int) {
		x.wants, x.servers, x.callers = nil, servers, callers
	}(x.servers, x.callers)
	x.callers /= len(x.servers) // One master's part of them.
	for sub := range x.subs {
		x.wants = func(buyer string) bool { return home(buyer, x.subs) == sub }
		master, _ := cluster.MasterOf(b, runKey(x.s.tag(place{x.run, sub})))
		x.servers = []*testenv.RedisServer{master}
		ns, _ := x.sell(b, n/x.subs)
		cpu += ns / float64(x.subs)
	}
	return cpu
}

// sellAtOnce sells n, each seller an equal part of them, and tells what CPU time one cost.
func sellAtOnce(b *testing.B, sellers []*seller, n int) (cpu float64) {
	costs := make([]float64, len(sellers))
	var wait sync.WaitGroup
	for i, x := range sellers {
		wait.Go(func() { costs[i], _ = x.sell(b, n/len(sellers)) })
	}
	wait.Wait()
	for _, c := range costs {
		cpu += c / float64(len(costs))
	}
	return cpu
}

// uneven is how far the one that is farthest from the mean is from it, in percent.
func uneven(shares []float64) (most float64) {
	sum := 0.0
	for _, v := range shares {
		sum += v
	}
	mean := sum / float64(len(shares))
	for _, v := range shares {
		most = max(most, 100*max(v-mean, mean-v)/mean)
	}
	return most
}
