package admin

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// endpoint is a request with a body, and a body that is right.
type endpoint struct {
	path     string            // After its method, if that is not POST.
	good     map[string]string // Raw JSON by field.
	required []string
}

var endpoints = []endpoint{
	{"activities", map[string]string{
		"name": `"x"`, "stock": "7", "starts_at": `"2030-01-01T00:00:00Z"`, "ends_at": `"2030-01-02T00:00:00Z"`,
		"description": `"x"`, "price_cents": "1", "limit_per_user": "1", "sub_stocks": "1", "preload_before_seconds": "1",
		"payment_window_seconds": "1", "challenge": "false", "entry_token": "false", "audience": `"everyone"`, "reason": `"x"`,
	}, []string{"name", "stock", "starts_at", "ends_at"}},
	{"activities/1/restock", map[string]string{"quantity": "1", "reason": `"x"`}, []string{"quantity"}},
	{"activities/1/rerun", map[string]string{
		"starts_at": `"2030-01-01T00:00:00Z"`, "ends_at": `"2030-01-02T00:00:00Z"`, "stock": "7", "reason": `"x"`,
	}, []string{"starts_at", "ends_at", "stock"}},
	{"activities/1/reconcile", map[string]string{"repair": "true", "reason": `"x"`}, nil},
	{"activities/1/preload", map[string]string{"reason": `"x"`}, nil},
	{"activities/1/pause", map[string]string{"reason": `"x"`}, nil},
	{"activities/1/resume", map[string]string{"reason": `"x"`}, nil},
	{"activities/1/close", map[string]string{"reason": `"x"`}, nil},
	{"dead-letters/1/retry", map[string]string{"reason": `"x"`}, nil},
	{"dead-letters/1/drop", map[string]string{"return_stock": "true", "reason": `"x"`}, []string{"return_stock"}},
	{"orders/1/paid", map[string]string{"payment_ref": `"r"`, "reason": `"x"`}, []string{"payment_ref"}},
	{"PUT switches/intake", map[string]string{
		"value": "true", "reason": `"x"`, "at": soon, "dry_run": "false",
	}, []string{"value", "reason"}},
	{"PUT switches/admission_percent", map[string]string{"value": "30", "reason": `"x"`}, []string{"value", "reason"}},
	{"DELETE switches/intake/scheduled/7", map[string]string{"reason": `"x"`}, nil},
	{"blocks", map[string]string{
		"kind": `"ip"`, "value": `"192.0.2.7"`, "until": soon, "reason": `"x"`,
	}, []string{"kind", "value", "reason"}},
	{"DELETE blocks/7", map[string]string{"reason": `"x"`}, nil},
	{"accounts", map[string]string{
		"name": `"zoe"`, "password": `"twelve chars"`, "role": `"viewer"`, "reason": `"x"`,
	}, []string{"name", "password", "role"}},
	{"PUT accounts/ann", map[string]string{"password": `"twelve chars"`, "role": `"viewer"`, "disabled": "false", "reason": `"x"`}, nil},
	{"DELETE accounts/ann", map[string]string{"reason": `"x"`}, nil},
}

// soon is a moment that can be planned for, as JSON.
var soon = `"` + time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339) + `"`

// at is the method and the address of an endpoint.
func (e endpoint) at() (method, path string) {
	if method, path, ok := strings.Cut(e.path, " "); ok {
		return method, "/admin/v1/" + path
	}
	return "POST", "/admin/v1/" + e.path
}

// ask sends a body to an endpoint.
func (e endpoint) ask(s http.Handler, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	method, path := e.at()
	return ask(s, method, path, body, change)
}

// body puts a request together, with one field's value replaced, or left out if it is "".
func (e endpoint) body(field, value string) string {
	fields := maps.Clone(e.good)
	if field != "" {
		fields[field] = value
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, fields[name]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// values that no field of a kind may have, by the kind of the right value.
var (
	notText    = []string{"1", "1.5", "true", "[]", "{}", `["x"]`}
	notInteger = []string{`"1"`, "1.0", "1.5", "1e3", "true", "[]", "{}", "9223372036854775808", "-9223372036854775809", "1e999"}
	notBoolean = []string{`"true"`, "0", "1", "[]", "{}"}
	notTime    = []string{"0", `""`, `"now"`, `"2030-01-01"`, `"2030-01-01T00:00:00"`, `"2030-13-01T00:00:00Z"`, `"2030-02-30T00:00:00Z"`, "true", "{}", `"+12030-01-01T00:00:00Z"`}
	control    = []string{`"a\u0000b"`, `"a\u001b[31m"`, `"\u0085"`}
	huge       = `"` + strings.Repeat("长", 5000) + `"`
)

// wrongValues are values that one field must not have.
func wrongValues(field, good string) (values []string) {
	switch {
	case strings.HasSuffix(field, "_at"), field == "at", field == "until":
		values = append(notTime, `"1999-12-31T23:59:59Z"`, `"2200-01-02T00:00:00Z"`, `"9999-12-31T23:59:59Z"`)
	case good[0] == '"':
		values = append(append(notText, control...), huge)
		if field == "name" || field == "payment_ref" || field == "kind" || field == "value" {
			values = append(values, `""`)
		}
		if field == "audience" {
			values = append(values, `""`, `"Everyone"`, `"nobody"`)
		}
		if field == "payment_ref" {
			values = append(values, `"支付"`, `"a\nb"`)
		}
	case good == "true" || good == "false":
		values = notBoolean
	default:
		values = notInteger
	}
	return append(values, map[string][]string{
		"ends_at":                {`"2030-01-01T00:00:00Z"`, `"2029-01-01T00:00:00Z"`, `"2020-01-01T00:00:00Z"`},
		"name":                   {`" "`, `"\u3000"`, `"` + strings.Repeat("x", 129) + `"`},
		"stock":                  {"0", "-1", "100000001"},
		"price_cents":            {"-1", "1000000000001"},
		"limit_per_user":         {"0", "-1", "1000001", "4294967297"},
		"sub_stocks":             {"0", "-1", "1025", "4294967297"},
		"preload_before_seconds": {"-1", "86401", "9223372036854775807", "18446744074"},
		"payment_window_seconds": {"0", "-1", "604801", "9223372036854775807"},
		"kind":                   {`"IP"`, `"host"`, `"ip "`},
		"value":                  {"-1", "101", `"192.0.2"`, `"192.0.2.7/32"`, `"fe80::1%eth0"`, "null"},
	}[field]...)
}

// Each field of each request, wrong in each way, is refused with a problem that names this
// field and no other, and nothing is done.
func TestEachFieldWrongInEachWay(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	tried := 0
	for _, e := range endpoints {
		if w := e.ask(s, e.body("", ""), nil); w.Code >= 300 || len(n.called()) != 1 {
			t.Fatalf("%s: the right body: %d %s", e.path, w.Code, w.Body)
		}
		for field, good := range e.good {
			values := slices.Clone(wrongValues(field, good))
			if slices.Contains(e.required, field) {
				values = append(values, "", "null")
			}
			for _, value := range values {
				tried++
				w := e.ask(s, e.body(field, value), nil)
				reason, fields := problemOf(t, w)
				if w.Code != 400 || reason != "invalid_request" || fields[field] == "" || len(fields) != 1 || len(n.called()) != 0 {
					t.Errorf("%s: %s: %.60s: %d %s %v", e.path, field, value, w.Code, reason, fields)
				}
			}
			repeated := strings.Replace(e.body("", ""), "{", fmt.Sprintf("{%q:%s,", field, good), 1)
			if _, fields := problemOf(t, e.ask(s, repeated, nil)); fields[field] != "repeated" || len(fields) != 1 {
				t.Errorf("%s: %s twice: %v", e.path, field, fields)
			}
			// null for what need not be given is as if it was not.
			if !slices.Contains(e.required, field) {
				if w := e.ask(s, e.body(field, "null"), nil); w.Code >= 300 {
					t.Errorf("%s: %s: null: %d", e.path, field, w.Code)
				}
			}
			n.called()
		}
	}
	if tried < 300 {
		t.Errorf("only %d were tried", tried)
	}
	if log := n.logged(); log != "" {
		t.Errorf("mistakes of callers are in the log: %.300s", log)
	}
}

// Bodies that are no request at all are refused, whichever request they are for.
func TestBodiesThatAreNoRequest(t *testing.T) {
	n := newNeighbours()
	s := n.server(t, nil)
	for _, e := range endpoints {
		good := e.body("", "")
		for _, body := range []string{
			"[]", "null", "1", `"x"`, "{", good[:len(good)-1], good + "x", good + good, "{'a':1}", "\xff\xfe{}", `{"reason":"\ud800"}`,
			strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000), "<x/>", "name=x",
		} {
			w := e.ask(s, body, nil)
			if reason, fields := problemOf(t, w); w.Code != 400 || reason != "invalid_request" || fields["body"] == "" || len(fields) != 1 {
				t.Errorf("%s: %.40q: %d %s %v", e.path, body, w.Code, reason, fields)
			}
		}
		if _, fields := problemOf(t, e.ask(s, e.body("surprise", "1"), nil)); fields["surprise"] != "unknown" || len(fields) != 1 {
			t.Errorf("%s: an unknown field: %v", e.path, fields)
		}
		large := e.body("reason", `"`+strings.Repeat("x", 2<<20)+`"`)
		if reason, _ := problemOf(t, e.ask(s, large, nil)); reason != "too_large" {
			t.Errorf("%s: 2 MiB: %s", e.path, reason)
		}
		cut := e.ask(s, "", func(r *http.Request) { r.Body = http.NoBody; r.Body = readCloser{} })
		if _, fields := problemOf(t, cut); cut.Code != 400 || fields["body"] == "" {
			t.Errorf("%s: a body that is cut off: %d %v", e.path, cut.Code, fields)
		}
		for _, header := range []string{"a\x00", "\xff", strings.Repeat("x", 513)} {
			w := e.ask(s, e.body("reason", ""), func(r *http.Request) { r.Header["X-Reason"] = []string{header} })
			if _, fields := problemOf(t, w); fields["X-Reason"] == "" || len(fields) != 1 {
				t.Errorf("%s: X-Reason %.10q: %v", e.path, header, fields)
			}
		}
		w := e.ask(s, good, func(r *http.Request) { r.Header["X-Reason"] = []string{"a", "b"} })
		if _, fields := problemOf(t, w); fields["X-Reason"] != "repeated" {
			t.Errorf("%s: X-Reason twice: %v", e.path, fields)
		}
	}
	if calls := n.called(); len(calls) != 0 {
		t.Errorf("done all the same: %q", calls)
	}
	if log := n.logged(); log != "" {
		t.Errorf("mistakes of callers are in the log: %.300s", log)
	}
}

type readCloser struct{ broken }

func (readCloser) Close() error { return nil }

// A caller hears of mistakes in form and in value together.
func TestFormAndValuesTogether(t *testing.T) {
	w := ask(newNeighbours().server(t, nil), "POST", "/admin/v1/activities",
		`{"name":1,"stock":-5,"starts_at":"2030-01-01T00:00:00Z","limit_per_user":"x","audience":"friends","reason":"\u0000","what":1}`, nil)
	_, fields := problemOf(t, w)
	want := map[string]string{
		"name": "type", "stock": "min", "ends_at": "required", "limit_per_user": "type", "audience": "one_of", "reason": "format", "what": "unknown",
	}
	if !maps.Equal(fields, want) {
		t.Errorf("got %v, want %v", fields, want)
	}
}

// Whatever is sent to any request, the answer is JSON and no fault of ours.
func FuzzBodies(f *testing.F) {
	for i, e := range endpoints {
		f.Add(i, []byte(e.body("", "")))
		f.Add(i, []byte(`{"reason":null}`))
	}
	n := newNeighbours()
	f.Fuzz(func(t *testing.T, which int, body []byte) {
		s := n.server(t, nil)
		e := endpoints[(which%len(endpoints)+len(endpoints))%len(endpoints)]
		w := e.ask(s, string(body), nil)
		if w.Code >= 500 || w.Code != http.StatusNoContent && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %q: %d %s", e.path, body, w.Code, w.Body)
		}
		n.called()
	})
}
