package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill"
	"seckill/client"
)

const (
	// goalP1 is what a refusal may cost, in times of what nginx's answer costs.
	goalP1 = 1.7
	// clickers is how many connections wrk has.
	clickers = 200
)

//go:embed purchase.lua
var purchaseLua string

// subject is one thing that is measured against nginx.
type subject struct {
	name    string
	reason  string // What every answer must say; "" of nginx.
	auth    string
	url     string
	buyers  string // File and header of who asks.
	header  string
	shop    *shop
	pid     int
	base    *subject // nginx, for the same requests; nil of nginx.
	samples samples
}

// samples has one value for each measurement.
type samples struct{ cost, user, system, rate, asked, base, ratio []float64 }

// p1 takes all subjects in turn, and nginx after each measurement: the machine may be busy with something
// else a few seconds later.
//
// nginx has one worker, which is one thread. So the server gets as many processors, or it would pay for
// locks and wake-ups between threads, and nginx would not.
func p1(ctx context.Context, s *settings) error {
	r, err := openReferee(ctx, s)
	if err != nil {
		return err
	}
	defer r.close()
	var subjects []*subject
	for _, auth := range []string{"jwt", "open"} {
		buyers, header, err := identities(s, auth, 0, s.buyers)
		if err != nil {
			return err
		}
		base := &subject{
			name: "nginx, `return 200`", auth: auth, url: r.url,
			buyers: buyers, header: header, pid: r.nginx.pid,
		}
		subjects = append(subjects, base)
		for _, k := range shopsOfP1 {
			// One after the other: what the others do while they wait would be in the way.
			mine, err := k.compareAll(ctx, s, r.script, base)
			if err != nil {
				return err
			}
			subjects = append(subjects, mine...)
		}
	}
	if len(subjects) == 2 {
		return fmt.Errorf("-only %s: there is no such row; the rows are sold_out, not_started, already_purchased, ended, rate_limited and blocked", s.only)
	}
	showP1(s, subjects)
	return nil
}

// referee is nginx, and how both sides are asked. As long as it is open, servers get as many processors as the settings
// say: nginx has one worker.
type referee struct {
	nginx       *process
	url, script string
}

func openReferee(ctx context.Context, s *settings) (*referee, error) {
	r := &referee{script: filepath.Join(s.work, "purchase.lua")}
	if err := os.WriteFile(r.script, []byte(purchaseLua), 0o600); err != nil {
		return nil, err
	}
	var address string
	var err error
	if r.nginx, address, err = startNginx(ctx, s); err != nil {
		return nil, err
	}
	r.url = "http://" + address + "/v1/activities/12/purchases"
	if err := os.Setenv("GOMAXPROCS", strconv.Itoa(s.processors)); err != nil {
		r.nginx.stop()
		return nil, err
	}
	return r, nil
}

// close gives what comes after it the whole machine.
func (r *referee) close() {
	_ = os.Unsetenv("GOMAXPROCS")
	r.nginx.stop()
}

// shopOfP1 is a shop in which all of the gate's checks are on.
type shopOfP1 struct {
	reason string // The only refusal that it gives; "": those that are about the activity and not the buyer.
	limits []string
}

var shopsOfP1 = []shopOfP1{{"", nil}, {"rate_limited", []string{"--limit-user", "0.001/s:1"}}, {"blocked", nil}}

// compareAll opens the shop, and compares what it refuses with nginx.
func (k shopOfP1) compareAll(ctx context.Context, s *settings, script string, base *subject) ([]*subject, error) {
	if k.reason != "" && s.only != "" && s.only != k.reason {
		return nil, nil
	}
	sh, err := openShop(ctx, s, filepath.Join(s.work, "data-"+base.auth+k.reason), base.auth, append(slices.Clone(generous), k.limits...)...)
	if err != nil {
		return nil, err
	}
	defer sh.stop()
	subjects, err := k.refusals(ctx, sh, *base)
	if err != nil {
		return nil, err
	}
	if s.only != "" {
		subjects = slices.DeleteFunc(subjects, func(sub *subject) bool { return sub.reason != s.only })
	}
	for _, sub := range subjects {
		sub.base = base
		// What is asked for the first time is cold, and nginx has that behind it: this does not count.
		if _, _, _, err := sub.load(ctx, script, s.duration); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", sub.name, sub.auth, err)
		}
	}
	// The machine has better and worse minutes: every row has its part of each.
	for range s.rounds {
		for _, sub := range subjects {
			if err := sub.compare(ctx, s, script); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", sub.name, sub.auth, err)
			}
		}
	}
	if s.profiles == "" {
		return subjects, nil
	}
	return subjects, profileAll(ctx, s, script, subjects)
}

// compare measures the subject, then nginx.
func (sub *subject) compare(ctx context.Context, s *settings, script string) error {
	if err := sub.measure(ctx, s, script); err != nil {
		return err
	}
	if err := sub.base.measure(ctx, s, script); err != nil {
		return fmt.Errorf("nginx: %w", err)
	}
	v, base := &sub.samples, &sub.base.samples
	v.base = append(v.base, base.cost[len(base.cost)-1])
	v.ratio = append(v.ratio, v.cost[len(v.cost)-1]/v.base[len(v.base)-1])
	return nil
}

// generous are limits that are asked, and refuse nobody.
var generous = []string{"--limit-ip", "100000/s:10000", "--limit-user", "10000/s:10000", "--limit-device", "10000/s:10000", "--limit-abuse", "off"}

// refusals makes what the shop refuses.
func (k shopOfP1) refusals(ctx context.Context, sh *shop, like subject) ([]*subject, error) {
	if err := sh.blockOthers(ctx); err != nil {
		return nil, err
	}
	switch k.reason {
	case "":
		return refusals(ctx, sh, like)
	case "blocked":
		if _, err := sh.operator.AddBlock(ctx, client.NewBlock{Kind: string(seckill.BlockCIDR), Value: "127.0.0.0/8", Reason: "the load comes from here"}); err != nil {
			return nil, err
		}
	}
	id, err := sh.sale(ctx, k.reason, 1_000_000, time.Now().Add(-time.Second))
	if err != nil {
		return nil, err
	}
	return []*subject{like.of(sh, k.reason, id)}, nil
}

// of is a subject for the same buyers.
func (sub subject) of(sh *shop, reason string, id int64) *subject {
	sub.samples = samples{}
	sub.name, sub.reason, sub.shop, sub.pid = "`"+reason+"`", reason, sh, sh.pid
	sub.url = fmt.Sprintf("http://%s/v1/activities/%d/purchases", sh.public, id)
	return &sub
}

// blockOthers makes some blocks that are about nobody who comes, so that there is something to look through.
func (s *shop) blockOthers(ctx context.Context) error {
	for i := range 100 {
		for kind, value := range map[seckill.BlockKind]string{
			seckill.BlockCIDR: fmt.Sprintf("198.51.%d.0/24", i), seckill.BlockUser: fmt.Sprintf("other-%d", i), seckill.BlockDevice: fmt.Sprintf("other-%d", i),
		} {
			if _, err := s.operator.AddBlock(ctx, client.NewBlock{Kind: string(kind), Value: value, Reason: "of somebody else"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusals makes an activity for each kind of refusal, for the same buyers as those of nginx; they are all on its list.
func refusals(ctx context.Context, sh *shop, like subject) (subjects []*subject, err error) {
	now := time.Now()
	for _, k := range []struct {
		reason string
		units  int64
		starts time.Time
	}{
		{"sold_out", 1, now.Add(-time.Second)},
		{"not_started", 1, now.Add(time.Hour)},
		{"already_purchased", 1_000_000, now.Add(-time.Second)},
		{"ended", 1, now.Add(-time.Second)},
	} {
		id, err := sh.listedSale(ctx, k.reason, k.units, k.starts)
		if err != nil {
			return nil, err
		}
		if k.reason == "ended" {
			if _, err := sh.operator.Close(ctx, id); err != nil {
				return nil, err
			}
		}
		subjects = append(subjects, like.of(sh, k.reason, id))
	}
	return subjects, nil
}

// wrong is the share of requests that may be answered otherwise, or by the stock.
const wrong = 0.001

// learningsMax is how often a measurement may be one in which the node learns of its buyers.
const learningsMax = 10

func (sub *subject) measure(ctx context.Context, s *settings, script string) error {
	var c counters
	var requests float64
	var used usage
	var took time.Duration
	// The node forgets a buyer after 30 seconds, and asks the stock once more then: that is another measurement.
	for try := 1; ; try++ {
		begin := time.Now()
		var err error
		if c, requests, used, err = sub.load(ctx, script, s.duration); err != nil {
			return err
		}
		took = time.Since(begin)
		if everybody := requests >= 1.5*float64(s.buyers); everybody && c.asked <= wrong*requests {
			break
		}
		if try == learningsMax {
			return fmt.Errorf("the node still asks the stock: %.0f of %.0f requests", c.asked, requests)
		}
	}
	for outcome, n := range c.outcomes {
		if outcome != sub.reason && n > wrong*requests {
			return fmt.Errorf("%.0f of %.0f requests ended as %s", n, requests, outcome)
		}
	}
	v := &sub.samples
	v.cost = append(v.cost, float64(used.total().Microseconds())/requests)
	v.user = append(v.user, float64(used.user.Microseconds())/requests)
	v.system = append(v.system, float64(used.system.Microseconds())/requests)
	v.rate = append(v.rate, requests/took.Seconds())
	v.asked = append(v.asked, 100*c.asked/requests)
	return nil
}

// load tells how many requests were answered, how, and what CPU time that took. Reading the server's counters is not in
// the latter.
func (sub *subject) load(ctx context.Context, script string, d time.Duration) (c counters, requests float64, used usage, err error) {
	var before counters
	if sub.shop != nil {
		if before, err = sub.shop.counters(); err != nil {
			return c, 0, used, err
		}
	}
	from, err := cpuOf(sub.pid)
	if err != nil {
		return c, 0, used, err
	}
	if requests, err = sub.wrk(ctx, script, d); err != nil {
		return c, 0, used, err
	}
	to, err := cpuOf(sub.pid)
	if err != nil || sub.shop == nil {
		return c, requests, to.minus(from), err
	}
	if c, err = sub.shop.counters(); err != nil {
		return c, 0, used, err
	}
	for outcome := range c.outcomes {
		c.outcomes[outcome] -= before.outcomes[outcome]
	}
	c.asked -= before.asked
	return c, requests, to.minus(from), nil
}

func showP1(s *settings, subjects []*subject) {
	fmt.Printf("P1: CPU time of the server per refusal with limits by address, buyer and device, 300 blocks and a list of buyers, median of %d rounds of %v each after one that does not count, nginx after each, `wrk -t1 -c%d`, %d buyers, nginx with one worker, the server with GOMAXPROCS=%d; goal: at most %.1f × nginx.\n\n", s.rounds, s.duration, clickers, s.buyers, s.processors, goalP1)
	fmt.Println("| who asks | answer | CPU µs | user | system | × nginx | lowest–highest | goal | × nginx when quiet | requests/s | asked the stock |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, sub := range subjects {
		v := &sub.samples
		ratio, verdict, quiet, asked := "1", "", "", ""
		if sub.base != nil {
			ratio = fmt.Sprintf("%.2f", median(v.ratio))
			verdict, asked = met(median(v.ratio) <= goalP1), fmt.Sprintf("%.2f %%", median(v.asked))
			quiet = fmt.Sprintf("%.2f", quarter(v.cost)/quarter(v.base))
		}
		fmt.Printf("| %s | %s | %.1f | %.1f | %.1f | %s | %s | %s | %s | %.0f | %s |\n", sub.auth, sub.name, median(v.cost), median(v.user),
			median(v.system), ratio, spread("%.2f", v.ratio), verdict, quiet, median(v.rate), asked)
	}
	fmt.Println()
}

// quarter is the value above which three quarters of the others are: whoever else is on the machine only ever adds to a cost, so
// that this one says more about the program than the median does.
func quarter(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/4]
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "**missed**"
}

func profileAll(ctx context.Context, s *settings, script string, subjects []*subject) error {
	for _, sub := range subjects {
		if _, err := sub.wrk(ctx, script, time.Second); err != nil {
			return err
		}
		file := filepath.Join(s.profiles, "p1-"+sub.auth+"-"+sub.reason+".pprof")
		done := make(chan error, 1)
		go func() { done <- sub.shop.profile(file, s.duration) }()
		_, err := sub.wrk(ctx, script, s.duration+time.Second)
		if profiled := <-done; err == nil {
			err = profiled
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var (
	requestsLine = regexp.MustCompile(`(\d+) requests in`)
	errorsLine   = regexp.MustCompile(`Socket errors: .*`)
)

// wrk returns how many requests were answered.
func (sub *subject) wrk(ctx context.Context, script string, d time.Duration) (float64, error) {
	out, err := exec.CommandContext(ctx, "wrk", "-t1", fmt.Sprintf("-c%d", clickers), fmt.Sprintf("-d%ds", max(1, int(d.Seconds()))), "-s", script, sub.url,
		"--", sub.buyers, sub.header).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk: %w: %s", err, out)
	}
	m := requestsLine.FindSubmatch(out)
	if e := errorsLine.Find(out); e != nil || m == nil {
		return 0, fmt.Errorf("wrk says: %s", out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

const nginxConf = `daemon off;
worker_processes 1;
pid WORK/nginx.pid;
error_log WORK/error.log crit;
events { worker_connections 10000; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path WORK/body;
  proxy_temp_path WORK/proxy;
  fastcgi_temp_path WORK/fastcgi;
  uwsgi_temp_path WORK/uwsgi;
  scgi_temp_path WORK/scgi;
  default_type application/problem+json;
  server {
    listen ADDRESS;
    location / { return 200 '{"type":"about:blank","status":410,"title":"Sold out","reason":"sold_out","msg":"Everything has been sold. Thank you for coming, and good luck."}'; }
  }
}
`

func startNginx(ctx context.Context, s *settings) (*process, string, error) {
	address, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	dir := filepath.Join(s.work, "nginx")
	conf := filepath.Join(dir, "nginx.conf")
	text := strings.NewReplacer("WORK", dir, "ADDRESS", address).Replace(nginxConf)
	if os.Getuid() == 0 {
		text = "user root;\n" + text
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	p, err := start(ctx, answers("http://"+address+"/"), "nginx", "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"))
	if err != nil {
		return nil, "", err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.pid, p.pid))
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
	}
	if err != nil {
		p.stop()
		return nil, "", fmt.Errorf("find nginx's worker: %w", err)
	}
	return p, address, nil
}
