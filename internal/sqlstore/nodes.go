package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"seckill"
	"seckill/internal/entry"
)

// nodeForgotten is how long a node that says nothing any more is listed.
const nodeForgotten = time.Hour

// nodesMax bounds the list.
const nodesMax = 1000

// Beat notes that a node lives, and what it says of itself.
func (db *DB) Beat(ctx context.Context, n seckill.Node) error {
	return db.fail("note that this node lives", db.inTx(ctx, func(t tx) error {
		matched, err := t.exec(ctx, `UPDATE seckill_node SET seen_time = {now}, ready = ?, reason = ?, stock_name = ?, queue_name = ?,
			database_name = ?, figures = ? WHERE id = ?`, flag(n.Ready), n.Reason, clip(n.Stock, auditNameBytesMax), clip(n.Queue, auditNameBytesMax),
			clip(n.Database, auditNameBytesMax), n.Figures, n.ID)
		if err != nil || matched > 0 {
			return err
		}
		if _, err := t.exec(ctx, `INSERT INTO seckill_node (id, address, roles, version, start_time, seen_time, ready, reason, stock_name, queue_name,
			database_name, figures) VALUES (?,?,?,?,?,{now},?,?,?,?,?,?)`, n.ID, clip(n.Address, auditNameBytesMax), strings.Join(n.Roles, ","), clip(n.Version, 64),
			at(n.StartedAt), flag(n.Ready), n.Reason, clip(n.Stock, auditNameBytesMax), clip(n.Queue, auditNameBytesMax), clip(n.Database, auditNameBytesMax), n.Figures); err != nil {
			return err
		}
		var now stamp
		if err := t.row(ctx, "SELECT {now}", nil, &now); err != nil {
			return err
		}
		_, err = t.exec(ctx, "DELETE FROM seckill_node WHERE seen_time < ?", at(now.Add(-nodeForgotten)))
		return err
	}))
}

// Leave forgets a node that ends in good order.
func (db *DB) Leave(ctx context.Context, id string) error {
	return db.fail("forget this node", db.inTx(ctx, func(t tx) error {
		_, err := t.exec(ctx, "DELETE FROM seckill_node WHERE id = ?", id)
		return err
	}))
}

// Nodes lists the processes that were seen lately, the longest running first, and tells the database's time.
func (db *DB) Nodes(ctx context.Context) (nodes []seckill.Node, now time.Time, err error) {
	r := db.reader()
	var clock stamp
	if err := r.row(ctx, "SELECT {now}", nil, &clock); err != nil {
		return nil, now, db.fail("read the database's clock", err)
	}
	err = r.rows(ctx, func(scan func(...any) error) error {
		var n seckill.Node
		var started, seen stamp
		var roles string
		err := scan(&n.ID, &n.Address, &roles, &n.Version, &started, &seen, &n.Ready, &n.Reason, &n.Stock, &n.Queue, &n.Database, &n.Figures)
		n.StartedAt, n.SeenAt, n.Roles = started.Time, seen.Time, strings.Split(roles, ",")
		nodes = append(nodes, n)
		return err
	}, `SELECT id, address, roles, version, start_time, seen_time, ready, reason, stock_name, queue_name, database_name, COALESCE(figures, '')
		FROM seckill_node WHERE seen_time >= ? ORDER BY start_time, id LIMIT ?`, at(clock.Add(-nodeForgotten)), nodesMax)
	return nodes, clock.Time, db.fail("list the nodes", err)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SharedKeys returns the keys that all nodes have for a purpose, once change has had its say: it
// is given those there are, and one node at a time.
func (db *DB) SharedKeys(ctx context.Context, purpose string, change func([]entry.Key) (next []entry.Key, changed bool)) (keys []entry.Key, err error) {
	err = db.inTx(ctx, func(t tx) error {
		var one int64
		// The row that all who change secrets lock.
		if err := t.row(ctx, "SELECT value FROM seckill_meta WHERE name = 'control_version'"+db.dialect.lockRow, nil, &one); err != nil {
			return err
		}
		keys = nil
		if err := t.rows(ctx, func(scan func(...any) error) error {
			var k entry.Key
			var begins stamp
			err := scan(&k.ID, &k.Secret, &begins)
			k.NotBefore = begins.Time
			keys = append(keys, k)
			return err
		}, "SELECT id, secret, not_before FROM seckill_secret WHERE purpose = ? ORDER BY not_before, id", purpose); err != nil {
			return err
		}
		next, changed := change(keys)
		if !changed {
			return nil
		}
		if _, err := t.exec(ctx, "DELETE FROM seckill_secret WHERE purpose = ?", purpose); err != nil {
			return err
		}
		for _, k := range next {
			if _, err := t.exec(ctx, "INSERT INTO seckill_secret (purpose, id, secret, not_before) VALUES (?,?,?,?)", purpose, k.ID, k.Secret, at(k.NotBefore)); err != nil {
				return err
			}
		}
		keys = next
		return nil
	})
	return keys, db.fail("read the shared keys", err)
}

// Remembered is what Remember noted under a name; "" if nothing.
func (db *DB) Remembered(ctx context.Context, name string) (value string, err error) {
	err = db.reader().row(ctx, "SELECT value FROM seckill_note WHERE name = ?", []any{name}, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, db.fail("read the note "+name, err)
}

// Remember notes something for the next start of the program, in place of what was noted before.
func (db *DB) Remember(ctx context.Context, name, value string) error {
	return db.fail("write the note "+name, db.inTx(ctx, func(t tx) error {
		if _, err := t.exec(ctx, "DELETE FROM seckill_note WHERE name = ?", name); err != nil {
			return err
		}
		_, err := t.exec(ctx, "INSERT INTO seckill_note (name, value) VALUES (?,?)", name, value)
		return err
	}))
}
