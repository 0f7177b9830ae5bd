package bench

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"seckill"
)

// Tally counts answers.
type Tally struct {
	Outcomes [seckill.Reasons]int64 // By reason; seckill.NoReason is accepted.
	Failures [failures]int64
}

// Accepted purchases.
func (t *Tally) Accepted() int64 { return t.Outcomes[seckill.NoReason] }

// Refused counts the definite noes.
func (t *Tally) Refused() (n int64) {
	for _, c := range t.Outcomes[1:] {
		n += c
	}
	return n
}

// Errors counts requests that the API did not answer.
func (t *Tally) Errors() (n int64) {
	for _, c := range t.Failures {
		n += c
	}
	return n
}

func (t *Tally) requests() int64 { return t.Accepted() + t.Refused() + t.Errors() }

func (t *Tally) plus(u *Tally) {
	for i, n := range u.Outcomes {
		t.Outcomes[i] += n
	}
	for i, n := range u.Failures {
		t.Failures[i] += n
	}
}

// Latencies are recorded in microseconds, with an error of at most 1 %.
const (
	latencyMaxUS    = int64(120 * time.Second / time.Microsecond)
	latencyDigits   = 2
	microsPerMilli  = 1000.0
	latencyMinFloor = 1
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(latencyMinFloor, latencyMaxUS, latencyDigits)
}

// worker has counters of its own, so that workers do not wait for one another; the lock
// is taken by somebody else only when they are collected.
type worker struct {
	buf [64]byte

	mu       sync.Mutex
	tally    Tally
	all      *hdrhistogram.Histogram // Of every answer, errors included.
	accepted *hdrhistogram.Histogram
	refused  *hdrhistogram.Histogram
	late     time.Duration // The longest that a click had to wait for a free connection.
	last     time.Time     // Of the latest accepted purchase.
}

func (w *worker) record(a answer, took, late time.Duration) {
	us := min(max(took.Microseconds(), latencyMinFloor), latencyMaxUS)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = max(w.late, late)
	_ = w.all.RecordValue(us) // It is within the bounds.
	if a.failed != noFailure {
		w.tally.Failures[a.failed]++
		return
	}
	w.tally.Outcomes[a.reason]++
	if a.reason == seckill.NoReason {
		_ = w.accepted.RecordValue(us)
		w.last = time.Now()
	} else {
		_ = w.refused.RecordValue(us)
	}
}

// tally of all workers.
type tally struct {
	next    atomic.Int64 // Number of the next click.
	workers []*worker

	mu       sync.Mutex // Of what follows.
	total    Tally
	all      *hdrhistogram.Histogram
	accepted *hdrhistogram.Histogram
	refused  *hdrhistogram.Histogram
	late     time.Duration
	last     time.Time
}

func newTally(workers int) *tally {
	t := &tally{all: newHistogram(), accepted: newHistogram(), refused: newHistogram()}
	for range workers {
		t.workers = append(t.workers, &worker{all: newHistogram(), accepted: newHistogram(), refused: newHistogram()})
	}
	return t
}

// collect takes what the workers have counted since the last time.
func (t *tally) collect() Point {
	t.mu.Lock()
	defer t.mu.Unlock()
	recent := newHistogram()
	var sum Tally
	for _, w := range t.workers {
		w.mu.Lock()
		sum.plus(&w.tally)
		recent.Merge(w.all)
		t.accepted.Merge(w.accepted)
		t.refused.Merge(w.refused)
		t.late = max(t.late, w.late)
		if w.last.After(t.last) {
			t.last = w.last
		}
		w.tally = Tally{}
		w.all.Reset()
		w.accepted.Reset()
		w.refused.Reset()
		w.mu.Unlock()
	}
	t.total.plus(&sum)
	t.all.Merge(recent)
	return Point{Outcomes: named(&sum), Errors: sum.Errors(), Accepted: sum.Accepted(), Refused: sum.Refused(), Latency: quantiles(recent)}
}

func (t *tally) totals() Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// Quantiles of a duration, in milliseconds.
type Quantiles struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	Max   float64 `json:"max"`
}

func quantiles(h *hdrhistogram.Histogram) Quantiles {
	if h.TotalCount() == 0 {
		return Quantiles{}
	}
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / microsPerMilli }
	return Quantiles{
		Count: h.TotalCount(), Mean: h.Mean() / microsPerMilli,
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / microsPerMilli,
	}
}
