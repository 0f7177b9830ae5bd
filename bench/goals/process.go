package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one that this program started. pid is whose CPU time counts: its own, or
// that of nginx's worker.
type process struct {
	cmd    *exec.Cmd
	pid    int
	ended  chan struct{}
	output bytes.Buffer
}

// start runs a program until ready says nil.
func start(ctx context.Context, ready func() error, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// The death signal follows the thread that started the process.
	runtime.LockOSThread()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.pid = p.cmd.Process.Pid
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	if err := p.await(ctx, ready); err != nil {
		p.stop()
		return nil, fmt.Errorf("start %s: %w\n%s", filepath.Base(name), err, p.output.Bytes())
	}
	return p, nil
}

// await asks every two milliseconds.
func (p *process) await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-p.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return err
		}
	}
}

// stop ends the process and what it started, and no other.
func (p *process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(12 * time.Second):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
}

// usage is CPU time.
type usage struct{ user, system time.Duration }

func (u usage) minus(v usage) usage  { return usage{u.user - v.user, u.system - v.system} }
func (u usage) plus(v usage) usage   { return usage{u.user + v.user, u.system + v.system} }
func (u usage) total() time.Duration { return u.user + u.system }

// cpuOf is what processes have used so far.
func cpuOf(pids ...int) (sum usage, err error) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return sum, err
		}
		// The name in parentheses may hold spaces; utime and stime are the 12th and 13th field
		// after it, in ticks of 10 ms.
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		user, err1 := strconv.Atoi(f[11])
		system, err2 := strconv.Atoi(f[12])
		if err := errors.Join(err1, err2); err != nil {
			return sum, err
		}
		const tick = 10 * time.Millisecond
		sum = sum.plus(usage{time.Duration(user) * tick, time.Duration(system) * tick})
	}
	return sum, nil
}

// load is what processors have done so far: for some processes, and for all.
type load struct {
	at        time.Time
	own, busy time.Duration
}

func (l load) ours(before load) float64 {
	return float64(l.own-before.own) / float64(l.at.Sub(before.at))
}
func (l load) all(before load) float64 {
	return float64(l.busy-before.busy) / float64(l.at.Sub(before.at))
}

// loadOf takes in this program and what it has waited for besides the processes named.
func loadOf(pids ...int) (l load, err error) {
	u, err := cpuOf(pids...)
	if err != nil {
		return l, err
	}
	l.at, l.own = time.Now(), u.total()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err != nil {
			return l, err
		}
		l.own += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l, err
	}
	first, _, _ := strings.Cut(string(b), "\n")
	// Ticks of 10 ms: user, nice, system, idle, waiting for disks, interrupts.
	for i, f := range strings.Fields(first)[1:] {
		ticks, err := strconv.Atoi(f)
		if err != nil {
			return l, err
		}
		if i < 8 && i != 3 && i != 4 {
			l.busy += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return l, nil
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func freeAddrs() (public, admin string, err error) {
	public, err1 := freeAddr()
	admin, err2 := freeAddr()
	return public, admin, errors.Join(err1, err2)
}

// answers asks whether an address answers 200.
func answers(url string) func() error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return func() error {
		res, err := client.Get(url)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", res.Status)
		}
		return nil
	}
}

// machine is what the figures depend on besides the program.
func machine(dir string) string {
	model := "unknown CPU"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(b), "model name\t: ")
		model, _, _ = strings.Cut(rest, "\n")
	}
	load, _ := os.ReadFile("/proc/loadavg")
	text := fmt.Sprintf("%d × %s, %s, load average at the start %s", runtime.NumCPU(), model, runtime.Version(), strings.Join(strings.Fields(string(load))[:3], " "))
	if d, err := fsyncTime(dir); err == nil {
		text += fmt.Sprintf(", 4 KiB and fsync in %s: %.2f ms", os.TempDir(), d.Seconds()*1000)
	}
	return text
}

// fsyncTime is the median of writing one page behind the others and waiting for the disk.
func fsyncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	took := make([]time.Duration, 50)
	for i := range took {
		begin := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took[i] = time.Since(begin)
	}
	return slices.Sorted(slices.Values(took))[len(took)/2], nil
}
