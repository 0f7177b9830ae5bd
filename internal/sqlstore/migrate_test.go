package sqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"seckill/internal/order"
)

// Four nodes that start at once on an empty database end with one schema, and so do
// four that find it there. Each has connections of its own, as processes do.
func claimMigrate(t *testing.T, p *place) {
	p.raw(t, "DROP TABLE seckill_schema")
	for _, table := range []string{
		"activity", "stock", "order", "refused", "todo", "restock", "dead_letter", "audit", "meta",
		"switch", "switch_plan", "block", "audience", "audience_chunk",
		"node", "secret", "note",
	} {
		p.raw(t, "DROP TABLE seckill_"+table)
	}
	for range 2 {
		var nodes []func(context.Context) error
		for range 4 {
			db, err := Open(t.Context(), p.url, Options{})
			must(t, err)
			defer func() { must(t, db.Close()) }()
			nodes = append(nodes, db.Migrate)
		}
		together(t, nodes...)
	}
	var rows int
	must(t, p.write.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM seckill_meta").Scan(&rows))
	equal(t, "rows of seckill_meta", rows, 6)
	files, err := migrations.ReadDir("migrations/" + p.dialect.name)
	must(t, err)
	must(t, p.write.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM seckill_schema WHERE version_id > 0").Scan(&rows))
	equal(t, "migrations done", rows, len(files))
	p.sale(t, 1, 0)

	// Who comes while another migrates waits for it.
	unlock, err := p.dialect.lockMigrations(t.Context(), p.write)
	must(t, err)
	other, err := Open(t.Context(), p.url, Options{})
	must(t, err)
	defer func() { must(t, other.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := other.Migrate(ctx); !errors.Is(err, order.ErrUnavailable) {
		t.Fatalf("migrating beside another: %v", err)
	}
	must(t, unlock())
	must(t, other.Migrate(t.Context()))

	// A program must not write into a schema that it does not know.
	p.raw(t, "UPDATE seckill_schema SET version_id = 99 WHERE version_id = 1")
	if err := p.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "use a newer program") {
		t.Fatalf("a newer schema: got error %v", err)
	}
}
