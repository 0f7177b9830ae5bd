package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seckill/internal/config"
)

// pair writes a certificate and its key.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return cert, write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})))
}

// A certificate or a key that is not there, cannot be read, or does not fit is a mistake in the settings: one line
// that names the setting as it was given, the file, and what is accepted.
func TestCertificatesThatCannotBeUsed(t *testing.T) {
	cert, key := pair(t)
	_, other := pair(t)
	missing, folder, text := filepath.Join(t.TempDir(), "none.pem"), t.TempDir(), write(t, "text.pem", "no PEM")
	for _, c := range []struct{ cert, key, setting, named, why string }{
		{missing, key, "--tls-cert", missing, "no such file"},
		{cert, missing, "--tls-key", missing, "no such file"},
		{folder, key, "--tls-cert", folder, "is a directory"},
		{cert, folder, "--tls-key", folder, "is a directory"},
		{cert, other, "--tls-cert", other, "no pair"},
		{text, key, "--tls-cert", text, "no pair"},
		{cert, os.DevNull, "--tls-cert", os.DevNull, "no pair"},
	} {
		_, err := config.Load(with("--tls-cert", c.cert, "--tls-key", c.key), nil, config.Serve)
		got := config.Mistakes(err)
		if len(got) != 1 || !strings.HasPrefix(got[0], c.setting+": ") || !strings.Contains(got[0], c.named) || !strings.Contains(got[0], c.why) ||
			!strings.Contains(got[0], "; accepted: a ") {
			t.Errorf("%s and %s: got %q, want %s, %s", c.cert, c.key, got, c.setting, c.why)
		}
	}
	_, err := config.Load(with("--tls-key", missing), []string{"SECKILL_TLS_CERT=" + missing}, config.Serve)
	if got := config.Mistakes(err); len(got) != 2 || !strings.HasPrefix(got[0], "SECKILL_TLS_CERT: ") || !strings.HasPrefix(got[1], "--tls-key: ") {
		t.Errorf("both missing: got %q, want a line for each", got)
	}
	// A worker that shares its settings with gateways needs no certificate.
	_, err = config.Load(with("--stock", "redis://h:1", "--roles", "worker", "--tls-cert", missing, "--tls-key", missing), nil, config.Serve)
	if err != nil {
		t.Errorf("a worker: %v", err)
	}
}
