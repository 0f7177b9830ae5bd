package admin

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"seckill"
)

// operator carries out what is asked for.
type operator interface {
	// Check and CheckRun say everything that is wrong, by the names of the API's fields.
	Check(a seckill.Activity) []seckill.FieldError
	CheckRun(startsAt, endsAt time.Time, units int64) []seckill.FieldError

	Create(ctx context.Context, a seckill.Activity, by seckill.Actor) (seckill.Activity, error)
	Get(ctx context.Context, id int64) (seckill.Activity, error)
	List(ctx context.Context) ([]*seckill.Activity, error)
	Preload(ctx context.Context, id int64, by seckill.Actor) (seckill.Activity, error)
	Pause(ctx context.Context, id int64, by seckill.Actor) (seckill.Activity, error)
	Resume(ctx context.Context, id int64, by seckill.Actor) (seckill.Activity, error)
	Close(ctx context.Context, id int64, by seckill.Actor) (seckill.Activity, error)
	Restock(ctx context.Context, id, units int64, by seckill.Actor) (a seckill.Activity, did int64, pending bool, err error)
	Rerun(ctx context.Context, id int64, startsAt, endsAt time.Time, units int64, by seckill.Actor) (seckill.Activity, error)
}

// levels is what this node knows of the stock.
type levels interface {
	Available(run seckill.RunID) (int64, bool)
}

// books counts where the units of a run are.
type books interface {
	Books(ctx context.Context, run seckill.RunID) (seckill.Books, error)
}

// activityView is an activity as the API shows it.
type activityView struct {
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
	Remaining    int64         `json:"remaining"`
	LimitPerUser int           `json:"limit_per_user"`
	Challenge    bool          `json:"challenge"`
	EntryToken   bool          `json:"entry_token"`

	SubStocks            int              `json:"sub_stocks"`
	PreloadBeforeSeconds int64            `json:"preload_before_seconds"`
	PaymentWindowSeconds int64            `json:"payment_window_seconds"`
	Audience             seckill.Audience `json:"audience"`
	CreatedAt            time.Time        `json:"created_at"`
	Epoch                int64            `json:"epoch"`
	Books                *seckill.Books   `json:"books"` // null while they cannot be counted.
}

// show makes the view of an activity. Books that cannot be counted do not keep an operator
// from seeing, and stopping, a sale.
func (s *Server) show(ctx context.Context, a *seckill.Activity) activityView {
	now := time.Now()
	available, known := s.o.Levels.Available(a.RunID())
	v := activityView{
		ID: a.ID, Name: a.Name, Description: a.Description, PriceCents: a.PriceCents,
		State: a.State(now, known && available == 0), Run: a.Run,
		StartsAt: a.StartsAt.UTC(), EndsAt: a.EndsAt.UTC(), ServerTime: now.UTC(),
		Total: a.Total, Remaining: available, LimitPerUser: a.LimitPerUser,
		Challenge: a.Challenge, EntryToken: a.EntryToken,

		SubStocks: a.SubStocks, PreloadBeforeSeconds: int64(a.PreloadBefore / time.Second),
		PaymentWindowSeconds: int64(a.PaymentWindow / time.Second), Audience: a.Audience,
		CreatedAt: a.CreatedAt.UTC(), Epoch: a.Epoch,
	}
	b, err := s.o.Books.Books(ctx, a.RunID())
	switch {
	case err == nil:
		v.Books = &b
		if !known {
			v.Remaining = b.Available
		}
	case ctx.Err() == nil:
		s.o.Log.Warn("admin: the books cannot be counted", "activity", a.ID, "run", a.Run, "error", err)
	}
	return v
}

func (s *Server) shown(r *http.Request, a seckill.Activity, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: s.show(r.Context(), &a)}, nil
}

// newActivity is the body of a request to create one.
type newActivity struct {
	Name                 string    `json:"name"`
	Stock                int64     `json:"stock"`
	StartsAt             time.Time `json:"starts_at"`
	EndsAt               time.Time `json:"ends_at"`
	Description          *string   `json:"description"`
	PriceCents           *int64    `json:"price_cents"`
	LimitPerUser         *int32    `json:"limit_per_user"`
	SubStocks            *int32    `json:"sub_stocks"`
	PreloadBeforeSeconds *int64    `json:"preload_before_seconds"`
	PaymentWindowSeconds *int64    `json:"payment_window_seconds"`
	Challenge            *bool     `json:"challenge"`
	EntryToken           *bool     `json:"entry_token"`
	Audience             *string   `json:"audience"`
	Reason               *string   `json:"reason"`
}

// activity fills in what was not given.
func (n *newActivity) activity() seckill.Activity {
	return seckill.Activity{
		Name: n.Name, Total: n.Stock, StartsAt: n.StartsAt, EndsAt: n.EndsAt,
		Description: or(n.Description, ""), PriceCents: or(n.PriceCents, 0),
		LimitPerUser: int(or(n.LimitPerUser, 1)), SubStocks: int(or(n.SubStocks, 1)),
		PreloadBefore: seconds(or(n.PreloadBeforeSeconds, 300)), PaymentWindow: seconds(or(n.PaymentWindowSeconds, 900)),
		Challenge: or(n.Challenge, false), EntryToken: or(n.EntryToken, false),
		Audience: seckill.Audience(or(n.Audience, string(seckill.AudienceEveryone))),
	}
}

func or[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}

// seconds keeps what is out of all bounds out of them, where the product would overflow.
func seconds(n int64) time.Duration {
	const most = 1 << 32
	return time.Duration(min(max(n, -most), most)) * time.Second
}

func (s *Server) createActivity(r *http.Request) (answer, error) {
	var n newActivity
	err := body(r, &n, false)
	by, wrong := actor(r, n.Reason)
	a := n.activity()
	if err := merge(err, append(s.o.Operator.Check(a), wrong...)); err != nil {
		return answer{}, err
	}
	created, err := s.o.Operator.Create(r.Context(), a, by)
	if err != nil {
		return answer{}, err
	}
	return answer{
		status:   http.StatusCreated,
		location: fmt.Sprintf("/admin/v1/activities/%d", created.ID),
		body:     s.show(r.Context(), &created),
	}, nil
}

func (s *Server) getActivity(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	a, err := s.o.Operator.Get(r.Context(), id)
	return s.shown(r, a, err)
}

const (
	// Books of a list are counted several at a time, and not for longer than booksFor in
	// all: those of a sale that is under way are worth a wait only when it is looked at.
	booksAtOnce = 8
	booksFor    = 2 * time.Second
)

type activityList struct {
	Activities []activityView `json:"activities"`
	Cursor     string         `json:"cursor,omitempty"`
}

func (s *Server) listActivities(r *http.Request) (answer, error) {
	limit, cursor, err := paging(r)
	if err != nil {
		return answer{}, err
	}
	all, err := s.o.Operator.List(r.Context())
	if err != nil {
		return answer{}, err
	}
	var page []*seckill.Activity
	for _, a := range all {
		if a.ID > cursor && len(page) <= limit {
			page = append(page, a)
		}
	}
	page, next := nextCursor(page, limit, func(a *seckill.Activity) int64 { return a.ID })

	ctx, cancel := context.WithTimeout(r.Context(), booksFor)
	defer cancel()
	views := make([]activityView, len(page))
	var shows sync.WaitGroup
	slots := make(chan struct{}, booksAtOnce)
	for i, a := range page {
		slots <- struct{}{}
		shows.Go(func() {
			views[i] = s.show(ctx, a)
			<-slots
		})
	}
	shows.Wait()
	return answer{status: http.StatusOK, body: activityList{views, next}}, nil
}
