package testenv

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// RocketServer is a RocketMQ of one test: a name server and one broker, each on free ports
// and in its own folder, gone when the test ends.
type RocketServer struct {
	NameServer string // host:port where clients begin; the same after each Start.
	Addr       string // host:port where the broker listens; the same after each Start.
	// Advertised is the IP address under which clients are told to find the broker,
	// 127.0.0.1 by default; the port is always Addr's. To be set before Start: a proxy on
	// another loopback address and the same port then sees all that clients do.
	Advertised string
	// Properties are further lines of the broker's settings, to be set before Start.
	Properties []string

	dir       string
	java      string
	classPath string
	names     *process
	broker    *process
}

// RocketMQ starts a name server and a broker. It takes seconds, so tests that do not hurt it
// share one, with a topic for each.
func RocketMQ(tb testing.TB) *RocketServer {
	tb.Helper()
	r := NewRocketMQ(tb)
	r.Start(tb)
	return r
}

// NewRocketMQ reserves a place for a name server and a broker and starts neither.
func NewRocketMQ(tb testing.TB) *RocketServer {
	tb.Helper()
	java, classPath := javaServer(tb, "rocketmq")
	r := &RocketServer{
		// A broker takes the port two below its own without being asked, and the one above for replicas.
		NameServer: calmAddr(tb), Addr: calmAddr(tb, -2, -1, 1), Advertised: "127.0.0.1",
		dir: tb.TempDir(), java: java, classPath: classPath,
	}
	tb.Cleanup(func() {
		r.broker.end(syscall.SIGKILL)
		r.names.end(syscall.SIGKILL)
	})
	return r
}

// calmAddr finds an address whose port, and those at the offsets from it, nobody listens on.
// It stays clear of the ports that the system gives to outgoing connections: a test that
// dials a server while that is down would sooner or later sit on the server's own port.
func calmAddr(tb testing.TB, offsets ...int) string {
	tb.Helper()
	const lowest, highest = 12000, 32000
	for range 1000 {
		port := lowest + rand.IntN(highest-lowest) //nolint:gosec // Anybody may guess it.
		if allFree(port, append(offsets, 0)...) {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	tb.Fatal("there are no ports that are free")
	return ""
}

func allFree(port int, offsets ...int) bool {
	for _, offset := range offsets {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+offset))) //nolint:noctx // It takes no time.
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

func portOf(addr string) int {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return n
}

// Start starts the broker, again if it was stopped, and before it the name server if it
// does not run yet; it waits until both are ready.
func (r *RocketServer) Start(tb testing.TB) {
	tb.Helper()
	if err := r.launch(); err != nil {
		tb.Fatalf("rocketmq at %s: %v", r.NameServer, err)
	}
}

func (r *RocketServer) launch() error {
	if err := os.WriteFile(r.File("logback.xml"), []byte(rocketLogging), 0o600); err != nil {
		return err
	}
	if r.names == nil {
		settings := []string{"listenPort=" + strconv.Itoa(portOf(r.NameServer)), "bindAddress=127.0.0.1"}
		var err error
		if r.names, err = r.run("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", settings); err != nil {
			return err
		}
	}
	var err error
	r.broker, err = r.run("broker", "org.apache.rocketmq.broker.BrokerStartup", append(r.settings(), r.Properties...))
	if err != nil {
		return err
	}
	if err := r.broker.await(r.nameServerKnowsBroker); err != nil {
		r.Kill()
		return fmt.Errorf("broker: %w\n%s", err, r.broker.said())
	}
	return nil
}

// nameServerKnowsBroker asks the name server. A broker that has started before it found the
// name server would tell it ten seconds later, and does at once when it gets a topic.
func (r *RocketServer) nameServerKnowsBroker() error {
	const brokers, newTopic = 106, 17
	answer, err := askRocket(r.NameServer, brokers, nil)
	if err != nil {
		return err
	}
	if strings.Contains(answer, net.JoinHostPort(r.Advertised, strconv.Itoa(portOf(r.Addr)))) {
		return nil
	}
	_, err = askRocket(r.Addr, newTopic, map[string]string{
		"topic": "testenv", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1",
		"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
	})
	return errors.Join(errors.New("the name server does not know it"), err)
}

// askRocket asks a server one thing on a connection of its own, and returns the answer as it came.
func askRocket(addr string, code int, fields map[string]string) (string, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	question, err := json.Marshal(map[string]any{"code": code, "language": "GO", "version": 317, "opaque": 1, "extFields": fields})
	if err != nil {
		return "", err
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(4+len(question)))                   //nolint:gosec // It is short.
	out = append(binary.BigEndian.AppendUint32(out, uint32(len(question))), question...) //nolint:gosec // It is short.
	if _, err := conn.Write(out); err != nil {
		return "", err
	}
	var size uint32
	if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, int64(size)))
	return string(answer), err
}

// run starts one of the two programs, and waits until it says that it has started.
func (r *RocketServer) run(name, class string, settings []string) (*process, error) {
	home := r.File(name)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	conf := r.File(name + ".conf")
	if err := os.WriteFile(conf, []byte(strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"-Xms64m", "-Xmx320m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"--add-opens", "java.base/java.nio=ALL-UNNAMED", "--add-opens", "java.base/jdk.internal.ref=ALL-UNNAMED",
		"--add-opens", "java.base/java.util=ALL-UNNAMED", "--add-opens", "java.base/java.lang=ALL-UNNAMED",
		"--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED",
		// A key for TLS takes seconds to find, and nobody here speaks it.
		"-Dtls.server.mode=disabled", "-Djava.awt.headless=true", "-Drmq.logback.configurationFile=" + r.File("logback.xml"),
		"-Drocketmq.home.dir=" + home, "-Duser.home=" + home,
		// The disk of a machine that runs tests may be rather full.
		"-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99", "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.98",
		"-cp", r.classPath, class, "-c", conf,
	}
	p := startProcess(home, r.java, args...)
	var err error
	// A JVM on a machine that has much else to do takes its time.
	for range 3 {
		err = p.await(func() error {
			if !strings.Contains(p.said(), "boot success") {
				return errors.New("it does not say that it has started")
			}
			return nil
		})
		if err == nil {
			return p, nil
		}
	}
	p.end(syscall.SIGKILL)
	return nil, fmt.Errorf("%s: %w\n%s", name, err, p.said())
}

// settings keep what was confirmed through a kill of the broker, as the system still has
// what was written, and its files small.
func (r *RocketServer) settings() []string {
	store := filepath.Join(r.File("broker"), "store")
	return []string{
		"brokerClusterName=DefaultCluster", "brokerName=broker-a", "brokerId=0", "brokerRole=ASYNC_MASTER",
		"namesrvAddr=" + r.NameServer, "brokerIP1=" + r.Advertised, "bindAddress=127.0.0.1",
		"listenPort=" + strconv.Itoa(portOf(r.Addr)), "haListenPort=" + strconv.Itoa(portOf(r.Addr)+1),
		"flushDiskType=ASYNC_FLUSH", "autoCreateTopicEnable=false", "flushConsumerOffsetInterval=500",
		"storePathRootDir=" + store, "storePathCommitLog=" + filepath.Join(store, "commitlog"),
		"mappedFileSizeCommitLog=67108864", "mappedFileSizeConsumeQueue=60000", "diskMaxUsedSpaceRatio=98",
		"timerWheelEnable=false",
		// On a machine with much else to do it would send clients away for being slow itself.
		"waitTimeMillsInSendQueue=10000", "waitTimeMillsInHeartbeatQueue=60000",
	}
}

// Stop ends the broker in the ordinary way. The name server stays.
func (r *RocketServer) Stop() { r.broker.end(syscall.SIGTERM) }

// Kill ends the broker as a crash would. The name server stays.
func (r *RocketServer) Kill() { r.broker.end(syscall.SIGKILL) }

// Pause makes the broker hang: its connections stay, and nothing answers.
func (r *RocketServer) Pause() { r.broker.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (r *RocketServer) Resume() { r.broker.signal(syscall.SIGCONT) }

// KillNameServer ends the name server as a crash would; the next Start brings it back.
func (r *RocketServer) KillNameServer() {
	r.names.end(syscall.SIGKILL)
	r.names = nil
}

// URL is a topic of the server in the product's form.
func (r *RocketServer) URL(topic string) string { return "rocketmq://" + r.NameServer + "/" + topic }

// File is a path in the server's folder.
func (r *RocketServer) File(name string) string { return filepath.Join(r.dir, name) }

// rocketLogging sends what is worth reading to standard output. Left to itself the server
// says a thousand lines about its own logging, and writes forty files.
const rocketLogging = `<configuration>
  <statusListener class="org.apache.rocketmq.logging.ch.qos.logback.core.status.NopStatusListener"/>
  <appender name="out" class="org.apache.rocketmq.logging.ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger - %msg%n</pattern></encoder>
  </appender>
  <logger name="RocketmqPop" level="ERROR"/>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
`
