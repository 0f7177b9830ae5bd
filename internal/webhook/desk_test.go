package webhook_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"seckill"
	"seckill/internal/webhook"
)

// A webhook is registered, tried at once, and given another secret: for a day a receiver that knows
// either one accepts what comes.
func TestTheDeskRegistersTriesAndRotates(t *testing.T) {
	s := newShop(t)
	var header http.Header
	var body []byte
	status := 204
	url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(status)
	})
	d := &webhook.Desk{Store: s.DB, Client: private(t, 0)}
	h, first, err := d.AddWebhook(t.Context(), url, nil, operator)
	must(t, err)
	if fmt.Sprint(h.Events) != fmt.Sprint(seckill.WebhookEvents()) || h.URL != url {
		t.Errorf("registered %+v", h)
	}
	if !regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=$`).MatchString(first) {
		t.Errorf("a secret of %d bytes, want whsec_ and 32 bytes in base64", len(first))
	}
	verified := func(with string) bool {
		t.Helper()
		w, err := standardwebhooks.NewWebhook(with)
		must(t, err)
		return w.Verify(body, header) == nil
	}
	try := func() seckill.WebhookTest {
		t.Helper()
		test, err := d.TestWebhook(t.Context(), h.ID, operator)
		must(t, err)
		return test
	}
	if test := try(); test.Status != 204 || test.Error != "" || !verified(first) || !strings.HasPrefix(string(body), `{"type":"webhook.test","timestamp":"`) {
		t.Errorf("tried: %+v, %s", test, body)
	}
	second, _, err := d.RotateWebhook(t.Context(), h.ID, operator)
	must(t, err)
	if try(); !verified(first) || !verified(second) || first == second {
		t.Errorf("signed with %q, want both secrets", header.Get("webhook-signature"))
	}
	third, _, err := d.RotateWebhook(t.Context(), h.ID, operator)
	must(t, err)
	if try(); verified(first) || !verified(second) || !verified(third) {
		t.Errorf("signed with %q, want the last two secrets", header.Get("webhook-signature"))
	}
	status = 500
	if test := try(); test.Status != 500 || test.Error != "status 500" {
		t.Errorf("a receiver that fails: %+v", test)
	}
	if n := len(s.states(h.ID)); n != 0 {
		t.Errorf("tests are in the outbox: %d", n)
	}
	must(t, d.RemoveWebhook(t.Context(), h.ID, operator))
	if _, err := d.TestWebhook(t.Context(), h.ID, operator); !errors.Is(err, seckill.ErrNotFound) {
		t.Errorf("trying what is gone: %v", err)
	}
	entries, err := s.Audit(t.Context(), 0, 100)
	must(t, err)
	var actions []string
	for _, e := range entries {
		actions = append(actions, strings.TrimPrefix(e.Action, "webhook."))
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, "whsec_") {
			t.Errorf("a secret is in the audit log: %s", text)
		}
	}
	if got := strings.Join(actions, " "); got != "remove test test rotate test rotate test add activity.create" {
		t.Errorf("audited: %s", got)
	}
}

// Only events that there are can be asked for, each once.
func TestEventsAreChecked(t *testing.T) {
	d := &webhook.Desk{Client: private(t, 0)}
	for _, c := range []struct{ events, want string }{
		{"", "[]"}, {"order.paid order.expired", "[]"}, {"order.paid order.paid", "[{events repeated }]"},
		{"order.eaten", "[{events one_of reservation.confirmed, reservation.failed, order.paid, order.cancelled, order.expired}]"},
		{"webhook.test", "[{events one_of reservation.confirmed, reservation.failed, order.paid, order.cancelled, order.expired}]"},
	} {
		var events []seckill.WebhookEvent
		for name := range strings.FieldsSeq(c.events) {
			events = append(events, seckill.WebhookEvent(name))
		}
		if got := fmt.Sprint(d.CheckWebhook(t.Context(), "http://10.0.0.1/", events)); got != c.want {
			t.Errorf("%q: got %s, want %s", c.events, got, c.want)
		}
	}
}
