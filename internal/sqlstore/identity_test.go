package sqlstore

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
)

// A database has one identity, whoever asks first, and another database another one.
func claimIdentity(t *testing.T, p *place) {
	var mu sync.Mutex
	seen := map[string]bool{}
	var ask []func(context.Context) error
	for range 4 {
		node, err := Open(t.Context(), p.url, Options{})
		must(t, err)
		defer func() { must(t, node.Close()) }()
		ask = append(ask, func(ctx context.Context) error {
			identity, err := node.Identity(ctx)
			mu.Lock()
			defer mu.Unlock()
			seen[identity] = true
			return err
		})
	}
	together(t, ask...)
	first, err := p.Identity(t.Context())
	must(t, err)
	if len(seen) != 1 || !seen[first] || len(first) != 16 {
		t.Errorf("identities %v and %q, want one", seen, first)
	}
	must(t, p.Migrate(t.Context()))
	again, err := p.Identity(t.Context())
	must(t, err)
	equal(t, "after a migration", again, first)
	p.raw(t, "DELETE FROM seckill_meta WHERE name = 'identity'") // As another database has none yet.
	other, err := p.Identity(t.Context())
	must(t, err)
	if other == first {
		t.Errorf("two databases are both %s", other)
	}
}

// A repair of a row is in the audit log, with who did it, and nothing is that changed nothing. So
// is what is noted of a change elsewhere.
func claimRepairIsAudited(t *testing.T, p *place) {
	run := p.sale(t, 10, 0)
	latest := func() seckill.AuditEntry {
		entries, err := p.Audit(t.Context(), 0, 1)
		must(t, err)
		return entries[0]
	}
	_, err := p.RepairAvailable(t.Context(), run, operator)
	must(t, err)
	equal(t, "nothing was wrong", latest().Action, "activity.create")
	p.raw(t, "UPDATE seckill_stock SET available_stock = 7")
	_, err = p.RepairAvailable(t.Context(), run, operator)
	must(t, err)
	e := latest()
	equal(t, "actor", e.Actor, operator)
	equal(t, "action", e.Action, "reconcile.row")
	if !strings.Contains(e.Detail, "[7,10]") {
		t.Errorf("detail %s", e.Detail)
	}
	must(t, p.Note(t.Context(), operator, "reconcile.restock", "activity/1", `{"quantity":3}`))
	e = latest()
	e.ID, e.At = 0, time.Time{}
	equal(t, "noted", e, seckill.AuditEntry{Actor: operator, Action: "reconcile.restock", Object: "activity/1", Detail: `{"quantity":3}`})
}
