package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Users of a RabbitServer, all with RabbitPassword and access to RabbitVhost alone.
const (
	RabbitOwner  = "owner"  // May do everything there.
	RabbitUser   = "user"   // May publish and consume, but create nothing.
	RabbitWriter = "writer" // May publish alone.
	RabbitGuest  = "guest"  // May come in, and do nothing.

	RabbitPassword = "s3cret/@:%" // It has to be escaped in a URL.
	RabbitVhost    = "shop"

	// RabbitBounded begins the names of queues that refuse what is more than a few messages.
	RabbitBounded = "bounded-"
)

// rabbitBin is where Debian keeps RabbitMQ's own scripts. Those in /usr/sbin change the
// user, and so would not be this test's child.
const rabbitBin = "/usr/lib/rabbitmq/bin"

// RabbitServer is a RabbitMQ of one test: its own folder, ports and node, gone when the
// test ends. It takes about six seconds to start, so tests share one where they can: each
// with queues of its own.
type RabbitServer struct {
	Addr string // host:port; the same after each Start.

	dir  string
	env  []string
	proc *process
	epmd *process // The name server of Erlang, one for this node alone.
}

// RabbitMQ starts a broker. A machine without RabbitMQ fails the test: what is not tested
// does not work.
func RabbitMQ(tb testing.TB) *RabbitServer {
	tb.Helper()
	epmd := needs(tb, "epmd")
	needs(tb, filepath.Join(rabbitBin, "rabbitmq-server"))
	ports := FreePorts(tb, 3)
	r := &RabbitServer{Addr: ports[0], dir: tb.TempDir()}
	r.env = r.environment(port(ports[1]), port(ports[2]))
	if err := r.configure(); err != nil {
		tb.Fatal(err)
	}
	// A node starts a name server if it finds none, and that one would outlive the test.
	r.epmd = startProcess(r.dir, epmd, "-port", port(ports[2]), "-address", "127.0.0.1")
	tb.Cleanup(func() {
		r.Kill()
		r.epmd.end(syscall.SIGKILL)
	})
	r.Start(tb)
	return r
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

func (r *RabbitServer) environment(distPort, epmdPort string) []string {
	in := func(name string) string { return filepath.Join(r.dir, name) }
	return []string{
		"HOME=" + r.dir,
		"RABBITMQ_NODENAME=seckill@localhost",
		"RABBITMQ_DIST_PORT=" + distPort,
		"ERL_EPMD_PORT=" + epmdPort,
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + in("data"),
		"RABBITMQ_LOG_BASE=" + r.dir,
		"RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE=" + in("pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("plugins"),
		"RABBITMQ_CONFIG_FILE=" + in("rabbitmq"), // The .conf is added by RabbitMQ.
		"RABBITMQ_CONF_ENV_FILE=" + in("none"),
		// The script becomes the server, and does not stay as its parent: signals and the
		// death of the test reach the server itself.
		"RABBITMQ_ALLOW_INPUT=1",
		// Little memory, and no threads that spin while they wait.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none +A 4",
	}
}

// configure writes the files that the server reads when it starts.
func (r *RabbitServer) configure() error {
	conf := fmt.Sprintf(`listeners.tcp.default = %s
load_definitions = %s
loopback_users = none
heartbeat = 10
vm_memory_high_watermark.absolute = 400MB
disk_free_limit.absolute = 1MB
raft.wal_max_size_bytes = 16777216
log.console.level = warning
`, r.Addr, filepath.Join(r.dir, "definitions.json"))
	type object map[string]any
	user := func(name string) object { return object{"name": name, "password": RabbitPassword, "tags": ""} }
	const all, none = ".*", "^$"
	may := func(name, configure, write, read string) object {
		return object{"user": name, "vhost": RabbitVhost, "configure": configure, "write": write, "read": read}
	}
	definitions, err := json.Marshal(object{
		"vhosts": []object{{"name": RabbitVhost}, {"name": "closed"}}, // Nobody may enter the second.
		"users":  []object{user(RabbitOwner), user(RabbitUser), user(RabbitWriter), user(RabbitGuest)},
		"permissions": []object{
			may(RabbitOwner, all, all, all), may(RabbitUser, none, all, all),
			may(RabbitWriter, none, all, none), may(RabbitGuest, none, none, none),
		},
		"policies": []object{{
			"vhost": RabbitVhost, "name": "bounded", "pattern": "^" + RabbitBounded, "apply-to": "queues", "priority": 0,
			"definition": object{"max-length": 5, "overflow": "reject-publish"},
		}},
	})
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"rabbitmq.conf": conf, "definitions.json": string(definitions), "plugins": "[].\n"} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Start starts the server, again if it was stopped, and waits until it answers.
func (r *RabbitServer) Start(tb testing.TB) {
	tb.Helper()
	args := append(slices.Clone(r.env), filepath.Join(rabbitBin, "rabbitmq-server"), "-noinput")
	r.proc = startProcess(r.dir, needs(tb, "env"), args...)
	err := r.proc.await(r.greets)
	for range 3 { // It burns six seconds of a processor, which a busy machine may take long to give.
		if err != nil && !r.ended() {
			err = r.proc.await(r.greets)
		}
	}
	if err != nil {
		r.Kill()
		tb.Fatalf("rabbitmq at %s does not answer: %v\n%s", r.Addr, err, r.proc.said())
	}
}

func (r *RabbitServer) ended() bool {
	select {
	case <-r.proc.exited:
		return true
	default:
		return false
	}
}

// greets is nil when the server has answered a client's first bytes.
func (r *RabbitServer) greets() error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(context.Background(), "tcp", r.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, "AMQP\x00\x00\x09\x01"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// Stop ends the server in the ordinary way.
func (r *RabbitServer) Stop() { r.proc.end(syscall.SIGTERM) }

// Kill ends the server as a crash would. Its data stay for the next Start.
func (r *RabbitServer) Kill() { r.proc.end(syscall.SIGKILL) }

// AwaitQuorum waits until a quorum queue is on the disk. RabbitMQ confirms messages before: a
// server that is killed in the first second of a queue's life forgets the queue's log, and
// the queue never answers again.
func (r *RabbitServer) AwaitQuorum(tb testing.TB, queue string) {
	tb.Helper()
	node := "seckill@localhost"
	file := filepath.Join(r.dir, "data", node, "quorum", node, "names.dets")
	err := r.proc.await(func() error {
		text, err := os.ReadFile(file)
		if err == nil && !bytes.Contains(text, []byte(RabbitVhost+"_"+queue)) {
			err = fmt.Errorf("%s does not name %s", file, queue)
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// Pause makes the server hang: its connections stay, and nothing answers.
func (r *RabbitServer) Pause() { r.proc.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (r *RabbitServer) Resume() { r.proc.signal(syscall.SIGCONT) }

// URL is the server in the product's form, for RabbitOwner; ?queue=NAME is still to be added.
func (r *RabbitServer) URL() string { return r.URLFor(RabbitOwner, r.Addr) }

// URLFor is URL for another user, or by way of another address.
func (r *RabbitServer) URLFor(user, addr string) string {
	u := url.URL{Scheme: "amqp", User: url.UserPassword(user, RabbitPassword), Host: addr, Path: "/" + RabbitVhost}
	return u.String()
}

// Ctl runs rabbitmqctl, which takes some seconds, and returns what it says.
func (r *RabbitServer) Ctl(tb testing.TB, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), filepath.Join(rabbitBin, "rabbitmqctl"), append([]string{"--quiet"}, args...)...)
	cmd.Env = append(os.Environ(), r.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("rabbitmqctl %q: %v\n%s", args, err, out)
	}
	return string(out)
}
