package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"seckill"
)

// plansMax bounds the changes of switches that are to come, of all switches together.
const plansMax = 100

// Switches implements [control.Store].
func (db *DB) Switches(ctx context.Context) ([]seckill.SwitchState, error) {
	const step = "read the switches"
	t := db.reader()
	// A plan that is being carried out must not be missed in both tables.
	for range attemptsMax {
		before, err := db.ControlVersions(ctx)
		if err != nil {
			return nil, err
		}
		states, err := readSwitches(ctx, t)
		if err != nil {
			return nil, db.fail(step, err)
		}
		plans, err := readPlans(ctx, t, "ORDER BY at_time, id")
		if err != nil {
			return nil, db.fail(step, err)
		}
		after, err := db.ControlVersions(ctx)
		if err != nil {
			return nil, err
		}
		if before.Switches == after.Switches {
			return withPlans(states, plans), nil
		}
	}
	return nil, db.fail(step, errors.New("they changed all the time"))
}

// withPlans adds to the switches what is planned for them.
func withPlans(states []seckill.SwitchState, plans []seckill.SwitchPlan) []seckill.SwitchState {
	for _, p := range plans {
		i := slices.IndexFunc(states, func(s seckill.SwitchState) bool { return s.Name == p.Name })
		if i < 0 {
			known, ok := seckill.SwitchNamed(p.Name)
			if !ok {
				continue // Of a newer program.
			}
			i = len(states)
			states = append(states, seckill.SwitchState{Name: p.Name, Value: known.Default})
		}
		states[i].Scheduled = append(states[i].Scheduled, p)
	}
	return states
}

func readSwitches(ctx context.Context, t tx) (states []seckill.SwitchState, err error) {
	err = t.rows(ctx, func(scan func(...any) error) error {
		var s seckill.SwitchState
		var changed stamp
		err := scan(&s.Name, &s.Value, &changed, &s.ChangedBy.Who, &s.ChangedBy.From, &s.ChangedBy.Reason)
		s.ChangedAt = changed.Time
		states = append(states, s)
		return err
	}, "SELECT name, value, change_time, who, source, reason FROM seckill_switch ORDER BY name")
	return states, err
}

func readPlans(ctx context.Context, t tx, where string, args ...any) (plans []seckill.SwitchPlan, err error) {
	err = t.rows(ctx, func(scan func(...any) error) error {
		var p seckill.SwitchPlan
		var when stamp
		err := scan(&p.ID, &p.Name, &p.Value, &when, &p.By.Who, &p.By.From, &p.By.Reason)
		p.At = when.Time
		plans = append(plans, p)
		return err
	}, "SELECT id, name, value, at_time, who, source, reason FROM seckill_switch_plan "+where, args...)
	return plans, err
}

// SetSwitch implements [control.Store].
func (db *DB) SetSwitch(ctx context.Context, name string, value int64, now time.Time, by seckill.Actor) error {
	known, err := checkSwitch(name, value)
	if err != nil {
		return err
	}
	return db.fail("turn the switch "+name, db.inTx(ctx, func(t tx) error {
		if _, err := t.hold(ctx, versionOfSwitches); err != nil {
			return err
		}
		folded, err := t.fold(ctx, now)
		if err != nil {
			return err
		}
		turned, err := t.turn(ctx, known, value, time.Time{}, by)
		if err != nil || !turned && !folded {
			return err
		}
		return t.raise(ctx, versionOfSwitches)
	}))
}

func checkSwitch(name string, value int64) (seckill.Switch, error) {
	known, ok := seckill.SwitchNamed(name)
	if !ok {
		return known, seckill.ErrNotFound
	}
	if value < 0 {
		return known, seckill.Invalid("value", seckill.RuleMin, "0")
	}
	if value > known.Max() {
		return known, seckill.Invalid("value", seckill.RuleMax, fmt.Sprint(known.Max()))
	}
	return known, nil
}

// turn stores a switch's value unless it is stored already. planned is when it was to be
// turned, zero if it was turned by hand.
func (t tx) turn(ctx context.Context, known seckill.Switch, value int64, planned time.Time, by seckill.Actor) (turned bool, err error) {
	was := known.Default
	err = t.row(ctx, "SELECT value FROM seckill_switch WHERE name = ?", []any{known.Name}, &was)
	isNew := errors.Is(err, sql.ErrNoRows)
	if err != nil && !isNew {
		return false, err
	}
	if was == value {
		return false, nil
	}
	who, from, reason := clip(by.Who, auditNameBytesMax), clip(by.From, auditNameBytesMax), clip(by.Reason, auditTextBytesMax)
	when := planned
	if when.IsZero() {
		if when, err = t.now(ctx); err != nil {
			return false, err
		}
	}
	if isNew {
		_, err = t.exec(ctx, "INSERT INTO seckill_switch (name, value, who, source, reason, change_time) VALUES (?,?,?,?,?,?)",
			known.Name, value, who, from, reason, at(when))
	} else {
		_, err = t.exec(ctx, "UPDATE seckill_switch SET value = ?, who = ?, source = ?, reason = ?, change_time = ? WHERE name = ?",
			value, who, from, reason, at(when), known.Name)
	}
	if err != nil {
		return false, err
	}
	what := []any{"from", known.Shown(was), "to", known.Shown(value)}
	if !planned.IsZero() {
		what = append(what, "scheduled_at", planned)
	}
	return true, t.audit(ctx, by, "switch.set", "switch/"+known.Name, detail(what...))
}

// fold carries out the plans whose time has come by the database's clock or by the caller's.
func (t tx) fold(ctx context.Context, now time.Time) (folded bool, err error) {
	plans, err := readPlans(ctx, t, "WHERE at_time <= {now} OR at_time <= ? ORDER BY at_time, id", at(now))
	if err != nil {
		return false, err
	}
	for _, p := range plans {
		if known, ok := seckill.SwitchNamed(p.Name); ok {
			if _, err := t.turn(ctx, known, p.Value, p.At, p.By); err != nil {
				return false, err
			}
		}
		if _, err := t.exec(ctx, "DELETE FROM seckill_switch_plan WHERE id = ?", p.ID); err != nil {
			return false, err
		}
	}
	return len(plans) > 0, nil
}

// FoldPlans implements [control.Store].
func (db *DB) FoldPlans(ctx context.Context) error {
	return db.fail("carry out plans of switches", db.inTx(ctx, func(t tx) error {
		if _, err := t.hold(ctx, versionOfSwitches); err != nil {
			return err
		}
		if folded, err := t.fold(ctx, time.Unix(0, 0)); err != nil || !folded {
			return err
		}
		return t.raise(ctx, versionOfSwitches)
	}))
}

// PlanSwitch implements [control.Store].
func (db *DB) PlanSwitch(ctx context.Context, name string, value int64, when time.Time, by seckill.Actor) (id int64, err error) {
	known, err := checkSwitch(name, value)
	if err != nil {
		return 0, err
	}
	err = db.inTx(ctx, func(t tx) error {
		if _, err := t.hold(ctx, versionOfSwitches); err != nil {
			return err
		}
		var plans int
		if err := t.row(ctx, "SELECT COUNT(*) FROM seckill_switch_plan", nil, &plans); err != nil {
			return err
		}
		if plans >= plansMax {
			return &seckill.Refusal{Reason: seckill.Conflict, Detail: fmt.Sprintf("There are %d scheduled changes already; take some back.", plans)}
		}
		id, err = t.insert(ctx, `INSERT INTO seckill_switch_plan (name, value, at_time, who, source, reason, create_time)
			VALUES (?,?,?,?,?,?,{now})`, name, value, at(when),
			clip(by.Who, auditNameBytesMax), clip(by.From, auditNameBytesMax), clip(by.Reason, auditTextBytesMax))
		if err != nil {
			return err
		}
		if err := t.audit(ctx, by, "switch.schedule", "switch/"+name, detail("id", id, "to", known.Shown(value), "at", when.UTC())); err != nil {
			return err
		}
		return t.raise(ctx, versionOfSwitches)
	})
	return id, db.fail("schedule a change of the switch "+name, err)
}

// CancelPlan implements [control.Store].
func (db *DB) CancelPlan(ctx context.Context, name string, id int64, by seckill.Actor) error {
	known, ok := seckill.SwitchNamed(name)
	if !ok {
		return seckill.ErrNotFound
	}
	return db.fail("take back a scheduled change", db.inTx(ctx, func(t tx) error {
		if _, err := t.hold(ctx, versionOfSwitches); err != nil {
			return err
		}
		plans, err := readPlans(ctx, t, "WHERE id = ? AND name = ?", id, name)
		if err != nil {
			return err
		}
		if len(plans) == 0 {
			return seckill.ErrNotFound
		}
		if _, err := t.exec(ctx, "DELETE FROM seckill_switch_plan WHERE id = ?", id); err != nil {
			return err
		}
		what := detail("id", id, "to", known.Shown(plans[0].Value), "at", plans[0].At)
		if err := t.audit(ctx, by, "switch.unschedule", "switch/"+name, what); err != nil {
			return err
		}
		return t.raise(ctx, versionOfSwitches)
	}))
}
