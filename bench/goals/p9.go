package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/bench"
)

const (
	// goalP9 is the least share of what Redis gives that the embedded engine gives.
	goalP9 = 0.5
	// buyersAtOnce is the concurrency of the closed loop.
	buyersAtOnce = 200
	unitsOnSale  = 50_000_000
)

// seller is one way to sell, started anew for each round.
type seller struct {
	name    string
	open    func(ctx context.Context, s *settings, dir string) (*stall, error)
	missing error // Why it cannot be measured.

	accepted, cost, p50, p99, orders, settled []float64
}

// stall is a seller that is open.
type stall struct {
	public   string
	activity int64
	pids     []int // Whose CPU time is the seller's.
	close    []func()
	shop     *shop // Nil of the reference.
	redis    *redisConn
}

func (st *stall) stop() {
	for _, end := range slices.Backward(st.close) {
		end()
	}
}

func p9(ctx context.Context, s *settings) error {
	sellers := []*seller{
		{name: "`seckill serve`, embedded engine, orders written to SQLite", open: openEmbedded},
		{name: "reference: the same door on Redis everysec, no orders", open: openReference},
		{name: "`seckill serve --stock redis://`, everysec, orders written to SQLite", open: openOnRedis},
	}
	for round := range s.rounds {
		for i, sl := range sellers {
			if sl.missing != nil {
				continue
			}
			dir := filepath.Join(s.work, fmt.Sprintf("p9-%d-%d", round, i))
			err := sl.measure(ctx, s, dir, "")
			if i == 2 && round == 0 && err != nil {
				sl.missing = err
				continue
			}
			if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
				return fmt.Errorf("%s: %w", sl.name, err)
			}
		}
	}
	showP9(s, sellers)
	if s.profiles == "" {
		return nil
	}
	return sellers[0].measure(ctx, s, filepath.Join(s.work, "p9-profile"), filepath.Join(s.profiles, "p9-embedded.pprof"))
}

func openEmbedded(ctx context.Context, s *settings, dir string) (*stall, error) {
	return openServe(ctx, s, &stall{}, dir)
}

func openServe(ctx context.Context, s *settings, st *stall, dir string, more ...string) (*stall, error) {
	sh, err := openShop(ctx, s, filepath.Join(dir, "data"), s.auth, more...)
	if err != nil {
		st.stop()
		return nil, err
	}
	st.shop, st.public = sh, sh.public
	st.pids, st.close = append(st.pids, sh.pid), append(st.close, sh.stop)
	if st.activity, err = sh.sale(ctx, "rush", unitsOnSale, time.Now().Add(-time.Second)); err != nil {
		st.stop()
		return nil, err
	}
	return st, nil
}

// openRedis starts a Redis of its own that writes to disk once a second.
func openRedis(ctx context.Context, dir string) (*stall, string, error) {
	address, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	_, port, _ := strings.Cut(address, ":")
	st := &stall{}
	ready := func() (err error) {
		st.redis, err = dialRedis(address)
		return err
	}
	p, err := start(ctx, ready, "redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
	if err != nil {
		return nil, "", err
	}
	st.pids, st.close = []int{p.pid}, []func(){p.stop}
	return st, address, nil
}

func openReference(ctx context.Context, s *settings, dir string) (*stall, error) {
	st, redis, err := openRedis(ctx, dir)
	if err != nil {
		return nil, err
	}
	self, err1 := os.Executable()
	address, err2 := freeAddr()
	if err := errors.Join(err1, err2); err != nil {
		st.stop()
		return nil, err
	}
	p, err := start(ctx, answers("http://"+address+"/healthz"), self, "reference", "-listen", address, "-redis", redis, "-auth", authSpec(s.auth))
	if err != nil {
		st.stop()
		return nil, err
	}
	st.public, st.activity = address, 1
	st.pids, st.close = append(st.pids, p.pid), append(st.close, p.stop)
	return st, nil
}

func openOnRedis(ctx context.Context, s *settings, dir string) (*stall, error) {
	st, redis, err := openRedis(ctx, dir)
	if err != nil {
		return nil, err
	}
	return openServe(ctx, s, st, dir, "--stock", "redis://"+redis)
}

// measure lets buyers rush, each once, then waits until every order is written.
func (sl *seller) measure(ctx context.Context, s *settings, dir, profile string) error {
	st, err := sl.open(ctx, s, dir)
	if err != nil {
		return err
	}
	defer st.stop()
	warm, err := st.rush(ctx, s, time.Second)
	if err != nil {
		return err
	}
	if _, _, err := st.settle(ctx, warm.Accepted); err != nil {
		return err
	}
	profiled := make(chan error, 1)
	if profile == "" {
		profiled <- nil
	} else {
		go func() { profiled <- st.shop.profile(profile, s.duration) }()
	}
	from, err := cpuOf(st.pids...)
	if err != nil {
		return err
	}
	r, err := st.rush(ctx, s, s.duration)
	if err != nil {
		return err
	}
	to, err := cpuOf(st.pids...)
	if err != nil {
		return err
	}
	during, waited, err := st.settle(ctx, warm.Accepted+r.Accepted)
	if err := errors.Join(err, <-profiled); err != nil {
		return err
	}
	if profile != "" {
		return nil
	}
	n := float64(r.Accepted)
	sl.accepted = append(sl.accepted, n/r.Seconds)
	sl.cost = append(sl.cost, float64(to.minus(from).total().Microseconds())/n)
	sl.p50, sl.p99 = append(sl.p50, r.AcceptedTook.P50), append(sl.p99, r.AcceptedTook.P99)
	if st.shop != nil {
		sl.orders = append(sl.orders, float64(during-warm.Accepted)/r.Seconds)
		sl.settled = append(sl.settled, waited.Seconds())
	}
	return nil
}

// rush runs `seckill bench`, a process of its own.
func (st *stall) rush(ctx context.Context, s *settings, d time.Duration) (*bench.Report, error) {
	report := filepath.Join(s.work, "report.json")
	out, err := exec.CommandContext(ctx, s.seckill, "bench", "--server", "http://"+st.public, "--activity", strconv.FormatInt(st.activity, 10),
		"--auth", authSpec(s.auth), "--concurrency", strconv.Itoa(buyersAtOnce), "--duration", d.String(), "--follow", "0", "--json", report).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("seckill bench: %w\n%s", err, out)
	}
	b, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var r bench.Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, err
	}
	if r.Errors > 0 || r.Refused > 0 || r.Accepted == 0 {
		return nil, fmt.Errorf("%d requests: %v, errors %v", r.Requests, r.Outcomes, r.ErrorKinds)
	}
	return &r, nil
}

// settle waits until nothing is queued any more, and checks that as many units are gone as
// were accepted. written is how many orders there were at first.
func (st *stall) settle(ctx context.Context, accepted int64) (written int64, waited time.Duration, err error) {
	if st.shop == nil {
		return 0, 0, st.checkRedis(accepted)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	begin, written := time.Now(), int64(-1)
	for {
		a, err := st.shop.operator.Activity(ctx, st.activity)
		if err != nil {
			return 0, 0, err
		}
		b := a.Books
		if written < 0 {
			written = b.AwaitingPayment
		}
		switch {
		case b.Queued > 0 || b.AwaitingPayment < accepted && !b.Balanced:
		case b.AwaitingPayment != accepted || b.Total-b.Available != accepted || !b.Balanced:
			return 0, 0, fmt.Errorf("%d purchases were accepted, but the books say %+v", accepted, *b)
		default:
			return written, time.Since(begin), nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("orders are still missing: %+v", *b)
		}
	}
}

// checkRedis looks whether the reference has really sold what it said.
func (st *stall) checkRedis(accepted int64) error {
	buyers, err := st.redis.do("HLEN", "{1}:buyers")
	if err != nil {
		return err
	}
	left, err := st.redis.do("HGET", "{1}:run", "left")
	if err != nil {
		return err
	}
	if buyers != accepted || left != strconv.FormatInt(referenceUnits-accepted, 10) {
		return fmt.Errorf("%d purchases were accepted, but Redis holds %v buyers and %v units", accepted, buyers, left)
	}
	return nil
}

func showP9(s *settings, sellers []*seller) {
	fmt.Printf("P9: accepted purchases a second, median of %d rounds of %v, `seckill bench --concurrency %d` on the same machine, auth %s, each buyer once; goal: embedded at least %.0f %% of Redis.\n\n",
		s.rounds, s.duration, buyersAtOnce, s.auth, 100*goalP9)
	fmt.Println("| seller | accepted/s | lowest–highest | embedded ÷ it | lowest–highest | goal | CPU µs each | p50 ms | p99 ms | orders/s during the rush | last order after, s |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for i, sl := range sellers {
		if sl.missing != nil {
			lines := strings.Split(strings.TrimSpace(sl.missing.Error()), "\n")
			fmt.Printf("| %s | not measured: %s | | | | | | | | | |\n", sl.name, strings.ReplaceAll(lines[len(lines)-1], "|", "/"))
			continue
		}
		ratios, verdict, orders := against(sellers[0].accepted, sl.accepted), "", "| "
		if i > 0 {
			verdict = met(median(ratios) >= goalP9)
		}
		if len(sl.orders) > 0 {
			orders = fmt.Sprintf("%.0f | %.2f", median(sl.orders), median(sl.settled))
		}
		fmt.Printf("| %s | %.0f | %s | %.2f | %s | %s | %.1f | %.1f | %.1f | %s |\n", sl.name, median(sl.accepted), spread("%.0f", sl.accepted),
			median(ratios), spread("%.2f", ratios), verdict, median(sl.cost), median(sl.p50), median(sl.p99), orders)
	}
	fmt.Println()
}
