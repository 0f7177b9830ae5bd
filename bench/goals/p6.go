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
	// goalP6 is the least share of the peak that is still accepted under overload.
	goalP6 = 0.8
	// goalP6Refusal is how long a refusal may take then, at the 99th percentile, in milliseconds.
	goalP6Refusal = 100
)

// overloads are the steps of a curve, in times of the capacity.
var overloads = []float64{0.5, 1, 1.5, 2, 3, 5, 10}

// curve is the accepted purchases over what is asked for, of one kind of seller.
type curve struct {
	limit   string // What the flag -curve calls it.
	name    string
	open    func(ctx context.Context, s *settings, dir string) (*stall, error)
	closed  int // Buyers of the closed loop that measures the capacity.
	callers int // Requests under way at most in the open loop. Clicks beyond it wait in the load generator.
	profile string

	capacities []float64
	steps      []*step
}

// step is what was seen at one rate, round by round.
type step struct {
	times                                            float64
	offered, answered, accepted, busy                []float64 // A second.
	acceptedP50, acceptedP99, refusedP50, refusedP99 []float64 // Milliseconds.
	unsent                                           []float64 // Clicks.
	ours, theirs                                     []float64 // Processors that were busy with this, and with other programs.
	hung                                             []float64 // How often the circuit breaker took the stock for hung.
	others                                           map[string]int64
}

// p6 draws two curves. In the first one the processors are the limit, which the load generator has to share; in
// the second one it is the gateway's part of the stock's rate, and there are processors to spare.
func p6(ctx context.Context, s *settings) error {
	curves := []*curve{
		{limit: "processors", name: "the processors are the limit: embedded engine, all in one process", open: openEmbedded, closed: buyersAtOnce, callers: 1024, profile: "p6.pprof"},
		{limit: "stock", name: "the stock is the limit: " + shareText(s), open: openShare, closed: 64, callers: 1024, profile: "p6-stock.pprof"},
	}
	for _, c := range curves {
		if s.curve != "" && s.curve != c.limit {
			continue
		}
		if s.callers > 0 {
			c.callers = s.callers
		}
		for _, times := range overloads {
			c.steps = append(c.steps, &step{times: times, others: map[string]int64{}})
		}
		for round := range s.rounds {
			dir := filepath.Join(s.work, fmt.Sprintf("p6-%d", round))
			if err := errors.Join(c.measure(ctx, s, dir), os.RemoveAll(dir)); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		c.show(s)
		if s.profiles == "" {
			continue
		}
		if err := c.keepProfile(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// measure draws the curve once, from the least to the most. The books have to be right after each step.
func (c *curve) measure(ctx context.Context, s *settings, dir string) error {
	st, err := c.open(ctx, s, dir)
	if err != nil {
		return err
	}
	defer st.stop()
	sold, capacity, err := st.capacity(ctx, s, c.closed)
	if err != nil {
		return err
	}
	c.capacities = append(c.capacities, capacity)
	for _, p := range c.steps {
		if sold, err = p.measure(ctx, s, st, c.callers, capacity, sold); err != nil {
			return fmt.Errorf("at %.1f × the capacity: %w", p.times, err)
		}
	}
	return nil
}

// capacity is what a closed loop of so many buyers gets in a second. It tells what they have bought as well.
func (st *stall) capacity(ctx context.Context, s *settings, buyers int) (sold int64, rate float64, err error) {
	for _, d := range []time.Duration{time.Second, s.duration} { // The first one is for warming up.
		r, err := st.load(ctx, s, "--concurrency", strconv.Itoa(buyers), "--duration", d.String())
		if err == nil {
			sold, err = st.calm(ctx, sold+r.Accepted, r.Outcomes["busy"])
		}
		if err != nil {
			return 0, 0, fmt.Errorf("the capacity: %w", err)
		}
		rate = float64(r.Accepted) / r.Seconds
	}
	return sold, rate, nil
}

// measure offers one rate. It takes and returns how much is sold.
func (p *step) measure(ctx context.Context, s *settings, st *stall, callers int, capacity float64, sold int64) (int64, error) {
	was, err1 := st.shop.counters()
	before, err2 := loadOf(st.pids...)
	r, err3 := st.flood(ctx, s, p.times*capacity, callers)
	after, err4 := loadOf(st.pids...)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return 0, err
	}
	sold, err1 = st.calm(ctx, sold+r.Accepted, r.Outcomes["busy"])
	is, err2 := st.shop.counters()
	p.add(p.times*capacity, r)
	p.ours = append(p.ours, after.ours(before))
	p.theirs = append(p.theirs, max(0, after.all(before)-after.ours(before))) // The clocks are not read at the same moment.
	p.hung = append(p.hung, is.silences-was.silences)
	return sold, errors.Join(err1, err2)
}

// calm waits until nothing is queued any more, and returns how many units are sold: as many as buyers heard, and
// perhaps some of those who were told "busy" because the answer of the stock did not come in time.
func (st *stall) calm(ctx context.Context, accepted, busy int64) (sold int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		a, err := st.shop.operator.Activity(ctx, st.activity)
		if err != nil {
			return 0, err
		}
		b := a.Books
		if b.Queued == 0 && b.Balanced {
			if b.AwaitingPayment < accepted || b.AwaitingPayment > accepted+busy {
				return 0, fmt.Errorf("%d purchases were accepted and %d told busy, but the books say %+v", accepted, busy, *b)
			}
			return b.AwaitingPayment, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("orders are still missing: %+v", *b)
		}
	}
}

// flood is an open loop at a rate.
func (st *stall) flood(ctx context.Context, s *settings, rate float64, callers int) (*bench.Report, error) {
	return st.load(ctx, s, "--rate", fmt.Sprintf("%.0f", rate), "--concurrency", strconv.Itoa(callers), "--duration", s.duration.String())
}

// load runs `seckill bench`, a process of its own. Buyers may be refused, but each has to be answered.
func (st *stall) load(ctx context.Context, s *settings, more ...string) (*bench.Report, error) {
	report := filepath.Join(s.work, "report.json")
	args := append([]string{
		"bench", "--server", "http://" + st.public, "--activity", strconv.FormatInt(st.activity, 10), "--auth", authSpec(s.auth),
		"--follow", "0", "--json", report,
	}, more...)
	out, err := exec.CommandContext(ctx, s.seckill, args...).CombinedOutput()
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
	// Whoever got no answer may have bought: the books could not be checked.
	if r.Errors > 0 {
		return nil, fmt.Errorf("%d of %d requests got no answer: %v", r.Errors, r.Requests, r.ErrorKinds)
	}
	return &r, nil
}

func (p *step) add(rate float64, r *bench.Report) {
	each := func(to *[]float64, v float64) { *to = append(*to, v) }
	each(&p.offered, rate)
	each(&p.answered, float64(r.Requests)/r.Seconds)
	each(&p.accepted, float64(r.Accepted)/r.Seconds)
	each(&p.busy, float64(r.Outcomes["busy"])/r.Seconds)
	each(&p.acceptedP50, r.AcceptedTook.P50)
	each(&p.acceptedP99, r.AcceptedTook.P99)
	if r.RefusedTook.Count > 0 {
		each(&p.refusedP50, r.RefusedTook.P50)
		each(&p.refusedP99, r.RefusedTook.P99)
	}
	each(&p.unsent, float64(r.Unsent))
	for outcome, n := range r.Outcomes {
		if outcome != "accepted" && outcome != "busy" {
			p.others[outcome] += n
		}
	}
}

// show prints the table of a curve.
func (c *curve) show(s *settings) {
	peak := 0.0
	for _, p := range c.steps {
		peak = max(peak, median(p.accepted))
	}
	fmt.Printf("P6, %s. `seckill bench --rate`, an open loop of up to %d requests under way, on the same machine, %v for each step, median of %d rounds, auth %s. "+
		"Capacity by a closed loop of %d before each round: %.0f/s (%s). Goal: accepted at least %.0f %% of the peak, refusals' p99 at most %d ms. "+
		"The time that a click waits in the load generator for a free connection is part of its latency.\n\n",
		c.name, c.callers, s.duration, s.rounds, s.auth, c.closed, median(c.capacities), spread("%.0f", c.capacities), 100*goalP6, goalP6Refusal)
	fmt.Println("| × capacity | asked for/s | answered/s | accepted/s | lowest–highest | of the peak | goal | accepted p50 ms | p99 ms | busy/s | refused p50 ms | p99 ms | goal | never sent | breaker opened | processors busy with it | with others | other refusals |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, p := range c.steps {
		share, goodput, refusal, quick := median(p.accepted)/peak, "", " | ", ""
		if p.times >= 1 {
			goodput = met(share >= goalP6)
		}
		if len(p.refusedP99) > 0 {
			refusal, quick = fmt.Sprintf("%.1f | %.1f", median(p.refusedP50), median(p.refusedP99)), met(median(p.refusedP99) <= goalP6Refusal)
		}
		var others []string
		for outcome, n := range p.others {
			others = append(others, fmt.Sprintf("%s %d", outcome, n))
		}
		slices.Sort(others)
		fmt.Printf("| %.1f | %.0f | %.0f | %.0f | %s | %.0f %% | %s | %.1f | %.1f | %.0f | %s | %s | %.0f | %.0f | %.1f | %.1f | %s |\n", p.times, median(p.offered), median(p.answered),
			median(p.accepted), spread("%.0f", p.accepted), 100*share, goodput, median(p.acceptedP50), median(p.acceptedP99), median(p.busy), refusal, quick,
			median(p.unsent), median(p.hung), median(p.ours), median(p.theirs), strings.Join(others, ", "))
	}
	fmt.Println()
}

// keepProfile keeps what the program does at the worst step.
func (c *curve) keepProfile(ctx context.Context, s *settings) error {
	st, err := c.open(ctx, s, filepath.Join(s.work, "p6-profile"))
	if err != nil {
		return err
	}
	defer st.stop()
	if _, err := st.load(ctx, s, "--concurrency", strconv.Itoa(c.closed), "--duration", "1s"); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- st.shop.profile(filepath.Join(s.profiles, c.profile), s.duration) }()
	_, err = st.flood(ctx, s, overloads[len(overloads)-1]*median(c.capacities), c.callers)
	return errors.Join(err, <-done)
}
