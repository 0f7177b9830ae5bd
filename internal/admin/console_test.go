package admin

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
)

// stream opens the live stream, over a connection of its own.
func stream(t *testing.T, url, who string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/admin/v1/live", nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	as(who)(r)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	t.Cleanup(func() { must(t, answer.Body.Close()) })
	return answer
}

// A console hears each event as it comes, past the deadline of the listener; when the server
// ends, so does the stream, and nobody is counted any more.
func TestLiveIsSentAsItComes(t *testing.T) {
	n, f := newNeighbours(), &onceFeed{more: make(chan string)}
	s := n.server(t, func(o *Options) { o.Live = f })
	server := httptest.NewUnstartedServer(s)
	server.Config.ReadTimeout = 50 * time.Millisecond
	server.Config.RegisterOnShutdown(s.EndStreams)
	server.Start()
	defer server.Close()
	answer := stream(t, server.URL, "token")
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" || answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%d %v", answer.StatusCode, answer.Header)
	}
	lines := bufio.NewReader(answer.Body)
	expect := func(want string) {
		t.Helper()
		var got strings.Builder
		for got.Len() < len(want) {
			line, err := lines.ReadString('\n')
			must(t, err)
			got.WriteString(line)
		}
		if got.String() != want {
			t.Fatalf("got %q, want %q", got.String(), want)
		}
	}
	expect("retry: 2000\n\nid: 1\nevent: live\ndata: {\"node\":\"n1\"}\n\n")
	for range 3 {
		<-time.After(40 * time.Millisecond) // Longer than the listener reads, in all.
	}
	f.more <- `{"node":"n2"}`
	expect("id: 2\nevent: live\ndata: {\"node\":\"n2\"}\n\n")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must(t, server.Config.Shutdown(ctx))
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
	if got := f.watched(); got != 0 {
		t.Errorf("%d watch for ever", got)
	}
	if w := ask(s, "HEAD", "/admin/v1/live", "", nil); w.Code != 200 || w.Body.Len() > 0 {
		t.Errorf("HEAD: %d %s", w.Code, w.Body)
	}
	f.full = true
	if reason, _ := problemOf(t, ask(s, "GET", "/admin/v1/live", "", nil)); reason != "busy" {
		t.Errorf("one too many: %s", reason)
	}
}

// A stream ends soon after its session does.
func TestLiveEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, f := newNeighbours(), &onceFeed{more: make(chan string)}
		p := newPeople(n)
		s := n.server(t, func(o *Options) { o.Live, o.Accounts = f, p })
		p.logIn(t, "viewer")
		var w *httptest.ResponseRecorder
		ended := make(chan struct{})
		go func() { w = ask(s, "GET", "/admin/v1/live", "", as("viewer")); close(ended) }()
		for range 10 {
			<-time.After(time.Second)
			f.more <- "still here"
		}
		p.mu.Lock()
		delete(p.sessions, "s-viewer")
		p.mu.Unlock()
		for sent := 0; ; sent++ {
			<-time.After(time.Second)
			select {
			case <-ended:
				if sent > 6 || strings.Count(w.Body.String(), "still here") < 9 {
					t.Errorf("after %d s: %s", sent, w.Body)
				}
				return
			case f.more <- "not for you":
			}
			if sent > 20 {
				t.Fatal("it goes on")
			}
		}
	})
}

// Nodes are told as they last said of themselves, with the clock that this is by.
func TestNodes(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	got := strings.TrimSpace(ask(s, "GET", "/admin/v1/nodes", "", nil).Body.String())
	if want := `{"nodes":[{"id":"n1","address":"","roles":["gateway"],"version":"","started_at":"0001-01-01T00:00:00Z","seen_at":"1970-01-01T00:00:05Z",` +
		`"ready":false,"reason":"","stock":"","queue":"","database":""},{"id":"n2",`; !strings.HasPrefix(got, want) || !strings.Contains(got, `"roles":[]`) || !strings.HasSuffix(got, `"server_time":"1970-01-01T00:00:06Z"}`) {
		t.Errorf("got %s", got)
	}
	n.err = errSecret
	if reason, _ := problemOf(t, ask(s, "GET", "/admin/v1/nodes", "", nil)); reason != "busy" {
		t.Errorf("without the database: %s", reason)
	}
}

// A buyer's orders are paged to their end; whose they are has to be said.
func TestOrdersOfABuyer(t *testing.T) {
	s := newNeighbours().server(t, nil)
	get := func(query string) *httptest.ResponseRecorder { return ask(s, "GET", "/admin/v1/orders"+query, "", nil) }
	first := get("?buyer=buyer-7&limit=2").Body.String()
	if !strings.HasPrefix(first, `{"orders":[{"id":"3",`) || !strings.Contains(first, `"buyer":"buyer-7"`) || !strings.HasSuffix(first, `],"cursor":"2"}`+"\n") {
		t.Errorf("first page: %s", first)
	}
	if last := get("?buyer=buyer-7&limit=2&cursor=2").Body.String(); strings.Count(last, `"id"`) != 1 || strings.Contains(last, "cursor") {
		t.Errorf("last page: %s", last)
	}
	if none := get("?buyer=eve").Body.String(); none != `{"orders":[]}`+"\n" {
		t.Errorf("nobody's: %s", none)
	}
	for query, want := range map[string]string{
		"": "buyer:required", "?buyer=": "buyer:required", "?buyer=a&buyer=b": "buyer:repeated", "?buyer=%00": "buyer:format", "?buyer=" + strings.Repeat("a", 5000): "buyer:format",
		"?buyer=a&limit=0": "limit:min", "?buyer=a&cursor=x": "cursor:type",
	} {
		field, rule, _ := strings.Cut(want, ":")
		if _, fields := problemOf(t, get(query)); fields[field] != rule || len(fields) != 1 {
			t.Errorf("%.40s: %v, want %s", query, fields, want)
		}
	}
}

// The plan is what the command says, and what cannot be is named by its parameter.
func TestPlan(t *testing.T) {
	s := newNeighbours().server(t, nil)
	get := func(query string) *httptest.ResponseRecorder { return ask(s, "GET", "/admin/v1/plan?"+query, "", nil) }
	const want = `{"total_requests":500000,"mean_qps":8333,"peak_qps":83333,"provision_qps":125000,"nodes":13}` + "\n"
	for _, query := range []string{"participants=100000", "participants=100000&clicks=5&duration=60s&peak_factor=10&headroom=0.5&node_qps=10000"} {
		if got := get(query).Body.String(); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"": "participants:required", "participants=0": "participants:format", "participants=x": "participants:type", "participants=1.5": "participants:type", "participants=1&participants=2": "participants:repeated",
		"participants=1&clicks=0": "clicks:format", "participants=1&clicks=1e3": "clicks:format", "participants=1&duration=60": "duration:format", "participants=1&duration=0s": "duration:format",
		"participants=1&peak_factor=0.5": "peak_factor:format", "participants=1&headroom=-1": "headroom:format", "participants=1&node_qps=0": "node_qps:format", "participants=1&node_qps=99999999999999999999": "node_qps:type",
	} {
		field, rule, _ := strings.Cut(want, ":")
		if w := get(query); w.Code != 400 {
			t.Errorf("%s: %d", query, w.Code)
		} else if _, fields := problemOf(t, w); fields[field] != rule || len(fields) != 1 {
			t.Errorf("%s: %v, want %s", query, fields, want)
		}
	}
}

// The console and what it loads need no session; on a node that is none they are not there. It does
// not stand before the API.
func TestTheConsoleIsMounted(t *testing.T) {
	mounted := func(o *Options) {
		o.Console = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", "its own")
			_, _ = io.WriteString(w, "console of "+r.URL.Path)
		})
	}
	s := newNeighbours().server(t, mounted)
	for _, path := range []string{"/", "/assets/x.js", "/favicon.svg"} {
		w := ask(s, "GET", path, "", as("nobody"))
		if w.Code != 200 || w.Body.String() != "console of "+path || w.Header().Get("Content-Security-Policy") != "its own" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %s %v", path, w.Code, w.Body, w.Header())
		}
	}
	for path, want := range map[string]int{"/admin/v1/nothing": 401, "/admin/": 401, "/admin/v1/accounts": 401, "/debug/pprof/": 401, "/healthz": 200} {
		if w := ask(s, "GET", path, "", as("nobody")); w.Code != want || strings.Contains(w.Body.String(), "console of") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	none := newNeighbours().server(t, func(o *Options) { mounted(o); o.HealthOnly = true })
	for _, path := range []string{"/", "/assets/x.js", "/admin/v1/session", "/admin/v1/accounts", "/admin/v1/live"} {
		if w := ask(none, "GET", path, "", nil); w.Code != 404 {
			t.Errorf("%s of a node that is no console: %d", path, w.Code)
		}
	}
}

// Whatever is answered, it is not kept, not framed and not taken for something else.
func TestEveryAnswerHasItsHeaders(t *testing.T) {
	s, _ := everything(t, newNeighbours())
	paths := []string{"GET /nothing", "PATCH /admin/v1/audit", "GET /admin/v1/nothing"}
	for _, u := range rules {
		method, path := u.at()
		paths = append(paths, method+" "+path)
	}
	for _, path := range paths {
		method, path, _ := strings.Cut(path, " ")
		for _, who := range []string{"token", "nobody"} {
			h := ask(s, method, path, "", as(who)).Header()
			if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" ||
				!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("X-Frame-Options") != "DENY" {
				t.Errorf("%s %s by %s: %v", method, path, who, h)
			}
		}
	}
}

// An account is shown as it is, and what is wrong with a change is named.
func TestAccounts(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	if got, want := ask(s, "GET", "/admin/v1/accounts", "", nil).Body.String(), `{"accounts":[{"name":"ann","role":"viewer","disabled":true,"created_at":"0001-01-01T00:00:00Z","changed_at":"0001-01-01T00:00:00Z"}]}`+"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w := ask(s, "POST", "/admin/v1/accounts", `{"name":"zoe","password":"twelve chars","role":"operator","reason":"new here"}`, nil)
	if w.Code != 201 || w.Header().Get("Location") != "/admin/v1/accounts/zoe" || strings.Contains(w.Body.String(), "twelve") {
		t.Errorf("made: %d %v %s", w.Code, w.Header(), w.Body)
	}
	for body, want := range map[string]string{
		`{"role":"admin"}`: "change ann false true false", `{"password":"twelve chars"}`: "change ann true false false", `{"disabled":false}`: "change ann false false true",
	} {
		n.called()
		if w := ask(s, "PUT", "/admin/v1/accounts/ann", body, nil); w.Code != 200 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
		if got := n.called(); len(got) != 1 || !strings.HasPrefix(got[0], want+" by "+seckill.TokenName) {
			t.Errorf("%s: %q, want %s", body, got, want)
		}
	}
	for _, body := range []string{"{}", `{"reason":"x"}`, `{"role":null}`} {
		if _, fields := problemOf(t, ask(s, "PUT", "/admin/v1/accounts/ann", body, nil)); fields["role"] != "format" {
			t.Errorf("%s: %v", body, fields)
		}
	}
	for method, body := range map[string]string{"PUT": `{"disabled":true}`, "DELETE": ""} {
		if w := ask(s, method, "/admin/v1/accounts/eve", body, nil); w.Code != 404 {
			t.Errorf("%s of nobody: %d %s", method, w.Code, w.Body)
		}
	}
}
