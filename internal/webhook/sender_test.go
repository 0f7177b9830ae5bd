package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/internal/sqlstore"
	"seckill/internal/telemetry"
	"seckill/internal/webhook"
)

var operator = seckill.Actor{Who: "test"}

// shop is a database with one activity, and webhooks of it.
type shop struct {
	*sqlstore.DB
	t       testing.TB
	run     seckill.RunID
	metrics *telemetry.Metrics
}

func newShop(t testing.TB) *shop {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "s.db"), sqlstore.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, db.Migrate(t.Context()))
	a, err := db.CreateActivity(t.Context(), seckill.Activity{
		Name: "cups", PriceCents: 100, Total: 10_000, StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour),
		LimitPerUser: 1, SubStocks: 1, PaymentWindow: time.Hour, Audience: seckill.AudienceEveryone,
	}, operator)
	must(t, err)
	return &shop{db, t, a.RunID(), telemetry.New("test")}
}

func (s *shop) hook(url string) int64 {
	s.t.Helper()
	h, err := s.AddWebhook(s.t.Context(), seckill.Webhook{URL: url, Events: seckill.WebhookEvents()}, secret("1234"), operator)
	must(s.t, err)
	return h.ID
}

// sell writes orders, and returns their ids.
func (s *shop) sell(from, to int) (ids []string) {
	s.t.Helper()
	var rs []seckill.Reservation
	for i := from; i < to; i++ {
		rs = append(rs, seckill.Reservation{Ticket: seckill.NewTicket(s.run), Run: s.run, Buyer: fmt.Sprint("b", i), Quantity: 1, Slot: 1, ReservedAt: time.Now()})
	}
	written, err := s.WriteOrders(s.t.Context(), s.run, rs)
	must(s.t, err)
	for _, w := range written {
		ids = append(ids, w.Order.ID)
	}
	return ids
}

func (s *shop) pay(id string) {
	s.t.Helper()
	_, _, _, err := s.MoveOrder(s.t.Context(), id, "", seckill.Paid, "r", nil)
	must(s.t, err)
}

func (s *shop) sender(client interface {
	Send(ctx context.Context, target seckill.WebhookTarget, id string, body []byte) webhook.Answer
}) *webhook.Sender {
	return &webhook.Sender{Store: s.DB, Client: client, Metrics: s.metrics, Every: 10 * time.Millisecond, Grace: 50 * time.Millisecond}
}

// start runs a sender and returns how to end it, as a SIGTERM would.
func start(t testing.TB, s *webhook.Sender) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// await waits until something holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("in vain: %s", what)
		}
	}
}

// states counts the deliveries of a webhook by state.
func (s *shop) states(hook int64) map[string]int {
	s.t.Helper()
	n := map[string]int{}
	list, err := s.WebhookDeliveries(s.t.Context(), hook, 0, 100_000)
	must(s.t, err)
	for _, d := range list {
		n[d.State.String()]++
	}
	return n
}

// counted is how many attempts the metrics have counted with an outcome.
func (s *shop) counted(outcome string) float64 {
	s.t.Helper()
	families, err := s.metrics.Registry.Gather()
	must(s.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "seckill_webhook_deliveries_total" && m.GetLabel()[0].GetValue() == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// heard is what a receiver has got.
type heard struct {
	mu     sync.Mutex
	ids    map[string]int      // Requests by webhook-id.
	events map[string][]string // Types by order, those that it took, in their order.
	now    int
	most   int // Requests at once.
}

func newHeard() *heard { return &heard{ids: map[string]int{}, events: map[string][]string{}} }

// listen answers with the status that answer gives for the event and the how-manieth time it comes.
func (h *heard) listen(answer func(event string, time int) int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Type string
			Data struct{ ID string }
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		h.mu.Lock()
		h.now++
		h.most = max(h.most, h.now)
		h.ids[r.Header.Get("webhook-id")]++
		times := h.ids[r.Header.Get("webhook-id")]
		h.mu.Unlock()
		status := answer(m.Type, times)
		h.mu.Lock()
		h.now--
		if status < 300 {
			h.events[m.Data.ID] = append(h.events[m.Data.ID], m.Type)
		}
		h.mu.Unlock()
		w.WriteHeader(status)
	}
}

// repeated counts the requests beyond one for each delivery.
func (h *heard) repeated() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, times := range h.ids {
		n += times - 1
	}
	return n
}

func ok(string, int) int { return 204 }

// impatient is a client whose failures look as if they had happened an hour ago: retries are due at once.
type impatient struct{ *shop }

func (i impatient) EndDeliveries(ctx context.Context, results []seckill.DeliveryResult) error {
	results = slices.Clone(results)
	for n := range results {
		results[n].RetryAfter = min(results[n].RetryAfter, time.Millisecond)
	}
	return i.DB.EndDeliveries(ctx, results)
}

func (i impatient) PauseWebhook(ctx context.Context, id int64, owner string, failures int, pause time.Duration) error {
	return i.DB.PauseWebhook(ctx, id, owner, failures, min(pause, time.Millisecond))
}

// However often a receiver fails, it hears of each order what happened, in the order in which it
// happened, and in the end of everything.
func TestEventsOfAnOrderStayInOrder(t *testing.T) {
	s := newShop(t)
	h := newHeard()
	hook := s.hook(receiver(t, h.listen(func(event string, times int) int {
		if event == "reservation.confirmed" && times < 3 {
			return 500
		}
		return 200
	})))
	orders := s.sell(0, 60)
	for _, id := range orders[:40] {
		s.pay(id)
	}
	sender := s.sender(private(t, 0))
	sender.Store = impatient{s}
	start(t, sender)
	for _, id := range orders[40:] {
		s.pay(id)
	}
	await(t, "all is delivered", func() bool { return s.states(hook)["delivered"] == 120 })
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range orders {
		if got := strings.Join(h.events[id], " "); got != "reservation.confirmed order.paid" {
			t.Errorf("of order %s: %s", id, got)
		}
	}
	if h.most > 8 {
		t.Errorf("%d requests at once, want 8 at most", h.most)
	}
	if n := s.counted("delivered"); n != 120 {
		t.Errorf("%v are counted as delivered", n)
	}
	if n := s.counted("failed"); n != 120 {
		t.Errorf("%v are counted as failed, want two for each of 60", n)
	}
}

// What a sender had not heard the end of when it was killed is sent again by the next one, and the
// rest once.
func TestAKilledSendersWorkIsRepeated(t *testing.T) {
	s := newShop(t)
	h := newHeard()
	hung := make(chan struct{})
	var hanging atomic.Int32
	hook := s.hook(receiver(t, h.listen(func(_ string, times int) int {
		if times == 1 && hanging.Add(1) <= 3 {
			<-hung
		}
		return 200
	})))
	defer close(hung)
	s.sell(0, 20)
	stop := start(t, s.sender(private(t, time.Minute)))
	await(t, "three hang, and all others are noted", func() bool { return hanging.Load() >= 3 && s.states(hook)["delivered"] >= 17 })
	stop()
	if got := s.states(hook)["pending"]; got != 3 {
		t.Fatalf("%d are pending, want the three that hung", got)
	}
	list, err := s.WebhookDeliveries(t.Context(), hook, 0, 100)
	must(t, err)
	for _, d := range list {
		if d.State == seckill.DeliveryPending && (d.Attempts != 0 || d.LastError != "") {
			t.Errorf("of a request that was cut it is believed: %q", d.LastError)
		}
	}
	if n := h.repeated(); n != 0 {
		t.Errorf("%d were sent twice before that", n)
	}
	start(t, s.sender(private(t, time.Minute))) // At once: the lease was given back.
	began := time.Now()
	await(t, "all is delivered", func() bool { return s.states(hook)["delivered"] == 20 })
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("the next one began after %v, as if the lease had run out", d)
	}
	if n := h.repeated(); n != 3 {
		t.Errorf("%d were sent again, want 3", n)
	}
}

// A sender that died without a word is followed by another when its lease has run out.
func TestADeadSendersLeaseRunsOut(t *testing.T) {
	s := newShop(t)
	h := newHeard()
	hook := s.hook(receiver(t, h.listen(ok)))
	s.sell(0, 5)
	w, err := s.WebhookWork(t.Context(), hook, "a sender that dies", 300*time.Millisecond, nil, 10)
	must(t, err)
	if len(w.Due) != 5 {
		t.Fatalf("it took %d", len(w.Due))
	}
	began := time.Now()
	start(t, s.sender(private(t, 0)))
	await(t, "all is delivered", func() bool { return s.states(hook)["delivered"] == 5 })
	if d := time.Since(began); d < 200*time.Millisecond {
		t.Errorf("after %v, while the lease was the other's", d)
	}
}

// Two senders share the webhooks, and nothing is sent twice.
func TestTwoSendersSendOnce(t *testing.T) {
	s := newShop(t)
	heard := map[int64]*heard{}
	for range 4 {
		h := newHeard()
		heard[s.hook(receiver(t, h.listen(ok)))] = h
	}
	start(t, s.sender(private(t, 0)))
	start(t, s.sender(private(t, 0)))
	for i := range 10 {
		for _, id := range s.sell(i*20, i*20+20)[:5] {
			s.pay(id)
		}
	}
	for hook, h := range heard {
		await(t, "all is delivered", func() bool { return s.states(hook)["delivered"] == 250 })
		if n := h.repeated(); n != 0 {
			t.Errorf("webhook %d got %d twice", hook, n)
		}
	}
}

// A receiver that hangs keeps no other waiting, and has no more than its share of requests.
func TestASlowReceiverHoldsNobodyBack(t *testing.T) {
	s := newShop(t)
	slow, quick := newHeard(), newHeard()
	hung := make(chan struct{})
	slowHook := s.hook(receiver(t, slow.listen(func(string, int) int { <-hung; return 200 })))
	hook := s.hook(receiver(t, quick.listen(ok)))
	start(t, s.sender(private(t, 0)))
	s.sell(0, 100)
	await(t, "the quick one has all", func() bool { return s.states(hook)["delivered"] == 100 })
	await(t, "the slow one has its share", func() bool { slow.mu.Lock(); defer slow.mu.Unlock(); return slow.now == 8 })
	if got := s.states(slowHook)["delivered"]; got != 0 {
		t.Errorf("%d are delivered to the slow one", got)
	}
	close(hung)
	await(t, "the slow one has all", func() bool { return s.states(slowHook)["delivered"] == 100 })
	if slow.most > 8 {
		t.Errorf("%d requests at once", slow.most)
	}
}

// New events go out beside requests that hang.
func TestNewEventsDoNotWaitForSlowOnes(t *testing.T) {
	s := newShop(t)
	h := newHeard()
	hung := make(chan struct{})
	var first atomic.Bool
	hook := s.hook(receiver(t, h.listen(func(string, int) int {
		if first.CompareAndSwap(false, true) {
			<-hung
		}
		return 200
	})))
	defer close(hung)
	start(t, s.sender(private(t, 5*time.Minute))) // Else the first would fail, and so end.
	s.sell(0, 1)
	await(t, "the first hangs", first.Load)
	s.sell(1, 4)
	await(t, "the others are delivered", func() bool { return s.states(hook)["delivered"] == 3 })
}

// 410 ends a webhook, visibly, until an operator enables it.
func TestGoneDisables(t *testing.T) {
	s := newShop(t)
	var status atomic.Int32
	status.Store(410)
	h := newHeard()
	hook := s.hook(receiver(t, h.listen(func(string, int) int { return int(status.Load()) })))
	start(t, s.sender(private(t, 0)))
	s.sell(0, 1)
	disabled := func() bool {
		hooks, err := s.Webhooks(t.Context())
		must(t, err)
		return hooks[0].Disabled && strings.Contains(hooks[0].Reason, "410")
	}
	await(t, "the webhook is disabled", disabled)
	s.sell(1, 2)
	if n := s.states(hook)["pending"]; n != 1 {
		t.Errorf("%d are pending, want the one from before", n)
	}
	status.Store(200)
	_, err := s.EnableWebhook(t.Context(), hook, operator)
	must(t, err)
	list, err := s.WebhookDeliveries(t.Context(), hook, 0, 1)
	must(t, err)
	_, err = s.RetryDelivery(t.Context(), hook, list[0].ID, operator)
	must(t, err)
	await(t, "what waited is delivered", func() bool { return s.states(hook)["delivered"] == 1 })
}

// stuck is a store that answers no more, once it was told to.
type stuck struct {
	*shop
	from atomic.Bool
}

func (s *stuck) EndDeliveries(ctx context.Context, results []seckill.DeliveryResult) error {
	if s.from.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.DB.EndDeliveries(ctx, results)
}

func (s *stuck) ReleaseWebhook(ctx context.Context, id int64, owner string) error {
	if s.from.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.DB.ReleaseWebhook(ctx, id, owner)
}
