package seckill

import "time"

// WebhookEvent is something that webhooks hear of.
type WebhookEvent string

// The events. Of one reservation there are at most two, in this order: confirmed, and then what
// became of the order; or failed alone.
const (
	ReservationConfirmed WebhookEvent = "reservation.confirmed"
	ReservationFailed    WebhookEvent = "reservation.failed"
	OrderPaid            WebhookEvent = "order.paid"
	OrderCancelled       WebhookEvent = "order.cancelled"
	OrderExpired         WebhookEvent = "order.expired"
)

// WebhookEvents lists them.
func WebhookEvents() []WebhookEvent {
	return []WebhookEvent{ReservationConfirmed, ReservationFailed, OrderPaid, OrderCancelled, OrderExpired}
}

// Step is the place of the event among those of its reservation, from 1.
func (e WebhookEvent) Step() int {
	if e == ReservationConfirmed || e == ReservationFailed {
		return 1
	}
	return 2
}

// Webhook is an address of a shop's that hears of events. Its secret is not here.
type Webhook struct {
	ID        int64
	URL       string
	Events    []WebhookEvent // Those that it hears of.
	CreatedAt time.Time
	Disabled  bool
	Reason    string // Why it is disabled, in English.
}

// WebhookTarget is what sending to a webhook needs.
type WebhookTarget struct {
	ID       int64
	URL      string
	Secrets  []string // Each signs; the newest first. Never to be shown.
	Failures int      // How often it failed in a row.
}

// DeliveryState is how far a delivery has come. Its numbers are stored.
type DeliveryState int8

// The states of a delivery.
const (
	DeliveryPending   DeliveryState = 0
	DeliveryDelivered DeliveryState = 1
	DeliveryGivenUp   DeliveryState = 2
)

// String gives the name that the API uses.
func (s DeliveryState) String() string {
	switch s {
	case DeliveryPending:
		return "pending"
	case DeliveryDelivered:
		return "delivered"
	case DeliveryGivenUp:
		return "given_up"
	}
	return "unknown"
}

// Delivery is one event on its way to one webhook.
type Delivery struct {
	ID          int64
	Webhook     int64
	Event       WebhookEvent
	Order       string // "" when the reservation failed.
	Ticket      string
	Payload     []byte // The body, as it is signed and sent.
	Attempts    int
	State       DeliveryState
	LastError   string
	CreatedAt   time.Time
	Since       time.Time // When it was first due: the day of its retries counts from here.
	NextAt      time.Time // Of the next attempt; zero unless pending.
	DeliveredAt time.Time // Zero unless delivered.
}

// DeliveryResult is how one attempt ended.
type DeliveryResult struct {
	ID         int64
	State      DeliveryState // Pending: to be tried again.
	RetryAfter time.Duration // When pending.
	Error      string        // "" when delivered.
}

// WebhookTest is how a receiver answered a test event.
type WebhookTest struct {
	Status int           // 0 if there was no answer.
	Error  string        // "" if it was received.
	Took   time.Duration // Until the answer.
}
