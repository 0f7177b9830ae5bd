package main

import (
	"fmt"
	"slices"
	"time"
)

// measureCPU takes all subjects in turn, round after round, and compares
// within a round: the machine may be busy with something else in the next.
func measureCPU() error {
	subjects := []subject{nginx, fasthttp, reduced, hertz, nethttp}
	cost := make([][]float64, len(subjects))
	ratio := make([][]float64, len(subjects))
	rate := make([][]float64, len(subjects))
	memory := make([][]float64, len(subjects))
	for range *rounds {
		for i, s := range subjects {
			us, perSecond, rss, err := cpuOnce(s)
			if err != nil {
				return err
			}
			cost[i] = append(cost[i], us)
			rate[i] = append(rate[i], perSecond)
			memory[i] = append(memory[i], rss)
			ratio[i] = append(ratio[i], us/cost[0][len(cost[0])-1])
		}
	}
	fmt.Printf("\nCPU, median of %d rounds (wrk -t1 -c200 -d%s)\n\n", *rounds, *duration)
	fmt.Println("| server | CPU µs/request | ratio to nginx | lowest–highest ratio | requests/s | RSS MiB |")
	fmt.Println("| --- | --- | --- | --- | --- | --- |")
	for i, s := range subjects {
		fmt.Printf("| %s | %.1f | %.2f | %.2f–%.2f | %.0f | %.0f |\n", s.name, median(cost[i]), median(ratio[i]),
			slices.Min(ratio[i]), slices.Max(ratio[i]), median(rate[i]), median(memory[i]))
	}
	return nil
}

func cpuOnce(s subject) (us, perSecond, rss float64, err error) {
	p, err := start(s)
	if err != nil {
		return 0, 0, 0, err
	}
	defer p.kill()
	before, err := p.cpu()
	if err != nil {
		return 0, 0, 0, err
	}
	began := time.Now()
	l, err := wrk(p.addr, *duration)
	if err != nil {
		return 0, 0, 0, err
	}
	took := time.Since(began)
	after, err := p.cpu()
	if err != nil {
		return 0, 0, 0, err
	}
	if l.errors != "" {
		return 0, 0, 0, fmt.Errorf("%s: %s", s.name, l.errors)
	}
	n := float64(l.requests)
	return float64((after - before).Microseconds()) / n, n / took.Seconds(), float64(p.rss()) / 1024, nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return 0
	}
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}
