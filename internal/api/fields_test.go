package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"seckill/internal/auth"
	"seckill/internal/problem"
)

// wrong is a request that is wrong in one way, and the field that the answer has to name.
type wrong struct {
	method, path, body string
	headers            []string
	field, rule        string
}

// wrongNumbers are values that no quantity can have.
var wrongNumbers = map[string]string{
	"null": "type", `"1"`: "type", `""`: "type", "true": "type", "{}": "type", "[]": "type", "[1]": "type", `{"a":{"b":[]}}`: "type",
	"1.5": "type", "1.0": "type", "1e3": "type", "1E0": "type", "NaN": "type", "Infinity": "type", "+1": "type", "01": "type", "-01": "type", "00": "type",
	"-1": "min", "-0": "min", "0": "min", "-99999999999999999999": "min",
	"1000001": "max", "9223372036854775808": "max", "99999999999999999999999999": "max",
}

// wrongTexts are values that no string here can have.
var wrongTexts = map[string]string{
	"null": "type", "true": "type", "{}": "type", "[]": "type", "1.5": "type", "-": "type", `""`: "format", `"秒杀"`: "format", `"\u0000"`: "format", `"a\tb"`: "format", `"\ud800"`: "format",
}

// brokenBodies are no JSON object.
var brokenBodies = []string{
	" ", "x", "null", "1", `"quantity"`, "[]", "[{}]", "{", "}", "{}{}", "{} x", `{"quantity"`, `{"quantity":`, `{"quantity":}`, `{"quantity":1`, `{"quantity":1,}`, `{,}`,
	`{quantity:1}`, `{'quantity':1}`, "{\"quantity\":1}\x00", "\xef\xbb\xbf{}", "{\"\xff\":1}", `{"a\x":1}`, "quantity=1", strings.Repeat("[", 60000), "{/**/}",
}

func wrongRequests() (list []wrong) {
	const purchase, pay = "/v1/activities/1/purchases", "/v1/orders/1/pay"
	post := func(path, body, field, rule string) {
		list = append(list, wrong{"POST", path, body, nil, field, rule})
	}
	for _, id := range []string{"abc", "-1", "1.5", "+1", "1e3", "%20", "1%00", "%E4%B8%AD", "0x1", "1;2"} {
		post("/v1/activities/"+id+"/purchases", "", "id", "type")
		list = append(list, wrong{"GET", "/v1/activities/" + id, "", nil, "id", "type"})
	}
	post("/v1/activities/0/purchases", "", "id", "min")
	list = append(list, wrong{"GET", "/v1/activities/00", "", nil, "id", "min"})

	for value, rule := range wrongNumbers {
		post(purchase, `{"quantity":`+value+`}`, "quantity", rule)
	}
	for value, rule := range wrongTexts {
		post(purchase, `{"entry_token":`+value+`}`, "entry_token", rule)
		post(purchase, `{"user_id":`+value+`}`, "user_id", rule)
		post(pay, `{"payment_ref":`+value+`}`, "payment_ref", rule)
	}
	for value, rule := range map[string]string{"-1": "min", "0": "min", "1e3": "type", `"` + strings.Repeat("x", 65) + `"`: "format"} {
		post(purchase, `{"user_id":`+value+`}`, "user_id", rule)
	}
	post(purchase, `{"entry_token":"`+strings.Repeat("x", 2049)+`"}`, "entry_token", "length")
	post(pay, `{"payment_ref":"`+strings.Repeat("x", 65)+`"}`, "payment_ref", "length")
	post(pay, `{"payment_ref":7}`, "payment_ref", "type")
	for _, name := range []string{"x", "Quantity", "price_cents", "state", "", "中"} {
		for _, path := range []string{purchase, pay, "/v1/orders/1/cancel"} {
			post(path, `{"`+name+`":1}`, name, "unknown")
		}
	}
	post(purchase, `{"`+strings.Repeat("y", 9000)+`":1}`, strings.Repeat("y", 64)+"…", "unknown")
	post(purchase, `{"quantity":1,"quantity":1}`, "quantity", "repeated")
	post(purchase, `{"entry_token":"a","entry_token":"a"}`, "entry_token", "repeated")
	post(purchase, `{"user_id":"a","user_id":"a"}`, "user_id", "repeated")
	post(pay, `{"payment_ref":"a","payment_ref":"a"}`, "payment_ref", "repeated")
	for _, body := range brokenBodies {
		for _, path := range []string{purchase, pay, "/v1/orders/1/cancel"} {
			if strings.HasPrefix(body, `{"q`) && path != purchase {
				continue // There, the field is unknown before anything is broken.
			}
			post(path, body, "body", "format")
		}
	}
	return append(list, wrongHeaders()...)
}

func wrongHeaders() (list []wrong) {
	const purchase = "/v1/activities/1/purchases"
	header := func(field, rule string, headers ...string) {
		list = append(list, wrong{"POST", purchase, "", headers, field, rule})
	}
	header("Idempotency-Key", "format", "Idempotency-Key: ")
	header("Idempotency-Key", "format", "Idempotency-Key: 秒杀")
	header("Idempotency-Key", "length", "Idempotency-Key: "+strings.Repeat("k", 256))
	header("Idempotency-Key", "repeated", "Idempotency-Key: a", "Idempotency-Key: a")
	header("X-Device-Id", "length", "X-Device-Id: "+strings.Repeat("d", 129))
	header("X-Device-Id", "format", "X-Device-Id: 手机")
	header("X-User-Id", "format", "X-User-Id: 张三")
	header("X-User-Id", "format", "X-User-Id: "+strings.Repeat("u", 65))
	header("X-User-Id", "repeated", "X-User-Id: a", "X-User-Id: a")
	list = append(list, wrong{"POST", purchase, `{"user_id":"bob"}`, []string{"X-User-Id: ann"}, "user_id", "one_of"})
	for _, path := range []string{"/v1/orders", "/v1/orders/1", "/v1/tickets/1-2-0123456789abcdefghjk", "/v1/tickets/1-2-0123456789abcdefghjk/events"} {
		list = append(list,
			wrong{"GET", path, "", []string{"X-User-Id: a", "X-User-Id: b"}, "X-User-Id", "repeated"},
			wrong{"GET", path, "", []string{"X-User-Id: " + strings.Repeat("u", 65)}, "X-User-Id", "format"})
	}
	for query, want := range map[string][2]string{
		"cursor=abc": {"cursor", "format"}, "cursor=": {"cursor", "format"}, "cursor=-1": {"cursor", "format"}, "cursor=1&cursor=2": {"cursor", "repeated"},
		"limit=0": {"limit", "min"}, "limit=-1": {"limit", "min"}, "limit=101": {"limit", "max"}, "limit=ten": {"limit", "type"}, "limit=": {"limit", "type"},
		"limit=99999999999999999999": {"limit", "type"}, "limit=1&limit=1": {"limit", "repeated"},
	} {
		list = append(list, wrong{"GET", "/v1/orders?" + query, "", []string{"X-User-Id: a"}, want[0], want[1]})
	}
	return list
}

// Each field of each endpoint, wrong in each way, is a 400 that names the field and what is
// wrong with it, in both languages; it reaches nobody behind the door, and is no line in the log.
func TestEachFieldWrongInEachWay(t *testing.T) {
	w := open(t, func(o *Options) { o.SimulatePayment = true })
	list := wrongRequests()
	for i, c := range list {
		headers := c.headers
		if !strings.Contains(strings.Join(headers, "\n"), "X-User-Id") && !strings.Contains(c.body, "user_id") {
			headers = append(headers, "X-User-Id: ann")
		}
		what := fmt.Sprintf("%s %.60s %.80q %.90q", c.method, c.path, c.body, c.headers)
		lang := problem.Lang(i % 2)
		got := w.do(c.method, c.path, c.body, append(headers, "Accept-Language: "+lang.Tag())...)
		field, rule := got.refused(t, what, 400, "invalid_request")
		if field != c.field || rule != c.rule {
			t.Errorf("%s: names %q and %q, want %q and %q: %s", what, field, rule, c.field, c.rule, got.body)
		}
		if c.field != "" && !strings.Contains(got.json["msg"].(string), strings.TrimSuffix(c.field, "…")) {
			t.Errorf("%s: msg %q", what, got.json["msg"])
		}
		if got.header.Get("Content-Language") != lang.Tag() {
			t.Errorf("%s: language %q", what, got.header.Get("Content-Language"))
		}
	}
	if w.asked.Load() != 0 || w.log.String() != "" {
		t.Errorf("the stock was asked %d times; the log says %q", w.asked.Load(), w.log)
	}
	if len(list) < 200 {
		t.Errorf("only %d cases", len(list))
	}
}

// The article's endpoint says 400 in its own form, and names the field.
func TestTheArticlesFieldsWrong(t *testing.T) {
	w := open(t)
	bodies := map[string]string{`{"user_id":2}`: "activity_id", `{"activity_id":1}`: "user_id", `{"activity_id":1,"user_id":2,"x":3}`: "x", `{"activity_id":1,"activity_id":1}`: "activity_id", "": "body"}
	for value := range wrongNumbers {
		if value != "1000001" {
			bodies[`{"user_id":2,"activity_id":`+value+`}`] = "activity_id"
		}
	}
	for value := range wrongTexts {
		bodies[`{"activity_id":1,"user_id":`+value+`}`] = "user_id"
	}
	bodies[`{"user_id":2,"activity_id":9223372036854775807}`] = "" // Good, but not there.
	for body, field := range bodies {
		got := w.do("POST", "/seckill", body)
		want := 400.0
		if field == "" {
			want = 404
		}
		if got.status != 200 || got.json["code"] != want || !strings.Contains(fmt.Sprint(got.json["msg"]), field) {
			t.Errorf("%s: got %d %s", body, got.status, got.body)
		}
	}
}

// Who cannot say who they are hears 401, wherever that matters.
func TestUnauthenticated(t *testing.T) {
	secret := "a-secret-that-must-not-be-seen"
	w := open(t, func(o *Options) { o.SimulatePayment = true; o.Auth, _ = auth.HS256(secret, auth.Options{}) })
	for _, header := range [][]string{nil, {"Authorization: Basic YTpi"}, {"Authorization: Bearer"}, {"Authorization: Bearer x.y.z"}, {"X-User-Id: ann"}} {
		for path, method := range map[string]string{
			"/v1/activities/1/purchases": "POST", "/v1/orders": "GET", "/v1/orders/1": "GET", "/v1/orders/1/cancel": "POST", "/v1/orders/1/pay": "POST",
			"/v1/tickets/1-2-0123456789abcdefghjk": "GET", "/v1/tickets/1-2-0123456789abcdefghjk/events": "GET",
		} {
			got := w.do(method, path, "", header...)
			got.refused(t, fmt.Sprint(method, path, header), 401, "unauthenticated")
			if got.header.Get("Www-Authenticate") != "Bearer" {
				t.Errorf("%s: WWW-Authenticate %q", path, got.header.Get("Www-Authenticate"))
			}
		}
	}
	// The user_id of the body is for those who are believed.
	field, rule := w.do("POST", "/v1/activities/1/purchases", `{"user_id":"ann"}`).refused(t, "claims", 400, "invalid_request")
	if field != "user_id" || rule != "unknown" {
		t.Errorf("got %q %q", field, rule)
	}
	if strings.Contains(w.log.String(), secret) {
		t.Error("the secret is in the log")
	}
}

// What is not there is 404, in the form of a problem.
func TestNotFound(t *testing.T) {
	w := open(t)
	for _, path := range []string{
		"/nothing", "/v1", "/v1/", "/v1/nothing", "/v1/activities/9", "/v1/activities/99999999999999999999", "/v1/activities/1/", "/v1/activities/1/nothing",
		"/v1/activities/1/challenge", "/v1/activities/1/entry", "/v1/tickets", "/v1/tickets/", "/v1/tickets/x", "/v1/tickets/1-2-0123456789abcdefghjk", "/v1/tickets/1-2-0123456789abcdefghjk/events",
		"/v1/tickets/1-2-" + strings.Repeat("x", 100), "/v1/orders/1", "/v1/orders/abc", "/v1/orders/-1", "/v1/orders/1/pay", "/v1/orders/1/x", "/admin/v1/activities", "/metrics", "/debug/pprof/",
	} {
		w.do("GET", path, "", "X-User-Id: ann").refused(t, path, 404, "not_found")
	}
	w.do("POST", "/v1/orders/1/cancel", "", "X-User-Id: ann").refused(t, "cancel", 404, "not_found")
	w.do("POST", "/v1/orders/1/pay", "", "X-User-Id: ann").refused(t, "pay without the option", 404, "not_found")
	w.do("POST", "/v1/activities/99999999999999999999/purchases", "", "X-User-Id: ann").refused(t, "huge", 404, "not_found")
}

// A method that is not there is 405, and says which are.
func TestMethods(t *testing.T) {
	w := open(t)
	for path, allow := range map[string]string{
		"/v1/activities": allowRead, "/v1/activities/1": allowRead, "/v1/activities/1/purchases": allowWrite, "/v1/tickets/x": allowRead,
		"/v1/orders": allowRead, "/v1/orders/1/cancel": allowWrite, "/healthz": allowRead, "/seckill": allowWrite,
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PURGE"} {
			if strings.Contains(allow, method) {
				continue
			}
			got := w.do(method, path, "", "X-User-Id: a")
			if field, rule := got.refused(t, method+path, 405, "invalid_request"); field != "method" || rule != "one_of" || got.header.Get("Allow") != allow {
				t.Errorf("%s %s: %q %q, Allow %q", method, path, field, rule, got.header.Get("Allow"))
			}
		}
		if got := w.do("OPTIONS", path, ""); got.status != http.StatusNoContent || got.header.Get("Allow") != allow || got.body != "" {
			t.Errorf("OPTIONS %s: %d, Allow %q", path, got.status, got.header.Get("Allow"))
		}
		if head := w.do("HEAD", path, ""); head.body != "" || (head.status == 405) == strings.Contains(allow, "HEAD") {
			t.Errorf("HEAD %s: %d %q", path, head.status, head.body)
		}
	}
}
