package client

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"seckill"
)

// Buyer is one buyer's side of the public API. It may be used concurrently.
type Buyer struct{ c caller }

// NewBuyer makes a client of the public listener.
func NewBuyer(o Options) (*Buyer, error) {
	c, err := newCaller(o)
	return &Buyer{c}, err
}

// Activity as buyers see it.
type Activity struct {
	ID           int64         `json:"id"`
	Name         string        `json:"name"`
	Description  string        `json:"description"`
	PriceCents   int64         `json:"price_cents"`
	State        seckill.State `json:"state"`
	Run          int           `json:"run"`
	StartsAt     time.Time     `json:"starts_at"`
	EndsAt       time.Time     `json:"ends_at"`
	ServerTime   time.Time     `json:"server_time"`
	Total        int64         `json:"total"`
	Remaining    int64         `json:"remaining"` // May lag by seconds.
	LimitPerUser int           `json:"limit_per_user"`
	Challenge    bool          `json:"challenge"`
	EntryToken   bool          `json:"entry_token"`
}

// Ticket is how far a purchase has come.
type Ticket struct {
	Ticket      string `json:"ticket"`
	State       string `json:"state"` // queued, confirmed or failed.
	Reason      string `json:"reason,omitempty"`
	Ahead       int64  `json:"ahead,omitempty"`
	PollAfterMS int64  `json:"poll_after_ms,omitempty"`
	Order       *Order `json:"order,omitempty"`
}

// Final tells that nothing more will happen to it.
func (t *Ticket) Final() bool { return t.State == "confirmed" || t.State == "failed" }

// Order of a buyer.
type Order struct {
	ID          string    `json:"id"`
	ActivityID  int64     `json:"activity_id"`
	Run         int       `json:"run"`
	Ticket      string    `json:"ticket"`
	State       string    `json:"state"` // awaiting_payment, paid, cancelled or expired.
	Quantity    int       `json:"quantity"`
	AmountCents int64     `json:"amount_cents"`
	CreatedAt   time.Time `json:"created_at"`
	PayBefore   time.Time `json:"pay_before"`
}

// Activities that a buyer may see.
func (b *Buyer) Activities(ctx context.Context) ([]Activity, error) {
	var list struct {
		Activities []Activity `json:"activities"`
	}
	err := b.c.do(ctx, call{method: http.MethodGet, path: "/v1/activities"}, &list)
	return list.Activities, err
}

// Activity by id.
func (b *Buyer) Activity(ctx context.Context, id int64) (Activity, error) {
	var a Activity
	err := b.c.do(ctx, call{method: http.MethodGet, path: "/v1/activities/" + strconv.FormatInt(id, 10)}, &a)
	return a, err
}

// Purchase is what a buyer asks for.
type Purchase struct {
	Quantity   int    // Default 1.
	EntryToken string // If the activity asks for one.
	// Key makes the purchase the same one when it is sent again, by this call or by
	// another. Default: one that is made up for this call.
	Key string
}

// Purchase asks for units. It is repeated under its key while it is unclear whether the
// server took it.
func (b *Buyer) Purchase(ctx context.Context, activity int64, p Purchase) (Ticket, error) {
	if p.Quantity == 0 {
		p.Quantity = 1
	}
	if p.Key == "" {
		p.Key = rand.Text()
	}
	body := map[string]any{"quantity": p.Quantity}
	if p.EntryToken != "" {
		body["entry_token"] = p.EntryToken
	}
	var t Ticket
	err := b.c.do(ctx, call{
		method: http.MethodPost, path: "/v1/activities/" + strconv.FormatInt(activity, 10) + "/purchases",
		body: body, header: http.Header{"Idempotency-Key": {p.Key}},
	}, &t)
	return t, err
}

// Ticket by its name; another buyer's is not found.
func (b *Buyer) Ticket(ctx context.Context, ticket string) (Ticket, error) {
	var t Ticket
	err := b.c.do(ctx, call{method: http.MethodGet, path: "/v1/tickets/" + url.PathEscape(ticket)}, &t)
	return t, err
}

// Orders of the buyer, a page of them from a cursor ("" from the newest). next is "" after the last.
func (b *Buyer) Orders(ctx context.Context, cursor string) (orders []Order, next string, err error) {
	var list struct {
		Orders []Order `json:"orders"`
		paged
	}
	err = b.c.do(ctx, call{method: http.MethodGet, path: "/v1/orders", query: page(cursor)}, &list)
	return list.Orders, list.Cursor, err
}

// paged is in each answer that may be a part of a list.
type paged struct {
	Cursor string `json:"cursor"` // Where the next part begins; "" after the last.
}

func page(cursor string) url.Values {
	if cursor == "" {
		return nil
	}
	return url.Values{"cursor": {cursor}}
}

// Order by id.
func (b *Buyer) Order(ctx context.Context, id string) (Order, error) {
	return b.order(ctx, http.MethodGet, id, "")
}

// Pay pays an order, where the server simulates payment.
func (b *Buyer) Pay(ctx context.Context, id string) (Order, error) {
	return b.order(ctx, http.MethodPost, id, "/pay")
}

// Cancel gives the units of an order back.
func (b *Buyer) Cancel(ctx context.Context, id string) (Order, error) {
	return b.order(ctx, http.MethodPost, id, "/cancel")
}

func (b *Buyer) order(ctx context.Context, method, id, what string) (Order, error) {
	var o Order
	err := b.c.do(ctx, call{method: method, path: "/v1/orders/" + url.PathEscape(id) + what}, &o)
	return o, err
}
