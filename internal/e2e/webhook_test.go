package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// A shop hears of what becomes of a purchase, in order and signed, though its receiver is away at first and the server
// is killed meanwhile.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var heard []string
	var verifier *standardwebhooks.Webhook
	away := true
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if away {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Errorf("the signature of %s: %v", body, err)
		}
		var event struct {
			Type string
			Data struct{ Ticket string }
		}
		if err := json.Unmarshal(body, &event); err != nil || event.Data.Ticket == "" {
			t.Errorf("an event without a ticket: %v %s", err, body)
		}
		if n := len(heard); n == 0 || heard[n-1] != event.Type { // It may come twice.
			heard = append(heard, event.Type)
		}
	}))
	defer receiver.Close()

	s := serve(t, "--webhook-private")
	a := s.operate("POST", "/admin/v1/webhooks", `{"url":"`+receiver.URL+`"}`)
	if a.status != http.StatusCreated {
		t.Fatalf("register: %d %s", a.status, a.body)
	}
	var err error
	verifier, err = standardwebhooks.NewWebhook(a.str("secret"))
	must(t, err)

	activity := s.activity(5, -time.Second, "")
	bought, err := s.buy(activity, "me", "", 1)
	must(t, err)
	final := s.final("me", bought.str("ticket"))
	order, _ := final.json["order"].(map[string]any)
	id, _ := order["id"].(string)
	if paid := s.ask("POST", "/v1/orders/"+id+"/pay", "me", ""); paid.status != http.StatusOK {
		t.Fatalf("pay: %d %s", paid.status, paid.body)
	}
	s.kill()
	s.start()
	mu.Lock()
	away = false
	mu.Unlock()
	await(t, "both events", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(heard) >= 2
	})
	mu.Lock()
	defer mu.Unlock()
	if heard[0] != "reservation.confirmed" || heard[1] != "order.paid" {
		t.Errorf("heard %v, want the confirmation and then the payment", heard)
	}
}
