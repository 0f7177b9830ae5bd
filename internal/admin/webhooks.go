package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"seckill"
)

// webhooks are the addresses that hear of events.
type webhooks interface {
	// CheckWebhook says what is wrong with a webhook, by the names of the API's fields.
	CheckWebhook(ctx context.Context, address string, events []seckill.WebhookEvent) []seckill.FieldError
	Webhooks(ctx context.Context) ([]seckill.Webhook, error)
	// AddWebhook registers an address; without events it hears of all.
	AddWebhook(ctx context.Context, address string, events []seckill.WebhookEvent, by seckill.Actor) (h seckill.Webhook, secret string, err error)
	RemoveWebhook(ctx context.Context, id int64, by seckill.Actor) error
	RotateWebhook(ctx context.Context, id int64, by seckill.Actor) (secret string, oldUntil time.Time, err error)
	EnableWebhook(ctx context.Context, id int64, by seckill.Actor) (seckill.Webhook, error)
	TestWebhook(ctx context.Context, id int64, by seckill.Actor) (seckill.WebhookTest, error)
	// Deliveries lists those of a webhook, newest first, ids below before (0 from the newest).
	Deliveries(ctx context.Context, id, before int64, limit int) ([]seckill.Delivery, error)
	RetryDelivery(ctx context.Context, webhook, id int64, by seckill.Actor) (seckill.Delivery, error)
}

// hooks is the routes of webhooks, if there are any.
func (s *Server) hooks() []route {
	if s.o.Webhooks == nil {
		return nil
	}
	const hook = "/admin/v1/webhooks/{id}"
	return []route{
		{"GET /admin/v1/webhooks", s.api(s.listWebhooks)},
		{"POST /admin/v1/webhooks", s.api(s.addWebhook)},
		{"DELETE " + hook, s.api(s.removeWebhook)},
		{"POST " + hook + "/rotate", s.api(s.rotateWebhook)},
		{"POST " + hook + "/enable", s.api(s.enableWebhook)},
		{"POST " + hook + "/test", s.api(s.testWebhook)},
		{"GET " + hook + "/deliveries", s.api(s.listDeliveries)},
		{"POST " + hook + "/deliveries/{delivery}/retry", s.api(s.retryDelivery)},
	}
}

// webhookView is a webhook as the API shows it. Its secret is shown once, when it is made.
type webhookView struct {
	ID        int64                  `json:"id"`
	URL       string                 `json:"url"`
	Events    []seckill.WebhookEvent `json:"events"`
	CreatedAt time.Time              `json:"created_at"`
	Disabled  bool                   `json:"disabled"`
	Reason    string                 `json:"reason"` // Why it is disabled.
	Secret    string                 `json:"secret,omitempty"`
}

func showWebhook(h *seckill.Webhook) webhookView {
	return webhookView{ID: h.ID, URL: h.URL, Events: h.Events, CreatedAt: h.CreatedAt.UTC(), Disabled: h.Disabled, Reason: h.Reason}
}

type webhookList struct {
	Webhooks []webhookView `json:"webhooks"` // All of them: they are few.
}

func (s *Server) listWebhooks(r *http.Request) (answer, error) {
	list, err := s.o.Webhooks.Webhooks(r.Context())
	if err != nil {
		return answer{}, err
	}
	views := make([]webhookView, len(list))
	for i := range list {
		views[i] = showWebhook(&list[i])
	}
	return answer{status: http.StatusOK, body: webhookList{views}}, nil
}

func (s *Server) addWebhook(r *http.Request) (answer, error) {
	var b struct {
		URL    string    `json:"url"`
		Events *[]string `json:"events"`
		Reason *string   `json:"reason"`
	}
	err := body(r, &b, false)
	by, wrong := actor(r, b.Reason)
	var events []seckill.WebhookEvent
	if b.Events != nil {
		for _, name := range *b.Events {
			events = append(events, seckill.WebhookEvent(name))
		}
		if len(events) == 0 {
			wrong = append(wrong, seckill.FieldError{Field: "events", Rule: seckill.RuleRequired})
		}
	}
	if err := merge(err, append(s.o.Webhooks.CheckWebhook(r.Context(), b.URL, events), wrong...)); err != nil {
		return answer{}, err
	}
	made, secret, err := s.o.Webhooks.AddWebhook(r.Context(), b.URL, events, by)
	if err != nil {
		return answer{}, err
	}
	view := showWebhook(&made)
	view.Secret = secret
	return answer{status: http.StatusCreated, location: fmt.Sprintf("/admin/v1/webhooks/%d", made.ID), body: view}, nil
}

// hookCommand reads a command that is about one webhook, and needs no body.
func hookCommand(r *http.Request) (id int64, by seckill.Actor, err error) {
	if id, err = pathID(r); err != nil {
		return 0, by, err
	}
	var c commandBody
	err = body(r, &c, true)
	by, wrong := actor(r, c.Reason)
	return id, by, merge(err, wrong)
}

func (s *Server) removeWebhook(r *http.Request) (answer, error) {
	id, by, err := hookCommand(r)
	if err == nil {
		err = s.o.Webhooks.RemoveWebhook(r.Context(), id, by)
	}
	return answer{status: http.StatusNoContent}, err
}

// rotated is the secret that follows another.
type rotated struct {
	ID       int64     `json:"id"`
	Secret   string    `json:"secret"`
	OldUntil time.Time `json:"old_secret_until"` // Until then both sign.
}

func (s *Server) rotateWebhook(r *http.Request) (answer, error) {
	id, by, err := hookCommand(r)
	if err != nil {
		return answer{}, err
	}
	secret, until, err := s.o.Webhooks.RotateWebhook(r.Context(), id, by)
	return answer{status: http.StatusOK, body: rotated{id, secret, until.UTC()}}, err
}

func (s *Server) enableWebhook(r *http.Request) (answer, error) {
	id, by, err := hookCommand(r)
	if err != nil {
		return answer{}, err
	}
	h, err := s.o.Webhooks.EnableWebhook(r.Context(), id, by)
	return answer{status: http.StatusOK, body: showWebhook(&h)}, err
}

// tested is how a receiver answered a test event.
type tested struct {
	Delivered bool   `json:"delivered"`
	Status    int    `json:"status"` // 0 if there was no answer.
	Error     string `json:"error"`
	TookMS    int64  `json:"took_ms"`
}

func (s *Server) testWebhook(r *http.Request) (answer, error) {
	id, by, err := hookCommand(r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.o.Webhooks.TestWebhook(r.Context(), id, by)
	return answer{status: http.StatusOK, body: tested{t.Error == "", t.Status, t.Error, t.Took.Milliseconds()}}, err
}

// deliveryView is a delivery as the API shows it. Its id is text: it is more than a JavaScript number holds.
type deliveryView struct {
	ID          string               `json:"id"`
	Event       seckill.WebhookEvent `json:"event"`
	Order       string               `json:"order"` // "" when the reservation failed.
	Ticket      string               `json:"ticket"`
	Attempts    int                  `json:"attempts"`
	State       string               `json:"state"`
	LastError   string               `json:"last_error"`
	CreatedAt   time.Time            `json:"created_at"`
	NextAt      *time.Time           `json:"next_at"`      // null unless pending.
	DeliveredAt *time.Time           `json:"delivered_at"` // null unless delivered.
}

func showDelivery(d *seckill.Delivery) deliveryView {
	v := deliveryView{
		ID: strconv.FormatInt(d.ID, 10), Event: d.Event, Order: d.Order, Ticket: d.Ticket, Attempts: d.Attempts, State: d.State.String(),
		LastError: d.LastError, CreatedAt: d.CreatedAt.UTC(),
	}
	if !d.NextAt.IsZero() {
		next := d.NextAt.UTC()
		v.NextAt = &next
	}
	if !d.DeliveredAt.IsZero() {
		delivered := d.DeliveredAt.UTC()
		v.DeliveredAt = &delivered
	}
	return v
}

type deliveryList struct {
	Deliveries []deliveryView `json:"deliveries"`
	Cursor     string         `json:"cursor,omitempty"`
}

func (s *Server) listDeliveries(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	limit, cursor, err := paging(r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.o.Webhooks.Deliveries(r.Context(), id, cursor, limit+1)
	if err != nil {
		return answer{}, err
	}
	list, next := nextCursor(list, limit, func(d seckill.Delivery) int64 { return d.ID })
	views := make([]deliveryView, len(list))
	for i := range list {
		views[i] = showDelivery(&list[i])
	}
	return answer{status: http.StatusOK, body: deliveryList{views, next}}, nil
}

func (s *Server) retryDelivery(r *http.Request) (answer, error) {
	text := r.PathValue("delivery")
	delivery, err := strconv.ParseInt(text, 10, 64)
	if err != nil || delivery < 1 || strconv.FormatInt(delivery, 10) != text {
		return answer{}, seckill.ErrNotFound
	}
	id, by, err := hookCommand(r)
	if err != nil {
		return answer{}, err
	}
	d, err := s.o.Webhooks.RetryDelivery(r.Context(), id, delivery, by)
	return answer{status: http.StatusOK, body: showDelivery(&d)}, err
}
