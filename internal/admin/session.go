package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"seckill"
)

// accounts lets people in.
type accounts interface {
	// Check, CheckPassword and CheckRole say everything that is wrong, by the names of the API's fields.
	Check(name, password string, role seckill.Role) []seckill.FieldError
	CheckPassword(password string) []seckill.FieldError
	CheckRole(role seckill.Role) []seckill.FieldError

	// Login checks a password, and makes no difference between a wrong one and a name that is not there.
	Login(ctx context.Context, name, password, from string) (id string, s seckill.Session, err error)
	// LoginByToken lets somebody in who knows the token, FailedToken refuses somebody who does not.
	LoginByToken(ctx context.Context, from string) (id string, s seckill.Session, err error)
	FailedToken(ctx context.Context, from string) error
	Session(ctx context.Context, id string) (seckill.Session, error)
	Logout(ctx context.Context, id string, by seckill.Actor) error

	Accounts(ctx context.Context) ([]seckill.Account, error)
	Add(ctx context.Context, name, password string, role seckill.Role, by seckill.Actor) (seckill.Account, error)
	Change(ctx context.Context, name string, c seckill.AccountChange, by seckill.Actor) (seckill.Account, error)
	Remove(ctx context.Context, name string, by seckill.Actor) error
}

// The cookie's name. Over TLS it has a prefix with which browsers take it from this host alone.
const (
	cookieName       = "seckill_session"
	secureCookieName = "__Host-" + cookieName
)

// isSecure tells whether the browser speaks TLS, with us or with what stands before us.
func isSecure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

func cookieOf(r *http.Request) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if isSecure(r) {
		c.Name, c.Secure = secureCookieName, true
	}
	return c
}

// sessionID is what the browser shows.
func sessionID(r *http.Request) (id string, shown bool) {
	c, err := r.Cookie(cookieOf(r).Name)
	if err != nil || c.Value == "" {
		return "", false
	}
	return c.Value, true
}

// sessionView is who is logged in.
type sessionView struct {
	Name string       `json:"name"`
	Role seckill.Role `json:"role"`
	CSRF string       `json:"csrf"`
}

// people are the routes of sessions and accounts, if there are any.
func (s *Server) people() []route {
	if s.o.Accounts == nil {
		return nil
	}
	return []route{
		{"POST /admin/v1/session", s.login},
		{"GET /admin/v1/session", s.api(func(r *http.Request) (answer, error) {
			c := callerOf(r)
			return answer{status: http.StatusOK, body: sessionView{c.name, c.role, c.csrf}}, nil
		})},
		{"DELETE /admin/v1/session", s.logout},
		{"GET /admin/v1/accounts", s.api(s.listAccounts)},
		{"POST /admin/v1/accounts", s.api(s.addAccount)},
		{"PUT /admin/v1/accounts/{name}", s.api(s.changeAccount)},
		{"DELETE /admin/v1/accounts/{name}", s.api(s.removeAccount)},
	}
}

// login lets somebody in, with the token or with a name and a password.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	s.api(func(r *http.Request) (answer, error) {
		if s.origins.Check(r) != nil {
			return answer{}, foreign
		}
		var b struct {
			Token    *string `json:"token"`
			Name     *string `json:"name"`
			Password *string `json:"password"`
		}
		err := body(r, &b, false)
		var wrong []seckill.FieldError
		require := func(field string, missing bool) {
			if missing {
				wrong = append(wrong, seckill.FieldError{Field: field, Rule: seckill.RuleRequired})
			}
		}
		byToken := b.Token != nil
		require("token", b.Token == nil && b.Name == nil && b.Password == nil || byToken && *b.Token == "")
		require("name", !byToken && b.Password != nil && or(b.Name, "") == "")
		require("password", !byToken && b.Name != nil && or(b.Password, "") == "")
		if byToken && (b.Name != nil || b.Password != nil) {
			wrong = append(wrong, seckill.FieldError{Field: "token", Rule: seckill.RuleFormat, Arg: "given alone, or else a name and a password"})
		}
		if err := merge(err, wrong); err != nil {
			return answer{}, err
		}
		id, session, err := s.open(r, b.Token, or(b.Name, ""), or(b.Password, ""))
		if err != nil {
			return answer{}, err
		}
		c := cookieOf(r)
		c.Value, c.Expires = id, session.EndsAt.UTC()
		http.SetCookie(w, c)
		return answer{status: http.StatusOK, body: sessionView{session.Name, session.Role, session.CSRF}}, nil
	})(w, r)
}

// open opens a session. An address that guesses is slowed down, whatever it guesses.
func (s *Server) open(r *http.Request, token *string, name, password string) (id string, session seckill.Session, err error) {
	from, now := clientAddress(r), time.Now()
	// A try is counted before it is made, so that many at once gain nothing.
	if wait := s.tries.charge(from, now); wait > 0 {
		return "", session, &seckill.Refusal{Reason: seckill.RateLimited, RetryAfter: wait}
	}
	switch {
	case token == nil:
		id, session, err = s.o.Accounts.Login(r.Context(), name, password, from)
	case s.isToken(*token):
		id, session, err = s.o.Accounts.LoginByToken(r.Context(), from)
	default:
		s.o.Log.Warn("admin: a wrong token was tried", "from", from, "method", r.Method, "path", r.URL.Path)
		err = s.o.Accounts.FailedToken(r.Context(), from)
	}
	if err == nil {
		s.tries.forgive(from)
	}
	return id, session, err
}

// isToken compares hashes: they have one length, so that the comparison tells nothing of the token's.
func (s *Server) isToken(given string) bool {
	hash := sha256.Sum256([]byte(strings.TrimSpace(given)))
	return subtle.ConstantTimeCompare(hash[:], s.token[:]) == 1
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.api(func(r *http.Request) (answer, error) {
		if c := callerOf(r); c.session != "" {
			if err := s.o.Accounts.Logout(r.Context(), c.session, seckill.Actor{Who: c.name, From: clientAddress(r)}); err != nil {
				return answer{}, err
			}
		}
		c := cookieOf(r)
		c.MaxAge = -1
		http.SetCookie(w, c)
		return answer{status: http.StatusNoContent}, nil
	})(w, r)
}
