// Package sqlstore keeps activities and orders in a SQL database. It is one layer of SQL for
// SQLite and MySQL (or MariaDB); a small dialect holds what they differ in.
//
// It decides nothing about a sale but this: live orders of a run never hold more
// units than the run has. The conditional update in the transaction of the orders
// sees to that, whatever a stock or a queue believed.
//
// internal/app opens it and hands it to the stages, each of which sees only the
// interface that it declares itself.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/activity"
	"seckill/internal/order"
)

// Options of a database. The zero value is the usual one.
type Options struct {
	// Now is the clock of SQLite, which has none of its own; time.Now by default. MySQL
	// uses its own clock.
	Now func() time.Time
	// ConnsMax is how many connections are open at once, at most: from 2; 16 by default.
	// SQLite uses one of them for writing.
	ConnsMax int
}

// DB is an open database. All methods may be called concurrently.
type DB struct {
	write   *sql.DB
	read    *sql.DB // The same as write, unless the dialect has one writer.
	dialect dialect
	ids     *idMaker

	insertsMu sync.Mutex
	inserts   []preparedInsert // Those of the dialect that were needed so far.

	blocksMax int64 // Active blocks, at most.

	listening atomic.Pointer[listeners] // The webhooks that were last read.
}

var (
	_ order.Store    = (*DB)(nil)
	_ activity.Store = (*DB)(nil)
)

// Open opens the database that a URL names, sqlite:PATH or
// mysql://user:pass@host:port/name, and checks that it answers. No error
// names the password. The schema is not touched; see Migrate.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ConnsMax == 0 {
		o.ConnsMax = 16
	}
	if o.ConnsMax < 2 {
		return nil, fmt.Errorf("database connections: %d is too few, at least 2", o.ConnsMax)
	}
	scheme, rest, _ := strings.Cut(url, ":")
	var db *DB
	var err error
	switch scheme {
	case "sqlite":
		db, err = openSQLite(rest, o)
	case "mysql":
		db, err = openMySQL(url, o)
	default:
		return nil, errors.New("database URL: want sqlite:PATH or mysql://user:pass@host:port/name")
	}
	if err != nil {
		return nil, err
	}
	db.blocksMax = blocksMax
	if err := db.Ping(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Ping checks that the database answers.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.read.PingContext(ctx); err != nil {
		return db.fail("open "+db.dialect.where, err)
	}
	return nil
}

// Close ends all connections.
func (db *DB) Close() error {
	if db.read == db.write {
		return db.write.Close()
	}
	// The writer goes last, so that it is the one to empty SQLite's log.
	return errors.Join(db.read.Close(), db.write.Close())
}
