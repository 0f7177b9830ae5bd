// Package webhook tells shops' own systems what became of reservations and orders, by signed HTTP
// requests after the Standard Webhooks specification. It registers addresses ([Desk]), sends
// ([Sender]), and sees to it that no address leads into the private network ([Client]).
//
// It does not find out what happens: the database writes each event into an outbox, in the
// transaction of the change itself, and a sender works that off. At least once, in the order of the
// events of one ticket, for a day.
//
// internal/app runs a Sender on each worker and gives the Desk to internal/admin.
package webhook

import (
	"context"
	"time"

	"seckill"
)

// Work is what one sender may do for one webhook.
type Work struct {
	Held   bool // Whether the lease is the sender's; there is no more here if not.
	Target seckill.WebhookTarget
	Due    []seckill.Delivery // Longest due first, at most one of them of each ticket's steps.
	More   bool               // Whether more may be due than was asked for.
	Now    time.Time          // By the database's clock.
}

// Limits of what is kept.
type Limits struct {
	RetryFor time.Duration // What is due for that long and was not sent is given up.
	Keep     time.Duration // Deliveries that have ended are kept that long.
	KeepMax  int           // And at most that many of each webhook and state.
}

// Store is the outbox. Its clock is the only one that counts, but for the time that requests take.
type Store interface {
	// DueWebhooks lists webhooks that have something due, are not paused, and are nobody's now.
	DueWebhooks(ctx context.Context) ([]int64, error)
	// WebhookWork takes or renews the lease of a webhook, and reads up to limit of its deliveries
	// that are due, without those in skip and those that an earlier event of their ticket is
	// pending before.
	WebhookWork(ctx context.Context, id int64, owner string, lease time.Duration, skip []int64, limit int) (Work, error)
	// EndDeliveries notes how attempts ended, each of them counted as one.
	EndDeliveries(ctx context.Context, results []seckill.DeliveryResult) error
	// PauseWebhook notes how often a webhook has failed in a row, and lets it rest. Nothing
	// happens if the lease is not the owner's.
	PauseWebhook(ctx context.Context, id int64, owner string, failures int, pause time.Duration) error
	// ReleaseWebhook ends the owner's lease.
	ReleaseWebhook(ctx context.Context, id int64, owner string) error
	// DisableWebhook ends all sending to a webhook, until an operator enables it.
	DisableWebhook(ctx context.Context, id int64, reason string, by seckill.Actor) error
	// SweepWebhooks gives up and forgets deliveries.
	SweepWebhooks(ctx context.Context, l Limits) error
	// PendingDeliveries counts what waits.
	PendingDeliveries(ctx context.Context) (int64, error)
}
