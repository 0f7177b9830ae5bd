package admin

import (
	"net/http"
	"net/http/pprof"
)

// profiles are the routes of net/http/pprof, but for the command line, which may hold
// secrets.
func profiles() []route {
	// One pattern for all: a mux takes no method's prefix beside a path under it.
	return []route{{"GET /debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/debug/pprof/profile":
			pprof.Profile(w, r)
		case "/debug/pprof/symbol":
			pprof.Symbol(w, r)
		case "/debug/pprof/trace":
			pprof.Trace(w, r)
		default:
			pprof.Index(w, r)
		}
	}}}
}

type healthView struct {
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, healthView{Status: "ok"})
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.o.Ready(); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, healthView{"not ready", err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, healthView{Status: "ready"})
}
