package rabbitqueue

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// form says what a URL may look like.
const form = "amqp[s]://[user:pass@]host[:port]/vhost?queue=NAME[&type=quorum|classic][&prefetch=N][&heartbeat=SECONDS][&cacertfile=PATH]"

// target is where a queue is.
type target struct {
	addr, host string
	user, pass string
	vhost      string
	queue      string
	classic    bool
	prefetch   int           // 0 if the URL does not say.
	heartbeat  time.Duration // 0 if the URL does not say.
	tls        *tls.Config   // Nil without TLS.
}

// String names the queue without user and password, for errors and logs.
func (t *target) String() string {
	return fmt.Sprintf("queue %q in vhost %q of rabbitmq at %s", t.queue, t.vhost, t.addr)
}

func (t *target) kind() string {
	if t.classic {
		return "classic"
	}
	return "quorum"
}

// parseURL reads where the queue is. Its errors never show the URL: it holds a password.
func parseURL(s string) (*target, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("the queue's URL cannot be read: special characters in user and password have to be escaped; accepted is " + form)
	case u.Scheme != "amqp" && u.Scheme != "amqps":
		return nil, fmt.Errorf("the queue's URL has the unknown scheme %q; accepted is %s", u.Scheme, form)
	case u.Hostname() == "":
		return nil, errors.New("the queue's URL names no host; accepted is " + form)
	case u.Fragment != "":
		return nil, errors.New("the queue's URL has a #: it has to be escaped as %23")
	}
	t := &target{host: u.Hostname(), user: "guest", pass: "guest"}
	port := u.Port()
	if port == "" {
		port = map[string]string{"amqp": "5672", "amqps": "5671"}[u.Scheme]
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return nil, errors.New("the queue's URL has a port that cannot be")
	}
	t.addr = net.JoinHostPort(t.host, port)
	if u.User != nil {
		t.user = u.User.Username()
		t.pass, _ = u.User.Password()
	}
	if t.vhost, err = vhost(u.EscapedPath()); err != nil {
		return nil, err
	}
	if u.Scheme == "amqps" {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.host}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("what follows the ? in the queue's URL is not properly escaped")
	}
	return t, t.settings(query)
}

// vhost reads the path. Without one it is RabbitMQ's default vhost.
func vhost(path string) (string, error) {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return "/", nil
	}
	name, err := url.PathUnescape(path)
	if err != nil || strings.Contains(path, "/") {
		return "", errors.New("the vhost in the queue's URL has to be escaped: / as %2F")
	}
	return name, nil
}

// settings reads what follows the question mark.
func (t *target) settings(query url.Values) error {
	for name, values := range query {
		value := values[0]
		if len(values) > 1 {
			return fmt.Errorf("the queue's URL says %s more than once", name)
		}
		switch name {
		case "queue":
			t.queue = value
		case "type":
			if value != "quorum" && value != "classic" {
				return fmt.Errorf("the queue's URL says type=%s; accepted are quorum and classic", value)
			}
			t.classic = value == "classic"
		case "prefetch":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > prefetchMax {
				return fmt.Errorf("the queue's URL says prefetch=%s; accepted are 1 to %d messages", value, prefetchMax)
			}
			t.prefetch = n
		case "heartbeat":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 600 {
				return fmt.Errorf("the queue's URL says heartbeat=%s; accepted are 1 to 600 seconds", value)
			}
			t.heartbeat = time.Duration(n) * time.Second
		case "cacertfile":
			if err := t.trust(value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("the queue's URL has the unknown setting %q; accepted is %s", name, form)
		}
	}
	switch {
	case t.queue == "":
		return errors.New("the queue's URL names no queue: add ?queue=NAME")
	case len(t.queue) > shortMax:
		return fmt.Errorf("the name of the queue has %d bytes; accepted are 1 to %d", len(t.queue), shortMax)
	case strings.HasPrefix(t.queue, "amq."):
		return fmt.Errorf("the queue is called %q; names that begin with amq. are RabbitMQ's own", t.queue)
	}
	return nil
}

// trust takes the certificates of a file instead of the system's.
func (t *target) trust(path string) error {
	if t.tls == nil {
		return errors.New("cacertfile in the queue's URL is for amqps:// only")
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cacertfile of the queue's URL: %w", err)
	}
	t.tls.RootCAs = x509.NewCertPool()
	if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("cacertfile of the queue's URL: %s holds no certificate in PEM form", path)
	}
	return nil
}
