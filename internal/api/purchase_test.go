package api

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"seckill"
	"seckill/internal/auth"
	"seckill/stock"
)

// A yes is a 202 with a ticket, where to ask for it and when.
func TestAPurchaseGetsATicket(t *testing.T) {
	w := open(t)
	got := w.do("POST", "/v1/activities/1/purchases", `{"quantity":1}`, "X-User-Id: ann", "Idempotency-Key: k1")
	ticket, _ := got.json["ticket"].(string)
	if got.status != 202 || got.json["state"] != "queued" || got.json["ahead"] != 7.0 || got.json["poll_after_ms"].(float64) < 400 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if run, ok := seckill.TicketRun(ticket); !ok || run != (seckill.RunID{Activity: 1, Run: 2}) || got.header.Get("Location") != "/v1/tickets/"+ticket {
		t.Errorf("ticket %q at %q", ticket, got.header.Get("Location"))
	}
	if at := w.attempts[0]; at.Buyer != "ann" || at.Key != "k1" || at.Quantity != 1 || at.Ticket != ticket {
		t.Errorf("the stock was asked for %+v", at)
	}
	if got.header.Get("Server") != "" || got.header.Get("Date") == "" {
		t.Errorf("headers %v", got.header)
	}
}

// The same key again gets the same ticket without a second unit; another key, and another
// quantity, are the stock's business.
func TestTheSameKeyGetsTheSameTicket(t *testing.T) {
	w := open(t)
	first := w.buy("ann", "Idempotency-Key: k")
	again := w.buy("ann", "Idempotency-Key: k")
	if again.status != 202 || again.json["ticket"] != first.json["ticket"] || w.asked.Load() != 1 {
		t.Fatalf("got %d %s after %s; the stock was asked %d times", again.status, again.body, first.body, w.asked.Load())
	}
	w.buy("ann", "Idempotency-Key: other")
	w.do("POST", "/v1/activities/1/purchases", `{"quantity":2}`, "X-User-Id: ann", "Idempotency-Key: k")
	if w.asked.Load() != 3 {
		t.Errorf("the stock was asked %d times, want 3", w.asked.Load())
	}
}

// What the stock says is what the buyer hears.
func TestVerdictsBecomeReasons(t *testing.T) {
	for verdict, want := range map[stock.Verdict]seckill.Reason{
		stock.NotLoaded: seckill.Busy, stock.Stale: seckill.Busy, stock.Known: seckill.NoReason, stock.KeyMismatch: seckill.IdempotencyMismatch,
		stock.Paused: seckill.Paused, stock.NotStarted: seckill.NotStarted, stock.Ended: seckill.Ended, stock.OverLimit: seckill.AlreadyPurchased,
		stock.Short: seckill.SoldOut, stock.Taken: seckill.NoReason, 99: seckill.Busy,
	} {
		w := open(t)
		w.setReserve(func(_ *seckill.Activity, at seckill.Attempt) (stock.Decision, error) {
			return stock.Decision{Verdict: verdict, Ticket: "1-2-earlier"}, nil
		})
		got := w.buy("ann")
		if want == seckill.NoReason {
			if got.status != 202 || got.json["ticket"] != "1-2-earlier" {
				t.Errorf("verdict %d: got %d %s", verdict, got.status, got.body)
			}
			continue
		}
		got.refused(t, want.String(), want.Status(), want.String())
		if _, has := got.json["ticket"]; has != (want == seckill.AlreadyPurchased) {
			t.Errorf("verdict %d: got %s", verdict, got.body)
		}
		if _, has := got.json["starts_at"]; has != (want == seckill.NotStarted) {
			t.Errorf("verdict %d: got %s", verdict, got.body)
		}
	}
}

// An error of the stock is no "no": it is busy, logged once, and remembered by nobody. A refusal is never logged.
func TestUnknownErrorsAreBusyAndRefusalsAreNotLogged(t *testing.T) {
	w := open(t)
	w.setReserve(func(*seckill.Activity, seckill.Attempt) (stock.Decision, error) {
		return stock.Decision{}, seckill.Refuse(seckill.Busy)
	})
	w.buy("ann").refused(t, "refusal", 503, "busy")
	if w.log.String() != "" {
		t.Errorf("logged %q", w.log)
	}
	w.setReserve(func(*seckill.Activity, seckill.Attempt) (stock.Decision, error) {
		return stock.Decision{}, errors.New("connection reset")
	})
	for range 50 {
		w.buy("ann").refused(t, "error", 503, "busy")
	}
	if n := strings.Count(w.log.String(), "connection reset"); n < 1 || n > 5 || w.asked.Load() != 51 {
		t.Errorf("%d lines for 50 errors, %d questions: %s", n, w.asked.Load(), w.log)
	}
}

// A stock that hangs is given up after the deadline.
func TestAStockThatHangsIsBusyInTime(t *testing.T) {
	free := make(chan struct{})
	w := open(t, func(o *Options) { o.ReserveTimeout = 20 * time.Millisecond; o.Reserver = hanging{free} })
	begin := time.Now()
	w.buy("ann").refused(t, "hang", 503, "busy")
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Requests that begin at about the same time share a context, which lasts as long as the first of them may wait, and hardly shorter for the last.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := patience{parent: parent, lasts: 16 * time.Second}
		begin := time.Now()
		first := p.of(begin)
		<-time.After(999 * time.Millisecond)
		if p.of(time.Now()) != first {
			t.Error("not shared")
		}
		<-time.After(time.Millisecond)
		second := p.of(time.Now())
		if second == first {
			t.Error("shared for too long")
		}
		<-first.Done()
		if waited := time.Since(begin); waited != 16*time.Second {
			t.Errorf("who came first had %v", waited)
		}
		<-second.Done()
		if waited := time.Since(begin); waited != 17*time.Second {
			t.Errorf("who came a second later had until %v", waited)
		}
		third := p.of(time.Now())
		cancel()
		<-third.Done()
	})
}

// Of several refusals the first of the contract's order is said.
func TestOrderOfRefusals(t *testing.T) {
	w := open(t)
	now := time.Now()
	a := w.list[0]
	holds := []struct {
		reason seckill.Reason
		undo   func()
	}{
		{seckill.InvalidRequest, nil}, {seckill.Unauthenticated, nil}, {seckill.NotFound, nil},
		{seckill.Paused, func() { a.Paused = false }},
		{seckill.Busy, func() { a.Phase = seckill.PhaseLoaded }},
		{seckill.NotStarted, func() { a.StartsAt = now.Add(-time.Hour) }},
		{seckill.Ended, func() { a.EndsAt = now.Add(time.Hour) }},
		{seckill.NotEligible, func() { a.Audience = seckill.AudienceEveryone }},
		{seckill.AlreadyPurchased, nil}, {seckill.SoldOut, nil},
	}
	a.Paused, a.Phase, a.Audience, a.StartsAt, a.EndsAt = true, seckill.PhaseRebuilding, seckill.AudienceListed, now.Add(time.Hour), now.Add(-time.Minute)
	verdict := stock.OverLimit
	w.setReserve(func(*seckill.Activity, seckill.Attempt) (stock.Decision, error) {
		return stock.Decision{Verdict: verdict, Ticket: "t"}, nil
	})
	for i, h := range holds {
		path, body, user := "/v1/activities/9/purchases", "", ""
		switch h.reason {
		case seckill.InvalidRequest:
			body = "x"
		case seckill.Unauthenticated:
		case seckill.NotFound:
			user = "X-User-Id: ann"
		case seckill.SoldOut:
			verdict = stock.Short
			fallthrough
		default:
			path, user = "/v1/activities/1/purchases", "X-User-Id: "+h.reason.String()
		}
		headers := []string{user}
		if user == "" {
			headers = nil
		}
		w.do("POST", path, body, headers...).refused(t, h.reason.String(), h.reason.Status(), h.reason.String())
		if h.undo != nil {
			h.undo()
		}
		if i > 0 && holds[i-1].reason >= h.reason {
			t.Errorf("%s is tested after %s", h.reason, holds[i-1].reason)
		}
	}
}

// Sold out is said without asking again, and no longer once something came back.
func TestSoldOutIsRememberedUntilUnitsComeBack(t *testing.T) {
	w := open(t)
	w.setReserve(func(*seckill.Activity, seckill.Attempt) (stock.Decision, error) {
		return stock.Decision{Verdict: stock.Short}, nil
	})
	for range 5 {
		w.buy("ann").refused(t, "sold out", 410, "sold_out")
		w.buy("bob").refused(t, "sold out", 410, "sold_out")
	}
	if w.asked.Load() != 1 {
		t.Fatalf("the stock was asked %d times, want once", w.asked.Load())
	}
	if got := w.do("GET", "/v1/activities/1", ""); got.json["state"] != "sold_out" || got.json["remaining"] != 0.0 {
		t.Errorf("got %s", got.body)
	}
	w.Notify(stock.Event{Kind: stock.EventUnits, Run: seckill.RunID{Activity: 1, Run: 2}})
	w.buy("bob")
	if w.asked.Load() != 2 {
		t.Errorf("the stock was asked %d times, want twice", w.asked.Load())
	}
}

// Every purchase request is counted by its outcome; the time only of those that the stock was asked for.
func TestPurchasesAreCounted(t *testing.T) {
	w := open(t)
	w.buy("ann")
	w.buy("ann")
	w.do("POST", "/v1/activities/1/purchases", "x")
	w.do("POST", "/seckill", `{"activity_id":5,"user_id":5}`)
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(w.o.Metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/", nil))
	metrics, _ := io.ReadAll(rec.Body)
	for _, want := range []string{
		`seckill_purchases_total{outcome="accepted"} 1`, `seckill_purchases_total{outcome="already_purchased"} 1`,
		`seckill_purchases_total{outcome="invalid_request"} 1`, `seckill_purchases_total{outcome="not_found"} 1`, `seckill_purchase_duration_seconds_count 1`,
	} {
		if !strings.Contains(string(metrics), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// What the stock is given outlives the request that it came with.
func TestNothingThatIsKeptIsAView(t *testing.T) {
	w := open(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			name := strings.Repeat(string(rune('a'+i)), 20)
			for range 20 {
				w.buy(name, "Idempotency-Key: "+name+"-key")
				w.do("POST", "/v1/activities/1/purchases", `{"quantity":1,"user_id":"`+name+`"}`)
			}
		})
	}
	wg.Wait()
	for _, at := range w.attempts {
		if strings.Trim(at.Buyer, at.Buyer[:1]) != "" || len(at.Buyer) != 20 || at.Key != "" && at.Key != at.Buyer+"-key" {
			t.Fatalf("the stock kept %+v", at)
		}
	}
}

// The article's endpoint always says 200, and what happened in its code.
func TestTheArticlesEndpoint(t *testing.T) {
	w := open(t)
	reserve := w.reserve
	for _, c := range []struct {
		name, body string
		set        func(a *seckill.Activity)
		verdict    stock.Verdict
		code       float64
		ticket     bool
	}{
		{"yes", `{"activity_id":1,"user_id":2}`, nil, stock.Taken, 200, true},
		{"text id", `{"activity_id":1,"user_id":"u-2"}`, nil, stock.Taken, 200, true},
		{"missing", `{"activity_id":1}`, nil, 0, 400, false},
		{"empty", ``, nil, 0, 400, false},
		{"not there", `{"activity_id":9,"user_id":2}`, nil, 0, 404, false},
		{"early", `{"activity_id":1,"user_id":3}`, func(a *seckill.Activity) { a.StartsAt = time.Now().Add(time.Minute) }, 0, 403, false},
		{"late", `{"activity_id":1,"user_id":3}`, func(a *seckill.Activity) { a.EndsAt = time.Now() }, 0, 403, false},
		{"paused", `{"activity_id":1,"user_id":3}`, func(a *seckill.Activity) { a.Paused = true }, 0, 503, false},
		{"again", `{"activity_id":1,"user_id":4}`, nil, stock.OverLimit, 409, true},
		{"sold out", `{"activity_id":1,"user_id":5}`, nil, stock.Short, 410, false},
	} {
		a := sale(1)
		if c.set != nil {
			c.set(a)
		}
		w.mu.Lock()
		w.list = []*seckill.Activity{a}
		w.reserve = reserve
		if c.verdict != stock.Taken {
			w.reserve = func(*seckill.Activity, seckill.Attempt) (stock.Decision, error) {
				return stock.Decision{Verdict: c.verdict, Ticket: "t"}, nil
			}
		}
		w.mu.Unlock()
		got := w.do("POST", "/seckill", c.body, "Accept-Language: zh")
		_, hasTicket := got.json["ticket"]
		if got.status != 200 || got.json["code"] != c.code || got.json["msg"] == "" || hasTicket != c.ticket {
			t.Errorf("%s: got %d %s, want code %v", c.name, got.status, got.body, c.code)
		}
	}
	closed := open(t, func(o *Options) { o.Auth, _ = auth.HS256("secret", auth.Options{}) })
	closed.do("POST", "/seckill", `{"activity_id":1,"user_id":2}`).refused(t, "with JWT", 404, "not_found")
}
