package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Maria is a MariaDB server of one test: its own folder, its own port, gone when the test ends.
type Maria struct {
	Addr string // host:port; the same after each Start.

	dir    string
	flags  []string
	binary string
	names  atomic.Int64
	proc   *process
}

// MariaFast leaves out what only matters when the machine loses power. A kill of the
// server is survived all the same, as the system still has what was written.
var MariaFast = []string{
	"--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=0", "--innodb-flush-method=nosync",
}

// MariaDB starts a server with the flags given besides the usual ones. A machine without
// MariaDB fails the test: what is not tested does not work.
func MariaDB(tb testing.TB, flags ...string) *Maria {
	tb.Helper()
	binary, install := needs(tb, "mariadbd", "mysqld"), needs(tb, "mariadb-install-db", "mysql_install_db")
	dir, err := os.MkdirTemp("", "maria") //nolint:usetesting // The path of a socket has to stay under 108 bytes.
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &Maria{Addr: FreePort(tb), dir: dir, flags: flags, binary: binary}
	args := append([]string{
		// A server that starts empties its folder for temporary tables: it has to be its own.
		"--no-defaults", "--tmpdir=" + dir, "--datadir=" + filepath.Join(dir, "data"), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=16M",
	}, asRoot()...)
	if out, err := exec.CommandContext(tb.Context(), install, args...).CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", install, err, out)
	}
	m.Start(tb)
	tb.Cleanup(m.Stop)
	return m
}

// Start starts the server again and waits until it answers.
func (m *Maria) Start(tb testing.TB) {
	tb.Helper()
	_, port, _ := net.SplitHostPort(m.Addr)
	args := append([]string{
		"--no-defaults", "--datadir=" + filepath.Join(m.dir, "data"), "--port=" + port, "--bind-address=127.0.0.1",
		"--socket=" + filepath.Join(m.dir, "s"), "--pid-file=" + filepath.Join(m.dir, "pid"), "--tmpdir=" + m.dir,
		"--skip-name-resolve", "--skip-log-bin", "--performance-schema=OFF", "--innodb-buffer-pool-size=128M",
		"--innodb-log-file-size=64M", "--skip-innodb-buffer-pool-dump-at-shutdown", "--skip-innodb-buffer-pool-load-at-startup",
		"--character-set-server=latin1", // The product must not depend on the server's choice.
		"--max-connections=200",
	}, append(asRoot(), m.flags...)...)
	m.proc = startProcess(m.dir, m.binary, args...)
	if err := m.proc.await(m.greets); err != nil {
		m.Kill()
		tb.Fatalf("%s does not answer: %v\n%s", m.binary, err, m.proc.said())
	}
}

// greets is nil when the server has sent the first bytes that each client gets.
func (m *Maria) greets() error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(context.Background(), "tcp", m.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err = conn.Read(make([]byte, 1))
	return err
}

// Stop ends the server in the ordinary way.
func (m *Maria) Stop() { m.proc.end(syscall.SIGTERM) }

// Kill ends the server as a crash would.
func (m *Maria) Kill() { m.proc.end(syscall.SIGKILL) }

// URL makes an empty database and returns its URL in the product's form.
func (m *Maria) URL(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("seckill%d", m.names.Add(1))
	m.SQL(tb, "CREATE DATABASE "+name)
	return "mysql://root@" + m.Addr + "/" + name
}

// UserURL is URL for a user of that database alone, without the rights that make a server's locks no
// matter.
func (m *Maria) UserURL(tb testing.TB) string {
	tb.Helper()
	url := m.URL(tb)
	name := url[strings.LastIndexByte(url, '/')+1:]
	m.SQL(tb, "CREATE USER u_"+name+" IDENTIFIED BY 'secret'; GRANT ALL ON "+name+".* TO u_"+name)
	return "mysql://u_" + name + ":secret@" + m.Addr + "/" + name
}

// SQL runs statements through MariaDB's own client, which owes nothing to the product.
func (m *Maria) SQL(tb testing.TB, statements string) string {
	tb.Helper()
	out, err := m.TrySQL(tb, statements)
	if err != nil {
		tb.Fatalf("%s: %v\n%s", statements, err, out)
	}
	return out
}

// TrySQL is SQL for what may fail. It may be called by any goroutine of the test.
func (m *Maria) TrySQL(tb testing.TB, statements string) (string, error) {
	tb.Helper()
	client := needs(tb, "mariadb", "mysql")
	cmd := exec.CommandContext(tb.Context(), client, "--no-defaults", "--batch", "--skip-column-names",
		"--socket="+filepath.Join(m.dir, "s"), "--user=root", "--execute="+statements)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Ended tells whether the server runs no more, by itself or because it was killed.
func (m *Maria) Ended() bool {
	select {
	case <-m.proc.exited:
		return true
	default:
		return false
	}
}

func asRoot() []string {
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		return []string{"--user=root"}
	}
	return nil
}
