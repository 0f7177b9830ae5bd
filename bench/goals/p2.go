package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// goalP2 is what an accepted purchase may cost, in times of what nginx's answer costs.
	goalP2 = 3
	// newcomersMost is how many buyers a second come at most. Each buys once.
	newcomersMost = 40_000
)

// Processes of a stall that openApart has opened, by their place among its pids.
const (
	ofRedis = iota
	ofWorker
	ofGateway
)

// prices are what an accepted purchase costs, in µs of CPU time.
type prices struct {
	gateway, redis, base, ratio []float64
	order                       []float64 // The worker's and Redis's, afterwards.
	accepted                    []float64 // A second.
}

// p2 compares an accepted purchase with nginx's answer to the same requests, measured after it. The gateway's and
// Redis's CPU time counts. The worker would be on another machine in the evening that matters; here it stands still
// until the buyers have been answered, and what the orders cost then is shown beside it.
func p2(ctx context.Context, s *settings) error {
	r, err := openReferee(ctx, s)
	if err != nil {
		return err
	}
	defer r.close()
	var p prices
	for round := range s.rounds {
		dir := filepath.Join(s.work, fmt.Sprintf("p2-%d", round))
		if err := errors.Join(p.measure(ctx, s, r, dir, ""), os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	p.show(s)
	if s.profiles == "" {
		return nil
	}
	return new(prices).measure(ctx, s, r, filepath.Join(s.work, "p2-profile"), filepath.Join(s.profiles, "p2-"+s.auth+".pprof"))
}

// measure leaves a CPU profile of the gateway in a file, if it is told one.
func (p *prices) measure(ctx context.Context, s *settings, r *referee, dir, profile string) error {
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
	buyers := &subject{url: fmt.Sprintf("http://%s/v1/activities/%d/purchases", gateway.public, st.activity)}
	warm := &rush{st: st, who: buyers}
	if err := warm.run(ctx, s, r, time.Second); err != nil {
		return err
	}
	measured := &rush{st: st, who: buyers, from: int(warm.sold) + 2*clickers, before: warm.sold, profile: profile}
	if err := measured.run(ctx, s, r, s.duration); err != nil {
		return err
	}
	before, err := cpuOf(r.nginx.pid)
	if err != nil {
		return err
	}
	answered, err := (&subject{url: r.url, buyers: buyers.buyers, header: buyers.header}).wrk(ctx, r.script, s.duration)
	if err != nil {
		return fmt.Errorf("nginx: %w", err)
	}
	after, err := cpuOf(r.nginx.pid)
	if err != nil {
		return err
	}
	base := each(after.minus(before), answered)
	n := float64(measured.sold - warm.sold)
	gatewayCost, redisCost := each(measured.answers[ofGateway], n), each(measured.answers[ofRedis], n)
	p.gateway, p.redis, p.base = append(p.gateway, gatewayCost), append(p.redis, redisCost), append(p.base, base)
	p.ratio = append(p.ratio, (gatewayCost+redisCost)/base)
	p.order = append(p.order, each(measured.orders[ofWorker].plus(measured.orders[ofRedis]), n))
	p.accepted = append(p.accepted, n/s.duration.Seconds())
	return nil
}

// each is CPU time for one of n, in µs.
func each(of usage, n float64) float64 { return float64(of.total().Microseconds()) / n }

// rush is a time in which buyers come who have not been there, and then their orders are written.
type rush struct {
	st      *stall
	who     *subject
	from    int    // The number of the first buyer.
	before  int64  // Units that were sold before.
	profile string // A file for the gateway's, or "".

	sold            int64   // With those before.
	answers, orders []usage // Of each process of the stall: while buyers are answered, and afterwards.
}

func (h *rush) run(ctx context.Context, s *settings, r *referee, d time.Duration) (err error) {
	n := int((d + time.Second).Seconds()) * newcomersMost
	if h.who.buyers, h.who.header, err = identities(s, s.auth, h.from, n); err != nil {
		return err
	}
	worker := h.st.pids[ofWorker]
	if err := syscall.Kill(worker, syscall.SIGSTOP); err != nil {
		return err
	}
	profiled := make(chan error, 1)
	if h.profile == "" {
		profiled <- nil
	} else {
		go func() { profiled <- h.st.shop.profile(h.profile, d) }()
	}
	begun, err1 := cpuOfEach(h.st.pids)
	requests, err2 := h.who.wrk(ctx, r.script, d)
	answered, err3 := cpuOfEach(h.st.pids)
	if err := errors.Join(err1, err2, err3, <-profiled, syscall.Kill(worker, syscall.SIGCONT)); err != nil {
		return err
	}
	if int(requests) > n-2*clickers {
		return fmt.Errorf("%.0f requests of %d buyers", requests, n)
	}
	// Whoever still waits for his answer at the end may have bought, too.
	if h.sold, err = h.st.calm(ctx, h.before+int64(requests), 2*clickers); err != nil {
		return err
	}
	settled, err := cpuOfEach(h.st.pids)
	if err != nil {
		return err
	}
	for i := range h.st.pids {
		h.answers, h.orders = append(h.answers, answered[i].minus(begun[i])), append(h.orders, settled[i].minus(answered[i]))
	}
	return nil
}

func cpuOfEach(pids []int) (used []usage, err error) {
	for _, pid := range pids {
		u, err := cpuOf(pid)
		if err != nil {
			return nil, err
		}
		used = append(used, u)
	}
	return used, nil
}

func (p *prices) show(s *settings) {
	fmt.Printf("P2: CPU time of an accepted purchase, gateway and Redis (AOF everysec), median of %d rounds of %v, nginx after each, `wrk -t1 -c%d`, each buyer once, auth %s, "+
		"limits by address, buyer and device and 300 blocks looked through, the gateway with GOMAXPROCS=%d; goal: at most %d × nginx.\n\n", s.rounds, s.duration, clickers, s.auth, s.processors, goalP2)
	fmt.Println("| nginx µs | gateway µs | Redis µs | × nginx | lowest–highest | goal | accepted/s | then the order, worker and Redis, µs |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	fmt.Printf("| %.1f | %.1f | %.1f | %.2f | %s | %s | %.0f | %.1f |\n\n", median(p.base), median(p.gateway), median(p.redis), median(p.ratio), spread("%.2f", p.ratio),
		met(median(p.ratio) <= goalP2), median(p.accepted), median(p.order))
}
