package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"seckill/internal/order"
)

// openSQLite opens a file, and makes its folder. One connection writes; a few more
// read beside it, from the last committed state.
func openSQLite(path string, o Options) (*DB, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.HasPrefix(path, "file:") {
		return nil, errors.New("database URL: sqlite: wants the path of a file")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make the folder of the database: %w", err)
	}
	if err := makePrivate(path); err != nil {
		return nil, fmt.Errorf("open sqlite:%s: %w: %w", path, order.ErrUnavailable, err)
	}
	// With synchronous=FULL a commit is on the disk when it returns: confirmed orders
	// survive a power cut. The read pool must not write by mistake. A cache of 32 MiB, and
	// what undoes a statement kept in memory, spare a batch most of its small writes.
	write, err := sql.Open("sqlite", sqliteDSN(path, "_txlock=immediate",
		"_pragma=busy_timeout(5000)", "_pragma=journal_mode(WAL)", "_pragma=synchronous(FULL)",
		"_pragma=temp_store(MEMORY)", "_pragma=cache_size(-32768)"))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	read, err := sql.Open("sqlite", sqliteDSN(path, "_pragma=busy_timeout(5000)", "_pragma=query_only(1)"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), write.Close())
	}
	write.SetMaxOpenConns(1)
	read.SetMaxOpenConns(o.ConnsMax - 1)
	read.SetMaxIdleConns(o.ConnsMax - 1)
	return &DB{write: write, read: read, ids: newIDMaker(o.Now), dialect: dialect{
		name: "sqlite", goose: goose.DialectSQLite3, where: "sqlite:" + path,
		clock:   func() string { return "'" + formatTime(o.Now()) + "'" },
		rowsMax: 500, prepared: []int{256, 64, 16, 4, 1},
		fault: sqliteFault,
		lockMigrations: func(ctx context.Context, _ *sql.DB) (func() error, error) {
			return lockFile(ctx, path+".migrate-lock")
		},
	}}, nil
}

// makePrivate makes the file, if need be, such that only its owner reads it: it names buyers.
func makePrivate(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// sqliteDSN escapes what would end the path early.
func sqliteDSN(path string, settings ...string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	return "file:" + u.EscapedPath() + "?" + strings.Join(settings, "&")
}

// lockFile holds a lock among processes that ends with its process, in the way that
// SQLite itself locks a file: the same on each system. The file stays, empty.
func lockFile(ctx context.Context, path string) (unlock func() error, err error) {
	db, err := sql.Open("sqlite", sqliteDSN(path, "_txlock=exclusive", "_pragma=busy_timeout(1000)"))
	if err != nil {
		return nil, err
	}
	for {
		tx, err := db.BeginTx(ctx, nil)
		if err == nil {
			return func() error { return errors.Join(tx.Rollback(), db.Close()) }, nil
		}
		if sqliteCode(err)&0xff != sqlitelib.SQLITE_BUSY || ctx.Err() != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
}

func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

func sqliteFault(err error) fault {
	code := sqliteCode(err)
	switch code {
	case sqlitelib.SQLITE_CONSTRAINT_PRIMARYKEY, sqlitelib.SQLITE_CONSTRAINT_ROWID:
		return faultDuplicateID
	case sqlitelib.SQLITE_CONSTRAINT_UNIQUE:
		return faultDuplicate
	}
	switch code & 0xff {
	case sqlitelib.SQLITE_CONSTRAINT, sqlitelib.SQLITE_MISMATCH, sqlitelib.SQLITE_TOOBIG, sqlitelib.SQLITE_RANGE:
		return faultData
	}
	return faultElsewhere
}
