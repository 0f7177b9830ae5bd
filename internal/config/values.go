package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parsers of values. Each returns a *wrong. None of them puts into its error what
// may be a secret; parse adds the value where that is safe.

func parseListen(s string) (string, error) {
	no := &wrong{"is not host:port", "host:port such as 127.0.0.1:8080, or :8080 for all addresses; port 0 picks a free one"}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !digits(port) {
		return "", no
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 {
		return "", &wrong{"has a port above 65535", "a port from 0 to 65535"}
	}
	if !hostName(host) {
		return "", no
	}
	return s, nil
}

// hostName accepts what a listener or a dialer may be given before the colon.
func hostName(s string) bool {
	if s == "" {
		return true
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_') {
			return false
		}
	}
	return len(s) <= 253
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// stockForms says what --stock accepts.
const stockForms = "embedded, redis://[user:pass@]host:port[/db], rediss://…, redis-cluster://host:port,host:port or " +
	"redis-sentinel://host:port,host:port/master"

func parseStock(s string) (Stock, error) {
	if s == Embedded {
		return Stock{Engine: Embedded}, nil
	}
	scheme, rest, _ := strings.Cut(s, "://")
	switch scheme {
	case "redis", "rediss", "redis-cluster", "rediss-cluster", "redis-sentinel", "rediss-sentinel":
	default:
		return Stock{}, &wrong{"is not a stock", stockForms}
	}
	hosts, master, _ := strings.Cut(rest[strings.LastIndexByte(rest, '@')+1:], "/")
	switch {
	case hosts == "":
		return Stock{}, &wrong{"names no host", stockForms}
	case strings.HasSuffix(scheme, "-sentinel") && master == "":
		return Stock{}, &wrong{"names no master behind the hosts", stockForms}
	}
	return Stock{Engine: Redis, URL: NewSecret(s)}, nil
}

// queueForms says what --queue accepts.
const queueForms = "embedded, redis-stream, redis-list, kafka://host:port,host:port/topic, amqp://user:pass@host:port/vhost?queue=name " +
	"or rocketmq://host:port/topic"

// brokers are the queues that are servers of their own, by the scheme of their URL.
var brokers = map[string]string{"kafka": Kafka, "kafkas": Kafka, "amqp": RabbitMQ, "amqps": RabbitMQ, "rocketmq": RocketMQ}

func parseQueue(s string) (Queue, error) {
	if s == Embedded || s == RedisStream || s == RedisList {
		return Queue{Engine: s}, nil
	}
	scheme, rest, isURL := strings.Cut(s, "://")
	engine := brokers[scheme]
	if !isURL || engine == "" {
		return Queue{}, &wrong{"is not a queue", queueForms}
	}
	if strings.Trim(rest, " \t\n") != rest {
		return Queue{}, &wrong{"has spaces around it", queueForms}
	}
	hosts, after, _ := strings.Cut(rest[strings.LastIndexByte(rest, '@')+1:], "/")
	path, query, _ := strings.Cut(after, "?")
	hosts, _, _ = strings.Cut(hosts, "?")
	for host := range strings.SplitSeq(hosts, ",") {
		if _, err := parseListen(host); err != nil || strings.HasPrefix(host, ":") || strings.HasSuffix(host, ":0") {
			return Queue{}, &wrong{"names no host:port, or a wrong one", queueForms}
		}
	}
	switch {
	case engine != RabbitMQ && (path == "" || strings.Contains(path, "/")):
		return Queue{}, &wrong{"names no topic after the hosts", queueForms}
	case engine == RabbitMQ:
		// The text of the error would show the password.
		if q, err := url.ParseQuery(query); err != nil || q.Get("queue") == "" {
			return Queue{}, &wrong{"names no queue", queueForms}
		}
	}
	return Queue{Engine: engine, URL: NewSecret(s)}, nil
}

func parseDatabase(s string) (Database, error) {
	no := func(what string) (Database, error) {
		return Database{}, &wrong{what, "sqlite:PATH, or mysql://user:pass@host:port/name (percent-encode special characters)"}
	}
	if path, ok := strings.CutPrefix(s, "sqlite:"); ok {
		if path == "" || strings.ContainsRune(path, 0) {
			return no("names no file")
		}
		return Database{Engine: SQLite, Path: path}, nil
	}
	if !strings.HasPrefix(s, "mysql://") {
		return no("is not a database")
	}
	// The text of url.Parse's error would show the password.
	u, err := url.Parse(s)
	if err != nil {
		return no("is not a well-formed URL")
	}
	name := strings.TrimPrefix(u.Path, "/")
	switch {
	case u.Hostname() == "" || !hostName(u.Hostname()):
		return no("names no host")
	case u.User == nil || u.User.Username() == "":
		return no("names no user")
	case name == "" || strings.Contains(name, "/"):
		return no("names no database after the host")
	case u.RawQuery != "" || u.Fragment != "":
		return no("has something after the database's name")
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return no("has a port that is not 1 to 65535")
	}
	password, _ := u.User.Password()
	return Database{
		Engine: MySQL, Addr: net.JoinHostPort(u.Hostname(), port), User: u.User.Username(),
		Password: NewSecret(password), Name: name,
	}, nil
}

func parseData(s string) (string, error) {
	if strings.TrimSpace(s) == "" || strings.ContainsRune(s, 0) {
		return "", &wrong{"is empty", "a folder, which is made if it is not there"}
	}
	return s, nil
}

// parseFile accepts the name of a file; whether it can be read is seen by Config.check, which knows whether it has to be.
func parseFile(s string) (string, error) {
	if strings.TrimSpace(s) == "" || strings.ContainsRune(s, 0) {
		return "", &wrong{"is empty", "the name of a file"}
	}
	return s, nil
}

// parseText accepts what a token may say of itself.
func parseText(s string) (string, error) {
	if s == "" || len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", &wrong{"is empty, too long, or has spaces", "1 to 256 characters without spaces"}
	}
	return s, nil
}

func parseTexts(s string) ([]string, error) {
	texts := strings.Split(s, ",")
	for _, text := range texts {
		if _, err := parseText(text); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

const authForms = "jwt:hs256:SECRET, jwt:hs256:@FILE, jwt:jwks:URL, header:NAME, or open"

func parseAuth(s string) (Auth, error) {
	if s == AuthOpen {
		return Auth{Kind: AuthOpen}, nil
	}
	if secret, ok := strings.CutPrefix(s, AuthHS256+":"); ok {
		key, err := secretOrFile(secret)
		if err != nil {
			return Auth{}, err
		}
		return Auth{Kind: AuthHS256, Secret: key}, nil
	}
	if address, ok := strings.CutPrefix(s, AuthJWKS+":"); ok {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
			return Auth{}, &wrong{"has no usable address of a key set", "jwt:jwks:https://host/path, without user and password"}
		}
		return Auth{Kind: AuthJWKS, URL: address}, nil
	}
	if name, ok := strings.CutPrefix(s, AuthHeader+":"); ok {
		if !token(name) {
			return Auth{}, &wrong{"has no usable name of a header", "header:NAME such as header:X-User-Id"}
		}
		return Auth{Kind: AuthHeader, Header: textproto.CanonicalMIMEHeaderKey(name)}, nil
	}
	return Auth{}, &wrong{"is not a way to know buyers", authForms}
}

// token accepts the characters of a header's name.
func token(s string) bool {
	for _, r := range s {
		if r <= ' ' || r > '~' || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r) {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

const secretBytesMax = 64 << 10

// secretOrFile reads @FILE, and takes anything else as the secret itself.
func secretOrFile(s string) (Secret, error) {
	name, ok := strings.CutPrefix(s, "@")
	if !ok {
		if s == "" {
			return Secret{}, &wrong{"has an empty secret", "the secret, or @FILE to read it from a file"}
		}
		return NewSecret(s), nil
	}
	no := func(why string) (Secret, error) {
		return Secret{}, &wrong{"the file after @ " + why, "@FILE with the secret alone in it, readable by this process"}
	}
	f, err := os.Open(name)
	if err != nil {
		// Not the name: somebody's secret may begin with an @.
		return no("cannot be opened (" + bare(err) + ")")
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, secretBytesMax+1))
	if err != nil {
		return no("cannot be read (" + bare(err) + ")")
	}
	if len(text) > secretBytesMax {
		return no("is longer than 64 KiB")
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return no("is empty")
	}
	return NewSecret(secret), nil
}

// bare is the reason of a failed file operation, without the name of the file.
func bare(err error) string {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err.Error()
	}
	return "not readable"
}

func parseAdminToken(s string) (Secret, error) {
	secret, err := secretOrFile(s)
	if err != nil {
		return Secret{}, err
	}
	for _, r := range secret.Reveal() {
		if r <= ' ' || r > '~' {
			return Secret{}, &wrong{"has characters that a header cannot carry", "printable ASCII without spaces, or @FILE"}
		}
	}
	return secret, nil
}

func parseProxies(s string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		p, err := netip.ParsePrefix(part)
		if err != nil {
			a, err := netip.ParseAddr(part)
			if err != nil || a.Zone() != "" {
				return nil, &wrong{fmt.Sprintf("%q is not a network", part), "networks such as 10.0.0.0/8,fd00::/8, separated by commas"}
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		// A client's address is compared without its IPv4-in-IPv6 form.
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return nil, &wrong{fmt.Sprintf("%q mixes IPv4 and IPv6", part), "IPv4 networks as 10.0.0.0/8"}
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p = p.Masked(); !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list, nil
}

func parseRoles(s string) (Roles, error) {
	var r Roles
	for part := range strings.SplitSeq(s, ",") {
		switch strings.TrimSpace(part) {
		case "gateway":
			r.Gateway = true
		case "worker":
			r.Worker = true
		case "console":
			r.Console = true
		default:
			return Roles{}, &wrong{fmt.Sprintf("%q is not a role", strings.TrimSpace(part)), "gateway, worker and console, separated by commas"}
		}
	}
	return r, nil
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, &wrong{"is neither true nor false", "true or false"}
}

func parseLimit(s string) (Limit, error) {
	no := &wrong{"is not a rate", "RATE/s:BURST such as 10/s:20, rate up to 100000, burst 1 to 10000 and back within three years; or off"}
	if s == "off" {
		return Limit{}, nil
	}
	rate, burst, ok := strings.Cut(s, "/s:")
	whole, part, point := strings.Cut(rate, ".")
	if !ok || !digits(whole) || point && !digits(part) || !digits(burst) {
		return Limit{}, no
	}
	r, err := strconv.ParseFloat(rate, 64)
	b, err2 := strconv.Atoi(burst)
	if err != nil || err2 != nil {
		return Limit{}, no
	}
	l := Limit{r, b}
	if !l.valid() {
		return Limit{}, no
	}
	return l, nil
}

// valid says nothing of off, which always is.
func (l Limit) valid() bool {
	const threeYears = 3 * 365 * 24 * 3600
	return l.PerSecond > 0 && l.PerSecond <= 100_000 && l.Burst >= 1 && l.Burst <= 10_000 && float64(l.Burst)/l.PerSecond < threeYears
}

func parseInt(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, &wrong{"is not a whole number", "a whole number"}
	}
	return n, nil
}

// parseCollector accepts no user in the URL: a process's flags can be read by everybody, and what a collector
// wants to see is given in a variable of OpenTelemetry's own.
func parseCollector(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !hostName(u.Hostname()) ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", &wrong{"is not the URL of a collector", "http://host:port or https://host:port/path, without a user: headers go into OTEL_EXPORTER_OTLP_HEADERS"}
	}
	return s, nil
}

func parseRatio(s string) (float64, error) {
	no := &wrong{"is not a ratio", "a number from 0 to 1 such as 0.001"}
	whole, part, point := strings.Cut(s, ".")
	if !digits(whole) || point && !digits(part) || len(s) > 20 {
		return 0, no
	}
	r, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, no
	}
	return r, nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, &wrong{"is not a duration", "a number with its unit, such as 500ms, 2s, 1m or 168h"}
	}
	return d, nil
}

func parseLevel(s string) (slog.Level, error) {
	switch s {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, &wrong{"is not a level", "debug, info, warn or error"}
}

func parseFormat(s string) (string, error) {
	if s != "text" && s != "json" {
		return "", &wrong{"is not a format", "text or json"}
	}
	return s, nil
}

// ParseAuth reads a value of --auth, for commands that play buyers.
func ParseAuth(s string) (Auth, error) { return parseAuth(s) }

// ParseToken reads a value of --admin-token, for commands that are an operator's.
func ParseToken(s string) (Secret, error) { return parseAdminToken(s) }
