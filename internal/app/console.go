package app

import (
	"fmt"
	"time"

	"seckill"
	"seckill/internal/account"
	"seckill/internal/admin"
	"seckill/internal/console"
	"seckill/internal/live"
	"seckill/internal/webhook"
)

// openConsole makes what operators see, and tells of this node.
func (a *App) openConsole() (err error) {
	a.webhooks = webhook.NewClient(webhook.ClientOptions{AllowPrivate: a.config.WebhookPrivate})
	a.onStop("webhooks", func() error { a.webhooks.Close(); return nil })
	a.accounts, err = account.New(account.Options{Store: a.database, Token: a.config.AdminToken.Reveal(), Log: a.log})
	if err != nil {
		return err
	}
	a.live, err = live.New(live.Options{
		Metrics: a.metrics, Store: a.database, ID: a.id, Node: a.node, Log: a.log,
		Console: a.config.Roles.Console, Activities: a.registry.Activities, Books: a.reconciler.Books, Level: a.registry.Level, Guards: a.guards,
	})
	return err
}

// operators is what the admin listener answers with.
func (a *App) operators() (*admin.Server, error) {
	return admin.New(admin.Options{
		Operator: a.operator, Levels: a.registry, Books: a.reconciler, Reconciler: a.reconciler,
		Switches: a.board, Blocks: a.board, Audiences: a.board, Guards: a.guards, PurchaseRate: a.live.PurchaseRate,
		Webhooks: &webhook.Desk{Store: a.database, Client: a.webhooks}, Accounts: a.accounts, Live: a.live, Nodes: a.database.Nodes,
		Console: console.Handler(),
		Desk:    a.desk, RetryDead: a.retryDead, Audit: a.database, Metrics: a.metrics, Log: a.log,
		Token: a.config.AdminToken.Reveal(), MetricsAuth: a.config.MetricsAuth, Ready: a.ready, HealthOnly: !a.config.Roles.Console,
	})
}

// well is what a node says of a part that works.
const well = "ok"

// node is what this process says of itself.
func (a *App) node() seckill.Node {
	n := seckill.Node{
		Address: a.AdminAddr(), Roles: a.config.Roles.List(), Version: a.version, StartedAt: a.started,
		Ready: true, Stock: well, Queue: well, Database: well,
	}
	if err := a.ready(); err != nil {
		n.Ready, n.Reason = false, err.Error()
	}
	if s := a.reserver.State(); s.Open {
		n.Stock = "does not answer: " + s.Reason
	}
	if trouble := a.queueTrouble.Load(); trouble != nil {
		n.Queue = "cannot be asked: " + *trouble
	}
	if stale := a.board.Stale(); stale > 2*time.Second {
		n.Database = fmt.Sprintf("has not answered for %v", stale.Round(time.Second))
	}
	return n
}
