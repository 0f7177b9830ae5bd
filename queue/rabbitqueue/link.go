package rabbitqueue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// writeTimeout is how long the broker may refuse to take a byte before its connection
// is given up.
const writeTimeout = 10 * time.Second

// deliveriesMax is the number of returns of a message to the queue after which the broker
// throws it away. RabbitMQ 4 does so after 20 unless the queue says otherwise, and a database
// that is away for an hour takes more. All versions accept this number, as "never".
const deliveriesMax = 1 << 30

// link is one connection with its one channel. What breaks one breaks both, and a link
// that is broken is replaced.
type link struct {
	conn *amqp.Connection
	ch   *amqp.Channel
	raw  net.Conn

	returns    chan amqp.Return       // Messages that no queue took; publishers' links only.
	deliveries <-chan amqp.Delivery   // Consumers' links only.
	cancelled  chan string            // Filled when the broker ends the consumer; consumers' links only.
	ended      chan *amqp.Error       // Why the channel ended, if it was not closed here.
	blocked    atomic.Pointer[string] // Why the broker takes no messages at present.
	watch      sync.WaitGroup
}

// wire gives each write a time limit. The client library writes under locks that its
// reader needs too, so one write without end would stop everything.
type wire struct{ net.Conn }

func (w wire) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}

// role is what a link is for.
type role struct {
	name    string
	prepare func(*link) error // The last step before it is of use.
}

// dial makes a link and makes sure of the queue. When ctx ends first, it fails.
func (q *Queue) dial(ctx context.Context, r role) (*link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, q.options.DialTimeout,
		fmt.Errorf("no answer within %v", q.options.DialTimeout))
	defer cancel()
	if err := q.pace.wait(ctx); err != nil {
		return nil, fmt.Errorf("wait before connecting again: %w", err)
	}
	l, err := q.connect(ctx, r)
	q.pace.note(err)
	if err != nil && ctx.Err() != nil {
		// What the library says then is only how it noticed.
		return nil, fmt.Errorf("connect: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (q *Queue) connect(ctx context.Context, r role) (*link, error) {
	var dialer net.Dialer
	tcp, err := dialer.DialContext(ctx, "tcp", q.addr)
	if err != nil {
		return nil, err
	}
	l := &link{raw: tcp}
	// The library knows no contexts: it fails when its connection is taken away.
	stop := context.AfterFunc(ctx, l.abandon)
	if err = q.handshake(ctx, l, r.name); err == nil {
		err = q.declare(l)
	}
	if err == nil {
		err = r.prepare(l)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		l.drop()
		return nil, err
	}
	return l, nil
}

// handshake logs in.
func (q *Queue) handshake(ctx context.Context, l *link, role string) error {
	var conn net.Conn = wire{l.raw}
	if q.tls != nil {
		secure := tls.Client(conn, q.tls.Clone())
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = secure
	}
	properties := amqp.NewConnectionProperties()
	properties["connection_name"] = "seckill " + role + " of " + q.queue
	var err error
	l.conn, err = amqp.Open(conn, amqp.Config{
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: q.user, Password: q.pass}},
		Vhost:      q.vhost,
		Heartbeat:  q.options.Heartbeat,
		Properties: properties,
		Locale:     "en_US",
		FrameSize:  128 << 10,
	})
	switch reason := refusal(err); {
	case errors.Is(err, amqp.ErrCredentials), reason != nil && reason.Code == amqp.AccessRefused:
		// To a client like the library, RabbitMQ only closes the connection.
		return fmt.Errorf("user %q is not let in: name or password is wrong, or the connection broke", q.user)
	case errors.Is(err, amqp.ErrVhost):
		return errors.New("the connection broke while entering the vhost")
	case reason != nil && reason.Code == amqp.NotAllowed:
		return fmt.Errorf("user %q may not enter the vhost, or there is none: %s", q.user, reason.Reason)
	case err != nil:
		return err
	}
	blocks := l.conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	l.watch.Go(func() {
		for b := range blocks {
			if b.Active {
				l.blocked.Store(&b.Reason)
			} else {
				l.blocked.Store(nil)
			}
		}
	})
	return nil
}

// declare opens the channel and makes sure that the queue is there.
func (q *Queue) declare(l *link) error {
	arguments := amqp.Table{amqp.QueueTypeArg: q.kind()}
	if !q.classic {
		arguments["x-delivery-limit"] = deliveriesMax
	}
	err := l.declare(q.queue, arguments)
	reason := refusal(err)
	if reason != nil && reason.Code == amqp.PreconditionFailed && strings.Contains(reason.Reason, "x-delivery-limit") {
		// Somebody else created it, with a limit or without.
		delete(arguments, "x-delivery-limit")
		if err = l.declare(q.queue, arguments); err == nil {
			q.options.Log.Warn("the queue has no x-delivery-limit of ours: RabbitMQ 4 drops what came back 20 times",
				"queue", q.queue, "wanted", deliveriesMax)
		}
		reason = refusal(err)
	}
	switch {
	case reason == nil:
		return err
	case reason.Code == amqp.AccessRefused:
		return q.find(l)
	case reason.Code == amqp.PreconditionFailed || reason.Code == amqp.ResourceLocked:
		return fmt.Errorf("the queue is there, but not as a durable %s queue: choose its type by &type=, or another queue: %s", q.kind(), reason.Reason)
	}
	return fmt.Errorf("declare the queue: %w", err)
}

// find makes sure of a queue that this user may not declare.
func (q *Queue) find(l *link) error {
	if err := l.open(); err != nil {
		return err
	}
	_, err := l.ch.QueueDeclarePassive(q.queue, true, false, false, false, nil)
	if reason := refusal(err); reason != nil && reason.Code == amqp.NotFound {
		return fmt.Errorf("the queue is not there, and user %q may not create it: create a durable %s queue, or give the user the right configure", q.user, q.kind())
	}
	return err
}

// declare opens a channel, as the last one may have ended by an error, and declares the queue.
func (l *link) declare(queue string, arguments amqp.Table) error {
	if err := l.open(); err != nil {
		return err
	}
	_, err := l.ch.QueueDeclare(queue, true, false, false, false, arguments)
	return err
}

func (l *link) open() error {
	ch, err := l.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	l.ch, l.ended = ch, ch.NotifyClose(make(chan *amqp.Error, 1))
	return nil
}

// refusal is what the broker says in an error, or nil.
func refusal(err error) *amqp.Error {
	var reason *amqp.Error
	if errors.As(err, &reason) && reason.Server {
		return reason
	}
	return nil
}

// broken tells whether the link is known to be of no use any more.
func (l *link) broken() bool { return l.ch.IsClosed() || l.conn.IsClosed() }

// why is the reason for which a link broke. It waits until the library knows, and is to be
// called once, of a link that is broken or abandoned.
func (l *link) why() error {
	if reason := <-l.ended; reason != nil {
		return fmt.Errorf("the connection is lost: %w", reason)
	}
	return fmt.Errorf("the connection is lost: %w", amqp.ErrClosed)
}

// abandon takes the connection away from the library, whatever it is doing.
func (l *link) abandon() { _ = l.raw.Close() }

// drop ends a link that is of no use any more.
func (l *link) drop() {
	l.abandon()
	l.watch.Wait()
}

// close says goodbye, and waits for the answer for a while: what was acknowledged before
// is done then.
func (l *link) close(patience time.Duration) {
	timer := time.AfterFunc(patience, l.abandon)
	defer timer.Stop()
	_ = l.conn.Close() // The broker takes back what is left, however it ends.
	l.drop()
}
