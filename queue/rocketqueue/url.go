package rocketqueue

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Scheme begins the URL of a queue of this kind.
const Scheme = "rocketmq"

// address is what a URL says.
type address struct {
	servers []string // The name servers, host:port each.
	topic   string
	group   string
	cluster string // Where the topic is created; empty if there is one cluster only.
	queues  int    // How many of them a topic gets that is created; 0 forbids creating it.
	keys    credentials
}

const (
	queuesDefault = 8
	queuesMax     = 128
)

// allowed is what the servers take for a name; the length leaves room for their prefixes.
var allowed = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,100}$`)

// parseURL reads rocketmq://[access:secret@]host:port[,host:port]/topic[?group=..&queues=..&cluster=..].
// No error of it repeats the secret.
func parseURL(text string) (address, error) {
	rest, ok := strings.CutPrefix(text, Scheme+"://")
	if !ok {
		return address{}, fmt.Errorf("a queue's URL has to begin with %s://", Scheme)
	}
	var a address
	rest, query, _ := strings.Cut(rest, "?")
	hosts, topic, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		access, secret, _ := strings.Cut(hosts[:at], ":")
		var errAccess, errSecret error
		a.keys.access, errAccess = url.PathUnescape(access)
		a.keys.secret, errSecret = url.PathUnescape(secret)
		if errAccess != nil || errSecret != nil || a.keys.access == "" || a.keys.secret == "" {
			return address{}, errors.New("user and password before the @ need both, percent-encoded")
		}
		hosts = hosts[at+1:]
	}
	for server := range strings.SplitSeq(hosts, ",") {
		host, port, err := net.SplitHostPort(server)
		if n, errPort := strconv.ParseUint(port, 10, 16); err != nil || errPort != nil || host == "" || n == 0 {
			return address{}, fmt.Errorf("%q is not host:port of a name server", server)
		}
		a.servers = append(a.servers, server)
	}
	if !allowed.MatchString(topic) {
		return address{}, fmt.Errorf("topic %q: it has to be 1 to 100 letters, digits, _ or -", topic)
	}
	a.topic, a.group, a.queues = topic, topic, queuesDefault
	return a, a.settle(query)
}

// settle reads what follows the question mark.
func (a *address) settle(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("what follows the question mark is not name=value&name=value")
	}
	for name, all := range values {
		value := all[len(all)-1]
		switch name {
		case "group":
			if !allowed.MatchString(value) {
				return fmt.Errorf("group %q: it has to be 1 to 100 letters, digits, _ or -", value)
			}
			a.group = value
		case "cluster":
			a.cluster = value
		case "queues":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > queuesMax {
				return fmt.Errorf("queues=%s: it has to be 0 to %d", value, queuesMax)
			}
			a.queues = n
		default:
			return fmt.Errorf("there is no setting %q; there are group, queues and cluster", name)
		}
	}
	return nil
}
