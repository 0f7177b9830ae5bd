package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// goalP7Lag is how long an order may take from the answer 202 on, at the 99th percentile.
const goalP7Lag = 500 * time.Millisecond

// calmSeller is a seller that is asked for half of what it can.
type calmSeller struct {
	name string
	open func(ctx context.Context, s *settings, dir string) (*stall, error)
	goal float64 // Of the accepted purchases' p99, in ms.

	capacity, accepted, p50, p99, lag []float64
}

// p7 measures how long buyers and orders wait at half of what the machine can.
func p7(ctx context.Context, s *settings) error {
	sellers := []*calmSeller{
		{name: "embedded engine", open: openEmbedded, goal: 10},
		{name: "Redis, everysec", open: openOnRedis, goal: 20},
	}
	for round := range s.rounds {
		for i, sl := range sellers {
			dir := filepath.Join(s.work, fmt.Sprintf("p7-%d-%d", round, i))
			if err := errors.Join(sl.measure(ctx, s, dir), os.RemoveAll(dir)); err != nil {
				return fmt.Errorf("%s: %w", sl.name, err)
			}
		}
	}
	fmt.Printf("P7: at half of what a closed loop of %d gets, an open loop by `seckill bench --rate` on the same machine, %v, median of %d rounds, auth %s. "+
		"The lag is from the reservation to the committed order, by the server's histogram: less than the edge that is named. Goal: the lag's p99 at most %v.\n\n",
		buyersAtOnce, s.duration, s.rounds, s.auth, goalP7Lag)
	fmt.Println("| stock | capacity/s | accepted/s | p50 ms | p99 ms | lowest–highest | goal ms | | lag p99 below ms | goal |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, sl := range sellers {
		fmt.Printf("| %s | %.0f | %.0f | %.1f | %.1f | %s | %.0f | %s | %.0f | %s |\n", sl.name, median(sl.capacity), median(sl.accepted), median(sl.p50), median(sl.p99),
			spread("%.1f", sl.p99), sl.goal, met(median(sl.p99) <= sl.goal), 1000*median(sl.lag), met(median(sl.lag) <= goalP7Lag.Seconds()))
	}
	fmt.Println()
	return nil
}

func (sl *calmSeller) measure(ctx context.Context, s *settings, dir string) error {
	st, err := sl.open(ctx, s, dir)
	if err != nil {
		return err
	}
	defer st.stop()
	sold, capacity, err := st.capacity(ctx, s, buyersAtOnce)
	if err != nil {
		return err
	}
	before, err := st.shop.lags()
	if err != nil {
		return err
	}
	r, err := st.flood(ctx, s, capacity/2, 1024)
	if err != nil {
		return err
	}
	if r.Refused > 0 {
		return fmt.Errorf("%d were refused at half of the capacity: %v", r.Refused, r.Outcomes)
	}
	if _, err := st.calm(ctx, sold+r.Accepted, 0); err != nil {
		return err
	}
	after, err := st.shop.lags()
	if err != nil {
		return err
	}
	sl.capacity, sl.accepted = append(sl.capacity, capacity), append(sl.accepted, float64(r.Accepted)/r.Seconds)
	sl.p50, sl.p99 = append(sl.p50, r.AcceptedTook.P50), append(sl.p99, r.AcceptedTook.P99)
	sl.lag = append(sl.lag, quantileEdge(before, after, 0.99))
	return nil
}

var lagLine = regexp.MustCompile(`(?m)^seckill_order_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$`)

// lags are the orders so far, by the upper edge of their lag in seconds: each has those below it, too.
func (s *shop) lags() (map[float64]float64, error) {
	text, err := s.metrics()
	if err != nil {
		return nil, err
	}
	orders := map[float64]float64{}
	for _, m := range lagLine.FindAllSubmatch(text, -1) {
		edge, err1 := strconv.ParseFloat(string(m[1]), 64)
		n, err2 := strconv.ParseFloat(string(m[2]), 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		orders[edge] = n
	}
	if len(orders) == 0 {
		return nil, errors.New("/metrics has no seckill_order_lag_seconds")
	}
	return orders, nil
}

// quantileEdge is the lowest edge below which so large a part is of what came between.
func quantileEdge(before, after map[float64]float64, part float64) float64 {
	var edges []float64
	for e := range after {
		edges = append(edges, e)
	}
	slices.Sort(edges)
	all := after[math.Inf(1)] - before[math.Inf(1)]
	for _, e := range edges {
		if after[e]-before[e] >= part*all {
			return e
		}
	}
	return math.Inf(1)
}
