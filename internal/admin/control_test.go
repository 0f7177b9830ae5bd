package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/problem"
)

// Each request of the control state reaches its neighbour, with who asks, from where and why, and is answered
// in the contract's form.
func TestTheControlStateIsCarriedOut(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	plan := soon
	for _, c := range []struct {
		method, path, body string
		status             int
		call, answer       string
	}{
		{"PUT", "/switches/intake", `{"value":false,"reason":"because"}`, 200, "switch intake 0",
			`{"name":"intake","value":false,"default":true,"changed_at":"1970-01-01T00:00:01Z","changed_by":"admin-token","reason":"because","scheduled":[]}`},
		{"PUT", "/switches/admission_percent", `{"value":0,"reason":"because"}`, 200, "switch admission_percent 0", `"value":0,"default":100,`},
		{"PUT", "/switches/admission_percent", `{"value":100,"reason":"because"}`, 200, "switch admission_percent 100", `"value":100,"default":100,`},
		{"PUT", "/switches/challenge", `{"value":true,"at":` + plan + `,"reason":"because"}`, 200, "plan challenge 1",
			`"changed_at":null,"changed_by":null,"reason":null,"scheduled":[{"id":8,"value":true,"at":` + plan + `,"by":"admin-token","reason":"because"}]}`},
		{"DELETE", "/switches/intake/scheduled/7", `{"reason":"because"}`, 204, "cancel intake 7", ""},
		{"POST", "/blocks", `{"kind":"user","value":"eve ","reason":"because"}`, 201, "block user eve  false",
			`{"id":4,"kind":"user","value":"eve ","until":null,"reason":"because","source":"operator",`},
		{"POST", "/blocks", `{"kind":"cidr","value":"192.0.2.0/24","until":` + plan + `,"reason":"because"}`, 201, "block cidr 192.0.2.0/24 true", `"until":` + plan},
		{"DELETE", "/blocks/7", `{"reason":"because"}`, 204, "unblock 7", ""},
		{"GET", "/blocks?limit=2", "", 200, "", `"source":"automatic"`},
		{"GET", "/activities/2/audience", "", 200, "", `{"count":0,"version":0,"updated_at":null}`},
	} {
		w := ask(s, c.method, "/admin/v1"+c.path, c.body, nil)
		var want []string
		if c.call != "" {
			want = []string{c.call + " by admin-token from 192.0.2.1: because"}
		}
		if got := n.called(); w.Code != c.status || !slices.Equal(got, want) || !strings.Contains(w.Body.String(), c.answer) || c.status == 204 && w.Body.Len() > 0 {
			t.Errorf("%s %s: %d, %q, %s; want %d, %q, %s", c.method, c.path, w.Code, got, w.Body, c.status, want, c.answer)
		}
	}
	header := func(r *http.Request) { r.Header.Set("X-Reason", "in a header") }
	if w := ask(s, "PUT", "/admin/v1/switches/intake", `{"value":true}`, header); w.Code != 200 || !strings.HasSuffix(n.called()[0], ": in a header") {
		t.Errorf("with X-Reason: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "PUT", "/admin/v1/switches/intake", `{"value":true,"reason":"  "}`, header); w.Code != 400 || len(n.called()) != 0 {
		t.Errorf("with a blank reason: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "POST", "/admin/v1/blocks", `{"kind":"user","value":"eve","reason":"x"}`, nil); w.Header().Get("Location") != "/admin/v1/blocks/4" {
		t.Errorf("Location %q", w.Header().Get("Location"))
	}
	for _, path := range []string{
		"PUT switches/nothing", "PUT switches/Intake", "DELETE switches/nothing/scheduled/1", "DELETE switches/intake/scheduled/x", "DELETE blocks/0", "DELETE blocks/x",
		"GET switches/intake/scheduled", "PUT activities/77/audience", "PUT activities/x/audience", "GET activities/77/audience",
	} {
		method, path, _ := strings.Cut(path, " ")
		if reason, _ := problemOf(t, ask(s, method, "/admin/v1/"+path, `{"value":true,"reason":"x"}`, nil)); reason != "not_found" {
			t.Errorf("%s %s: %s", method, path, reason)
		}
	}
	bare := newNeighbours().server(t, func(o *Options) { o.Switches, o.Blocks, o.Audiences = nil, nil, nil })
	for _, path := range []string{"switches", "blocks", "activities/1/audience"} {
		if w := ask(bare, "GET", "/admin/v1/"+path, "", nil); w.Code != 404 {
			t.Errorf("%s without its part: %d", path, w.Code)
		}
	}
}

// The list of switches has exactly the members that are promised, what acts by itself, and how old it
// is if it is old.
func TestSwitchesAreListed(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, func(o *Options) {
		o.Guards = func() []seckill.Guard {
			return []seckill.Guard{{Name: "breaker"}, {Name: "backlog", Acting: true, Since: time.Unix(3, 0), Reason: "too many wait", Figure: "120000 of 100000"}}
		}
	})
	const want = `{"switches":[` +
		`{"name":"intake","value":true,"default":true,"changed_at":null,"changed_by":null,"reason":null,"scheduled":[]},` +
		`{"name":"admission_percent","value":30,"default":100,"changed_at":"1970-01-01T00:00:01Z","changed_by":"ann","reason":"too much",` +
		`"scheduled":[{"id":7,"value":100,"at":"1970-01-01T00:00:02Z","by":"bob","reason":"later"}]},` +
		`{"name":"challenge","value":false,"default":false,"changed_at":null,"changed_by":null,"reason":null,"scheduled":[]},` +
		`{"name":"consumers","value":true,"default":true,"changed_at":null,"changed_by":null,"reason":null,"scheduled":[]}],` +
		`"guards":[{"name":"breaker","acting":false,"since":null,"reason":"","figure":""},` +
		`{"name":"backlog","acting":true,"since":"1970-01-01T00:00:03Z","reason":"too many wait","figure":"120000 of 100000"}]`
	if got := ask(s, "GET", "/admin/v1/switches", "", nil).Body.String(); got != want+"}\n" {
		t.Errorf("got %s\nwant %s", got, want)
	}
	n.stale = 12345 * time.Millisecond
	n.err = errSecret // The database is of no account here.
	if got := ask(s, "GET", "/admin/v1/switches", "", nil).Body.String(); got != want+",\"stale_seconds\":12.3}\n" {
		t.Errorf("without a database: %s", got)
	}
}

// A dry run changes nothing, and says what can honestly be known.
func TestADryRunSaysWhatItWouldDo(t *testing.T) {
	n := newNeighbours()
	n.activities[0].Challenge, n.activities[1].Paused, n.activities[2].Phase = true, true, seckill.PhaseClosed
	rate, known := 200.0, true
	s := n.server(t, func(o *Options) { o.PurchaseRate = func() (float64, bool) { return rate, known } })
	for _, c := range []struct {
		name, value string
		refused     int
		perSecond   float64
		says        string
	}{
		{"intake", "false", 100, 200, "Every purchase would be refused."},
		{"intake", "true", 0, 0, "would change nothing"},
		{"admission_percent", "60", 40, 80, "60 % of the purchases would go through"},
		{"admission_percent", "30", 70, 140, "would change nothing"},
		{"challenge", "true", 0, 0, "Buyers of 2 more open activities"},
		{"consumers", "false", 0, 0, "No reservation would become an order"},
	} {
		w := ask(s, "PUT", "/admin/v1/switches/"+c.name, `{"value":`+c.value+`,"reason":"x","dry_run":true}`, nil)
		var got trial
		must(t, json.Unmarshal(w.Body.Bytes(), &got))
		e := got.Effect
		if w.Code != 200 || !got.DryRun || got.Name != c.name || fmt.Sprint(got.To) != c.value || e.OpenActivities != 3 || int(e.RefusedPercent) != c.refused ||
			e.PurchasesPerSecond == nil || *e.PurchasesPerSecond != 200 || *e.RefusedPerSecond != c.perSecond || !strings.Contains(e.Says, c.says) {
			t.Errorf("%s to %s: %d %s", c.name, c.value, w.Code, w.Body)
		}
	}
	known = false
	if w := ask(s, "PUT", "/admin/v1/switches/intake", `{"value":false,"reason":"x","dry_run":true,"at":`+soon+`}`, nil); !strings.Contains(w.Body.String(), `"purchases_per_second":null,"refused_per_second":null`) ||
		!strings.Contains(w.Body.String(), `"at":`+soon) {
		t.Errorf("when the rate is not known: %s", w.Body)
	}
	if calls := n.called(); len(calls) != 0 {
		t.Errorf("it was done: %q", calls)
	}
}

// put sends a list of buyers as a kind of content.
func put(s http.Handler, kind, body string) (status int, answer string) {
	w := ask(s, "PUT", "/admin/v1/activities/2/audience", body, func(r *http.Request) {
		r.Header.Set("X-Reason", "because")
		r.Header.Del("Content-Type")
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
	})
	return w.Code, w.Body.String()
}

// A list of buyers is an array, or a line each, whatever ends the lines.
func TestAudiencesAreRead(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	for _, c := range []struct{ kind, body, want string }{
		{"application/json", `["ann","b o b", 12 ,"\u0041"]`, "ann|b o b|12|A"},
		{"application/json; charset=utf-8", " \n[]", ""},
		{"text/plain", "ann\nb o b\n12", "ann|b o b|12"},
		{"text/plain; charset=utf-8", "\xef\xbb\xbfann\r\n\r\n b \r\n", "ann| b "},
		{"text/plain", "[a]\n", "[a]"},
		{"text/plain", " ann\n", " ann"}, {"", "ann\n", "ann"},
		{"", "\n [\"ann\"]", "ann"},
		{"application/x-www-form-urlencoded", "ann\nbob\n", "ann|bob"},
	} {
		status, answer := put(s, c.kind, c.body)
		calls := n.called()
		if got := strings.Join(n.buyers, "|"); status != 200 || got != c.want || len(calls) != 1 || calls[0] != "audience 2 by admin-token from 192.0.2.1: because" ||
			answer != fmt.Sprintf(`{"count":%d,"version":5,"updated_at":"1970-01-01T00:00:01Z"}`+"\n", len(n.buyers)) {
			t.Errorf("%s %q: %d %s, %q, %q", c.kind, c.body, status, answer, got, calls)
		}
	}
}

// What is no list of buyers changes nothing, and the caller hears where it goes wrong.
func TestWrongAudiences(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	long := strings.Repeat("x", 65)
	for _, c := range []struct {
		kind, body string
		fields     string
	}{
		{"text/plain", "", "body:required"}, {"text/plain", "\r\n\n", "body:required"}, {"", "", "body:required"}, {"application/json", "", "body:format"},
		{"text/plain", "\n\n\x01", "line 3:format"},
		{"text/plain", "ann\n" + long + "\nbob\n\ne\x00\n安\n" + strings.Repeat("x", 200_000) + "\nzoe\n\x80", "line 2:format line 5:format line 6:format line 7:format line 9:format"},
		{"application/json", `["ann","",null,true,1.5,-1,1e3,"` + long + `","安"]`, "body[1]:format body[2]:format body[3]:format body[4]:format body[5]:format body[6]:format body[7]:format body[8]:format"},
		{"application/json", `["ann",["bob"]]`, "body[1]:format"}, {"application/json", `["ann",{"id":"bob"}]`, "body[1]:format"},
		{"application/json", `{"buyers":[]}`, "body:type"}, {"application/json", `"ann"`, "body:type"},
		{"application/json", `["ann"`, "body:format"}, {"application/json", `["ann"]x`, "body:format"}, {"application/json", `["ann"][]`, "body:format"},
		{"application/json", `["ann",]`, "body:format"}, {"application/json", "ann\n", "body:format"}, {"application/json", `["ann" "bob"]`, "body:format"},
		{"application/json", strings.Repeat("[", 100_000), "body[0]:format"},
	} {
		w := ask(s, "PUT", "/admin/v1/activities/2/audience", c.body, func(r *http.Request) { r.Header.Set("Content-Type", c.kind) })
		reason, fields := problemOf(t, w)
		var got []string
		for f, rule := range fields {
			got = append(got, f+":"+rule)
		}
		slices.Sort(got)
		if w.Code != 400 || reason != "invalid_request" || strings.Join(got, " ") != c.fields {
			t.Errorf("%s %.60q: %d %q, want %q", c.kind, c.body, w.Code, got, c.fields)
		}
	}
	status, answer := put(s, "text/plain", strings.Repeat(long+"\n", 1000))
	if status != 400 || strings.Count(answer, `"field"`) != audienceWrongMax {
		t.Errorf("a thousand wrong ones: %d, %d are told of", status, strings.Count(answer, `"field"`))
	}
	cut := ask(s, "PUT", "/admin/v1/activities/2/audience", "", func(r *http.Request) { r.Body = readCloser{} })
	if _, fields := problemOf(t, cut); cut.Code != 400 || fields["body"] == "" {
		t.Errorf("a body that is cut off: %d %v", cut.Code, fields)
	}
	// One byte more than there may be.
	for kind, body := range map[string]string{
		"text/plain":       "ann\n" + strings.Repeat("x", audienceBytesMax),
		"application/json": `["a"` + strings.Repeat(" ", audienceBytesMax) + "]",
	} {
		if status, answer := put(s, kind, body); status != 413 || !strings.Contains(answer, "80 MiB") {
			t.Errorf("%s, too large: %d %.200s", kind, status, answer)
		}
	}
	if calls := n.called(); len(calls) != 0 {
		t.Errorf("it was done: %q", calls)
	}
	if log := n.logged(); log != "" {
		t.Errorf("mistakes of callers are in the log: %.300s", log)
	}
	if problem.Plain(seckill.TooLarge).Detail != "" {
		t.Error("a shared refusal was changed")
	}
}
