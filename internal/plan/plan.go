// Package plan works out how many requests a sale will bring, and how many nodes to
// provide for them. It is arithmetic: it measures nothing, and knows nothing of the
// server. `seckill plan` uses it.
//
//	total     = participants × clicks
//	mean      = total ÷ duration
//	peak      = mean × peak factor
//	provision = peak × (1 + headroom)
//	nodes     = provision ÷ what one node takes, at least 1
//
// All figures are exact until they are rounded, half up, to whole numbers, nodes as
// well: with the headroom of the default, what rounding down takes away is always
// headroom, and the nodes still carry the peak.
package plan

import (
	"fmt"
	"math/big"
	"time"
)

// Input is what is expected of a sale. A factor is given exactly: a float of 0.1 is not a tenth.
type Input struct {
	Participants int64         // Buyers that take part. 1 to 1e12.
	Clicks       *big.Rat      // Requests of each. Above 0, up to 1e6.
	Duration     time.Duration // In which they come. 1ms to 8760h.
	PeakFactor   *big.Rat      // Peak over mean. 1 to 1e6.
	Headroom     *big.Rat      // Share to provide beyond the peak. 0 to 1e6.
	NodeQPS      int64         // What one node takes. 1 to 1e12.
}

// Default has the factors of the rule of thumb.
func Default() Input {
	return Input{
		Clicks:     big.NewRat(5, 1),
		Duration:   time.Minute,
		PeakFactor: big.NewRat(10, 1),
		Headroom:   big.NewRat(1, 2),
		NodeQPS:    10_000,
	}
}

// Estimate is what follows.
type Estimate struct {
	TotalRequests int64 `json:"total_requests"`
	MeanQPS       int64 `json:"mean_qps"`
	PeakQPS       int64 `json:"peak_qps"`
	ProvisionQPS  int64 `json:"provision_qps"`
	Nodes         int64 `json:"nodes"`
}

// Problem says which part of the input is wrong; the field is the flag's name.
type Problem struct{ Field, Wrong, Accepted string }

// Error is one line.
func (p *Problem) Error() string { return p.Field + ": " + p.Wrong + "; accepted: " + p.Accepted }

// Make works the estimate out.
func Make(in Input) (Estimate, error) {
	if err := in.check(); err != nil {
		return Estimate{}, err
	}
	total := new(big.Rat).Mul(whole(in.Participants), in.Clicks)
	seconds := new(big.Rat).SetFrac64(int64(in.Duration), int64(time.Second))
	mean := new(big.Rat).Quo(total, seconds)
	peak := new(big.Rat).Mul(mean, in.PeakFactor)
	provision := new(big.Rat).Mul(peak, new(big.Rat).Add(whole(1), in.Headroom))
	nodes := round(new(big.Rat).Quo(provision, whole(in.NodeQPS)))

	var e Estimate
	for _, f := range []struct {
		into *int64
		n    *big.Int
	}{
		{&e.TotalRequests, round(total)}, {&e.MeanQPS, round(mean)}, {&e.PeakQPS, round(peak)}, {&e.ProvisionQPS, round(provision)}, {&e.Nodes, nodes},
	} {
		if !f.n.IsInt64() {
			return Estimate{}, &Problem{"participants", "together with the other figures exceeds what a number can hold", "figures of this world"}
		}
		*f.into = f.n.Int64()
	}
	e.Nodes = max(e.Nodes, 1)
	return e, nil
}

func (in *Input) check() error {
	const million, trillion = 1_000_000, 1_000_000_000_000
	within := func(r *big.Rat, least, most int64) bool {
		return r != nil && r.Cmp(whole(least)) >= 0 && r.Cmp(whole(most)) <= 0
	}
	switch {
	case in.Participants < 1 || in.Participants > trillion:
		return &Problem{"participants", "is missing or out of bounds", fmt.Sprintf("1 to %d", int64(trillion))}
	case !within(in.Clicks, 0, million) || in.Clicks.Sign() == 0:
		return &Problem{"clicks", "is out of bounds", fmt.Sprintf("above 0, up to %d", million)}
	case in.Duration < time.Millisecond || in.Duration > 8760*time.Hour:
		return &Problem{"duration", "is out of bounds", "1ms to 8760h"}
	case !within(in.PeakFactor, 1, million):
		return &Problem{"peak-factor", "is out of bounds", fmt.Sprintf("1 to %d", million)}
	case !within(in.Headroom, 0, million):
		return &Problem{"headroom", "is out of bounds", fmt.Sprintf("0 to %d (0.5 is half again)", million)}
	case in.NodeQPS < 1 || in.NodeQPS > trillion:
		return &Problem{"node-qps", "is out of bounds", fmt.Sprintf("1 to %d", int64(trillion))}
	}
	return nil
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// round goes to the nearest whole number, and up from the middle. r is not negative.
func round(r *big.Rat) *big.Int {
	return floor(new(big.Rat).Add(r, big.NewRat(1, 2)))
}

func floor(r *big.Rat) *big.Int { return new(big.Int).Quo(r.Num(), r.Denom()) }

// ParseFactor reads a decimal number without losing any of it. It says no to what a
// person would not write: fractions, exponents, signs, more than 24 digits.
func ParseFactor(s string) (*big.Rat, bool) {
	points := 0
	for i := range len(s) {
		switch {
		case s[i] == '.' && i > 0 && i < len(s)-1:
			points++
		case s[i] < '0' || s[i] > '9':
			return nil, false
		}
	}
	if s == "" || points > 1 || len(s) > 25 {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}
