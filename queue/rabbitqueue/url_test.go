package rabbitqueue

import (
	"strings"
	"testing"
	"time"
)

// Each part of a URL is read, unescaped, and has a default where it may be left out.
func TestURL(t *testing.T) {
	for url, want := range map[string]target{
		"amqp://h/v?queue=q":                    {addr: "h:5672", host: "h", user: "guest", pass: "guest", vhost: "v", queue: "q"},
		"amqp://h?queue=q":                      {addr: "h:5672", host: "h", user: "guest", pass: "guest", vhost: "/", queue: "q"},
		"amqp://h/?queue=q":                     {addr: "h:5672", host: "h", user: "guest", pass: "guest", vhost: "/", queue: "q"},
		"amqp://h/%2F?queue=q":                  {addr: "h:5672", host: "h", user: "guest", pass: "guest", vhost: "/", queue: "q"},
		"amqp://u:p@h:1/a%2Fb?queue=%E7%A7%92":  {addr: "h:1", host: "h", user: "u", pass: "p", vhost: "a/b", queue: "秒"},
		"amqp://u%40:p%2F%3A@[::1]:1/v?queue=q": {addr: "[::1]:1", host: "::1", user: "u@", pass: "p/:", vhost: "v", queue: "q"},
		"amqp://u:p@h:1/v?queue=q&type=classic&prefetch=9&heartbeat=3": {
			addr: "h:1", host: "h", user: "u", pass: "p", vhost: "v", queue: "q", classic: true, prefetch: 9, heartbeat: 3 * time.Second,
		},
	} {
		got, err := parseURL(url)
		if err != nil || *got != want {
			t.Errorf("%s: got %+v, %v, want %+v", url, got, err, want)
		}
	}
	got, err := parseURL("amqps://h/v?queue=q")
	if err != nil || got.addr != "h:5671" || got.tls == nil || got.tls.ServerName != "h" {
		t.Errorf("amqps: got %+v, %v, want TLS for h on port 5671", got, err)
	}
}

// What is wrong with a URL is said in one line, and never shows the password.
func TestURLRefuses(t *testing.T) {
	for url, says := range map[string]string{
		"amqp://u:s3cret@h:port/v?queue=q":                      "cannot be read",
		"amqp://u:s3cret/x@h/v?queue=q":                         "cannot be read",
		"amqp://u:s3cret%zz@h/v?queue=q":                        "cannot be read",
		"kafka://u:s3cret@h/v?queue=q":                          `scheme "kafka"`,
		"amqp://u:s3cret@/v?queue=q":                            "no host",
		"amqp://u:s3cret@h:70000/v?queue=q":                     "port",
		"amqp://u:s3cret@h/a/b?queue=q":                         "escaped",
		"amqp://u:s3cret@h/v":                                   "names no queue",
		"amqp://u:s3cret@h/v?queue=":                            "names no queue",
		"amqp://u:s3cret@h/v?queue=amq.mine":                    "RabbitMQ's own",
		"amqp://u:s3cret@h/v?queue=a&queue=b":                   "more than once",
		"amqp://u:s3cret@h/v?queue=q&type=stream":               "type=stream",
		"amqp://u:s3cret@h/v?queue=q&prefetch=0":                "prefetch=0",
		"amqp://u:s3cret@h/v?queue=q&prefetch=2001":             "1 to 2000",
		"amqp://u:s3cret@h/v?queue=q&heartbeat=0":               "heartbeat=0",
		"amqp://u:s3cret@h/v?queue=q&que=1":                     `"que"`,
		"amqp://u:s3cret@h/v?queue=%zz":                         "not properly escaped",
		"amqp://u:s3cret@h/v?queue=q#x":                         "%23",
		"amqp://u:s3cret@h/v?queue=q&cacertfile=x":              "amqps",
		"amqps://u:s3cret@h/v?queue=q&cacertfile=/no":           "no such file",
		"amqps://u:s3cret@h/v?queue=q&cacertfile=url.go":        "no certificate",
		"amqp://u:s3cret@h/v?queue=" + strings.Repeat("q", 256): "256 bytes",
	} {
		got, err := parseURL(url)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %+v, %v, want an error that says %q", url, got, err, says)
		} else if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q shows the password, or is not one line", url, err)
		}
	}
}
