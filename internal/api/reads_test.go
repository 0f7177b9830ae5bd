package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/page"
	"seckill/stock"
)

// An activity says all that the contract names, and nothing else.
func TestAnActivity(t *testing.T) {
	w := open(t)
	got := w.do("GET", "/v1/activities/1", "")
	fields := []string{
		"id", "name", "description", "price_cents", "state", "run", "starts_at", "ends_at", "server_time", "total", "remaining", "limit_per_user", "payment_window_seconds", "challenge", "entry_token",
	}
	for _, f := range fields {
		if _, ok := got.json[f]; !ok {
			t.Errorf("no %s in %s", f, got.body)
		}
	}
	if len(got.json) != len(fields) || got.json["name"] != "手机 <Phone>" || got.json["state"] != "open" || got.json["remaining"] != 100.0 || got.json["price_cents"] != 12345.0 {
		t.Errorf("got %s", got.body)
	}
	for _, f := range []string{"starts_at", "ends_at", "server_time"} {
		if at, err := time.Parse(time.RFC3339, got.json[f].(string)); err != nil || !strings.HasSuffix(got.json[f].(string), "Z") {
			t.Errorf("%s is %v, %v", f, at, err)
		}
	}
}

func TestRemainingAndState(t *testing.T) {
	w := open(t)
	now := time.Now()
	for name, c := range map[string]struct {
		set       func(a *seckill.Activity)
		available int64 // -1: not known.
		state     string
		remaining float64
	}{
		"open":               {func(*seckill.Activity) {}, 41, "open", 41},
		"sold out":           {func(*seckill.Activity) {}, 0, "sold_out", 0},
		"open, not known":    {func(*seckill.Activity) {}, -1, "open", 0},
		"not loaded yet":     {func(a *seckill.Activity) { a.Phase, a.StartsAt = seckill.PhaseScheduled, now.Add(time.Hour) }, -1, "scheduled", 100},
		"ready":              {func(a *seckill.Activity) { a.StartsAt = now.Add(time.Hour) }, 100, "ready", 100},
		"ready, not known":   {func(a *seckill.Activity) { a.StartsAt = now.Add(time.Hour) }, -1, "ready", 100},
		"paused":             {func(a *seckill.Activity) { a.Paused = true }, 5, "paused", 5},
		"ended":              {func(a *seckill.Activity) { a.EndsAt = now }, 5, "ended", 5},
		"closed before time": {func(a *seckill.Activity) { a.Phase = seckill.PhaseClosed }, -1, "ended", 0},
	} {
		a := sale(1)
		c.set(a)
		w.mu.Lock()
		w.list = []*seckill.Activity{a}
		w.available = map[seckill.RunID]int64{}
		if c.available >= 0 {
			w.available[a.RunID()] = c.available
		}
		w.mu.Unlock()
		if got := w.do("GET", "/v1/activities/1", ""); got.json["state"] != c.state || got.json["remaining"] != c.remaining {
			t.Errorf("%s: got %s", name, got.body)
		}
	}
}

// Caches may keep an activity for a second, and hear 304 as long as nothing but the time has changed.
func TestActivitiesAreCacheable(t *testing.T) {
	w := open(t)
	for _, path := range []string{"/v1/activities/1", "/v1/activities"} {
		first := w.do("GET", path, "")
		tag := first.header.Get("Etag")
		if first.status != 200 || tag == "" || first.header.Get("Cache-Control") != "public, max-age=1" {
			t.Fatalf("%s: %d %v", path, first.status, first.header)
		}
		until(t, "the server's time moves on", func() bool { return w.do("GET", path, "").body != first.body })
		for _, match := range []string{tag, `"x", ` + tag, strings.TrimPrefix(tag, "W/"), "*"} {
			got := w.do("GET", path, "", "If-None-Match: "+match)
			if got.status != 304 || got.body != "" || got.header.Get("Etag") != tag || got.header.Get("Cache-Control") != "public, max-age=1" {
				t.Errorf("%s with %s: %d %q %v", path, match, got.status, got.body, got.header)
			}
		}
		w.mu.Lock()
		w.available[seckill.RunID{Activity: 1, Run: 2}]--
		w.mu.Unlock()
		if got := w.do("GET", path, "", "If-None-Match: "+tag); got.status != 200 || got.header.Get("Etag") == tag {
			t.Errorf("%s after a change: %d", path, got.status)
		}
		if head := w.do("HEAD", path, ""); head.status != 200 || head.body != "" || head.header.Get("Content-Length") == "0" || head.header.Get("Etag") == "" {
			t.Errorf("HEAD %s: %d %v", path, head.status, head.header)
		}
	}
}

// What ended long ago is not listed, but can still be looked at.
func TestTheListForgetsWhatIsOver(t *testing.T) {
	w := open(t)
	old, fresh := sale(2), sale(3)
	old.EndsAt, fresh.EndsAt = time.Now().Add(-25*time.Hour), time.Now().Add(-23*time.Hour)
	w.mu.Lock()
	w.list = append(w.list, old, fresh)
	w.mu.Unlock()
	list := w.do("GET", "/v1/activities", "").json["activities"].([]any)
	var ids []any
	for _, a := range list {
		ids = append(ids, a.(map[string]any)["id"])
	}
	if fmt.Sprint(ids) != "[1 3]" {
		t.Errorf("got %v", ids)
	}
	if got := w.do("GET", "/v1/activities/2", ""); got.json["state"] != "ended" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	w.mu.Lock()
	w.list = nil
	w.mu.Unlock()
	if got := w.do("GET", "/v1/activities", ""); got.body != `{"activities":[]}` {
		t.Errorf("got %s", got.body)
	}
}

// A ticket is shown to its owner, in each of its states.
func TestATicket(t *testing.T) {
	w := open(t)
	for want, o := range map[string]seckill.Outcome{
		`"state":"queued","ahead":40,"poll_after_ms":`:                   {Progress: seckill.Queued, Ahead: 40},
		`"state":"failed","reason":"sold_out"}`:                          {Progress: seckill.Failed, Reason: seckill.SoldOut},
		`"state":"confirmed","order":{"id":"7","activity_id":1,"run":2,`: {Progress: seckill.Confirmed, Order: &seckill.Order{ID: "7", Run: seckill.RunID{Activity: 1, Run: 2}}},
		`"state":"confirmed"}`:                                           {Progress: seckill.Confirmed},
	} {
		w.setOutcome(func(buyer, ticket string) (seckill.Outcome, error) {
			if buyer != "ann" {
				return seckill.Outcome{}, seckill.ErrNotFound
			}
			return o, nil
		})
		got := w.do("GET", "/v1/tickets/"+testTicket, "", "X-User-Id: ann")
		if got.status != 200 || !strings.Contains(got.body, `{"ticket":"`+testTicket+`",`+want) || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("want %s, got %d %s", want, got.status, got.body)
		}
		w.do("GET", "/v1/tickets/"+testTicket, "", "X-User-Id: bob").refused(t, "another's", 404, "not_found")
	}
	for _, odd := range []string{"1-2-%0A123456789abcdefghjk", "1-2-%00123456789abcdefghjk", "1-2-%E4%B8%AD3456789abcdefghjk"} {
		w.do("GET", "/v1/tickets/"+odd, "", "X-User-Id: ann").refused(t, odd, 404, "not_found")
	}
	w.setOutcome(func(string, string) (seckill.Outcome, error) { return seckill.Outcome{}, fmt.Errorf("away") })
	w.do("GET", "/v1/tickets/"+testTicket, "", "X-User-Id: ann").refused(t, "away", 503, "busy")
}

// The more are ahead, the later a buyer is told to ask again, and the wider that is spread.
func TestPollAfter(t *testing.T) {
	for _, ahead := range []int64{-5, 0, 1, 1000, 50_000, 100_000, 1 << 62} {
		least, most := time.Hour, time.Duration(0)
		for range 500 {
			d := pollAfter(ahead)
			least, most = min(least, d), max(most, d)
		}
		if least < pollLeast || most > pollMost*3/2 || most-least < least/4 || ahead >= 100_000 && least < pollMost {
			t.Errorf("%d ahead: %v to %v", ahead, least, most)
		}
	}
}

func (w *world) order(id, buyer string, state seckill.OrderState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ordersOf[id] = seckill.Order{
		ID: id, Ticket: "1-2-x", Run: seckill.RunID{Activity: 1, Run: 2}, Buyer: buyer, Quantity: 2, AmountCents: 24690, State: state,
		CreatedAt: time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC), PayBefore: time.Date(2026, 11, 11, 12, 15, 0, 0, time.UTC),
	}
}

// A buyer sees their own orders, page by page, and nobody else's.
func TestOrders(t *testing.T) {
	w := open(t)
	for id := 1; id <= 5; id++ {
		w.order(fmt.Sprint(id), "ann", seckill.AwaitingPayment)
	}
	w.order("6", "bob", seckill.Paid)
	want := `{"id":"3","activity_id":1,"run":2,"ticket":"1-2-x","state":"awaiting_payment","quantity":2,"amount_cents":24690,"created_at":"2026-11-11T12:00:00Z","pay_before":"2026-11-11T12:15:00Z"}`
	if got := w.do("GET", "/v1/orders/3", "", "X-User-Id: ann"); got.status != 200 || got.body != want {
		t.Errorf("got %d %s", got.status, got.body)
	}
	w.do("GET", "/v1/orders/6", "", "X-User-Id: ann").refused(t, "another's", 404, "not_found")
	var pages []string
	for cursor := ""; ; {
		got := w.do("GET", "/v1/orders?limit=2"+cursor, "", "X-User-Id: ann")
		var ids string
		for _, o := range got.json["orders"].([]any) {
			ids += o.(map[string]any)["id"].(string)
		}
		pages = append(pages, ids)
		next, more := got.json["cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	if fmt.Sprint(pages) != "[54 32 1]" {
		t.Errorf("got %v", pages)
	}
	if got := w.do("GET", "/v1/orders", "", "X-User-Id: carl"); got.body != `{"orders":[]}` {
		t.Errorf("got %s", got.body)
	}
	w.mu.Lock()
	w.deskErr = fmt.Errorf("database away")
	w.mu.Unlock()
	w.do("GET", "/v1/orders", "", "X-User-Id: ann").refused(t, "away", 503, "busy")
	w.do("GET", "/v1/orders/3", "", "X-User-Id: ann").refused(t, "away", 503, "busy")
}

// Cancelling and paying can be repeated; what is not possible any more is a conflict.
func TestCancelAndPay(t *testing.T) {
	w := open(t, func(o *Options) { o.SimulatePayment = true })
	w.order("1", "ann", seckill.AwaitingPayment)
	w.order("2", "ann", seckill.AwaitingPayment)
	for range 2 {
		for path, state := range map[string]string{"/v1/orders/1/cancel": "cancelled", "/v1/orders/2/pay": "paid"} {
			if got := w.do("POST", path, "{}", "X-User-Id: ann"); got.status != 200 || got.json["state"] != state {
				t.Errorf("%s: got %d %s", path, got.status, got.body)
			}
		}
	}
	w.do("POST", "/v1/orders/1/pay", "", "X-User-Id: ann").refused(t, "pay after cancel", 409, "conflict")
	w.do("POST", "/v1/orders/2/cancel", "", "X-User-Id: bob").refused(t, "another's", 404, "not_found")
	if got := w.ordersOf["2"].PaymentRef; got != "simulated" {
		t.Errorf("payment reference %q", got)
	}
	w.order("3", "ann", seckill.AwaitingPayment)
	w.do("POST", "/v1/orders/3/pay", `{"payment_ref":"wx-1"}`, "X-User-Id: ann")
	if got := w.ordersOf["3"].PaymentRef; got != "wx-1" {
		t.Errorf("payment reference %q", got)
	}
}

// The page comes with what a browser needs to trust it, packed if that is accepted.
func TestThePage(t *testing.T) {
	w := open(t, func(o *Options) {
		o.Page = func(path string) (page.Asset, bool) {
			return page.Asset{ContentType: "text/html; charset=utf-8", ETag: `W/"e"`, CacheControl: "public, max-age=60", CSP: "default-src 'none'", Plain: []byte("plain"), Gzip: []byte("packed")}, path == "/"
		}
	})
	for accept, want := range map[string]string{"": "plain", "gzip": "packed", "br, gzip;q=0.5": "packed", "gzip;q=0": "plain", "gzip;q=0.000, *": "plain", "*": "packed", "br": "plain"} {
		got := w.do("GET", "/", "", "Accept-Encoding: "+accept)
		if got.status != 200 || got.body != want || (got.header.Get("Content-Encoding") == "gzip") != (want == "packed") || got.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: got %d %q %v", accept, got.status, got.body, got.header)
		}
	}
	got := w.do("GET", "/", "")
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Etag": `W/"e"`, "Cache-Control": "public, max-age=60", "Content-Security-Policy": "default-src 'none'",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "SAMEORIGIN", "Referrer-Policy": "same-origin", "Server": "",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q", name, got.header.Get(name))
		}
	}
	if got := w.do("GET", "/", "", `If-None-Match: "e"`); got.status != 304 || got.body != "" || got.header.Get("Cache-Control") == "" {
		t.Errorf("got %d %q", got.status, got.body)
	}
	w.do("GET", "/x", "").refused(t, "no such file", 404, "not_found")
}

// What the door remembers of a run goes when the run does.
func TestRunsThatAreOverAreForgotten(t *testing.T) {
	w := open(t)
	w.setReserve(func(*seckill.Activity, seckill.Attempt) (stock.Decision, error) {
		return stock.Decision{Verdict: stock.Short}, nil
	})
	w.buy("ann")
	run := seckill.RunID{Activity: 1, Run: 2}
	if !w.gate.SoldOut(run) {
		t.Fatal("not sold out")
	}
	w.gate.Keep(w.present)
	if !w.gate.SoldOut(run) {
		t.Error("the present run was forgotten")
	}
	w.mu.Lock()
	next := sale(1)
	next.Run = 3
	w.list = []*seckill.Activity{next}
	w.mu.Unlock()
	w.gate.Keep(w.present)
	if w.gate.SoldOut(run) {
		t.Error("the old run was kept")
	}
}
