package admin

import (
	"context"
	"net/http"
	"time"

	"seckill"
)

// reconciler compares stock, queue and database.
type reconciler interface {
	Reconcile(ctx context.Context, activityID int64, repair bool, by seckill.Actor) (seckill.Books, []seckill.Finding, error)
}

// command answers a request that asks for one thing and has nothing to say but why.
func (s *Server) command(do func(context.Context, int64, seckill.Actor) (seckill.Activity, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
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
		a, err := do(r.Context(), id, by)
		return s.shown(r, a, err)
	}
}

// restocked is an activity and what a restock did.
type restocked struct {
	activityView
	Restocked int64 `json:"restocked"`
	// Pending says that the stock could not be told yet; restocked is then 0.
	Pending bool `json:"pending"`
}

func (s *Server) restock(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	var b struct {
		Quantity int64   `json:"quantity"`
		Reason   *string `json:"reason"`
	}
	err = body(r, &b, false)
	by, wrong := actor(r, b.Reason)
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	a, did, pending, err := s.o.Operator.Restock(r.Context(), id, b.Quantity, by)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: restocked{s.show(r.Context(), &a), did, pending}}, nil
}

func (s *Server) rerun(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	var b struct {
		StartsAt time.Time `json:"starts_at"`
		EndsAt   time.Time `json:"ends_at"`
		Stock    int64     `json:"stock"`
		Reason   *string   `json:"reason"`
	}
	err = body(r, &b, false)
	by, wrong := actor(r, b.Reason)
	if err := merge(err, append(s.o.Operator.CheckRun(b.StartsAt, b.EndsAt, b.Stock), wrong...)); err != nil {
		return answer{}, err
	}
	a, err := s.o.Operator.Rerun(r.Context(), id, b.StartsAt, b.EndsAt, b.Stock, by)
	return s.shown(r, a, err)
}

// comparison is the answer to a reconciliation.
type comparison struct {
	Balanced bool              `json:"balanced"`
	Books    seckill.Books     `json:"books"`
	Findings []seckill.Finding `json:"findings"`
}

func (s *Server) reconcile(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	var b struct {
		Repair *bool   `json:"repair"`
		Reason *string `json:"reason"`
	}
	err = body(r, &b, true)
	by, wrong := actor(r, b.Reason)
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	if or(b.Repair, false) && !callerOf(r).role.May(seckill.RoleOperator) {
		return answer{}, notAllowedTo(seckill.RoleOperator)
	}
	counted, findings, err := s.o.Reconciler.Reconcile(r.Context(), id, or(b.Repair, false), by)
	if err != nil {
		return answer{}, err
	}
	if findings == nil {
		findings = []seckill.Finding{}
	}
	return answer{status: http.StatusOK, body: comparison{counted.Balanced, counted, findings}}, nil
}
