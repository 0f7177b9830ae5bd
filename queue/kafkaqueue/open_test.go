package kafkaqueue_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seckill/internal/testenv"
	"seckill/queue/kafkaqueue"
)

// refuses wants Open to fail, with one line that says so and shows no password.
func refuses(t *testing.T, o kafkaqueue.Options, want string) {
	t.Helper()
	q, err := kafkaqueue.Open(patience(t), o)
	if err == nil {
		_ = q.Close()
		t.Errorf("got no error, want it to say %q", want)
		return
	}
	said := err.Error()
	if !strings.Contains(said, want) || strings.Contains(said, "\n") || strings.Contains(said, "secret") {
		t.Errorf("got %q, want one line that says %q, and no password", said, want)
	}
}

// A URL that cannot be meant is refused before anybody is asked.
func TestURLThatCannotBe(t *testing.T) {
	for given, want := range map[string]string{
		"":                                   "no scheme",
		"http://h:1/t":                       "no scheme",
		"kafka://u:secret@h/t":               "a host or a port",
		"kafka://u:secret@h:0/t":             "a host or a port",
		"kafka://u:secret@h:1,:2/t":          "a host or a port",
		"kafka://u:secret@h:1,/t":            "a host or a port",
		"kafka://u:secret@h:1":               "names no topic",
		"kafka://u:secret@h:1/":              "names no topic",
		"kafka://u:secret@h:1/a/b":           "names no topic",
		"kafka://u:secret@h:1/..":            "names no topic",
		"kafka://u:secret@h:1/t?group=":      `"group"`,
		"kafka://u:secret@h:1/t?partitions=": `"partitions"`,
		"kafka://h:1/t?partitions=10001":     "from 1 to 10000",
		"kafka://h:1/t?replicas=0":           "from 1 to 100",
		"kafka://h:1/t?tls=yes":              `"tls"`,
		"kafka://u:secret@h:1/t?acks=0":      `"acks" in the URL of Kafka is not known`,
		"kafka://u:secret@h:1/t?sasl=gssapi": "no way to log in",
		"kafka://h:1/t?sasl=plain":           "not who",
		"kafka://%zz:secret@h:1/t":           "not properly escaped",
		"kafka://h:1/t?%zz":                  "cannot be read",
	} {
		t.Run(given, func(t *testing.T) { refuses(t, kafkaqueue.Options{URL: given}, want) })
	}
}

// Nobody there is an error within the time for it.
func TestNobodyThere(t *testing.T) {
	o := kafkaqueue.Options{URL: "kafka://u:secret@" + testenv.FreePort(t) + "/t", OpenTimeout: time.Second}
	start := time.Now()
	refuses(t, o, "connection refused")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A topic that loses what nobody has read, or that cannot be written to, is refused.
func TestTopicOfWrongSettings(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]string
		want     string
	}{
		"compacted":               {map[string]string{"cleanup.policy": "compact"}, "set cleanup.policy=delete"},
		"compacted and deleted":   {map[string]string{"cleanup.policy": "compact,delete"}, "set cleanup.policy=delete"},
		"forgets in a minute":     {map[string]string{"retention.ms": "60000"}, "set retention.ms to 3600000 or more"},
		"wants too many replicas": {map[string]string{"min.insync.replicas": "4"}, "can never be written to"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fake(t)
			must(t, cluster.CreateTopic(fakeTopic, 1, c.settings))
			refuses(t, kafkaqueue.Options{URL: fakeURL(cluster, "")}, c.want)
		})
	}
	t.Run("keeps for ever", func(t *testing.T) {
		cluster := fake(t)
		must(t, cluster.CreateTopic(fakeTopic, 1, map[string]string{"retention.ms": "-1"}))
		must(t, open(t, kafkaqueue.Options{URL: fakeURL(cluster, "")}).Close())
	})
}

// The topic is made as the URL asks for, safely where it can be.
func TestTopicIsCreated(t *testing.T) {
	c := fake(t)
	must(t, open(t, kafkaqueue.Options{URL: fakeURL(c, "&partitions=5&replicas=3")}).Close())
	info := c.TopicInfo(fakeTopic)
	if info == nil || len(c.PartitionInfos(fakeTopic)) != 5 {
		t.Fatalf("got %+v, want 5 partitions", info)
	}
	if got := info.Configs["min.insync.replicas"]; got == nil || *got != "2" {
		t.Errorf("got min.insync.replicas %v, want 2", got)
	}
	// Once more, it is there; and it may have more than is asked for.
	must(t, open(t, kafkaqueue.Options{URL: fakeURL(c, "&partitions=3")}).Close())
	refuses(t, kafkaqueue.Options{URL: fakeURL(c, "&partitions=6")}, "has 5 partitions")
}

// Three ways to log in work, also with signs in the password that mean something in a
// URL; a wrong password is one line. One that goes unprotected is warned of.
func TestLogin(t *testing.T) {
	const password = "secret:/?#@"
	for _, method := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(method, func(t *testing.T) {
			c := fake(t, kfake.EnableSASL(), kfake.Superuser(method, "me", password))
			address := func(password string) string {
				return strings.Replace(fakeURL(c, "&sasl="+strings.ToLower(method)), "://", "://me:"+url.PathEscape(password)+"@", 1)
			}
			var said bytes.Buffer
			q := open(t, kafkaqueue.Options{URL: address(password), Log: slog.New(slog.NewTextHandler(&said, nil))})
			must(t, q.Publish(patience(t), messages("a", 1)...))
			receive(t, subscribe(t, q), 1)
			must(t, q.Close())
			if warned := strings.Contains(said.String(), "as it is"); warned != (method == "PLAIN") || strings.Contains(said.String(), "secret") {
				t.Errorf("the log says %s", said.String())
			}
			// The fake cluster hangs up on a wrong password; a real one says why.
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, TopLevel: true, Err: kerr.SaslAuthenticationFailed, Count: -1})
			start := time.Now()
			refuses(t, kafkaqueue.Options{URL: address("secret-not")}, "SASL_AUTHENTICATION_FAILED")
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("it took %v to give up what is hopeless", took)
			}
		})
	}
}

// Each right that is missing is named when the queue is opened, not when the sale begins.
func TestMissingRights(t *testing.T) {
	allow := func(kind kmsg.ACLResourceType, op kmsg.ACLOperation) kfake.ACL {
		name := fakeTopic
		if kind == kmsg.ACLResourceTypeCluster {
			name = "kafka-cluster"
		}
		return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	write := allow(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationWrite)
	read := allow(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead)
	group := allow(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead)
	for name, c := range map[string]struct {
		rights []kfake.ACL
		none   bool // The topic is not there yet.
		want   string
	}{
		"to see the topic":    {nil, false, "DESCRIBE is missing"},
		"to write":            {[]kfake.ACL{read, group}, false, "the right WRITE is missing"},
		"to read":             {[]kfake.ACL{write, group}, false, "the right READ is missing"},
		"to join":             {[]kfake.ACL{write, read}, false, `group "t": the right READ is missing`},
		"to create the topic": {[]kfake.ACL{write, read, group}, true, "cannot be created"},
		"none":                {[]kfake.ACL{write, read, group}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			opts := []kfake.Opt{
				kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"),
				kfake.User("PLAIN", "me", "secret", c.rights...),
			}
			if !c.none {
				opts = append(opts, kfake.SeedTopics(2, fakeTopic))
			}
			cluster := fake(t, opts...)
			o := kafkaqueue.Options{URL: strings.Replace(fakeURL(cluster, "&sasl=plain"), "://", "://me:secret@", 1), OpenTimeout: 5 * time.Second}
			if c.want != "" {
				refuses(t, o, c.want)
				return
			}
			q := open(t, o)
			must(t, q.Publish(patience(t), messages("a", 1)...))
			s := subscribe(t, q)
			must(t, s.Ack(patience(t), receive(t, s, 1)...))
			backlogIs(t, q, 0)
		})
	}
}

// A broker whose certificate nobody vouches for gets no password, and one without TLS is
// not spoken to without it.
func TestTLSIsMeant(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	secure := fake(t, kfake.TLS(server.TLS))
	start := time.Now()
	refuses(t, kafkaqueue.Options{URL: strings.Replace(fakeURL(secure, ""), "kafka://", "kafkas://me:secret@", 1)}, "certificate")
	refuses(t, kafkaqueue.Options{URL: strings.Replace(fakeURL(secure, "&tls=1"), "kafka://", "kafka://me:secret@", 1)}, "certificate")
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v to give up twice what is hopeless", took)
	}
	bare := fake(t)
	refuses(t, kafkaqueue.Options{URL: fakeURL(bare, "&tls=1"), OpenTimeout: time.Second}, "speaks no TLS")
	refuses(t, kafkaqueue.Options{URL: fakeURL(secure, "")}, "is TLS missing?")
}

// A context that has ended is the answer of everything.
func TestEndedContext(t *testing.T) {
	c := fake(t)
	q := open(t, kafkaqueue.Options{URL: fakeURL(c, "")})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Publish(ended, messages("a", 1)...); err == nil {
		t.Error("publish: got no error")
	}
	if _, err := q.Subscribe(ended); err == nil {
		t.Error("subscribe: got no error")
	}
	if _, err := q.Backlog(ended); err == nil {
		t.Error("backlog: got no error")
	}
	if _, err := kafkaqueue.Open(ended, kafkaqueue.Options{URL: fakeURL(c, "")}); err == nil {
		t.Error("open: got no error")
	}
}
