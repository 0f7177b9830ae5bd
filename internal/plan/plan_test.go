package plan_test

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill/internal/plan"
)

// The estimate of the article, and figures on both sides of a half.
func TestEstimates(t *testing.T) {
	for _, c := range []struct {
		participants                int64
		clicks, peak, headroom      string
		duration                    time.Duration
		node                        int64
		total, mean, top, prov, nds int64
	}{
		{100_000, "5", "10", "0.5", time.Minute, 10_000, 500_000, 8_333, 83_333, 125_000, 13},
		{1, "1", "1", "0", time.Second, 1, 1, 1, 1, 1, 1},
		{1, "1", "1", "0", 2 * time.Second, 1, 1, 1, 1, 1, 1}, // 0.5 goes up.
		{1, "1", "1", "0", 2001 * time.Millisecond, 1, 1, 0, 0, 0, 1},
		{3, "1.5", "1", "0", 3 * time.Second, 1, 5, 2, 2, 2, 2}, // 4.5 and 1.5 go up.
		{1000, "1", "2.5", "0.1", 100 * time.Second, 5, 1000, 10, 25, 28, 6},
		{10, "1", "1", "0.05", time.Second, 10, 10, 10, 10, 11, 1}, // 10.5, exactly; as floats it would be less.
	} {
		got, err := plan.Make(plan.Input{
			Participants: c.participants, Clicks: factor(t, c.clicks), Duration: c.duration,
			PeakFactor: factor(t, c.peak), Headroom: factor(t, c.headroom), NodeQPS: c.node,
		})
		want := plan.Estimate{TotalRequests: c.total, MeanQPS: c.mean, PeakQPS: c.top, ProvisionQPS: c.prov, Nodes: c.nds}
		if err != nil || got != want {
			t.Errorf("%+v: got %+v and %v, want %+v", c, got, err, want)
		}
	}
}

func factor(t *testing.T, s string) *big.Rat {
	t.Helper()
	r, ok := plan.ParseFactor(s)
	if !ok {
		t.Fatalf("%q is not a factor", s)
	}
	return r
}

func drawInput(t *rapid.T) plan.Input {
	rat := func(name string, least, most int64) *big.Rat {
		return big.NewRat(rapid.Int64Range(least*1000, most*1000).Draw(t, name), 1000)
	}
	return plan.Input{
		Participants: rapid.Int64Range(1, 1_000_000_000).Draw(t, "participants"),
		Clicks:       rat("clicks", 1, 100),
		Duration:     time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(t, "duration")),
		PeakFactor:   rat("peak", 1, 100),
		Headroom:     rat("headroom", 0, 10),
		NodeQPS:      rapid.Int64Range(1, 1_000_000).Draw(t, "node"),
	}
}

// Each figure is within a half of the exact one, never below at a half, the figures
// do not fall along the chain, and there is at least one node.
func TestEstimateIsExactAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		got, err := plan.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		exact := new(big.Rat).Mul(new(big.Rat).SetInt64(in.Participants), in.Clicks)
		near(t, "total", got.TotalRequests, exact)
		exact.Quo(exact, big.NewRat(int64(in.Duration), int64(time.Second)))
		near(t, "mean", got.MeanQPS, exact)
		exact.Mul(exact, in.PeakFactor)
		near(t, "peak", got.PeakQPS, exact)
		exact.Add(exact, new(big.Rat).Mul(exact, in.Headroom))
		near(t, "provision", got.ProvisionQPS, exact)
		if got.PeakQPS < got.MeanQPS || got.ProvisionQPS < got.PeakQPS {
			t.Errorf("the figures fall: %+v", got)
		}
		nodes := exact.Quo(exact, new(big.Rat).SetInt64(in.NodeQPS))
		if got.Nodes == 1 && nodes.Cmp(big.NewRat(1, 2)) < 0 {
			return // Fewer than one node is one.
		}
		near(t, "nodes", got.Nodes, nodes)
	})
}

// near checks exact−½ < got ≤ exact+½.
func near(t *rapid.T, name string, got int64, exact *big.Rat) {
	t.Helper()
	half := big.NewRat(1, 2)
	g := new(big.Rat).SetInt64(got)
	if g.Cmp(new(big.Rat).Sub(exact, half)) <= 0 || g.Cmp(new(big.Rat).Add(exact, half)) > 0 {
		t.Errorf("%s: got %d for %s", name, got, exact.FloatString(6))
	}
}

// With the default headroom the nodes carry the peak, however they were rounded.
func TestNodesCarryThePeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Headroom = plan.Default().Headroom
		got, err := plan.Make(in)
		if err != nil || float64(got.Nodes)*float64(in.NodeQPS) < float64(got.PeakQPS)-1 {
			t.Errorf("got %+v and %v with nodes of %d", got, err, in.NodeQPS)
		}
	})
}

// More buyers never need less.
func TestMoreBuyersNeedNoLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		less, err := plan.Make(in)
		in.Participants += rapid.Int64Range(0, 1_000_000).Draw(t, "more")
		more, err2 := plan.Make(in)
		if err != nil || err2 != nil || more.TotalRequests < less.TotalRequests || more.ProvisionQPS < less.ProvisionQPS || more.Nodes < less.Nodes {
			t.Errorf("got %+v and %+v, %v, %v", less, more, err, err2)
		}
	})
}

// What does not fit is said, and never wraps around.
func TestHugeIsRefused(t *testing.T) {
	in := plan.Default()
	in.Participants, in.Clicks, in.Duration = 1_000_000_000_000, big.NewRat(1_000_000, 1), time.Millisecond
	in.PeakFactor, in.Headroom = big.NewRat(1_000_000, 1), big.NewRat(1_000_000, 1)
	var p *plan.Problem
	if got, err := plan.Make(in); !errors.As(err, &p) {
		t.Errorf("got %+v and %v, want a problem", got, err)
	}
}

// Each figure has bounds, and the one that is wrong is named.
func TestBounds(t *testing.T) {
	for field, spoil := range map[string][]func(*plan.Input){
		"participants": {func(in *plan.Input) { in.Participants = 0 }, func(in *plan.Input) { in.Participants = -1 }, func(in *plan.Input) { in.Participants = math.MaxInt64 }},
		"clicks":       {func(in *plan.Input) { in.Clicks = new(big.Rat) }, func(in *plan.Input) { in.Clicks = nil }, func(in *plan.Input) { in.Clicks = big.NewRat(1_000_001, 1) }},
		"duration":     {func(in *plan.Input) { in.Duration = 0 }, func(in *plan.Input) { in.Duration = -time.Second }, func(in *plan.Input) { in.Duration = math.MaxInt64 }},
		"peak-factor":  {func(in *plan.Input) { in.PeakFactor = big.NewRat(9, 10) }, func(in *plan.Input) { in.PeakFactor = nil }},
		"headroom":     {func(in *plan.Input) { in.Headroom = big.NewRat(-1, 10) }, func(in *plan.Input) { in.Headroom = nil }},
		"node-qps":     {func(in *plan.Input) { in.NodeQPS = 0 }},
	} {
		for i, f := range spoil {
			in := plan.Default()
			in.Participants = 10
			f(&in)
			_, err := plan.Make(in)
			var p *plan.Problem
			if !errors.As(err, &p) || p.Field != field {
				t.Errorf("%s, way %d: got %v", field, i, err)
			}
		}
	}
}

// Factors are what a person writes, read without loss.
func TestFactors(t *testing.T) {
	for s, want := range map[string]*big.Rat{"0": new(big.Rat), "10": big.NewRat(10, 1), "0.5": big.NewRat(1, 2), "1.10": big.NewRat(11, 10)} {
		if got, ok := plan.ParseFactor(s); !ok || got.Cmp(want) != 0 {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
	for _, s := range []string{"", ".", ".5", "5.", "1/2", "1e9", "-1", "+1", "1.2.3", "NaN", "0x1", "１", "99999999999999999999999999"} {
		if got, ok := plan.ParseFactor(s); ok {
			t.Errorf("%q: got %v, want a no", s, got)
		}
	}
}
