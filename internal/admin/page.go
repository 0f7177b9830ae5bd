package admin

import (
	"crypto/rand"
	_ "embed"
	"html/template"
	"net/http"

	"seckill/internal/problem"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// page says what is here, in the caller's language. It needs no token, and holds nothing
// that would: the browser asks the API with the token that is typed in.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	l := problem.Negotiate(r.Header.Get("Accept-Language"))
	switch r.URL.Query().Get("lang") {
	case "zh":
		l = problem.ZH
	case "en":
		l = problem.EN
	}
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", l.Tag())
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+nonce+"'; style-src 'nonce-"+nonce+
		"'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	data := struct {
		Nonce, Lang string
		ZH          bool
	}{nonce, l.Tag(), l == problem.ZH}
	if err := pageTemplate.Execute(w, data); err != nil {
		s.o.Log.Warn("admin: the page was not sent whole", "error", err)
	}
}
