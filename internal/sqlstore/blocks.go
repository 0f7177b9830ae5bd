package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"time"

	"seckill"
)

const (
	blocksMax = 1_000_000
	// sweepRows is how many rows one transaction of a sweep takes away.
	sweepRows = 1000
	// removedFor is how long a removed block is kept, so that nodes that were away hear of it.
	removedFor = time.Hour
	// blocksNoted is how many blocks of a batch the audit log names.
	blocksNoted = 20
)

const blockColumns = "id, kind, value, until_time, automatic, who, source, reason, create_time"

func scanBlock(scan func(...any) error, more ...any) (b seckill.Block, err error) {
	var value buyerID
	var until, created stamp
	err = scan(append([]any{&b.ID, &b.Kind, &value, &until, &b.Automatic, &b.By.Who, &b.By.From, &b.By.Reason, &created}, more...)...)
	b.Value, b.Until, b.CreatedAt = string(value), until.Time, created.Time
	return b, err
}

// Blocks implements [control.Store].
func (db *DB) Blocks(ctx context.Context, before int64, limit int) (blocks []seckill.Block, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	err = db.reader().rows(ctx, func(scan func(...any) error) error {
		b, err := scanBlock(scan)
		blocks = append(blocks, b)
		return err
	}, "SELECT "+blockColumns+` FROM seckill_block
		WHERE active = 1 AND (until_time IS NULL OR until_time > {now}) AND id < ? ORDER BY id DESC LIMIT ?`, before, limit)
	return blocks, db.fail("list blocks", err)
}

// BlocksAfter implements [control.Store].
func (db *DB) BlocksAfter(ctx context.Context, version int64, each func(b seckill.Block, removed bool)) error {
	where, args := "WHERE version > ? ORDER BY version, id", []any{version}
	if version < 0 {
		where, args = "WHERE active = 1", nil
	}
	return db.fail("read blocks", db.reader().rows(ctx, func(scan func(...any) error) error {
		var active sql.NullInt64
		b, err := scanBlock(scan, &active)
		if err == nil {
			each(b, !active.Valid)
		}
		return err
	}, "SELECT "+blockColumns+", active FROM seckill_block "+where, args...))
}

// AddBlock implements [control.Store].
func (db *DB) AddBlock(ctx context.Context, b seckill.Block, by seckill.Actor) (made seckill.Block, err error) {
	err = db.inTx(ctx, func(t tx) error {
		w, err := beginBlocks(ctx, t)
		if err != nil {
			return err
		}
		was, there, err := w.active(ctx, b)
		if err != nil {
			return err
		}
		if made, err = w.put(ctx, b, was, there, by); err != nil {
			return err
		}
		what := []any{"kind", made.Kind, "value", made.Value}
		if !made.Until.IsZero() {
			what = append(what, "until", made.Until)
		}
		if there {
			what = append(what, "replaces", was.ID)
		}
		return t.audit(ctx, by, "block.add", blockObject(made.ID), detail(what...))
	})
	if err != nil {
		return seckill.Block{}, db.fail("make a block", err)
	}
	return made, nil
}

func blockObject(id int64) string { return "block/" + strconv.FormatInt(id, 10) }

// AddAutomaticBlocks implements [control.Store].
func (db *DB) AddAutomaticBlocks(ctx context.Context, bs []seckill.Block, by seckill.Actor) error {
	return db.fail("make automatic blocks", db.inTx(ctx, func(t tx) error {
		w, err := beginBlocks(ctx, t)
		if err != nil {
			return err
		}
		var noted []string
		made := 0
		for _, b := range bs {
			was, there, err := w.active(ctx, b)
			if err != nil {
				return err
			}
			if there && (!was.Automatic || was.Until.IsZero() || !b.Until.IsZero() && !was.Until.Before(b.Until)) {
				// Nodes that took the new one for granted read the old one again.
				if _, err := t.exec(ctx, "UPDATE seckill_block SET version = ? WHERE id = ?", w.version, was.ID); err != nil {
					return err
				}
				continue
			}
			b.Automatic = true
			one := by
			one.Reason = b.By.Reason
			if b, err = w.put(ctx, b, was, there, one); err != nil {
				return err
			}
			if made++; len(noted) < blocksNoted {
				noted = append(noted, string(b.Kind)+" "+b.Value+": "+b.By.Reason)
			}
		}
		if made == 0 {
			return nil
		}
		return t.audit(ctx, by, "block.add_automatic", "blocks", detail("count", made, "first", noted))
	}))
}

// blockWriter changes blocks in a transaction that holds all of them.
type blockWriter struct {
	t       tx
	version int64 // Of what it changes.
	count   int64
}

func beginBlocks(ctx context.Context, t tx) (*blockWriter, error) {
	version, err := t.hold(ctx, versionOfBlocks)
	if err != nil {
		return nil, err
	}
	w := &blockWriter{t: t, version: version + 1}
	if err := t.row(ctx, "SELECT value FROM seckill_meta WHERE name = 'block_count'", nil, &w.count); err != nil {
		return nil, err
	}
	return w, t.raise(ctx, versionOfBlocks)
}

func (w *blockWriter) active(ctx context.Context, like seckill.Block) (b seckill.Block, there bool, err error) {
	err = w.t.rows(ctx, func(scan func(...any) error) error {
		there = true
		b, err = scanBlock(scan)
		return err
	}, "SELECT "+blockColumns+" FROM seckill_block WHERE kind = ? AND value = ? AND active = 1", like.Kind, buyerID(like.Value))
	return b, there, err
}

// put stores a block, in place of the active one of its kind and value.
func (w *blockWriter) put(ctx context.Context, b, was seckill.Block, there bool, by seckill.Actor) (seckill.Block, error) {
	if there {
		if err := w.end(ctx, was.ID); err != nil {
			return b, err
		}
	}
	if err := w.room(ctx); err != nil {
		return b, err
	}
	b.Until = stored(b.Until)
	b.By = seckill.Actor{Who: clip(by.Who, auditNameBytesMax), From: clip(by.From, auditNameBytesMax), Reason: clip(by.Reason, auditTextBytesMax)}
	now, err := w.t.now(ctx)
	if err != nil {
		return b, err
	}
	b.CreatedAt = now
	b.ID, err = w.t.insert(ctx, `INSERT INTO seckill_block (kind, value, until_time, automatic, who, source, reason,
		create_time, active, version, update_time) VALUES (?,?,?,?,?,?,?,?,1,?,?)`, b.Kind, buyerID(b.Value), at(b.Until), b.Automatic,
		b.By.Who, b.By.From, b.By.Reason, at(now), w.version, at(now))
	if err != nil {
		return b, err
	}
	return b, w.counted(ctx, 1)
}

func (w *blockWriter) end(ctx context.Context, id int64) error {
	_, err := w.t.exec(ctx, "UPDATE seckill_block SET active = NULL, version = ?, update_time = {now} WHERE id = ?", w.version, id)
	if err != nil {
		return err
	}
	return w.counted(ctx, -1)
}

func (w *blockWriter) counted(ctx context.Context, more int64) error {
	w.count += more
	_, err := w.t.exec(ctx, "UPDATE seckill_meta SET value = value + ? WHERE name = 'block_count'", more)
	return err
}

// room sees to it that one more block fits. Those that have ended go first.
func (w *blockWriter) room(ctx context.Context) error {
	most := w.t.db.blocksMax
	if w.count < most {
		return nil
	}
	ended, err := w.t.exec(ctx, "DELETE FROM seckill_block WHERE active = 1 AND until_time <= {now}")
	if err != nil {
		return err
	}
	if ended > 0 {
		return w.counted(ctx, -ended)
	}
	return &seckill.Refusal{Reason: seckill.Conflict, Detail: fmt.Sprintf("There are %d blocks already, and no room for more; remove some.", most)}
}

// RemoveBlock implements [control.Store].
func (db *DB) RemoveBlock(ctx context.Context, id int64, by seckill.Actor) error {
	return db.fail("remove a block", db.inTx(ctx, func(t tx) error {
		w, err := beginBlocks(ctx, t)
		if err != nil {
			return err
		}
		var b seckill.Block
		found := false
		err = t.rows(ctx, func(scan func(...any) error) error {
			found = true
			b, err = scanBlock(scan)
			return err
		}, "SELECT "+blockColumns+" FROM seckill_block WHERE id = ? AND active = 1 AND (until_time IS NULL OR until_time > {now})", id)
		if err != nil {
			return err
		}
		if !found {
			return seckill.ErrNotFound
		}
		if err := w.end(ctx, id); err != nil {
			return err
		}
		return t.audit(ctx, by, "block.remove", blockObject(id), detail("kind", b.Kind, "value", b.Value))
	}))
}

// SweepBlocks implements [control.Store]. What it looks for is looked for without a lock first.
func (db *DB) SweepBlocks(ctx context.Context) error {
	for {
		more, err := db.sweepOnce(ctx)
		if err != nil || !more {
			return db.fail("sweep blocks", err)
		}
	}
}

func (db *DB) sweepOnce(ctx context.Context) (more bool, err error) {
	now, err := db.reader().now(ctx)
	if err != nil {
		return false, err
	}
	conditions := []struct {
		where string
		arg   stamp
	}{{"active = 1 AND until_time <= ?", at(now)}, {"active IS NULL AND update_time <= ?", at(now.Add(-removedFor))}}
	for i, c := range conditions {
		found, err := sweepable(ctx, db.reader(), c.where, c.arg)
		if err != nil {
			return false, err
		}
		if len(found) == 0 {
			continue
		}
		err = db.inTx(ctx, func(t tx) error {
			if _, err := t.hold(ctx, versionOfBlocks); err != nil {
				return err
			}
			gone, err := sweepable(ctx, t, c.where, c.arg)
			if err != nil || len(gone) == 0 {
				return err
			}
			return forget(ctx, t, gone, i == 0)
		})
		if err != nil {
			return false, err
		}
		more = more || len(found) == sweepRows
	}
	return more, nil
}

type swept struct{ id, version int64 }

func sweepable(ctx context.Context, t tx, where string, arg stamp) (list []swept, err error) {
	err = t.rows(ctx, func(scan func(...any) error) error {
		var s swept
		err := scan(&s.id, &s.version)
		list = append(list, s)
		return err
	}, "SELECT id, version FROM seckill_block WHERE "+where+" LIMIT "+strconv.Itoa(sweepRows), arg)
	return list, err
}

// forget deletes blocks. Of one that ended by itself every node knows; of one that was removed it
// may not, and has to read all blocks if it was away for so long.
func forget(ctx context.Context, t tx, gone []swept, ended bool) error {
	ids := make([]any, len(gone))
	floor := int64(0)
	for i, s := range gone {
		ids[i], floor = s.id, max(floor, s.version)
	}
	if _, err := t.exec(ctx, "DELETE FROM seckill_block WHERE id IN ("+marks(len(ids))+")", ids...); err != nil {
		return err
	}
	if ended {
		_, err := t.exec(ctx, "UPDATE seckill_meta SET value = value - ? WHERE name = 'block_count'", len(gone))
		return err
	}
	_, err := t.exec(ctx, "UPDATE seckill_meta SET value = ? WHERE name = 'block_floor' AND value < ?", floor, floor)
	return err
}
