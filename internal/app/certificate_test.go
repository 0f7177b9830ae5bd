package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate puts a pair for 127.0.0.1 with a serial number of its own into a folder.
func writeCertificate(t *testing.T, folder string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// serialOf connects and tells which certificate it was shown.
func serialOf(t *testing.T, addr string, versionMax uint16) (int64, error) {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: versionMax})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// A certificate that changes on disk is used for the next connection; one that is broken is not, and
// the one in use stays. TLS 1.1 is refused.
func TestCertificateIsReadAgain(t *testing.T) {
	folder := t.TempDir()
	cert, key := writeCertificate(t, folder, 1)
	c, err := openCertificate(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := c.listen(raw)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	addr := raw.Addr().String()
	if got, err := serialOf(t, addr, 0); err != nil || got != 1 {
		t.Errorf("got certificate %d and %v, want 1", got, err)
	}
	if _, err := serialOf(t, addr, tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 was taken")
	}

	writeCertificate(t, folder, 2)
	c.look()
	if got, err := serialOf(t, addr, 0); err != nil || got != 2 {
		t.Errorf("after the change: got certificate %d and %v, want 2", got, err)
	}

	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.look()
	if got, err := serialOf(t, addr, 0); err != nil || got != 2 {
		t.Errorf("after a broken key: got certificate %d and %v, want 2 still", got, err)
	}
}

// Files that are not there, or do not fit, are named at the start.
func TestCertificateThatCannotBeUsed(t *testing.T) {
	folder := t.TempDir()
	cert, _ := writeCertificate(t, folder, 1)
	_, other := writeCertificate(t, t.TempDir(), 2)
	for _, key := range []string{filepath.Join(folder, "none"), other} {
		_, err := openCertificate(cert, key, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "tls-cert and tls-key") {
			t.Errorf("got %v, want an error that names the settings", err)
		}
	}
}
