package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/webhook"
)

// hook registers a webhook that hears of the given events, or of all.
func (p *place) hook(t testing.TB, events ...seckill.WebhookEvent) int64 {
	t.Helper()
	if len(events) == 0 {
		events = seckill.WebhookEvents()
	}
	h, err := p.AddWebhook(t.Context(), seckill.Webhook{URL: "https://shop.example/hook?token=T0K", Events: events}, "whsec_S3CRET", operator)
	must(t, err)
	return h.ID
}

// heard lists, by ticket and in their order, what a webhook is to hear.
func (p *place) heardBy(t testing.TB, hook int64) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	list, err := p.WebhookDeliveries(t.Context(), hook, 0, 10_000)
	must(t, err)
	slices.SortFunc(list, func(a, b seckill.Delivery) int { return a.Event.Step() - b.Event.Step() })
	for _, d := range list {
		got[d.Ticket] = append(got[d.Ticket], string(d.Event))
	}
	return got
}

func (p *place) deliveries(t testing.TB) (n int) {
	t.Helper()
	must(t, p.write.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM seckill_webhook_delivery").Scan(&n))
	return n
}

// Each event is in the outbox of each webhook that hears of it, once, whatever comes again; and of those
// that are not there, are disabled or hear of other things, nothing is written.
func claimWebhookOutbox(t *testing.T, p *place) {
	run := p.sale(t, 150, time.Hour)
	p.mustOrder(t, reservation(run, "before", 1))
	equal(t, "deliveries without a webhook", p.deliveries(t), 0)

	all, paid := p.hook(t), p.hook(t, seckill.OrderPaid)
	many := buyers(run, 0, 140)
	p.mustWrite(t, run, many...)
	p.mustWrite(t, run, many...) // Comes again.
	o := p.mustOrder(t, reservation(run, "payer", 2))
	for range 2 {
		_, _, _, err := p.MoveOrder(t.Context(), o.ID, "", seckill.Paid, "ref-1", nil)
		must(t, err)
	}
	c := p.mustOrder(t, reservation(run, "canceller", 1))
	_, _, _, err := p.MoveOrder(t.Context(), c.ID, "canceller", seckill.Cancelled, "", nil)
	must(t, err)
	short := reservation(run, "late", 100)
	equal(t, "refused", p.mustWrite(t, run, short)[0].Refused, seckill.SoldOut)
	p.mustWrite(t, run, short)
	dead := reservation(run, "dead", 1)
	must(t, p.Bury(t.Context(), seckill.DeadLetter{Run: run, Ticket: dead.Ticket, Reservation: &dead, Reason: "a test"}))
	letters, err := p.DeadLetters(t.Context(), 0, 10)
	must(t, err)
	_, err = p.DropDead(t.Context(), letters[0].ID, true, operator)
	must(t, err)
	quick := p.sale(t, 5, 0)
	e := p.mustOrder(t, reservation(quick, "sleeper", 1))
	_, err = p.ExpireOrders(t.Context(), 100)
	must(t, err)

	got := p.heardBy(t, all)
	for ticket, want := range map[string]string{
		many[0].Ticket: "reservation.confirmed", many[139].Ticket: "reservation.confirmed",
		o.Ticket:     "reservation.confirmed order.paid",
		c.Ticket:     "reservation.confirmed order.cancelled",
		short.Ticket: "reservation.failed", dead.Ticket: "reservation.failed",
		e.Ticket: "reservation.confirmed order.expired",
	} {
		if heard := strings.Join(got[ticket], " "); heard != want {
			t.Errorf("of %s: got %q, want %q", ticket, heard, want)
		}
	}
	equal(t, "tickets that were heard of", len(got), 145)
	if got := fmt.Sprint(p.heardBy(t, paid)); got != fmt.Sprintf("map[%s:[order.paid]]", o.Ticket) {
		t.Errorf("the webhook of payments hears %s", got)
	}

	before := p.deliveries(t)
	must(t, p.DisableWebhook(t.Context(), all, "a test", operator))
	p.mustOrder(t, reservation(quick, "unheard", 1))
	equal(t, "deliveries after disabling", p.deliveries(t), before)
	_, err = p.EnableWebhook(t.Context(), all, operator)
	must(t, err)
	p.mustOrder(t, reservation(quick, "heard", 1))
	equal(t, "deliveries after enabling", p.deliveries(t), before+1)
	must(t, p.RemoveWebhook(t.Context(), all, operator))
	p.mustOrder(t, reservation(quick, "unheard-2", 1))
	equal(t, "deliveries after removal", p.deliveries(t), before+1)
}

// What is sent tells all of the order as it was when it happened.
func claimWebhookPayload(t *testing.T, p *place) {
	hook := p.hook(t)
	run := p.sale(t, 3, time.Hour)
	o := p.mustOrder(t, reservation(run, "ann", 2))
	_, _, _, err := p.MoveOrder(t.Context(), o.ID, "", seckill.Paid, "ref-1", nil)
	must(t, err)
	failed := reservation(run, "bob", 2)
	p.mustWrite(t, run, failed)
	list, err := p.WebhookDeliveries(t.Context(), hook, 0, 10)
	must(t, err)
	equal(t, "deliveries", len(list), 3)
	slices.Reverse(list)
	when := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
	common := fmt.Sprintf(`"activity_id":%d,"run":1,"ticket":`, run.Activity)
	order := func(state, ref string) string {
		return fmt.Sprintf(`{"id":"%s",%s"%s","buyer":"ann","state":"%s","quantity":2,"amount_cents":500,%s"created_at":"%s","pay_before":"%s"}`,
			o.ID, common, o.Ticket, state, ref, when(o.CreatedAt), when(o.PayBefore))
	}
	for i, want := range []string{
		order("awaiting_payment", ""), order("paid", `"payment_ref":"ref-1",`),
		fmt.Sprintf(`{%s"%s","buyer":"bob","state":"failed","quantity":2,"reason":"sold_out"}`, common, failed.Ticket),
	} {
		var got struct {
			Type      seckill.WebhookEvent
			Timestamp time.Time
			Data      json.RawMessage
		}
		must(t, json.Unmarshal(list[i].Payload, &got))
		if string(got.Data) != want || got.Type != list[i].Event || !got.Timestamp.Equal(list[i].CreatedAt) {
			t.Errorf("%s at %v: got %s, want %s", list[i].Event, got.Timestamp, list[i].Payload, want)
		}
	}
	equal(t, "the order of a failed reservation", list[2].Order, "")
	equal(t, "the order of a payment", list[1].Order, o.ID)
}

// A lease is one sender's, until it lets go or the lease runs out.
func claimWebhookLease(t *testing.T, p *place) {
	hook := p.hook(t)
	run := p.sale(t, 10, time.Hour)
	due := func(want int) {
		t.Helper()
		ids, err := p.DueWebhooks(t.Context())
		must(t, err)
		equal(t, "webhooks that are due", len(ids), want)
	}
	due(0)
	p.mustWrite(t, run, buyers(run, 0, 3)...)
	due(1)
	w := p.work(t, hook, "a", nil, 2)
	if len(w.Due) != 2 || !w.More || w.Target.URL == "" || fmt.Sprint(w.Target.Secrets) != "[whsec_S3CRET]" {
		t.Fatalf("the first sender gets %+v", w)
	}
	due(0)
	equal(t, "held by a second", p.work(t, hook, "b", nil, 9).Held, false)
	again := p.work(t, hook, "a", []int64{w.Due[0].ID, w.Due[1].ID}, 9)
	equal(t, "left besides those under way", len(again.Due), 1)
	must(t, p.ReleaseWebhook(t.Context(), hook, "b")) // Not b's to release.
	equal(t, "held by a second", p.work(t, hook, "b", nil, 9).Held, false)
	p.raw(t, "UPDATE seckill_webhook SET lease_until = '2020-01-01 00:00:00.000000'")
	equal(t, "left by the dead sender", len(p.work(t, hook, "b", nil, 9).Due), 3)
	equal(t, "held by the dead one", p.work(t, hook, "a", nil, 9).Held, false)
	must(t, p.ReleaseWebhook(t.Context(), hook, "b"))
	due(1)
	equal(t, "held after the release", p.work(t, hook, "a", nil, 9).Held, true)

	must(t, p.PauseWebhook(t.Context(), hook, "b", 7, time.Hour)) // Not b's to pause.
	equal(t, "failures", p.work(t, hook, "a", nil, 9).Target.Failures, 0)
	must(t, p.PauseWebhook(t.Context(), hook, "a", 7, time.Hour))
	must(t, p.ReleaseWebhook(t.Context(), hook, "a"))
	due(0)
	equal(t, "held in the pause", p.work(t, hook, "a", nil, 9).Held, false)
	n, err := p.PendingDeliveries(t.Context())
	must(t, err)
	equal(t, "pending", n, 3)

	// Of many that ask at once, one gets it.
	p.raw(t, "UPDATE seckill_webhook SET resume_time = '2020-01-01 00:00:00.000000'")
	got := make(chan bool, 8)
	var ask []func(context.Context) error
	for i := range 8 {
		ask = append(ask, func(ctx context.Context) error {
			w, err := p.WebhookWork(ctx, hook, fmt.Sprint("sender-", i), time.Minute, nil, 9)
			got <- w.Held
			return err
		})
	}
	together(t, ask...)
	holders := 0
	for range 8 {
		if <-got {
			holders++
		}
	}
	equal(t, "senders that got the lease", holders, 1)
}

func (p *place) work(t testing.TB, hook int64, owner string, skip []int64, limit int) webhook.Work {
	t.Helper()
	w, err := p.WebhookWork(t.Context(), hook, owner, time.Minute, skip, limit)
	must(t, err)
	return w
}

// What happened to an order later waits until what happened first is received or given up, however
// much waits; and does not keep others waiting.
func claimWebhookOrder(t *testing.T, p *place) {
	hook := p.hook(t)
	run := p.sale(t, 30, time.Hour)
	var first []seckill.Delivery
	for i := range 10 {
		o := p.mustOrder(t, reservation(run, fmt.Sprint("b", i), 1))
		_, _, _, err := p.MoveOrder(t.Context(), o.ID, "", seckill.Paid, "r", nil)
		must(t, err)
	}
	w := p.work(t, hook, "a", nil, 100)
	first = w.Due
	for _, d := range w.Due {
		equal(t, "what is due first", d.Event, seckill.ReservationConfirmed)
	}
	equal(t, "due", len(first), 10)
	var skip []int64
	for _, d := range first {
		skip = append(skip, d.ID)
	}
	equal(t, "due while those are under way", len(p.work(t, hook, "a", skip, 100).Due), 0)
	end := func(d seckill.Delivery, state seckill.DeliveryState, again time.Duration, text string) {
		t.Helper()
		must(t, p.EndDeliveries(t.Context(), []seckill.DeliveryResult{{ID: d.ID, State: state, RetryAfter: again, Error: text}}))
	}
	for _, d := range first[2:] {
		end(d, seckill.DeliveryPending, time.Hour, "status 500")
	}
	end(first[0], seckill.DeliveryDelivered, 0, "")
	end(first[1], seckill.DeliveryGivenUp, 0, "status 404")
	// A page of three only: those that wait must not fill it.
	fresh := p.mustOrder(t, reservation(run, "fresh", 1))
	got := map[string]seckill.WebhookEvent{}
	for range 20 {
		w := p.work(t, hook, "a", nil, 3)
		for _, d := range w.Due {
			got[d.Ticket] = d.Event
			end(d, seckill.DeliveryDelivered, 0, "")
		}
		if len(w.Due) == 0 && !w.More {
			break
		}
	}
	want := map[string]seckill.WebhookEvent{
		first[0].Ticket: seckill.OrderPaid, first[1].Ticket: seckill.OrderPaid, fresh.Ticket: seckill.ReservationConfirmed,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	// An operator's retry brings both events of the ticket, the later one behind the other.
	_, err := p.RetryDelivery(t.Context(), hook, first[5].ID, operator)
	must(t, err)
	for _, want := range []seckill.WebhookEvent{seckill.ReservationConfirmed, seckill.OrderPaid} {
		w := p.work(t, hook, "a", nil, 9)
		if len(w.Due) != 1 || w.Due[0].Event != want || w.Due[0].Ticket != first[5].Ticket {
			t.Fatalf("after the retry %+v is due, want %s", w.Due, want)
		}
		end(w.Due[0], seckill.DeliveryDelivered, 0, "")
	}
}

// Each delivery shows how it fares, and an operator can have it sent again from any state.
func claimWebhookDeliveries(t *testing.T, p *place) {
	hook := p.hook(t)
	run := p.sale(t, 10, time.Hour)
	p.mustWrite(t, run, buyers(run, 0, 3)...)
	due := p.work(t, hook, "a", nil, 9).Due
	must(t, p.EndDeliveries(t.Context(), []seckill.DeliveryResult{
		{ID: due[2].ID, State: seckill.DeliveryGivenUp, Error: strings.Repeat("é", 2000)},
		{ID: due[0].ID, State: seckill.DeliveryDelivered},
		{ID: due[1].ID, State: seckill.DeliveryPending, RetryAfter: time.Hour, Error: "status 500"},
	}))
	// What another sender notes later takes nothing back.
	must(t, p.EndDeliveries(t.Context(), []seckill.DeliveryResult{{ID: due[0].ID, State: seckill.DeliveryPending, Error: "late"}}))
	by := func(id int64) seckill.Delivery {
		t.Helper()
		list, err := p.WebhookDeliveries(t.Context(), hook, id+1, 1)
		must(t, err)
		if len(list) != 1 || list[0].ID != id {
			t.Fatalf("the page before %d is %+v", id+1, list)
		}
		return list[0]
	}
	if d := by(due[0].ID); d.State != seckill.DeliveryDelivered || d.Attempts != 1 || d.DeliveredAt.IsZero() || d.LastError != "" || !d.NextAt.IsZero() {
		t.Errorf("delivered: %+v", d)
	}
	if d := by(due[1].ID); d.State != seckill.DeliveryPending || d.Attempts != 1 || d.LastError != "status 500" || time.Until(d.NextAt) < 50*time.Minute {
		t.Errorf("pending: %+v", d)
	}
	if d := by(due[2].ID); d.State != seckill.DeliveryGivenUp || len(d.LastError) != 1024 || !d.NextAt.IsZero() {
		t.Errorf("given up: %+v", d)
	}
	for _, d := range due {
		again, err := p.RetryDelivery(t.Context(), hook, d.ID, operator)
		must(t, err)
		if again.State != seckill.DeliveryPending || again.Since.Before(d.Since) || !again.DeliveredAt.IsZero() {
			t.Errorf("after a retry: %+v", again)
		}
	}
	equal(t, "due after the retries", len(p.work(t, hook, "a", nil, 9).Due), 3)
	for _, wrong := range [][2]int64{{hook, 1}, {hook + 1, due[0].ID}} {
		if _, err := p.RetryDelivery(t.Context(), wrong[0], wrong[1], operator); !errors.Is(err, seckill.ErrNotFound) {
			t.Errorf("retrying %v: %v", wrong, err)
		}
	}
	must(t, p.DisableWebhook(t.Context(), hook, "a test", operator))
	var refusal *seckill.Refusal
	if _, err := p.RetryDelivery(t.Context(), hook, due[0].ID, operator); !errors.As(err, &refusal) || refusal.Reason != seckill.Conflict {
		t.Errorf("retrying at a disabled webhook: %v", err)
	}
}

// What has ended is forgotten after its time or when there is too much of it; what was never sent in
// its day is given up; what belongs to no webhook goes.
func claimWebhookSweep(t *testing.T, p *place) {
	hook, removed := p.hook(t), p.hook(t)
	run := p.sale(t, 2000, time.Hour)
	p.mustWrite(t, run, buyers(run, 0, 700)...)
	must(t, p.RemoveWebhook(t.Context(), removed, operator))
	sweep := func(keepMax int) {
		t.Helper()
		must(t, p.SweepWebhooks(t.Context(), webhook.Limits{RetryFor: 24 * time.Hour, Keep: 7 * 24 * time.Hour, KeepMax: keepMax}))
	}
	sweep(1000)
	equal(t, "deliveries of the webhook that is left", p.deliveries(t), 700)
	n, err := p.PendingDeliveries(t.Context())
	must(t, err)
	equal(t, "pending", n, 700)

	const old, lately = "2020-01-01 00:00:00.000000", "2900-01-01 00:00:00.000000"
	list, err := p.WebhookDeliveries(t.Context(), hook, 0, 1000)
	must(t, err)
	set := func(ds []seckill.Delivery, state seckill.DeliveryState, when string) {
		for _, d := range ds {
			p.raw(t, "UPDATE seckill_webhook_delivery SET state = ?, next_time = ? WHERE id = ?", state, when, d.ID)
		}
	}
	set(list[:10], seckill.DeliveryPending, old)
	set(list[10:20], seckill.DeliveryDelivered, old)
	set(list[20:30], seckill.DeliveryGivenUp, old)
	set(list[30:50], seckill.DeliveryDelivered, lately)
	sweep(1000)
	equal(t, "left of 700", p.deliveries(t), 680)
	d, err := p.WebhookDeliveries(t.Context(), hook, list[5].ID+1, 1)
	must(t, err)
	if d[0].State != seckill.DeliveryGivenUp || d[0].LastError != expired {
		t.Errorf("what was due for years: %+v", d[0])
	}
	for i, d := range list[30:50] {
		p.raw(t, "UPDATE seckill_webhook_delivery SET next_time = ? WHERE id = ?", fmt.Sprintf("2900-01-01 00:00:%02d.000000", i), d.ID)
	}
	sweep(15)
	equal(t, "left of 680, with 15 of the 20 that were delivered", p.deliveries(t), 675)
	sweep(15)
	equal(t, "left after another sweep", p.deliveries(t), 675)
}

// Webhooks are few, changes of them are in the audit log, and their secrets nowhere but where they sign.
func claimWebhooks(t *testing.T, p *place) {
	id := p.hook(t, seckill.OrderPaid, seckill.OrderExpired)
	secrets := func(want ...string) {
		t.Helper()
		target, _, err := p.WebhookTarget(t.Context(), id)
		must(t, err)
		if !slices.Equal(target.Secrets, want) {
			t.Fatalf("secrets: got %v, want %v", target.Secrets, want)
		}
	}
	secrets("whsec_S3CRET")
	until, err := p.RotateWebhook(t.Context(), id, "whsec_N3W", time.Hour, operator)
	must(t, err)
	if d := time.Until(until); d < 50*time.Minute || d > 70*time.Minute {
		t.Errorf("the old secret signs for %v", d)
	}
	secrets("whsec_N3W", "whsec_S3CRET")
	p.raw(t, "UPDATE seckill_webhook SET old_until = '2020-01-01 00:00:00.000000'")
	secrets("whsec_N3W")
	must(t, p.DisableWebhook(t.Context(), id, strings.Repeat("x", 600), operator))
	list, err := p.Webhooks(t.Context())
	must(t, err)
	if h := list[0]; len(list) != 1 || !h.Disabled || len(h.Reason) != 512 || h.CreatedAt.IsZero() || fmt.Sprint(h.Events) != "[order.paid order.expired]" {
		t.Errorf("listed %+v", list)
	}
	h, err := p.EnableWebhook(t.Context(), id, operator)
	must(t, err)
	if h.Disabled || h.Reason != "" {
		t.Errorf("enabled: %+v", h)
	}
	must(t, p.RemoveWebhook(t.Context(), id, operator))
	_, rotated := p.RotateWebhook(t.Context(), id, "x", time.Hour, operator)
	_, enabled := p.EnableWebhook(t.Context(), id, operator)
	_, _, read := p.WebhookTarget(t.Context(), id)
	_, listed := p.WebhookDeliveries(t.Context(), id, 0, 1)
	removed, disabled := p.RemoveWebhook(t.Context(), id, operator), p.DisableWebhook(t.Context(), id, "", operator)
	for _, err := range []error{rotated, enabled, read, listed, removed, disabled} {
		if !errors.Is(err, seckill.ErrNotFound) {
			t.Errorf("of a webhook that is gone: %v", err)
		}
	}
	entries, err := p.Audit(t.Context(), 0, 100)
	must(t, err)
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action)
		for _, secret := range []string{"S3CRET", "N3W", "T0K"} {
			if strings.Contains(fmt.Sprintf("%+v", e), secret) {
				t.Errorf("the audit log has a secret: %+v", e)
			}
		}
	}
	if got := strings.Join(actions, " "); got != "webhook.remove webhook.enable webhook.disable webhook.rotate webhook.add" {
		t.Errorf("audited: %s", got)
	}
	for range webhooksMax {
		p.hook(t)
	}
	var refusal *seckill.Refusal
	if _, err := p.AddWebhook(t.Context(), seckill.Webhook{URL: "https://x.example/"}, "s", operator); !errors.As(err, &refusal) || refusal.Reason != seckill.Conflict {
		t.Errorf("one too many: %v", err)
	}
}
