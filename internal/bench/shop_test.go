package bench_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"seckill/client"
	"seckill/internal/bench"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop is a small flash sale behind the API, with switches for what may be broken.
type shop struct {
	*httptest.Server
	units, limit int

	oversells, forgets, sellsTwice, losesUnit, cuts, garbles bool
	slow                                                     time.Duration // Each purchase takes this long, one after the other.
	secret                                                   string        // Buyers come with JWTs.

	mu      sync.Mutex
	sold    int
	clicks  map[string]int
	holds   map[string]string // Buyer to ticket.
	tickets map[string]string // Ticket to buyer.
	streams int
}

func open(t *testing.T, s *shop) *shop {
	t.Helper()
	s.clicks, s.holds, s.tickets = map[string]int{}, map[string]string{}, map[string]string{}
	if s.limit == 0 {
		s.limit = 1
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/activities/1", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":1,"name":"<script>Kettle","limit_per_user":%d,"total":%d}`, s.limit, s.units)
	})
	mux.HandleFunc("POST /v1/activities/1/purchases", s.purchase)
	mux.HandleFunc("GET /v1/tickets/{ticket}", s.ticket)
	mux.HandleFunc("GET /v1/tickets/{ticket}/events", s.events)
	mux.HandleFunc("GET /admin/v1/activities/1", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		available := max(s.units-s.sold, 0)
		if s.losesUnit && s.sold > 0 {
			available--
		}
		fmt.Fprintf(w, `{"id":1,"run":1,"books":{"total":%d,"available":%d,"awaiting_payment":%d,"balanced":%t}}`, s.units, available, s.sold, available+s.sold == s.units)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) buyer(r *http.Request) string {
	if s.secret == "" {
		return r.Header.Get("X-User-Id")
	}
	var claims jwt.RegisteredClaims
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if _, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return []byte(s.secret), nil }, jwt.WithExpirationRequired()); err != nil {
		return ""
	}
	return claims.Subject
}

func (s *shop) purchase(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow > 0 {
		<-time.After(s.slow)
	}
	buyer := s.buyer(r)
	s.clicks[buyer]++
	no := func(status int, reason string) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"x","status":%d,"reason":%q}`, status, reason)
	}
	switch {
	case s.cuts:
		panic(http.ErrAbortHandler)
	case s.garbles:
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "<html>")
	case buyer == "":
		no(401, "unauthenticated")
	case s.holds[buyer] != "" && !s.sellsTwice:
		no(409, "already_purchased")
	case s.sold >= s.units && !s.oversells:
		no(410, "sold_out")
	default:
		s.sold++
		ticket := fmt.Sprintf("1-1-%020d", s.sold)
		s.holds[buyer], s.tickets[ticket] = ticket, buyer
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"ticket":%q,"state":"queued"}`, ticket)
	}
}

func (s *shop) state(r *http.Request) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgets || s.tickets[r.PathValue("ticket")] != s.buyer(r) {
		return ""
	}
	body, _ := json.Marshal(map[string]any{"ticket": r.PathValue("ticket"), "state": "confirmed",
		"order": map[string]any{"id": "1", "quantity": 1, "pay_before": time.Now().Add(time.Hour)}})
	return string(body)
}

func (s *shop) ticket(w http.ResponseWriter, r *http.Request) {
	body := s.state(r)
	if body == "" {
		w.WriteHeader(http.StatusNotFound)
		body = `{"status":404,"reason":"not_found"}`
	}
	fmt.Fprint(w, body)
}

func (s *shop) events(w http.ResponseWriter, r *http.Request) {
	body := s.state(r)
	if body == "" {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"status":404,"reason":"not_found"}`)
		return
	}
	s.mu.Lock()
	s.streams++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", body)
}

func (s *shop) admin(t *testing.T) *client.Admin {
	t.Helper()
	a, err := client.NewAdmin(client.Options{Server: s.URL, Token: "t", HTTP: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// rush makes a run against the shop.
func rush(t *testing.T, s *shop, o bench.Options) *bench.Report {
	t.Helper()
	o.Server, o.Activity = s.URL, 1
	r, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
