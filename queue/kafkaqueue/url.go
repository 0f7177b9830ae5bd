package kafkaqueue

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// forms says what a URL may look like.
const forms = "kafka://[user:pass@]host:port,host:port/topic[?group=…&partitions=…&replicas=…&tls=1&sasl=…], or kafkas://… for TLS"

// place is what a URL says.
type place struct {
	brokers    []string
	topic      string
	group      string // "seckill" by default.
	partitions int32  // 0 if the URL leaves it open.
	replicas   int16  // 0 if the URL leaves it open.
	tls        bool
	login      sasl.Mechanism // Nil without a user.
	clear      bool           // A password goes over the wire as it is.
}

// names is what Kafka accepts for topics; groups are held to the same here.
var names = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// parseURL reads where Kafka is. Its errors never show the URL: it may hold a password.
func parseURL(s string) (place, error) {
	p := place{group: "seckill"}
	scheme, rest, _ := strings.Cut(s, "://")
	if scheme != "kafka" && scheme != "kafkas" {
		return p, errors.New("the URL of Kafka has no scheme that is known; accepted are " + forms)
	}
	p.tls = scheme == "kafkas"
	rest, rawQuery, _ := strings.Cut(rest, "?")
	// A password may hold a slash only in its escaped form.
	authority, topic, _ := strings.Cut(rest, "/")
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return p, errors.New("what follows the question mark in the URL of Kafka cannot be read")
	}
	user := ""
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, authority = authority[:i], authority[i+1:]
	}
	for addr := range strings.SplitSeq(authority, ",") {
		host, port, err := net.SplitHostPort(addr)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || host == "" || n < 1 || n > 65535 {
			return p, errors.New("the URL of Kafka has a host or a port that cannot be; accepted are " + forms)
		}
		p.brokers = append(p.brokers, addr)
	}
	if p.topic = topic; !names.MatchString(topic) || topic == "." || topic == ".." {
		return p, errors.New("the URL of Kafka names no topic, or one with signs other than letters, digits, dot, dash and underscore; accepted are " + forms)
	}
	if err := p.options(query); err != nil {
		return p, err
	}
	return p, p.identify(user, query.Get("sasl"))
}

func (p *place) options(query url.Values) error {
	for key, values := range query {
		value := values[0]
		var err error
		switch key {
		case "group":
			p.group = value
			if !names.MatchString(value) {
				err = errors.New("has signs other than letters, digits, dot, dash and underscore")
			}
		case "partitions":
			p.partitions, err = number[int32](value, 10_000)
		case "replicas":
			p.replicas, err = number[int16](value, 100)
		case "tls":
			if value != "0" && value != "1" {
				err = errors.New("is not 0 or 1")
			}
			p.tls = p.tls || value == "1"
		case "sasl":
		default:
			err = errors.New("is not known here; accepted are " + forms)
		}
		if err != nil {
			return fmt.Errorf("%q in the URL of Kafka %w", key, err)
		}
	}
	return nil
}

func number[N int16 | int32](s string, most int) (N, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("is not a number from 1 to %d", most)
	}
	return N(n), nil
}

// identify chooses the way to log in.
func (p *place) identify(userInfo, mechanism string) error {
	if userInfo == "" {
		if mechanism != "" {
			return errors.New("the URL of Kafka says how to log in, but not who: kafka://user:pass@host:port/topic")
		}
		return nil
	}
	rawUser, rawPass, _ := strings.Cut(userInfo, ":")
	user, err := url.PathUnescape(rawUser)
	pass, errPass := url.PathUnescape(rawPass)
	if err != nil || errPass != nil || user == "" {
		return errors.New("the user or password in the URL of Kafka is not properly escaped")
	}
	switch mechanism {
	case "", "scram-sha-512":
		p.login = scram.Auth{User: user, Pass: pass}.AsSha512Mechanism()
	case "scram-sha-256":
		p.login = scram.Auth{User: user, Pass: pass}.AsSha256Mechanism()
	case "plain":
		p.login = plain.Auth{User: user, Pass: pass}.AsMechanism()
		p.clear = !p.tls
	default:
		return errors.New("the URL of Kafka names no way to log in that is known; sasl is scram-sha-512, scram-sha-256 or plain")
	}
	return nil
}

// client is what each connection to these brokers needs.
func (p *place) client() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(p.brokers...)}
	if p.tls {
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if p.login != nil {
		opts = append(opts, kgo.SASL(p.login))
	}
	return opts
}
