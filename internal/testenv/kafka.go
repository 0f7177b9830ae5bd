package testenv

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// KafkaServer is a Kafka broker of one test: its own folder, its own ports, gone when the
// test ends. It is the only one of its cluster, and its own controller.
type KafkaServer struct {
	Addr string // host:port; the same after each Start.
	// Advertised is where clients are told to find it, Addr by default. Set to a proxy's
	// address before Start, all that clients do goes through the proxy.
	Advertised string
	// Properties are further lines of its settings, to be set before Start.
	Properties []string

	dir        string
	controller string
	java       string
	classPath  string
	proc       *process
}

// Kafka starts a broker. It takes seconds, so tests that do not hurt it share one, with a
// topic for each.
func Kafka(tb testing.TB) *KafkaServer {
	tb.Helper()
	k := NewKafka(tb)
	k.Start(tb)
	return k
}

// NewKafka reserves a broker's place and does not start it.
func NewKafka(tb testing.TB) *KafkaServer {
	tb.Helper()
	java, classPath := javaServer(tb, "kafka")
	ports := FreePorts(tb, 2)
	k := &KafkaServer{
		Addr: ports[0], Advertised: ports[0], controller: ports[1],
		dir: tb.TempDir(), java: java, classPath: classPath,
	}
	tb.Cleanup(func() { k.Kill() })
	return k
}

// Start starts the broker, again if it was stopped, and waits until it answers.
func (k *KafkaServer) Start(tb testing.TB) {
	tb.Helper()
	if err := k.launch(tb.Context()); err != nil {
		tb.Fatalf("kafka at %s: %v", k.Addr, err)
	}
}

func (k *KafkaServer) launch(ctx context.Context) error {
	settings := filepath.Join(k.dir, "server.properties")
	if err := k.format(ctx, settings); err != nil {
		return err
	}
	k.proc = startProcess(k.dir, k.java, k.args("kafka.Kafka", settings)...)
	// A JVM on a machine that has much else to do takes its time.
	var err error
	for range 3 {
		if err = k.proc.await(k.answers); err == nil {
			return nil
		}
	}
	k.Kill()
	return fmt.Errorf("it does not answer: %w\n%s", err, k.proc.said())
}

// format writes the settings and, the first time, prepares the data folder for them.
func (k *KafkaServer) format(ctx context.Context, settings string) error {
	lines := append(k.settings(), k.Properties...)
	if err := os.WriteFile(settings, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(k.dir, "data")); err == nil {
		return nil
	}
	const cluster = "c2Vja2lsbC10ZXN0cy0xMQ" // 16 bytes in base 64, as Kafka wants it.
	cmd := exec.CommandContext(ctx, k.java, k.args("kafka.tools.StorageTool", "format", "-t", cluster, "-c", settings)...)
	cmd.Dir = k.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format: %w\n%s", err, out)
	}
	return nil
}

func (k *KafkaServer) args(class string, args ...string) []string {
	return append([]string{
		"-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", k.classPath, class,
	}, args...)
}

func (k *KafkaServer) settings() []string {
	return []string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@" + k.controller,
		"listeners=PLAINTEXT://" + k.Addr + ",CONTROLLER://" + k.controller,
		"advertised.listeners=PLAINTEXT://" + k.Advertised,
		"inter.broker.listener.name=PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + filepath.Join(k.dir, "data"),
		"auto.create.topics.enable=false",
		"num.partitions=4",
		"offsets.topic.num.partitions=1",
		"offsets.topic.replication.factor=1",
		"transaction.state.log.num.partitions=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.num.partitions=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
		"num.network.threads=2",
		"num.io.threads=4",
		"log.segment.bytes=16777216",
		"log.cleaner.dedupe.buffer.size=4194304",
		// A broker that was killed has to be let in again at once.
		"broker.session.timeout.ms=2000",
		"broker.heartbeat.interval.ms=500",
	}
}

// answers asks for the versions of the protocol, which a broker tells when it is ready for
// clients: a header of length, key 18, version 0, number and no name, and no body.
func (k *KafkaServer) answers() error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(context.Background(), "tcp", k.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff}); err != nil {
		return err
	}
	head := make([]byte, 10)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	if number, code := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint16(head[8:]); number != 7 || code != 0 {
		return fmt.Errorf("it answers request %d with error %d", number, code)
	}
	return nil
}

// Stop ends the broker in the ordinary way.
func (k *KafkaServer) Stop() { k.proc.end(syscall.SIGTERM) }

// Kill ends the broker as a crash would.
func (k *KafkaServer) Kill() { k.proc.end(syscall.SIGKILL) }

// Pause makes the broker hang: its connections stay, and nothing answers.
func (k *KafkaServer) Pause() { k.proc.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (k *KafkaServer) Resume() { k.proc.signal(syscall.SIGCONT) }
