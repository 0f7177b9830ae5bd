package config

import (
	"log/slog"
	"net/netip"
	"strings"
	"time"
)

// setting is one row of the table of everything that can be set.
type setting struct {
	name   string // As a flag, without dashes.
	form   string // What the help shows for the value; "" for a switch.
	preset string // The default, for the help; "" if there is none worth showing.
	help   string
	secret bool // The value may hold a secret: it is never shown.
	parse  func(c *Config, value string) error
}

func (s *setting) variable() string {
	return "SECKILL_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

func (s *setting) key() string { return strings.ReplaceAll(s.name, "-", "_") }

// into makes a row's parse from a parser of values and the field that it fills.
func into[T any](parse func(string) (T, error), field func(*Config) *T) func(*Config, string) error {
	return func(c *Config, value string) error {
		v, err := parse(value)
		if err == nil {
			*field(c) = v
		}
		return err
	}
}

func toInt(s string) (int, error) {
	n, err := parseInt(s)
	if err == nil && int64(int(n)) != n {
		return 0, &wrong{"is not a whole number", "a whole number"}
	}
	return int(n), err
}

// settings is the table, in the order of the help. --config is not in it: it says where
// the others are.
var settings = []setting{
	{name: "listen", form: "ADDR", preset: "127.0.0.1:8080", help: "public listener: the API and the buyer page",
		parse: into(parseListen, func(c *Config) *string { return &c.Listen })},
	{name: "admin-listen", form: "ADDR", preset: "127.0.0.1:8081", help: "admin listener: console, admin API, metrics, pprof, readiness",
		parse: into(parseListen, func(c *Config) *string { return &c.AdminListen })},
	{name: "stock", form: "URL", preset: "embedded", help: "what decides who gets a unit: embedded, redis://[user:pass@]host:port[/db], rediss://…, redis-cluster://host:port,…, redis-sentinel://host:port,…/master", secret: true,
		parse: into(parseStock, func(c *Config) *Stock { return &c.Stock })},
	{name: "queue", form: "URL", preset: "follows --stock", help: "what carries reservations to the order writer: embedded, redis-stream or redis-list (in the stock's Redis), kafka://host:port,…/topic, amqp://user:pass@host:port/vhost?queue=name, rocketmq://host:port/topic", secret: true,
		parse: into(parseQueue, func(c *Config) *Queue { return &c.Queue })},
	{name: "database", form: "URL", preset: "sqlite:DATA/seckill.db", help: "sqlite:PATH, or mysql://user:pass@host:port/name", secret: true,
		parse: into(parseDatabase, func(c *Config) *Database { return &c.Database })},
	{name: "data", form: "DIR", preset: "./data", help: "folder of the embedded engines",
		parse: into(parseData, func(c *Config) *string { return &c.Data })},
	{name: "auth", form: "HOW", preset: "", help: "how buyers prove who they are: jwt:hs256:SECRET, jwt:hs256:@FILE, jwt:jwks:URL, header:NAME (behind --trusted-proxies), or open (demos: the caller says who it is); required", secret: true,
		parse: into(parseAuth, func(c *Config) *Auth { return &c.Auth })},
	{name: "auth-issuer", form: "TEXT", preset: "any", help: "the issuer (iss) that buyers' tokens must have",
		parse: into(parseText, func(c *Config) *string { return &c.AuthIssuer })},
	{name: "auth-audience", form: "TEXTS", preset: "any", help: "audiences (aud), separated by commas, of which buyers' tokens must have one",
		parse: into(parseTexts, func(c *Config) *[]string { return &c.AuthAudience })},
	{name: "admin-token", form: "TOKEN", preset: "", help: "bearer token of the admin API; @FILE reads it from a file; required", secret: true,
		parse: into(parseAdminToken, func(c *Config) *Secret { return &c.AdminToken })},
	{name: "trusted-proxies", form: "CIDRS", preset: "none", help: "networks whose X-Forwarded-For is believed, separated by commas",
		parse: into(parseProxies, func(c *Config) *[]netip.Prefix { return &c.TrustedProxies })},
	{name: "roles", form: "ROLES", preset: "gateway,worker,console", help: "what this process does; the embedded stock needs all three in one process",
		parse: into(parseRoles, func(c *Config) *Roles { return &c.Roles })},
	{name: "tls-cert", form: "FILE", preset: "none", help: "certificate chain (PEM) of the public listener, which then speaks TLS 1.2 or later; read again when it changes",
		parse: into(parseFile, func(c *Config) *string { return &c.TLSCert })},
	{name: "tls-key", form: "FILE", preset: "none", help: "key (PEM) of --tls-cert",
		parse: into(parseFile, func(c *Config) *string { return &c.TLSKey })},
	{name: "webhook-private", help: "let webhooks go to private addresses, and over http",
		parse: into(parseBool, func(c *Config) *bool { return &c.WebhookPrivate })},
	{name: "simulate-payment", help: "let buyers pay through the API without paying",
		parse: into(parseBool, func(c *Config) *bool { return &c.SimulatePayment })},
	{name: "metrics-auth", help: "ask for the admin token at /metrics as well",
		parse: into(parseBool, func(c *Config) *bool { return &c.MetricsAuth })},
	{name: "limit-ip", form: "RATE/s:BURST", preset: "10/s:20", help: "purchases by one address, or off",
		parse: into(parseLimit, func(c *Config) *Limit { return &c.LimitIP })},
	{name: "limit-user", form: "RATE/s:BURST", preset: "5/s:5", help: "purchases by one buyer, or off",
		parse: into(parseLimit, func(c *Config) *Limit { return &c.LimitUser })},
	{name: "limit-device", form: "RATE/s:BURST", preset: "10/s:20", help: "purchases by one X-Device-Id, or off",
		parse: into(parseLimit, func(c *Config) *Limit { return &c.LimitDevice })},
	{name: "limit-abuse", form: "RATE/s:BURST", preset: "20/s:1200", help: "clicks refused as too fast, by one buyer, before he is blocked for a while, or off",
		parse: into(parseLimit, func(c *Config) *Limit { return &c.LimitAbuse })},
	{name: "abuse-block", form: "TIME", preset: "10m", help: "how long such a buyer is blocked",
		parse: into(parseDuration, func(c *Config) *time.Duration { return &c.AbuseBlock })},
	{name: "entry-before", form: "TIME", preset: "1m", help: "how long before the start entry tokens and challenges are given",
		parse: into(parseDuration, func(c *Config) *time.Duration { return &c.EntryBefore })},
	{name: "entry-wait", form: "TIME", preset: "0s", help: "least time between an entry and its purchase",
		parse: into(parseDuration, func(c *Config) *time.Duration { return &c.EntryWait })},
	{name: "return-window", form: "TIME", preset: "0s", help: "units that come back are for sale again at a moment within this time that nobody can foretell",
		parse: into(parseDuration, func(c *Config) *time.Duration { return &c.ReturnWindow })},
	{name: "unpaid-max", form: "N", preset: "0", help: "orders of one run that a buyer may let expire unpaid before he is blocked for a while; 0 blocks nobody",
		parse: into(toInt, func(c *Config) *int { return &c.UnpaidMax })},
	{name: "unpaid-block", form: "TIME", preset: "1h", help: "how long such a buyer is blocked",
		parse: into(parseDuration, func(c *Config) *time.Duration { return &c.UnpaidBlock })},
	{name: "challenge-difficulty", form: "N", preset: "50000", help: "most hashes that a proof of work takes, and twice what it takes on average",
		parse: into(toInt, func(c *Config) *int { return &c.ChallengeDifficulty })},
	{name: "backlog-high", form: "N", preset: "100000", help: "reservations without an order at which intake stops",
		parse: into(parseInt, func(c *Config) *int64 { return &c.BacklogHigh })},
	{name: "backlog-low", form: "N", preset: "50000", help: "reservations without an order at which intake starts again",
		parse: into(parseInt, func(c *Config) *int64 { return &c.BacklogLow })},
	{name: "reserve-timeout", form: "TIME", preset: "2s", help: "how long a purchase may wait for the stock",
		parse: into(parseDuration, func(c *Config) *time.Duration { return &c.ReserveTimeout })},
	{name: "write-batch-max", form: "N", preset: "500", help: "reservations that become orders in one transaction",
		parse: into(toInt, func(c *Config) *int { return &c.WriteBatchMax })},
	{name: "write-attempts-max", form: "N", preset: "8", help: "attempts at one reservation before it is a dead letter",
		parse: into(toInt, func(c *Config) *int { return &c.WriteAttemptsMax })},
	{name: "retention", form: "TIME", preset: "168h", help: "how long the stock keeps a run that is over",
		parse: into(parseDuration, func(c *Config) *time.Duration { return &c.Retention })},
	{name: "reconcile-every", form: "TIME", preset: "1m", help: "between two comparisons of stock, queue and database",
		parse: into(parseDuration, func(c *Config) *time.Duration { return &c.ReconcileEvery })},
	{name: "otlp-endpoint", form: "URL", preset: "none", help: "collector of traces that speaks OTLP over HTTP, such as http://127.0.0.1:4318",
		parse: into(parseCollector, func(c *Config) *string { return &c.OTLPEndpoint })},
	{name: "trace-sample", form: "RATIO", preset: "0.001", help: "share of purchases that are traced, 0 to 1; the same on all nodes",
		parse: into(parseRatio, func(c *Config) *float64 { return &c.TraceSample })},
	{name: "log-level", form: "LEVEL", preset: "info", help: "debug, info, warn or error",
		parse: into(parseLevel, func(c *Config) *slog.Level { return &c.LogLevel })},
	{name: "log-format", form: "FORMAT", preset: "text", help: "text or json",
		parse: into(parseFormat, func(c *Config) *string { return &c.LogFormat })},
	{name: "drain-timeout", form: "TIME", preset: "8s", help: "for what is under way when the process is told to stop, less than 10s",
		parse: into(parseDuration, func(c *Config) *time.Duration { return &c.DrainTimeout })},
}
