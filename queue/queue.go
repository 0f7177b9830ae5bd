// Package queue is the contract of what carries reservations from the stock to the
// order writer: at least once, in whatever order, from a Source that many
// consumers may share.
//
// Retrying and dead letters are not a queue's business; the order writer does both,
// once for all drivers. A consumer that gives up closes its subscription, and what
// it had not acknowledged is delivered to another.
package queue

import (
	"context"
	"time"
)

// Message is what travels.
type Message struct {
	ID   string // Unique per message; a message published twice has the same.
	Key  string // Messages of one key keep their order, if the driver's Traits say so.
	Body []byte
}

// Delivery is a message on its way to one consumer.
type Delivery struct {
	Message
	Attempt int // From 1; counts deliveries if Traits.CountsAttempts, else 1.
	// Handle is the driver's own note of the delivery, for Ack.
	Handle any
}

// Source is the end of a queue that is consumed from.
type Source interface {
	// Subscribe joins the one group of consumers.
	Subscribe(ctx context.Context) (Subscription, error)
	// Backlog tells what waits.
	Backlog(ctx context.Context) (Backlog, error)
}

// Queue is both ends.
type Queue interface {
	Source
	// Publish returns nil once every message is safe with the broker. After an error
	// any part of them may be; publish them all again.
	Publish(ctx context.Context, msgs ...Message) error
	Traits() Traits
	Close() error
}

// Subscription is one consumer's. Receive and Ack are called by one goroutine at a
// time; Close may be called from any.
type Subscription interface {
	// Receive waits for one delivery and returns what is there, at most max, which
	// is at least 1. When ctx ends, or the subscription is closed, it returns an
	// error and loses nothing.
	Receive(ctx context.Context, max int) ([]Delivery, error)
	// Ack says that deliveries are taken care of. Twice is harmless.
	Ack(ctx context.Context, ds ...Delivery) error
	// Close hands back what is not acknowledged. Twice is harmless.
	Close() error
}

// Backlog is what waits in a source, delivered but unacknowledged messages included.
type Backlog struct {
	Waiting int64     // Reservations where the driver can tell, else messages.
	Oldest  time.Time // When the oldest of them was put there; zero if none, or unknown.
}

// Traits are promises beyond the contract. queuetest checks every claim.
type Traits struct {
	Durable        bool // What is published outlives the process that published it.
	OrderedByKey   bool // Messages of one key are delivered in the order of their publishing.
	CountsAttempts bool // Delivery.Attempt counts.
}
