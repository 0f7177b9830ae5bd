// Package api is the public door: it reads a buyer's request, asks the gate, then the
// stock, and answers. It keeps nothing about activities, tickets or orders itself,
// no request of it waits for the database on the way of a purchase, and it speaks
// of the stock and the orders only through the small interfaces in its files.
//
// To follow a purchase, start at Server.purchase.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/auth"
	"seckill/internal/gate"
	"seckill/internal/page"
	"seckill/internal/telemetry"
	"seckill/internal/tracing"
	"seckill/stock"
)

// Options of a Server. Those without a default are required.
type Options struct {
	Activities activities
	Reserver   reserver
	Outcomes   outcomes
	Desk       desk
	Auth       auth.Authenticator
	Metrics    *telemetry.Metrics

	// Proxies are believed about where a request came from. Default none.
	Proxies auth.Proxies
	Gate    gate.Options // What the door's own gate remembers. Zero is fine.
	// Page finds a file of the buyer page. Nil: there is none.
	Page func(path string) (page.Asset, bool)
	// SimulatePayment lets buyers pay their orders by saying so. Default false.
	SimulatePayment bool

	Log    *slog.Logger     // Default slog.Default.
	Tracer *tracing.Tracer  // Nil, the default: nothing is traced.
	Now    func() time.Time // The clock. Default time.Now.

	ReserveTimeout time.Duration // The longest that a purchase waits for the stock, 2 s; 1 ms to 60 s.
	ReadTimeout    time.Duration // For a whole request, 5 s; 1 ms to 60 s.
	WriteTimeout   time.Duration // For an answer, 10 s; 1 ms to 60 s.
	IdleTimeout    time.Duration // Between two requests, 60 s; 1 ms to 1 h.
	Announce       time.Duration // How long a shutdown is announced to callers while they are still served, 500 ms; 1 ms to 60 s.
	ConnsMax       int           // Connections at once, waiting buyers included, 100,000; from 1.
	StreamsMax     int           // Buyers that wait on a stream of events, 50,000; from 1.
}

// Server is the public door. Its methods may be called concurrently.
type Server struct {
	o       Options
	gate    *gate.Gate
	hub     *hub
	engine  *fasthttp.Server
	calls   sync.Pool
	muffler muffler
	conns   atomic.Int64

	proxyOnce sync.Once     // Whether operators were told of a proxy that is not trusted.
	lingers   chan struct{} // Room for connections that are closed slowly.
	open      connSet
	out       outgoing

	made  time.Time
	clock atomic.Int64 // Time since then, ns, as tick keeps it.

	patience patience
	stopping atomic.Bool // Callers are asked to close their connections.

	ctx    context.Context // Ends when a shutdown runs out of time.
	cancel context.CancelFunc
}

// patience makes the contexts that bound how long requests wait for what is behind the door. Those that begin at about the
// same time share one: one of its own for each purchase is a timer, and a lock that all of them want.
type patience struct {
	parent context.Context
	lasts  time.Duration

	mu   sync.Mutex
	last atomic.Pointer[term]
}

// term is a context and the time from which on another is needed.
type term struct {
	context.Context
	over time.Time
}

// of is the context of what begins now: it ends when that has lasted long enough, or up to a sixteenth sooner.
func (p *patience) of(now time.Time) context.Context {
	if t := p.last.Load(); t != nil && now.Before(t.over) {
		return t.Context
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.last.Load(); t != nil && now.Before(t.over) {
		return t.Context
	}
	over := now.Add(p.lasts / 16)
	ctx, cancel := context.WithDeadline(p.parent, now.Add(p.lasts))
	context.AfterFunc(ctx, cancel) // Nobody knows who still needs it.
	p.last.Store(&term{ctx, over})
	return ctx
}

// Bounds of what one request may bring.
const (
	headerBytesMax = 8 << 10
	bodyBytesMax   = 64 << 10
)

// New makes a door that Serve opens.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	g, err := gate.New(o.Gate)
	if err != nil {
		return nil, fmt.Errorf("make the gate: %w", err)
	}
	s := &Server{o: o, gate: g, made: time.Now(), lingers: make(chan struct{}, lingersMax)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.patience = patience{parent: s.ctx, lasts: o.ReserveTimeout}
	s.calls.New = func() any { return new(call) }
	s.hub = newHub(s)
	s.engine = newEngine(s)
	return s, nil
}

func (o Options) withDefaults() (Options, error) {
	var missing []error
	for name, ok := range map[string]bool{
		"Activities": o.Activities != nil, "Reserver": o.Reserver != nil, "Outcomes": o.Outcomes != nil,
		"Desk": o.Desk != nil, "Auth": o.Auth != nil, "Metrics": o.Metrics != nil,
	} {
		if !ok {
			missing = append(missing, fmt.Errorf("api: Options.%s is required", name))
		}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		def, max time.Duration
	}{
		{"ReserveTimeout", &o.ReserveTimeout, 2 * time.Second, time.Minute},
		{"ReadTimeout", &o.ReadTimeout, 5 * time.Second, time.Minute},
		{"WriteTimeout", &o.WriteTimeout, 10 * time.Second, time.Minute},
		{"IdleTimeout", &o.IdleTimeout, time.Minute, time.Hour},
		{"Announce", &o.Announce, 500 * time.Millisecond, time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < time.Millisecond || *d.value > d.max {
			missing = append(missing, fmt.Errorf("api: Options.%s is %v; want 1ms to %v", d.name, *d.value, d.max))
		}
	}
	if o.ConnsMax == 0 {
		o.ConnsMax = 100_000
	}
	if o.StreamsMax == 0 {
		o.StreamsMax = 50_000
	}
	if o.ConnsMax < 1 || o.StreamsMax < 1 {
		missing = append(missing, errors.New("api: Options.ConnsMax and StreamsMax must be at least 1"))
	}
	return o, errors.Join(missing...)
}

// keepEvery is how often the gate is told which runs there are.
const keepEvery = 10 * time.Second

// Serve answers requests on a listener, until Shutdown or an error of the listener.
func (s *Server) Serve(ln net.Listener) error {
	stop := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { every(keepEvery, stop, func() { s.gate.Keep(s.present) }) })
	beside.Go(func() { every(max(s.slack()/2, time.Millisecond/2), stop, s.tick) })
	defer func() { close(stop); beside.Wait() }()
	if err := s.engine.Serve(&listener{Listener: ln, s: s}); err != nil {
		return fmt.Errorf("serve the public listener: %w", err)
	}
	return nil
}

// every does something again and again until stop is closed.
func every(d time.Duration, stop <-chan struct{}, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			do()
		}
	}
}

// present tells whether a run is the present one of its activity.
func (s *Server) present(run seckill.RunID) bool {
	a, ok := s.o.Activities.Activity(run.Activity)
	return ok && a.Run == run.Run
}

// lastWords is how long answers may take to leave when the time to stop is over.
const lastWords = 250 * time.Millisecond

// Shutdown stops taking connections, answers the requests that are under way, and
// sends waiting buyers away to come back. When ctx ends first, whoever is still there (a
// caller that does not read its answer) is cut off, which is logged and no error.
//
// First it asks callers to close their connections, with each answer: a server that closes one
// itself may do so just when a request is on its way.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.stopping.CompareAndSwap(false, true) {
		announced := time.NewTimer(s.o.Announce)
		select {
		case <-announced.C:
		case <-ctx.Done():
			announced.Stop()
		}
	}
	s.hub.close()
	s.open.hurry()
	err := errors.Join(s.engine.ShutdownWithContext(ctx), s.hub.wait(ctx))
	s.cancel()
	if err != nil && ctx.Err() != nil {
		// Requests that have just been told to give up still get their answer.
		last, done := context.WithTimeout(context.Background(), lastWords)
		defer done()
		if s.engine.ShutdownWithContext(last) != nil || s.hub.wait(last) != nil {
			s.o.Log.Warn("the time to stop is over: callers were cut off", "connections", s.open.cut())
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("shut the public listener down: %w", err)
	}
	return nil
}

// Notify takes in what happened in the stock. It does not block.
func (s *Server) Notify(e stock.Event) {
	s.gate.Notify(e)
	if e.Kind == stock.EventSettled {
		s.hub.wake(e.Ticket)
	}
}

// Level takes in where a run's units are, as read from the stock. It does not block.
func (s *Server) Level(run seckill.RunID, l stock.Level) { s.gate.Level(run, l) }

// muffler lets one line a second through, and counts the others: when the stock is
// away, every request fails in the same way.
type muffler struct {
	second  atomic.Int64
	skipped atomic.Int64
}

// unknown logs an error whose effect is not known. Refusals never come here.
func (s *Server) unknown(what string, err error, about []slog.Attr) {
	now := time.Now().Unix()
	if last := s.muffler.second.Load(); last == now || !s.muffler.second.CompareAndSwap(last, now) {
		s.muffler.skipped.Add(1)
		return
	}
	about = append(about, slog.Any("error", err), slog.Int64("more", s.muffler.skipped.Swap(0)))
	s.o.Log.LogAttrs(s.ctx, slog.LevelWarn, what+" failed; the caller was told busy", about...) //nolint:sloglint // What is one of a few constants.
}
