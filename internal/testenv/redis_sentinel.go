package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// RedisSentinelServers is a master with a replica, and a sentinel that looks after them.
type RedisSentinelServers struct {
	Master, Replica, Sentinel *RedisServer
}

// RedisSentinel starts them. The sentinel takes a server for down that has been silent for
// 800 ms.
func RedisSentinel(tb testing.TB, flags ...string) *RedisSentinelServers {
	tb.Helper()
	ports := FreePorts(tb, 3)
	s := &RedisSentinelServers{
		Master: newRedis(tb, ports[0], flags...), Replica: newRedis(tb, ports[1], flags...), Sentinel: newRedis(tb, ports[2]),
	}
	s.Master.Start(tb)
	s.Replica.Start(tb)
	host, port, _ := net.SplitHostPort(s.Master.Addr)
	s.Replica.Must(tb, "REPLICAOF", host, port)
	s.AwaitReplica(tb)
	_, sentinelPort, _ := net.SplitHostPort(s.Sentinel.Addr)
	file := filepath.Join(s.Sentinel.dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor mymaster %s %s 1\n"+
		"sentinel down-after-milliseconds mymaster 800\nsentinel failover-timeout mymaster 3000\n", sentinelPort, s.Sentinel.dir, host, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.Sentinel.proc = startProcess(s.Sentinel.dir, s.Sentinel.binary, file, "--sentinel")
	err := s.Sentinel.proc.await(func() error {
		found, err := s.Sentinel.Do("SENTINEL", "REPLICAS", "mymaster")
		if list, _ := found.([]any); err == nil && len(list) == 0 {
			err = errors.New("it knows no replica yet")
		}
		return err
	})
	if err != nil {
		tb.Fatalf("sentinel: %v\n%s", err, s.Sentinel.proc.said())
	}
	return s
}

// AwaitReplica waits until the replica has all that the master has.
func (s *RedisSentinelServers) AwaitReplica(tb testing.TB) { awaitReplica(tb, s.Master, s.Replica) }

// infoField is the value of a field in an answer to INFO, "" if it is not there.
func infoField(info any, name string) string {
	text, _ := info.(string)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// URL is the group in the product's form.
func (s *RedisSentinelServers) URL() string {
	return "redis-sentinel://" + s.Sentinel.Addr + "/mymaster"
}

// RedisTLS starts a server that speaks TLS at another port, and returns it with who signed its
// certificate.
func RedisTLS(tb testing.TB) (*RedisServer, *x509.CertPool) {
	tb.Helper()
	dir := tb.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	files := map[string][]byte{"cert.pem": certPEM, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	ports := FreePorts(tb, 2)
	_, secure, _ := net.SplitHostPort(ports[1])
	r := newRedis(tb, ports[0], "--tls-port", secure, "--tls-cert-file", filepath.Join(dir, "cert.pem"),
		"--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", filepath.Join(dir, "cert.pem"), "--tls-auth-clients", "no")
	r.Start(tb)
	r.tls = ports[1]
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return r, roots
}

// TLSAddr is where a server of RedisTLS speaks TLS.
func (r *RedisServer) TLSAddr() string { return r.tls }
