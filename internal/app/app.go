// Package app puts the program together. It is the only package that knows every stage
// and every driver, and nothing but internal/cli knows it.
//
// New opens everything and binds the listeners, so that the addresses are known;
// Run serves until its context ends, and then stops in the order in which nothing
// that was promised is lost.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill"
	"seckill/internal/account"
	"seckill/internal/activity"
	"seckill/internal/admin"
	"seckill/internal/api"
	"seckill/internal/auth"
	"seckill/internal/config"
	"seckill/internal/control"
	"seckill/internal/entry"
	"seckill/internal/gate"
	"seckill/internal/intake"
	"seckill/internal/live"
	"seckill/internal/order"
	"seckill/internal/page"
	"seckill/internal/reconcile"
	"seckill/internal/reserve"
	"seckill/internal/sqlstore"
	"seckill/internal/telemetry"
	"seckill/internal/tracing"
	"seckill/internal/webhook"
	"seckill/queue"
	"seckill/stock"
)

// App is one process of the program.
type App struct {
	config config.Config
	log    *slog.Logger

	database   *sqlstore.DB
	stock      stock.Stock
	broker     queue.Queue  // Nil where the stock's outbox is the queue.
	queue      queue.Source // What the order writer reads.
	board      *control.Board
	backlog    *intake.Backlog
	ring       *entry.Ring
	door       *entry.Door
	limits     gate.Limits
	metrics    *telemetry.Metrics
	tracer     *tracing.Tracer // Nil: nothing is traced.
	registry   *activity.Registry
	keeper     *activity.Keeper
	operator   *activity.Operator
	reserver   *reserve.Reserver
	desk       *order.Desk
	reconciler *reconcile.Reconciler
	identity   auth.Authenticator
	public     *api.Server
	webhooks   *webhook.Client
	accounts   *account.Desk
	live       *live.Reporter
	console    *admin.Server
	admin      *http.Server

	id, version  string // Of this process, and of the program.
	started      time.Time
	dead         atomic.Pointer[map[seckill.RunID]int64] // Units among the dead letters, as last read.
	queueTrouble atomic.Pointer[string]                  // Why the queue could not be asked last; nil if it could.

	publicListener net.Listener
	certificate    *certificate // Nil without TLS.
	adminListener  net.Listener

	draining atomic.Bool
	stops    []stop
}

// stop undoes one thing that New did.
type stop struct {
	name string
	undo func() error
}

// onStop notes how something that was just opened is closed. Stopping goes backwards.
func (a *App) onStop(name string, undo func() error) {
	a.stops = append(a.stops, stop{name, undo})
}

func (a *App) close() error {
	var errs []error
	for _, s := range slices.Backward(a.stops) {
		if err := s.undo(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", s.name, err))
		}
	}
	a.stops = nil
	return errors.Join(errs...)
}

// New opens the database (and brings its schema up to date) and the stock, and binds
// both listeners. What it opened is closed again by Run, or by New itself if it fails. The
// metrics call this build by its version.
func New(ctx context.Context, c config.Config, version string, log *slog.Logger) (_ *App, err error) {
	a := &App{config: c, log: log, metrics: telemetry.New(version), id: rand.Text(), version: version, started: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if err := a.openTraces(ctx, version); err != nil {
		return nil, err
	}
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	if err := a.wire(); err != nil {
		return nil, err
	}
	if err := a.listen(); err != nil {
		return nil, err
	}
	// A node that knows no activities would tell buyers that there are none.
	if err := a.registry.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("read the activities: %w", err)
	}
	return a, nil
}

// open opens what outlives the process.
func (a *App) open(ctx context.Context) (err error) {
	if a.database, err = openDatabase(ctx, &a.config); err != nil {
		return err
	}
	a.onStop("database", a.database.Close)
	if err := a.database.Migrate(ctx); err != nil {
		return fmt.Errorf("bring the database's schema up to date: %w", err)
	}
	if a.stock, err = openStock(ctx, &a.config, a.log); err != nil {
		return err
	}
	a.onStop("stock", a.stock.Close)
	if err := a.bind(ctx); err != nil {
		return err
	}
	if err := a.openQueue(ctx); err != nil {
		return err
	}
	return a.openAccess(ctx)
}

// wire makes the stages and joins them. It is one straight line on purpose: cut into
// helpers it would only hand everything from one to the next.
func (a *App) wire() (err error) {
	a.registry, err = activity.NewRegistry(activity.RegistryOptions{
		Store: a.database, Stock: a.stock, Log: a.log,
		OnLevel: func(run seckill.RunID, l stock.Level) {
			a.public.Level(run, l)
			a.expectBuyers(run)
		},
	})
	if err != nil {
		return err
	}
	a.keeper, err = activity.NewKeeper(activity.KeeperOptions{
		Registry: a.registry, Store: a.database, Stock: a.stock, Log: a.log, Retention: a.config.Retention,
		Check: a.check, Guards: !a.config.Roles.Worker,
	})
	if err != nil {
		return err
	}
	a.operator, err = activity.NewOperator(activity.OperatorOptions{
		Registry: a.registry, Store: a.database, Stock: a.stock, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.reserver = reserve.New(a.stock, a.metrics, reserve.Options{Timeout: a.config.ReserveTimeout, Log: a.log, Tracer: a.tracer})
	a.desk = &order.Desk{Store: a.database, Stock: a.stock, Log: a.log, Unknown: a.keeper.Doubt, Hold: a.config.ReturnWindow > 0}
	a.reconciler, err = reconcile.New(reconcile.Options{
		Store: a.database, Facts: a.facts, Stock: a.stock, Activities: a.registry, Log: a.log,
		Backlog: func(ctx context.Context) (int64, time.Time, error) {
			b, err := a.queue.Backlog(ctx)
			return b.Waiting, b.Oldest, err
		},
		Rewrite: a.desk.Rewrite, Rebuild: a.keeper.Restore, LiveOrders: a.liveOrders(),
		Every: a.config.ReconcileEvery,
	})
	if err != nil {
		return err
	}
	if a.identity, err = openAuth(&a.config, a.log); err != nil {
		return err
	}
	a.public, err = api.New(api.Options{
		Activities: a.registry, Reserver: a.reserver, Outcomes: a.reserver, Desk: a.desk, Auth: a.identity,
		Metrics: a.metrics, Log: a.log, Tracer: a.tracer, Page: page.Get, SimulatePayment: a.config.SimulatePayment,
		ReserveTimeout: a.config.ReserveTimeout, Proxies: proxies(&a.config), Gate: a.gate(),
	})
	if err != nil {
		return err
	}
	if err := a.openConsole(); err != nil {
		return err
	}
	if a.console, err = a.operators(); err != nil {
		return err
	}
	a.admin = &http.Server{
		Handler: a.console, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
	return nil
}

func (a *App) listen() (err error) {
	if a.config.Roles.Gateway {
		if a.publicListener, err = net.Listen("tcp", a.config.Listen); err != nil { //nolint:noctx // It waits for nothing.
			return fmt.Errorf("listen: %w", err)
		}
		a.onStop("public listener", closed(a.publicListener))
		if a.config.TLSCert != "" {
			if a.certificate, err = openCertificate(a.config.TLSCert, a.config.TLSKey, a.log); err != nil {
				return err
			}
			a.publicListener = a.certificate.listen(a.publicListener)
		}
	}
	if a.adminListener, err = net.Listen("tcp", a.config.AdminListen); err != nil { //nolint:noctx // It waits for nothing.
		return fmt.Errorf("admin-listen: %w", err)
	}
	a.onStop("admin listener", closed(a.adminListener))
	return nil
}

// closed closes a listener that its server may have closed already.
func closed(l net.Listener) func() error {
	return func() error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// PublicAddr is where buyers are answered, as host:port; "" if this process is no gateway.
func (a *App) PublicAddr() string {
	if a.publicListener == nil {
		return ""
	}
	return a.publicListener.Addr().String()
}

// AdminAddr is where operators are answered, as host:port.
func (a *App) AdminAddr() string { return a.adminListener.Addr().String() }

// ready says why this node takes no buyers, or nil.
func (a *App) ready() error {
	if a.draining.Load() {
		return errors.New("the process is stopping")
	}
	if !a.registry.Loaded() {
		return errors.New("the activities were not read yet")
	}
	return nil
}

// Run serves until ctx ends or a part fails, then stops: no new requests, those under way
// answered, orders under way written, everything closed. It returns nil when all of
// that went well within the drain time.
func (a *App) Run(ctx context.Context) error {
	jobs, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 32)
	var running sync.WaitGroup
	start := func(name string, run func(context.Context) error) {
		running.Go(func() {
			if err := run(jobs); err != nil {
				failed <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	if a.config.Roles.Worker {
		a.begin(ctx)
	} else {
		a.look(ctx)
	}
	a.startJobs(start)
	if a.config.Roles.Gateway {
		start("public listener", func(context.Context) error { return a.public.Serve(a.publicListener) })
	}
	start("admin listener", func(context.Context) error {
		if err := a.admin.Serve(a.adminListener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})

	var err error
	select {
	case <-ctx.Done():
		a.log.Info("stopping")
	case err = <-failed:
		a.log.Error("stopping, since a part failed", "error", err)
	}
	a.draining.Store(true)
	err = errors.Join(err, a.shutDoors())
	cancel()
	running.Wait()
	return errors.Join(err, a.close())
}

// shutDoors answers the requests that are under way. Most of the drain time is for them, the rest
// for the jobs. Whoever is still there when it is over is cut off: that is no error of ours.
func (a *App) shutDoors() error {
	drain, done := context.WithTimeout(context.Background(), a.config.DrainTimeout*3/5)
	defer done()
	operators := make(chan error, 1)
	go func() {
		a.console.EndStreams()
		err := a.admin.Shutdown(drain)
		if drain.Err() != nil {
			a.log.Warn("the time to stop is over: an operator's request was cut off")
			err = a.admin.Close()
		}
		operators <- err
	}()
	var err error
	if a.config.Roles.Gateway {
		err = a.public.Shutdown(drain)
	}
	return errors.Join(err, <-operators)
}
