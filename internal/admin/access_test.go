package admin

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"seckill"
)

// rule says of one route, in the test's own words, who may and what comes of it.
type rule struct {
	pattern, path, body string
	role                string // The least; "" is everyone.
	status              int    // For those who may.
	changes             bool   // Whether it is carried out under the caller's name.
}

const aRun = `{"starts_at":"2030-01-01T00:00:00Z","ends_at":"2030-01-02T00:00:00Z","stock":7`

// rules are all there are, for a server that has everything.
var rules = []rule{
	{"GET /{$}", "/", "", "", 200, false},
	{"GET /healthz", "/healthz", "", "", 200, false},
	{"GET /readyz", "/readyz", "", "", 200, false},
	{"GET /metrics", "/metrics", "", "", 200, false},
	{"GET /debug/pprof/", "/debug/pprof/", "", "admin", 200, false},

	{"GET /admin/v1/session", "", "", "viewer", 200, false},
	{"GET /admin/v1/activities", "", "", "viewer", 200, false},
	{"GET /admin/v1/activities/{id}", "/admin/v1/activities/1", "", "viewer", 200, false},
	{"GET /admin/v1/activities/{id}/audience", "/admin/v1/activities/1/audience", "", "viewer", 200, false},
	{"GET /admin/v1/switches", "", "", "viewer", 200, false},
	{"GET /admin/v1/blocks", "", "", "viewer", 200, false},
	{"GET /admin/v1/dead-letters", "", "", "viewer", 200, false},
	{"GET /admin/v1/orders", "/admin/v1/orders?buyer=buyer-7", "", "viewer", 200, false},
	{"GET /admin/v1/audit", "", "", "viewer", 200, false},
	{"GET /admin/v1/live", "", "", "viewer", 200, false},
	{"GET /admin/v1/nodes", "", "", "viewer", 200, false},
	{"GET /admin/v1/plan", "/admin/v1/plan?participants=1", "", "viewer", 200, false},
	{"GET /admin/v1/webhooks", "", "", "viewer", 200, false},
	{"GET /admin/v1/webhooks/{id}/deliveries", "/admin/v1/webhooks/7/deliveries", "", "viewer", 200, false},
	{"POST /admin/v1/activities/{id}/reconcile", "/admin/v1/activities/1/reconcile", "", "viewer", 200, true},
	{"POST /admin/v1/activities/{id}/reconcile", "/admin/v1/activities/1/reconcile", `{"repair":true}`, "operator", 200, true},

	{"POST /admin/v1/activities", "", aRun + `,"name":"x"}`, "operator", 201, true},
	{"POST /admin/v1/activities/{id}/preload", "/admin/v1/activities/1/preload", "", "operator", 200, true},
	{"POST /admin/v1/activities/{id}/pause", "/admin/v1/activities/1/pause", "", "operator", 200, true},
	{"POST /admin/v1/activities/{id}/resume", "/admin/v1/activities/1/resume", "", "operator", 200, true},
	{"POST /admin/v1/activities/{id}/close", "/admin/v1/activities/1/close", "", "operator", 200, true},
	{"POST /admin/v1/activities/{id}/restock", "/admin/v1/activities/1/restock", `{"quantity":1}`, "operator", 200, true},
	{"POST /admin/v1/activities/{id}/rerun", "/admin/v1/activities/1/rerun", aRun + "}", "operator", 200, true},
	{"PUT /admin/v1/activities/{id}/audience", "/admin/v1/activities/1/audience", `["a"]`, "operator", 200, true},
	{"PUT /admin/v1/switches/{name}", "/admin/v1/switches/intake", `{"value":true,"reason":"r"}`, "operator", 200, true},
	{"DELETE /admin/v1/switches/{name}/scheduled/{id}", "/admin/v1/switches/intake/scheduled/7", "", "operator", 204, true},
	{"POST /admin/v1/blocks", "", `{"kind":"user","value":"eve","reason":"r"}`, "operator", 201, true},
	{"DELETE /admin/v1/blocks/{id}", "/admin/v1/blocks/7", "", "operator", 204, true},
	{"POST /admin/v1/dead-letters/{id}/retry", "/admin/v1/dead-letters/1/retry", "", "operator", 200, true},
	{"POST /admin/v1/dead-letters/{id}/drop", "/admin/v1/dead-letters/1/drop", `{"return_stock":true}`, "operator", 200, true},
	{"POST /admin/v1/orders/{id}/paid", "/admin/v1/orders/1/paid", `{"payment_ref":"r"}`, "operator", 200, true},
	{"POST /admin/v1/webhooks/{id}/test", "/admin/v1/webhooks/7/test", "", "operator", 200, true},
	{"POST /admin/v1/webhooks/{id}/enable", "/admin/v1/webhooks/7/enable", "", "operator", 200, true},
	{"POST /admin/v1/webhooks/{id}/deliveries/{delivery}/retry", "/admin/v1/webhooks/7/deliveries/1152921504606846976/retry", "", "operator", 200, true},

	{"POST /admin/v1/webhooks", "", `{"url":"https://shop.example/","events":["order.paid"]}`, "admin", 201, true},
	{"DELETE /admin/v1/webhooks/{id}", "/admin/v1/webhooks/7", "", "admin", 204, true},
	{"POST /admin/v1/webhooks/{id}/rotate", "/admin/v1/webhooks/7/rotate", "", "admin", 200, true},
	{"GET /admin/v1/accounts", "", "", "admin", 200, false},
	{"POST /admin/v1/accounts", "", `{"name":"zoe","password":"twelve chars","role":"viewer"}`, "admin", 201, true},
	{"PUT /admin/v1/accounts/{name}", "/admin/v1/accounts/ann", `{"disabled":true}`, "admin", 200, true},
	{"DELETE /admin/v1/accounts/{name}", "/admin/v1/accounts/ann", "", "admin", 204, true},

	// Last: it ends the session.
	{"POST /admin/v1/session", "", `{"name":"admin","password":"` + rightPassword + `"}`, "", 200, false},
	{"DELETE /admin/v1/session", "", "", "viewer", 204, true},
}

// at is the method and the address of a rule's request.
func (u *rule) at() (method, path string) {
	method, path, _ = strings.Cut(u.pattern, " ")
	if u.path != "" {
		path = u.path
	}
	return method, path
}

// as makes a request that of somebody.
func as(name string) func(*http.Request) {
	return func(r *http.Request) {
		switch name {
		case "token":
			return
		case "nobody":
			r.Header.Del("Authorization")
			return
		}
		r.Header.Del("Authorization")
		r.AddCookie(&http.Cookie{Name: cookieName, Value: "s-" + name})
		r.Header.Set("X-CSRF-Token", "csrf-of-"+name)
	}
}

func everything(t *testing.T, n *neighbours) (*Server, *people) {
	t.Helper()
	p := newPeople(n)
	s := n.server(t, func(o *Options) { o.Webhooks, o.Accounts = hooked{n}, p })
	return s, p
}

func (p *people) logIn(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, _, err := p.Login(t.Context(), name, rightPassword, "192.0.2.1")
		must(t, err)
	}
	p.n.called()
}

// Of each route, each of nobody, viewer, operator, admin and the token may exactly what he should: he is answered with
// its status, and it is done under his name; or else he is refused, and nothing is done.
func TestEachMayExactlyWhatHeShould(t *testing.T) {
	n := newNeighbours()
	s, p := everything(t, n)
	rank := map[string]int{"": 0, "nobody": 0, "viewer": 1, "operator": 2, "admin": 3, "token": 3}
	for _, u := range rules {
		method, path := u.at()
		for _, who := range []string{"nobody", "viewer", "operator", "admin", "token"} {
			p.logIn(t, "viewer", "operator", "admin")
			w := ask(s, method, path, u.body, as(who))
			want := u.status
			switch {
			case rank[who] >= rank[u.role]:
			case who == "nobody":
				want = 401
			default:
				want = 403
			}
			if w.Code != want {
				t.Errorf("%s by %s: got %d %s, want %d", u.pattern, who, w.Code, w.Body, want)
			}
			done := n.called()
			name := who
			if who == "token" {
				name = "admin-token"
			}
			switch {
			case want >= 400 && len(done) > 0:
				t.Errorf("%s by %s: refused, but did %q", u.pattern, who, done)
			case want < 400 && u.changes && !(u.pattern == "DELETE /admin/v1/session" && who == "token") &&
				(len(done) != 1 || !strings.Contains(done[0], " by "+name+" from 192.0.2.1: ")):
				t.Errorf("%s by %s: did %q", u.pattern, who, done)
			}
			if want == 403 {
				if reason, _ := problemOf(t, w); reason != "forbidden" || !strings.Contains(w.Body.String(), u.role) {
					t.Errorf("%s by %s: %s", u.pattern, who, w.Body)
				}
			}
			s.tries = newTries()
		}
	}
}

// The table of the test, that of the program and the routes themselves are about the same things.
func TestEachRouteHasItsRule(t *testing.T) {
	s, _ := everything(t, newNeighbours())
	routes := map[string]bool{}
	for _, r := range s.routes() {
		routes[r.pattern] = true
	}
	tested := map[string]bool{}
	for _, u := range rules {
		tested[u.pattern] = true
	}
	table := map[string]bool{}
	for pattern := range access() {
		table[pattern] = true
	}
	if !maps.Equal(routes, tested) || !maps.Equal(routes, table) {
		for _, pattern := range slices.Sorted(maps.Keys(routes)) {
			if !tested[pattern] || !table[pattern] {
				t.Errorf("%s: tested %v, in the table %v", pattern, tested[pattern], table[pattern])
			}
		}
		t.Errorf("%d routes, %d tested, %d in the table", len(routes), len(tested), len(table))
	}
	if got := s.takes("GET /admin/v1/new"); got != seckill.RoleAdmin {
		t.Errorf("a route that was forgotten takes %q, want admin", got)
	}
	closed := newNeighbours().server(t, func(o *Options) { o.MetricsAuth = true })
	if got := closed.takes("GET /metrics"); got != seckill.RoleViewer {
		t.Errorf("metrics that are not open take %q, want viewer", got)
	}
	without := newNeighbours().server(t, func(o *Options) { o.Accounts, o.Live, o.Nodes = nil, nil, nil })
	for _, path := range []string{"session", "accounts", "live", "nodes"} {
		if w := ask(without, "GET", "/admin/v1/"+path, "", nil); w.Code != 404 {
			t.Errorf("%s, which is not there: %d", path, w.Code)
		}
		if w := ask(without, "GET", "/admin/v1/"+path, "", as("admin")); w.Code != 401 {
			t.Errorf("%s, with a session where there are none: %d", path, w.Code)
		}
	}
}

// A page of somebody else's cannot make a browser change anything, whatever it knows but the secret
// of the session; nor can it make one log in.
func TestForeignPagesChangeNothing(t *testing.T) {
	n := newNeighbours()
	s, p := everything(t, n)
	p.logIn(t, "admin")
	for name, change := range map[string]func(*http.Request){
		"no header":                func(r *http.Request) { r.Header.Del("X-CSRF-Token") },
		"an empty one":             func(r *http.Request) { r.Header.Set("X-CSRF-Token", "") },
		"a wrong one":              func(r *http.Request) { r.Header.Set("X-CSRF-Token", "csrf-of-viewer") },
		"the id itself":            func(r *http.Request) { r.Header.Set("X-CSRF-Token", "s-admin") },
		"two":                      func(r *http.Request) { r.Header.Add("X-CSRF-Token", "csrf-of-admin") },
		"another origin":           func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"another site":             func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a sibling":                func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an origin that is hidden": func(r *http.Request) { r.Header.Set("Origin", "null") },
	} {
		for _, u := range rules {
			method, path := u.at()
			if method == "GET" || u.role == "" {
				continue
			}
			w := ask(s, method, path, u.body, func(r *http.Request) { as("admin")(r); change(r) })
			if reason, _ := problemOf(t, w); w.Code != 403 || reason != "forbidden" {
				t.Errorf("%s with %s: %d %s", u.pattern, name, w.Code, w.Body)
			}
		}
	}
	for _, header := range []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Origin: null"} {
		name, value, _ := strings.Cut(header, ": ")
		w := ask(s, "POST", "/admin/v1/session", `{"token":"`+token+`"}`, func(r *http.Request) {
			as("nobody")(r)
			r.Header.Set(name, value)
		})
		if w.Code != 403 || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("a login with %s: %d %v", header, w.Code, w.Header())
		}
	}
	if done := n.called(); len(done) > 0 {
		t.Errorf("done all the same: %q", done)
	}
	own := func(r *http.Request) {
		as("admin")(r)
		r.Header.Set("Origin", "http://example.com")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if w := ask(s, "POST", "/admin/v1/activities/1/pause", "", own); w.Code != 200 {
		t.Errorf("the console's own page: %d %s", w.Code, w.Body)
	}
	// Whoever sends the token is no browser that was led astray.
	if w := ask(s, "POST", "/admin/v1/activities/1/pause", "", func(r *http.Request) { r.Header.Set("Origin", "https://tool.example") }); w.Code != 200 {
		t.Errorf("the token, from another origin: %d", w.Code)
	}
	zh := ask(s, "DELETE", "/admin/v1/blocks/7", "", func(r *http.Request) {
		as("admin")(r)
		r.Header.Del("X-CSRF-Token")
		r.Header.Set("Accept-Language", "zh-CN")
	})
	if !strings.Contains(zh.Body.String(), "刷新") || zh.Header().Get("Content-Language") != "zh" {
		t.Errorf("in Chinese: %s", zh.Body)
	}
}

// A login gives a cookie that no script can read and no other site is sent, and what a page needs to know; it is taken
// back by a logout. Over TLS, also in front of us, no part of it goes without.
func TestSessions(t *testing.T) {
	n := newNeighbours()
	s, _ := everything(t, n)
	for _, c := range []struct {
		body, name, role string
		proto            string
	}{
		{`{"token":"` + token + `"}`, "admin-token", "admin", ""},
		{`{"name":"operator","password":"` + rightPassword + `"}`, "operator", "operator", "https"},
	} {
		secure := func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", c.proto) }
		w := ask(s, "POST", "/admin/v1/session", c.body, func(r *http.Request) { as("nobody")(r); secure(r) })
		if got, want := strings.TrimSpace(w.Body.String()), `{"name":"`+c.name+`","role":"`+c.role+`","csrf":"csrf-of-`+c.name+`"}`; w.Code != 200 || got != want {
			t.Fatalf("%s: %d %s, want %s", c.body, w.Code, got, want)
		}
		cookies := w.Result().Cookies()
		if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != "/" || cookies[0].Domain != "" ||
			cookies[0].Secure != (c.proto == "https") || strings.HasPrefix(cookies[0].Name, "__Host-") != cookies[0].Secure {
			t.Fatalf("cookie: %v", w.Header().Values("Set-Cookie"))
		}
		shows := func(r *http.Request) { as("nobody")(r); secure(r); r.AddCookie(cookies[0]) }
		if again := ask(s, "GET", "/admin/v1/session", "", shows); again.Code != 200 || again.Body.String() != w.Body.String() {
			t.Errorf("asked again: %d %s", again.Code, again.Body)
		}
		out := ask(s, "DELETE", "/admin/v1/session", "", func(r *http.Request) { shows(r); r.Header.Set("X-CSRF-Token", "csrf-of-"+c.name) })
		if out.Code != 204 || !strings.Contains(out.Header().Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("logout: %d %v", out.Code, out.Header())
		}
		if after := ask(s, "GET", "/admin/v1/session", "", shows); after.Code != 401 {
			t.Errorf("after the logout: %d", after.Code)
		}
	}
	if got, want := n.called(), []string{
		"login by admin-token from 192.0.2.1: ", "logout by admin-token from 192.0.2.1: ", "login by operator from 192.0.2.1: ", "logout by operator from 192.0.2.1: ",
	}; !slices.Equal(got, want) {
		t.Errorf("noted %q, want %q", got, want)
	}
	if w := ask(s, "GET", "/admin/v1/session", "", nil); !strings.Contains(w.Body.String(), `"name":"admin-token","role":"admin"`) {
		t.Errorf("with the token: %s", w.Body)
	}
	for body, want := range map[string]string{
		"{}": "token", `{"token":""}`: "token", `{"token":null}`: "token", `{"name":"x"}`: "password", `{"password":"x"}`: "name", `{"name":"","password":""}`: "name password",
		`{"token":"x","name":"y","password":"z"}`: "token", `{"token":1}`: "token", `{"name":"x","password":"y","x":1}`: "x", "[]": "body", "": "body",
	} {
		w := ask(s, "POST", "/admin/v1/session", body, as("nobody"))
		_, fields := problemOf(t, w)
		if got := strings.Join(slices.Sorted(maps.Keys(fields)), " "); w.Code != 400 || got != want {
			t.Errorf("%s: %d %v, want %s", body, w.Code, fields, want)
		}
	}
	if done := n.called(); len(done) > 0 {
		t.Errorf("tried all the same: %q", done)
	}
}

// Whoever guesses, at names or at the token, is slowed down by his address, also when he guesses right.
func TestLoginsAreSlowed(t *testing.T) {
	n := newNeighbours()
	s, _ := everything(t, n)
	login := func(body, from string) *httptest.ResponseRecorder {
		return ask(s, "POST", "/admin/v1/session", body, func(r *http.Request) { as("nobody")(r); r.RemoteAddr = from })
	}
	right := `{"token":"` + token + `"}`
	for range 3 * triesBurst {
		if w := login(right, "192.0.2.7:1"); w.Code != 200 {
			t.Fatalf("right: %d", w.Code)
		}
	}
	n.called()
	for i := range triesBurst {
		body := `{"token":"guess-4711"}`
		if i%2 == 0 {
			body = `{"name":"admin","password":"guess-4711"}`
		}
		if w := login(body, "192.0.2.8:1"); w.Code != 401 || w.Header().Get("Set-Cookie") != "" {
			t.Fatalf("guess %d: %d", i, w.Code)
		}
	}
	if done := n.called(); len(done) != triesBurst || !strings.Contains(done[1], "refused by admin-token from 192.0.2.8") {
		t.Errorf("noted %q", done)
	}
	for _, body := range []string{right, `{"name":"admin","password":"` + rightPassword + `"}`} {
		if w := login(body, "192.0.2.8:2"); w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("after %d guesses: %d", triesBurst, w.Code)
		}
	}
	if w := login(right, "192.0.2.9:1"); w.Code != 200 {
		t.Errorf("another address: %d", w.Code)
	}
	if log := n.logged(); strings.Contains(log, "guess-4711") {
		t.Errorf("log: %s", log)
	}
}
