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
	// callersMost is how many requests are under way at most. Clicks beyond it wait in the load generator.
	callersMost = 1024
)

// overloads are the steps of the curve, in times of the capacity.
var overloads = []float64{0.5, 1, 1.5, 2, 3, 5, 10}

// step is what was seen at one rate, round by round.
type step struct {
	times                                            float64
	offered, answered, accepted, busy, errors        []float64 // A second.
	acceptedP50, acceptedP99, refusedP50, refusedP99 []float64 // Milliseconds.
	unsent                                           []float64 // Clicks.
	others                                           map[string]int64
}

// p6 draws the curve of accepted purchases over what is asked for. The capacity is what a closed loop gets out
// of the same process just before.
func p6(ctx context.Context, s *settings) error {
	steps := make([]*step, len(overloads))
	for i, times := range overloads {
		steps[i] = &step{times: times, others: map[string]int64{}}
	}
	var capacities []float64
	for round := range s.rounds {
		dir := filepath.Join(s.work, fmt.Sprintf("p6-%d", round))
		capacity, err := overload(ctx, s, dir, steps)
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return err
		}
		capacities = append(capacities, capacity)
	}
	showP6(s, capacities, steps)
	if s.profiles == "" {
		return nil
	}
	return profileP6(ctx, s, median(capacities))
}

// overload measures one round, from the least to the most. The books have to be right after each step.
func overload(ctx context.Context, s *settings, dir string, steps []*step) (capacity float64, err error) {
	st, err := openEmbedded(ctx, s, dir)
	if err != nil {
		return 0, err
	}
	defer st.stop()
	warm, err := st.rush(ctx, s, time.Second)
	if err != nil {
		return 0, err
	}
	r, err := st.rush(ctx, s, s.duration)
	if err != nil {
		return 0, err
	}
	sold := warm.Accepted + r.Accepted
	capacity = float64(r.Accepted) / r.Seconds
	if _, _, err := st.settle(ctx, sold); err != nil {
		return 0, err
	}
	for _, p := range steps {
		r, err := st.flood(ctx, s, p.times*capacity)
		if err == nil {
			sold, err = st.calm(ctx, sold+r.Accepted, r.Outcomes["busy"])
		}
		if err != nil {
			return 0, fmt.Errorf("at %.1f × the capacity: %w", p.times, err)
		}
		p.add(p.times*capacity, r)
	}
	return capacity, nil
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

// flood runs `seckill bench` as an open loop.
func (st *stall) flood(ctx context.Context, s *settings, rate float64) (*bench.Report, error) {
	report := filepath.Join(s.work, "report.json")
	out, err := exec.CommandContext(ctx, s.seckill, "bench", "--server", "http://"+st.public, "--activity", strconv.FormatInt(st.activity, 10),
		"--auth", authSpec(s.auth), "--rate", fmt.Sprintf("%.0f", rate), "--concurrency", strconv.Itoa(callersMost),
		"--duration", s.duration.String(), "--follow", "0", "--json", report).CombinedOutput()
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

func showP6(s *settings, capacities []float64, steps []*step) {
	peak := 0.0
	for _, p := range steps {
		peak = max(peak, median(p.accepted))
	}
	fmt.Printf("P6: `seckill bench --rate`, an open loop of up to %d requests under way, on the same machine, %v for each step, median of %d rounds, auth %s, embedded engine. "+
		"Capacity by a closed loop of %d before each round: %.0f/s (%s). Goal: accepted at least %.0f %% of the peak, refusals' p99 at most %d ms. "+
		"The time that a click waits in the load generator for a free connection is part of its latency.\n\n",
		callersMost, s.duration, s.rounds, s.auth, buyersAtOnce, median(capacities), spread("%.0f", capacities), 100*goalP6, goalP6Refusal)
	fmt.Println("| × capacity | asked for/s | answered/s | accepted/s | lowest–highest | of the peak | goal | accepted p50 ms | p99 ms | busy/s | refused p50 ms | p99 ms | goal | never sent | other refusals |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, p := range steps {
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
		fmt.Printf("| %.1f | %.0f | %.0f | %.0f | %s | %.0f %% | %s | %.1f | %.1f | %.0f | %s | %s | %.0f | %s |\n", p.times, median(p.offered), median(p.answered),
			median(p.accepted), spread("%.0f", p.accepted), 100*share, goodput, median(p.acceptedP50), median(p.acceptedP99), median(p.busy), refusal, quick,
			median(p.unsent), strings.Join(others, ", "))
	}
	fmt.Println()
}

// profileP6 keeps what the program does at the worst step.
func profileP6(ctx context.Context, s *settings, capacity float64) error {
	st, err := openEmbedded(ctx, s, filepath.Join(s.work, "p6-profile"))
	if err != nil {
		return err
	}
	defer st.stop()
	if _, err := st.rush(ctx, s, time.Second); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- st.shop.profile(filepath.Join(s.profiles, "p6.pprof"), s.duration) }()
	_, err = st.flood(ctx, s, overloads[len(overloads)-1]*capacity)
	return errors.Join(err, <-done)
}
