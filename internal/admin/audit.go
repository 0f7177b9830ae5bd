package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"seckill"
)

// auditLog tells who changed what.
type auditLog interface {
	// Audit lists the newest first, ids below before (0 from the newest).
	Audit(ctx context.Context, before int64, max int) ([]seckill.AuditEntry, error)
}

// auditView is a line of the audit log as the API shows it.
type auditView struct {
	ID     int64           `json:"id"`
	At     time.Time       `json:"at"`
	Who    string          `json:"who"`
	From   string          `json:"from"`
	Reason string          `json:"reason"`
	Action string          `json:"action"`
	Object string          `json:"object"`
	Detail json.RawMessage `json:"detail"`
}

type auditList struct {
	Audit  []auditView `json:"audit"`
	Cursor string      `json:"cursor,omitempty"`
}

func (s *Server) listAudit(r *http.Request) (answer, error) {
	limit, cursor, err := paging(r)
	if err != nil {
		return answer{}, err
	}
	entries, err := s.o.Audit.Audit(r.Context(), cursor, limit+1)
	if err != nil {
		return answer{}, err
	}
	entries, next := nextCursor(entries, limit, func(e seckill.AuditEntry) int64 { return e.ID })
	views := make([]auditView, len(entries))
	for i, e := range entries {
		views[i] = auditView{e.ID, e.At.UTC(), e.Actor.Who, e.Actor.From, e.Actor.Reason, e.Action, e.Object, detail(e.Detail)}
	}
	return answer{status: http.StatusOK, body: auditList{views, next}}, nil
}

// detail passes JSON on as it is. Text that was cut is no JSON any more, and is shown as text.
func detail(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // A string always encodes.
	}
	return quoted
}
