package sqlstore

import (
	"database/sql"
	"testing"
	"time"

	"seckill/internal/testenv"
)

// A process that stands still in the middle of a transaction does not keep the stock's row locked for
// long: the server gives its connection up, and others write.
func TestMariaDBFrozenWriter(t *testing.T) {
	p := open(t, testenv.MariaDB(t).URL(t), 1)
	run := p.sale(t, 10, 0)
	frozen, err := p.write.BeginTx(t.Context(), &sql.TxOptions{})
	must(t, err)
	defer func() { _ = frozen.Rollback() }()
	if _, err := frozen.ExecContext(t.Context(), "UPDATE seckill_stock SET available_stock = available_stock - 1"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.mustWrite(t, run, reservation(run, "ann", 1))
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("the other writer waited for %v", took)
	}
	p.balanced(t, run, 10, 1)
}
