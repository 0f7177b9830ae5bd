package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seckill/internal/config"
)

// enough is what a server must be told.
var enough = []string{"--auth", "open", "--admin-token", "t0ken"}

func write(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func with(args ...string) []string { return append(slices.Clone(enough), args...) }

// Each setting, wrong in each way that it can be, is named once with what is accepted,
// in each of the three places where it can be set.
func TestEachWrongValueIsOneLine(t *testing.T) {
	for _, c := range []struct {
		setting string
		wrong   []string
		want    string // Part of what is accepted.
	}{
		{"listen", []string{"8080", "host:", "host:http", "host:65536", "host:-1", "a b:80", "[::1", "http://h:80"}, "port"},
		{"admin-listen", []string{"8081", ":99999", "127.0.0.1:8080"}, "address|port"},
		{"stock", []string{"memory", "redis", "Embedded", "redis://", "redis://u:p@/0", "redis-sentinel://a:1", "memcached://h"}, "embedded"},
		{"queue", []string{"list", "redis-stream", "redis-list", "kafka://h/t", "kafka://h:1", "kafka://h:1/", "kafka://:1/t", "kafka://h:1,/t", "amqp://u:p@h:1/v", "amqp://u:p@h:1/v?queue=", "amqp://h?queue=q", "rocketmq://h:1/", "rocketmq://h:0/t", "nats://h:1/t"}, "embedded"},
		{"database", []string{"sqlite", "sqlite:", "postgres://u:p@h/d", "mysql:h", "mysql://h:1/n", "mysql://u:p@/n", "mysql://u:p@h", "mysql://u:p@h/", "mysql://u:p@h/a/b", "mysql://u:p@h:0/n", "mysql://u:p@h:x/n", "mysql://u:p@h/n?a=b", "mysql://u:%zz@h/n"}, "mysql://user:pass@host:port/name"},
		{"data", []string{" "}, "a folder"},
		{"auth", []string{"none", "jwt", "jwt:hs256", "jwt:hs256:", "jwt:hs256:@/no/such/file", "jwt:rs256:k", "jwt:jwks:", "jwt:jwks:ftp://h/k", "jwt:jwks:https://u:p@h/k", "jwt:jwks:https:///k", "header:", "header:a b", "header:X:Y", "header:X-User-Id", "open:"}, "jwt:|header:NAME|@FILE"},
		{"auth-issuer", []string{"with space", "shop"}, "without spaces|jwt:"},
		{"auth-audience", []string{"a,,b", "shop"}, "without spaces|jwt:"},
		{"admin-token", []string{"with space", "kéy", "@", "@/no/such/file"}, "printable|@FILE"},
		{"trusted-proxies", []string{"10.0.0.0/33", "proxy", "10.0.0.1,,10.0.0.2", "fe80::1%eth0", "::ffff:10.0.0.0/8"}, "10.0.0.0/8"},
		{"roles", []string{"gateway", "gateway,worker", "all", "gateway,,worker", "gateway worker console"}, "gateway"},
		{"tls-cert", []string{" ", "cert.pem"}, "a file|--tls-key"},
		{"tls-key", []string{" ", "key.pem"}, "a file|--tls-cert"},
		{"simulate-payment", []string{"yes", "1", "on"}, "true or false"},
		{"webhook-private", []string{"yes", "0"}, "true or false"},
		{"metrics-auth", []string{"yes", "0"}, "true or false"},
		{"limit-ip", []string{"10", "10/s", "10/s:", "/s:5", "0/s:5", "10/s:0", "-1/s:5", "10/m:5", "1e3/s:5", "NaN/s:5", "100001/s:5", "10/s:10001", "0.00000001/s:10000", "1./s:5", "10/s:5 ", "OFF", "99999999999999999999/s:1", "1/s:99999999999999999999"}, "RATE/s:BURST"},
		{"limit-user", []string{"5", "x/s:5"}, "off"},
		{"limit-device", []string{"5", "5/s:x"}, "off"},
		{"limit-abuse", []string{"5"}, "off"},
		{"abuse-block", []string{"0s", "25h", "x"}, "1s to 24h|unit"},
		{"entry-before", []string{"0s", "61m", "x"}, "1s to 1h|unit"},
		{"entry-wait", []string{"-1s", "61s", "x"}, "to 1m|unit"},
		{"return-window", []string{"-1s", "10m1s", "x"}, "to 10m|unit"},
		{"unpaid-max", []string{"-1", "101", "x"}, "0 to 100|whole number"},
		{"unpaid-block", []string{"0s", "721h", "x"}, "1s to 720h|unit"},
		{"challenge-difficulty", []string{"999", "10000001", "x"}, "1000 to 10000000|whole number"},
		{"backlog-high", []string{"0", "-1", "1.5", "many", "1000000001", "9223372036854775808"}, "1 to 1000000000|whole number|backlog-high"},
		{"backlog-low", []string{"-1", "100001", "x"}, "0 to 1000000000|at most --backlog-high|whole number"},
		{"reserve-timeout", []string{"0s", "9ms", "31s", "2", "-2s", "soon"}, "10ms to 30s|unit"},
		{"write-batch-max", []string{"0", "2001", "x"}, "1 to 2000|whole number"},
		{"write-attempts-max", []string{"0", "101", "x"}, "1 to 100|whole number"},
		{"retention", []string{"0s", "8761h", "7d"}, "1s to 8760h|unit"},
		{"reconcile-every", []string{"0s", "25h", "x"}, "1s to 24h|unit"},
		{"otlp-endpoint", []string{"collector:4318", "ftp://h", "http://", "http://u:p@h:1", "http://h:1?a=b", "http://h h", "grpc://h:4317"}, "without a user"},
		{"trace-sample", []string{"-0.1", "1.1", "1%", "x", "NaN", "1e-3", "0."}, "0 to 1"},
		{"log-level", []string{"INFO", "trace", "4"}, "debug, info, warn or error"},
		{"log-format", []string{"logfmt", "JSON"}, "text or json"},
		{"drain-timeout", []string{"0s", "99ms", "10s", "1m", "x"}, "less than 10s|unit"},
	} {
		variable := "SECKILL_" + strings.ToUpper(strings.ReplaceAll(c.setting, "-", "_"))
		key := strings.ReplaceAll(c.setting, "-", "_")
		for _, value := range c.wrong {
			args := slices.Clone(enough)
			if i := slices.Index(args, "--"+c.setting); i >= 0 {
				args = slices.Delete(args, i, i+2)
			}
			_, err := config.Load(append(args, "--"+c.setting+"="+value), nil, config.Serve)
			oneMistake(t, err, "--"+c.setting, value, c.want)

			_, err = config.Load(args, []string{variable + "=" + value}, config.Serve)
			oneMistake(t, err, variable, value, c.want)

			file := write(t, "seckill.yaml", "# A comment.\n"+key+": '"+value+"'\n")
			_, err = config.Load(append(args, "--config", file), nil, config.Serve)
			oneMistake(t, err, key+" in "+file+", line 2", value, c.want)
		}
	}
}

func oneMistake(t *testing.T, err error, setting, value, accepted string) {
	t.Helper()
	lines := config.Mistakes(err)
	if len(lines) != 1 {
		t.Errorf("%s %q: got %d lines %q, want 1", setting, value, len(lines), lines)
		return
	}
	what, says, ok := strings.Cut(lines[0], "; accepted: ")
	if !ok || !strings.HasPrefix(what, setting+": ") {
		t.Errorf("%s %q: got %q, want it to begin with the setting and to say what is accepted", setting, value, lines[0])
	}
	if !slices.ContainsFunc(strings.Split(accepted, "|"), func(a string) bool { return strings.Contains(says, a) }) {
		t.Errorf("%s %q: accepted is %q, want %q in it", setting, value, says, accepted)
	}
	if strings.ContainsAny(lines[0], "\n\r") {
		t.Errorf("%s %q: the mistake takes more than a line: %q", setting, value, lines[0])
	}
}

// All mistakes are said at once, whichever source they come from.
func TestAllMistakesAtOnce(t *testing.T) {
	file := write(t, "s.yaml", "lisen: ':1'\nlog_level: loud\nroles: {a: b}\ndata:\nlog_format: text\nlog_format: json\n")
	_, err := config.Load(
		[]string{"--config", file, "--limit-ip", "fast", "--no-such", "v", "-x", "--backlog-high=0", "--also-not=1", "stray", "--queue"},
		[]string{"SECKILL_RETENTION=long", "SECKILL_LIMIT_IPS=1", "HOME=/"}, config.Serve)
	got := config.Mistakes(err)
	for _, want := range []string{
		"--no-such: is not a setting", "-x: is not a setting", "--also-not: is not a setting", "1 of the arguments: belong to no flag",
		"--queue: has no value", `--limit-ip: "fast" is not a rate`, "--backlog-high: 0 is out of bounds",
		`SECKILL_RETENTION: "long" is not a duration`, "SECKILL_LIMIT_IPS: is not a setting; accepted: SECKILL_LIMIT_IP, perhaps",
		"lisen in " + file + ", line 1: is not a setting; accepted: listen, perhaps", `log_level in ` + file + `, line 2: "loud" is not a level`,
		"roles in " + file + ", line 3: is not a list", "data in " + file + ", line 4: has no value", "log_format in " + file + ", line 6: is there twice",
		"--auth: is required", "--admin-token: is required",
	} {
		if n := count(got, want); n != 1 {
			t.Errorf("got %d lines that begin with %q, want 1", n, want)
		}
	}
	if len(got) != 16 {
		t.Errorf("got %d lines, want 16:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func count(lines []string, prefix string) (n int) {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

// A file that cannot be used is one mistake, under the name that pointed to it.
func TestUnusableFiles(t *testing.T) {
	for body, want := range map[string]string{
		"listen: [":               "is not YAML",
		"- listen":                "is not a mapping",
		"listen":                  "is not a mapping",
		"listen: ':1'\n---\na: b": "more than one document",
		"admin_token: *s3cret":    "is not YAML",
		"listen: !!binary '%'\n":  `is not host:port`,
		"? [a, b]\n: c":           "is not a setting",
		"a: \"\x01\"":             "is not YAML",
	} {
		_, err := config.Load(with("--config", write(t, "s.yaml", body)), nil, config.Serve)
		lines := config.Mistakes(err)
		if len(lines) != 1 || !strings.Contains(lines[0], want) {
			t.Errorf("%q: got %q, want one line with %q", body, lines, want)
		}
		if strings.Contains(strings.Join(lines, ""), "s3cret") {
			t.Errorf("%q: the secret is in %q", body, lines)
		}
	}
	_, err := config.Load(with("--config", "/no/such.yaml"), nil, config.Serve)
	oneMistake(t, err, "--config", "/no/such.yaml", "YAML file")
	_, err = config.Load(enough, []string{"SECKILL_CONFIG=" + t.TempDir()}, config.Serve)
	oneMistake(t, err, "SECKILL_CONFIG", "a folder", "YAML file")
	_, err = config.Load(with("--config", write(t, "s.yaml", "# "+strings.Repeat("x", 1<<20))), nil, config.Serve)
	oneMistake(t, err, "--config", "2 MiB", "up to 1 MiB")
	for _, empty := range []string{"", "# Nothing.\n", "null", "---\n"} {
		if _, err := config.Load(with("--config", write(t, "s.yaml", empty)), nil, config.Serve); err != nil {
			t.Errorf("%q: got %v, want an empty file to be fine", empty, err)
		}
	}
}

// A Config that was put together by hand is judged by the same rules.
func TestValidateByHand(t *testing.T) {
	c := config.Default()
	got := config.Mistakes(c.Validate())
	if len(got) != 2 || count(got, "--auth: is required") != 1 || count(got, "--admin-token: is required") != 1 {
		t.Errorf("got %q, want auth and admin-token to be missing from the defaults, and nothing else", got)
	}
	c.Auth, c.AdminToken = config.Auth{Kind: config.AuthOpen}, config.NewSecret("t")
	if err := c.Validate(); err != nil {
		t.Errorf("got %v, want no mistake", err)
	}
	c.Listen, c.AdminListen = ":0", ":0"
	if err := c.Validate(); err != nil {
		t.Errorf("got %v, want two free ports to be fine", err)
	}
	c.Listen, c.Stock.Engine, c.Queue.Engine, c.LogFormat, c.Data, c.LimitIP = "x", "x", "x", "x", "", config.Limit{PerSecond: -1}
	if got := config.Mistakes(c.Validate()); len(got) != 6 {
		t.Errorf("got %d lines %q, want 6", len(got), got)
	}
}
