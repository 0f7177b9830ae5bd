package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/internal/auth"
	"seckill/internal/gate"
	"seckill/internal/limit"
)

// asksCounted counts how often the orders' desk is asked.
type asksCounted struct {
	desk
	asked *atomic.Int64
}

func (d asksCounted) Order(ctx context.Context, buyer, id string) (seckill.Order, error) {
	d.asked.Add(1)
	return d.desk.Order(ctx, buyer, id)
}

func (d asksCounted) Orders(ctx context.Context, buyer, before string, most int) ([]seckill.Order, error) {
	d.asked.Add(1)
	return d.desk.Orders(ctx, buyer, before, most)
}

func (d asksCounted) Cancel(ctx context.Context, buyer, id string) (seckill.Order, error) {
	d.asked.Add(1)
	return d.desk.Cancel(ctx, buyer, id)
}

func (d asksCounted) Pay(ctx context.Context, buyer, id, ref string) (seckill.Order, error) {
	d.asked.Add(1)
	return d.desk.Pay(ctx, buyer, id, ref)
}

func limitsOf(t *testing.T, ip, user int) gate.Limits {
	t.Helper()
	made := func(name string, burst int) *limit.Limiter {
		if burst == 0 {
			return nil
		}
		l, err := limit.New(limit.Options{Name: name, Rate: 0.001, Burst: burst, Cells: 1024})
		must(t, err)
		return l
	}
	return gate.Limits{Keys: limit.NewKeys(nil), IP: made("ip", ip), User: made("user", user)}
}

// Orders are looked at, paid and cancelled as often as the limits by buyer and by address allow, and who is too fast hears
// when to come again, before the database is asked. Looking, changing, buying and entering each have a budget of
// their own, and who is refused here is not taken for one who clicks on and on.
func TestOrdersAreLimited(t *testing.T) {
	for name, c := range map[string]struct {
		ip, user int
		other    string // Who comes after the one who was too fast.
		status   int
	}{
		"by buyer":   {0, 3, "bob", 404},
		"by address": {3, 0, "bob", 429},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			w := openTCP(t, func(o *Options) {
				o.SimulatePayment = true
				o.Gate.Limits = limitsOf(t, c.ip, c.user)
				abuse, err := limit.New(limit.Options{Name: "abuse", Rate: 0.001, Burst: 1, Cells: 1024})
				must(t, err)
				o.Gate.Limits.Abuse = abuse
				o.Gate.Limits.Punish = func(buyer string) { t.Errorf("%s is punished", buyer) }
				o.Desk = asksCounted{o.Desk, &asked}
			})
			w.order("1", "ann", seckill.AwaitingPayment)
			expect := func(what string, got answer, status int) {
				t.Helper()
				if got.status != status {
					t.Errorf("%s: got %d %s, want %d", what, got.status, got.body, status)
				}
			}
			limited := func(method, path string) {
				t.Helper()
				before := asked.Load()
				got := w.do(method, path, "", "X-User-Id: ann")
				got.refused(t, method+" "+path, http.StatusTooManyRequests, "rate_limited")
				if !strings.Contains(got.header.Get("RateLimit"), ";r=0;") || got.header.Get("RateLimit-Policy") == "" {
					t.Errorf("%s %s: got %v, want the limits in the headers", method, path, got.header)
				}
				if got := asked.Load(); got != before {
					t.Errorf("%s %s: the database was asked", method, path)
				}
			}
			for i, path := range []string{"/v1/orders", "/v1/orders/1", "/v1/orders?limit=1"} {
				got := w.do("GET", path, "", "X-User-Id: ann")
				expect(path, got, 200)
				if want := fmt.Sprintf(";r=%d;", 2-i); !strings.Contains(got.header.Get("RateLimit"), want) {
					t.Errorf("%s: RateLimit %q, want %s", path, got.header.Get("RateLimit"), want)
				}
			}
			for range 3 {
				limited("GET", "/v1/orders")
				limited("GET", "/v1/orders/1")
			}
			expect("another buyer", w.do("GET", "/v1/orders/9", "", "X-User-Id: "+c.other), c.status)
			// The next steps of an honest buyer are not held up by how often he has looked.
			expect("pay", w.do("POST", "/v1/orders/1/pay", "", "X-User-Id: ann"), 200)
			expect("pay again", w.do("POST", "/v1/orders/1/pay", "", "X-User-Id: ann"), 200)
			expect("cancel", w.do("POST", "/v1/orders/1/cancel", "", "X-User-Id: ann"), 409)
			limited("POST", "/v1/orders/1/cancel")
			limited("POST", "/v1/orders/1/pay")
			expect("a purchase", w.buy("ann"), 202)
		})
	}
}

// What is refused before the database would be asked counts for nothing: no identity, an id that is none.
func TestRefusedRequestsForOrdersCostNothing(t *testing.T) {
	w := openTCP(t, func(o *Options) {
		o.Auth, _ = auth.HS256("a-secret-of-the-test", auth.Options{})
		o.Gate.Limits = limitsOf(t, 1, 1)
	})
	for range 3 {
		got := w.do("GET", "/v1/orders", "", "Authorization: Bearer x")
		got.refused(t, "a wrong token", 401, "unauthenticated")
		if got.header.Get("RateLimit") != "" {
			t.Errorf("who is unknown hears of limits: %v", got.header)
		}
	}
}

// entriesOf reads the metric of entries as Prometheus does, but for outcomes that have not been.
func entriesOf(t *testing.T, w *world) map[string]float64 {
	t.Helper()
	families, err := w.o.Metrics.Registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "seckill_entries_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if n := m.GetCounter().GetValue(); n > 0 {
				got[m.GetLabel()[0].GetValue()] = n
			}
		}
	}
	return got
}

// Each request to enter is counted once, by what came of it; what is wrong with a proof is told apart.
func TestEntriesAreCounted(t *testing.T) {
	w := open(t, withDoor(t), func(o *Options) {
		o.Gate.Controls = kept{user: "eve"}
		o.Gate.Limits = limitsOf(t, 0, 5)
	})
	guarded(w)
	later := sale(4)
	later.StartsAt = time.Now().Add(time.Hour)
	w.mu.Lock()
	w.list = append(w.list, later)
	w.mu.Unlock()
	counted := map[string]float64{}
	enter := func(outcome, path, body, buyer string) {
		t.Helper()
		counted[outcome]++
		w.do("POST", path, body, "X-User-Id: "+buyer)
		if got := entriesOf(t, w); !maps.Equal(got, counted) {
			t.Errorf("after %s of %s: got %v, want %v", path, buyer, got, counted)
		}
	}
	challenge := w.do("GET", "/v1/activities/3/challenge", "", "X-User-Id: ann")
	proof := `{"proof":` + solve(t, challenge.json) + `}`
	enter("proof_missing", entryPath, "", "ann")
	enter("proof_malformed", entryPath, `{"proof":"x"}`, "ann")
	enter("proof_other_buyer", entryPath, proof, "bob")
	enter("issued", entryPath, proof, "ann")
	enter("proof_used", entryPath, proof, "ann")
	enter("rate_limited", entryPath, proof, "ann")
	enter("blocked", entryPath, "", "eve")
	enter("not_found", "/v1/activities/77/entry", "", "bob")
	enter("not_started", "/v1/activities/4/entry", "", "bob")
	enter("invalid_request", entryPath, `{"x":1}`, "bob")
	enter("unauthenticated", entryPath, "", "")
	enter("issued", "/v1/activities/1/entry", "", "bob")
}
