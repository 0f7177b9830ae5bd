package admin

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strconv"

	"seckill"
	"seckill/internal/problem"
)

// everyone needs no session and no token.
const everyone seckill.Role = ""

// access says what each route takes: the one place where that is decided. A route that is not
// here takes an admin.
func access() map[string]seckill.Role {
	const activity, hook = "/admin/v1/activities/{id}", "/admin/v1/webhooks/{id}"
	return map[string]seckill.Role{
		"GET /{$}":     everyone, // The console's page; what it shows it has to ask for.
		"GET /healthz": everyone,
		"GET /readyz":  everyone,
		"GET /metrics": everyone, // A viewer, where the metrics are set to need it.

		"POST /admin/v1/session":   everyone,
		"GET /admin/v1/session":    seckill.RoleViewer,
		"DELETE /admin/v1/session": seckill.RoleViewer,

		"GET /admin/v1/activities":         seckill.RoleViewer,
		"GET " + activity:                  seckill.RoleViewer,
		"GET " + activity + "/audience":    seckill.RoleViewer,
		"POST " + activity + "/reconcile":  seckill.RoleViewer, // To compare; to repair takes an operator.
		"GET /admin/v1/switches":           seckill.RoleViewer,
		"GET /admin/v1/blocks":             seckill.RoleViewer,
		"GET /admin/v1/dead-letters":       seckill.RoleViewer,
		"GET /admin/v1/orders":             seckill.RoleViewer,
		"GET /admin/v1/audit":              seckill.RoleViewer,
		"GET /admin/v1/live":               seckill.RoleViewer,
		"GET /admin/v1/nodes":              seckill.RoleViewer,
		"GET /admin/v1/plan":               seckill.RoleViewer,
		"GET /admin/v1/webhooks":           seckill.RoleViewer,
		"GET " + hook + "/deliveries":      seckill.RoleViewer,
		"POST /admin/v1/activities":        seckill.RoleOperator,
		"POST " + activity + "/preload":    seckill.RoleOperator,
		"POST " + activity + "/pause":      seckill.RoleOperator,
		"POST " + activity + "/resume":     seckill.RoleOperator,
		"POST " + activity + "/close":      seckill.RoleOperator,
		"POST " + activity + "/restock":    seckill.RoleOperator,
		"POST " + activity + "/rerun":      seckill.RoleOperator,
		"PUT " + activity + "/audience":    seckill.RoleOperator,
		"PUT /admin/v1/switches/{name}":    seckill.RoleOperator,
		"POST /admin/v1/blocks":            seckill.RoleOperator,
		"DELETE /admin/v1/blocks/{id}":     seckill.RoleOperator,
		"POST /admin/v1/orders/{id}/paid":  seckill.RoleOperator,
		"POST " + hook + "/test":           seckill.RoleOperator,
		"POST " + hook + "/enable":         seckill.RoleOperator,
		"POST /admin/v1/webhooks":          seckill.RoleAdmin,
		"DELETE " + hook:                   seckill.RoleAdmin,
		"POST " + hook + "/rotate":         seckill.RoleAdmin,
		"GET /admin/v1/accounts":           seckill.RoleAdmin,
		"POST /admin/v1/accounts":          seckill.RoleAdmin,
		"PUT /admin/v1/accounts/{name}":    seckill.RoleAdmin,
		"DELETE /admin/v1/accounts/{name}": seckill.RoleAdmin,
		"GET /debug/pprof/":                seckill.RoleAdmin, // It slows the node, and shows its memory.

		"POST /admin/v1/dead-letters/{id}/retry":          seckill.RoleOperator,
		"POST /admin/v1/dead-letters/{id}/drop":           seckill.RoleOperator,
		"DELETE /admin/v1/switches/{name}/scheduled/{id}": seckill.RoleOperator,
		"POST " + hook + "/deliveries/{delivery}/retry":   seckill.RoleOperator,
	}
}

// takes is the role that a route takes.
func (s *Server) takes(pattern string) seckill.Role {
	role, ok := access()[pattern]
	switch {
	case !ok:
		return seckill.RoleAdmin
	case pattern == "GET /metrics" && s.o.MetricsAuth:
		return seckill.RoleViewer
	}
	return role
}

// caller is who asks.
type caller struct {
	name    string
	role    seckill.Role
	session string // The id of the session; "" with the token.
	csrf    string
}

type callerKey struct{}

// callerOf is who asks; nobody where a route is for everyone.
func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

// door lets those through whose role is enough.
func (s *Server) door(needed seckill.Role, next http.HandlerFunc) http.Handler {
	if needed == everyone {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := s.admit(r)
		if err == nil && !c.role.May(needed) {
			err = notAllowedTo(needed)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// admit finds out who asks: the token says it, or else the session.
func (s *Server) admit(r *http.Request) (caller, error) {
	id, shown := sessionID(r)
	if r.Header.Values("Authorization") != nil || s.o.Accounts == nil || !shown {
		if refusal := s.admitToken(r); refusal != nil {
			return caller{}, refusal
		}
		return caller{name: seckill.TokenName, role: seckill.RoleAdmin}, nil
	}
	session, err := s.o.Accounts.Session(r.Context(), id)
	switch {
	case errors.Is(err, seckill.ErrNotFound):
		return caller{}, problem.Plain(seckill.Unauthenticated)
	case err != nil:
		return caller{}, err
	}
	c := caller{session.Name, session.Role, id, session.CSRF}
	// The token is sent by who knows it; a cookie by the browser, whoever made it ask.
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		given := r.Header.Values("X-CSRF-Token")
		if s.origins.Check(r) != nil || len(given) != 1 || subtle.ConstantTimeCompare([]byte(given[0]), []byte(c.csrf)) != 1 {
			return c, foreign
		}
	}
	return c, nil
}

// forbidden is a no to somebody who is known: it is no reason that buyers hear, and so it is
// told here.
type forbidden struct{ detail, en, zh string }

func (f *forbidden) Error() string { return "forbidden: " + f.detail }

func notAllowedTo(needed seckill.Role) *forbidden {
	return &forbidden{"This takes the role " + string(needed) + ".", "Your role may not do this.", "您的角色无权执行此操作。"}
}

var foreign = &forbidden{
	"The header X-CSRF-Token has to be what the session says, and the request has to come from the console itself.",
	"This did not come from the console's own page. Reload it and try again.", "该请求并非来自控制台页面本身，请刷新后重试。",
}

func (f *forbidden) write(w http.ResponseWriter, r *http.Request) {
	l := problem.Negotiate(r.Header.Get("Accept-Language"))
	msg := f.en
	if l == problem.ZH {
		msg = f.zh
	}
	b := append([]byte(nil), `{"type":"urn:seckill:problem:forbidden","title":"Forbidden","status":403,"reason":"forbidden","msg":`...)
	b = append(problem.AppendString(b, msg), `,"detail":`...)
	b = append(problem.AppendString(b, f.detail), '}')
	w.Header().Set("Content-Type", problem.ContentType)
	w.Header().Set("Content-Language", l.Tag())
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(http.StatusForbidden)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b) // A caller that has gone cannot be told.
	}
}
