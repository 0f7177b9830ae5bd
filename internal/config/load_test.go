package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"seckill/internal/config"
)

// A flag beats a variable, which beats the file, which beats the default.
func TestPrecedence(t *testing.T) {
	file := write(t, "s.yaml", "listen: ':3'\nadmin_listen: ':13'\ndata: from-file\nlog_level: debug\n")
	c, err := config.Load(with("--listen", ":1", "--config", file),
		[]string{"SECKILL_LISTEN=:2", "SECKILL_ADMIN_LISTEN=:12", "SECKILL_DATA="}, config.Serve)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.Listen, c.AdminListen, c.Data, c.LogLevel.String(), c.LogFormat}
	want := []string{":1", ":12", "from-file", "DEBUG", "text"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A wrong value that a better source replaces does no harm; the mended value counts.
func TestReplacedValueIsNotJudged(t *testing.T) {
	c, err := config.Load(with("--log-level", "warn"), []string{"SECKILL_LOG_LEVEL=loud"}, config.Serve)
	if err != nil || c.LogLevel != slog.LevelWarn {
		t.Errorf("got %v and %v, want warn", c.LogLevel, err)
	}
}

// Every setting arrives in its field, from a flag, a variable and a file alike.
func TestEachSettingArrives(t *testing.T) {
	token := write(t, "token", "from-file\n")
	cert, key := pair(t)
	values := [][2]string{
		{"listen", "[::1]:1"}, {"admin-listen", ":0"}, {"stock", "embedded"}, {"queue", "embedded"},
		{"database", "mysql://u:p%40ss@db/shop"}, {"data", "d"}, {"auth", "jwt:jwks:https://h/k"}, {"auth-issuer", "shop"}, {"auth-audience", "a,b"}, {"admin-token", "@" + token},
		{"trusted-proxies", "10.1.2.3/8, ::1,::ffff:192.0.2.0/120,10.0.0.0/8"}, {"roles", "console,worker,gateway"},
		{"simulate-payment", "true"}, {"metrics-auth", "TRUE"}, {"limit-ip", "0.5/s:1"}, {"limit-user", "off"}, {"limit-device", "100000/s:10000"},
		{"limit-abuse", "1/s:2"}, {"abuse-block", "1h"}, {"entry-before", "30s"}, {"entry-wait", "1s"}, {"return-window", "10s"}, {"unpaid-max", "3"}, {"unpaid-block", "2h"}, {"challenge-difficulty", "1000"},
		{"backlog-high", "7"}, {"backlog-low", "7"}, {"reserve-timeout", "10ms"}, {"write-batch-max", "2000"}, {"write-attempts-max", "1"},
		{"tls-cert", cert}, {"tls-key", key}, {"webhook-private", "true"},
		{"retention", "1m30s"}, {"reconcile-every", "24h"}, {"otlp-endpoint", "https://otel:4318/x"}, {"trace-sample", "0.25"}, {"log-level", "error"}, {"log-format", "json"}, {"drain-timeout", "9.9s"},
	}
	want := config.Config{
		Listen: "[::1]:1", AdminListen: ":0", Stock: config.Stock{Engine: "embedded"}, Queue: config.Queue{Engine: "embedded"},
		Database: config.Database{Engine: config.MySQL, Addr: "db:3306", User: "u", Password: config.NewSecret("p@ss"), Name: "shop"},
		Data:     "d", Auth: config.Auth{Kind: config.AuthJWKS, URL: "https://h/k"}, AuthIssuer: "shop", AuthAudience: []string{"a", "b"}, AdminToken: config.NewSecret("from-file"),
		TrustedProxies:  []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("192.0.2.0/24")},
		Roles:           config.Roles{Gateway: true, Worker: true, Console: true},
		SimulatePayment: true, MetricsAuth: true,
		LimitIP: config.Limit{PerSecond: 0.5, Burst: 1}, LimitDevice: config.Limit{PerSecond: 1e5, Burst: 1e4},
		LimitAbuse: config.Limit{PerSecond: 1, Burst: 2}, AbuseBlock: time.Hour, EntryBefore: 30 * time.Second, EntryWait: time.Second, ChallengeDifficulty: 1000,
		ReturnWindow: 10 * time.Second, UnpaidMax: 3, UnpaidBlock: 2 * time.Hour,
		WebhookPrivate: true,
		TLSCert:        cert, TLSKey: key,
		BacklogHigh: 7, BacklogLow: 7, ReserveTimeout: 10 * time.Millisecond, WriteBatchMax: 2000, WriteAttemptsMax: 1,
		Retention: 90 * time.Second, ReconcileEvery: 24 * time.Hour, OTLPEndpoint: "https://otel:4318/x", TraceSample: 0.25, LogLevel: slog.LevelError, LogFormat: "json", DrainTimeout: 9900 * time.Millisecond,
	}
	var args, environ []string
	var file strings.Builder
	known := 0
	config.Flags(config.Serve).VisitAll(func(*pflag.Flag) { known++ })
	if known != len(values)+1 {
		t.Errorf("the test has %d settings, the product %d besides --config", len(values), known-1)
	}
	for _, v := range values {
		args = append(args, "--"+v[0]+"="+v[1])
		environ = append(environ, "SECKILL_"+strings.ToUpper(strings.ReplaceAll(v[0], "-", "_"))+"="+v[1])
		fmt.Fprintf(&file, "%s: '%s'\n", strings.ReplaceAll(v[0], "-", "_"), v[1])
	}
	for how, load := range map[string]func() (config.Config, error){
		"flags":     func() (config.Config, error) { return config.Load(args, nil, config.Serve) },
		"variables": func() (config.Config, error) { return config.Load(nil, environ, config.Serve) },
		"file": func() (config.Config, error) {
			return config.Load([]string{"--config=" + write(t, "s.yaml", file.String())}, nil, config.Serve)
		},
	} {
		got, err := load()
		got.Warnings = nil
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v and %v,\nwant %+v", how, got, err, want)
		}
	}
}

// Lists and plain values of YAML need no quotes.
func TestYAMLForms(t *testing.T) {
	file := write(t, "s.yaml", "roles: [gateway, worker, console]\ntrusted_proxies:\n  - 10.0.0.0/8\n  - ::1\nsimulate_payment: true\nbacklog_high: 9\nbacklog_low: 1\nretention: &d 2h\nreconcile_every: *d\n")
	c, err := config.Load(with("--config", file), nil, config.Serve)
	if err != nil || len(c.TrustedProxies) != 2 || !c.SimulatePayment || c.BacklogHigh != 9 || c.ReconcileEvery != 2*time.Hour {
		t.Errorf("got %+v and %v", c, err)
	}
}

// What is not said follows from what is.
func TestDerivedDefaults(t *testing.T) {
	c, err := config.Load(with("--data", "/var/lib/seckill"), nil, config.Serve)
	if err != nil || c.Queue.Engine != "embedded" || c.Database.String() != "sqlite:/var/lib/seckill/seckill.db" {
		t.Errorf("got queue %q, database %q and %v", c.Queue, c.Database, err)
	}
	d := config.Default()
	d.Data = "x"
	if got := d.SQL().Path; got != "x/seckill.db" {
		t.Errorf("got %q, want the database to follow the folder", got)
	}
}

// Migrating needs to know where the database is, and asks for nothing else. A file and
// variables that are meant for the server are read all the same.
func TestMigrateNeedsLess(t *testing.T) {
	file := write(t, "s.yaml", "database: sqlite:/x.db\nadmin_token: '@/not/readable'\nroles: gateway\n")
	c, err := config.Load([]string{"--config", file}, []string{"SECKILL_AUTH=@"}, config.Migrate)
	if err != nil || c.Database.Path != "/x.db" {
		t.Errorf("got %v and %v", c.Database, err)
	}
	if _, err := config.Load([]string{"--listen", ":1"}, nil, config.Migrate); err == nil {
		t.Error("got no error for a flag that migrate does not have")
	}
}

// Variables that others put there are left alone; others with the prefix are mistakes.
func TestForeignVariables(t *testing.T) {
	for _, name := range []string{
		"SECKILL_SERVER", "SECKILL_TEST_REQUIRE", "SECKILL_TEST_REDIS", "SECKILL_PORT", "SECKILL_SERVICE_HOST", "SECKILL_SERVICE_PORT_HTTP",
		"SECKILL_PORT_8080_TCP", "SECKILL_PORT_8080_TCP_ADDR", "SECKILL_ADMIN_SERVICE_HOST", "SECKILL_ADMIN_PORT_8081_TCP_PROTO", "MY_SECKILL_X", "seckill_x",
	} {
		if _, err := config.Load(enough, []string{name + "=tcp://10.0.0.1:80"}, config.Serve); err != nil {
			t.Errorf("%s: got %v, want it ignored", name, err)
		}
	}
	for _, name := range []string{"SECKILL_", "SECKILL_TEST", "SECKILL_SERVERS", "SECKILL_LISTEN_", "SECKILL_Listen", "SECKILL_PORT_8080"} {
		_, err := config.Load(enough, []string{name + "=x"}, config.Serve)
		oneMistake(t, err, name, "x", "lists|perhaps")
	}
}

// Who lowers the high mark alone need not think of the low one.
func TestLowMarkFollows(t *testing.T) {
	c, err := config.Load(with("--backlog-high", "101"), nil, config.Serve)
	if err != nil || c.BacklogLow != 50 {
		t.Errorf("got %d and %v, want 50", c.BacklogLow, err)
	}
}

func TestHelpIsAnswered(t *testing.T) {
	for _, arg := range []string{"--help", "-h"} {
		if _, err := config.Load([]string{arg}, nil, config.Serve); !errors.Is(err, pflag.ErrHelp) {
			t.Errorf("%s: got %v, want pflag.ErrHelp", arg, err)
		}
	}
}

const hidden = "Tr0ub4dor"

// However the settings are printed, encoded or logged, their secrets are stars.
func TestSecretsAreNeverPrinted(t *testing.T) {
	c, err := config.Load([]string{"--auth", "jwt:hs256:" + hidden, "--admin-token", hidden, "--database", "mysql://u:" + hidden + "@h/n"}, nil, config.Serve)
	if err != nil {
		t.Fatal(err)
	}
	if c.AdminToken.Reveal() != hidden || c.Auth.Secret.Reveal() != hidden || c.Database.Password.Reveal() != hidden {
		t.Fatal("the secrets did not arrive")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%v %+v %#v %v %v", c, c, c, c.Auth, c.Database)
	for _, verb := range []string{"%s", "%q", "%x", "%X", "%d", "%#v", "%+v", "%T", "%p", "%20s"} {
		fmt.Fprintf(&out, verb, c.AdminToken)
	}
	type owner struct{ secret config.Secret }
	fmt.Fprintf(&out, "%v %+v %#v", owner{c.AdminToken}, owner{c.AdminToken}, &owner{c.AdminToken})
	fmt.Fprint(&out, c.AdminToken.String(), c.AdminToken.GoString())
	for _, encode := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		b, err := encode(c)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "config", c, "token", c.AdminToken, "auth", c.Auth)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "config", c, "token", c.AdminToken, "auth", c.Auth)
	fmt.Fprint(&out, c.Warnings)
	if strings.Contains(out.String(), hidden) || strings.Contains(out.String(), fmt.Sprintf("%x", hidden)) {
		t.Errorf("the secret is in %s", out.String())
	}
	if len(c.Warnings) != 3 {
		t.Errorf("got warnings %q, want one for each secret on the command line", c.Warnings)
	}
}

// Nor does a mistake in or near a secret show it.
func TestSecretsAreNotInMistakes(t *testing.T) {
	for _, args := range [][]string{
		{"--admin-token", hidden + " x"}, {"--admin-token", "@" + hidden}, {"--admin-tokn", hidden}, {"--admin-tokn=" + hidden},
		{"--admin-token", "a", hidden}, {"--auth", "jwt:hs265:" + hidden}, {"--auth", hidden}, {"--auth", "jwt:hs256:@" + hidden},
		{"--auth", "jwt:jwks:https://u:" + hidden + "@h/"}, {"--database", "mysql://u:" + hidden + "@h"}, {"--database", "mysql://u:" + hidden + "%zz@h/n"},
		{"--database", "mysql//u:" + hidden + "@h/n"}, {"--stock", "redis://u:" + hidden + "@h"}, {"--queue", "amqp://u:" + hidden + "@h"}, {"--queue", hidden},
		{"--stock", hidden}, {"--config", write(t, "s.yaml", "admin_token: {"+hidden+": 1}")}, {"--config", write(t, "s.yaml", "admin_token: ["+hidden)},
		{"--config", write(t, "s.yaml", "auth: &"+hidden+" jwt:hs256:%"+hidden+"\nadmin_token: *"+hidden+"x")},
	} {
		_, err := config.Load(args, nil, config.Serve)
		if err == nil || strings.Contains(err.Error(), hidden) {
			t.Errorf("%q: got %v, want an error without the secret", args, err)
		}
	}
}

// A file's secret loses the line end that editors add, and nothing else.
func TestSecretFromFile(t *testing.T) {
	c, err := config.Load([]string{"--auth", "jwt:hs256:@" + write(t, "key", " k e y \r\n"), "--admin-token", "@" + write(t, "token", "abc")}, nil, config.Serve)
	if err != nil || c.Auth.Secret.Reveal() != " k e y " || c.AdminToken.Reveal() != "abc" || len(c.Warnings) != 0 {
		t.Errorf("got %q, %q, warnings %q and %v", c.Auth.Secret.Reveal(), c.AdminToken.Reveal(), c.Warnings, err)
	}
	for _, body := range []string{"", "\n", strings.Repeat("x", 64<<10+1)} {
		if _, err := config.Load([]string{"--auth", "open", "--admin-token", "@" + write(t, "t", body)}, nil, config.Serve); err == nil {
			t.Errorf("a file of %d bytes: got no error", len(body))
		}
	}
}
