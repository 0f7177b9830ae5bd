package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// RedisServer is a Redis of one test: its own folder, its own port, gone when the test
// ends. It is spoken to without the client that the product uses.
type RedisServer struct {
	Addr string // host:port; the same after each Start.

	dir    string
	flags  []string
	binary string
	proc   *process
	tls    string
}

// RedisAOF makes a Redis keep what it has in its folder, written to disk once a second.
var RedisAOF = []string{"--appendonly", "yes", "--appendfsync", "everysec"}

// RedisAOFUnrewritten is RedisAOF without rewriting the file when it has grown, which begins at a moment of its
// own and takes a second processor for a while: nothing to have within a comparison, or within a sale.
var RedisAOFUnrewritten = append(slices.Clip(RedisAOF), "--auto-aof-rewrite-percentage", "0")

// Redis starts a server with the flags given besides the usual ones; without any it keeps
// nothing on disk. A machine without Redis fails the test: what is not tested does not work.
func Redis(tb testing.TB, flags ...string) *RedisServer {
	tb.Helper()
	r := newRedis(tb, FreePort(tb), flags...)
	r.Start(tb)
	return r
}

func newRedis(tb testing.TB, addr string, flags ...string) *RedisServer {
	tb.Helper()
	r := &RedisServer{Addr: addr, dir: tb.TempDir(), flags: flags, binary: needs(tb, "redis-server", "valkey-server")}
	tb.Cleanup(func() { r.Kill() })
	return r
}

// Start starts the server, again if it was stopped, and waits until it answers.
func (r *RedisServer) Start(tb testing.TB) {
	tb.Helper()
	if err := r.launch(); err != nil {
		tb.Fatalf("redis at %s: %v", r.Addr, err)
	}
}

func (r *RedisServer) launch() error {
	_, port, _ := net.SplitHostPort(r.Addr)
	args := append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", r.dir, "--save", "", "--appendonly", "no",
		"--protected-mode", "no", "--daemonize", "no", "--enable-debug-command", "yes",
		"--repl-diskless-sync-delay", "0", "--loglevel", "notice",
	}, r.flags...)
	r.proc = startProcess(r.dir, r.binary, args...)
	err := r.proc.await(func() error {
		answer, err := r.Do("PING")
		if err == nil && answer != "PONG" {
			err = fmt.Errorf("it says %v", answer)
		}
		return err
	})
	if err != nil {
		r.Kill()
		return fmt.Errorf("it does not answer: %w\n%s", err, r.proc.said())
	}
	return nil
}

// Stop ends the server in the ordinary way.
func (r *RedisServer) Stop() { r.proc.end(syscall.SIGTERM) }

// Kill ends the server as a crash would.
func (r *RedisServer) Kill() { r.proc.end(syscall.SIGKILL) }

// Pause makes the server hang: its connections stay, and nothing answers.
func (r *RedisServer) Pause() { r.proc.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (r *RedisServer) Resume() { r.proc.signal(syscall.SIGCONT) }

// URL is the server in the product's form.
func (r *RedisServer) URL() string { return "redis://" + r.Addr }

// File is a path in the server's folder.
func (r *RedisServer) File(name string) string { return filepath.Join(r.dir, name) }

// Must is Do for what cannot fail.
func (r *RedisServer) Must(tb testing.TB, args ...string) any {
	tb.Helper()
	answer, err := r.Do(args...)
	if err != nil {
		tb.Fatalf("redis %s: %v", strings.Join(args, " "), err)
	}
	return answer
}

// Do sends one command on a connection of its own, and returns a string, an int64, a
// []any, or nil.
func (r *RedisServer) Do(args ...string) (any, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(context.Background(), "tcp", r.Addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return nil, err
	}
	return readAnswer(bufio.NewReader(conn))
}

// readAnswer reads one value of RESP 2.
func readAnswer(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty line for an answer")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("answer %q: %w", line, err)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = readAnswer(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("answer %q is of no kind", line)
}
