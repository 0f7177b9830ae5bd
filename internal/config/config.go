// Package config holds the settings of a server: one struct, its defaults, and how
// it is read from flags, SECKILL_ variables and a YAML file, in that order of
// precedence. All mistakes are found at once.
//
// It opens and connects nothing: internal/app does that, from a Config that is
// valid. internal/cli reads one.
package config

import (
	"log/slog"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Config is everything that can be set. Its zero value is not useful: start from
// [Default] or [Load].
type Config struct {
	Listen      string // Public listener, host:port; port 0 picks a free one. Default 127.0.0.1:8080.
	AdminListen string // Admin listener, host:port. Default 127.0.0.1:8081.

	Stock    Stock    // What decides who gets a unit. Default embedded.
	Queue    Queue    // What carries reservations to the order writer. Zero follows Stock. Load fills it in.
	Database Database // Zero means SQLite in Data; see SQL. Load fills it in.
	Data     string   // Folder of the embedded engines. Default "./data".

	Auth           Auth           // Who the buyers are. No default: a server must be told.
	AuthIssuer     string         // The iss that tokens must have. Default any.
	AuthAudience   []string       // Their aud must be one of these. Default any.
	AdminToken     Secret         // Bearer token of the admin API. No default.
	TrustedProxies []netip.Prefix // Whose X-Forwarded-For, and identity header, is believed. Default none.
	Roles          Roles          // What this process does. Default everything.

	// TLS of the public listener, 1.2 or later. Default none: a proxy in front does it. The files are read
	// again when they change.
	TLSCert string // File with the chain of certificates, PEM.
	TLSKey  string // File with its key, PEM.

	// WebhookPrivate lets webhooks go to private addresses and without TLS. Default false.
	WebhookPrivate bool

	SimulatePayment bool // Buyers may "pay" through the API. Default false; only for demos.
	MetricsAuth     bool // /metrics needs the admin token as well. Default false.

	// Rate limits of purchases and entries.
	LimitIP     Limit // By client address. Default 10/s:20.
	LimitUser   Limit // By buyer. Default 5/s:5.
	LimitDevice Limit // By X-Device-Id. Default 10/s:20.

	LimitAbuse Limit         // Clicks refused as too fast, by buyer, before he is blocked for a while. Default 20/s:1200.
	AbuseBlock time.Duration // For how long. Default 10m, 1s to 24h.

	// EntryBefore is how long before the start entry tokens and challenges are given. Default 1m, 1s to 1h.
	EntryBefore time.Duration
	// EntryWait is the least time between an entry and its purchase. Default 0, up to 1m.
	EntryWait time.Duration
	// ReturnWindow is how long units that buyers give back, or do not pay in time, are kept from sale at the most: each
	// comes back at a moment within it that nobody can foretell. Default 0, up to 10m.
	ReturnWindow time.Duration
	// UnpaidMax is how many orders of one run a buyer may let expire before he is blocked for a while. Default 0, which
	// blocks nobody; up to 100.
	UnpaidMax   int
	UnpaidBlock time.Duration // For how long. Default 1h, 1s to 720h.
	// ChallengeDifficulty is the most hashes that a challenge takes, and twice what it takes on average. Default
	// 50000, 1000 to 10000000.
	ChallengeDifficulty int

	// Marks of the backlog.
	BacklogHigh int64 // Reservations without an order at which intake stops. Default 100000, 1 to 1e9.
	BacklogLow  int64 // At which it starts again; at most BacklogHigh. Default 50000, or half of a lower BacklogHigh; 0 to 1e9.

	ReserveTimeout   time.Duration // How long a purchase may wait for the stock. Default 2s, 10ms to 30s.
	WriteBatchMax    int           // Reservations that become orders in one transaction. Default 500, 1 to 2000.
	WriteAttemptsMax int           // Attempts at one reservation before it is a dead letter. Default 8, 1 to 100.
	Retention        time.Duration // How long the stock keeps a run that is over. Default 168h, 1s to 8760h.
	ReconcileEvery   time.Duration // Between two comparisons of stock, queue and database. Default 1m, 1s to 24h.

	OTLPEndpoint string  // URL of a collector of traces that speaks OTLP over HTTP. Default none: nothing is traced.
	TraceSample  float64 // Share of purchases that are traced. Default 0.001, 0 to 1.

	LogLevel     slog.Level    // Default info.
	LogFormat    string        // "text" or "json". Default "text".
	DrainTimeout time.Duration // For what is under way when the process is told to stop. Default 8s, 100ms to less than 10s.

	// Warnings are for the log of a server that starts all the same.
	Warnings []string
}

// Default is what holds when nothing is said.
func Default() Config {
	return Config{
		Listen:              "127.0.0.1:8080",
		AdminListen:         "127.0.0.1:8081",
		Stock:               Stock{Engine: Embedded},
		Data:                "./data",
		Roles:               Roles{Gateway: true, Worker: true, Console: true},
		LimitIP:             Limit{PerSecond: 10, Burst: 20},
		LimitUser:           Limit{PerSecond: 5, Burst: 5},
		LimitDevice:         Limit{PerSecond: 10, Burst: 20},
		LimitAbuse:          Limit{PerSecond: 20, Burst: 1200},
		AbuseBlock:          10 * time.Minute,
		EntryBefore:         time.Minute,
		ChallengeDifficulty: 50_000,
		UnpaidBlock:         time.Hour,
		BacklogHigh:         100_000,
		BacklogLow:          50_000,
		ReserveTimeout:      2 * time.Second,
		WriteBatchMax:       500,
		WriteAttemptsMax:    8,
		Retention:           168 * time.Hour,
		ReconcileEvery:      time.Minute,
		TraceSample:         0.001,
		LogLevel:            slog.LevelInfo,
		LogFormat:           "text",
		DrainTimeout:        8 * time.Second,
	}
}

// The engines of a [Stock] and of a [Queue].
const (
	Embedded = "embedded" // Lives in this process and a file; its outbox is the queue.
	Redis    = "redis"    // A Redis, or a Cluster or Sentinel group of them.

	// Of a queue: the outbox in the stock's Redis, in one of two forms, or a broker.
	RedisStream = "redis-stream"
	RedisList   = "redis-list"
	Kafka       = "kafka"
	RabbitMQ    = "amqp"
	RocketMQ    = "rocketmq"
)

// Stock says where units are decided.
type Stock struct {
	Engine string // Embedded or Redis.
	URL    Secret // Of Redis, as it was given.
}

// String is for people: it has no password.
func (s Stock) String() string {
	if s.Engine != Redis {
		return s.Engine
	}
	return withoutUser(s.URL.Reveal())
}

// queue is the one that a stock brings along.
func (s Stock) queue() Queue {
	if s.Engine == Redis {
		return Queue{Engine: RedisStream}
	}
	return Queue{Engine: Embedded}
}

// Queue says what carries reservations to the order writer.
type Queue struct {
	Engine string
	URL    Secret // Of a broker, as it was given.
}

// Broker tells whether the queue is a server of its own, so that the outbox has to be moved there.
func (q Queue) Broker() bool {
	return q.Engine == Kafka || q.Engine == RabbitMQ || q.Engine == RocketMQ
}

// String is for people: it has no password.
func (q Queue) String() string {
	if !q.Broker() {
		return q.Engine
	}
	return withoutUser(q.URL.Reveal())
}

// Place names where in the broker the messages are: its kind, and the topic or the queue with its group. Its hosts,
// and how it is used, may change without a message being left behind.
func (q Queue) Place() string {
	if !q.Broker() {
		return q.Engine
	}
	_, rest, _ := strings.Cut(withoutUser(q.URL.Reveal()), "://")
	rest, query, _ := strings.Cut(rest, "?")
	_, path, _ := strings.Cut(rest, "/")
	values, err := url.ParseQuery(query)
	if err != nil {
		values = nil // It was parsed when the setting was read.
	}
	var place strings.Builder
	place.WriteString(q.Engine + ":" + path)
	for _, name := range []string{"queue", "group"} {
		if v := values.Get(name); v != "" {
			place.WriteString(" " + name + " " + v)
		}
	}
	return place.String()
}

// fits tells whether the stock can fill the queue.
func (q Queue) fits(s Stock) bool {
	switch q.Engine {
	case Embedded:
		return s.Engine == Embedded
	case RedisStream, RedisList:
		return s.Engine == Redis
	}
	return q.Broker()
}

// withoutUser is a URL without who may use it.
func withoutUser(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// SQL is the database that is meant: Database, or the file seckill.db in Data.
func (c *Config) SQL() Database {
	if c.Database.Engine != "" {
		return c.Database
	}
	return Database{Engine: SQLite, Path: filepath.Join(c.Data, "seckill.db")}
}

// The engines of a [Database].
const (
	SQLite = "sqlite"
	MySQL  = "mysql"
)

// Database says where orders are kept.
type Database struct {
	Engine string // SQLite or MySQL.
	Path   string // Of the file, for SQLite.

	// For MySQL.
	Addr     string // host:port.
	User     string
	Password Secret
	Name     string
}

// String is for people: it has no password.
func (d Database) String() string {
	switch d.Engine {
	case SQLite:
		return SQLite + ":" + d.Path
	case MySQL:
		return MySQL + "://" + d.User + "@" + d.Addr + "/" + d.Name
	}
	return ""
}

// The kinds of [Auth].
const (
	AuthHS256  = "jwt:hs256"
	AuthJWKS   = "jwt:jwks"
	AuthHeader = "header"
	AuthOpen   = "open"
)

// Auth says how a buyer proves who it is.
type Auth struct {
	Kind   string // One of the constants; "" is not set.
	Secret Secret // The key of AuthHS256.
	URL    string // The key set of AuthJWKS.
	Header string // The header of AuthHeader, in canonical form.
}

// String is for people: it has no secret.
func (a Auth) String() string {
	switch a.Kind {
	case AuthHS256:
		return AuthHS256 + ":***"
	case AuthJWKS:
		return AuthJWKS + ":" + a.URL
	case AuthHeader:
		return AuthHeader + ":" + a.Header
	}
	return a.Kind
}

// Roles are what one process does.
type Roles struct {
	Gateway bool // Answers buyers.
	Worker  bool // Writes orders, and does the jobs of activities.
	Console bool // Serves the console and the admin API; health and metrics are served by all.
}

// List names the roles.
func (r Roles) List() (names []string) {
	for _, role := range []struct {
		name string
		on   bool
	}{{"gateway", r.Gateway}, {"worker", r.Worker}, {"console", r.Console}} {
		if role.on {
			names = append(names, role.name)
		}
	}
	return names
}

// Limit is a token bucket. Its zero value is "off".
type Limit struct {
	PerSecond float64 // Above 0, up to 100,000.
	Burst     int     // 1 to 10,000; it comes back within three years.
}

// Off tells that there is no limit.
func (l Limit) Off() bool { return l == Limit{} }
