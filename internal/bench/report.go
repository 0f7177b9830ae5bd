package bench

import (
	"time"

	"seckill"
)

// Report of a run. Its JSON is what `seckill bench --json` writes.
type Report struct {
	Server       string  `json:"server"`
	Activity     int64   `json:"activity"`
	Name         string  `json:"name"`
	LimitPerUser int     `json:"limit_per_user"`
	Loop         string  `json:"loop"` // open or closed.
	Rate         float64 `json:"rate,omitempty"`
	Concurrency  int     `json:"concurrency"`
	Buyers       int64   `json:"buyers"`
	Clicks       int     `json:"clicks"`
	Quantity     int     `json:"quantity"`
	Seed         uint64  `json:"seed"`

	StartedAt   time.Time `json:"started_at"`
	Seconds     float64   `json:"seconds"`
	Interrupted bool      `json:"interrupted"`

	Requests     int64            `json:"requests"`
	PerSecond    float64          `json:"requests_per_second"`
	Accepted     int64            `json:"accepted"`
	Refused      int64            `json:"refused"`
	Errors       int64            `json:"errors"`
	Outcomes     map[string]int64 `json:"outcomes"`
	ErrorKinds   map[string]int64 `json:"error_kinds"`
	SoldOutAfter float64          `json:"sold_out_after_seconds,omitempty"` // From the first click to the last purchase, if anybody heard "sold out".
	Unsent       int64            `json:"unsent"`                           // Open loop: clicks whose time came without a free connection, until the end.
	LateMaxMS    float64          `json:"late_max_ms"`                      // Open loop: the longest that a click waited for one. It is part of the latency.
	Latency      Quantiles        `json:"latency_ms"`                       // Of all requests, errors included.
	AcceptedTook Quantiles        `json:"accepted_latency_ms"`
	RefusedTook  Quantiles        `json:"refused_latency_ms"`

	Tickets    Tickets  `json:"tickets"`
	Books      *Books   `json:"books,omitempty"`
	Violations []string `json:"violations"`
	Timeline   []Point  `json:"timeline"`
}

// Point of the timeline: what happened since the one before.
type Point struct {
	At       float64          `json:"at"` // Seconds since the load began, at the end of the interval.
	Accepted int64            `json:"accepted"`
	Refused  int64            `json:"refused"`
	Errors   int64            `json:"errors"`
	Outcomes map[string]int64 `json:"outcomes"`
	Latency  Quantiles        `json:"latency_ms"`
}

// named gives the outcomes their names, without those that did not happen.
func named(t *Tally) map[string]int64 {
	m := map[string]int64{}
	for i, n := range t.Outcomes {
		if n == 0 {
			continue
		}
		if seckill.Reason(i) == seckill.NoReason {
			m["accepted"] = n
		} else {
			m[seckill.Reason(i).String()] = n
		}
	}
	return m
}

func (r *Report) measured(began time.Time) {
	r.Seconds = time.Since(began).Seconds()
	r.StartedAt = began.UTC()
}

func (r *Report) add(t *tally, unsent int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Requests, r.Accepted, r.Refused, r.Errors = t.total.requests(), t.total.Accepted(), t.total.Refused(), t.total.Errors()
	r.Outcomes, r.ErrorKinds = named(&t.total), map[string]int64{}
	for i, n := range t.total.Failures {
		if n > 0 {
			r.ErrorKinds[failureNames[i]] = n
		}
	}
	if r.Seconds > 0 {
		r.PerSecond = float64(r.Requests) / r.Seconds
	}
	r.Unsent, r.LateMaxMS = unsent, 0
	if r.Loop == "open" {
		r.LateMaxMS = float64(t.late.Microseconds()) / microsPerMilli
	}
	if t.total.Outcomes[seckill.SoldOut] > 0 && !t.last.IsZero() {
		r.SoldOutAfter = t.last.Sub(r.StartedAt).Seconds()
	}
	r.Latency, r.AcceptedTook, r.RefusedTook = quantiles(t.all), quantiles(t.accepted), quantiles(t.refused)
}
