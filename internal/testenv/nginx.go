package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// NginxServer is an nginx of its own, in a folder of its own.
type NginxServer struct {
	Addr string // host:port.

	proc *process
}

// Nginx starts one with a file for its http block, in which each old text of replace becomes the new one; a text that
// is not there fails the test. "LISTEN" among the new ones stands for the address that it gets.
func Nginx(tb testing.TB, site string, replace map[string]string) *NginxServer {
	tb.Helper()
	binary := needs(tb, "nginx")
	dir := tb.TempDir()
	n := &NginxServer{Addr: FreePort(tb)}
	text, err := os.ReadFile(site)
	if err != nil {
		tb.Fatal(err)
	}
	conf := string(text)
	for old, now := range replace {
		if !strings.Contains(conf, old) {
			tb.Fatalf("%s does not say %q", site, old)
		}
		conf = strings.ReplaceAll(conf, old, strings.ReplaceAll(now, "LISTEN", n.Addr))
	}
	// One process, so that nothing of it outlives the test.
	main := fmt.Sprintf(`daemon off;
master_process off;
worker_rlimit_nofile 65536;
pid nginx.pid;
error_log stderr warn;
events { worker_connections 16384; }
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include %s;
}
`, filepath.Join(dir, "site.conf"))
	for name, text := range map[string]string{"site.conf": conf, "nginx.conf": main} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	n.proc = startProcess(dir, binary, "-p", dir, "-c", "nginx.conf", "-e", "stderr")
	tb.Cleanup(func() { n.proc.end(syscall.SIGTERM) })
	if err := n.proc.await(func() error {
		c, err := net.Dial("tcp", n.Addr) //nolint:noctx // It is on this machine.
		if err == nil {
			_ = c.Close()
		}
		return err
	}); err != nil {
		tb.Fatalf("nginx does not start: %v\n%s", err, n.proc.said())
	}
	return n
}
