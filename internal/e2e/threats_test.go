package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The tests here are named after OWASP's automated threats and API risks; docs/security/threats.md has the table of
// all of them, also of those that other packages test.

// Scalping: one buyer gets what the activity allows, however many clicks, devices, addresses and keys he has.
func TestOAT005Scalping(t *testing.T) {
	t.Parallel()
	s := serve(t, "--trusted-proxies", "127.0.0.1")
	activity := s.activity(100, -time.Second, `,"limit_per_user":2`)
	var mu sync.Mutex
	var all sync.WaitGroup
	tickets, reasons := map[string]bool{}, map[string]int{}
	for i := range 60 {
		all.Go(func() {
			a, err := s.call("POST", fmt.Sprintf("http://%s/v1/activities/%d/purchases", s.listen, activity), "scalper", map[string]string{
				"X-Device-Id": fmt.Sprint("device-", i), "X-Forwarded-For": fmt.Sprintf("203.0.113.%d", i), "Idempotency-Key": fmt.Sprint("key-", i),
			}, "")
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if a.status == http.StatusAccepted {
				tickets[a.str("ticket")] = true
			} else {
				reasons[a.str("reason")]++
			}
		})
	}
	all.Wait()
	if len(tickets) != 2 || reasons["already_purchased"] != 58 {
		t.Errorf("got %d tickets and %v, want 2, and already_purchased 58 times", len(tickets), reasons)
	}
	if b := s.settled(activity); b.Available != 98 {
		t.Errorf("books %+v, want 98 available", b)
	}
}

// Sniping: with a return window, units that were not paid for, or were given back, are not there again at a moment that anybody
// could foretell; nobody pays in the meantime; and all of them are there in the end.
func TestOAT013Sniping(t *testing.T) {
	t.Parallel()
	const units = 30
	s := serve(t, "--return-window", "6s")
	for how, end := range map[string]func(buyer, order string){
		"unpaid": func(string, string) {},
		"given back": func(buyer, order string) {
			if a := s.ask("POST", "/v1/orders/"+order+"/cancel", buyer, ""); a.str("state") != "cancelled" {
				t.Errorf("cancel: %d %s", a.status, a.body)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			window := 3600
			if how == "unpaid" {
				window = 2
			}
			activity := s.activity(units, -time.Second, fmt.Sprintf(`,"payment_window_seconds":%d`, window))
			orders := map[string]string{}
			for range units {
				buyer := newBuyer()
				orders[buyer] = s.confirmed(activity, buyer)
			}
			for buyer, order := range orders {
				end(buyer, order)
			}
			if how == "unpaid" {
				await(t, "the orders to expire", func() bool {
					for buyer, order := range orders {
						if s.ask("GET", "/v1/orders/"+order, buyer, "").str("state") != "expired" {
							return false
						}
					}
					return true
				})
				for buyer, order := range orders {
					if a := s.ask("POST", "/v1/orders/"+order+"/pay", buyer, ""); a.status != http.StatusConflict {
						t.Errorf("pay too late: %d %s", a.status, a.body)
					}
				}
			}
			seen := map[int64]bool{}
			await(t, "all units to be back", func() bool {
				n := s.books(activity).Available
				seen[n] = true
				return n == units
			})
			// At once there would be two: none, and all.
			if len(seen) < 4 {
				t.Errorf("the units came back in %d steps: %v", len(seen), seen)
			}
			s.confirmed(activity, newBuyer())
			s.settled(activity)
		})
	}
}

// Denial of inventory: who lets order after order expire is kept out for a while; operators see why, and may let him in
// again. Who does so once is not.
func TestOAT021DenialOfInventory(t *testing.T) {
	t.Parallel()
	s := serve(t, "--unpaid-max", "2", "--unpaid-block", "1h")
	activity := s.activity(10, -time.Second, `,"payment_window_seconds":1`)
	expires := func(buyer string) {
		order := s.confirmed(activity, buyer)
		await(t, "the order of "+buyer+" to expire", func() bool {
			return s.ask("GET", "/v1/orders/"+order, buyer, "").str("state") == "expired"
		})
	}
	expires("hoarder")
	expires("forgetful")
	expires("hoarder")
	// He tries where nothing is sold yet: an order that he got before the block would expire like the others.
	later := s.activity(10, time.Minute, "")
	var a, list answer
	await(t, "the hoarder to be blocked", func() bool {
		a, _ = s.buy(later, "hoarder", "", 1)
		return a.str("reason") == "blocked"
	})
	if a.status != http.StatusForbidden {
		t.Errorf("blocked: %d %s", a.status, a.body)
	}
	var blocks []any
	await(t, "the block to be listed", func() bool {
		list = s.operate("GET", "/admin/v1/blocks", "")
		blocks, _ = list.json["blocks"].([]any)
		return len(blocks) > 0
	})
	if len(blocks) != 1 || !strings.Contains(string(list.body), "expire unpaid") || !strings.Contains(string(list.body), `"hoarder"`) {
		t.Fatalf("blocks: %s", list.body)
	}
	s.confirmed(activity, "forgetful")
	id := blocks[0].(map[string]any)["id"]
	if a := s.operate("DELETE", fmt.Sprintf("/admin/v1/blocks/%v", id), ""); a.status >= 300 {
		t.Fatalf("remove the block: %d %s", a.status, a.body)
	}
	s.confirmed(activity, "hoarder")
}

// Broken object level authorisation: tickets, their events and orders are there for their owner alone. Another hears just what he
// hears of what does not exist, and changes nothing.
func TestAPI1BrokenObjectLevelAuthorization(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(5, -time.Second, "")
	a, err := s.buy(activity, "owner", "", 1)
	must(t, err)
	ticket := a.str("ticket")
	order, _ := s.final("owner", ticket).json["order"].(map[string]any)["id"].(string)
	for _, c := range [][3]string{
		{"GET", "/v1/tickets/" + ticket, "/v1/tickets/" + ticket[:len(ticket)-1] + "x"},
		{"GET", "/v1/tickets/" + ticket + "/events", "/v1/tickets/" + ticket[:len(ticket)-1] + "x/events"},
		{"GET", "/v1/orders/" + order, "/v1/orders/" + order[:len(order)-1]},
		{"POST", "/v1/orders/" + order + "/cancel", "/v1/orders/" + order[:len(order)-1] + "/cancel"},
		{"POST", "/v1/orders/" + order + "/pay", "/v1/orders/" + order[:len(order)-1] + "/pay"},
	} {
		others, nothing := s.ask(c[0], c[1], "thief", ""), s.ask(c[0], c[2], "thief", "")
		if others.status != http.StatusNotFound || string(others.body) != string(nothing.body) {
			t.Errorf("%s %s: %d %s, want what is said of nothing: %s", c[0], c[1], others.status, others.body, nothing.body)
		}
	}
	if list := s.ask("GET", "/v1/orders", "thief", ""); strings.Contains(string(list.body), order) {
		t.Errorf("the thief's orders: %s", list.body)
	}
	if got := s.ask("GET", "/v1/orders/"+order, "owner", ""); got.str("state") != "awaiting_payment" {
		t.Errorf("the order afterwards: %s", got.body)
	}
}

// Broken authentication: tokens that are not signed, signed by others, over, or without a buyer are no tokens.
func TestAPI2BrokenAuthentication(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-of-the-tests-of-threats"
	s := serve(t, "--auth", "jwt:hs256:"+secret)
	activity := s.activity(5, -time.Second, "")
	claims := func(until time.Duration, sub string) jwt.RegisteredClaims {
		return jwt.RegisteredClaims{Subject: sub, ExpiresAt: jwt.NewNumericDate(time.Now().Add(until))}
	}
	sign := func(m jwt.SigningMethod, key any, c jwt.Claims) string {
		token, err := jwt.NewWithClaims(m, c).SignedString(key)
		must(t, err)
		return token
	}
	good := sign(jwt.SigningMethodHS256, []byte(secret), claims(time.Hour, "ann"))
	parts := strings.Split(good, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"bob","exp":4102444800}`))
	try := func(header string) answer {
		h := map[string]string{}
		if header != "" {
			h["Authorization"] = header
		}
		a, err := s.call("POST", fmt.Sprintf("http://%s/v1/activities/%d/purchases", s.listen, activity), "", h, "")
		must(t, err)
		return a
	}
	for what, header := range map[string]string{
		"none":            "",
		"alg none":        "Bearer " + sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(time.Hour, "ann")),
		"another secret":  "Bearer " + sign(jwt.SigningMethodHS256, []byte("another"), claims(time.Hour, "ann")),
		"another method":  "Bearer " + sign(jwt.SigningMethodHS512, []byte(secret), claims(time.Hour, "ann")),
		"over":            "Bearer " + sign(jwt.SigningMethodHS256, []byte(secret), claims(-time.Hour, "ann")),
		"nobody's":        "Bearer " + sign(jwt.SigningMethodHS256, []byte(secret), claims(time.Hour, "")),
		"another's name":  "Bearer " + parts[0] + "." + forged + "." + parts[2],
		"no signature":    "Bearer " + parts[0] + "." + parts[1] + ".",
		"the admin token": "Bearer " + adminToken,
	} {
		if a := try(header); a.status != http.StatusUnauthorized || a.str("reason") != "unauthenticated" {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	if a := try("Bearer " + good); a.status != http.StatusAccepted {
		t.Errorf("a good one: %d %s", a.status, a.body)
	}
	if strings.Contains(s.log.String(), secret) {
		t.Error("the secret is in the log")
	}
}

// Broken object property level authorisation: a buyer sets nothing but what is his to say, and reads nothing but what is
// his to know.
func TestAPI3ObjectPropertyLevelAuthorization(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(5, -time.Second, `,"price_cents":100,"entry_token":true`)
	path := fmt.Sprintf("/v1/activities/%d", activity)
	for _, field := range []string{"price_cents", "amount_cents", "state", "run", "ticket", "limit_per_user", "epoch", "slot", "stock"} {
		for _, where := range []string{path + "/purchases", path + "/entry", "/v1/orders/1/pay", "/v1/orders/1/cancel"} {
			a := s.ask("POST", where, "ann", `{"`+field+`":1}`)
			if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `"field":"`+field+`"`) {
				t.Errorf("%s with %s: %d %s", where, field, a.status, a.body)
			}
		}
	}
	known := []string{
		"id", "name", "description", "price_cents", "state", "run", "starts_at", "ends_at", "server_time", "total", "remaining", "limit_per_user", "challenge", "entry_token", "payment_window_seconds",
	}
	for field := range s.ask("GET", path, "ann", "").json {
		if !slices.Contains(known, field) {
			t.Errorf("an activity tells of %q", field)
		}
	}
}

// Unrestricted resource consumption: headers, bodies, pages and clicks have bounds.
func TestAPI4ResourceConsumption(t *testing.T) {
	t.Parallel()
	s := serve(t, "--limit-user", "0.001/s:3")
	activity := s.activity(50, -time.Second, "")
	if a := s.ask("POST", fmt.Sprintf("/v1/activities/%d/purchases", activity), "ann", `{"x":"`+strings.Repeat("x", 70_000)+`"}`); a.status != http.StatusRequestEntityTooLarge || a.str("reason") != "too_large" {
		t.Errorf("a body of 70 KB: %d %s", a.status, a.body)
	}
	a, err := s.call("GET", "http://"+s.listen+"/v1/activities", "ann", map[string]string{"X-Padding": strings.Repeat("x", 9000)}, "")
	if err != nil || a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers of 9 KB: %d %s, %v", a.status, a.body, err)
	}
	if a := s.ask("GET", "/v1/orders?limit=100000", "ann", ""); a.status != http.StatusOK && a.status != http.StatusBadRequest {
		t.Errorf("a page of 100,000: %d %s", a.status, a.body)
	}
	limited := 0
	for range 10 {
		if a, _ := s.buy(activity, "ann", "", 1); a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != "" {
			limited++
		}
	}
	if limited < 6 {
		t.Errorf("%d of 10 clicks were too fast, want at least 6", limited)
	}
}

// Broken function level authorisation: what operators may do is not on the public listener at all, and on its own one nothing but the
// admin token opens it.
func TestAPI5FunctionLevelAuthorization(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(5, -time.Second, "")
	for _, c := range [][2]string{
		{"GET", "/admin/v1/activities"}, {"POST", "/admin/v1/activities"}, {"POST", fmt.Sprintf("/admin/v1/activities/%d/close", activity)},
		{"PUT", "/admin/v1/switches/intake"}, {"POST", "/admin/v1/blocks"}, {"GET", "/admin/v1/audit"}, {"GET", "/admin/v1/orders?buyer=ann"}, {"GET", "/debug/pprof/"},
	} {
		public, err := s.call(c[0], "http://"+s.listen+c[1], "ann", map[string]string{"Authorization": "Bearer " + adminToken}, "")
		must(t, err)
		if public.status != http.StatusNotFound {
			t.Errorf("%s %s on the public listener: %d %s", c[0], c[1], public.status, public.body)
		}
		for _, header := range []map[string]string{{}, {"Authorization": "Bearer x"}, {"X-User-Id": "admin"}, {"Authorization": "Basic YWRtaW46YWRtaW4="}} {
			a, err := s.call(c[0], "http://"+s.admin+c[1], "", header, "")
			must(t, err)
			// Who guesses on is slowed down.
			if a.status != http.StatusUnauthorized && a.status != http.StatusTooManyRequests {
				t.Errorf("%s %s with %v: %d %s", c[0], c[1], header, a.status, a.body)
			}
		}
	}
	if got := s.ask("GET", fmt.Sprintf("/v1/activities/%d", activity), "", "").str("state"); got != "open" {
		t.Errorf("the activity is %s", got)
	}
}

// Security misconfiguration: no answer tells what made it, lets another site read it, or is guessed to be something else; and no
// method is answered that is not meant.
func TestAPI8SecurityMisconfiguration(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(5, -time.Second, "")
	for _, c := range [][2]string{
		{"GET", "/"}, {"GET", "/v1/activities"}, {"GET", fmt.Sprintf("/v1/activities/%d", activity)}, {"POST", fmt.Sprintf("/v1/activities/%d/purchases", activity)},
		{"GET", "/v1/orders"}, {"GET", "/nothing"}, {"GET", "/healthz"}, {"OPTIONS", "/v1/orders"}, {"TRACE", "/v1/orders"}, {"PUT", "/v1/orders"},
	} {
		a, err := s.call(c[0], "http://"+s.listen+c[1], "ann", map[string]string{
			"Origin": "https://evil.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-user-id",
		}, "")
		must(t, err)
		for name := range a.header {
			if strings.HasPrefix(name, "Access-Control-") || name == "Server" || name == "X-Powered-By" {
				t.Errorf("%s %s answers with %s: %s", c[0], c[1], name, a.header.Get(name))
			}
		}
		if len(a.body) > 0 && a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: the type may be guessed", c[0], c[1])
		}
		if (c[0] == "TRACE" || c[0] == "PUT") && a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", c[0], a.status)
		}
		if strings.Contains(string(a.body), "evil.example") {
			t.Errorf("%s %s says back what it was told", c[0], c[1])
		}
	}
	if page := s.ask("GET", "/", "", ""); !strings.Contains(page.header.Get("Content-Security-Policy"), "default-src 'none'") || page.header.Get("X-Frame-Options") == "" {
		t.Errorf("the page has the headers %v", page.header)
	}
}

var (
	routeRow  = regexp.MustCompile("(?m)^\\| `(GET|POST) (/[^`]*)` \\|")
	routeCode = regexp.MustCompile(`= &route\{allow(Read|Write)`)
)

// Improper inventory management: what docs/security/threats.md lists is what is served, no more and no less; there are no old
// versions, and nothing that is for developers.
func TestAPI9InventoryManagement(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(5, -time.Second, "")
	text, err := os.ReadFile("../../docs/security/threats.md")
	must(t, err)
	code, err := os.ReadFile("../api/route.go")
	must(t, err)
	rows := routeRow.FindAllStringSubmatch(string(text), -1)
	if routes := len(routeCode.FindAllString(string(code), -1)); routes != len(rows) {
		t.Errorf("%d routes are listed and %d are served", len(rows), routes)
	}
	for _, row := range rows {
		path := strings.NewReplacer("{id}", fmt.Sprint(activity), "{ticket}", "1-1-0123456789abcdefghjk").Replace(row[2])
		a, err := s.call("OPTIONS", "http://"+s.listen+path, "", nil, "")
		must(t, err)
		if a.status != http.StatusNoContent || !strings.Contains(a.header.Get("Allow"), row[1]) {
			t.Errorf("%s %s is listed: OPTIONS says %d, Allow %q", row[1], row[2], a.status, a.header.Get("Allow"))
		}
	}
	for _, path := range []string{"/v0/activities", "/v2/activities", "/api/v1/activities", "/admin/", "/metrics", "/debug/pprof/", "/readyz", "/swagger", "/openapi.json", "/.git/config", "/.env"} {
		if a := s.ask("GET", path, "ann", ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}
