// Package page holds the buyer page: the list of activities and the page that
// sells one. It is files and their headers, the same for every buyer, so that a
// CDN can keep them; whatever changes, the page's script asks of /v1. It knows
// nothing of HTTP servers: the API looks a path up here and writes what it gets.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
)

// Asset is one answer, ready to be sent.
type Asset struct {
	ContentType  string
	ETag         string // Weak: it names the content, whichever way it is encoded.
	CacheControl string
	CSP          string // Content-Security-Policy; "" when the type needs none.
	Plain        []byte
	Gzip         []byte // For who accepts it; send "Vary: Accept-Encoding" with either.
}

// What caches may do. A page is asked for again after a minute, so that a new
// version is everywhere soon, and is served stale while the origin is busy.
const (
	cachePage = "public, max-age=60, stale-while-revalidate=600, stale-if-error=86400"
	cacheIcon = "public, max-age=86400"
)

// files are named one by one, so that a stray file is not embedded.
//
//go:embed assets/shell.html assets/activity.html assets/list.html assets/page.css assets/texts.json assets/favicon.svg
//go:embed assets/core.js assets/proof.js assets/ticket.js assets/view.js assets/activity.js assets/screen.js assets/list.js
var files embed.FS

// The scripts of each page, in order: they share one scope.
var (
	activityScripts = []string{"core.js", "proof.js", "ticket.js", "view.js", "activity.js", "screen.js"}
	listScripts     = []string{"core.js", "list.js"}
)

var assets = sync.OnceValue(build)

// Get finds what is at a path. It takes any activity's id, also one that there
// is not: the page's script asks the API, and says so. What it returns is
// shared, and must not be changed.
func Get(path string) (Asset, bool) {
	if id, ok := strings.CutPrefix(path, "/a/"); ok && id != "" && !strings.Contains(id, "/") {
		path = "/a/"
	} else if ok {
		return Asset{}, false
	}
	a, ok := assets()[path]
	return a, ok
}

func build() map[string]Asset {
	icon := asset(read("favicon.svg"), "image/svg+xml", cacheIcon, "default-src 'none'; style-src 'unsafe-inline'")
	return map[string]Asset{
		"/":            compose("list.html", listScripts),
		"/a/":          compose("activity.html", activityScripts),
		"/favicon.svg": icon,
		"/favicon.ico": icon,
	}
}

// compose makes one page with its style and script inside: a buyer who comes
// when the sale starts needs a single answer, and cannot get half of it.
func compose(body string, scripts []string) Asset {
	style := string(read("page.css"))
	var script strings.Builder
	script.WriteString("'use strict';\nconst TEXTS = ")
	script.Write(bytes.TrimSpace(read("texts.json")))
	script.WriteString(";\n")
	for _, name := range scripts {
		script.WriteString(lean(string(read(name))))
	}
	html := strings.NewReplacer(
		"<!-- body -->", string(read(body)),
		"/* style */", style,
		"/* script */", script.String(),
	).Replace(string(read("shell.html")))
	return asset([]byte(html), "text/html; charset=utf-8", cachePage, policy(style, script.String()))
}

// lean drops what only readers of the source need: comments that have a line to
// themselves, and indentation. Sources must not have either inside a string.
func lean(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "//") {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// policy allows the page its own style and script, by their hashes, and requests
// to the server it came from. Nothing else, and no other site may frame it: a
// click on "buy" has to be the buyer's own.
func policy(style, script string) string {
	return fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; connect-src 'self'; img-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
		hash(script), hash(style))
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func asset(content []byte, contentType, cacheControl, csp string) Asset {
	sum := sha256.Sum256(content)
	return Asset{
		ContentType:  contentType,
		ETag:         `W/"` + hex.EncodeToString(sum[:8]) + `"`,
		CacheControl: cacheControl,
		CSP:          csp,
		Plain:        content,
		Gzip:         compress(content),
	}
}

// compress cannot fail: it writes to memory, at a level that exists.
func compress(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(content)
	_ = w.Close()
	return b.Bytes()
}

// read cannot fail: the names are those of the embed directive, as a test shows.
func read(name string) []byte {
	content, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err)
	}
	return content
}
