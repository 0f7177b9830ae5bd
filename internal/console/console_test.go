package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

var made = fstest.MapFS{
	".gitignore":          {Data: []byte("*")},
	"index.html":          {Data: []byte("<!doctype html><script type=module src=./assets/index-Ab1.js></script>")},
	"favicon.svg":         {Data: []byte("<svg/>")},
	"assets/index-Ab1.js": {Data: []byte(strings.Repeat("console.log('秒杀');", 200))},
}

func ask(h http.Handler, method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The page is asked for each time, what has a hash in its name never again.
func TestCaches(t *testing.T) {
	h := handler(made)
	for _, c := range []struct{ path, contentType, cache string }{
		{"/", "text/html; charset=utf-8", "no-store"},
		{"/favicon.svg", "image/svg+xml", "no-cache"},
		{"/assets/index-Ab1.js", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
	} {
		r := ask(h, "GET", c.path)
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != c.contentType || r.Header.Get("Cache-Control") != c.cache {
			t.Errorf("%s: got %d, %q, %q, want 200, %q, %q", c.path, r.StatusCode, r.Header.Get("Content-Type"), r.Header.Get("Cache-Control"), c.contentType, c.cache)
		}
	}
}

// Nothing else is there: not the folder, not its hidden file, not a second address of the page.
func TestServesNothingElse(t *testing.T) {
	h := handler(made)
	for _, path := range []string{"/.gitignore", "/assets/", "/assets", "/index.html", "/../console.go", "/admin/v1/activities", "/nothing"} {
		if r := ask(h, "GET", path); r.StatusCode != 404 {
			t.Errorf("%s: got %d, want 404", path, r.StatusCode)
		}
	}
	if r := ask(h, "POST", "/"); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %d, Allow %q, want 405 and GET, HEAD", r.StatusCode, r.Header.Get("Allow"))
	}
}

// Every answer forbids frames, sniffing, referrers and inline scripts.
func TestHeadersProtect(t *testing.T) {
	for name, h := range map[string]http.Handler{"built": handler(made), "missing": handler(fstest.MapFS{}), "as it is": Handler()} {
		for _, path := range []string{"/", "/nothing", "/favicon.svg"} {
			r := ask(h, "GET", path)
			csp := r.Header.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
				if !strings.Contains(csp, want) {
					t.Errorf("%s, %s: the policy %q lacks %q", name, path, csp, want)
				}
			}
			if strings.Contains(csp, "unsafe") {
				t.Errorf("%s, %s: the policy is unsafe: %q", name, path, csp)
			}
			for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
				if got := r.Header.Get(header); got != want {
					t.Errorf("%s, %s: %s: got %q, want %q", name, path, header, got, want)
				}
			}
		}
	}
}

// Who takes gzip gets it, and the same content; who does not, does not.
func TestCompresses(t *testing.T) {
	h := handler(made)
	plain := text(t, ask(h, "GET", "/assets/index-Ab1.js"))
	r := ask(h, "GET", "/assets/index-Ab1.js", "Accept-Encoding", "br, gzip")
	if r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("got encoding %q, vary %q", r.Header.Get("Content-Encoding"), r.Header.Get("Vary"))
	}
	z, err := gzip.NewReader(bytes.NewReader([]byte(text(t, r))))
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := io.ReadAll(z)
	if err != nil || string(unzipped) != plain || plain != string(made["assets/index-Ab1.js"].Data) {
		t.Fatalf("not the same content (%v)", err)
	}
	if r := ask(h, "GET", "/assets/index-Ab1.js", "Accept-Encoding", "gzip;q=0"); r.Header.Get("Content-Encoding") != "" {
		t.Error("gzip was refused, and sent")
	}
	if r := ask(h, "GET", "/"); r.Header.Get("Content-Encoding") != "" {
		t.Error("a small page was compressed")
	}
}

// A browser that has the content is told so; HEAD has the headers and no body.
func TestConditionalAndHead(t *testing.T) {
	h := handler(made)
	etag := ask(h, "GET", "/favicon.svg").Header.Get("ETag")
	if r := ask(h, "GET", "/favicon.svg", "If-None-Match", `"x", `+etag); r.StatusCode != 304 || text(t, r) != "" {
		t.Errorf("got %d, want 304 without a body", r.StatusCode)
	}
	if r := ask(h, "GET", "/favicon.svg", "If-None-Match", `"x"`); r.StatusCode != 200 {
		t.Errorf("got %d, want 200", r.StatusCode)
	}
	if r := ask(h, "HEAD", "/"); r.StatusCode != 200 || text(t, r) != "" || r.Header.Get("Content-Length") == "0" {
		t.Errorf("HEAD: got %d, length %s", r.StatusCode, r.Header.Get("Content-Length"))
	}
}

// Without the console's files there is a page in both languages that says how to get them.
func TestSaysHowToGetIt(t *testing.T) {
	r := ask(handler(fstest.MapFS{".gitignore": {}}), "GET", "/")
	got := text(t, r)
	if r.StatusCode != 200 || !strings.Contains(got, "make console build") || !strings.Contains(got, "此程序不含控制台") || !strings.Contains(got, "not in this program") {
		t.Errorf("got %d:\n%s", r.StatusCode, got)
	}
	if strings.Contains(r.Header.Get("Content-Security-Policy"), "script-src") {
		t.Error("a page without scripts allows some")
	}
}

// The folder that is embedded keeps the file that git keeps, and nothing unfinished: a page
// whose parts are missing would stay empty.
func TestWhatIsEmbeddedIsWhole(t *testing.T) {
	if _, err := fs.Stat(built, "dist/.gitignore"); err != nil {
		t.Error(err)
	}
	if !Built() {
		return // This program has no console; its page says so, see above.
	}
	h := Handler()
	page := text(t, ask(h, "GET", "/"))
	parts := strings.Split(page, `"./`)
	if len(parts) < 3 {
		t.Fatalf("the page loads nothing:\n%s", page)
	}
	for _, part := range parts[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if r := ask(h, "GET", "/"+name); r.StatusCode != 200 {
			t.Errorf("%s: got %d, want 200", name, r.StatusCode)
		}
	}
	if strings.Contains(page, "<style") || strings.Contains(page, "<script>") {
		t.Error("the page has what its policy forbids")
	}
}
