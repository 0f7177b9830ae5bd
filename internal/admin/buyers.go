package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"seckill"
)

type orderList struct {
	Orders []orderView `json:"orders"`
	Cursor string      `json:"cursor,omitempty"`
}

// listOrders lists a buyer's orders, the newest first.
func (s *Server) listOrders(r *http.Request) (answer, error) {
	limit, cursor, err := paging(r)
	buyers := r.URL.Query()["buyer"]
	var wrong []seckill.FieldError
	switch {
	case len(buyers) > 1:
		wrong = append(wrong, seckill.FieldError{Field: "buyer", Rule: seckill.RuleRepeated})
	case len(buyers) == 0 || buyers[0] == "":
		wrong = append(wrong, seckill.FieldError{Field: "buyer", Rule: seckill.RuleRequired})
	case !seckill.ValidBuyer(buyers[0]):
		wrong = append(wrong, seckill.FieldError{Field: "buyer", Rule: seckill.RuleFormat, Arg: fmt.Sprintf("1 to %d bytes of printable ASCII", seckill.BuyerBytesMax)})
	}
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	before := ""
	if cursor > 0 {
		before = strconv.FormatInt(cursor, 10)
	}
	list, err := s.o.Desk.Orders(r.Context(), buyers[0], before, limit+1)
	if err != nil {
		return answer{}, err
	}
	var page orderList
	if len(list) > limit {
		list = list[:limit]
		page.Cursor = list[limit-1].ID
	}
	page.Orders = make([]orderView, len(list))
	for i := range list {
		page.Orders[i] = showOrder(&list[i])
	}
	return answer{status: http.StatusOK, body: page}, nil
}
