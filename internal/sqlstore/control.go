package sqlstore

import (
	"context"
	"fmt"
	"time"

	"seckill/internal/control"
)

var _ control.Store = (*DB)(nil)

// The rows of seckill_meta that tell what part of the control state has changed.
const (
	versionOfSwitches  = "switch_version"
	versionOfBlocks    = "block_version"
	versionOfAudiences = "audience_version"
)

// ControlVersions implements [control.Store].
func (db *DB) ControlVersions(ctx context.Context) (v control.Versions, err error) {
	into := map[string]*int64{
		"control_version": &v.Activities, versionOfSwitches: &v.Switches, versionOfBlocks: &v.Blocks,
		"block_floor": &v.BlockFloor, versionOfAudiences: &v.Audiences,
	}
	found := 0
	err = db.reader().rows(ctx, func(scan func(...any) error) error {
		var name string
		var value int64
		if err := scan(&name, &value); err != nil {
			return err
		}
		found++
		*into[name] = value
		return nil
	}, `SELECT name, value FROM seckill_meta
		WHERE name IN ('control_version', 'switch_version', 'block_version', 'block_floor', 'audience_version')`)
	if err == nil && found != len(into) {
		err = fmt.Errorf("%d of the %d rows are there: is the schema up to date", found, len(into))
	}
	return v, db.fail("read the versions of the control state", err)
}

// hold makes whoever else changes this part wait until the transaction ends, so that
// versions are committed in their order.
func (t tx) hold(ctx context.Context, part string) (version int64, err error) {
	err = t.row(ctx, "SELECT value FROM seckill_meta WHERE name = ?"+t.db.dialect.lockRow, []any{part}, &version)
	return version, err
}

func (t tx) raise(ctx context.Context, part string) error {
	_, err := t.exec(ctx, "UPDATE seckill_meta SET value = value + 1 WHERE name = ?", part)
	return err
}

// now reads the database's clock.
func (t tx) now(ctx context.Context) (time.Time, error) {
	var now stamp
	err := t.row(ctx, "SELECT {now}", nil, &now)
	return now.Time, err
}
