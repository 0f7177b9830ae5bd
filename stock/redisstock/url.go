package redisstock

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// forms says what a URL may look like.
const forms = "redis://[user:pass@]host:port[/db], rediss://…, redis-cluster://[user:pass@]host:port,… " +
	"or redis-sentinel://[user:pass@]host:port,…/master"

// parseURL reads where Redis is. Its errors never show the URL: it may hold a password.
func parseURL(s string) (rueidis.ClientOption, error) {
	var o rueidis.ClientOption
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return o, errors.New("the URL of the stock's Redis has no scheme; accepted are " + forms)
	}
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, pass, hasPass := strings.Cut(authority[:i], ":")
		authority = authority[i+1:]
		var err error
		if o.Username, err = url.PathUnescape(user); err == nil && hasPass {
			o.Password, err = url.PathUnescape(pass)
		}
		if err != nil {
			return o, errors.New("the user or password in the URL of the stock's Redis is not properly escaped")
		}
	}
	base, secure := strings.CutPrefix(scheme, "rediss")
	if !secure {
		base, ok = strings.CutPrefix(scheme, "redis")
	}
	if !ok {
		return o, fmt.Errorf("the stock's Redis has the unknown scheme %q; accepted are %s", scheme, forms)
	}
	for addr := range strings.SplitSeq(authority, ",") {
		full, err := hostPort(addr)
		if err != nil {
			return o, err
		}
		o.InitAddress = append(o.InitAddress, full)
	}
	switch base {
	case "":
		if len(o.InitAddress) != 1 {
			return o, errors.New("the URL of the stock's Redis names several hosts: say redis-cluster:// or redis-sentinel://")
		}
		o.ForceSingleClient = true
		if path != "" {
			db, err := strconv.Atoi(path)
			if err != nil || db < 0 {
				return o, errors.New("what follows the host in the URL of the stock's Redis is not the number of a database")
			}
			o.SelectDB = db
		}
	case "-cluster":
		if path != "" {
			return o, errors.New("a Redis Cluster has no numbered databases: leave out what follows the hosts")
		}
	case "-sentinel":
		if path == "" || strings.Contains(path, "/") {
			return o, errors.New("redis-sentinel:// needs the name of the master behind the hosts: redis-sentinel://host:port,host:port/mymaster")
		}
		o.Sentinel.MasterSet = path
	default:
		return o, fmt.Errorf("the stock's Redis has the unknown scheme %q; accepted are %s", scheme, forms)
	}
	if secure {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o, nil
}

func hostPort(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = strings.Trim(addr, "[]"), "6379"
	}
	if n, err := strconv.Atoi(port); host == "" || err != nil || n < 1 || n > 65535 {
		return "", errors.New("the URL of the stock's Redis has a host or a port that cannot be; accepted are " + forms)
	}
	return net.JoinHostPort(host, port), nil
}
