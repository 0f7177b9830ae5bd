package live

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"seckill"
	"seckill/internal/telemetry"
)

// reading is how the metrics of this process stood at a moment.
type reading struct {
	at            time.Time
	outcomes      [seckill.Reasons]float64
	orders        float64
	purchase, lag distribution
	backlog       float64
	oldest        float64
}

// distribution is a histogram: how many were at most as long as each bound.
type distribution struct {
	bounds []float64 // Seconds.
	counts []uint64
	all    uint64
}

// read takes the figures out of the metrics themselves: to gather all of a registry once a second
// would cost more than what is wanted of it.
func read(m *telemetry.Metrics, now time.Time) reading {
	r := reading{at: now, purchase: histogram(m.PurchaseSeconds), lag: histogram(m.OrderLagSeconds)}
	for i, c := range m.Purchases {
		r.outcomes[i] = value(c)
	}
	r.orders = value(m.OrdersWritten.WithLabelValues("confirmed"))
	r.oldest = value(m.QueueOldest)
	gauges := make(chan prometheus.Metric)
	go func() {
		m.QueueBacklog.Collect(gauges)
		close(gauges)
	}()
	for g := range gauges {
		r.backlog += value(g)
	}
	return r
}

// written is a metric as it would be sent. One that cannot be written is a fault of its own maker.
func written(m prometheus.Metric) *dto.Metric {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		return &dto.Metric{}
	}
	return &out
}

func value(m prometheus.Metric) float64 {
	out := written(m)
	if c := out.GetCounter(); c != nil {
		return c.GetValue()
	}
	return out.GetGauge().GetValue()
}

func histogram(h prometheus.Histogram) distribution {
	out := written(h).GetHistogram()
	d := distribution{all: out.GetSampleCount()}
	for _, b := range out.GetBucket() {
		d.bounds = append(d.bounds, b.GetUpperBound())
		d.counts = append(d.counts, b.GetCumulativeCount())
	}
	return d
}

// since is what came after an earlier reading of the same.
func (d distribution) since(before distribution) distribution {
	if len(before.counts) != len(d.counts) {
		return d
	}
	diff := distribution{bounds: d.bounds, counts: make([]uint64, len(d.counts)), all: d.all - before.all}
	for i := range d.counts {
		diff.counts[i] = d.counts[i] - before.counts[i]
	}
	return diff
}

// quantile estimates, within a bucket along a straight line; in milliseconds. Beyond the last
// bound it is that bound. It is nil if there is nothing to take it of.
func (d distribution) quantile(q float64) *float64 {
	if d.all == 0 || len(d.bounds) == 0 {
		return nil
	}
	rank := q * float64(d.all)
	low, below := 0.0, uint64(0)
	for i, bound := range d.bounds {
		if n := d.counts[i]; float64(n) >= rank && n > below {
			low += (bound - low) * (rank - float64(below)) / float64(n-below)
			return millis(low)
		}
		low, below = bound, d.counts[i]
	}
	return millis(d.bounds[len(d.bounds)-1])
}

func millis(seconds float64) *float64 {
	ms := round(seconds*1000, 1000)
	return &ms
}

func round(x, parts float64) float64 { return math.Round(x*parts) / parts }

// figures is what one node measured: rates of the last second, and quantiles of the last few. Its
// names are short since each node writes it once a second.
type figures struct {
	Outcomes map[string]float64 `json:"o,omitempty"` // Purchase requests a second; what never happened is left out.
	Orders   float64            `json:"w,omitempty"` // Orders written a second.
	Latency  []float64          `json:"l,omitempty"` // p50, p90 and p99 in ms; none if there were no purchases.
	Lag      []float64          `json:"g,omitempty"` // p50 and p99 in ms; none if there were no orders.
}

// outcomeName is the name of a reason as the metrics have it.
func outcomeName(r seckill.Reason) string {
	if r == seckill.NoReason {
		return "accepted"
	}
	return r.String()
}

// between makes figures of readings: rates since before, quantiles since a little earlier.
func between(now, before, earlier reading) figures {
	f := figures{Outcomes: map[string]float64{}}
	seconds := now.at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return f
	}
	for i, n := range now.outcomes {
		if r := seckill.Reason(i); n > 0 {
			f.Outcomes[outcomeName(r)] = round((n-before.outcomes[i])/seconds, 10)
		}
	}
	f.Orders = round((now.orders-before.orders)/seconds, 10)
	f.Latency = quantiles(now.purchase.since(earlier.purchase), 0.5, 0.9, 0.99)
	f.Lag = quantiles(now.lag.since(earlier.lag), 0.5, 0.99)
	return f
}

func quantiles(d distribution, qs ...float64) (list []float64) {
	for _, q := range qs {
		if ms := d.quantile(q); ms != nil {
			list = append(list, *ms)
		}
	}
	return list
}

// add joins what another node measured: rates add up, of quantiles the worst is shown.
func (f *figures) add(other figures) {
	for name, n := range other.Outcomes {
		f.Outcomes[name] += n
	}
	f.Orders += other.Orders
	f.Latency = worst(f.Latency, other.Latency)
	f.Lag = worst(f.Lag, other.Lag)
}

func worst(a, b []float64) []float64 {
	if len(a) != len(b) {
		if len(a) > len(b) {
			return a
		}
		return b
	}
	w := make([]float64, len(a))
	for i := range a {
		w[i] = max(a[i], b[i])
	}
	return w
}
