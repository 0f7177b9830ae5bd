package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/auth"
	"seckill/internal/entry"
	"seckill/internal/gate"
	"seckill/internal/limit"
)

// kept is what the operators of a test keep out.
type kept struct{ addr, user, device string }

func (kept) Switches() seckill.Switches { return seckill.DefaultSwitches() }

func (k kept) Blocked(addr netip.Addr, user, device string) bool {
	return addr.IsValid() && addr.String() == k.addr || user != "" && user == k.user || device != "" && device == k.device
}

func (kept) Eligible(*seckill.Activity, string) (eligible, known bool) { return false, true }

// doorOf gives a server a way in, with the least difficulty.
func doorOf(t *testing.T) *entry.Door {
	t.Helper()
	ring, err := entry.NewRing(entry.NewKey(time.Now().Add(-time.Hour)))
	must(t, err)
	d, err := entry.New(entry.Options{Ring: ring, Difficulty: entry.DifficultyMin})
	must(t, err)
	return d
}

func withDoor(t *testing.T) func(*Options) {
	return func(o *Options) { o.Gate.Entry = doorOf(t) }
}

// guarded is a sale that asks for tokens and proofs.
func guarded(w *world) *seckill.Activity {
	a := sale(3)
	a.EntryToken, a.Challenge = true, true
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, a)
	return a
}

// solve does the work of a challenge and returns the proof as an object, as the widget has it before it
// is put into base64.
func solve(t *testing.T, challenge map[string]any) string {
	t.Helper()
	salt, want := challenge["salt"].(string), challenge["challenge"].(string)
	for n := range int(challenge["maxnumber"].(float64)) + 1 {
		if sum := sha256.Sum256([]byte(salt + strconv.Itoa(n))); hex.EncodeToString(sum[:]) == want {
			return fmt.Sprintf(`{"algorithm":%q,"challenge":%q,"number":%d,"salt":%q,"signature":%q,"took":7}`, challenge["algorithm"], want, n, salt, challenge["signature"])
		}
	}
	t.Fatalf("no solution: %v", challenge)
	return ""
}

const entryPath = "/v1/activities/3/entry"

// The whole way in: a challenge in ALTCHA's form, a proof of it as an object or in base64, a token, and a purchase with
// it; the proof and the token count once.
func TestTheWayInOverHTTP(t *testing.T) {
	w := open(t, withDoor(t))
	guarded(w)
	for buyer, form := range map[string]func(string) string{
		"ann": func(object string) string { return object },
		"bob": func(object string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(object)) + `"` },
	} {
		who := "X-User-Id: " + buyer
		got := w.do("POST", "/v1/activities/3/purchases", "", who)
		got.refused(t, "a purchase without a token", 428, "challenge_required")
		w.do("POST", entryPath, "", who).refused(t, "an entry without a proof", 428, "challenge_required")

		challenge := w.do("GET", "/v1/activities/3/challenge", "", who)
		if challenge.status != 200 || challenge.json["algorithm"] != "SHA-256" || challenge.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("challenge: %d %s", challenge.status, challenge.body)
		}
		body := `{"proof":` + form(solve(t, challenge.json)) + `}`
		entered := w.do("POST", entryPath, body, who)
		token, _ := entered.json["entry_token"].(string)
		expires, err := time.Parse(time.RFC3339, fmt.Sprint(entered.json["expires_at"]))
		if entered.status != 200 || token == "" || err != nil || time.Until(expires) < time.Minute || entered.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("entry: %d %s, %v", entered.status, entered.body, err)
		}
		w.do("POST", entryPath, body, who).refused(t, "the proof once more", 409, "replayed")
		purchase := fmt.Sprintf(`{"entry_token":%q}`, token)
		w.do("POST", "/v1/activities/3/purchases", purchase, "X-User-Id: eve").refused(t, "another's token", 428, "challenge_required")
		if got := w.do("POST", "/v1/activities/3/purchases", purchase, who); got.status != 202 {
			t.Errorf("buy with the token: %d %s", got.status, got.body)
		}
		w.do("POST", "/v1/activities/3/purchases", purchase, who).refused(t, "the token once more", 409, "replayed")
	}
}

// An activity that asks for no proof gives tokens for nothing: to no body, an empty object, null and "".
func TestAnEntryWithoutAProof(t *testing.T) {
	w := open(t, withDoor(t))
	for _, body := range []string{"", "{}", `{"proof":null}`, `{"proof":""}`, ` { "proof" : null , "user_id" : "ann" } `} {
		if got := w.do("POST", "/v1/activities/1/entry", body, "X-User-Id: ann"); got.status != 200 || got.json["entry_token"] == "" {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if got := w.do("GET", "/v1/activities/1/challenge", ""); got.status != 200 {
		t.Errorf("a challenge for nobody in particular: %d %s", got.status, got.body)
	}
}

// Each way in which an entry can be wrong names its field.
func TestEntryFieldsWrong(t *testing.T) {
	w := open(t, withDoor(t))
	long := `"` + strings.Repeat("A", entry.ProofBytesMax+1) + `"`
	list := []wrong{
		{"POST", entryPath, `{"proof":` + long + `}`, nil, "proof", "length"},
		{"POST", entryPath, `{"proof":{"salt":` + long + `}}`, nil, "proof", "length"},
		{"POST", entryPath, `{"proof":{"salt":` + strings.Repeat(" ", 2000) + `"x"}}`, nil, "proof", "length"},
		{"POST", entryPath, `{"proof":{}{}}`, nil, "body", "format"},
		{"POST", entryPath, `{"proof":{"a":}}`, nil, "body", "format"},
		{"POST", entryPath, `{"proof":nullnull}`, nil, "body", "format"},
		{"POST", entryPath, `{"proof":"秒杀"}`, nil, "proof", "format"},
		{"POST", entryPath, `{"proof":"a","proof":"a"}`, nil, "proof", "repeated"},
		{"POST", entryPath, `{"proof":{},"proof":{}}`, nil, "proof", "repeated"},
		{"POST", entryPath, `{"proof":null,"proof":null}`, nil, "proof", "repeated"},
		{"POST", entryPath, `{"proof":"","proof":""}`, nil, "proof", "repeated"},
		{"POST", entryPath, `{"user_id":"a","user_id":"a"}`, nil, "user_id", "repeated"},
		{"POST", entryPath, `{"user_id":"` + strings.Repeat("u", 65) + `"}`, nil, "user_id", "format"},
		{"POST", entryPath, `{"user_id":"bob"}`, []string{"X-User-Id: ann"}, "user_id", "one_of"},
		{"POST", entryPath, `{"entry_token":"a"}`, nil, "entry_token", "unknown"},
		{"POST", entryPath, `{"quantity":1}`, nil, "quantity", "unknown"},
		{"POST", entryPath, "", []string{"X-User-Id: a", "X-User-Id: a"}, "X-User-Id", "repeated"},
		{"POST", "/v1/activities/0/entry", "", nil, "id", "min"},
		{"GET", "/v1/activities/0/challenge", "", nil, "id", "min"},
	}
	for _, value := range []string{"1", "1.5", "true", "[]", "[{}]"} {
		list = append(list, wrong{"POST", entryPath, `{"proof":` + value + `}`, nil, "proof", "type"})
	}
	for _, body := range brokenBodies {
		if !strings.HasPrefix(body, `{"q`) {
			list = append(list, wrong{"POST", entryPath, body, nil, "body", "format"})
		}
	}
	for path, method := range map[string]string{"entry": "POST", "challenge": "GET"} {
		path = "/v1/activities/3/" + path
		list = append(list,
			wrong{method, strings.Replace(path, "3", "x", 1), "", nil, "id", "type"},
			wrong{method, path, "", []string{"X-Device-Id: " + strings.Repeat("d", 129)}, "X-Device-Id", "length"},
			wrong{method, path, "", []string{"X-Device-Id: 手机"}, "X-Device-Id", "format"},
			wrong{method, path, "", []string{"X-Device-Id: a", "X-Device-Id: a"}, "X-Device-Id", "repeated"},
			wrong{method, path, "", []string{"X-User-Id: 张三"}, "X-User-Id", "format"},
		)
	}
	for _, c := range list {
		headers := c.headers
		if !strings.Contains(strings.Join(headers, "\n"), "X-User-Id") && !strings.Contains(c.body, "user_id") {
			headers = append(headers, "X-User-Id: ann")
		}
		what := fmt.Sprintf("%s %s %.80q %.90q", c.method, c.path, c.body, c.headers)
		field, rule := w.do(c.method, c.path, c.body, headers...).refused(t, what, 400, "invalid_request")
		if field != c.field || rule != c.rule {
			t.Errorf("%s: names %q and %q, want %q and %q", what, field, rule, c.field, c.rule)
		}
	}
	// The longest device that is one, also in the open: it is not said back.
	if got := w.do("GET", "/v1/activities/1/challenge", "", "X-Device-Id: "+strings.Repeat("d", 128)); got.status != 200 {
		t.Errorf("a device of 128 signs: %d %s", got.status, got.body)
	}
}

// What a buyer at the door hears, the first that holds: of the activity, its time, the operators and the limits.
func TestWhoMayNotEnter(t *testing.T) {
	w := open(t, withDoor(t), func(o *Options) {
		user, err := limit.New(limit.Options{Name: "user", Rate: 0.001, Burst: 2, Cells: 1024})
		must(t, err)
		o.Gate.Controls, o.Gate.Limits = kept{user: "eve", device: "bad phone"}, gate.Limits{Keys: limit.NewKeys(nil), User: user}
	})
	later, soon, over, listed := sale(4), sale(5), sale(6), sale(7)
	later.StartsAt, soon.StartsAt, over.EndsAt, listed.Audience = time.Now().Add(time.Hour), time.Now().Add(30*time.Second), time.Now().Add(-time.Second), seckill.AudienceListed
	w.mu.Lock()
	w.list = append(w.list, later, soon, over, listed)
	w.mu.Unlock()
	for i, c := range []struct {
		id     int
		header string
		status int
		reason string
	}{
		{9, "", 404, "not_found"}, {4, "", 403, "not_started"}, {6, "", 403, "ended"}, {7, "", 403, "not_eligible"},
		{1, "X-Device-Id: bad phone", 403, "blocked"}, {9, "X-User-Id: eve", 403, "blocked"},
	} {
		for path, method := range map[string]string{"entry": "POST", "challenge": "GET"} {
			headers := []string{"X-User-Id: buyer" + strconv.Itoa(i)}
			if strings.HasPrefix(c.header, "X-User-Id") {
				headers = nil
			}
			if c.header != "" {
				headers = append(headers, c.header)
			}
			got := w.do(method, fmt.Sprintf("/v1/activities/%d/%s", c.id, path), "", headers...)
			got.refused(t, fmt.Sprint(c.id, " ", path, headers), c.status, c.reason)
			if starts := got.json["starts_at"]; (c.reason == "not_started") != (starts != nil) {
				t.Errorf("%s: starts_at %v", c.reason, starts)
			}
		}
	}
	for _, path := range []string{"/v1/activities/5/challenge", "/v1/activities/7/challenge"} {
		if got := w.do("GET", path, ""); got.status != 200 {
			t.Errorf("%s shortly before the start, or by nobody in particular: %d %s", path, got.status, got.body)
		}
	}
	// The limits count entries, and say so in the headers.
	for i := range 3 {
		got := w.do("POST", "/v1/activities/5/entry", "", "X-User-Id: fast")
		state := got.header.Get("RateLimit")
		if got.header.Get("RateLimit-Policy") == "" || !strings.HasPrefix(state, fmt.Sprintf(`"user";r=%d;t=`, max(1-i, 0))) {
			t.Errorf("entry %d: RateLimit-Policy %q, RateLimit %q", i, got.header.Get("RateLimit-Policy"), state)
		}
		if i < 2 && got.status != 200 {
			t.Errorf("entry %d: %d %s", i, got.status, got.body)
		}
		if i == 2 {
			got.refused(t, "too fast", 429, "rate_limited")
		}
	}
}

// Both endpoints are there, with the methods that they say; without a way in they are not.
func TestMethodsOfTheDoor(t *testing.T) {
	w := open(t, withDoor(t))
	for path, allow := range map[string]string{"/v1/activities/1/challenge": allowRead, "/v1/activities/1/entry": allowWrite} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "TRACE"} {
			if strings.Contains(allow, method) {
				continue
			}
			got := w.do(method, path, "", "X-User-Id: a")
			if field, _ := got.refused(t, method+path, 405, "invalid_request"); field != "method" || got.header.Get("Allow") != allow {
				t.Errorf("%s %s: %q, Allow %q", method, path, field, got.header.Get("Allow"))
			}
		}
		if got := w.do("OPTIONS", path, ""); got.status != http.StatusNoContent || got.header.Get("Allow") != allow {
			t.Errorf("OPTIONS %s: %d, Allow %q", path, got.status, got.header.Get("Allow"))
		}
	}
	if got := w.do("HEAD", "/v1/activities/1/challenge", ""); got.status != 200 || got.body != "" {
		t.Errorf("HEAD: %d %q", got.status, got.body)
	}
	if got := w.do("HEAD", "/v1/activities/1/entry", ""); got.status != 405 {
		t.Errorf("HEAD of the entry: %d", got.status)
	}
	secret := open(t, withDoor(t), func(o *Options) { o.Auth, _ = auth.HS256("a-secret-of-the-test", auth.Options{}) })
	secret.do("POST", "/v1/activities/1/entry", "").refused(t, "nobody enters", 401, "unauthenticated")
	secret.do("GET", "/v1/activities/1/challenge", "", "Authorization: Bearer x").refused(t, "a wrong token", 401, "unauthenticated")
	if got := secret.do("GET", "/v1/activities/1/challenge", ""); got.status != 200 {
		t.Errorf("a challenge for who has not logged in: %d %s", got.status, got.body)
	}
}

// limitedWorld has a limit of so many purchases by address, and trusts proxies in one network.
func limitedWorld(t *testing.T, proxies string) *world {
	return openTCP(t, func(o *Options) {
		ip, err := limit.New(limit.Options{Name: "ip", Rate: 0.1, Burst: 2, Cells: 1024})
		must(t, err)
		o.Gate.Limits = gate.Limits{Keys: limit.NewKeys(nil), IP: ip}
		if proxies != "" {
			o.Proxies = auth.Proxies{netip.MustParsePrefix(proxies)}
		}
	})
}

// A buyer cannot choose the address that he is limited by: what he says of it counts from a trusted proxy only.
func TestForwardedForIsBelievedFromProxiesOnly(t *testing.T) {
	for proxies, want := range map[string][]int{"": {202, 202, 429, 429}, "192.0.2.0/24": {202, 202, 429, 429}, "127.0.0.0/8": {202, 202, 202, 202}} {
		w := limitedWorld(t, proxies)
		for i, status := range want {
			got := w.buy(fmt.Sprint("buyer", i), "X-Forwarded-For: 198.51.100."+strconv.Itoa(i))
			if got.status != status {
				t.Errorf("trusting %q, click %d: got %d, want %d", proxies, i, got.status, status)
			}
		}
	}
	// What a buyer puts before the proxy's own entry changes nothing.
	w := limitedWorld(t, "127.0.0.0/8")
	for i, status := range []int{202, 202, 429} {
		if got := w.buy(fmt.Sprint("buyer", i), fmt.Sprintf("X-Forwarded-For: 203.0.113.%d, 198.51.100.7", i)); got.status != status {
			t.Errorf("click %d with a forged first entry: got %d, want %d", i, got.status, status)
		}
	}
}

// A purchase says how it stands with the limits, and one that is too fast when to come again; neither is there for other refusals.
func TestRateLimitHeaders(t *testing.T) {
	w := limitedWorld(t, "")
	for i, want := range []string{`"ip";r=1;t=10`, `"ip";r=0;t=20`, `"ip";r=0;t=10`} {
		got := w.buy(fmt.Sprint("buyer", i))
		if got.header.Get("RateLimit-Policy") != `"ip";q=2;w=20` || got.header.Get("RateLimit") != want {
			t.Errorf("click %d: RateLimit-Policy %q, RateLimit %q, want %q", i, got.header.Get("RateLimit-Policy"), got.header.Get("RateLimit"), want)
		}
		if i == 2 {
			got.refused(t, "too fast", 429, "rate_limited")
			// With some jitter, so that not all come back at once; never sooner than it says in RateLimit.
			if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after < 10 || after > 20 {
				t.Errorf("Retry-After %q, want at least 10", got.header.Get("Retry-After"))
			}
		}
	}
	blocked := open(t, func(o *Options) { o.Gate.Controls = kept{user: "eve"} })
	got := blocked.buy("eve")
	got.refused(t, "blocked", 403, "blocked")
	if got.header.Get("RateLimit") != "" || got.header.Get("RateLimit-Policy") != "" {
		t.Errorf("a blocked buyer hears of limits: %v", got.header)
	}
}

// Whatever is in the body of an entry: what is taken is what encoding/json finds in it, and what is
// refused is refused by name.
func FuzzEntry(f *testing.F) {
	for _, s := range append(wishSeeds, `{"proof":{}}`, `{"proof":{"a":{"b":["}"]}}}`, `{"proof":"abc="}`, `{"proof":null}`, `{"proof":""}`, `{"proof":{"a":1}`, `{"proof":{}x}`, `{"proof":{"salt":"\ud800"}}`, `{"proof":{},"user_id":5}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		proof, user, ref := parseEntry(body, true)
		if ref != nil {
			if ref.Reason != seckill.InvalidRequest || len(ref.Fields) != 1 || ref.Fields[0].Rule == "" || proof != "" || user != "" {
				t.Fatalf("%q: refused with %+v", body, ref)
			}
			return
		}
		if len(proof) > entry.ProofBytesMax || user != "" && !seckill.ValidBuyer(user) {
			t.Fatalf("%q: got %q, %q", body, proof, user)
		}
		if len(body) == 0 {
			return
		}
		var std struct {
			Proof  json.RawMessage `json:"proof"`
			UserID any             `json:"user_id"`
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		d.DisallowUnknownFields()
		if err := d.Decode(&std); err != nil || user != "" && fmt.Sprint(std.UserID) != user {
			t.Fatalf("%q: got %q, %q; encoding/json says %+v, %v", body, proof, user, std, err)
		}
		if bytes.HasPrefix(std.Proof, []byte("{")) && proof != base64.StdEncoding.EncodeToString(std.Proof) {
			t.Fatalf("%q: got %q of %s", body, proof, std.Proof)
		}
	})
}
