package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// FreePorts returns n different ports of the loopback interface that nobody listens on. They are not among those
// that the system gives to outgoing connections: a server that is stopped and started again would sooner or later find
// a client of somebody else's on its port.
func FreePorts(tb testing.TB, n int) []string {
	tb.Helper()
	const lowest, highest, tries = 12000, 32000, 1000
	var addrs []string
	var config net.ListenConfig
	for range tries {
		if len(addrs) == n {
			return addrs
		}
		port := lowest + rand.IntN(highest-lowest) //nolint:gosec // Anybody may guess it.
		l, err := config.Listen(tb.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		// All of them stay open until the last is found, so that none is found twice.
		defer func() { _ = l.Close() }()
		if !claim(port) {
			continue
		}
		addrs = append(addrs, l.Addr().String())
	}
	tb.Fatal("there are no ports that are free")
	return nil
}

// claims keeps what is claimed until the test program ends.
var claims sync.Map

// claim takes a port for this test program, among all on this machine: its server may take a second until it listens. The
// name is one of Linux's abstract ones, which ends with the program; elsewhere it would be a file, and nothing is claimed.
func claim(port int) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	l, err := net.Listen("unix", "@seckill-test-port-"+strconv.Itoa(port)) //nolint:noctx // It waits for nothing.
	if err == nil {
		claims.Store(port, l)
	}
	return !errors.Is(err, syscall.EADDRINUSE)
}

// process is a server that a test runs. It dies with the test program, however that ends.
type process struct {
	exited chan struct{} // Closed when it has ended.
	os     *os.Process   // Nil if it could not be started.

	mu  sync.Mutex
	log bytes.Buffer
}

// Write keeps the end of what the server says.
func (p *process) Write(b []byte) (int, error) {
	const most = 64 << 10
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.Write(b)
	if over := p.log.Len() - most; over > 0 {
		p.log.Next(over)
	}
	return len(b), nil
}

// said is the end of what the server said.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// startProcess starts a program in a folder.
func startProcess(dir, binary string, args ...string) *process {
	p := &process{exited: make(chan struct{})}
	started := make(chan struct{})
	go func() {
		defer close(p.exited)
		// The server dies with the thread that started it, so that thread has to stay.
		runtime.LockOSThread()
		cmd := exec.Command(binary, args...) //nolint:noctx // It is ended by a signal, in its own way.
		cmd.Dir = dir
		cmd.SysProcAttr = childAttr()
		cmd.Stdout, cmd.Stderr = p, p
		err := cmd.Start()
		if err != nil {
			fmt.Fprintln(p, err)
			close(started)
			return
		}
		p.os = cmd.Process
		close(started)
		_ = cmd.Wait()
	}()
	<-started
	return p
}

// signal sends a signal to a server that runs.
func (p *process) signal(sig os.Signal) {
	if p != nil && p.os != nil {
		_ = p.os.Signal(sig)
	}
}

// end sends a signal and waits until the server has ended. A paused one is woken for it.
func (p *process) end(sig os.Signal) {
	if p == nil {
		return
	}
	p.signal(sig)
	p.signal(syscall.SIGCONT)
	<-p.exited
}

// await asks until the answer is nil, the server ends, or half a minute is over.
func (p *process) await(ask func() error) error {
	last := errors.New("it was not asked yet")
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if last = ask(); last == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("it ended: %w", last)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return last
}
