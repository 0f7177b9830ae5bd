package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"seckill/internal/bench"
)

// In each kind of loop every buyer clicks as often as was asked for, every answer is
// counted once, and a sound sale breaks no promise.
func TestEveryClickIsCounted(t *testing.T) {
	for name, o := range map[string]bench.Options{
		"closed":        {Concurrency: 8},
		"open":          {Rate: 3000, Concurrency: 8},
		"rush":          {Rush: 50 * time.Millisecond},
		"scattered":     {Concurrency: 8, Scattered: true},
		"one at a time": {Concurrency: 1},
	} {
		s := open(t, &shop{units: 10})
		o.Buyers, o.Clicks, o.Admin = 50, 3, s.admin(t)
		r := rush(t, s, o)
		if r.Requests != 150 || r.Accepted != 10 || r.Refused != 140 || r.Errors != 0 || r.Latency.Count != 150 || r.AcceptedTook.Count != 10 {
			t.Errorf("%s: got %d requests, %d accepted, %d refused, %d errors", name, r.Requests, r.Accepted, r.Refused, r.Errors)
		}
		if r.Outcomes["accepted"]+r.Outcomes["already_purchased"]+r.Outcomes["sold_out"] != 150 || r.SoldOutAfter <= 0 {
			t.Errorf("%s: got outcomes %v, sold out after %v", name, r.Outcomes, r.SoldOutAfter)
		}
		if len(s.clicks) != 50 {
			t.Errorf("%s: got %d buyers, want 50", name, len(s.clicks))
		}
		for buyer, n := range s.clicks {
			if n != 3 {
				t.Errorf("%s: buyer %s clicked %d times, want 3", name, buyer, n)
			}
		}
		if k := r.Tickets; k.Accepted != 10 || k.Confirmed != 10 || k.Pending != 0 || k.Unknown != 0 {
			t.Errorf("%s: got tickets %+v", name, k)
		}
		if len(r.Violations) != 0 || r.Books == nil || r.Books.Before.Available != 10 || r.Books.After.Available != 0 {
			t.Errorf("%s: got violations %q and books %+v", name, r.Violations, r.Books)
		}
		var inTimeline int64
		for _, p := range r.Timeline {
			inTimeline += p.Accepted + p.Refused + p.Errors
		}
		if inTimeline != 150 {
			t.Errorf("%s: the timeline has %d requests, want 150", name, inTimeline)
		}
	}
}

// Each promise that a server breaks is seen.
func TestBrokenPromisesAreSeen(t *testing.T) {
	for want, s := range map[string]*shop{
		"oversold: ":                             {units: 5, oversells: true},
		"lost: 5 accepted tickets are unknown":   {units: 5, forgets: true},
		"sold past the limit: ":                  {units: 20, sellsTwice: true},
		"lost: the books know of 14 units of 15": {units: 15, losesUnit: true},
	} {
		s := open(t, s)
		r := rush(t, s, bench.Options{Buyers: 10, Clicks: 2, Admin: s.admin(t), FollowFor: 200 * time.Millisecond})
		if len(r.Violations) == 0 || !strings.HasPrefix(strings.Join(r.Violations, "\n"), want) {
			t.Errorf("got %q, want it to begin with %q", r.Violations, want)
		}
	}
}

// A limit above 1 is no broken promise.
func TestLimitAboveOneIsKept(t *testing.T) {
	s := open(t, &shop{units: 40, limit: 2, sellsTwice: true})
	if r := rush(t, s, bench.Options{Buyers: 10, Clicks: 2}); len(r.Violations) != 0 || r.Tickets.Confirmed != 20 {
		t.Errorf("got %q and %+v", r.Violations, r.Tickets)
	}
}

// In an open loop the time that clicks spend waiting behind a slow server is part of
// their latency. Twenty clicks due within 100 ms, answered one each 20 ms, take up to 300 ms.
func TestOpenLoopHasNoCoordinatedOmission(t *testing.T) {
	s := open(t, &shop{units: 100, slow: 20 * time.Millisecond})
	r := rush(t, s, bench.Options{Buyers: 20, Rate: 200, Concurrency: 1, FollowFor: -1})
	if r.Latency.Max < 290 || r.Latency.P50 < 120 || r.LateMaxMS < 270 {
		t.Errorf("got p50 %v, max %v, late %v ms, want the waiting counted", r.Latency.P50, r.Latency.Max, r.LateMaxMS)
	}
	r = rush(t, s, bench.Options{Buyers: 20, Concurrency: 1, FollowFor: -1})
	if r.Latency.Max > 250 || r.LateMaxMS != 0 {
		t.Errorf("got max %v ms in a closed loop, want about 20", r.Latency.Max)
	}
}

// What the server was too slow to be sent is said.
func TestUnsentClicksAreSaid(t *testing.T) {
	s := open(t, &shop{units: 1, slow: 20 * time.Millisecond})
	r := rush(t, s, bench.Options{Rate: 1000, Duration: 100 * time.Millisecond, Concurrency: 1, FollowFor: -1})
	if r.Unsent < 80 || r.Unsent+r.Requests != 100 {
		t.Errorf("got %d sent and %d unsent, want 100 together", r.Requests, r.Unsent)
	}
}

// The load ends with its duration, and with its context, which also says so.
func TestLoadEnds(t *testing.T) {
	s := open(t, &shop{units: 1})
	if r := rush(t, s, bench.Options{Duration: 50 * time.Millisecond, Concurrency: 2}); r.Seconds < 0.05 || r.Interrupted || r.Requests < 3 {
		t.Errorf("got %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := bench.Run(ctx, bench.Options{Server: s.URL, Activity: 1, Duration: time.Hour, Every: 10 * time.Millisecond, Admin: s.admin(t),
		Progress: func(bench.Progress) { cancel() }})
	if err != nil || !r.Interrupted {
		t.Errorf("got %+v and %v, want an interrupted report", r, err)
	}
}

// A request without an answer of the API is an error, of its kind, and never a refusal.
func TestErrorsAreApart(t *testing.T) {
	gone := open(t, &shop{units: 1})
	for kind, s := range map[string]*shop{"cut": {cuts: true}, "status": {garbles: true}, "timeout": {slow: 300 * time.Millisecond, units: 1}} {
		s := open(t, s)
		r := rush(t, s, bench.Options{Buyers: 4, Concurrency: 1, Timeout: 30 * time.Millisecond})
		if r.Refused != 0 || r.Errors != 4 || r.ErrorKinds[kind] != 4 {
			t.Errorf("%s: got %d refused and errors %v, want 4 of it", kind, r.Refused, r.ErrorKinds)
		}
	}
	gone.Close()
	if _, err := bench.Run(t.Context(), bench.Options{Server: gone.URL, Activity: 1}); err == nil {
		t.Error("got no error from a server that is not there")
	}
}

// Buyers can be known by a header or by signed tokens as well.
func TestIdentities(t *testing.T) {
	s := open(t, &shop{units: 3, secret: "k3y"})
	if r := rush(t, s, bench.Options{Buyers: 9, Identity: bench.Identity{Secret: "k3y"}}); r.Accepted != 3 || r.Tickets.Confirmed != 3 {
		t.Errorf("got %v and %+v", r.Outcomes, r.Tickets)
	}
	if r := rush(t, s, bench.Options{Buyers: 9, Identity: bench.Identity{Secret: "other"}}); r.Outcomes["unauthenticated"] != 9 {
		t.Errorf("got %v, want nobody to be known", r.Outcomes)
	}
	s = open(t, &shop{units: 3})
	if r := rush(t, s, bench.Options{Buyers: 9, Identity: bench.Identity{Header: "x-user-id"}}); r.Accepted != 3 {
		t.Errorf("got %v", r.Outcomes)
	}
}

// Only so many tickets are kept, and the report says how many were not.
func TestTicketsAreBounded(t *testing.T) {
	s := open(t, &shop{units: 100})
	r := rush(t, s, bench.Options{Buyers: 100, FollowMax: 7})
	if k := r.Tickets; k.Accepted != 100 || k.Kept != 7 || k.Confirmed != 7 {
		t.Errorf("got %+v", k)
	}
}

// The lag is measured by the server's own events while the load runs.
func TestLagIsWatchedLive(t *testing.T) {
	s := open(t, &shop{units: 1000})
	r := rush(t, s, bench.Options{Buyers: 200, Rate: 1000})
	if s.streams == 0 || r.Tickets.Lag.Count == 0 || r.Tickets.Lag.Count > int64(s.streams) {
		t.Errorf("got %d streams and lag %+v", s.streams, r.Tickets.Lag)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]bench.Options{
		"activity": {}, "buyers": {Activity: 1, Buyers: -1}, "clicks": {Activity: 1, Clicks: 1001}, "rate": {Activity: 1, Rate: 2e6},
		"rush": {Activity: 1, Rush: time.Second}, "concurrency": {Activity: 1, Concurrency: 5000}, "quantity": {Activity: 1, Quantity: -1},
		"duration": {Activity: 1, Duration: -1}, "server": {Activity: 1, Server: "localhost"},
	} {
		if _, err := bench.Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The page stands alone: it loads nothing, runs nothing, and shows names as text.
func TestPageStandsAlone(t *testing.T) {
	s := open(t, &shop{units: 10})
	r := rush(t, s, bench.Options{Buyers: 50, Clicks: 3, Every: 5 * time.Millisecond, Admin: s.admin(t), Rush: 60 * time.Millisecond})
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{"<svg", "&lt;script&gt;Kettle", "already_purchased", "No unit was oversold", "p99.9"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Count(text, "<svg") != 2 || strings.Count(text, "<path") < 6 {
		t.Errorf("got %d charts with %d paths", strings.Count(text, "<svg"), strings.Count(text, "<path"))
	}
	if found := regexp.MustCompile(`(?i)<script|src=|href=|url\(|@import|NaN|Inf|%!`).FindString(text); found != "" {
		t.Errorf("the page has %q", found)
	}
	r.Violations = []string{"oversold: <b>"}
	page.Reset()
	if err := r.WriteHTML(&page); err != nil || !strings.Contains(page.String(), "oversold: &lt;b&gt;") || strings.Contains(page.String(), "No unit was oversold") {
		t.Errorf("got %v, and the broken promise is not shown", err)
	}
}

// The JSON has what a script needs, also when nothing happened.
func TestJSON(t *testing.T) {
	s := open(t, &shop{units: 1})
	body, err := json.Marshal(rush(t, s, bench.Options{Buyers: 3}))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"requests", "requests_per_second", "outcomes", "error_kinds", "latency_ms", "tickets", "timeline", "violations", "seed"} {
		if got[key] == nil {
			t.Errorf("%s is missing from %s", key, body)
		}
	}
}
