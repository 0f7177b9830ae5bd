package webhook

import (
	"encoding/json"
	"time"

	"seckill"
)

// TestEvent is the type of the event that only [Desk.Test] sends.
const TestEvent = "webhook.test"

// message is the body of every request.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // When it happened.
	Data      any       `json:"data"`
}

type orderData struct {
	ID          string    `json:"id"`
	ActivityID  int64     `json:"activity_id"`
	Run         int       `json:"run"`
	Ticket      string    `json:"ticket"`
	Buyer       string    `json:"buyer"`
	State       string    `json:"state"`
	Quantity    int       `json:"quantity"`
	AmountCents int64     `json:"amount_cents"`
	PaymentRef  string    `json:"payment_ref,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	PayBefore   time.Time `json:"pay_before"`
}

type failedData struct {
	ActivityID int64  `json:"activity_id"`
	Run        int    `json:"run"`
	Ticket     string `json:"ticket"`
	Buyer      string `json:"buyer"`
	State      string `json:"state"`
	Quantity   int    `json:"quantity"`
	Reason     string `json:"reason"`
}

// OrderPayload is the body that tells of an order as it is after the event.
func OrderPayload(event seckill.WebhookEvent, at time.Time, o *seckill.Order) []byte {
	return encode(string(event), at, orderData{
		ID: o.ID, ActivityID: o.Run.Activity, Run: o.Run.Run, Ticket: o.Ticket, Buyer: o.Buyer, State: o.State.String(),
		Quantity: o.Quantity, AmountCents: o.AmountCents, PaymentRef: o.PaymentRef,
		CreatedAt: o.CreatedAt.UTC(), PayBefore: o.PayBefore.UTC(),
	})
}

// FailedPayload is the body that tells of a reservation that failed.
func FailedPayload(at time.Time, r *seckill.Reservation, reason seckill.Reason) []byte {
	return encode(string(seckill.ReservationFailed), at, failedData{
		ActivityID: r.Run.Activity, Run: r.Run.Run, Ticket: r.Ticket, Buyer: r.Buyer, State: seckill.Failed.String(),
		Quantity: r.Quantity, Reason: reason.String(),
	})
}

func testPayload(at time.Time, id int64) []byte {
	return encode(TestEvent, at, struct {
		Webhook int64 `json:"webhook_id"`
	}{id})
}

func encode(event string, at time.Time, data any) []byte {
	text, err := json.Marshal(message{event, at.UTC(), data})
	if err != nil {
		panic(err) // Strings, numbers and times of this millennium always encode.
	}
	return text
}
