package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// certificateLook is how often the files of a certificate are looked at.
const certificateLook = 5 * time.Second

// certificate is read again when its files change, so that renewing it needs no restart. A pair
// that does not fit leaves the one in use in place.
type certificate struct {
	cert, key string
	log       *slog.Logger
	now       atomic.Pointer[tls.Certificate]
	read      [2]stamp // Of the files, when they were last read.
}

// stamp tells one state of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

func openCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log}
	stamps, err := c.stamps()
	if err != nil {
		return nil, fmt.Errorf("tls-cert and tls-key: %w", err)
	}
	if err := c.load(stamps); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *certificate) stamps() (s [2]stamp, err error) {
	for i, name := range []string{c.cert, c.key} {
		info, e := os.Stat(name)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		s[i] = stamp{info.ModTime(), info.Size()}
	}
	return s, err
}

func (c *certificate) load(stamps [2]stamp) error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("tls-cert and tls-key: %w", err)
	}
	c.now.Store(&pair)
	c.read = stamps
	return nil
}

// listen makes a listener speak TLS. HTTP/2 is not offered: the public listener does not speak it.
func (c *certificate) listen(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.now.Load(), nil
		},
	})
}

// run looks for new files until ctx ends.
func (c *certificate) run(ctx context.Context) error {
	for pause(ctx, certificateLook); ctx.Err() == nil; pause(ctx, certificateLook) {
		c.look()
	}
	return nil
}

// look reads the files if they have changed.
func (c *certificate) look() {
	stamps, err := c.stamps()
	if err == nil && stamps == c.read {
		return
	}
	if err == nil {
		err = c.load(stamps)
	}
	if err != nil {
		c.log.Warn("the new certificate cannot be used; the one in use stays", "error", err)
		return
	}
	c.log.Info("the certificate was read again")
}
