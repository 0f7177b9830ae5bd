package rocketqueue

import (
	"slices"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	a, err := parseURL("rocketmq://me:s%3Acret@ns1:9876,[::1]:9877/orders?group=writers&queues=16&cluster=c1")
	want := []string{"ns1:9876", "[::1]:9877"}
	if err != nil || !slices.Equal(a.servers, want) || a.topic != "orders" || a.group != "writers" || a.queues != 16 ||
		a.cluster != "c1" || a.keys != (credentials{"me", "s:cret"}) {
		t.Fatalf("got %+v, %v", a, err)
	}
	a, err = parseURL("rocketmq://127.0.0.1:9876/orders")
	if err != nil || a.group != "orders" || a.queues != queuesDefault || a.keys != (credentials{}) {
		t.Fatalf("got %+v, %v", a, err)
	}
}

// What is wrong is said, and the secret is not.
func TestParseURLRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"kafka://h:1/t":                          "rocketmq://",
		"rocketmq://":                            "host:port",
		"rocketmq://host/t":                      "host:port",
		"rocketmq://host:0/t":                    "host:port",
		"rocketmq://host:70000/t":                "host:port",
		"rocketmq://a:1,,b:1/t":                  "host:port",
		"rocketmq://h:1":                         "topic",
		"rocketmq://h:1/a/b":                     "topic",
		"rocketmq://h:1/%25RETRY":                "topic",
		"rocketmq://h:1/t?group=a%20b":           "group",
		"rocketmq://h:1/t?queues=x":              "queues",
		"rocketmq://h:1/t?queues=129":            "queues",
		"rocketmq://h:1/t?colour=red":            "colour",
		"rocketmq://h:1/t?group=%zz":             "question mark",
		"rocketmq://me@h:1/t":                    "password",
		"rocketmq://me:hunter2%zz@h:1/t":         "percent",
		"rocketmq://me:hunter2@h/t":              "host:port",
		"rocketmq://me:hunter2@h:1/not a topic?": "topic",
	} {
		_, err := parseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want it to speak of %q", text, err, want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("rocketmq://me:secret@h:1,h:2/topic?group=g")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseURL(text)
		if err == nil && (len(a.servers) == 0 || !allowed.MatchString(a.topic) || !allowed.MatchString(a.group)) {
			t.Errorf("%q gives %+v", text, a)
		}
	})
}
