package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"seckill"
)

// fileVersion is the version of the file's tables, in SQLite's user_version.
const fileVersion = 1

// busy is SQLite's code for a file that somebody else has locked.
const busy = 5

const schema = `
CREATE TABLE log (
	activity INTEGER NOT NULL, run INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL,
	PRIMARY KEY (activity, run, seq)
) WITHOUT ROWID;
CREATE TABLE snapshot (
	activity INTEGER NOT NULL, run INTEGER NOT NULL, seq INTEGER NOT NULL, parts INTEGER NOT NULL,
	PRIMARY KEY (activity, run)
) WITHOUT ROWID;
CREATE TABLE part (
	activity INTEGER NOT NULL, run INTEGER NOT NULL, seq INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL,
	PRIMARY KEY (activity, run, seq, part)
) WITHOUT ROWID;
-- The highest number that a removed row had: numbers are never used twice.
CREATE TABLE floor (seq INTEGER NOT NULL);
INSERT INTO floor VALUES (0);
PRAGMA user_version = 1;
`

// bindings is the database that the file belongs to. Files of this version that are older
// than the table get it when they are opened.
const bindings = "CREATE TABLE IF NOT EXISTS bound (one INTEGER PRIMARY KEY CHECK (one = 1), database TEXT NOT NULL)"

// file is storage in a SQLite file that this process owns.
type file struct {
	db     *sql.DB // One connection.
	insert *sql.Stmt
	ctx    context.Context // Ends with close, never in the middle of a commit.
}

func openFile(ctx context.Context, path string) (_ *file, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("open the stock's file: %w", err)
	}
	if err := makeFile(path); err != nil {
		return nil, fmt.Errorf("make the stock's file: %w", err)
	}
	// Exclusive before WAL: the lock is held from the first read until the end, and no
	// shared memory is needed. The driver executes _pragma before _journal_mode,
	// whatever their order here, but several _pragma by their names.
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: "_busy_timeout=0&_pragma=locking_mode(EXCLUSIVE)" +
		"&_journal_mode=WAL&_synchronous=FULL&_txlock=immediate"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	f := &file{db: db, ctx: context.WithoutCancel(ctx)}
	if err := f.prepare(ctx); err != nil {
		var fault *sqlite.Error
		if errors.As(err, &fault) && fault.Code()&0xff == busy {
			err = fmt.Errorf("%s is in use by another process: %w", path, err)
		} else {
			err = fmt.Errorf("open %s: %w", path, err)
		}
		return nil, errors.Join(err, db.Close())
	}
	return f, nil
}

// makeFile makes an empty file that only its owner reads, since it names buyers, and
// makes sure that its name survives a crash.
func makeFile(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// prepare takes the lock and makes the tables, if need be.
func (f *file) prepare(ctx context.Context) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	var version int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	switch version {
	case fileVersion:
	case 0:
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	default:
		return errors.Join(fmt.Errorf("the file is of version %d; this program reads %d", version, fileVersion), tx.Rollback())
	}
	if _, err := tx.ExecContext(ctx, bindings); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	// Replacing lets a commit be repeated whose first try may have gone through.
	f.insert, err = f.db.PrepareContext(ctx, "INSERT OR REPLACE INTO log (activity, run, seq, body) VALUES (?, ?, ?, ?)")
	return err
}

func (f *file) close() error {
	if f.insert == nil {
		return f.db.Close()
	}
	return errors.Join(f.insert.Close(), f.db.Close())
}

func (f *file) runs() (ids []seckill.RunID, last uint64, err error) {
	rows, err := f.db.QueryContext(f.ctx, `
		SELECT activity, run, max(seq) FROM log GROUP BY activity, run
		UNION ALL SELECT activity, run, seq FROM snapshot
		UNION ALL SELECT 0, 0, seq FROM floor`)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	seen := map[seckill.RunID]bool{{}: true}
	for rows.Next() {
		var id seckill.RunID
		var seq int64
		if err := rows.Scan(&id.Activity, &id.Run, &seq); err != nil {
			return nil, 0, err
		}
		last = max(last, uint64(seq))
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, last, rows.Err()
}

// readRows is how many rows are read between two commits.
const readRows = 64

func (f *file) read(id seckill.RunID, upTo uint64, visit func(int, uint64, []byte) error) error {
	var after, parts int64
	err := f.db.QueryRowContext(f.ctx, "SELECT seq, parts FROM snapshot WHERE activity = ? AND run = ?",
		id.Activity, id.Run).Scan(&after, &parts)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err == nil && parts == 0 { // Dropped, and not yet forgotten.
		if err := visit(0, uint64(after), nil); err != nil {
			return err
		}
	}
	for n := range parts {
		var body []byte
		err := f.db.QueryRowContext(f.ctx, "SELECT body FROM part WHERE activity = ? AND run = ? AND seq = ? AND part = ?",
			id.Activity, id.Run, after, n).Scan(&body)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: part %d of %d of a snapshot is missing", errDamaged, n, parts)
		}
		if err != nil {
			return err
		}
		if err := visit(int(n), uint64(after), body); err != nil {
			return err
		}
	}
	for {
		page, err := f.page(id, after, int64(upTo))
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		for _, r := range page {
			if err := visit(-1, r.seq, r.body); err != nil {
				return fmt.Errorf("row %d: %w", r.seq, err)
			}
		}
		after = int64(page[len(page)-1].seq)
	}
}

func (f *file) page(id seckill.RunID, after, upTo int64) (page []row, err error) {
	rows, err := f.db.QueryContext(f.ctx,
		"SELECT seq, body FROM log WHERE activity = ? AND run = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
		id.Activity, id.Run, after, upTo, readRows)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var seq int64
		var body []byte
		if err := rows.Scan(&seq, &body); err != nil {
			return nil, err
		}
		page = append(page, row{id, uint64(seq), body})
	}
	return page, rows.Err()
}

func (f *file) commit(rows []row) error {
	if len(rows) == 1 {
		_, err := f.insert.ExecContext(f.ctx, rows[0].id.Activity, rows[0].id.Run, int64(rows[0].seq), rows[0].body)
		return err
	}
	return f.transact(func(tx *sql.Tx) error {
		insert := tx.StmtContext(f.ctx, f.insert) //nolint:sqlclosecheck // The end of the transaction closes it.
		for _, r := range rows {
			if _, err := insert.ExecContext(f.ctx, r.id.Activity, r.id.Run, int64(r.seq), r.body); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *file) transact(do func(*sql.Tx) error) error {
	tx, err := f.db.BeginTx(f.ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (f *file) putPart(id seckill.RunID, seq uint64, n int, body []byte) error {
	_, err := f.db.ExecContext(f.ctx, "INSERT OR REPLACE INTO part (activity, run, seq, part, body) VALUES (?, ?, ?, ?, ?)",
		id.Activity, id.Run, int64(seq), n, body)
	return err
}

func (f *file) install(id seckill.RunID, seq uint64, parts int) error {
	_, err := f.db.ExecContext(f.ctx, "INSERT OR REPLACE INTO snapshot (activity, run, seq, parts) VALUES (?, ?, ?, ?)",
		id.Activity, id.Run, int64(seq), parts)
	return err
}

// forget goes in slices, so that no commit waits for long. A dropped run gets a
// snapshot of nothing first: what a crash leaves of its rows does not count.
func (f *file) forget(id seckill.RunID, seq uint64, dropped bool) error {
	if dropped {
		if err := f.install(id, seq, 0); err != nil {
			return err
		}
	}
	for _, statement := range []string{
		"DELETE FROM log WHERE activity = ?1 AND run = ?2 AND seq IN (SELECT seq FROM log WHERE activity = ?1 AND run = ?2 AND seq <= ?3 LIMIT 256)",
		"DELETE FROM part WHERE activity = ?1 AND run = ?2 AND (seq, part) IN (SELECT seq, part FROM part WHERE activity = ?1 AND run = ?2 AND seq < ?3 LIMIT 8)",
	} {
		if err := f.repeat(statement, id.Activity, id.Run, int64(seq)); err != nil {
			return err
		}
	}
	if !dropped {
		return nil
	}
	return f.transact(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(f.ctx, "UPDATE floor SET seq = max(seq, ?)", int64(seq)); err != nil {
			return err
		}
		_, err := tx.ExecContext(f.ctx, "DELETE FROM snapshot WHERE activity = ? AND run = ? AND seq = ?", id.Activity, id.Run, int64(seq))
		return err
	})
}

func (f *file) bind(database string) (bound string, err error) {
	err = f.transact(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(f.ctx, "INSERT OR IGNORE INTO bound (one, database) VALUES (1, ?)", database); err != nil {
			return err
		}
		return tx.QueryRowContext(f.ctx, "SELECT database FROM bound").Scan(&bound)
	})
	return bound, err
}

// repeat executes a statement until it has nothing left to do.
func (f *file) repeat(statement string, args ...any) error {
	for {
		done, err := f.db.ExecContext(f.ctx, statement, args...)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return err
		}
	}
}

// volatile is storage that stores nothing.
type volatile struct{}

func (volatile) runs() ([]seckill.RunID, uint64, error) { return nil, 0, nil }
func (volatile) read(seckill.RunID, uint64, func(int, uint64, []byte) error) error {
	return nil
}
func (volatile) commit([]row) error                               { return nil }
func (volatile) putPart(seckill.RunID, uint64, int, []byte) error { return nil }
func (volatile) install(seckill.RunID, uint64, int) error         { return nil }
func (volatile) forget(seckill.RunID, uint64, bool) error         { return nil }
func (volatile) bind(database string) (string, error)             { return database, nil }
func (volatile) close() error                                     { return nil }
