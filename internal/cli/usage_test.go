package cli_test

import (
	"encoding/json"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The help of each command is as it was read last; -update accepts a change.
func TestHelpIsGolden(t *testing.T) {
	for _, name := range []string{
		"", "demo", "serve", "migrate", "activity", "activity create", "activity restock", "activity rerun", "activity list", "activity audience",
		"switch", "switch list", "switch set", "switch cancel", "block", "block list", "block add", "block remove",
		"account", "account list", "account add", "account password", "account remove", "reconcile", "dead", "dead drop", "bench", "plan", "version",
	} {
		args := append([]string{"help"}, strings.Fields(name)...)
		got := seckill(t, nil, args...)
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%q: got %+v", args, got)
		}
		for _, other := range [][]string{append(strings.Fields(name), "--help"), append(strings.Fields(name), "-h")} {
			if same := seckill(t, nil, other...); same.stdout != got.stdout || same.status != 0 {
				t.Errorf("%q differs from %q", other, args)
			}
		}
		golden(t, "help"+strings.ReplaceAll(" "+name, " ", "_")+".txt", got.stdout)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n(go test ./internal/cli -update accepts it)", name, got, want)
	}
}

// Whatever is wrong with a command line is one line on stderr that names it and says what
// is accepted, with status 2; nothing is on stdout, and no secret anywhere.
func TestWrongCommandLines(t *testing.T) {
	const secret = "s3cret"
	for _, c := range []struct{ line, names string }{
		{"nonsense", "seckill nonsense"}, {"activity nonsense", "seckill activity nonsense"}, {"dead nonsense", "seckill dead nonsense"},
		{"--nonsense", "--nonsense"}, {"version --nonsense", "--nonsense"}, {"version -x", "-x"}, {"version now", "the arguments"},
		{"plan", "--participants"}, {"plan --participants", "--participants"}, {"plan --participants many", "--participants"}, {"plan --participants -1", "--participants"},
		{"plan --participants 1 --clicks 1/2", "--clicks"}, {"plan --participants 1 --clicks 0", "--clicks"}, {"plan --participants 1 --duration 0s", "--duration"},
		{"plan --participants 1 --duration soon", "--duration"}, {"plan --participants 1 --peak-factor 0.5", "--peak-factor"}, {"plan --participants 1 --peak-factor x", "--peak-factor"},
		{"plan --participants 1 --headroom -1", "--headroom"}, {"plan --participants 1 --node-qps 0", "--node-qps"}, {"plan --participants 1 --node-qps 1.5", "--node-qps"},
		{"plan --participants 1000000000000 --clicks 1000000 --duration 1ms --peak-factor 1000000", "--participants"},
		{"activity show", "ID"}, {"activity show x", "ID"}, {"activity show 0", "ID"}, {"activity show 1 2", "the arguments"}, {"activity pause -1", "-1"},
		{"activity list", "--admin-token"}, {"activity list --admin-token @/no/such/" + secret, "--admin-token"}, {"activity list --server " + secret + " --admin-token x", "--server"},
		{"activity list --server http://u:" + secret + "@h --admin-token x", "--server"}, {"activity list --admin-tokn " + secret, "--admin-tokn"},
		{"activity create", "--starts-at"}, {"activity create --starts-at soon", "--starts-at"}, {"activity create --starts-at now", "--ends-at"},
		{"activity create --starts-at now --ends-at later", "--ends-at"}, {"activity create --starts-at now --ends-at +1h --for 1h", "--for"},
		{"activity create --starts-at now --for 1h", "--name"}, {"activity create --starts-at now --for 1h --name x", "--stock"}, {"activity create --starts-at now --for 1h --name x --stock 1.5", "--stock"},
		{"activity create --starts-at now --for 1h --name x --stock 1 --preload-before 1500ms", "--preload-before"},
		{"activity restock 1", "--quantity"}, {"activity rerun 1 --starts-at now --for 1h", "--stock"}, {"activity rerun 1", "--starts-at"},
		{"reconcile x", "ID"}, {"reconcile 1 2", "the arguments"}, {"dead retry", "ID"}, {"dead drop 1", "--return-stock"}, {"dead drop 1 --return-stock --write-off", "--return-stock"},
		{"switch nonsense", "seckill switch nonsense"}, {"switch set", "NAME"}, {"switch set intake", "VALUE"}, {"switch set nothing on --reason x", "NAME"}, {"switch set intake 1 --reason x", "VALUE"},
		{"switch set admission_percent on --reason x", "VALUE"}, {"switch set admission_percent 101 --reason x", "VALUE"}, {"switch set intake on", "--reason"},
		{"switch set intake on --reason x --at soon", "--at"}, {"switch cancel intake", "ID"}, {"switch cancel intake x", "ID"}, {"switch cancel nothing 1", "NAME"}, {"switch list now", "the arguments"},
		{"block nonsense", "seckill block nonsense"}, {"block add", "KIND"}, {"block add ip", "VALUE"}, {"block add host x --reason x", "KIND"}, {"block add ip 192.0.2.7", "--reason"},
		{"block add ip 192.0.2.7 --reason x --for 0s", "--for"}, {"block add ip 192.0.2.7 --reason x --for 1h --until +1h", "--for"}, {"block add ip 192.0.2.7 --reason x --until soon", "--until"},
		{"block remove", "ID"}, {"block remove x", "ID"}, {"activity audience", "ID"}, {"activity audience x", "ID"}, {"activity audience 1 /no/such", "FILE"}, {"activity audience 1 2 3", "the arguments"},
		{"bench --ids sequential", "--ids"}, {"bench --rate -1", "--rate"}, {"bench --rate 1e9", "--rate"}, {"bench --rate x", "--rate"}, {"bench --concurrency 99999", "--concurrency"},
		{"bench --buyers -1", "--buyers"}, {"bench --clicks 0 --server h", "--server"}, {"bench --clicks 1001", "--clicks"}, {"bench --duration -1s", "--duration"}, {"bench --duration 25h", "--duration"}, {"bench --timeout 0s", "--timeout"},
		{"bench --auth " + secret, "--auth"}, {"bench --auth jwt:jwks:http://h/k", "--auth"}, {"bench --activity -1", "--activity"}, {"bench --server-admin h --admin-token x", "--server-admin"},
		{"demo --starts-in -1s", "--starts-in"}, {"demo --stock 0", "--stock"}, {"demo --buyers -1", "--buyers"}, {"demo --buyers 1000001", "--buyers"}, {"demo --clicks 0", "--clicks"},
		{"demo --exit", "--exit"}, {"demo --listen nonsense", "--listen"}, {"demo --admin-listen :x", "--admin-listen"}, {"demo now", "the arguments"},
		{"serve --auth open", "--admin-token"}, {"serve --admin-token x", "--auth"}, {"serve --auth open --admin-token x --stock memcached://u:" + secret + "@h:1", "--stock"},
		{"migrate --database " + secret, "--database"}, {"migrate --listen :1", "--listen"},
	} {
		r := seckill(t, nil, strings.Fields(c.line)...)
		if r.status != 2 || r.stdout != "" {
			t.Errorf("%q: got status %d and %q on stdout, want 2 and nothing", c.line, r.status, r.stdout)
		}
		if !strings.HasPrefix(r.stderr, "seckill: "+c.names) || !strings.Contains(r.stderr, "; accepted: ") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q: got %q, want one line that begins with %q and says what is accepted", c.line, r.stderr, c.names)
		}
		if strings.Contains(r.stderr, secret) {
			t.Errorf("%q: the secret is in %q", c.line, r.stderr)
		}
	}
}

// A wrong variable is named as the variable.
func TestWrongVariables(t *testing.T) {
	for variable, args := range map[string][]string{
		"SECKILL_SERVER=nonsense":       {"activity", "list", "--admin-token", "x"},
		"SECKILL_ADMIN_TOKEN=@/no/such": {"activity", "list"},
		"SECKILL_LISTEN=nonsense":       {"serve", "--auth=open", "--admin-token=x"},
		"SECKILL_LIMIT_USERS=5/s:5":     {"serve", "--auth=open", "--admin-token=x"},
	} {
		name, _, _ := strings.Cut(variable, "=")
		r := seckill(t, []string{variable}, args...)
		if r.status != 2 || !strings.HasPrefix(r.stderr, "seckill: "+name+": ") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: got %+v", variable, r)
		}
	}
}

// A server that is not there is a failure, not a mistake of the command line.
func TestNoServer(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	l.Close()
	for _, args := range [][]string{
		{"activity", "create", "--server", address, "--admin-token", "x", "--name", "n", "--stock", "1", "--starts-at", "now", "--for", "1h"},
		{"bench", "--server", address, "--activity", "1"}, {"bench", "--server", address},
	} {
		if r := seckill(t, nil, args...); r.status != 1 || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q: got %+v, want status 1 and a line", args, r)
		}
	}
}

// A taken port of one's own choice is a failure; the default gives way.
func TestTakenPort(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := seckill(t, nil, "demo", "--listen", l.Addr().String(), "--admin-listen=127.0.0.1:0")
	if r.status != 1 || !strings.Contains(r.stderr, "address already in use") {
		t.Errorf("got %+v", r)
	}
}

func TestVersion(t *testing.T) {
	if r := seckill(t, nil, "version"); r.status != 0 || !strings.HasPrefix(r.stdout, "seckill ") || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("got %+v", r)
	}
	r := seckill(t, nil, "version", "--json")
	var b map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &b); err != nil || b["version"] == "" || b["go"] == nil {
		t.Errorf("got %+v and %v", r, err)
	}
}

// The plan of the contract, for a script and for people.
func TestPlan(t *testing.T) {
	r := seckill(t, nil, "plan", "--participants", "100000", "--clicks", "5", "--duration", "60s", "--json")
	if want := `{"total_requests":500000,"mean_qps":8333,"peak_qps":83333,"provision_qps":125000,"nodes":13}` + "\n"; r.stdout != want || r.status != 0 {
		t.Errorf("got %+v, want %s", r, want)
	}
	if r := seckill(t, nil, "plan", "--participants", "100000"); r.status != 0 || !strings.Contains(r.stdout, "125,000") {
		t.Errorf("got %+v", r)
	}
}

// The reports of a run are files, or go to standard output and nothing else does.
func TestBenchReports(t *testing.T) {
	s := start(t)
	seckill(t, s.environ, "activity", "create", "--name", "x", "--stock", "2", "--starts-at", "now", "--for", "1h")
	page := filepath.Join(t.TempDir(), "r.html")
	r := seckill(t, nil, "bench", "--server", s.public, "--buyers", "5", "--ids", "scattered", "--rate", "500", "--json", "-", "--html", page)
	var report struct {
		Requests int
		Outcomes map[string]int
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || r.status != 0 || report.Requests != 5 || report.Outcomes["accepted"] != 2 {
		t.Errorf("got %+v and %v", r, err)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("got %v, want a page with charts", err)
	}
	if r := seckill(t, nil, "bench", "--server", s.public, "--buyers", "1", "--json", "/no/such/folder/r.json"); r.status != 1 || !strings.Contains(r.stderr, "write the report") {
		t.Errorf("got %+v", r)
	}
}
