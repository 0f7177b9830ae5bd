package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill"
)

// hooked are neighbours with webhooks.
type hooked struct{ *neighbours }

func (n hooked) CheckWebhook(_ context.Context, address string, events []seckill.WebhookEvent) (wrong []seckill.FieldError) {
	if !strings.HasPrefix(address, "https://") {
		wrong = append(wrong, seckill.FieldError{Field: "url", Rule: seckill.RuleFormat})
	}
	if slices.Contains(events, "x") {
		wrong = append(wrong, seckill.FieldError{Field: "events", Rule: seckill.RuleOneOf})
	}
	return wrong
}

var hookOfTest = seckill.Webhook{
	ID: 7, URL: "https://shop.example/", Events: []seckill.WebhookEvent{seckill.OrderPaid}, CreatedAt: time.Unix(1, 0), Disabled: true, Reason: "gone",
}

func (n hooked) Webhooks(context.Context) ([]seckill.Webhook, error) {
	return []seckill.Webhook{hookOfTest}, n.err
}

func (n hooked) AddWebhook(_ context.Context, address string, events []seckill.WebhookEvent, by seckill.Actor) (seckill.Webhook, string, error) {
	return seckill.Webhook{ID: 7, URL: address, Events: events, CreatedAt: time.Unix(1, 0)}, "whsec_S3CRET", n.note(by, "hook %s %v", address, events)
}

func (n hooked) RemoveWebhook(_ context.Context, id int64, by seckill.Actor) error {
	return n.note(by, "unhook %d", id)
}

func (n hooked) RotateWebhook(_ context.Context, id int64, by seckill.Actor) (string, time.Time, error) {
	return "whsec_N3W", time.Unix(2, 0), n.note(by, "rotate %d", id)
}

func (n hooked) EnableWebhook(_ context.Context, id int64, by seckill.Actor) (seckill.Webhook, error) {
	return seckill.Webhook{ID: id}, n.note(by, "enable %d", id)
}

func (n hooked) TestWebhook(_ context.Context, id int64, by seckill.Actor) (seckill.WebhookTest, error) {
	return seckill.WebhookTest{Status: 500, Error: "status 500", Took: 12 * time.Millisecond}, n.note(by, "test %d", id)
}

const firstDelivery = 1 << 60

func (n hooked) Deliveries(_ context.Context, id, before int64, limit int) (list []seckill.Delivery, err error) {
	if id != 7 {
		return nil, seckill.ErrNotFound
	}
	for d := int64(firstDelivery + 2); d >= firstDelivery; d-- {
		if (before == 0 || d < before) && len(list) < limit {
			list = append(list, seckill.Delivery{
				ID: d, Event: seckill.OrderPaid, Order: "5", Ticket: "1-1-x", Attempts: 2, LastError: "status 500", CreatedAt: time.Unix(1, 0), NextAt: time.Unix(2, 0),
			})
		}
	}
	return list, n.err
}

func (n hooked) RetryDelivery(_ context.Context, hook, id int64, by seckill.Actor) (seckill.Delivery, error) {
	return seckill.Delivery{ID: id, State: seckill.DeliveryDelivered, DeliveredAt: time.Unix(3, 0)}, n.note(by, "retry %d of %d", id, hook)
}

func withHooks(t *testing.T) (*neighbours, *Server) {
	t.Helper()
	n := newNeighbours()
	return n, n.server(t, func(o *Options) { o.Webhooks = hooked{n} })
}

// Each request about webhooks reaches its neighbour, and is answered in its form; a secret is shown when it is made, and then never.
func TestWebhooksAreCarriedOut(t *testing.T) {
	n, s := withHooks(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		call, answer       string
	}{
		{"POST", "", `{"url":"https://shop.example/","events":["order.paid","order.expired"],"reason":"because"}`, 201, "hook https://shop.example/ [order.paid order.expired]",
			`{"id":7,"url":"https://shop.example/","events":["order.paid","order.expired"],"created_at":"1970-01-01T00:00:01Z","disabled":false,"reason":"","secret":"whsec_S3CRET"}`},
		{"POST", "", `{"url":"https://shop.example/","reason":"because"}`, 201, "hook https://shop.example/ []", `"secret":"whsec_S3CRET"`},
		{"GET", "", "", 200, "", `{"webhooks":[{"id":7,"url":"https://shop.example/","events":["order.paid"],"created_at":"1970-01-01T00:00:01Z","disabled":true,"reason":"gone"}]}`},
		{"DELETE", "/7", `{"reason":"because"}`, 204, "unhook 7", ""},
		{"POST", "/7/rotate", `{"reason":"because"}`, 200, "rotate 7", `{"id":7,"secret":"whsec_N3W","old_secret_until":"1970-01-01T00:00:02Z"}`},
		{"POST", "/7/enable", `{"reason":"because"}`, 200, "enable 7", `"disabled":false`},
		{"POST", "/7/test", `{"reason":"because"}`, 200, "test 7", `{"delivered":false,"status":500,"error":"status 500","took_ms":12}`},
		{"POST", "/7/deliveries/8/retry", `{"reason":"because"}`, 200, "retry 8 of 7", `"id":"8",`},
	} {
		w := ask(s, c.method, "/admin/v1/webhooks"+c.path, c.body, nil)
		var want []string
		if c.call != "" {
			want = []string{c.call + " by admin-token from 192.0.2.1: because"}
		}
		if got := n.called(); w.Code != c.status || !slices.Equal(got, want) || !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("%s %s: %d, %q, %s; want %d, %q, %s", c.method, c.path, w.Code, got, w.Body, c.status, want, c.answer)
		}
	}
	if strings.Contains(n.logged(), "S3CRET") {
		t.Error("a secret is in the log")
	}
}

// Deliveries are paged to their end, and their ids come through JSON unchanged.
func TestDeliveriesArePaged(t *testing.T) {
	_, s := withHooks(t)
	var ids []string
	cursor := ""
	for range 5 {
		w := ask(s, "GET", "/admin/v1/webhooks/7/deliveries?limit=2"+cursor, "", nil)
		var page struct {
			Deliveries []map[string]any
			Cursor     string
		}
		must(t, json.Unmarshal(w.Body.Bytes(), &page))
		for _, d := range page.Deliveries {
			ids = append(ids, fmt.Sprint(d["id"]))
			if got := fmt.Sprint(d["event"], d["order"], d["ticket"], d["attempts"], d["state"], d["last_error"], d["next_at"], d["delivered_at"]); got !=
				"order.paid51-1-x2pendingstatus 5001970-01-01T00:00:02Z<nil>" {
				t.Errorf("a delivery: %s", got)
			}
		}
		if page.Cursor == "" {
			break
		}
		cursor = "&cursor=" + page.Cursor
	}
	if got := fmt.Sprint(ids); got != fmt.Sprint([]int64{firstDelivery + 2, firstDelivery + 1, firstDelivery}) {
		t.Errorf("got %s", got)
	}
}

// What is wrong with a request is told by field, and does not reach the neighbour; what is not there is not there.
func TestWrongRequestsAboutWebhooks(t *testing.T) {
	n, s := withHooks(t)
	for body, want := range map[string]string{
		`{}`:                            "url",
		`{"url":7}`:                     "url",
		`{"url":"http://shop.example"}`: "url",
		`{"url":"https://a.example","events":["x"]}`:    "events",
		`{"url":"https://a.example","events":[]}`:       "events",
		`{"url":"https://a.example","events":"x"}`:      "events",
		`{"url":"https://a.example","secret":"mine"}`:   "secret",
		`{"url":"https://a.example","reason":"\u0000"}`: "reason",
	} {
		w := ask(s, "POST", "/admin/v1/webhooks", body, nil)
		if _, fields := problemOf(t, w); w.Code != 400 || fields[want] == "" || len(fields) != 1 || len(n.called()) != 0 {
			t.Errorf("%s: %d %v, want %s refused", body, w.Code, fields, want)
		}
	}
	for _, path := range []string{"POST /0/test", "POST /07/rotate", "DELETE /x", "POST /7/deliveries/0/retry", "POST /7/deliveries/x/retry", "POST /x/deliveries/1/retry", "GET /8/deliveries"} {
		method, path, _ := strings.Cut(path, " ")
		if w := ask(s, method, "/admin/v1/webhooks"+path, "", nil); w.Code != 404 || len(n.called()) != 0 {
			t.Errorf("%s %s: %d", method, path, w.Code)
		}
	}
	without := n.server(t, nil)
	if w := ask(without, "GET", "/admin/v1/webhooks", "", nil); w.Code != 404 {
		t.Errorf("without webhooks: %d", w.Code)
	}
}
