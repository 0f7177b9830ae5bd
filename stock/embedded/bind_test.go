package embedded

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
)

// A file of the time before stocks were bound is bound by its first Bind, and stays so.
func TestAnOldFileIsBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stock.db")
	e, err := Open(t.Context(), Options{Path: path})
	must(t, err)
	must(t, e.Close())
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.ExecContext(t.Context(), "DROP TABLE bound")
	must(t, err)
	must(t, db.Close())
	for _, order := range [][]string{{"first", "second"}, {"second", "first"}} {
		e, err := Open(t.Context(), Options{Path: path})
		must(t, err)
		for _, database := range order {
			if got, err := e.Bind(t.Context(), database); err != nil || got != "first" {
				t.Errorf("bind to %s: got %q, %v", database, got, err)
			}
			if e.bound != "first" {
				t.Errorf("remembers %q", e.bound)
			}
		}
		must(t, e.Close())
		if _, err := e.Bind(t.Context(), "first"); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if _, err := e.Bind(t.Context(), ""); err == nil {
			t.Error("bound to nothing")
		}
	}
}
