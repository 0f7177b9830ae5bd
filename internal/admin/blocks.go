package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"seckill"
)

// blocks keep somebody from buying.
type blocks interface {
	// CheckBlock says what is wrong with a block, by the names of the API's fields.
	CheckBlock(kind seckill.BlockKind, value string) []seckill.FieldError
	// Blocks lists those that are active, newest first, ids below before (0 from the newest).
	Blocks(ctx context.Context, before int64, limit int) ([]seckill.Block, error)
	AddBlock(ctx context.Context, kind seckill.BlockKind, value string, until time.Time, by seckill.Actor) (seckill.Block, error)
	RemoveBlock(ctx context.Context, id int64, by seckill.Actor) error
}

// blockView is a block as the API shows it.
type blockView struct {
	ID        int64             `json:"id"`
	Kind      seckill.BlockKind `json:"kind"`
	Value     string            `json:"value"`
	Until     *time.Time        `json:"until"` // null if it does not end by itself.
	Reason    string            `json:"reason"`
	Source    string            `json:"source"` // operator, or automatic.
	CreatedAt time.Time         `json:"created_at"`
	CreatedBy string            `json:"created_by"`
}

func showBlock(b *seckill.Block) blockView {
	v := blockView{
		ID: b.ID, Kind: b.Kind, Value: b.Value, Reason: b.By.Reason, Source: "operator",
		CreatedAt: b.CreatedAt.UTC(), CreatedBy: b.By.Who,
	}
	if b.Automatic {
		v.Source = "automatic"
	}
	if !b.Until.IsZero() {
		until := b.Until.UTC()
		v.Until = &until
	}
	return v
}

type blockList struct {
	Blocks []blockView `json:"blocks"`
	Cursor string      `json:"cursor,omitempty"`
}

func (s *Server) listBlocks(r *http.Request) (answer, error) {
	limit, cursor, err := paging(r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.o.Blocks.Blocks(r.Context(), cursor, limit+1)
	if err != nil {
		return answer{}, err
	}
	list, next := nextCursor(list, limit, func(b seckill.Block) int64 { return b.ID })
	views := make([]blockView, len(list))
	for i := range list {
		views[i] = showBlock(&list[i])
	}
	return answer{status: http.StatusOK, body: blockList{views, next}}, nil
}

func (s *Server) addBlock(r *http.Request) (answer, error) {
	var b struct {
		Kind   string     `json:"kind"`
		Value  string     `json:"value"`
		Until  *time.Time `json:"until"`
		Reason *string    `json:"reason"`
	}
	err := body(r, &b, false)
	by, wrong := because(r, b.Reason)
	if b.Until != nil {
		wrong = append(wrong, blockUntil(*b.Until, time.Now())...)
	}
	if err := merge(err, append(s.o.Blocks.CheckBlock(seckill.BlockKind(b.Kind), b.Value), wrong...)); err != nil {
		return answer{}, err
	}
	made, err := s.o.Blocks.AddBlock(r.Context(), seckill.BlockKind(b.Kind), b.Value, or(b.Until, time.Time{}), by)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, location: fmt.Sprintf("/admin/v1/blocks/%d", made.ID), body: showBlock(&made)}, nil
}

// blockUntil checks the end of a block. Who means for ever leaves it out.
func blockUntil(until, now time.Time) []seckill.FieldError {
	last := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC) // What every database can hold.
	switch {
	case !until.After(now):
		return []seckill.FieldError{{Field: "until", Rule: seckill.RuleAfter, Arg: "now"}}
	case !until.Before(last):
		return []seckill.FieldError{{Field: "until", Rule: seckill.RuleMax, Arg: last.Format(time.RFC3339)}}
	}
	return nil
}

func (s *Server) removeBlock(r *http.Request) (answer, error) {
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
	if err := s.o.Blocks.RemoveBlock(r.Context(), id, by); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, nil
}
