package sqlstore

import (
	"context"
	"encoding/json"
	"math"

	"seckill"
)

// Bounds of the audit log's columns; longer text is cut.
const (
	auditNameBytesMax = 255
	auditTextBytesMax = 16 << 10
)

func (t tx) audit(ctx context.Context, by seckill.Actor, action, object, detail string) error {
	_, err := t.exec(ctx, `INSERT INTO seckill_audit (create_time, who, source, reason, action, object, detail)
		VALUES ({now},?,?,?,?,?,?)`, clip(by.Who, auditNameBytesMax), clip(by.From, auditNameBytesMax),
		clip(by.Reason, auditTextBytesMax), action, object, clip(detail, auditTextBytesMax))
	return err
}

// Note writes an entry about what is not changed in this database.
func (db *DB) Note(ctx context.Context, by seckill.Actor, action, object, detail string) error {
	return db.fail("write the audit log", db.inTx(ctx, func(t tx) error { return t.audit(ctx, by, action, object, detail) }))
}

// detail makes the JSON of an audit entry from names and values.
func detail(namesAndValues ...any) string {
	object := map[string]any{}
	for i := 0; i < len(namesAndValues); i += 2 {
		object[namesAndValues[i].(string)] = namesAndValues[i+1]
	}
	return asJSON(object)
}

func asJSON(object map[string]any) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // Strings, numbers and times always encode.
	}
	return string(text)
}

// Audit lists the audit log, newest first, ids below before (0 from the newest).
func (db *DB) Audit(ctx context.Context, before int64, limit int) (entries []seckill.AuditEntry, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	err = db.reader().rows(ctx, func(scan func(...any) error) error {
		var e seckill.AuditEntry
		var when stamp
		err := scan(&e.ID, &when, &e.Actor.Who, &e.Actor.From, &e.Actor.Reason, &e.Action, &e.Object, &e.Detail)
		e.At = when.Time
		entries = append(entries, e)
		return err
	}, `SELECT id, create_time, who, source, reason, action, object, detail FROM seckill_audit
		WHERE id < ? ORDER BY id DESC LIMIT ?`, before, limit)
	return entries, db.fail("read the audit log", err)
}
