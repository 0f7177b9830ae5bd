package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const insertOrders = `INSERT INTO seckill_order (id, activity_id, user_id, status, create_time, run, ticket, slot,
	quantity, amount_cents, pay_before, payment_ref, update_time) VALUES `

// preparedInsert stores that many orders.
type preparedInsert struct {
	rows int
	stmt *sql.Stmt
}

// orderInserts returns the prepared INSERTs. They are prepared before a transaction
// begins: a transaction of SQLite has the only connection that writes.
func (db *DB) orderInserts(ctx context.Context) ([]preparedInsert, error) {
	db.insertsMu.Lock()
	defer db.insertsMu.Unlock()
	for _, n := range db.dialect.prepared[len(db.inserts):] {
		text := insertOrders + strings.TrimSuffix(strings.Repeat("(?,?,?,1,?,?,?,?,?,?,?,'',?),", n), ",")
		if db.dialect.fit(text, nil) != nil {
			return nil, nil // The server takes no statement of that length.
		}
		stmt, err := db.write.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		db.inserts = append(db.inserts, preparedInsert{n, stmt})
	}
	return db.inserts, nil
}

// insert stores new orders, some hundred in a statement.
func (b *batch) insert(ctx context.Context, t tx, h head, chosen []int) error {
	ids := make([]int64, len(chosen))
	for n, i := range chosen {
		ids[n] = t.db.ids.next()
		b.out[i].Order.ID = strconv.FormatInt(ids[n], 10)
	}
	sqlTx, ok := t.q.(*sql.Tx)
	if !ok {
		return impossible{"orders are written outside of a transaction"}
	}
	// To make arguments is most of what the program does for an order: what is the same in each row becomes one
	// once, and numbers are of the type that goes to the server as it is.
	var activity, run, now, payBefore any = b.run.Activity, int64(b.run.Run), formatTime(h.now), formatTime(h.now.Add(h.window))
	var args []any
	for _, p := range b.inserts {
		for ; len(chosen) >= p.rows; chosen, ids = chosen[p.rows:], ids[p.rows:] {
			args = slices.Grow(args[:0], 11*p.rows)
			for n, i := range chosen[:p.rows] {
				o := b.out[i].Order
				args = append(args, ids[n], activity, buyerID(o.Buyer).stored(), now, run, o.Ticket, int64(o.Slot),
					int64(o.Quantity), o.AmountCents, payBefore, now)
			}
			if t.db.dialect.fit(insertOrders, args) != nil {
				break
			}
			if _, err := sqlTx.StmtContext(ctx, p.stmt).ExecContext(ctx, args...); err != nil { //nolint:sqlclosecheck // Its transaction closes it.
				return err
			}
		}
	}
	return b.insertText(ctx, t, h, chosen, ids)
}

// insertText is insert by statements that are not prepared. What is the same in each row is
// part of the text; all of it is numbers and times of ours.
func (b *batch) insertText(ctx context.Context, t tx, h head, chosen []int, ids []int64) error {
	now, payBefore := formatTime(h.now), formatTime(h.now.Add(h.window))
	row := fmt.Sprintf("(?,%d,?,1,'%s',%d,?,?,?,?,'%s','','%s'),", b.run.Activity, now, b.run.Run, payBefore, now)
	for chunk := range slices.Chunk(chosen, t.db.dialect.rowsMax) {
		args := make([]any, 0, 6*len(chunk))
		for n, i := range chunk {
			o := b.out[i].Order
			args = append(args, ids[n], buyerID(o.Buyer).stored(), o.Ticket, int64(o.Slot), int64(o.Quantity), o.AmountCents)
		}
		ids = ids[len(chunk):]
		if _, err := t.exec(ctx, insertOrders+strings.TrimSuffix(strings.Repeat(row, len(chunk)), ","), args...); err != nil {
			return err
		}
	}
	return nil
}
