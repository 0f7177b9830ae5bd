package sqlstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/order"
)

// Four nodes that start at once on an empty database end with one schema, and so do
// four that find it there. Each has connections of its own, as processes do.
func claimMigrate(t *testing.T, p *place) {
	for _, table := range p.tables(t) {
		p.raw(t, "DROP TABLE "+table)
	}
	var rows [2]int
	for round := range rows {
		var nodes []func(context.Context) error
		for range 4 {
			db, err := Open(t.Context(), p.url, Options{})
			must(t, err)
			defer func() { must(t, db.Close()) }()
			nodes = append(nodes, db.Migrate)
		}
		together(t, nodes...)
		must(t, p.write.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM seckill_meta").Scan(&rows[round]))
	}
	if rows[0] == 0 || rows[0] != rows[1] {
		t.Fatalf("seckill_meta has %d rows, and %d after a second time", rows[0], rows[1])
	}
	var done int
	files, err := migrations.ReadDir("migrations/" + p.dialect.name)
	must(t, err)
	must(t, p.write.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM seckill_schema WHERE version_id > 0").Scan(&done))
	equal(t, "migrations done", done, len(files))
	p.sale(t, 1, 0)

	// A process that died when it had changed the schema, and before it wrote that down, has harmed nobody.
	indexes := p.indexes(t)
	p.raw(t, "DELETE FROM seckill_schema WHERE version_id = ?", len(files))
	must(t, p.Migrate(t.Context()))
	if again := p.indexes(t); !slices.Equal(again, indexes) || !slices.ContainsFunc(again, func(s string) bool { return strings.HasSuffix(s, "_state") }) {
		t.Fatalf("indexes of the orders: %q, and %q when the last migration was done again", indexes, again)
	}

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

// indexes lists those of the orders.
func (p *place) indexes(t *testing.T) (names []string) {
	t.Helper()
	query := "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'seckill_order'"
	if p.isSQLite() {
		query = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'seckill_order'"
	}
	must(t, p.reader().rows(t.Context(), func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	}, query+" ORDER BY 1"))
	return names
}

// tables lists what migrations have made.
func (p *place) tables(t *testing.T) (names []string) {
	t.Helper()
	query := "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
	if p.isSQLite() {
		query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'seckill_%'"
	}
	must(t, p.reader().rows(t.Context(), func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	}, query))
	if len(names) < 10 {
		t.Fatalf("only %d tables: %q", len(names), names)
	}
	return names
}
