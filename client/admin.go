package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"seckill"
)

// Admin is the operator's side of the API. It may be used concurrently.
type Admin struct{ c caller }

// NewAdmin makes a client of the admin listener.
func NewAdmin(o Options) (*Admin, error) {
	c, err := newCaller(o)
	return &Admin{c}, err
}

// NewActivity is what is to be sold. Zero fields are left to the server's defaults.
type NewActivity struct {
	Name                 string           `json:"name"`
	Description          string           `json:"description,omitempty"`
	Stock                int64            `json:"stock"`
	StartsAt             time.Time        `json:"starts_at"`
	EndsAt               time.Time        `json:"ends_at"`
	PriceCents           int64            `json:"price_cents,omitempty"`
	LimitPerUser         int              `json:"limit_per_user,omitempty"`
	SubStocks            int              `json:"sub_stocks,omitempty"`
	PreloadBeforeSeconds *int64           `json:"preload_before_seconds,omitempty"` // 0 means at the start itself.
	PaymentWindowSeconds int64            `json:"payment_window_seconds,omitempty"`
	Challenge            bool             `json:"challenge,omitempty"`
	EntryToken           bool             `json:"entry_token,omitempty"`
	Audience             seckill.Audience `json:"audience,omitempty"`
}

// AdminActivity is an activity with what only operators see.
type AdminActivity struct {
	Activity
	SubStocks            int              `json:"sub_stocks"`
	PreloadBeforeSeconds int64            `json:"preload_before_seconds"`
	PaymentWindowSeconds int64            `json:"payment_window_seconds"`
	Audience             seckill.Audience `json:"audience"`
	Books                *seckill.Books   `json:"books"`
}

const activitiesPath = "/admin/v1/activities"

func activityPath(id int64, what string) string {
	return activitiesPath + "/" + strconv.FormatInt(id, 10) + what
}

// CreateActivity is asked for once: after an unclear end, look whether it is there.
func (a *Admin) CreateActivity(ctx context.Context, n NewActivity) (AdminActivity, error) {
	var got AdminActivity
	err := a.c.do(ctx, call{method: http.MethodPost, path: activitiesPath, body: n, once: true}, &got)
	return got, err
}

// Activities by id, a page of them from a cursor ("" from the start). next is "" after the last.
func (a *Admin) Activities(ctx context.Context, cursor string) (activities []AdminActivity, next string, err error) {
	var list struct {
		Activities []AdminActivity `json:"activities"`
		paged
	}
	err = a.c.do(ctx, call{method: http.MethodGet, path: activitiesPath, query: page(cursor)}, &list)
	return list.Activities, list.Cursor, err
}

// Activity with its books.
func (a *Admin) Activity(ctx context.Context, id int64) (AdminActivity, error) {
	var got AdminActivity
	err := a.c.do(ctx, call{method: http.MethodGet, path: activityPath(id, "")}, &got)
	return got, err
}

// Preload puts the run into the stock.
func (a *Admin) Preload(ctx context.Context, id int64) (AdminActivity, error) {
	return a.change(ctx, id, "/preload", nil, false)
}

// Pause stops the sale for a while.
func (a *Admin) Pause(ctx context.Context, id int64) (AdminActivity, error) {
	return a.change(ctx, id, "/pause", nil, false)
}

// Resume lets the sale go on.
func (a *Admin) Resume(ctx context.Context, id int64) (AdminActivity, error) {
	return a.change(ctx, id, "/resume", nil, false)
}

// Close ends the run now.
func (a *Admin) Close(ctx context.Context, id int64) (AdminActivity, error) {
	return a.change(ctx, id, "/close", nil, false)
}

// Restocked is an activity and what a restock did.
type Restocked struct {
	AdminActivity
	Restocked int64 `json:"restocked"`
	Pending   bool  `json:"pending"` // The stock could not be told yet.
}

// Restock adds units, or takes away at most what is available. It is asked for once.
func (a *Admin) Restock(ctx context.Context, id, quantity int64) (Restocked, error) {
	var got Restocked
	err := a.c.do(ctx, call{method: http.MethodPost, path: activityPath(id, "/restock"), body: map[string]int64{"quantity": quantity}, once: true}, &got)
	return got, err
}

// Rerun opens a new run of an activity that has ended. It is asked for once.
func (a *Admin) Rerun(ctx context.Context, id int64, startsAt, endsAt time.Time, stock int64) (AdminActivity, error) {
	return a.change(ctx, id, "/rerun", map[string]any{"starts_at": startsAt, "ends_at": endsAt, "stock": stock}, true)
}

func (a *Admin) change(ctx context.Context, id int64, what string, body any, once bool) (AdminActivity, error) {
	var got AdminActivity
	err := a.c.do(ctx, call{method: http.MethodPost, path: activityPath(id, what), body: body, once: once}, &got)
	return got, err
}

// SetAudience says who may buy, when the activity's audience is "listed".
func (a *Admin) SetAudience(ctx context.Context, id int64, buyers []string) error {
	if buyers == nil {
		buyers = []string{}
	}
	return a.c.do(ctx, call{method: http.MethodPut, path: activityPath(id, "/audience"), body: buyers}, nil)
}

// Report of a reconciliation.
type Report struct {
	Balanced bool              `json:"balanced"`
	Books    seckill.Books     `json:"books"`
	Findings []seckill.Finding `json:"findings"`
}

// Reconcile compares stock, queue and database, and repairs what it can if it is asked to.
func (a *Admin) Reconcile(ctx context.Context, id int64, repair bool) (Report, error) {
	var r Report
	err := a.c.do(ctx, call{method: http.MethodPost, path: activityPath(id, "/reconcile"), body: map[string]bool{"repair": repair}}, &r)
	return r, err
}

// DeadLetter is a reservation, or a message, that could not become an order.
type DeadLetter struct {
	ID         json.Number `json:"id"`
	ActivityID int64       `json:"activity_id"`
	Run        int         `json:"run"`
	Ticket     string      `json:"ticket"`
	Buyer      string      `json:"buyer"`
	Quantity   int         `json:"quantity"`
	Reason     string      `json:"reason"`
	Attempts   int         `json:"attempts"`
	At         time.Time   `json:"at"`
}

// DeadLetters that wait, a page of them from a cursor ("" from the newest).
func (a *Admin) DeadLetters(ctx context.Context, cursor string) (letters []DeadLetter, next string, err error) {
	var list struct {
		DeadLetters []DeadLetter `json:"dead_letters"`
		paged
	}
	err = a.c.do(ctx, call{method: http.MethodGet, path: "/admin/v1/dead-letters", query: page(cursor)}, &list)
	return list.DeadLetters, list.Cursor, err
}

// DeadDone says what became of a dead letter.
type DeadDone struct {
	ID     json.Number `json:"id"`
	State  string      `json:"state"`  // settled, dead, retrying or dropped.
	Reason string      `json:"reason"` // When it is dead again.
}

// RetryDead tries again to make an order of a dead letter. It is asked for once.
func (a *Admin) RetryDead(ctx context.Context, id int64) (DeadDone, error) {
	return a.dead(ctx, id, "/retry", nil)
}

// DropDead writes a dead letter off; its units go back to the stock, or out of the run.
// It is asked for once.
func (a *Admin) DropDead(ctx context.Context, id int64, returnStock bool, reason string) (DeadDone, error) {
	body := map[string]any{"return_stock": returnStock}
	if reason != "" {
		body["reason"] = reason
	}
	return a.dead(ctx, id, "/drop", body)
}

func (a *Admin) dead(ctx context.Context, id int64, what string, body any) (DeadDone, error) {
	var got DeadDone
	err := a.c.do(ctx, call{method: http.MethodPost, path: "/admin/v1/dead-letters/" + strconv.FormatInt(id, 10) + what, body: body, once: true}, &got)
	return got, err
}

// Paid says that an order was paid, under the merchant's reference. Saying it again is harmless.
func (a *Admin) Paid(ctx context.Context, order, paymentRef string) (Order, error) {
	var o Order
	err := a.c.do(ctx, call{
		method: http.MethodPost, path: "/admin/v1/orders/" + url.PathEscape(order) + "/paid",
		body: map[string]string{"payment_ref": paymentRef},
	}, &o)
	return o, err
}

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	ID     json.Number     `json:"id"`
	At     time.Time       `json:"at"`
	Who    string          `json:"who"`
	From   string          `json:"from"`
	Action string          `json:"action"`
	Object string          `json:"object"`
	Reason string          `json:"reason"`
	Detail json.RawMessage `json:"detail"`
}

// Audit log, newest first, a page of it from a cursor ("" from the newest).
func (a *Admin) Audit(ctx context.Context, cursor string) (entries []AuditEntry, next string, err error) {
	var list struct {
		Entries []AuditEntry `json:"audit"`
		paged
	}
	err = a.c.do(ctx, call{method: http.MethodGet, path: "/admin/v1/audit", query: page(cursor)}, &list)
	return list.Entries, list.Cursor, err
}

// Ready tells whether the server says that it can work.
func (a *Admin) Ready(ctx context.Context) error {
	return a.c.do(ctx, call{method: http.MethodGet, path: "/readyz", once: true}, nil)
}
