package admin

import (
	"net/http"
	"strconv"
	"time"

	"seckill"
)

// refBytesMax bounds a payment's reference.
const refBytesMax = 128

// orderView is an order as the API shows it.
type orderView struct {
	ID          string    `json:"id"`
	ActivityID  int64     `json:"activity_id"`
	Run         int       `json:"run"`
	Ticket      string    `json:"ticket"`
	Buyer       string    `json:"buyer"`
	State       string    `json:"state"`
	Quantity    int       `json:"quantity"`
	AmountCents int64     `json:"amount_cents"`
	PaymentRef  string    `json:"payment_ref"`
	CreatedAt   time.Time `json:"created_at"`
	PayBefore   time.Time `json:"pay_before"`
}

func showOrder(o *seckill.Order) orderView {
	return orderView{
		ID: o.ID, ActivityID: o.Run.Activity, Run: o.Run.Run, Ticket: o.Ticket, Buyer: o.Buyer,
		State: o.State.String(), Quantity: o.Quantity, AmountCents: o.AmountCents, PaymentRef: o.PaymentRef,
		CreatedAt: o.CreatedAt.UTC(), PayBefore: o.PayBefore.UTC(),
	}
}

func (s *Server) orderPaid(r *http.Request) (answer, error) {
	if _, err := pathID(r); err != nil {
		return answer{}, err
	}
	var b struct {
		PaymentRef string  `json:"payment_ref"`
		Reason     *string `json:"reason"`
	}
	err := body(r, &b, false)
	by, wrong := actor(r, b.Reason)
	switch {
	case b.PaymentRef == "":
		wrong = append(wrong, seckill.FieldError{Field: "payment_ref", Rule: seckill.RuleRequired})
	case len(b.PaymentRef) > refBytesMax:
		wrong = append(wrong, seckill.FieldError{Field: "payment_ref", Rule: seckill.RuleLength, Arg: strconv.Itoa(refBytesMax)})
	case !seckill.ValidKey(b.PaymentRef):
		wrong = append(wrong, seckill.FieldError{Field: "payment_ref", Rule: seckill.RuleFormat, Arg: "printable ASCII"})
	}
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	o, err := s.o.Desk.Paid(r.Context(), r.PathValue("id"), b.PaymentRef, by)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showOrder(&o)}, nil
}
