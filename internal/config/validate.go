package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Validate finds everything that is wrong with the settings of a server, and says it
// at once; see [Mistakes]. [Load] has called it.
func (c *Config) Validate() error {
	return join(c.check(flagName, nil))
}

func flagName(setting string) string { return "--" + setting }

// check looks at bounds, and at settings that have to fit one another. name says what
// the user calls a setting; those in skip are known to be wrong already.
func (c *Config) check(name func(string) string, skip map[string]bool) []*Mistake {
	k := &checker{name: name, skip: skip}
	c.checkRequired(k)
	c.checkBounds(k)
	c.checkTogether(k)
	return k.found
}

type checker struct {
	name  func(string) string
	skip  map[string]bool
	found []*Mistake
}

// require notes a mistake unless ok, or unless one of the settings that it is about
// is wrong already; the first of them is named.
func (k *checker) require(ok bool, what, accepted string, settings ...string) {
	if ok {
		return
	}
	for _, s := range settings {
		if k.skip[s] {
			return
		}
	}
	k.found = append(k.found, &Mistake{k.name(settings[0]), what, accepted})
}

func (c *Config) checkRequired(k *checker) {
	k.require(c.Auth.Kind != "", "is required: nobody can buy before it is known how buyers prove who they are", authForms, "auth")
	k.require(!c.AdminToken.Empty(), "is required: the admin API needs a secret of your own", "any printable text without spaces, or @FILE", "admin-token")
}

func (c *Config) checkBounds(k *checker) {
	listen := func(setting, value string) {
		_, err := parseListen(value)
		k.require(err == nil, "is not host:port", "host:port such as 127.0.0.1:8080", setting)
	}
	within := func(setting string, value, least, most int64) {
		k.require(value >= least && value <= most, fmt.Sprintf("%d is out of bounds", value), fmt.Sprintf("%d to %d", least, most), setting)
	}
	lasts := func(setting string, value, least, most time.Duration) {
		k.require(value >= least && value <= most, short(value)+" is out of bounds", short(least)+" to "+short(most), setting)
	}
	limit := func(setting string, l Limit) {
		k.require(l.Off() || l.valid(), "is out of bounds", "RATE/s:BURST with a rate up to 100000 and a burst up to 10000, or off", setting)
	}
	listen("listen", c.Listen)
	listen("admin-listen", c.AdminListen)
	k.require(c.Data != "", "is empty", "a folder, which is made if it is not there", "data")
	limit("limit-ip", c.LimitIP)
	limit("limit-user", c.LimitUser)
	limit("limit-device", c.LimitDevice)
	limit("limit-abuse", c.LimitAbuse)
	lasts("abuse-block", c.AbuseBlock, time.Second, 24*time.Hour)
	lasts("entry-before", c.EntryBefore, time.Second, time.Hour)
	lasts("entry-wait", c.EntryWait, 0, time.Minute)
	lasts("return-window", c.ReturnWindow, 0, 10*time.Minute)
	within("unpaid-max", int64(c.UnpaidMax), 0, 100)
	lasts("unpaid-block", c.UnpaidBlock, time.Second, 720*time.Hour)
	within("challenge-difficulty", int64(c.ChallengeDifficulty), 1000, 10_000_000)
	within("backlog-high", c.BacklogHigh, 1, 1_000_000_000)
	within("backlog-low", c.BacklogLow, 0, 1_000_000_000)
	within("write-batch-max", int64(c.WriteBatchMax), 1, 2000)
	within("write-attempts-max", int64(c.WriteAttemptsMax), 1, 100)
	lasts("reserve-timeout", c.ReserveTimeout, 10*time.Millisecond, 30*time.Second)
	lasts("retention", c.Retention, time.Second, 8760*time.Hour)
	lasts("reconcile-every", c.ReconcileEvery, time.Second, 24*time.Hour)
	k.require(c.TraceSample >= 0 && c.TraceSample <= 1, "is out of bounds", "0 to 1", "trace-sample")
	k.require(c.DrainTimeout >= 100*time.Millisecond && c.DrainTimeout < 10*time.Second,
		short(c.DrainTimeout)+" is out of bounds", "100ms to less than 10s", "drain-timeout")
	k.require(c.LogFormat == "text" || c.LogFormat == "json", "is not a format", "text or json", "log-format")
}

func (c *Config) checkTogether(k *checker) {
	k.require(c.Stock.Engine == Embedded || c.Stock.Engine == Redis, "is not a stock", stockForms, "stock")
	k.require(c.Queue == Queue{} || c.Queue.fits(c.Stock), "is not a queue that goes with the stock "+c.Stock.Engine,
		c.Stock.queue().Engine+", or a broker: kafka://…, amqp://… or rocketmq://…", "queue", "stock")
	all := c.Roles.Gateway && c.Roles.Worker && c.Roles.Console
	k.require(c.Stock.Engine != Embedded || all, "the embedded stock lives in one process, which has to do everything",
		"gateway,worker,console", "roles", "stock")
	k.require(c.Auth.Kind != AuthHeader || len(c.TrustedProxies) > 0,
		"header:NAME believes a header, so it has to be known which gateway sets it",
		"header:NAME together with --trusted-proxies", "auth", "trusted-proxies")
	k.require(c.BacklogHigh < 1 || c.BacklogLow <= c.BacklogHigh, fmt.Sprintf("%d is above the high mark of %d", c.BacklogLow, c.BacklogHigh),
		"at most --backlog-high", "backlog-low", "backlog-high")
	jwt := c.Auth.Kind == AuthHS256 || c.Auth.Kind == AuthJWKS || c.Auth.Kind == ""
	k.require(jwt || c.AuthIssuer == "", "is about tokens, and there are none", "only together with --auth jwt:…", "auth-issuer", "auth")
	k.require(jwt || len(c.AuthAudience) == 0, "is about tokens, and there are none", "only together with --auth jwt:…", "auth-audience", "auth")
	k.require(c.TLSKey == "" || c.TLSCert != "", "has no certificate", "--tls-key together with --tls-cert", "tls-key", "tls-cert")
	k.require(c.TLSCert == "" || c.TLSKey != "", "has no key", "--tls-cert together with --tls-key", "tls-cert", "tls-key")
	c.checkCertificate(k)
	_, port, _ := net.SplitHostPort(c.Listen)
	k.require(c.Listen != c.AdminListen || port == "0", "is the address of the public listener as well",
		"an address of its own, which buyers cannot reach", "admin-listen", "listen")
}

// checkCertificate looks into the files, so that a name with a slip in it is said like any other mistake. A process
// that does not answer buyers has no use for them.
func (c *Config) checkCertificate(k *checker) {
	if c.TLSCert == "" || c.TLSKey == "" || !c.Roles.Gateway {
		return
	}
	good := true
	for _, f := range []struct{ setting, name, what string }{
		{"tls-cert", c.TLSCert, "a certificate chain"}, {"tls-key", c.TLSKey, "the key of --tls-cert"},
	} {
		err := readable(f.name)
		good = good && err == nil
		if err != nil {
			k.require(false, fmt.Sprintf("%q cannot be read (%s)", f.name, bare(err)), "a file with "+f.what+" in PEM, readable by this process", f.setting)
		}
	}
	if !good {
		return
	}
	if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
		k.require(false, fmt.Sprintf("%q and the key %q are no pair (%v)", c.TLSCert, c.TLSKey, err),
			"a certificate chain in PEM, and in --tls-key its key", "tls-cert", "tls-key")
	}
}

// readable reads the first byte of a file: a folder can be opened as well.
func readable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err //nolint:wrapcheck // It is taken apart at once.
	}
	defer func() { _ = f.Close() }() // It was only read.
	if _, err := f.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		return err //nolint:wrapcheck // As above.
	}
	return nil
}

// short prints a duration without its zero parts: 1m, not 1m0s.
func short(d time.Duration) string {
	s := d.String()
	if d%time.Minute == 0 && d != 0 {
		s = s[:len(s)-len("0s")]
		if d%time.Hour == 0 {
			s = s[:len(s)-len("0m")]
		}
	}
	return s
}
