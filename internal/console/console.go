// Package console holds the admin console: the files that web/console is built into, and
// their headers. It knows nothing of sales and answers no API; whatever changes, the
// console asks of /admin/v1. Without Node there are no such files: then it serves a page
// that says how to get them. internal/admin puts it on the admin listener.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The folder holds one file at least, which is in the repository; make console adds the rest.
//
//go:embed all:dist
var built embed.FS

//go:embed missing.html
var missing []byte

const (
	indexName = "index.html"
	assetsDir = "assets/" // What is in it has a hash of its content in its name.
	// gzipFrom is the size, in bytes, from which compressing pays.
	gzipFrom = 1024

	policyRest = "; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	policy     = "default-src 'none'; script-src 'self'; style-src 'self'" + policyRest
)

// file is one answer, ready to be sent.
type file struct {
	contentType, etag, cache, policy string
	plain, zipped                    []byte // zipped is nil where it would not pay.
}

// Handler answers GET and HEAD of "/", and of what the console's page loads. It answers
// nothing else but 404, so that it can be the last of a mux.
func Handler() http.Handler {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // The name is a constant.
	}
	return handler(dist)
}

// Built says whether the console is in this program.
func Built() bool {
	_, err := fs.Stat(built, "dist/"+indexName)
	return err == nil
}

func handler(dist fs.FS) http.Handler {
	// Compressing takes a moment, which a program that nobody looks at need not spend.
	files := sync.OnceValues(func() (map[string]file, error) { return load(dist) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Most of all for what is not there.
		secure(w.Header())
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		all, err := files()
		if err != nil {
			http.Error(w, "The console cannot be read.", http.StatusInternalServerError)
			return
		}
		f, ok := all[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		f.send(w, r)
	})
}

func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
}

func (f *file) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", f.cache)
	h.Set("Content-Security-Policy", f.policy)
	h.Set("ETag", f.etag)
	body := f.plain
	if f.zipped != nil {
		h.Set("Vary", "Accept-Encoding")
		if takesGzip(r) {
			body = f.zipped
			h.Set("Content-Encoding", "gzip")
		}
	}
	if slices.Contains(strings.Split(strings.ReplaceAll(r.Header.Get("If-None-Match"), " ", ""), ","), f.etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // A browser that has gone cannot be told.
	}
}

// takesGzip reads no qualities but that of a no: browsers send none.
func takesGzip(r *http.Request) bool {
	for one := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(one), ";")
		if strings.EqualFold(name, "gzip") && !strings.HasPrefix(strings.ReplaceAll(params, " ", ""), "q=0") {
			return true
		}
	}
	return false
}

// load reads what was built, or the page that is there instead.
func load(dist fs.FS) (map[string]file, error) {
	all := map[string]file{}
	err := fs.WalkDir(dist, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		text, err := fs.ReadFile(dist, name)
		if err != nil {
			return err
		}
		all["/"+name] = prepare(name, text)
		return nil
	})
	if err != nil {
		return nil, err
	}
	index, ok := all["/"+indexName]
	if !ok {
		index = prepare(indexName, missing)
		index.policy = "default-src 'none'; style-src '" + styleHash(missing) + "'" + policyRest
	}
	delete(all, "/"+indexName) // It has one address.
	all["/"] = index
	return all, nil
}

func prepare(name string, text []byte) file {
	hash := sha256.Sum256(text)
	f := file{
		contentType: contentType(name), plain: text, cache: "no-store", policy: policy,
		// Weak: it names the content, whichever way it is encoded.
		etag: `W/"` + hex.EncodeToString(hash[:8]) + `"`,
	}
	switch {
	case strings.HasPrefix(name, assetsDir):
		f.cache = "public, max-age=31536000, immutable"
	case name != indexName:
		f.cache = "no-cache"
	}
	if len(text) >= gzipFrom {
		if zipped := zip(text); len(zipped) < len(text)*9/10 {
			f.zipped = zipped
		}
	}
	return f
}

// contentType asks no table of the system, which differs from one to the next.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

func zip(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // The level is a constant.
	}
	if _, err = w.Write(text); err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // Memory does not fail to be written to.
	}
	return b.Bytes()
}

// styleHash is what a policy calls the one style element of a page.
func styleHash(page []byte) string {
	_, rest, _ := bytes.Cut(page, []byte("<style>"))
	style, _, _ := bytes.Cut(rest, []byte("</style>"))
	hash := sha256.Sum256(style)
	return "sha256-" + base64.StdEncoding.EncodeToString(hash[:])
}
