package rabbitqueue_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/testenv"
	"seckill/queue/rabbitqueue"
)

// amqps:// trusts the authority that it is told to trust, and nobody else.
func overTLS(t *testing.T, broker *testenv.RabbitServer) {
	addr, authority := tlsInFrontOf(t, broker.Addr)
	at := strings.Replace(broker.URLFor(testenv.RabbitOwner, addr), "amqp:", "amqps:", 1) + newQueue("")
	q := open(t, rabbitqueue.Options{URL: at + "&cacertfile=" + authority})
	publish(t, q, 1)
	receive(t, subscribe(t, q), 1)

	if _, err := rabbitqueue.Open(t.Context(), rabbitqueue.Options{URL: at}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: got %v, want its certificate refused", err)
	}
}

// tlsInFrontOf takes TLS off before target, and returns where, and the file of its
// certificate.
func tlsInFrontOf(t *testing.T, target string) (addr, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	authority = filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))

	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	must(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { handOn(client, target) })
		}
	})
	return l.Addr().String(), authority
}

func handOn(client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(server, client)
	_ = server.Close()
	back.Wait()
}
