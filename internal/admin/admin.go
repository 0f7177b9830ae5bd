// Package admin is the operators' door: the admin HTTP API, metrics, profiles, health and
// readiness, and the console. It finds out who asks and what
// his role may, reads and answers; it decides nothing and knows no driver. It serves no buyer.
//
// One file per resource. internal/app gives it what it needs of its neighbours.
package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"seckill"
	"seckill/internal/problem"
	"seckill/internal/telemetry"
)

// Bounds of requests.
const (
	bodyBytesMax   = 1 << 20
	reasonBytesMax = 512
	pageMax        = 1000
	pageDefault    = 100
	// requestTimeout bounds what a request may wait for database and stock.
	requestTimeout = 15 * time.Second
)

// Options of a [Server].
type Options struct {
	Operator   operator   // Required.
	Levels     levels     // Required.
	Books      books      // Required.
	Reconciler reconciler // Required.
	Desk       desk       // Required.
	// RetryDead tries to write a dead letter again, at once. Required.
	RetryDead func(ctx context.Context, id int64, by seckill.Actor) (Retry, error)
	Audit     auditLog // Required.

	// Switches, Blocks and Audiences are the control state; each may be nil, and is not there then.
	Switches  switchboard
	Blocks    blocks
	Audiences audiences
	// Webhooks may be nil, and are not there then.
	Webhooks webhooks
	// Accounts lets people in with a session. Nil: only those who know the token.
	Accounts accounts
	// Live is what consoles show. May be nil.
	Live feed
	// Nodes lists the processes that serve, and tells the time by which they were seen. May be nil.
	Nodes func(ctx context.Context) ([]seckill.Node, time.Time, error)
	// Console answers for the console's page and what it loads.
	Console http.Handler
	// Guards tells what acts by itself, and why it acted. May be nil.
	Guards func() []seckill.Guard
	// PurchaseRate tells how many purchases a second are asked for now, if that is known. May be nil.
	PurchaseRate func() (perSecond float64, known bool)

	Metrics *telemetry.Metrics // Required.
	Log     *slog.Logger       // Required.

	Token       string // What callers have to know who have no session. Required.
	MetricsAuth bool   // Whether /metrics needs the token, too.
	// HealthOnly leaves health, readiness, metrics and profiles: this node is no console.
	HealthOnly bool
	// Ready says why this node is not ready, or nil. Required.
	Ready func() error
}

// Server answers operators. It is an [http.Handler].
type Server struct {
	o       Options
	token   [sha256.Size]byte
	tries   tries
	origins *http.CrossOriginProtection
	handler http.Handler

	ended      context.Context // Ends the streams.
	endStreams context.CancelFunc
}

// New makes a server.
func New(o Options) (*Server, error) {
	if o.Operator == nil || o.Levels == nil || o.Books == nil || o.Reconciler == nil || o.Desk == nil ||
		o.RetryDead == nil || o.Audit == nil || o.Metrics == nil || o.Log == nil || o.Ready == nil || o.Console == nil {
		return nil, errors.New("admin: every option but MetricsAuth is required")
	}
	if o.Token == "" {
		return nil, errors.New("admin: a token is required")
	}
	s := &Server{o: o, token: sha256.Sum256([]byte(o.Token)), tries: newTries(), origins: http.NewCrossOriginProtection()}
	s.ended, s.endStreams = context.WithCancel(context.Background())
	s.handler = s.guard(s.mux(s.routes()))
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// route is one request that is answered.
type route struct {
	pattern string // "METHOD /path"; access says what it takes.
	handler http.HandlerFunc
}

// routes lists what is answered. What is not given in the options is not there.
func (s *Server) routes() []route {
	const activity = "/admin/v1/activities/{id}"
	metrics := promhttp.HandlerFor(s.o.Metrics.Registry, promhttp.HandlerOpts{})
	routes := []route{
		{"GET /{$}", s.o.Console.ServeHTTP},
		{"GET /healthz", s.health},
		{"GET /readyz", s.ready},
		{"GET /metrics", metrics.ServeHTTP},

		{"POST /admin/v1/activities", s.api(s.createActivity)},
		{"GET /admin/v1/activities", s.api(s.listActivities)},
		{"GET " + activity, s.api(s.getActivity)},
		{"POST " + activity + "/preload", s.api(s.command(s.o.Operator.Preload))},
		{"POST " + activity + "/pause", s.api(s.command(s.o.Operator.Pause))},
		{"POST " + activity + "/resume", s.api(s.command(s.o.Operator.Resume))},
		{"POST " + activity + "/close", s.api(s.command(s.o.Operator.Close))},
		{"POST " + activity + "/restock", s.api(s.restock)},
		{"POST " + activity + "/rerun", s.api(s.rerun)},
		{"POST " + activity + "/reconcile", s.api(s.reconcile)},

		{"GET /admin/v1/dead-letters", s.api(s.listDead)},
		{"POST /admin/v1/dead-letters/{id}/retry", s.api(s.retryDead)},
		{"POST /admin/v1/dead-letters/{id}/drop", s.api(s.dropDead)},
		{"POST /admin/v1/orders/{id}/paid", s.api(s.orderPaid)},
		{"GET /admin/v1/audit", s.api(s.listAudit)},
		{"GET /admin/v1/orders", s.api(s.listOrders)},
		{"GET /admin/v1/plan", s.api(s.planned)},
	}
	routes = append(routes, s.control()...)
	routes = append(routes, s.people()...)
	if s.o.Live != nil {
		routes = append(routes, route{"GET /admin/v1/live", s.live})
	}
	if s.o.Nodes != nil {
		routes = append(routes, route{"GET /admin/v1/nodes", s.api(s.listNodes)})
	}
	routes = append(routes, s.hooks()...)
	if s.o.HealthOnly {
		routes = slices.DeleteFunc(routes, func(r route) bool {
			return strings.Contains(r.pattern, "/admin/") || r.pattern == "GET /{$}"
		})
	}
	return append(routes, profiles()...)
}

// mux gives each route its door. On the same paths it answers other methods with those that there are.
func (s *Server) mux(routes []route) *http.ServeMux {
	mux := http.NewServeMux()
	paths := map[string][]string{}
	takes := map[string]seckill.Role{}
	for _, r := range routes {
		method, path, _ := strings.Cut(r.pattern, " ")
		paths[path] = append(paths[path], method)
		needed := s.takes(r.pattern)
		if needed != everyone {
			takes[path] = seckill.RoleViewer
		}
		mux.Handle(r.pattern, s.door(needed, r.handler))
	}
	for path, methods := range paths {
		mux.Handle(path, s.door(takes[path], notAllowed(methods)))
	}
	// What is not there is not told to those who may not see what is.
	mux.Handle("/admin/", s.door(seckill.RoleViewer, notFound))
	if !s.o.HealthOnly {
		mux.Handle("/", s.o.Console)
	} else {
		mux.Handle("/", http.HandlerFunc(notFound))
	}
	return mux
}

// control is the routes of the control state, as far as it is there.
func (s *Server) control() (routes []route) {
	if s.o.Switches != nil {
		routes = append(routes,
			route{"GET /admin/v1/switches", s.api(s.listSwitches)},
			route{"PUT /admin/v1/switches/{name}", s.api(s.setSwitch)},
			route{"DELETE /admin/v1/switches/{name}/scheduled/{id}", s.api(s.cancelSwitch)})
	}
	if s.o.Blocks != nil {
		routes = append(routes,
			route{"GET /admin/v1/blocks", s.api(s.listBlocks)},
			route{"POST /admin/v1/blocks", s.api(s.addBlock)},
			route{"DELETE /admin/v1/blocks/{id}", s.api(s.removeBlock)})
	}
	if s.o.Audiences != nil {
		routes = append(routes,
			route{"GET /admin/v1/activities/{id}/audience", s.api(s.getAudience)},
			route{"PUT /admin/v1/activities/{id}/audience", s.uploads(s.setAudience)})
	}
	return routes
}

func notFound(w http.ResponseWriter, r *http.Request) {
	problem.Write(w, r, problem.Plain(seckill.NotFound))
}

// notAllowed answers requests whose path is known and whose method is not.
func notAllowed(methods []string) http.HandlerFunc {
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		l := problem.Negotiate(r.Header.Get("Accept-Language"))
		refusal := &seckill.Refusal{Reason: seckill.InvalidRequest, Detail: "This address answers " + allow + "."}
		w.Header().Set("Allow", allow)
		w.Header().Set("Content-Type", problem.ContentType)
		w.Header().Set("Content-Language", l.Tag())
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = w.Write(problem.Append(nil, refusal, http.StatusMethodNotAllowed, l)) // A caller that has gone cannot be told.
	}
}

// guard is around everything: headers that always hold, and the end of a panic.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		defer func() {
			fault := recover()
			if fault == nil {
				return
			}
			if fault == http.ErrAbortHandler { //nolint:errorlint // The documented sentinel of a panic, never wrapped.
				panic(fault)
			}
			s.o.Log.Error("admin: a handler panicked", "method", r.Method, "path", r.URL.Path, "panic", fault, "stack", stack())
			problem.Write(w, r, problem.Plain(seckill.Internal))
		}()
		next.ServeHTTP(w, r)
	})
}

// secure sets what holds of every answer; a page has its own policy.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// answer is what a request of the API is answered with.
type answer struct {
	status   int
	location string
	body     any
}

// api makes a handler of a function that answers or fails.
func (s *Server) api(handle func(r *http.Request) (answer, error)) http.HandlerFunc {
	return s.apiWithin(requestTimeout, bodyBytesMax, handle)
}

// apiWithin is api with bounds of its own.
func (s *Server) apiWithin(timeout time.Duration, bytesMax int64, handle func(r *http.Request) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, bytesMax)
		a, err := handle(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if a.location != "" {
			w.Header().Set("Location", a.location)
		}
		if a.status == http.StatusNoContent {
			w.WriteHeader(a.status)
			return
		}
		writeJSON(w, a.status, a.body)
	}
}

// fail answers with a refusal. An error that is none is logged here, where it ends.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if no, ok := errors.AsType[*forbidden](err); ok {
		no.write(w, r)
		return
	}
	refusal := problem.Of(err)
	if refusal == problem.Plain(seckill.Busy) {
		refusal = &seckill.Refusal{Reason: seckill.Busy, Detail: "It is not known whether this was done; look before repeating it."}
		if r.Method == http.MethodGet {
			refusal.Detail = "The database or the stock cannot be asked now."
		}
		s.o.Log.Error("admin: a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	problem.Write(w, r, refusal)
}
