package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
)

// Each request of the contract reaches its neighbour, with who asks, from where and why.
func TestEachRequestIsCarriedOut(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	const run = `"starts_at":"2030-01-01T00:00:00Z","ends_at":"2030-01-02T00:00:00+08:00","stock":7`
	for _, c := range []struct {
		method, path, body string
		status             int
		call, answer       string // The answer holds this.
	}{
		{"POST", "/activities", `{"name":"x",` + run + `,"reason":"because"}`, 201, "create x", `"id":6`},
		{"GET", "/activities/2", "", 200, "", `"name":"activity 2"`},
		{"POST", "/activities/2/preload", `{"reason":"because"}`, 200, "preload 2", `"state":"open"`},
		{"POST", "/activities/2/pause", `{"reason":"because"}`, 200, "pause 2", `"remaining":60`},
		{"POST", "/activities/2/resume", `{"reason":"because"}`, 200, "resume 2", `"books":{"total":100,`},
		{"POST", "/activities/2/close", `{"reason":"because"}`, 200, "close 2", `"total":100`},
		{"POST", "/activities/2/restock", `{"quantity":-5,"reason":"because"}`, 200, "restock -5 2", `"restocked":-5,"pending":false`},
		{"POST", "/activities/2/rerun", `{` + run + `,"reason":"because"}`, 200, "rerun 7 2", `"id":2`},
		{"POST", "/activities/2/reconcile", `{"repair":true,"reason":"because"}`, 200, "reconcile true 2", `{"balanced":true,"books":{"total":1,`},
		{"POST", "/activities/2/reconcile", `{"reason":"because"}`, 200, "reconcile false 2", `"findings":[]`},
		{"POST", "/dead-letters/3/retry", `{"reason":"because"}`, 200, "retry 3", `"state":"settled","outcomes":[{"state":"failed","reason":"sold_out"}]`},
		{"POST", "/dead-letters/3/drop", `{"return_stock":true,"reason":"because"}`, 200, "drop 3 true", `"state":"dropped"`},
		{"POST", "/orders/12/paid", `{"payment_ref":"r-1","reason":"because"}`, 200, "paid 12 r-1", `"state":"paid"`},
	} {
		w := ask(s, c.method, "/admin/v1"+c.path, c.body, nil)
		var want []string
		if c.call != "" {
			want = []string{c.call + " by admin-token from 192.0.2.1: because"}
		}
		if got := n.called(); w.Code != c.status || !slices.Equal(got, want) || !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("%s %s: %d, %q, %s; want %d, %q, %s", c.method, c.path, w.Code, got, w.Body, c.status, want, c.answer)
		}
	}
	ask(s, "POST", "/admin/v1/activities/1/pause", "", func(r *http.Request) { r.Header.Set("X-Reason", "a header") })
	if got := n.called(); len(got) != 1 || !strings.HasSuffix(got[0], ": a header") {
		t.Errorf("with X-Reason: %q", got)
	}
}

// What is left out of a new activity has the contract's defaults.
func TestCreateFillsInDefaults(t *testing.T) {
	n := newNeighbours()
	w := ask(n.server(t, nil), "POST", "/admin/v1/activities", `{"name":"x","stock":7,"starts_at":"2030-01-01T00:00:00Z","ends_at":"2030-01-02T00:00:00Z"}`, nil)
	a := n.created
	a.StartsAt, a.EndsAt = time.Time{}, time.Time{}
	want := seckill.Activity{Name: "x", Total: 7, LimitPerUser: 1, SubStocks: 1, PreloadBefore: 5 * time.Minute,
		PaymentWindow: 15 * time.Minute, Audience: seckill.AudienceEveryone}
	if a != want || w.Header().Get("Location") != "/admin/v1/activities/6" {
		t.Errorf("created %+v, Location %q", a, w.Header().Get("Location"))
	}
}

// An activity has exactly the members that are promised.
func TestAnActivityHasItsMembers(t *testing.T) {
	w := ask(newNeighbours().server(t, nil), "GET", "/admin/v1/activities/1", "", nil)
	var got map[string]any
	must(t, json.Unmarshal(w.Body.Bytes(), &got))
	for name := range strings.FieldsSeq(`id name description price_cents state run starts_at ends_at server_time total remaining limit_per_user
		challenge entry_token sub_stocks preload_before_seconds payment_window_seconds audience created_at epoch books`) {
		if _, ok := got[name]; !ok {
			t.Errorf("no %s", name)
		}
		delete(got, name)
	}
	if len(got) != 0 {
		t.Errorf("more than promised: %v", got)
	}
}

// Lists are paged to their end, without a gap or a repetition.
func TestListsArePaged(t *testing.T) {
	s := newNeighbours().server(t, nil)
	for path, want := range map[string]string{"activities": "1 2 3 4 5", "dead-letters": "3 2 1", "audit": "3 2 1", "blocks": "3 2 1"} {
		var ids []string
		cursor := ""
		for range 10 {
			w := ask(s, "GET", "/admin/v1/"+path+"?limit=2"+cursor, "", nil)
			var page map[string]json.RawMessage
			must(t, json.Unmarshal(w.Body.Bytes(), &page))
			var list []struct{ ID int64 }
			must(t, json.Unmarshal(page[strings.ReplaceAll(path, "-", "_")], &list))
			for _, e := range list {
				ids = append(ids, fmt.Sprint(e.ID))
			}
			if page["cursor"] == nil {
				break
			}
			cursor = "&cursor=" + strings.Trim(string(page["cursor"]), `"`)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if w := ask(s, "GET", "/admin/v1/audit?limit=3", "", nil); strings.Contains(w.Body.String(), "cursor") {
		t.Errorf("the last page, full, has a cursor: %s", w.Body)
	}
	if w := ask(s, "GET", "/admin/v1/audit", "", nil); !strings.Contains(w.Body.String(), `"detail":"{\"a\""`) || !strings.Contains(w.Body.String(), `"detail":{"a":1}`) {
		t.Errorf("details: %s", w.Body)
	}
	if w := ask(s, "GET", "/admin/v1/dead-letters?limit=1", "", nil); !strings.Contains(w.Body.String(), `"payload_base64":"/wM="`) {
		t.Errorf("binary payload: %s", w.Body)
	}
	for query, want := range map[string]string{
		"limit=0": "limit:min", "limit=1001": "limit:max", "limit=x": "limit:type", "limit=": "limit:type", "limit=1.5": "limit:type",
		"limit=-99999999999999999999": "limit:min", "limit=99999999999999999999": "limit:max", "limit=1&limit=2": "limit:repeated",
		"cursor=0": "cursor:min", "cursor=-1": "cursor:min", "cursor=x": "cursor:type", "cursor=1&cursor=1": "cursor:repeated",
	} {
		for _, path := range []string{"activities", "dead-letters", "audit", "blocks"} {
			w := ask(s, "GET", "/admin/v1/"+path+"?"+query, "", nil)
			field, rule, _ := strings.Cut(want, ":")
			if reason, fields := problemOf(t, w); w.Code != 400 || reason != "invalid_request" || fields[field] != rule || len(fields) != 1 {
				t.Errorf("%s?%s: %d %s %v", path, query, w.Code, reason, fields)
			}
		}
	}
}

// Nothing of the API, and no profile, is there without the token; what is open is.
func TestTheTokenIsNeeded(t *testing.T) {
	s := newNeighbours().server(t, nil)
	for _, path := range []string{
		"/admin/v1/activities", "/admin/v1/activities/1", "/admin/v1/audit", "/admin/v1/dead-letters", "/admin/v1/nothing", "/admin/",
		"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/cmdline",
	} {
		for _, given := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x", "Bearer " + token[:5]} {
			s.tries = newTries()
			w := ask(s, "GET", path, "", func(r *http.Request) {
				r.Header.Del("Authorization")
				if given != "" {
					r.Header.Set("Authorization", given)
				}
			})
			if reason, _ := problemOf(t, w); w.Code != 401 || reason != "unauthenticated" || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: %d %s", path, given, w.Code, reason)
			}
		}
	}
	if w := ask(s, "DELETE", "/admin/v1/audit", "", func(r *http.Request) { r.Header.Del("Authorization") }); w.Code != 401 {
		t.Errorf("another method, without the token: %d", w.Code)
	}
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics"} {
		w := ask(s, "GET", path, "", func(r *http.Request) { r.Header.Del("Authorization") })
		if w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	closed := newNeighbours().server(t, func(o *Options) { o.MetricsAuth = true })
	if w := ask(closed, "GET", "/metrics", "", func(r *http.Request) { r.Header.Del("Authorization") }); w.Code != 401 {
		t.Errorf("/metrics with MetricsAuth: %d", w.Code)
	}
	if w := ask(closed, "GET", "/metrics", "", nil); w.Code != 200 || !strings.Contains(w.Body.String(), "seckill_build_info") {
		t.Errorf("/metrics with the token: %d", w.Code)
	}
	for given, status := range map[string]int{"bearer " + token: 200, "Bearer   " + token: 200} {
		if w := ask(s, "GET", "/admin/v1/activities", "", func(r *http.Request) { r.Header.Set("Authorization", given) }); w.Code != status {
			t.Errorf("%q: %d", given, w.Code)
		}
	}
	twice := ask(s, "GET", "/admin/v1/activities", "", func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+token) })
	if reason, fields := problemOf(t, twice); reason != "invalid_request" || fields["Authorization"] != "repeated" {
		t.Errorf("two headers: %s %v", reason, fields)
	}
	// Profiles that show the command line would show its secrets.
	if w := ask(s, "GET", "/debug/pprof/cmdline", "", nil); w.Code != 404 {
		t.Errorf("cmdline: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "GET", "/debug/pprof/goroutine?debug=1", "", nil); w.Code != 200 {
		t.Errorf("goroutines: %d", w.Code)
	}
}

// An address that guesses is slowed down, also when it guesses right; others are not, and the log
// says who guessed and not what.
func TestGuessesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNeighbours()
		s := n.server(t, nil)
		try := func(given, from string) int {
			return ask(s, "GET", "/admin/v1/audit", "", func(r *http.Request) {
				r.RemoteAddr = from
				r.Header.Set("Authorization", "Bearer "+given)
			}).Code
		}
		const guesser = "[2001:db8:1:2::7]:555"
		for i := range triesBurst {
			if got := try("guess-4711", guesser); got != 401 {
				t.Fatalf("guess %d: %d", i, got)
			}
		}
		for given, from := range map[string]string{"guess-4711": guesser, token: "[2001:db8:1:2:ffff::1]:9"} {
			if got := try(given, from); got != 429 {
				t.Errorf("after %d guesses: %d, want 429", triesBurst, got)
			}
		}
		if got := try(token, "[2001:db8:1:3::7]:555"); got != 200 {
			t.Errorf("from another network: %d", got)
		}
		<-time.After(triesEvery + time.Millisecond)
		if got := try("guess-4711", guesser); got != 401 {
			t.Errorf("a second later: %d", got)
		}
		if got := try("guess-4711", guesser); got != 429 {
			t.Errorf("two guesses after a second: %d", got)
		}
		<-time.After(time.Minute)
		if got := try(token, guesser); got != 200 {
			t.Errorf("a minute later: %d", got)
		}
		if log := n.logged(); strings.Contains(log, "guess-4711") || strings.Contains(log, token) || strings.Count(log, "2001:db8:1:2::7") != triesBurst+1 {
			t.Errorf("log: %s", log)
		}
		for i := range 3 * addressesMax {
			s.tries.failed(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), time.Now())
		}
		if got := len(s.tries.until); got > addressesMax {
			t.Errorf("%d addresses are remembered", got)
		}
	})
}

// A path that is there answers other methods with those that it has; others are not found.
func TestMethodsAndPaths(t *testing.T) {
	s := newNeighbours().server(t, nil)
	for path, allow := range map[string]string{
		"/admin/v1/activities":         "GET, HEAD, POST",
		"/admin/v1/activities/1":       "GET, HEAD",
		"/admin/v1/activities/1/pause": "POST",
		"/admin/v1/audit":              "GET, HEAD",
		"/admin/v1/session":            "DELETE, GET, HEAD, POST",
		"/admin/v1/accounts/ann":       "DELETE, PUT",
		"/healthz":                     "GET, HEAD",
		"/":                            "GET, HEAD",
	} {
		for _, method := range []string{"DELETE", "PUT", "PATCH", "OPTIONS"} {
			if strings.Contains(allow, method) {
				continue
			}
			w := ask(s, method, path, "", nil)
			if _, _ = problemOf(t, w); w.Code != 405 || w.Header().Get("Allow") != allow {
				t.Errorf("%s %s: %d, Allow %q, want %q", method, path, w.Code, w.Header().Get("Allow"), allow)
			}
		}
	}
	for _, path := range []string{
		"/nothing", "/admin/v1", "/admin/v1/", "/admin/v1/live/", "/admin/v1/accounts/ann/x", "/admin/v1/activities/77/audience",
		"/admin/v1/activities/0", "/admin/v1/activities/-1", "/admin/v1/activities/01", "/admin/v1/activities/+1", "/admin/v1/activities/1.0",
		"/admin/v1/activities/x", "/admin/v1/activities/%20", "/admin/v1/activities/99999999999999999999", "/admin/v1/activities/77", "/admin/v1/activities/%00",
	} {
		if reason, _ := problemOf(t, ask(s, "GET", path, "", nil)); reason != "not_found" {
			t.Errorf("%s: %s", path, reason)
		}
	}
	if w := ask(s, "HEAD", "/admin/v1/activities", "", nil); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

// A refusal is passed on and not logged. An error is logged, and its text stays here. A
// panic is a 500, and not the end.
func TestErrors(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	n.err = &seckill.Refusal{Reason: seckill.Conflict, Detail: "it is over"}
	w := ask(s, "POST", "/admin/v1/activities/1/pause", "", nil)
	if reason, _ := problemOf(t, w); reason != "conflict" || w.Code != 409 || !strings.Contains(w.Body.String(), "it is over") || n.logged() != "" {
		t.Errorf("%d %s, log %q", w.Code, w.Body, n.logged())
	}
	n.err = errSecret
	for _, path := range []string{"GET activities", "GET activities/1", "POST activities/1/pause", "GET audit", "GET dead-letters", "POST dead-letters/1/retry"} {
		method, path, _ := strings.Cut(path, " ")
		w := ask(s, method, "/admin/v1/"+path, "", nil)
		if reason, _ := problemOf(t, w); reason != "busy" || w.Code != 503 || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "10.0.0.7") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if got := strings.Count(n.logged(), "10.0.0.7"); got != 6 {
		t.Errorf("logged %d of 6 errors: %s", got, n.logged())
	}
	n.err = nil
	n.booksErr = errSecret
	if w := ask(s, "GET", "/admin/v1/activities/1", "", nil); w.Code != 200 || !strings.Contains(w.Body.String(), `"books":null`) {
		t.Errorf("without books: %d %s", w.Code, w.Body)
	}
	n.activities = nil
	s.o.Operator = nil // Whatever is asked of it panics.
	if reason, _ := problemOf(t, ask(s, "GET", "/admin/v1/activities", "", nil)); reason != "internal" {
		t.Errorf("a panic: %s", reason)
	}
	if !strings.Contains(n.logged(), "a handler panicked") {
		t.Error("the panic is not in the log")
	}
}

// Readiness is what the node says of itself; health is only that it lives.
func TestReadiness(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	n.notReady = fmt.Errorf("draining")
	if w := ask(s, "GET", "/readyz", "", nil); w.Code != 503 || !strings.Contains(w.Body.String(), "draining") {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "GET", "/healthz", "", nil); w.Code != 200 {
		t.Errorf("healthz: %d", w.Code)
	}
}

// What is missing is named when the server is made, not when it is asked.
func TestNewNeedsEverything(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("made of nothing")
	}
	if w := ask(newNeighbours().server(t, nil), "GET", "/healthz", "", nil); w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers: %v", w.Header())
	}
}
