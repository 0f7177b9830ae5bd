package sqlstore

import (
	"context"
	"database/sql"
	"strings"

	"github.com/pressly/goose/v3"
)

// dialect is what SQLite and MySQL differ in. Everything else is written in what
// both understand: no RETURNING, no INSERT … AS, no upserts.
type dialect struct {
	name  string        // Also the folder of its migrations.
	goose goose.Dialect // The same, as goose calls it.
	where string        // Names the database in errors; never a password.

	// clock is the database's clock as an SQL expression.
	clock func() string
	// lockRow ends a SELECT whose row is to be held until the transaction ends, and
	// skipLocked one that is to leave out what others hold. A SQLite transaction
	// has the database for itself.
	lockRow, skipLocked string
	// rowsMax is how many rows, or values of a list, go into one statement.
	rowsMax int
	// prepared are the rows of the prepared INSERTs that a batch of orders is put together of, largest first;
	// what is left goes as text. It takes SQLite more time to read the text of a statement than to
	// store its rows, and MySQL a tenth of it; but a statement that is sent is a round trip.
	prepared []int

	// fault tells of a driver's error whose fault it is; see fail.
	fault func(error) fault
	// fits tells whether a statement is too long for the server; nil where none is.
	fits func(query string, args []any) error
	// lockMigrations waits until no other process migrates, and returns how to let go.
	lockMigrations func(ctx context.Context, db *sql.DB) (unlock func() error, err error)
	// migrator opens connections whose statements may take their time; nil where all of them may.
	migrator func() *sql.DB
}

// fault says what a driver's error is about.
type fault int8

const (
	faultElsewhere   fault = iota // Not the statement's: the same call will go through later.
	faultData                     // What was to be stored cannot be.
	faultDuplicate                // A unique key.
	faultDuplicateID              // The primary key.
	faultCollision                // The transaction lost against another; nothing of it is left.
)

// sql replaces {now} in a statement by the database's clock.
func (d *dialect) sql(query string) string {
	if !strings.Contains(query, "{now}") {
		return query
	}
	return strings.ReplaceAll(query, "{now}", d.clock())
}

func (d *dialect) fit(query string, args []any) error {
	if d.fits == nil {
		return nil
	}
	return d.fits(query, args)
}

// marks returns n question marks for a list of values.
func marks(n int) string {
	return strings.TrimSuffix(strings.Repeat("?,", n), ",")
}

// anys makes arguments of a list.
func anys[T any](list []T) []any {
	args := make([]any, len(list))
	for i, v := range list {
		args[i] = v
	}
	return args
}
