package admin

import (
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	"seckill"
)

// desk is what can be done about single orders and dead letters.
type desk interface {
	DeadLetters(ctx context.Context, before int64, max int) ([]seckill.DeadLetter, error)
	DropDead(ctx context.Context, id int64, returnStock bool, by seckill.Actor) error
	Paid(ctx context.Context, id, ref string, by seckill.Actor) (seckill.Order, error)
	// Orders of a buyer, newest first, those before an id ("" from the newest).
	Orders(ctx context.Context, buyer, before string, max int) ([]seckill.Order, error)
}

// Retry is what became of a dead letter that was tried again.
type Retry struct {
	Outcomes []seckill.Outcome // Of its reservations; none if Dead or Pending.
	Dead     string            // Why it is a dead letter again; "" if it is not.
	Pending  bool              // Database or stock did not answer; it goes on by itself.
}

// deadView is a dead letter as the API shows it.
type deadView struct {
	ID         int64      `json:"id"`
	ActivityID int64      `json:"activity_id,omitempty"`
	Run        int        `json:"run,omitempty"`
	Ticket     string     `json:"ticket,omitempty"`
	Buyer      string     `json:"buyer,omitempty"`
	Quantity   int        `json:"quantity,omitempty"`
	ReservedAt *time.Time `json:"reserved_at,omitempty"`
	Payload    string     `json:"payload,omitempty"`        // The message, if it is text.
	Binary     []byte     `json:"payload_base64,omitempty"` // The message, if it is not.
	Reason     string     `json:"reason"`
	Attempts   int        `json:"attempts"`
	At         time.Time  `json:"at"`
}

func showDead(d *seckill.DeadLetter) deadView {
	v := deadView{
		ID: d.ID, ActivityID: d.Run.Activity, Run: d.Run.Run, Ticket: d.Ticket,
		Reason: d.Reason, Attempts: d.Attempts, At: d.At.UTC(),
	}
	if utf8.Valid(d.Payload) {
		v.Payload = string(d.Payload)
	} else {
		v.Binary = d.Payload
	}
	if r := d.Reservation; r != nil {
		reserved := r.ReservedAt.UTC()
		v.Buyer, v.Quantity, v.ReservedAt = r.Buyer, r.Quantity, &reserved
	}
	return v
}

type deadList struct {
	DeadLetters []deadView `json:"dead_letters"`
	Cursor      string     `json:"cursor,omitempty"`
}

func (s *Server) listDead(r *http.Request) (answer, error) {
	limit, cursor, err := paging(r)
	if err != nil {
		return answer{}, err
	}
	letters, err := s.o.Desk.DeadLetters(r.Context(), cursor, limit+1)
	if err != nil {
		return answer{}, err
	}
	letters, next := nextCursor(letters, limit, func(d seckill.DeadLetter) int64 { return d.ID })
	views := make([]deadView, len(letters))
	for i := range letters {
		views[i] = showDead(&letters[i])
	}
	return answer{status: http.StatusOK, body: deadList{views, next}}, nil
}

// deadDone says what became of a dead letter.
type deadDone struct {
	ID       int64         `json:"id"`
	State    string        `json:"state"`            // settled, dead, retrying, dropped
	Reason   string        `json:"reason,omitempty"` // When dead again.
	Outcomes []outcomeView `json:"outcomes,omitempty"`
}

type outcomeView struct {
	State  string     `json:"state"`
	Reason string     `json:"reason,omitempty"`
	Order  *orderView `json:"order,omitempty"`
}

func (s *Server) retryDead(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	var c commandBody
	err = body(r, &c, true)
	by, wrong := actor(r, c.Reason)
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	became, err := s.o.RetryDead(r.Context(), id, by)
	if err != nil {
		return answer{}, err
	}
	done := deadDone{ID: id, State: "settled", Reason: became.Dead}
	switch {
	case became.Pending:
		done.State = "retrying"
	case became.Dead != "":
		done.State = "dead"
	}
	for _, o := range became.Outcomes {
		v := outcomeView{State: o.Progress.String(), Reason: o.Reason.String()}
		if o.Order != nil {
			order := showOrder(o.Order)
			v.Order = &order
		}
		done.Outcomes = append(done.Outcomes, v)
	}
	return answer{status: http.StatusOK, body: done}, nil
}

func (s *Server) dropDead(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	var b struct {
		ReturnStock bool    `json:"return_stock"`
		Reason      *string `json:"reason"`
	}
	err = body(r, &b, false)
	by, wrong := actor(r, b.Reason)
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	if err := s.o.Desk.DropDead(r.Context(), id, b.ReturnStock, by); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: deadDone{ID: id, State: "dropped"}}, nil
}
