package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"seckill"
	"seckill/internal/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func secret(word string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(word, 8)))
}

// receiver serves on loopback until the test ends.
func receiver(t testing.TB, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func private(t testing.TB, timeout time.Duration) *webhook.Client {
	c := webhook.NewClient(webhook.ClientOptions{AllowPrivate: true, Timeout: timeout})
	t.Cleanup(c.Close)
	return c
}

// A receiver that follows the specification accepts what is sent, with the present secret and with the
// one before; and nothing that was changed on the way.
func TestRequestsAreSigned(t *testing.T) {
	var header http.Header
	var body []byte
	url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	target := seckill.WebhookTarget{ID: 1, URL: url + "/hook?a=b", Secrets: []string{secret("new1"), secret("old1")}}
	a := private(t, 0).Send(t.Context(), target, "msg_7", []byte(`{"type":"order.paid"}`))
	if a.Err != nil || a.Status != 204 {
		t.Fatalf("answered %+v", a)
	}
	if string(body) != `{"type":"order.paid"}` || header.Get("Content-Type") != "application/json" || header.Get("webhook-id") != "msg_7" {
		t.Errorf("received %s with %v", body, header)
	}
	for _, word := range []string{"new1", "old1", "none"} {
		w, err := standardwebhooks.NewWebhook(secret(word))
		must(t, err)
		if err := w.Verify(body, header); (err == nil) != (word != "none") {
			t.Errorf("verified with %s: %v", word, err)
		}
		if w.Verify([]byte(`{"type":"order.paiD"}`), header) == nil {
			t.Errorf("with %s another body is verified", word)
		}
	}
	for _, name := range []string{"webhook-id", "webhook-timestamp"} {
		changed := header.Clone()
		changed.Set(name, "1"+header.Get(name))
		w, err := standardwebhooks.NewWebhook(secret("new1"))
		must(t, err)
		if w.VerifyIgnoringTimestamp(body, changed) == nil {
			t.Errorf("another %s is verified", name)
		}
	}
}

// Only 2xx is received; where it leads is not followed, and it is not waited for for ever.
func TestAnswers(t *testing.T) {
	var followed atomic.Bool
	released := make(chan struct{})
	url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/200", "/204", "/302", "/307", "/404", "/410", "/500":
			w.Header().Set("Location", "/followed")
			var status int
			_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
			w.WriteHeader(status)
		case "/followed":
			followed.Store(true)
		case "/headers":
			for i := range 100 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
			}
		case "/hang":
			<-released
		case "/hang-in-body":
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-released
		case "/busy":
			w.Header().Set("Retry-After", r.URL.RawQuery)
			w.WriteHeader(429)
		}
	})
	defer close(released)
	c := private(t, 300*time.Millisecond)
	send := func(path string) webhook.Answer {
		return c.Send(t.Context(), seckill.WebhookTarget{URL: url + path, Secrets: []string{secret("1234")}}, "msg_1", []byte("{}"))
	}
	for path, want := range map[string]string{
		"/200": "200 <nil>", "/204": "204 <nil>", "/hang-in-body": "200 <nil>",
		"/302": "302 status 302: redirects are not followed", "/307": "307 status 307: redirects are not followed",
		"/404": "404 status 404", "/410": "410 status 410", "/500": "500 status 500",
	} {
		if a := send(path); fmt.Sprint(a.Status, " ", a.Err) != want {
			t.Errorf("%s: got %d %v, want %s", path, a.Status, a.Err, want)
		}
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
	if a := send("/headers"); a.Err == nil {
		t.Errorf("100 kB of headers: %+v", a)
	}
	if a := send("/hang"); a.Err == nil || !strings.HasPrefix(a.Err.Error(), "no answer in time") || strings.Contains(a.Err.Error(), url) {
		t.Errorf("hanging: %v, want no answer in time, without the address", a.Err)
	}
	for text, want := range map[string]time.Duration{
		"7": 7 * time.Second, "999999": time.Hour, "-1": 0, "x": 0, "": 0, "Mon,%2002%20Jan%202006": 0, "99999999999999999999": 0,
	} {
		if a := send("/busy?" + text); a.Status != 429 || a.RetryAfter != want {
			t.Errorf("Retry-After: %s: %+v, want %v", text, a, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := c.Send(ctx, seckill.WebhookTarget{URL: url + "/200", Secrets: []string{secret("1234")}}, "msg_1", nil)
	if !errors.Is(a.Err, context.Canceled) {
		t.Errorf("cancelled: %v", a.Err)
	}
}

// What a receiver says is not read to the end, be there time enough or not.
func TestLongAnswersAreNotRead(t *testing.T) {
	url := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 14 { // A gigabyte, if somebody takes it.
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
		t.Error("a gigabyte was read")
	})
	a := private(t, time.Minute).Send(t.Context(), seckill.WebhookTarget{URL: url, Secrets: []string{secret("1234")}}, "msg_1", []byte("{}"))
	if a.Status != 200 || a.Err != nil {
		t.Errorf("got %+v, want it received", a)
	}
}

// A secret that cannot be read is not shown.
func TestABrokenSecretIsNotShown(t *testing.T) {
	a := private(t, 0).Send(t.Context(), seckill.WebhookTarget{URL: "http://127.0.0.1:1/", Secrets: []string{"whsec_§§SECRET"}}, "msg_1", nil)
	if a.Err == nil || strings.Contains(a.Err.Error(), "SECRET") {
		t.Errorf("got %v", a.Err)
	}
}

// An address is judged again when a connection is made: a name that was public when it was registered
// may lead elsewhere by then. No connection is made, to whatever form of address.
func TestPrivateAddressesAreRefusedWhenDialled(t *testing.T) {
	var asked atomic.Int32
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }), ReadHeaderTimeout: time.Second}
	go func() { _ = s.Serve(listener) }()
	defer func() { must(t, s.Close()) }()
	var port string
	_, port, err = net.SplitHostPort(listener.Addr().String())
	must(t, err)
	c := webhook.NewClient(webhook.ClientOptions{Timeout: 5 * time.Second, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil // When it is registered, all is well.
	}})
	defer c.Close()
	if wrong := c.Check(t.Context(), "https://localhost/"); wrong != nil {
		t.Fatalf("registering: %v", wrong)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"} {
		for _, scheme := range []string{"http", "https"} {
			a := c.Send(t.Context(), seckill.WebhookTarget{URL: scheme + "://" + net.JoinHostPort(strings.Trim(host, "[]"), port), Secrets: []string{secret("1234")}}, "msg_1", nil)
			if a.Err == nil || !strings.Contains(a.Err.Error(), "is not a public address") {
				t.Errorf("%s://%s: got %v", scheme, host, a.Err)
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the private server was asked %d times", n)
	}
}

// The example of the documentation is one that a receiver accepts.
func TestTheDocumentedExampleIsSigned(t *testing.T) {
	text, err := os.ReadFile("../../docs/webhooks.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "POST /hooks HTTP/1.1\n")
	head, rest, _ := strings.Cut(rest, "\n\n")
	body, _, found := strings.Cut(rest, "\n```")
	header := http.Header{}
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		header.Set(name, value)
	}
	_, with, _ := strings.Cut(string(text), "signed with `")
	with, _, _ = strings.Cut(with, "`")
	w, err := standardwebhooks.NewWebhook(with)
	must(t, err)
	if err := w.VerifyIgnoringTimestamp([]byte(body), header); err != nil || !found || !json.Valid([]byte(body)) {
		t.Errorf("%v: %v %s", err, header, body)
	}
}
