package admin

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"seckill"
	"seckill/internal/plan"
)

// planned works out what a sale will bring, as `seckill plan` does.
func (s *Server) planned(r *http.Request) (answer, error) {
	q := planQuery{values: r.URL.Query()}
	in := plan.Default()
	if len(q.values["participants"]) == 0 {
		q.no("participants", seckill.RuleRequired, "")
	}
	q.integer("participants", &in.Participants)
	q.factor("clicks", &in.Clicks)
	q.duration("duration", &in.Duration)
	q.factor("peak_factor", &in.PeakFactor)
	q.factor("headroom", &in.Headroom)
	q.integer("node_qps", &in.NodeQPS)
	if err := merge(nil, q.wrong); err != nil {
		return answer{}, err
	}
	e, err := plan.Make(in)
	if wrong, ok := errors.AsType[*plan.Problem](err); ok {
		return answer{}, seckill.Invalid(strings.ReplaceAll(wrong.Field, "-", "_"), seckill.RuleFormat, wrong.Accepted)
	}
	if err != nil {
		return answer{}, fmt.Errorf("plan: %w", err)
	}
	return answer{status: http.StatusOK, body: e}, nil
}

// planQuery reads parameters, and gathers what is wrong with them. One that is not given stays as it is.
type planQuery struct {
	values url.Values
	wrong  []seckill.FieldError
}

func (q *planQuery) no(name string, rule seckill.Rule, arg string) {
	q.wrong = append(q.wrong, seckill.FieldError{Field: name, Rule: rule, Arg: arg})
}

func (q *planQuery) given(name string) (string, bool) {
	switch values := q.values[name]; len(values) {
	case 0:
		return "", false
	case 1:
		return values[0], true
	}
	q.no(name, seckill.RuleRepeated, "")
	return "", false
}

func (q *planQuery) integer(name string, into *int64) {
	text, ok := q.given(name)
	if !ok {
		return
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		q.no(name, seckill.RuleType, "integer")
		return
	}
	*into = n
}

func (q *planQuery) factor(name string, into **big.Rat) {
	text, ok := q.given(name)
	if !ok {
		return
	}
	if *into, ok = plan.ParseFactor(text); !ok {
		q.no(name, seckill.RuleFormat, "a decimal number such as 0.5")
	}
}

func (q *planQuery) duration(name string, into *time.Duration) {
	text, ok := q.given(name)
	if !ok {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		q.no(name, seckill.RuleFormat, "a duration such as 60s")
		return
	}
	*into = d
}
