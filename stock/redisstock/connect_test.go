package redisstock

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"seckill/internal/testenv"
	"seckill/stock"
)

// A sale goes on behind a sentinel when the master dies: what the replica has is still
// known, and the rest is sold.
func TestSentinelPromotes(t *testing.T) {
	servers := testenv.RedisSentinel(t)
	s := open(t, servers.URL())
	load(t, s, 1000, 2, 1)
	for i := range 100 {
		ask(t, s, attempt(fmt.Sprint("before ", i), 1))
	}
	servers.AwaitReplica(t)
	servers.Master.Kill()
	died := time.Now()
	for i := range 100 {
		if d := eventually(t, s, attempt(fmt.Sprint("before ", i), 1)); d.Verdict != stock.OverLimit {
			t.Fatalf("buyer %d: got %+v", i, d)
		}
		if d := eventually(t, s, attempt(fmt.Sprint("after ", i), 1)); d.Verdict != stock.Taken && d.Verdict != stock.Known {
			t.Fatalf("buyer %d: got %+v", i, d)
		}
		if i == 0 {
			t.Logf("selling again after %v", time.Since(died))
		}
	}
	if l := level(t, s); l.Queued != 200 || l.Available != 800 {
		t.Errorf("got %+v", l)
	}
}

// Redis behind TLS, with a certificate that is checked.
func TestTLS(t *testing.T) {
	redis, roots := testenv.RedisTLS(t)
	url := "rediss://" + redis.TLSAddr()
	s := open(t, url, func(o *Options) { o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} })
	load(t, s, 1, 1, 1)
	if d := ask(t, s, attempt("ann", 1)); d.Verdict != stock.Taken {
		t.Errorf("got %+v", d)
	}
	if s, err := Open(t.Context(), Options{URL: url}); err == nil {
		_ = s.Close()
		t.Error("a certificate of an unknown authority was accepted")
	}
}

// Each form of URL, and what is wrong with others.
func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h":                           "[h:6379] user= pass= db=0 master= tls=false",
		"redis://h:1/3":                       "[h:1] user= pass= db=3 master= tls=false",
		"rediss://u:p@h:1":                    "[h:1] user=u pass=p db=0 master= tls=true",
		"redis://:p%40%3A%2F@h:1":             "[h:1] user= pass=p@:/ db=0 master= tls=false",
		"redis://[::1]:7":                     "[[::1]:7] user= pass= db=0 master= tls=false",
		"redis-cluster://a:1,b:2,c":           "[a:1 b:2 c:6379] user= pass= db=0 master= tls=false",
		"redis-sentinel://u:p@a:1,b:2/master": "[a:1 b:2] user=u pass=p db=0 master=master tls=false",
	} {
		o, err := parseURL(url)
		got := fmt.Sprintf("%v user=%s pass=%s db=%d master=%s tls=%v", o.InitAddress, o.Username, o.Password, o.SelectDB, o.Sentinel.MasterSet, o.TLSConfig != nil)
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", url, got, err, want)
		}
	}
	for url, says := range map[string]string{
		"":                            "no scheme",
		"h:1":                         "no scheme",
		"http://h:1":                  "unknown scheme",
		"redis-ring://h:1":            "unknown scheme",
		"redis://":                    "host or a port",
		"redis://h:x":                 "host or a port",
		"redis://h:70000":             "host or a port",
		"redis://a:1,b:2":             "several hosts",
		"redis://a:1/db":              "number of a database",
		"redis-cluster://a:1/3":       "no numbered databases",
		"redis-sentinel://a:1,b:2":    "name of the master",
		"redis://u%ZZ:secret@host:12": "properly escaped",
	} {
		if _, err := parseURL(url); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want an error that says %q", url, err, says)
		}
	}
}

// Who names a cluster as one Redis, or the other way round, is told.
func TestWrongKindOfRedis(t *testing.T) {
	cluster := testenv.RedisCluster(t, 3)
	for url, says := range map[string]string{
		cluster.Masters[0].URL():                   "name it by redis-cluster://",
		"redis-cluster://" + testenv.Redis(t).Addr: "name it by redis://",
	} {
		if s, err := Open(t.Context(), Options{URL: url}); err == nil || !strings.Contains(err.Error(), says) {
			if err == nil {
				_ = s.Close()
			}
			t.Errorf("%s: got %v, want an error that says %q", url, err, says)
		}
	}
}
