package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
)

func openMySQL(rawURL string, o Options) (*DB, error) {
	c, err := mysqlConfig(rawURL)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, errors.New("database URL: the MySQL driver does not accept it")
	}
	// An index of many orders takes longer to be built than any other statement may. Contexts end it.
	c = c.Clone()
	c.ReadTimeout = 0
	patient, err := mysql.NewConnector(c)
	if err != nil {
		return nil, errors.New("database URL: the MySQL driver does not accept it")
	}
	limit := &packets{}
	pool := sql.OpenDB(readCommitted{connector, limit})
	pool.SetMaxOpenConns(o.ConnsMax)
	pool.SetMaxIdleConns(o.ConnsMax)
	// Shorter than what servers, proxies and balancers allow an idle connection.
	pool.SetConnMaxLifetime(3 * time.Minute)
	pool.SetConnMaxIdleTime(idleFor)
	return &DB{write: pool, read: pool, ids: newIDMaker(time.Now), dialect: dialect{
		name: "mysql", goose: goose.DialectMySQL, where: "mysql://" + c.Addr + "/" + c.DBName,
		clock:   func() string { return "UTC_TIMESTAMP(6)" },
		lockRow: " FOR UPDATE", skipLocked: " FOR UPDATE SKIP LOCKED",
		rowsMax:        1000,
		prepared:       []int{500, 100},
		fault:          mysqlFault,
		fits:           limit.fit,
		lockMigrations: lockName,
		migrator:       func() *sql.DB { return sql.OpenDB(readCommitted{patient, limit}) },
	}}, nil
}

// mysqlConfig reads mysql://user:pass@host:port/name, with ?tls= as the one option.
// Its errors say nothing of the URL, which has a password in it.
func mysqlConfig(rawURL string) (*mysql.Config, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("database URL: cannot be read; special characters in the password have to be written as %XX")
	}
	name := strings.TrimPrefix(u.Path, "/")
	if u.Hostname() == "" || name == "" || strings.Contains(name, "/") || u.Fragment != "" || u.Opaque != "" {
		return nil, errors.New("database URL: want mysql://user:pass@host:port/name")
	}
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	c.Net, c.Addr, c.DBName = "tcp", net.JoinHostPort(u.Hostname(), port), name
	for key, values := range u.Query() {
		if key != "tls" || len(values) != 1 {
			return nil, fmt.Errorf("database URL: option %q; only tls=true, skip-verify or preferred is known", key)
		}
		switch values[0] {
		case "true", "skip-verify", "preferred", "false":
			c.TLSConfig = values[0]
		default:
			return nil, errors.New("database URL: tls has to be true, skip-verify, preferred or false")
		}
	}
	c.ParseTime, c.Loc = true, time.UTC
	c.InterpolateParams = true // One round trip a statement instead of three.
	c.MaxAllowedPacket = 0     // As the server says: a statement that is too large is told from a connection that broke.
	c.ClientFoundRows = true   // Counts rows that match, as SQLite does.
	c.Collation = "utf8mb4_bin"
	c.Timeout = 5 * time.Second
	// Only a last resort: contexts end calls earlier.
	c.ReadTimeout, c.WriteTimeout = 30*time.Second, 30*time.Second
	c.Logger = &mysql.NopLogger{} // What matters comes back as an error.
	c.Params = map[string]string{
		"time_zone": "'+00:00'",
		// A value that does not fit is an error, however the server is set up.
		"sql_mode":     "CONCAT(@@sql_mode,',STRICT_ALL_TABLES')",
		"wait_timeout": silentFor,
	}
	return c, nil
}

// silentFor is after how many seconds of silence the server gives a connection up. A process that stands
// still in the middle of a transaction (a frozen machine) would otherwise keep the row of the
// stock locked for hours. The pool closes idle connections well before, after idleFor.
const (
	silentFor = "10"
	idleFor   = 4 * time.Second
)

// readCommitted makes connections of that isolation. The name of the variable is not
// the same in MySQL and MariaDB; this statement is.
type readCommitted struct {
	driver.Connector
	limit *packets
}

func (r readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.(driver.ExecerContext).ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := r.limit.learn(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// packets is how long a statement may be for the server. One that is too long ends the connection,
// and looks like one that broke for another reason; so it is not sent.
type packets struct{ max atomic.Int64 }

// errTooLarge says that a statement is longer than the server takes.
var errTooLarge = errors.New("the statement is longer than the server's max_allowed_packet")

func (p *packets) learn(ctx context.Context, conn driver.Conn) error {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT @@max_allowed_packet", nil)
	if err != nil {
		return err
	}
	value := make([]driver.Value, 1)
	if err := errors.Join(rows.Next(value), rows.Close()); err != nil {
		return err
	}
	var n sql.Null[int64] // It is whatever type the driver makes of the column.
	if err := n.Scan(value[0]); err != nil {
		return fmt.Errorf("max_allowed_packet: %w", err)
	}
	p.max.Store(n.V)
	return nil
}

// fit is errTooLarge if a statement may be too long once its arguments are in its text.
func (p *packets) fit(query string, args []any) error {
	size := int64(len(query)) + 1024
	for _, a := range args {
		switch a := a.(type) {
		case string:
			size += 2*int64(len(a)) + 2
		case buyerID:
			size += 2*int64(len(a)) + 16
		case []byte:
			size += 2*int64(len(a)) + 16
		default:
			size += 32
		}
	}
	if most := p.max.Load(); most > 0 && size > most {
		return fmt.Errorf("%w of %d bytes", errTooLarge, most)
	}
	return nil
}

// lockName holds a named lock of the server, which ends with its connection.
func lockName(ctx context.Context, db *sql.DB) (unlock func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	// It is silent while another connection migrates.
	if _, err := conn.ExecContext(ctx, "SET SESSION wait_timeout = 28800"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	const lock = "CONCAT('seckill.migrate.', LEFT(DATABASE(), 40))"
	for {
		var got sql.NullInt64
		// Asked for in pieces, so that no wait comes near the read timeout.
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+lock+", 5)").Scan(&got); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if got.Int64 == 1 {
			return func() error {
				_, err := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+lock+")")
				_, err2 := conn.ExecContext(context.WithoutCancel(ctx), "SET SESSION wait_timeout = "+silentFor)
				return errors.Join(err, err2, conn.Close())
			}, nil
		}
	}
}

func mysqlFault(err error) fault {
	if errors.Is(err, errTooLarge) {
		return faultData // For the server as it is set up: half of it may fit.
	}
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return faultElsewhere
	}
	switch e.Number {
	case 1062: // ER_DUP_ENTRY
		if strings.Contains(e.Message, "PRIMARY") {
			return faultDuplicateID
		}
		return faultDuplicate
	case 1205, 1213, 1020: // Lock wait timeout, deadlock, and MariaDB's "record has changed since last read".
		return faultCollision
	case 1048, 1264, 1265, 1292, 1366, 1406, 1690, // NULL, out of range, truncated, wrong value or characters, too long.
		1452, 3819, 4025, 1644, // Foreign key, check constraints of MySQL and MariaDB, a trigger's SIGNAL.
		1153: // A packet that is too large.
		return faultData
	}
	return faultElsewhere
}
