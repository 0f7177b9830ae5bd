package e2e

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// newBuyer makes a random UUID, as real buyers have.
func newBuyer() string {
	var b [16]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x-%x-4%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// rush lets every buyer click at once, several times, for a quantity that depends on the
// buyer, and returns the accepted tickets by buyer, with the quantity of each.
func rush(t *testing.T, s *server, activity int64, buyers, clicks int, quantity func(i int) int) (accepted map[string]map[string]int, refused map[string]int) {
	t.Helper()
	accepted, refused = map[string]map[string]int{}, map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range buyers {
		buyer := newBuyer()
		for range clicks {
			all.Go(func() {
				<-start
				a, err := s.buy(activity, buyer, "", quantity(i))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Errorf("buyer %s: %v", buyer, err)
				case a.status == http.StatusAccepted:
					if accepted[buyer] == nil {
						accepted[buyer] = map[string]int{}
					}
					accepted[buyer][a.str("ticket")] = quantity(i)
				default:
					refused[a.str("reason")]++
				}
			})
		}
	}
	close(start)
	all.Wait()
	return accepted, refused
}

// A few units, many buyers who click several times at once: exactly the units are
// sold, each accepted ticket is confirmed, nobody has more than the limit, and everybody
// else hears a reason that is true.
func TestSellsExactlyWhatThereIs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, c := range []struct {
		stock, buyers, clicks, limit int
		quantity                     func(i int) int
	}{
		{41, 400, 3, 1, func(int) int { return 1 }},
		{97, 200, 5, 3, func(int) int { return 1 }},
		{101, 150, 4, 5, func(i int) int { return 1 + i%3 }},
	} {
		t.Run(fmt.Sprintf("stock %d limit %d", c.stock, c.limit), func(t *testing.T) {
			activity := s.activity(c.stock, -time.Second, fmt.Sprintf(`,"limit_per_user":%d`, c.limit))
			accepted, refused := rush(t, s, activity, c.buyers, c.clicks, c.quantity)
			sold := 0
			for buyer, tickets := range accepted {
				held := 0
				for ticket, quantity := range tickets {
					held += quantity
					final := s.final(buyer, ticket)
					if final.str("state") != "confirmed" {
						t.Errorf("ticket %s ended as %s", ticket, final.body)
					}
				}
				if held > c.limit {
					t.Errorf("buyer %s got %d units, over the limit of %d", buyer, held, c.limit)
				}
				sold += held
			}
			b := s.settled(activity)
			if b.AwaitingPayment != int64(sold) || b.Available+int64(sold) != int64(c.stock) || b.Dead != 0 {
				t.Errorf("sold %d of %d, but the books say %+v", sold, c.stock, b)
			}
			// With quantities above 1 a unit may be left that nobody who is left may take.
			if b.Available > 0 && refused["sold_out"] == 0 {
				t.Errorf("%d units are left and nobody was told sold_out", b.Available)
			}
			if c.limit == 1 && b.Available != 0 {
				t.Errorf("%d units are left", b.Available)
			}
			for reason := range refused {
				if reason != "sold_out" && reason != "already_purchased" {
					t.Errorf("%d were refused as %s", refused[reason], reason)
				}
			}
		})
	}
}

// The same key is the same ticket, never a second unit; with another body it is a mismatch.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(10, -time.Second, `,"limit_per_user":5`)
	tickets := map[string]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			a, err := s.buy(activity, "buyer", "key-1", 2)
			if err != nil || a.status != http.StatusAccepted {
				t.Errorf("got %d %s, %v", a.status, a.body, err)
			}
			mu.Lock()
			tickets[a.str("ticket")] = true
			mu.Unlock()
		})
	}
	all.Wait()
	if len(tickets) != 1 {
		t.Errorf("one key got %d tickets", len(tickets))
	}
	if a, err := s.buy(activity, "buyer", "key-1", 1); err != nil || a.status != http.StatusUnprocessableEntity || a.str("reason") != "idempotency_mismatch" {
		t.Errorf("another quantity under the key: got %d %s, %v", a.status, a.body, err)
	}
	if a, err := s.buy(activity, "other", "key-1", 1); err != nil || a.status != http.StatusAccepted || tickets[a.str("ticket")] {
		t.Errorf("the key of another buyer: got %d %s, %v", a.status, a.body, err)
	}
	if b := s.settled(activity); b.Available != 7 || b.AwaitingPayment != 3 {
		t.Errorf("books %+v, want 7 available and 3 awaiting payment", b)
	}
}

// An order that is not paid in time expires, its unit is sold again, and the buyer may
// buy again. Paying and cancelling twice changes nothing; paying too late is refused.
func TestOrdersEnd(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(1, -time.Second, `,"payment_window_seconds":1`)
	first := s.confirmed(activity, "first")
	if a, _ := s.buy(activity, "second", "", 1); a.str("reason") != "sold_out" {
		t.Fatalf("the only unit was sold, but a second buyer heard %s", a.body)
	}
	await(t, "the order to expire", func() bool {
		return s.ask("GET", "/v1/orders/"+first, "first", "").str("state") == "expired"
	})
	if a := s.ask("POST", "/v1/orders/"+first+"/pay", "first", ""); a.status != http.StatusConflict {
		t.Errorf("pay after expiry: got %d %s, want 409", a.status, a.body)
	}
	second := s.confirmed(activity, "second")
	for range 2 {
		if a := s.ask("POST", "/v1/orders/"+second+"/cancel", "second", ""); a.status != http.StatusOK || a.str("state") != "cancelled" {
			t.Errorf("cancel: got %d %s", a.status, a.body)
		}
	}
	again := s.confirmed(activity, "second") // Also who cancelled may buy again, at once.
	for range 2 {
		if a := s.ask("POST", "/v1/orders/"+again+"/pay", "second", ""); a.status != http.StatusOK || a.str("state") != "paid" {
			t.Errorf("pay: got %d %s", a.status, a.body)
		}
	}
	if a := s.ask("POST", "/v1/orders/"+again+"/cancel", "second", ""); a.status != http.StatusConflict {
		t.Errorf("cancel a paid order: got %d %s, want 409", a.status, a.body)
	}
	if a := s.ask("GET", "/v1/orders/"+again, "first", ""); a.status != http.StatusNotFound {
		t.Errorf("another buyer's order: got %d %s, want 404", a.status, a.body)
	}
	if b := s.settled(activity); b.Paid != 1 || b.Available != 0 {
		t.Errorf("books %+v, want 1 paid", b)
	}
}

// confirmed buys one unit, as soon as there is one, and returns the order's id.
func (s *server) confirmed(activity int64, buyer string) string {
	s.t.Helper()
	var a answer
	await(s.t, buyer+" to be let through", func() bool {
		var err error
		a, err = s.buy(activity, buyer, "", 1)
		return err == nil && a.status == http.StatusAccepted
	})
	final := s.final(buyer, a.str("ticket"))
	order, _ := final.json["order"].(map[string]any)
	id, _ := order["id"].(string)
	if final.str("state") != "confirmed" || id == "" {
		s.t.Fatalf("ticket of %s ended as %s", buyer, final.body)
	}
	return id
}

// A second run sells to buyers of the first one, and the first one's orders stay as they are.
func TestSecondRun(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(2, -time.Second, "")
	first := s.confirmed(activity, "a")
	path := fmt.Sprintf("/admin/v1/activities/%d", activity)
	now := time.Now().UTC()
	rerun := fmt.Sprintf(`{"starts_at":%q,"ends_at":%q,"stock":1}`, now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	if a := s.operate("POST", path+"/rerun", rerun); a.status != http.StatusConflict {
		t.Errorf("rerun of an open activity: got %d %s, want 409", a.status, a.body)
	}
	if a := s.operate("POST", path+"/close", ""); a.status != http.StatusOK || a.str("state") != "ended" {
		t.Fatalf("close: got %d %s", a.status, a.body)
	}
	if a, _ := s.buy(activity, "b", "", 1); a.str("reason") != "ended" {
		t.Errorf("a closed activity: got %s", a.body)
	}
	kept, _ := s.buy(activity, "keeper", "kept", 1)
	if kept.str("reason") != "ended" {
		t.Errorf("a new key after the end: got %s", kept.body)
	}
	if a := s.operate("POST", path+"/rerun", rerun); a.status != http.StatusOK || a.num("run") != 2 {
		t.Fatalf("rerun: got %d %s", a.status, a.body)
	}
	second := s.confirmed(activity, "a") // The buyer of the first run.
	if a, _ := s.buy(activity, "b", "", 1); a.str("reason") != "sold_out" {
		t.Errorf("the second run has one unit: got %s", a.body)
	}
	if a := s.ask("POST", "/v1/orders/"+first+"/cancel", "a", ""); a.status != http.StatusOK {
		t.Errorf("cancel the first run's order: got %d %s", a.status, a.body)
	}
	if b := s.settled(activity); b.Total != 1 || b.AwaitingPayment != 1 || b.Available != 0 {
		t.Errorf("books of the second run %+v, want the first run's return not in them", b)
	}
	if a := s.ask("GET", "/v1/orders/"+second, "a", ""); a.num("run") != 2 {
		t.Errorf("order of the second run: %s", a.body)
	}
}

// Whoever got a ticket in the last moment and lost the answer hears it again when the sale is over.
func TestKeyIsKnownAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(2, -time.Second, "")
	first, err := s.buy(activity, "a", "key", 1)
	must(t, err)
	s.final("a", first.str("ticket"))
	if a := s.operate("POST", fmt.Sprintf("/admin/v1/activities/%d/close", activity), ""); a.status != http.StatusOK {
		t.Fatalf("close: %d %s", a.status, a.body)
	}
	again, err := s.buy(activity, "a", "key", 1)
	if err != nil || again.status != http.StatusAccepted || again.str("ticket") != first.str("ticket") {
		t.Errorf("got %d %s, %v, want the ticket %s", again.status, again.body, err, first.str("ticket"))
	}
}

// Restocking opens a sold-out activity again; taking away takes at most what is there.
func TestRestock(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(1, -time.Second, "")
	path := fmt.Sprintf("/admin/v1/activities/%d", activity)
	s.confirmed(activity, "a")
	await(t, "sold_out to be seen", func() bool {
		return s.ask("GET", fmt.Sprintf("/v1/activities/%d", activity), "", "").str("state") == "sold_out"
	})
	if a := s.operate("POST", path+"/restock", `{"quantity":5}`); a.status != http.StatusOK {
		t.Fatalf("restock: %d %s", a.status, a.body)
	}
	s.confirmed(activity, "b")
	if a := s.operate("POST", path+"/restock", `{"quantity":-100}`); a.status != http.StatusOK {
		t.Fatalf("negative restock: %d %s", a.status, a.body)
	}
	if b := s.settled(activity); b.Total != 2 || b.Available != 0 || b.AwaitingPayment != 2 {
		t.Errorf("books %+v, want 2 total, 0 available", b)
	}
}

// Before its start an activity answers not_started and says when; paused it answers
// paused; each opens at its time by itself.
func TestWindow(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(3, 1500*time.Millisecond, "")
	a, _ := s.buy(activity, "a", "", 1)
	if a.status != http.StatusForbidden || a.str("reason") != "not_started" || a.str("starts_at") == "" {
		t.Errorf("before the start: got %d %s", a.status, a.body)
	}
	s.confirmed(activity, "a")
	path := fmt.Sprintf("/admin/v1/activities/%d", activity)
	s.operate("POST", path+"/pause", "")
	if a, _ := s.buy(activity, "b", "", 1); a.status != http.StatusServiceUnavailable || a.str("reason") != "paused" || a.header.Get("Retry-After") == "" {
		t.Errorf("paused: got %d %s %v", a.status, a.body, a.header)
	}
	s.operate("POST", path+"/resume", "")
	s.confirmed(activity, "b")
}
