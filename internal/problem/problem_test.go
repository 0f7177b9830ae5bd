package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"seckill"
)

// body is a problem as a caller reads it.
type body struct {
	Type, Title, Reason, Msg, Detail, Ticket string
	Status                                   int
	StartsAt                                 string `json:"starts_at"`
	Errors                                   []struct{ Field, Rule, Expected, Msg string }
}

func decode(t *testing.T, b []byte) (p body) {
	t.Helper()
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return p
}

// Every reason has a text in both languages, and its body is a whole problem.
func TestEveryReasonIsSaidInBothLanguages(t *testing.T) {
	for i := 1; i < seckill.Reasons; i++ {
		r := seckill.Reason(i)
		for l := range langs {
			p := decode(t, Encode(seckill.Refuse(r), l))
			if p.Type != "urn:seckill:problem:"+r.String() || p.Reason != r.String() || p.Status != r.Status() || p.Title == "" {
				t.Errorf("%s: got %+v", r, p)
			}
			chinese := strings.ContainsFunc(p.Msg, func(c rune) bool { return unicode.Is(unicode.Han, c) })
			if p.Msg == "" || chinese != (l == ZH) {
				t.Errorf("%s in %s: msg %q", r, l.Tag(), p.Msg)
			}
		}
	}
}

// A field error names the field, the rule and what is accepted, for programs and for people.
func TestFieldErrorsNameFieldAndWhatIsAccepted(t *testing.T) {
	for rule := range rules {
		for l := range langs {
			ref := seckill.Invalid("payment.amount", rule, "17")
			p := decode(t, Encode(ref, l))
			if len(p.Errors) != 1 || p.Errors[0].Field != "payment.amount" || p.Errors[0].Rule != string(rule) || p.Errors[0].Expected != "17" {
				t.Fatalf("%s: got %+v", rule, p.Errors)
			}
			if !strings.Contains(p.Msg, "payment.amount") || !strings.Contains(p.Errors[0].Msg, "payment.amount") {
				t.Errorf("%s: %q and %q do not both name the field", rule, p.Msg, p.Errors[0].Msg)
			}
			says := strings.Contains(p.Errors[0].Msg, "17")
			if bare := rule == seckill.RuleRequired || rule == seckill.RuleUnknown || rule == seckill.RuleRepeated; says == bare {
				t.Errorf("%s: %q", rule, p.Errors[0].Msg)
			}
		}
	}
}

func TestTicketStartAndDetailAreSaid(t *testing.T) {
	at := time.Date(2026, 11, 11, 20, 0, 0, 0, time.FixedZone("CST", 8*3600))
	p := decode(t, Encode(&seckill.Refusal{Reason: seckill.NotStarted, StartsAt: at, Ticket: "1-1-x", Detail: `a "b"`}, EN))
	if p.StartsAt != "2026-11-11T12:00:00Z" || p.Ticket != "1-1-x" || p.Detail != `a "b"` {
		t.Errorf("got %+v", p)
	}
}

// What is unknown is busy; only a refusal is a definite no, however it is wrapped.
func TestUnknownErrorsAreBusy(t *testing.T) {
	for want, err := range map[seckill.Reason]error{
		seckill.Busy:     errors.New("connection reset"),
		seckill.NotFound: fmt.Errorf("look up: %w", seckill.ErrNotFound),
		seckill.SoldOut:  fmt.Errorf("reserve: %w", seckill.Refuse(seckill.SoldOut)),
	} {
		if got := Of(err).Reason; got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
	var none *seckill.Refusal
	if got := Of(none).Reason; got != seckill.Busy {
		t.Errorf("nil refusal: got %s, want busy", got)
	}
}

// A 429 and a 503 always say when to come back, never earlier than asked, and not all at once.
func TestRetryAfter(t *testing.T) {
	for i := 1; i < seckill.Reasons; i++ {
		r := seckill.Reason(i)
		status := r.Status()
		if got := RetryAfter(seckill.Refuse(r)); (got > 0) != (status == 429 || status == 503) {
			t.Errorf("%s: got %d", r, got)
		}
	}
	seen := map[int]bool{}
	for range 1000 {
		got := RetryAfter(&seckill.Refusal{Reason: seckill.Busy, RetryAfter: 39500 * time.Millisecond})
		seen[got] = true
		if got < 40 || got > 50 {
			t.Fatalf("asked for 39.5 s, got %d", got)
		}
	}
	if len(seen) < 5 {
		t.Errorf("only %d different answers", len(seen))
	}
}

func TestWriteSaysItAllInHeaders(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept-Language", "zh-CN,zh;q=0.9,en;q=0.8")
	for reason, header := range map[seckill.Reason]string{seckill.Busy: "Retry-After", seckill.Unauthenticated: "WWW-Authenticate"} {
		w := httptest.NewRecorder()
		Write(w, r, seckill.Refuse(reason))
		if w.Code != reason.Status() || w.Header().Get(header) == "" || w.Header().Get("Content-Type") != ContentType || w.Header().Get("Content-Language") != "zh" {
			t.Errorf("%s: got %d %v", reason, w.Code, w.Header())
		}
		if got := decode(t, w.Body.Bytes()).Msg; got != Msg(reason, ZH) {
			t.Errorf("%s: got %q", reason, got)
		}
	}
}

func TestNegotiate(t *testing.T) {
	for header, want := range map[string]Lang{
		"": EN, "*": EN, "fr": EN, "zh": ZH, "ZH-hans-CN": ZH, "zh_CN": EN, "zhx": EN,
		"zh-CN,zh;q=0.9,en;q=0.8": ZH, "en-US,en;q=0.9,zh-CN;q=0.8": EN, "fr,zh;q=0.1": ZH,
		"en;q=0.5,zh;q=0.501": ZH, "en;q=0.5 , zh ; q=0.5": EN, "zh;q=0.5,en;q=0.5": ZH,
		"zh;q=0": EN, "zh;q=0,*": EN, "en;q=0,*": ZH, "en;q=0.1,*;q=0.2": ZH, "zh;q=2": EN, "zh;q=0.1234": EN, "zh;q=": EN,
		"zh;q=x,zh;q=0.2": ZH, ",,;;,zh": ZH, "zh;level=1": EN, "zh;q=1.001": EN, "zh;q=1.000": ZH, "zh;q=0.000": EN,
		strings.Repeat("fr,", rangesMax) + "zh": EN,
	} {
		if got := Negotiate(header); got != want {
			t.Errorf("%q: got %s, want %s", header, got.Tag(), want.Tag())
		}
	}
}

// Refusals on the hot path cost no memory.
func TestHotRefusalsAllocateNothing(t *testing.T) {
	bought := &seckill.Refusal{Reason: seckill.AlreadyPurchased, Ticket: "1-1-0123456789abcdefghjk"}
	early := &seckill.Refusal{Reason: seckill.NotStarted, StartsAt: time.Now()}
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		Encode(Plain(seckill.SoldOut), Negotiate("zh-CN,zh;q=0.9,en;q=0.8"))
		Append(buf, Plain(seckill.SoldOut), 0, EN)
		Append(buf, bought, 0, ZH)
		Append(buf, early, 0, ZH)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzNegotiate(f *testing.F) {
	f.Add("zh-CN,zh;q=0.9,en;q=0.8")
	f.Add("*;q=0.1,en;q=0")
	f.Fuzz(func(t *testing.T, header string) {
		got := Negotiate(header)
		if got != EN && got != ZH {
			t.Fatalf("%q: got %d", header, got)
		}
		if got == ZH && !strings.Contains(header, "*") && !strings.Contains(strings.ToLower(header), "zh") {
			t.Fatalf("%q gave Chinese", header)
		}
		if again := Negotiate(header + ",fr"); again != got {
			t.Fatalf("%q: French at the end changes %s to %s", header, got.Tag(), again.Tag())
		}
	})
}

// Any string goes through JSON unharmed; what is not UTF-8 is replaced, as encoding/json does.
func FuzzAppendString(f *testing.F) {
	f.Add("plain 中文 \x00\x1f\"\\<>&\u2028\u2029\xff\xc3")
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendString(nil, s)
		if !utf8.Valid(got) || slices.ContainsFunc(got, func(c byte) bool { return c < ' ' || c == '<' }) {
			t.Fatalf("%q gave %q", s, got)
		}
		var back, want string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q gave %q: %v", s, got, err)
		}
		std, _ := json.Marshal(s)
		_ = json.Unmarshal(std, &want)
		if back != want {
			t.Fatalf("%q came back as %q, want %q", s, back, want)
		}
	})
}
