package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// Migrate brings the schema up to date. It may be called twice, and by several processes
// at once. A database of a newer program is left alone, with an error.
func (db *DB) Migrate(ctx context.Context) (err error) {
	unlock, err := db.dialect.lockMigrations(ctx, db.write)
	if err != nil {
		return db.fail("wait for the lock of migrations", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	through := db.write
	if db.dialect.migrator != nil {
		through = db.dialect.migrator()
		defer func() { err = errors.Join(err, through.Close()) }()
	}

	files, err := fs.Sub(migrations, "migrations/"+db.dialect.name)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(db.dialect.goose, through, files,
		goose.WithTableName("seckill_schema"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	current, target, err := provider.GetVersions(ctx)
	if err != nil {
		return db.fail("read the schema's version", err)
	}
	if current > target {
		return fmt.Errorf("the database has schema %d, this program knows up to %d: use a newer program", current, target)
	}
	if _, err := provider.Up(ctx); err != nil {
		return db.fail("migrate the database", err)
	}
	return nil
}
