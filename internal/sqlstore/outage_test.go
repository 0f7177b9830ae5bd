package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/order"
	"seckill/internal/testenv"
)

// A server that is killed at any moment of a commit, and comes back: each order that was
// answered is there, each that was not is written once by the same call again.
func TestMariaDBKilledInCommit(t *testing.T) {
	// The server's own settings: each commit is flushed.
	server := testenv.MariaDB(t)
	p := open(t, server.URL(t), 0)
	run := p.sale(t, 1_000_000, time.Hour)
	var mu sync.Mutex
	var answered []seckill.Order
	written := 0
	ctx, cancel := context.WithCancel(t.Context())
	var workers []func(context.Context) error
	for n := range 3 {
		workers = append(workers, func(context.Context) error {
			for round := 0; ctx.Err() == nil; round++ {
				rs := buyers(run, (n*1_000_000+round)*20, (n*1_000_000+round)*20+20)
				for {
					call, done := context.WithTimeout(t.Context(), 2*time.Second)
					ws, err := p.WriteOrders(call, run, rs)
					done()
					if err != nil {
						if !errors.Is(err, order.ErrUnavailable) {
							return err
						}
						continue
					}
					mu.Lock()
					written += len(rs)
					for _, w := range ws {
						answered = append(answered, *w.Order)
					}
					mu.Unlock()
					break
				}
			}
			return nil
		})
	}
	ended := make(chan error, len(workers))
	for _, work := range workers {
		go func() { ended <- work(ctx) }()
	}
	for i := range 4 {
		<-time.After(time.Duration(200+37*i) * time.Millisecond)
		server.Kill()
		server.Start(t)
	}
	cancel()
	for range workers {
		must(t, <-ended)
	}
	p.balanced(t, run, 1_000_000, int64(written))
	for _, o := range answered {
		read, err := p.Order(t.Context(), o.ID, o.Buyer)
		must(t, err)
		equal(t, "an order that was answered", read, o)
	}
	t.Logf("%d orders through 4 kills", written)
	if written == 0 {
		t.Fatal("nothing was written")
	}
}

// What is wrong with the way to a database is said without the password.
func TestOpenSaysWhatIsWrong(t *testing.T) {
	server := testenv.MariaDB(t, testenv.MariaFast...)
	db, _ := strings.CutPrefix(server.URL(t), "mysql://root@"+server.Addr+"/")
	server.SQL(t, "CREATE USER shop IDENTIFIED BY 'right'; GRANT ALL ON "+db+".* TO shop;")
	closed := testenv.FreePort(t)
	for _, c := range []struct {
		url, want string
		later     bool // Another try may help.
	}{
		{"mysql://shop:s3cr%2Ft@" + server.Addr + "/" + db, "Access denied", true},
		{"mysql://shop:s3cr%2Ft@" + closed + "/" + db, "mysql://" + closed, true},
		{"mysql://shop:right@" + server.Addr + "/elsewhere", "elsewhere", true},
		{"mysql://shop:s3cr/t@" + server.Addr + "/" + db, "%XX", false},
		{"mysql://shop:s3cr%t@" + server.Addr + "/" + db, "%XX", false},
		{"mysql://shop:s3crt@" + server.Addr, "host:port/name", false},
		{"mysql://shop:s3crt@/" + db, "host:port/name", false},
		{"mysql://shop:s3crt@" + server.Addr + "/" + db + "?allowAllFiles=true", "allowAllFiles", false},
		{"mysql://shop:s3crt@" + server.Addr + "/" + db + "?tls=maybe", "tls", false},
		{"postgres://shop:s3crt@h/d", "sqlite:PATH", false},
		{"", "sqlite:PATH", false},
		{"sqlite:", "path of a file", false},
		{"sqlite::memory:", "path of a file", false},
		{"sqlite:" + filepath.Join(t.TempDir(), "x") + "/", "sqlite:", true},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		db, err := Open(ctx, c.url, Options{})
		cancel()
		if err == nil {
			must(t, db.Close())
			t.Errorf("%s was opened", c.url)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cr") || errors.Is(err, order.ErrUnavailable) != c.later {
			t.Errorf("%s: got %v, want %q, unavailable %v", c.url, err, c.want, c.later)
		}
	}
	p := open(t, "mysql://shop:right@"+server.Addr+"/"+db+"?tls=preferred", 0)
	p.sale(t, 1, 0)
	if _, err := Open(t.Context(), p.url, Options{ConnsMax: 1}); err == nil {
		t.Error("one connection is enough, it says")
	}
}

// The server's own settings decide nothing: times are UTC, isolation is read committed,
// and text is whole.
func TestMySQLSession(t *testing.T) {
	server := testenv.MariaDB(t, append(testenv.MariaFast, "--sql-mode=", "--default-time-zone=+08:00")...)
	p := open(t, server.URL(t), 0)
	var mode, zone, isolation string
	must(t, p.write.QueryRowContext(t.Context(), "SELECT @@sql_mode, @@time_zone, @@tx_isolation").Scan(&mode, &zone, &isolation))
	if !strings.Contains(mode, "STRICT_ALL_TABLES") || zone != "+00:00" || isolation != "READ-COMMITTED" {
		t.Fatalf("mode %s, zone %s, isolation %s", mode, zone, isolation)
	}
	claimActivities(t, p)
}

// Confirmed means that it is on the disk. A machine cannot be switched off in a test, so
// this looks at the settings that see to it.
func TestSQLiteIsDurable(t *testing.T) {
	p := open(t, sqliteURL(t), 0)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "5000"} {
		var got string
		must(t, p.write.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		equal(t, pragma, got, want)
	}
	if _, err := p.read.ExecContext(t.Context(), "DELETE FROM seckill_meta"); err == nil {
		t.Fatal("the readers' connections can write")
	}
}

// Another process that holds SQLite's file makes a call wait, and then try later.
func TestSQLiteBusy(t *testing.T) {
	p := open(t, sqliteURL(t), 0)
	run := p.sale(t, 10, time.Hour)
	other := open(t, p.url, 0)
	hold, err := other.write.BeginTx(t.Context(), nil)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.WriteOrders(ctx, run, buyers(run, 0, 1)); !errors.Is(err, order.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	done := make(chan error, 1)
	go func() { _, err := p.WriteOrders(t.Context(), run, buyers(run, 0, 1)); done <- err }()
	<-time.After(20 * time.Millisecond)
	must(t, hold.Rollback())
	must(t, <-done)
	p.balanced(t, run, 10, 1)
}

// Ids rise, also when the clock jumps back or stands still, and do not repeat.
func TestIDsRise(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	m := newIDMaker(func() time.Time { return now })
	last := int64(0)
	for i := range 10_000 {
		switch i {
		case 3000:
			now = now.Add(time.Hour)
		case 6000:
			now = now.Add(-2 * time.Hour)
		}
		id := m.next()
		if id <= last {
			t.Fatalf("id %d follows %d", id, last)
		}
		last = id
	}
	now = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	if id := m.next(); id <= last {
		t.Fatalf("id %d in the year 2200", id)
	}
}

// Two processes that drew the same bits meet on a key, draw new ones, and both get through.
func TestIDsOfTwoProcessesMeet(t *testing.T) {
	p := open(t, sqliteURL(t), 0)
	run := p.sale(t, 10, time.Hour)
	now := time.Now()
	p.ids = newIDMaker(func() time.Time { return now })
	p.mustOrder(t, reservation(run, "a", 1))
	process, ms, count := p.ids.process, p.ids.ms, p.ids.count
	p.mustOrder(t, reservation(run, "b", 1))
	p.ids = &idMaker{now: p.ids.now, process: process, ms: ms, count: count}
	p.mustOrder(t, reservation(run, "c", 1))
	p.balanced(t, run, 10, 3)
}

// Text from outside is cut between characters.
func TestClip(t *testing.T) {
	for _, c := range []struct {
		in   string
		max  int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"茶杯", 5, "茶"}, {"茶杯", 2, ""}, {"", 0, ""}} {
		equal(t, fmt.Sprintf("clip(%q, %d)", c.in, c.max), clip(c.in, c.max), c.want)
	}
}

// A path is a path, whatever is in it.
func TestSQLitePath(t *testing.T) {
	dsn := sqliteDSN("/a b/c?d#e%41", "x=1")
	u, err := url.Parse(dsn)
	must(t, err)
	equal(t, "path", u.Path, "/a b/c?d#e%41")
	equal(t, "query", u.RawQuery, "x=1")
}
