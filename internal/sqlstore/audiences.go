package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"seckill"
	"seckill/internal/control"
)

// Audience implements [control.Store].
func (db *DB) Audience(ctx context.Context, activity int64) (seckill.AudienceState, error) {
	t := db.reader()
	a, err := readAudience(ctx, t, activity)
	if err == nil && a.Version == 0 {
		_, err = readActivity(ctx, t, activity) // Not found, if there is none.
	}
	return a, db.fail("read the audience", err)
}

func readAudience(ctx context.Context, t tx, activity int64) (seckill.AudienceState, error) {
	a := seckill.AudienceState{Activity: activity}
	var updated stamp
	err := t.row(ctx, "SELECT version, buyers, update_time FROM seckill_audience WHERE activity_id = ?", []any{activity},
		&a.Version, &a.Count, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return a, nil
	}
	if a.Version > 0 {
		a.UpdatedAt = updated.Time
	}
	return a, err
}

// Audiences implements [control.Store].
func (db *DB) Audiences(ctx context.Context) (heads []control.AudienceHead, err error) {
	err = db.reader().rows(ctx, func(scan func(...any) error) error {
		var h control.AudienceHead
		var updated, ends stamp
		err := scan(&h.Activity, &h.Version, &h.Count, &h.Bytes, &updated, &ends)
		h.UpdatedAt, h.EndsAt = updated.Time, ends.Time
		heads = append(heads, h)
		return err
	}, `SELECT h.activity_id, h.version, h.buyers, h.bytes, h.update_time, a.end_time
		FROM seckill_audience h JOIN seckill_activity a ON a.id = h.activity_id
		WHERE h.version > 0 AND a.audience = 'listed' ORDER BY h.activity_id`)
	return heads, db.fail("read the audiences", err)
}

// AudienceChunks implements [control.Store]. One statement reads them all, so that a list that
// is replaced meanwhile is read whole.
func (db *DB) AudienceChunks(ctx context.Context, activity, version int64, each func(chunk []byte) error) error {
	return db.fail("read an audience", db.reader().rows(ctx, func(scan func(...any) error) error {
		var chunk sql.RawBytes
		if err := scan(&chunk); err != nil {
			return err
		}
		if err := each(chunk); err != nil {
			return asIs{err}
		}
		return nil
	}, "SELECT data FROM seckill_audience_chunk WHERE activity_id = ? AND version = ? ORDER BY chunk", activity, version))
}

// PutAudience implements [control.Store]. Each chunk is a transaction of its own, so that orders
// are written between them; the last one makes the new list hold, and takes older ones away.
func (db *DB) PutAudience(ctx context.Context, activity, buyers int64, chunks [][]byte, by seckill.Actor) (a seckill.AudienceState, err error) {
	const step = "store an audience"
	version, err := db.beginAudience(ctx, activity)
	if err != nil {
		return a, db.fail(step, err)
	}
	bytes := 0
	for i, chunk := range chunks {
		bytes += len(chunk)
		err := db.inTx(ctx, func(t tx) error {
			// A commit whose answer was lost is not repeated by inTx, but a collision is.
			_, err := t.exec(ctx, "INSERT INTO seckill_audience_chunk (activity_id, version, chunk, data) VALUES (?,?,?,?)",
				activity, version, i, chunk)
			return err
		})
		if err != nil {
			return a, db.fail(step, err)
		}
	}
	a, err = db.finishAudience(ctx, seckill.AudienceState{Activity: activity, Version: version, Count: buyers}, bytes, len(chunks), by)
	if err != nil {
		return seckill.AudienceState{}, db.fail(step, err)
	}
	return a, nil
}

// finishAudience makes a list hold whose chunks are stored, unless a newer one does.
func (db *DB) finishAudience(ctx context.Context, made seckill.AudienceState, bytes, chunks int, by seckill.Actor) (a seckill.AudienceState, err error) {
	err = db.inTx(ctx, func(t tx) error {
		present, err := lockAudience(ctx, t, made.Activity)
		if err != nil {
			return err
		}
		if present > made.Version {
			return &seckill.Refusal{Reason: seckill.Conflict, Detail: "Another list was sent meanwhile, and holds."}
		}
		if _, err := t.exec(ctx, `UPDATE seckill_audience SET version = ?, buyers = ?, bytes = ?, chunks = ?, update_time = {now}
			WHERE activity_id = ?`, made.Version, made.Count, bytes, chunks, made.Activity); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "DELETE FROM seckill_audience_chunk WHERE activity_id = ? AND version < ?", made.Activity, made.Version); err != nil {
			return err
		}
		if err := t.audit(ctx, by, "activity.audience", "activity/"+strconv.FormatInt(made.Activity, 10),
			detail("buyers", made.Count, "version", made.Version)); err != nil {
			return err
		}
		if a, err = readAudience(ctx, t, made.Activity); err != nil {
			return err
		}
		return t.raise(ctx, versionOfAudiences)
	})
	return a, err
}

// beginAudience draws the number of a new list.
func (db *DB) beginAudience(ctx context.Context, activity int64) (version int64, err error) {
	err = db.inTx(ctx, func(t tx) error {
		if _, err := lockActivity(ctx, t, activity); err != nil {
			return err
		}
		version = 0
		err := t.row(ctx, "SELECT last_version FROM seckill_audience WHERE activity_id = ?", []any{activity}, &version)
		version++
		switch {
		case errors.Is(err, sql.ErrNoRows):
			_, err = t.exec(ctx, `INSERT INTO seckill_audience (activity_id, version, last_version, buyers, bytes, chunks, update_time)
				VALUES (?,0,?,0,0,0,{now})`, activity, version)
		case err == nil:
			_, err = t.exec(ctx, "UPDATE seckill_audience SET last_version = ? WHERE activity_id = ?", version, activity)
		}
		return err
	})
	return version, err
}

func lockAudience(ctx context.Context, t tx, activity int64) (present int64, err error) {
	err = t.row(ctx, "SELECT version FROM seckill_audience WHERE activity_id = ?"+t.db.dialect.lockRow, []any{activity}, &present)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("the row of activity %d's audience has gone", activity)
	}
	return present, err
}
