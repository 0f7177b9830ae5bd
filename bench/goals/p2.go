package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// goalP2 is what an accepted purchase may cost, in times of what nginx's answer costs.
	goalP2 = 3
	// newcomersMost is how many buyers a second come at most. Each buys once.
	newcomersMost = 40_000
)

// prices are what an accepted purchase costs, in µs of CPU time.
type prices struct {
	redis, worker, gateway []float64
	base, ratio, accepted  []float64
}

// p2 compares an accepted purchase with nginx's answer to the same requests, measured after it. The gateway's and
// Redis's CPU time counts, until the last order is settled. The worker's, which writes the orders, is shown beside it.
func p2(ctx context.Context, s *settings) error {
	r, err := openReferee(ctx, s)
	if err != nil {
		return err
	}
	defer r.close()
	var p prices
	for round := range s.rounds {
		dir := filepath.Join(s.work, fmt.Sprintf("p2-%d", round))
		if err := errors.Join(p.measure(ctx, s, r, dir), os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	p.show(s)
	return nil
}

func (p *prices) measure(ctx context.Context, s *settings, r *referee, dir string) error {
	st, redis, err := openRedis(ctx, dir)
	if err != nil {
		return err
	}
	defer st.stop()
	gateway, err := st.openApart(ctx, s, dir, redis, redis, generous...)
	if err != nil {
		return err
	}
	if err := errors.Join(st.shop.blockOthers(ctx), gateway.await(ctx, st.open())); err != nil {
		return err
	}
	rush := &subject{url: fmt.Sprintf("http://%s/v1/activities/%d/purchases", gateway.public, st.activity)}
	// The first one is for warming up.
	_, sold, err := p.rush(ctx, s, r, st, rush, 0, 0, time.Second)
	if err != nil {
		return err
	}
	used, all, err := p.rush(ctx, s, r, st, rush, int(sold)+clickers, sold, s.duration)
	if err != nil {
		return err
	}
	before, err := cpuOf(r.nginx.pid)
	if err != nil {
		return err
	}
	answered, err := (&subject{url: r.url, buyers: rush.buyers, header: rush.header}).wrk(ctx, r.script, s.duration)
	if err != nil {
		return fmt.Errorf("nginx: %w", err)
	}
	after, err := cpuOf(r.nginx.pid)
	if err != nil {
		return err
	}
	n := float64(all - sold)
	each := func(of usage, n float64) float64 { return float64(of.total().Microseconds()) / n }
	base := each(after.minus(before), answered)
	redisCost, worker, gatewayCost := each(used[0], n), each(used[1], n), each(used[2], n)
	p.redis, p.worker, p.gateway = append(p.redis, redisCost), append(p.worker, worker), append(p.gateway, gatewayCost)
	p.base, p.ratio = append(p.base, base), append(p.ratio, (redisCost+gatewayCost)/base)
	p.accepted = append(p.accepted, n/s.duration.Seconds())
	return nil
}

// rush lets buyers come from a number on, and waits for their orders. It tells what each process of the stall
// used, and how much is sold.
func (p *prices) rush(ctx context.Context, s *settings, r *referee, st *stall, who *subject, from int, sold int64, d time.Duration) (used []usage, all int64, err error) {
	n := int((d + time.Second).Seconds()) * newcomersMost
	if who.buyers, who.header, err = identities(s, s.auth, from, n); err != nil {
		return nil, 0, err
	}
	before := make([]usage, len(st.pids))
	for i, pid := range st.pids {
		if before[i], err = cpuOf(pid); err != nil {
			return nil, 0, err
		}
	}
	requests, err := who.wrk(ctx, r.script, d)
	if err != nil {
		return nil, 0, err
	}
	if int(requests) > n-clickers {
		return nil, 0, fmt.Errorf("%.0f requests of %d buyers", requests, n)
	}
	// Whoever still waits for his answer at the end may have bought, too.
	if all, err = st.calm(ctx, sold+int64(requests), clickers); err != nil {
		return nil, 0, err
	}
	for i, pid := range st.pids {
		after, err := cpuOf(pid)
		if err != nil {
			return nil, 0, err
		}
		used = append(used, after.minus(before[i]))
	}
	return used, all, nil
}

func (p *prices) show(s *settings) {
	fmt.Printf("P2: CPU time of an accepted purchase, gateway and Redis (AOF everysec), median of %d rounds of %v, nginx after each, `wrk -t1 -c%d`, each buyer once, auth %s, "+
		"limits by address, buyer and device and 300 blocks looked through, the gateway with GOMAXPROCS=%d; goal: at most %d × nginx.\n\n", s.rounds, s.duration, clickers, s.auth, s.processors, goalP2)
	fmt.Println("| nginx µs | gateway µs | Redis µs | × nginx | lowest–highest | goal | the worker, which writes the order, µs | accepted/s |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	fmt.Printf("| %.1f | %.1f | %.1f | %.2f | %s | %s | %.1f | %.0f |\n\n", median(p.base), median(p.gateway), median(p.redis), median(p.ratio), spread("%.2f", p.ratio),
		met(median(p.ratio) <= goalP2), median(p.worker), median(p.accepted))
}
