package api

import (
	"strings"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/problem"
)

// page answers with a file of the buyer page.
func (s *Server) page(c *call, path string) {
	a, ok := s.o.Page(path)
	if !ok {
		c.refuse(problem.Plain(seckill.NotFound))
		return
	}
	res := &c.ctx.Response
	h := &res.Header
	h.SetCanonical(hETag, []byte(a.ETag))
	h.SetCanonical(hCacheControl, []byte(a.CacheControl))
	h.SetCanonical(hVary, []byte("Accept-Encoding"))
	h.SetCanonical(hNoSniff, vNoSniff)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "SAMEORIGIN")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if a.CSP != "" {
		h.Set("Content-Security-Policy", a.CSP)
	}
	if matches(c.ifNoneMatch, a.ETag) {
		res.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	h.SetContentType(a.ContentType)
	body := a.Plain
	if len(a.Gzip) > 0 && acceptsGzip(c.acceptEncoding) {
		h.SetContentEncoding("gzip")
		body = a.Gzip
	}
	res.SetBodyRaw(body)
}

// acceptsGzip reads an Accept-Encoding. A quality of zero means "not this one".
func acceptsGzip(accept string) bool {
	star := false
	for accept != "" {
		var one string
		one, accept, _ = strings.Cut(accept, ",")
		coding, params, _ := strings.Cut(one, ";")
		_, q, weighed := strings.Cut(params, "=")
		yes := !weighed || strings.Trim(q, " 0.") != ""
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return yes
		case "*":
			star = yes
		}
	}
	return star
}
