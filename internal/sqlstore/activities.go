package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"seckill"
)

const nameBytesMax = 255 // What the column holds of ASCII; of other text, more.

// Version implements [activity.Store].
func (db *DB) Version(ctx context.Context) (int64, error) {
	v, err := readVersion(ctx, db.reader())
	return v, db.fail("read the control version", err)
}

func readVersion(ctx context.Context, t tx) (v int64, err error) {
	err = t.row(ctx, "SELECT value FROM seckill_meta WHERE name = 'control_version'", nil, &v)
	return v, err
}

// raiseVersion comes last in a transaction: its row is every operator's.
func (t tx) raiseVersion(ctx context.Context) error {
	_, err := t.exec(ctx, "UPDATE seckill_meta SET value = value + 1 WHERE name = 'control_version'")
	return err
}

// Activities implements [activity.Store]. The version is read first: what is read after
// it may be newer, and is then read once more, but is never older.
func (db *DB) Activities(ctx context.Context) ([]seckill.Activity, int64, error) {
	t := db.reader()
	version, err := readVersion(ctx, t)
	if err != nil {
		return nil, 0, db.fail("read the control version", err)
	}
	activities, err := readActivities(ctx, t, "ORDER BY a.id")
	if err != nil {
		return nil, 0, db.fail("read activities", err)
	}
	return activities, version, nil
}

// CreateActivity implements [activity.Store].
func (db *DB) CreateActivity(ctx context.Context, a seckill.Activity, by seckill.Actor) (seckill.Activity, error) {
	if err := checkActivity(&a); err != nil {
		return seckill.Activity{}, err
	}
	if a.Total < 0 {
		return seckill.Activity{}, seckill.Invalid("stock", seckill.RuleMin, "0")
	}
	a.Run = 1
	err := db.inTx(ctx, func(t tx) (err error) {
		a.ID, err = t.insert(ctx, `INSERT INTO seckill_activity (name, start_time, end_time, status, description, price_cents,
			run, epoch, paused, limit_per_user, sub_stocks, preload_before_ms, payment_window_ms, challenge, entry_token,
			audience, create_time, update_time) VALUES (?,?,?,?,?,?,1,?,?,?,?,?,?,?,?,?,{now},{now})`,
			a.Name, at(a.StartsAt), at(a.EndsAt), a.Phase, a.Description, a.PriceCents,
			a.Epoch, a.Paused, a.LimitPerUser, a.SubStocks, a.PreloadBefore.Milliseconds(), a.PaymentWindow.Milliseconds(),
			a.Challenge, a.EntryToken, a.Audience)
		if err != nil {
			return err
		}
		if err := addRun(ctx, t, &a); err != nil {
			return err
		}
		if err := t.control(ctx, by, "activity.create", a.ID, asJSON(shown(&a))); err != nil {
			return err
		}
		a, err = readActivity(ctx, t, a.ID)
		return err
	})
	if err != nil {
		return seckill.Activity{}, db.fail("create activity", err)
	}
	return a, nil
}

// ChangeActivity implements [activity.Store]. A change that changes nothing leaves no trace.
func (db *DB) ChangeActivity(ctx context.Context, id int64, action string, by seckill.Actor, change func(*seckill.Activity) error) (a seckill.Activity, err error) {
	err = db.inTx(ctx, func(t tx) error {
		was, err := lockActivity(ctx, t, id)
		if err != nil {
			return err
		}
		a = was
		if err := change(&a); err != nil {
			return asIs{err}
		}
		a.ID, a.Run, a.Total, a.CreatedAt = was.ID, was.Run, was.Total, was.CreatedAt
		a.StartsAt, a.EndsAt = stored(a.StartsAt), stored(a.EndsAt)
		if err := checkActivity(&a); err != nil {
			return err
		}
		if a == was {
			return nil
		}
		if err := updateActivity(ctx, t, &a); err != nil {
			return err
		}
		return t.control(ctx, by, action, id, difference(was, a))
	})
	if err != nil {
		return seckill.Activity{}, db.fail(fmt.Sprintf("change activity %d", id), err)
	}
	return a, nil
}

// NewRun implements [activity.Store].
func (db *DB) NewRun(ctx context.Context, id int64, after int, startsAt, endsAt time.Time, units int64, by seckill.Actor) (a seckill.Activity, err error) {
	if units < 0 {
		return a, seckill.Invalid("stock", seckill.RuleMin, "0")
	}
	err = db.inTx(ctx, func(t tx) error {
		a, err = lockActivity(ctx, t, id)
		if err != nil {
			return err
		}
		if a.Run != after {
			return &seckill.Refusal{Reason: seckill.Conflict, Detail: fmt.Sprintf("The present run is %d.", a.Run)}
		}
		a.Run++
		a.StartsAt, a.EndsAt, a.Total = stored(startsAt), stored(endsAt), units
		a.Phase, a.Paused = seckill.PhaseScheduled, false
		if err := addRun(ctx, t, &a); err != nil {
			return err
		}
		if err := updateActivity(ctx, t, &a); err != nil {
			return err
		}
		return t.control(ctx, by, "activity.rerun", id,
			detail("run", a.Run, "starts_at", a.StartsAt, "ends_at", a.EndsAt, "stock", units))
	})
	if err != nil {
		return seckill.Activity{}, db.fail(fmt.Sprintf("begin a new run of activity %d", id), err)
	}
	return a, nil
}

// control ends a change of the control state.
func (t tx) control(ctx context.Context, by seckill.Actor, action string, activity int64, detail string) error {
	if err := t.audit(ctx, by, action, "activity/"+strconv.FormatInt(activity, 10), detail); err != nil {
		return err
	}
	return t.raiseVersion(ctx)
}

// checkActivity refuses what the columns do not hold; what makes sense is for the caller to say.
func checkActivity(a *seckill.Activity) error {
	switch {
	case len(a.Name) > nameBytesMax:
		return seckill.Invalid("name", seckill.RuleLength, strconv.Itoa(nameBytesMax))
	case len(a.Description) > 65535:
		return seckill.Invalid("description", seckill.RuleLength, "65535")
	case a.StartsAt.IsZero() || a.StartsAt.Year() > 9999:
		return seckill.Invalid("starts_at", seckill.RuleType, "time")
	case a.EndsAt.IsZero() || a.EndsAt.Year() > 9999:
		return seckill.Invalid("ends_at", seckill.RuleType, "time")
	}
	return nil
}

func addRun(ctx context.Context, t tx, a *seckill.Activity) error {
	_, err := t.exec(ctx, `INSERT INTO seckill_stock (activity_id, run, total_stock, available_stock, start_time, end_time)
		VALUES (?,?,?,?,?,?)`, a.ID, a.Run, a.Total, a.Total, at(a.StartsAt), at(a.EndsAt))
	return err
}

func updateActivity(ctx context.Context, t tx, a *seckill.Activity) error {
	_, err := t.exec(ctx, `UPDATE seckill_activity SET name = ?, start_time = ?, end_time = ?, status = ?, description = ?,
		price_cents = ?, run = ?, epoch = ?, paused = ?, limit_per_user = ?, sub_stocks = ?, preload_before_ms = ?,
		payment_window_ms = ?, challenge = ?, entry_token = ?, audience = ?, update_time = {now} WHERE id = ?`,
		a.Name, at(a.StartsAt), at(a.EndsAt), a.Phase, a.Description,
		a.PriceCents, a.Run, a.Epoch, a.Paused, a.LimitPerUser, a.SubStocks, a.PreloadBefore.Milliseconds(),
		a.PaymentWindow.Milliseconds(), a.Challenge, a.EntryToken, a.Audience, a.ID)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "UPDATE seckill_stock SET start_time = ?, end_time = ? WHERE activity_id = ? AND run = ?",
		at(a.StartsAt), at(a.EndsAt), a.ID, a.Run)
	return err
}

// lockActivity reads an activity and holds its row until the transaction ends.
func lockActivity(ctx context.Context, t tx, id int64) (seckill.Activity, error) {
	var found int64
	err := t.row(ctx, "SELECT id FROM seckill_activity WHERE id = ?"+t.db.dialect.lockRow, []any{id}, &found)
	if errors.Is(err, sql.ErrNoRows) {
		return seckill.Activity{}, seckill.ErrNotFound
	}
	if err != nil {
		return seckill.Activity{}, err
	}
	return readActivity(ctx, t, id)
}

func readActivity(ctx context.Context, t tx, id int64) (seckill.Activity, error) {
	activities, err := readActivities(ctx, t, "WHERE a.id = ?", id)
	if err == nil && len(activities) == 0 {
		err = seckill.ErrNotFound
	}
	if err != nil {
		return seckill.Activity{}, err
	}
	return activities[0], nil
}

func readActivities(ctx context.Context, t tx, where string, args ...any) (activities []seckill.Activity, err error) {
	err = t.rows(ctx, func(scan func(...any) error) error {
		var a seckill.Activity
		var startsAt, endsAt, createdAt stamp
		var preload, window int64
		err := scan(&a.ID, &a.Name, &startsAt, &endsAt, &a.Phase, &a.Description, &a.PriceCents, &a.Run, &a.Epoch, &a.Paused,
			&a.LimitPerUser, &a.SubStocks, &preload, &window, &a.Challenge, &a.EntryToken, &a.Audience, &createdAt, &a.Total)
		a.StartsAt, a.EndsAt, a.CreatedAt = startsAt.Time, endsAt.Time, createdAt.Time
		a.PreloadBefore, a.PaymentWindow = time.Duration(preload)*time.Millisecond, time.Duration(window)*time.Millisecond
		activities = append(activities, a)
		return err
	}, `SELECT a.id, a.name, a.start_time, a.end_time, a.status, a.description, a.price_cents, a.run, a.epoch, a.paused,
		a.limit_per_user, a.sub_stocks, a.preload_before_ms, a.payment_window_ms, a.challenge, a.entry_token, a.audience,
		a.create_time, s.total_stock
		FROM seckill_activity a JOIN seckill_stock s ON s.activity_id = a.id AND s.run = a.run `+where, args...)
	return activities, err
}

// shown is an activity as the audit log shows it: in the API's names and units.
func shown(a *seckill.Activity) map[string]any {
	return map[string]any{
		"name": a.Name, "description": a.Description, "price_cents": a.PriceCents, "stock": a.Total,
		"run": a.Run, "epoch": a.Epoch, "phase": a.Phase.String(), "paused": a.Paused,
		"starts_at": a.StartsAt, "ends_at": a.EndsAt, "limit_per_user": a.LimitPerUser, "sub_stocks": a.SubStocks,
		"preload_before_seconds": a.PreloadBefore.Seconds(), "payment_window_seconds": a.PaymentWindow.Seconds(),
		"challenge": a.Challenge, "entry_token": a.EntryToken, "audience": a.Audience,
	}
}

// difference shows what a change has changed: from, to.
func difference(was, is seckill.Activity) string {
	changed := map[string]any{}
	before := shown(&was)
	for name, value := range shown(&is) {
		if value != before[name] {
			changed[name] = [2]any{before[name], value}
		}
	}
	return asJSON(changed)
}
