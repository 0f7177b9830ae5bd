package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is a started subject. pid is the process whose CPU counts: the
// server itself, or nginx's worker.
type process struct {
	cmd  *exec.Cmd
	pid  int
	addr string
}

func start(s subject) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &process{addr: addr}
	if s.args == nil {
		conf, err := nginxConf(addr)
		if err != nil {
			return nil, err
		}
		p.cmd = exec.Command("nginx", "-p", *work, "-c", conf, "-e", filepath.Join(*work, "error.log"))
	} else {
		p.cmd = exec.Command(*server, append(s.args, "-listen", addr)...)
	}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.pid = p.cmd.Process.Pid
	for range 100 {
		time.Sleep(50 * time.Millisecond)
		c, err := net.Dial("tcp", addr)
		if err != nil {
			continue
		}
		_ = c.Close()
		if s.args == nil {
			if p.pid, err = childOf(p.pid); err != nil {
				p.kill()
				return nil, err
			}
		}
		return p, nil
	}
	p.kill()
	return nil, fmt.Errorf("%s did not start on %s", s.name, addr)
}

// kill ends the process that start began, and no other.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	ended := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(8 * time.Second):
		_ = p.cmd.Process.Kill()
		<-ended
	}
}

// cpu is the user and system time of all threads so far.
func (p *process) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold spaces; utime and stime are the 12th
	// and 13th field after it, in ticks of 10 ms.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("cannot read %q", b)
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

var rssLine = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// rss is the resident memory in KiB.
func (p *process) rss() int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	m := rssLine.FindSubmatch(b)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

func childOf(pid int) (int, error) {
	for range 40 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			return 0, err
		}
		if f := strings.Fields(string(b)); len(f) > 0 {
			return strconv.Atoi(f[0])
		}
		time.Sleep(50 * time.Millisecond)
	}
	return 0, fmt.Errorf("process %d has no child", pid)
}

func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

func nginxConf(addr string) (string, error) {
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	conf := fmt.Sprintf(`%s
daemon off;
worker_processes 1;
pid %[2]s/nginx.pid;
error_log %[2]s/error.log crit;
events { worker_connections 10000; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[2]s/body;
  proxy_temp_path %[2]s/proxy;
  fastcgi_temp_path %[2]s/fastcgi;
  uwsgi_temp_path %[2]s/uwsgi;
  scgi_temp_path %[2]s/scgi;
  default_type application/problem+json;
  client_header_timeout 5s;
  server {
    listen %[3]s;
    location / { return 200 '{"type":"about:blank","status":410,"title":"Sold out","reason":"sold_out","msg":"Everything has been sold. Thank you for coming, and good luck."}'; }
  }
}
`, user, *work, addr)
	path := filepath.Join(*work, "nginx.conf")
	return path, os.WriteFile(path, []byte(conf), 0o644)
}

// A load is what wrk saw.
type load struct {
	requests int
	p99      time.Duration
	errors   string
}

var (
	requestsLine = regexp.MustCompile(`(\d+) requests in`)
	p99Line      = regexp.MustCompile(`99%\s+(\S+)`)
	errorsLine   = regexp.MustCompile(`Socket errors: (.*)`)
)

func wrk(addr string, d time.Duration) (load, error) {
	out, err := exec.Command("wrk", "-t1", "-c200", fmt.Sprintf("-d%ds", int(d.Seconds())),
		"--latency", "-s", *script, "http://"+addr+"/v1/activities/12/purchases").CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	m := requestsLine.FindSubmatch(out)
	if m == nil {
		return load{}, fmt.Errorf("wrk said: %s", out)
	}
	var l load
	l.requests, _ = strconv.Atoi(string(m[1]))
	if m := p99Line.FindSubmatch(out); m != nil {
		l.p99, _ = time.ParseDuration(string(m[1]))
	}
	if m := errorsLine.FindSubmatch(out); m != nil {
		l.errors = string(m[1])
	}
	return l, nil
}
