package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/client"
)

// server answers with what the test says, and remembers what it was asked.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
}

type asked struct {
	line, body string
	header     http.Header
}

// answer is one reply; status 0 cuts the connection.
type answer struct {
	status int
	body   string
	header map[string]string
}

// serve answers the requests with the answers in turn, and further ones with the last.
func serve(t *testing.T, answers ...answer) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		a := answers[min(len(s.asked), len(answers)-1)]
		s.asked = append(s.asked, asked{r.Method + " " + r.URL.RequestURI(), string(body), r.Header})
		s.mu.Unlock()
		if a.status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		for k, v := range a.header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.asked...)
}

func buyer(t *testing.T, s *server, o client.Options) *client.Buyer {
	t.Helper()
	o.Server = s.URL
	b, err := client.NewBuyer(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func admin(t *testing.T, s *server) *client.Admin {
	t.Helper()
	a, err := client.NewAdmin(client.Options{Server: s.URL + "/", Token: "t0ken"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const queued = `{"ticket":"1-1-abc","state":"queued","ahead":7,"poll_after_ms":500}`

// A purchase whose answer was lost, or that was refused for now, is sent again under
// the same key.
func TestPurchaseIsRepeatedUnderOneKey(t *testing.T) {
	for name, first := range map[string]answer{
		"cut": {}, "busy": {status: 503, body: `{"status":503,"reason":"busy"}`}, "proxy": {status: 502, body: "<html>"},
	} {
		s := serve(t, first, answer{status: 202, body: queued})
		got, err := buyer(t, s, client.Options{Header: http.Header{"X-User-Id": {"u1"}}}).Purchase(t.Context(), 4, client.Purchase{EntryToken: "e"})
		if err != nil || got.Ticket != "1-1-abc" || got.Ahead != 7 {
			t.Fatalf("%s: got %+v and %v", name, got, err)
		}
		asked := s.requests()
		if len(asked) != 2 {
			t.Fatalf("%s: got %d requests, want 2", name, len(asked))
		}
		a, b := asked[0], asked[1]
		key := a.header.Get("Idempotency-Key")
		if key == "" || b.header.Get("Idempotency-Key") != key {
			t.Errorf("%s: got keys %q and %q, want the same one", name, key, b.header.Get("Idempotency-Key"))
		}
		if a.line != "POST /v1/activities/4/purchases" || a.body != `{"entry_token":"e","quantity":1}` || b.body != a.body || a.header.Get("X-User-Id") != "u1" {
			t.Errorf("%s: got %+v", name, a)
		}
	}
}

// A definite no is not asked twice.
func TestNoIsNotRepeated(t *testing.T) {
	for _, a := range []answer{
		{status: 410, body: `{"status":410,"reason":"sold_out","msg":"Sold out."}`},
		{status: 409, body: `{"status":409,"reason":"already_purchased","ticket":"1-1-x"}`},
		{status: 429, body: `{"status":429,"reason":"rate_limited"}`, header: map[string]string{"Retry-After": "2"}},
		{status: 503, body: `{"status":503,"reason":"paused"}`},
		{status: 200, body: `not json`},
	} {
		s := serve(t, a)
		if _, err := buyer(t, s, client.Options{}).Purchase(t.Context(), 1, client.Purchase{}); err == nil {
			t.Errorf("%+v: got no error", a)
		}
		if n := len(s.requests()); n != 1 {
			t.Errorf("%+v: got %d requests, want 1", a, n)
		}
	}
}

// What would do harm twice is sent once, even when the answer is lost.
func TestUnsafeCallsAreMadeOnce(t *testing.T) {
	for name, call := range map[string]func(context.Context, *client.Admin) error{
		"create": func(ctx context.Context, a *client.Admin) error {
			_, err := a.CreateActivity(ctx, client.NewActivity{})
			return err
		},
		"restock": func(ctx context.Context, a *client.Admin) error { _, err := a.Restock(ctx, 1, 5); return err },
		"rerun": func(ctx context.Context, a *client.Admin) error {
			_, err := a.Rerun(ctx, 1, time.Now(), time.Now(), 5)
			return err
		},
		"drop":  func(ctx context.Context, a *client.Admin) error { _, err := a.DropDead(ctx, 1, true, "r"); return err },
		"retry": func(ctx context.Context, a *client.Admin) error { _, err := a.RetryDead(ctx, 1); return err },
	} {
		// A new connection each time: net/http itself repeats a GET on a kept one that was closed.
		s := serve(t, answer{})
		if err := call(t.Context(), admin(t, s)); err == nil || len(s.requests()) != 1 {
			t.Errorf("%s: got %v and %d requests, want an error after 1", name, err, len(s.requests()))
		}
	}
}

// The attempts are bounded, and so is the time that a server may ask to wait.
func TestRepeatingIsBounded(t *testing.T) {
	s := serve(t, answer{status: 503, body: `{"reason":"busy"}`})
	_, err := buyer(t, s, client.Options{AttemptsMax: 2}).Activities(t.Context())
	if !client.Is(err, seckill.Busy) || len(s.requests()) != 2 {
		t.Errorf("got %v after %d requests, want busy after 2", err, len(s.requests()))
	}
	s = serve(t, answer{status: 503, body: `{"reason":"busy"}`, header: map[string]string{"Retry-After": "60"}})
	_, err = buyer(t, s, client.Options{Timeout: 50 * time.Millisecond}).Activities(t.Context())
	if !client.Is(err, seckill.Busy) || len(s.requests()) != 1 {
		t.Errorf("got %v after %d requests, want busy after 1: there is no time for another", err, len(s.requests()))
	}
}

// A problem carries all that the server said, and reads as one line.
func TestProblemIsWhole(t *testing.T) {
	s := serve(t, answer{status: 400, header: map[string]string{"Content-Type": "application/problem+json", "Retry-After": "3"}, body: `{
		"type":"urn:x","title":"Invalid request","status":400,"reason":"invalid_request","msg":"no","starts_at":"2026-01-02T03:04:05Z","ticket":"t",
		"errors":[{"field":"stock","rule":"min","expected":"0","msg":"must be at least 0"},{"field":"name","rule":"required"}]}`})
	_, err := admin(t, s).CreateActivity(t.Context(), client.NewActivity{})
	var p *client.Problem
	if !errors.As(err, &p) || !client.Is(err, seckill.InvalidRequest) || client.Is(err, seckill.Busy) {
		t.Fatalf("got %v, want a problem", err)
	}
	if p.Status != 400 || len(p.Errors) != 2 || p.Errors[0].Expected != "0" || p.RetryAfter != 3*time.Second || p.Ticket != "t" || p.StartsAt.Year() != 2026 {
		t.Errorf("got %+v", p)
	}
	if got, want := p.Error(), "invalid_request: stock: must be at least 0; name: required"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s = serve(t, answer{status: 404, body: "<html>nginx</html>"})
	if _, err := admin(t, s).Activity(t.Context(), 1); err == nil || err.Error() != "HTTP status 404: Not Found" {
		t.Errorf("got %v", err)
	}
}

// aMoment is one that the calls below speak of.
var aMoment = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// calls of the clients, by the method, path and body that the contract has for them.
var calls = map[string]func(context.Context, *client.Admin, *client.Buyer) error{
	`GET /admin/v1/activities `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, _, err := a.Activities(ctx, "")
		return err
	},
	`GET /admin/v1/activities/3 `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Activity(ctx, 3)
		return err
	},
	`POST /admin/v1/activities/3/preload `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Preload(ctx, 3)
		return err
	},
	`POST /admin/v1/activities/3/pause `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Pause(ctx, 3)
		return err
	},
	`POST /admin/v1/activities/3/resume `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Resume(ctx, 3)
		return err
	},
	`POST /admin/v1/activities/3/close `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Close(ctx, 3)
		return err
	},
	`GET /admin/v1/dead-letters?cursor=a%2Bb `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, _, err := a.DeadLetters(ctx, "a+b")
		return err
	},
	`GET /admin/v1/audit `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, _, err := a.Audit(ctx, "")
		return err
	},
	`POST /admin/v1/dead-letters/9/retry `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.RetryDead(ctx, 9)
		return err
	},
	`GET /v1/activities/3 `: func(ctx context.Context, _ *client.Admin, b *client.Buyer) error {
		_, err := b.Activity(ctx, 3)
		return err
	},
	`GET /v1/tickets/1-1-a%2Fb `: func(ctx context.Context, _ *client.Admin, b *client.Buyer) error {
		_, err := b.Ticket(ctx, "1-1-a/b")
		return err
	},
	`GET /v1/orders `: func(ctx context.Context, _ *client.Admin, b *client.Buyer) error {
		_, _, err := b.Orders(ctx, "")
		return err
	},
	`GET /v1/orders/7 `: func(ctx context.Context, _ *client.Admin, b *client.Buyer) error {
		_, err := b.Order(ctx, "7")
		return err
	},
	`POST /v1/orders/7/pay `: func(ctx context.Context, _ *client.Admin, b *client.Buyer) error {
		_, err := b.Pay(ctx, "7")
		return err
	},
	`POST /v1/orders/7/cancel `: func(ctx context.Context, _ *client.Admin, b *client.Buyer) error {
		_, err := b.Cancel(ctx, "7")
		return err
	},
	`POST /admin/v1/activities/3/restock {"quantity":-5}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Restock(ctx, 3, -5)
		return err
	},
	`POST /admin/v1/activities/3/rerun {"ends_at":"2026-01-02T03:04:05Z","starts_at":"2026-01-02T03:04:05Z","stock":8}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Rerun(ctx, 3, aMoment, aMoment, 8)
		return err
	},
	`POST /admin/v1/activities/3/reconcile {"repair":true}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Reconcile(ctx, 3, true)
		return err
	},
	`POST /admin/v1/dead-letters/9/drop {"reason":"why","return_stock":true}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.DropDead(ctx, 9, true, "why")
		return err
	},
	`POST /admin/v1/orders/7/paid {"payment_ref":"ref"}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Paid(ctx, "7", "ref")
		return err
	},
	`GET /admin/v1/switches `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Switches(ctx)
		return err
	},
	`PUT /admin/v1/switches/intake {"value":false,"reason":"why"}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.SetSwitch(ctx, "intake", client.SwitchChange{Value: false, Reason: "why"})
		return err
	},
	`PUT /admin/v1/switches/a%2Fb {"value":7,"reason":"why","at":"2026-01-02T03:04:05Z","dry_run":true}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.TrySwitch(ctx, "a/b", client.SwitchChange{Value: 7, Reason: "why", At: &aMoment})
		return err
	},
	`DELETE /admin/v1/switches/intake/scheduled/5 `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		return a.CancelSwitch(ctx, "intake", 5)
	},
	`GET /admin/v1/blocks?cursor=7 `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, _, err := a.Blocks(ctx, "7")
		return err
	},
	`POST /admin/v1/blocks {"kind":"ip","value":"192.0.2.7","until":"2026-01-02T03:04:05Z","reason":"why"}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.AddBlock(ctx, client.NewBlock{Kind: "ip", Value: "192.0.2.7", Until: &aMoment, Reason: "why"})
		return err
	},
	`DELETE /admin/v1/blocks/9 `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		return a.RemoveBlock(ctx, 9)
	},
	`GET /admin/v1/accounts `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Accounts(ctx)
		return err
	},
	`POST /admin/v1/accounts {"name":"ann","password":"pw","role":"viewer"}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.AddAccount(ctx, "ann", "pw", seckill.RoleViewer)
		return err
	},
	`PUT /admin/v1/accounts/a%2Fb {"password":"pw"}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.ChangeAccount(ctx, "a/b", client.AccountChange{Password: "pw"})
		return err
	},
	`DELETE /admin/v1/accounts/ann `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		return a.RemoveAccount(ctx, "ann")
	},
	`GET /admin/v1/activities/3/audience `: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.Audience(ctx, 3)
		return err
	},
	`PUT /admin/v1/activities/3/audience ["a"]`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.PutAudience(ctx, 3, []byte(`["a"]`), true)
		return err
	},
	`PUT /admin/v1/activities/3/audience ["a","b"]`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		return a.SetAudience(ctx, 3, []string{"a", "b"})
	},
	`POST /admin/v1/activities {"name":"n","stock":0,"starts_at":"2026-01-02T03:04:05Z","ends_at":"2026-01-02T03:04:05Z"}`: func(ctx context.Context, a *client.Admin, _ *client.Buyer) error {
		_, err := a.CreateActivity(ctx, client.NewActivity{Name: "n", StartsAt: aMoment, EndsAt: aMoment})
		return err
	},
}

// Every call has the method, path and body of the contract, and the token.
func TestCallsAreTheContracts(t *testing.T) {
	for want, call := range calls {
		s := serve(t, answer{status: 200, body: "{}"})
		if err := call(t.Context(), admin(t, s), buyer(t, s, client.Options{Token: "jwt"})); err != nil {
			t.Errorf("%s: got %v", want, err)
			continue
		}
		got := s.requests()[0]
		if got.line+" "+got.body != want {
			t.Errorf("got %q, want %q", got.line+" "+got.body, want)
		}
		if token := got.header.Get("Authorization"); token != "Bearer t0ken" && token != "Bearer jwt" {
			t.Errorf("%s: got token %q", want, token)
		}
		if got.body != "" && got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: got content type %q", want, got.header.Get("Content-Type"))
		}
	}
}

// Lists and books arrive under the contract's names.
func TestAnswersAreDecoded(t *testing.T) {
	s := serve(t, answer{status: 200, body: `{"activities":[{"id":3,"name":"n","state":"open","run":2,"total":10,
		"books":{"total":10,"available":4,"queued":1,"awaiting_payment":2,"paid":2,"dead":1,"balanced":true}}],
		"dead_letters":[{"id":9,"activity_id":3,"reason":"r"}],"audit":[{"id":"5","who":"w","detail":{"a":1}}],
		"orders":[{"id":"7","state":"paid"}],"cursor":"next"}`})
	a := admin(t, s)
	list, next, err := a.Activities(t.Context(), "")
	if err != nil || next != "next" || len(list) != 1 || list[0].Books == nil || !list[0].Books.Balanced || list[0].State != seckill.StateOpen || list[0].Run != 2 {
		t.Errorf("got %+v and %v", list, err)
	}
	letters, next, err := a.DeadLetters(t.Context(), "")
	if err != nil || len(letters) != 1 || letters[0].ID != "9" || letters[0].ActivityID != 3 || next != "next" {
		t.Errorf("got %+v, %q and %v", letters, next, err)
	}
	entries, _, err := a.Audit(t.Context(), "")
	if err != nil || len(entries) != 1 || entries[0].ID != "5" || string(entries[0].Detail) != `{"a":1}` {
		t.Errorf("got %+v and %v", entries, err)
	}
	orders, next, err := buyer(t, s, client.Options{}).Orders(t.Context(), "")
	if err != nil || len(orders) != 1 || orders[0].State != "paid" || next != "next" {
		t.Errorf("got %+v, %q and %v", orders, next, err)
	}
}

// The body can be had exactly as it came.
func TestOnAnswerSeesTheBytes(t *testing.T) {
	s := serve(t, answer{status: 200, body: `{"activities": [ ] , "later": 1}`})
	var got string
	a, err := client.NewAdmin(client.Options{Server: s.URL, OnAnswer: func(b []byte) { got = string(b) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Activities(t.Context(), ""); err != nil || got != `{"activities": [ ] , "later": 1}` {
		t.Errorf("got %q and %v", got, err)
	}
}

// An address or a token that cannot be used is said at once, without showing the token.
func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []client.Options{
		{}, {Server: "localhost:8080"}, {Server: "ftp://h"}, {Server: "http://"}, {Server: "http://u:p@h"}, {Server: "http://h?q"}, {Server: "http://h", Token: "s3cret\n"},
	} {
		if _, err := client.NewAdmin(o); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}
