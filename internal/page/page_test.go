package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wireBytesMax is what a page may cost over the wire. 50 KB are allowed; this is
// what it needs, so that growth is noticed.
const wireBytesMax = 20 << 10

func get(t *testing.T, path string) Asset {
	t.Helper()
	a, ok := Get(path)
	if !ok {
		t.Fatalf("there is nothing at %s", path)
	}
	return a
}

// A page is one answer, and a small one.
func TestPagesAreSmall(t *testing.T) {
	for _, path := range []string{"/", "/a/1"} {
		a := get(t, path)
		if len(a.Gzip) > wireBytesMax {
			t.Errorf("%s: %d bytes compressed, want at most %d", path, len(a.Gzip), wireBytesMax)
		}
		t.Logf("%s: %d bytes, %d compressed", path, len(a.Plain), len(a.Gzip))
	}
}

// Whoever takes gzip gets the same content.
func TestGzipIsTheSameContent(t *testing.T) {
	for path, a := range assets() {
		r, err := gzip.NewReader(bytes.NewReader(a.Gzip))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, a.Plain) {
			t.Errorf("%s: the compressed content is another", path)
		}
	}
}

// The page of an activity is the same whatever the id, so a CDN keeps it once.
func TestOnePageForAllActivities(t *testing.T) {
	one := get(t, "/a/1")
	for _, path := range []string{"/a/2", "/a/9223372036854775807", "/a/none-such"} {
		if got := get(t, path); got.ETag != one.ETag {
			t.Errorf("%s: got the page %s, want %s", path, got.ETag, one.ETag)
		}
	}
}

func TestNothingElseIsServed(t *testing.T) {
	for _, path := range []string{"", "/a", "/a/", "/a/1/", "/a/1/2", "/index.html", "/assets/core.js", "/page.css", "/../go.mod"} {
		if _, ok := Get(path); ok {
			t.Errorf("%q is served", path)
		}
	}
}

// What caches and browsers are told is complete, and changes with the content.
func TestHeaders(t *testing.T) {
	tags := map[string]string{}
	for path, a := range assets() {
		if a.ContentType == "" || a.CacheControl == "" || a.CSP == "" || len(a.Plain) == 0 {
			t.Errorf("%s lacks something: %q %q %q, %d bytes", path, a.ContentType, a.CacheControl, a.CSP, len(a.Plain))
		}
		if !regexp.MustCompile(`^W/"[0-9a-f]{16}"$`).MatchString(a.ETag) {
			t.Errorf("%s: got ETag %s", path, a.ETag)
		}
		if other, ok := tags[a.ETag]; ok && !strings.HasPrefix(path, "/favicon") {
			t.Errorf("%s and %s have the same ETag", path, other)
		}
		tags[a.ETag] = path
	}
}

var (
	inline    = regexp.MustCompile(`(?s)<(script|style)>(.*?)</(script|style)>`)
	attribute = regexp.MustCompile(`\s(?:on[a-z]+|style)="`)
	address   = regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
)

// The policy allows the style and the script that are in the page by their
// hashes, and neither anything inline nor anybody else's.
func TestPolicyFitsThePage(t *testing.T) {
	for _, path := range []string{"/", "/a/1"} {
		a := get(t, path)
		found := inline.FindAllSubmatch(a.Plain, -1)
		if len(found) != 2 {
			t.Fatalf("%s: got %d scripts and styles, want one of each", path, len(found))
		}
		for _, m := range found {
			sum := sha256.Sum256(m[2])
			want := string(m[1]) + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"
			if !strings.Contains(a.CSP, want) {
				t.Errorf("%s: the policy %q lacks %q", path, a.CSP, want)
			}
		}
		if strings.Contains(a.CSP, "unsafe") || !strings.HasPrefix(a.CSP, "default-src 'none';") {
			t.Errorf("%s: got the policy %q", path, a.CSP)
		}
		if bad := attribute.Find(a.Plain); bad != nil {
			t.Errorf("%s has the attribute %q, which the policy forbids", path, bad)
		}
		if placeholder := regexp.MustCompile(`/\* (?:style|script) \*/|<!-- body -->`).Find(a.Plain); placeholder != nil {
			t.Errorf("%s still has the placeholder %q", path, placeholder)
		}
	}
}

// Nobody else hears that a buyer is here. The SVG namespace is a name only.
func TestPagesNameNoThirdParty(t *testing.T) {
	for path, a := range assets() {
		text := strings.ReplaceAll(string(a.Plain), "http://www.w3.org/2000/svg", "")
		if found := address.FindString(text); found != "" {
			t.Errorf("%s names %s", path, found)
		}
	}
}

func texts(t *testing.T) map[string][]string {
	t.Helper()
	table := map[string][]string{}
	if err := json.Unmarshal(read("texts.json"), &table); err != nil {
		t.Fatal(err)
	}
	return table
}

var (
	placeholder = regexp.MustCompile(`\{\w+\}`)
	anyLetter   = regexp.MustCompile(`[A-Za-z]`)
	chinese     = regexp.MustCompile(`\p{Han}`)
)

// Each text is there in English and in Chinese, and both say the same figures.
func TestTextsAreInBothLanguages(t *testing.T) {
	for key, both := range texts(t) {
		if len(both) != 2 || strings.TrimSpace(both[0]) == "" || strings.TrimSpace(both[1]) == "" {
			t.Errorf("%s: got %q, want English and Chinese", key, both)
			continue
		}
		values := func(s string) []string {
			found := placeholder.FindAllString(s, -1)
			slices.Sort(found)
			return found
		}
		if en, zh := values(both[0]), values(both[1]); !slices.Equal(en, zh) {
			t.Errorf("%s: English has %q, Chinese %q", key, en, zh)
		}
		if key == "other_language" {
			both = []string{both[1], both[0]}
		}
		letters := anyLetter.MatchString(placeholder.ReplaceAllString(both[0], ""))
		if chinese.MatchString(both[0]) || letters && !chinese.MatchString(both[1]) {
			t.Errorf("%s: got %q, want English first, then Chinese", key, both)
		}
	}
}

// A text could end the script early, since it stands in the page as it is.
func TestTextsCannotEndTheScript(t *testing.T) {
	names, err := fs.Glob(files, "assets/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "assets/texts.json") {
		content := string(read(strings.TrimPrefix(name, "assets/")))
		if strings.Contains(content, "</") || strings.Contains(content, "<!--") {
			t.Errorf("%s has \"</\" or \"<!--\"", name)
		}
		// lean would take such lines for comments, or change what they say.
		if strings.Contains(content, "/*") && regexp.MustCompile(`(?m)^\s*/?\*`).MatchString(content) {
			t.Errorf("%s has a comment of several lines, which lean does not know", name)
		}
	}
}

var (
	usedKey = regexp.MustCompile(`\bt\('([a-z_]+)'`)
	quoted  = regexp.MustCompile(`'([a-z_]+)'`)
	suffix  = regexp.MustCompile(`_(?:title|text)$`)
)

// A key that a script asks for exists, and one that none asks for is gone.
func TestTextsAreTheOnesUsed(t *testing.T) {
	table := texts(t)
	words := map[string]bool{}
	for _, name := range slices.Concat(activityScripts, listScripts) {
		script := string(read(name))
		for _, m := range usedKey.FindAllStringSubmatch(script, -1) {
			if table[m[1]] == nil && !strings.HasSuffix(m[1], "_") {
				t.Errorf("%s asks for the text %q, which there is not", name, m[1])
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(script, -1) {
			words[m[1]] = true
		}
	}
	for key := range table {
		state, isState := strings.CutPrefix(key, "state_")
		bare := suffix.ReplaceAllString(key, "")
		if !words[key] && !words[bare] && !(isState && state != "") && !refusals[bare] {
			t.Errorf("no script asks for the text %q", key)
		}
	}
}

// refusals are the reasons that come from the API, and are said in the page's
// own words. What is not here is said in the API's.
var refusals = map[string]bool{
	"unauthenticated": true, "blocked": true, "rate_limited": true, "paused": true, "busy": true, "not_started": true,
	"ended": true, "not_eligible": true, "already_purchased": true, "sold_out": true, "internal": true,
}

// Each refusal that a buyer meets without a fault of the page has words.
func TestRefusalsHaveWords(t *testing.T) {
	table := texts(t)
	for reason := range refusals {
		if table[reason+"_title"] == nil || table[reason+"_text"] == nil {
			t.Errorf("%s lacks a title or a text", reason)
		}
	}
}
