package webhook

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill"
)

// oldSecretFor is how long a secret signs beside the one that follows it.
const oldSecretFor = 24 * time.Hour

// secretPrefix begins every secret, so that people and scanners know one when they see it.
const secretPrefix = "whsec_"

// deskStore keeps webhooks.
type deskStore interface {
	Webhooks(ctx context.Context) ([]seckill.Webhook, error)
	AddWebhook(ctx context.Context, h seckill.Webhook, secret string, by seckill.Actor) (seckill.Webhook, error)
	RemoveWebhook(ctx context.Context, id int64, by seckill.Actor) error
	RotateWebhook(ctx context.Context, id int64, secret string, keep time.Duration, by seckill.Actor) (oldUntil time.Time, err error)
	EnableWebhook(ctx context.Context, id int64, by seckill.Actor) (seckill.Webhook, error)
	WebhookTarget(ctx context.Context, id int64) (target seckill.WebhookTarget, now time.Time, err error)
	WebhookDeliveries(ctx context.Context, id, before int64, limit int) ([]seckill.Delivery, error)
	RetryDelivery(ctx context.Context, hook, id int64, by seckill.Actor) (seckill.Delivery, error)
	Note(ctx context.Context, by seckill.Actor, action, object, detail string) error
}

// checker says what is wrong with an address, and sends; [Client] does.
type checker interface {
	poster
	Check(ctx context.Context, address string) []seckill.FieldError
}

// Desk is where operators register webhooks and look after them.
type Desk struct {
	Store  deskStore // Required.
	Client checker   // Required.
}

// CheckWebhook says what is wrong with a webhook, by the names of the API's fields.
func (d *Desk) CheckWebhook(ctx context.Context, address string, events []seckill.WebhookEvent) []seckill.FieldError {
	return append(d.Client.Check(ctx, address), checkEvents(events)...)
}

func checkEvents(events []seckill.WebhookEvent) []seckill.FieldError {
	said := map[seckill.WebhookEvent]bool{}
	for _, e := range events {
		if known := seckill.WebhookEvents(); !slices.Contains(known, e) {
			names := make([]string, len(known))
			for i := range known {
				names[i] = string(known[i])
			}
			return []seckill.FieldError{{Field: "events", Rule: seckill.RuleOneOf, Arg: strings.Join(names, ", ")}}
		}
		if said[e] {
			return []seckill.FieldError{{Field: "events", Rule: seckill.RuleRepeated}}
		}
		said[e] = true
	}
	return nil
}

// Webhooks lists them.
func (d *Desk) Webhooks(ctx context.Context) ([]seckill.Webhook, error) { return d.Store.Webhooks(ctx) }

// AddWebhook registers an address that CheckWebhook finds nothing wrong with; without events it hears
// of all. The secret is never told again.
func (d *Desk) AddWebhook(ctx context.Context, address string, events []seckill.WebhookEvent, by seckill.Actor) (h seckill.Webhook, secret string, err error) {
	if len(events) == 0 {
		events = seckill.WebhookEvents()
	}
	secret = newSecret()
	h, err = d.Store.AddWebhook(ctx, seckill.Webhook{URL: address, Events: events}, secret, by)
	return h, secret, err
}

// RemoveWebhook forgets a webhook and its deliveries.
func (d *Desk) RemoveWebhook(ctx context.Context, id int64, by seckill.Actor) error {
	return d.Store.RemoveWebhook(ctx, id, by)
}

// RotateWebhook makes another secret. The old one signs beside it for a day.
func (d *Desk) RotateWebhook(ctx context.Context, id int64, by seckill.Actor) (secret string, oldUntil time.Time, err error) {
	secret = newSecret()
	oldUntil, err = d.Store.RotateWebhook(ctx, id, secret, oldSecretFor, by)
	return secret, oldUntil, err
}

// EnableWebhook lets a webhook hear again that was disabled.
func (d *Desk) EnableWebhook(ctx context.Context, id int64, by seckill.Actor) (seckill.Webhook, error) {
	return d.Store.EnableWebhook(ctx, id, by)
}

// TestWebhook sends a test event at once, and tells how it was answered. It goes past the outbox.
func (d *Desk) TestWebhook(ctx context.Context, id int64, by seckill.Actor) (seckill.WebhookTest, error) {
	target, now, err := d.Store.WebhookTarget(ctx, id)
	if err != nil {
		return seckill.WebhookTest{}, err
	}
	if err := d.Store.Note(ctx, by, "webhook.test", "webhook/"+strconv.FormatInt(id, 10), "{}"); err != nil {
		return seckill.WebhookTest{}, err
	}
	began := time.Now()
	a := d.Client.Send(ctx, target, "test_"+rand.Text(), testPayload(now, id))
	test := seckill.WebhookTest{Status: a.Status, Took: time.Since(began)}
	if a.Err != nil {
		test.Error = a.Err.Error()
	}
	return test, nil
}

// Deliveries lists those of a webhook, newest first, ids below before (0 from the newest).
func (d *Desk) Deliveries(ctx context.Context, id, before int64, limit int) ([]seckill.Delivery, error) {
	return d.Store.WebhookDeliveries(ctx, id, before, limit)
}

// RetryDelivery makes a delivery due at once.
func (d *Desk) RetryDelivery(ctx context.Context, hook, id int64, by seckill.Actor) (seckill.Delivery, error) {
	return d.Store.RetryDelivery(ctx, hook, id, by)
}

// newSecret makes 32 random bytes, in the form of the specification.
func newSecret() string {
	var key [32]byte
	rand.Read(key[:])
	return secretPrefix + base64.StdEncoding.EncodeToString(key[:])
}
