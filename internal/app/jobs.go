package app

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill"
	"seckill/internal/admin"
	"seckill/internal/order"
	"seckill/internal/reconcile"
	"seckill/internal/relay"
	"seckill/internal/webhook"
	"seckill/stock"
)

// startJobs starts the loops of the process's roles. They end by their context; one that
// returns an error ends the process.
func (a *App) startJobs(start func(name string, run func(context.Context) error)) {
	start("activities", a.registry.Run)
	start("control", a.board.Run)
	start("live", a.live.Run)
	start("keys of entries", a.rotateKeys)
	start("events", a.watch)
	start("gauges", a.gauges)
	start("guard", a.keeper.Guard)
	if a.config.Roles.Gateway || a.config.Roles.Console {
		start("backlog guard", a.backlog.Run)
	}
	if a.config.Roles.Gateway {
		start("identities", a.identity.Run)
		a.startLimits(start)
		start("circuit breaker", a.reserver.Run)
		if a.certificate != nil {
			start("certificate", a.certificate.run)
		}
	}
	if !a.config.Roles.Worker {
		return
	}
	writer := &order.Writer{
		Source: a.queue, Store: a.database, Stock: a.stock, Metrics: a.metrics, Log: a.log, Tracer: a.tracer,
		BatchMax: a.config.WriteBatchMax, AttemptsMax: a.config.WriteAttemptsMax, Grace: a.config.DrainTimeout / 4, Unknown: a.keeper.Doubt,
	}
	expirer := &order.Expirer{
		Store: a.database, Stock: a.stock, Log: a.log, Unknown: a.keeper.Doubt,
		Hold: a.config.ReturnWindow > 0, UnpaidMax: a.config.UnpaidMax, Unpaid: a.blockUnpaid,
	}
	settler := &order.Settler{Store: a.database, Stock: a.stock, Log: a.log, Unknown: a.keeper.Doubt, ReturnWindow: a.config.ReturnWindow}

	start("keeper", a.keeper.Run)
	if a.broker != nil {
		start("relay", (&relay.Relay{Outbox: a.stock.Outbox(), Broker: a.broker, Log: a.log, Tracer: a.tracer}).Run)
	}
	start("webhooks", (&webhook.Sender{Store: a.database, Client: a.webhooks, Metrics: a.metrics, Log: a.log}).Run)
	start("order writer", a.whileConsuming(writer.Run))
	start("expirer", expirer.Run)
	start("settler", settler.Run)
	start("reconciler", a.reconciler.Run)
}

// watch hands what happens in the stock to those who remember something of it. An event
// that is missed while it reconnects is made up for by the readings of the levels.
func (a *App) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		err := a.stock.Watch(ctx, func(e stock.Event) {
			a.public.Notify(e)
			a.registry.Notify(e)
		})
		if err != nil && ctx.Err() == nil {
			a.log.Warn("the stock's events are interrupted", "error", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

// gauges reads, every second, the metrics that are states and not counts.
func (a *App) gauges(ctx context.Context) error {
	for ctx.Err() == nil {
		a.readGauges(ctx)
		pause(ctx, time.Second)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (a *App) readGauges(ctx context.Context) {
	if n, err := a.database.DeadCount(ctx); err == nil {
		a.metrics.DeadLetters.Set(float64(n))
	}
	dead := map[seckill.RunID]int64{}
	if read := a.dead.Load(); read != nil {
		maps.Copy(dead, *read)
	}
	for _, act := range a.registry.Activities() {
		a.readUnits(ctx, act.RunID(), dead)
	}
	maps.DeleteFunc(dead, func(run seckill.RunID, _ int64) bool { return !a.present(run) })
	a.dead.Store(&dead)
	a.reserver.Keep(a.present)
	a.readAge(ctx)
}

// present tells whether a run is the one that its activity has now.
func (a *App) present(run seckill.RunID) bool {
	act, ok := a.registry.Activity(run.Activity)
	return ok && act.RunID() == run
}

// backlogTime is how long a broker may take to say what waits.
const backlogTime = 2 * time.Second

// readAge asks the queue, last: a broker may hang.
func (a *App) readAge(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, backlogTime)
	defer cancel()
	b, err := a.queue.Backlog(asked)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		reason := err.Error()
		a.queueTrouble.Store(&reason)
		return
	}
	a.queueTrouble.Store(nil)
	age := 0.0
	if !b.Oldest.IsZero() {
		age = time.Since(b.Oldest).Seconds()
	}
	a.metrics.QueueOldest.Set(age)
}

// readUnits sets where the units of a run are, and notes those among the dead letters.
func (a *App) readUnits(ctx context.Context, run seckill.RunID, dead map[seckill.RunID]int64) {
	id := strconv.FormatInt(run.Activity, 10)
	l, ok := a.registry.Level(run)
	if !ok {
		a.metrics.QueueBacklog.DeleteLabelValues(id)
		a.metrics.StockUnits.DeletePartialMatch(prometheus.Labels{"activity": id})
		return
	}
	u, err := a.database.Units(ctx, run)
	if err != nil {
		return // What was last read stands.
	}
	dead[run] = u.Dead
	// The stock calls a reservation queued until it is settled, also one among the dead letters.
	queued := max(l.Queued-u.Dead, 0)
	a.metrics.QueueBacklog.WithLabelValues(id).Set(float64(queued))
	for state, units := range map[string]int64{
		"available": l.Available, "queued": queued, "awaiting_payment": l.AwaitingPayment, "paid": l.Paid, "dead": u.Dead,
	} {
		a.metrics.StockUnits.WithLabelValues(id, state).Set(float64(units))
	}
}

// facts reads what the database says of a run, for reconciliation.
func (a *App) facts(ctx context.Context, run seckill.RunID) (reconcile.Facts, error) {
	u, err := a.database.Units(ctx, run)
	if err != nil {
		return reconcile.Facts{}, err
	}
	f := reconcile.Facts{Total: u.Total, Available: u.Available, AwaitingPayment: u.AwaitingPayment, Paid: u.Paid, Dead: u.Dead}
	todos, err := a.database.Todos(ctx, 0, 1000)
	if err != nil {
		return f, err
	}
	for _, t := range todos {
		if t.Run == run {
			f.Todos = append(f.Todos, t.ID)
		}
	}
	restocks, err := a.database.Restocks(ctx)
	if err != nil {
		return f, err
	}
	for _, r := range restocks {
		if r.Run == run {
			f.Restocks = append(f.Restocks, r.ID)
		}
	}
	return f, nil
}

// retryDead is the desk's answer in the words of the admin API.
func (a *App) retryDead(ctx context.Context, id int64, by seckill.Actor) (admin.Retry, error) {
	r, err := a.desk.RetryDead(ctx, id, by)
	return admin.Retry{Outcomes: r.Outcomes, Dead: r.Dead, Pending: r.Pending}, err
}
