package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"seckill"
	"seckill/internal/order"
)

// attemptsMax bounds how often a transaction is begun anew after it met another one.
const attemptsMax = 10

// errAgain is returned by the body of a transaction that has learnt something for its next try.
var errAgain = errors.New("the transaction has to begin anew")

// tx is a transaction, or a connection to read from.
type tx struct {
	q interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
	db *DB
}

// inTx runs body in a transaction, again if it met another transaction. The error is
// a driver's or body's own; see fail.
func (db *DB) inTx(ctx context.Context, body func(t tx) error) error {
	for attempt := 1; ; attempt++ {
		err := db.once(ctx, body)
		if err == nil {
			return nil
		}
		again := errors.Is(err, errAgain)
		switch db.dialect.fault(err) {
		case faultDuplicateID:
			db.ids.redraw()
			again = true
		case faultDuplicate, faultCollision:
			again = true
		}
		if !again || ctx.Err() != nil {
			return err
		}
		if attempt == attemptsMax {
			return fmt.Errorf("%w, %d times: %w", order.ErrUnavailable, attempt, err)
		}
		// A little apart, so that two do not meet for ever.
		select {
		case <-time.After(rand.N(time.Duration(attempt) * 2 * time.Millisecond)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (db *DB) once(ctx context.Context, body func(t tx) error) error {
	sqlTx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := body(tx{sqlTx, db}); err != nil {
		// A connection that cannot roll back is broken, and the server does it then.
		_ = sqlTx.Rollback()
		return err
	}
	return sqlTx.Commit()
}

// reader reads outside of a transaction.
func (db *DB) reader() tx { return tx{db.read, db} }

// exec runs a statement and returns how many rows it matched.
func (t tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	if err := t.db.dialect.fit(query, args); err != nil {
		return 0, err
	}
	result, err := t.q.ExecContext(ctx, t.db.dialect.sql(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// insert runs an INSERT of one row and returns the id that the database gave it.
func (t tx) insert(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := t.q.ExecContext(ctx, t.db.dialect.sql(query), args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// rows calls scan for each row of a query.
func (t tx) rows(ctx context.Context, scan func(scan func(...any) error) error, query string, args ...any) (err error) {
	if err := t.db.dialect.fit(query, args); err != nil {
		return err
	}
	rows, err := t.q.QueryContext(ctx, t.db.dialect.sql(query), args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// row reads the one row of a query; sql.ErrNoRows if there is none.
func (t tx) row(ctx context.Context, query string, args []any, into ...any) error {
	found := false
	err := t.rows(ctx, func(scan func(...any) error) error {
		found = true
		return scan(into...)
	}, query, args...)
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// fault of ours: what was asked for cannot be done, now or later.
type impossible struct{ string }

func (e impossible) Error() string { return e.string }

// asIs carries an error of the caller's own through a transaction.
type asIs struct{ error }

// fail makes an error for the caller: a refusal, seckill.ErrNotFound or a caller's
// own as it is; else named after the step, and order.ErrUnavailable unless it is
// known to be about what was to be stored. An error that nobody thought of must
// never send a batch of orders to the dead letters.
func (db *DB) fail(step string, err error) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[asIs](err); ok {
		return own.error
	}
	if _, ok := errors.AsType[*seckill.Refusal](err); ok || errors.Is(err, seckill.ErrNotFound) {
		return err
	}
	_, ours := errors.AsType[impossible](err)
	known := db.dialect.fault(err)
	if ours || errors.Is(err, order.ErrUnavailable) || known == faultData {
		return fmt.Errorf("%s: %w", step, err)
	}
	return fmt.Errorf("%s: %w: %w", step, order.ErrUnavailable, err)
}
