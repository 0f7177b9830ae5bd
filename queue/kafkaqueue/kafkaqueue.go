// Package kafkaqueue is the queue contract on a topic of Apache Kafka, or of what speaks
// its protocol. A message is a record, the consumers are a group.
//
// It is at least once, and not more: what was acknowledged behind something that was not
// comes again after a crash, as does all that a consumer had in hand when its partitions
// went to another. It uses no transactions. The program uses it through package queue;
// only the place that puts the program together knows it by name.
package kafkaqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"seckill/queue"
)

// ErrClosed is what a closed queue or subscription answers.
var ErrClosed = errors.New("the queue is closed")

// Options say where the queue is and how it behaves.
type Options struct {
	// URL is kafka://[user:pass@]host:port,host:port/topic, with group, partitions,
	// replicas, tls and sasl as a query. Required.
	URL string
	// Log hears of troubles that mend themselves, such as brokers that do not answer, the
	// same one every 10 s at most. Discards by default.
	Log *slog.Logger
	// OpenTimeout bounds Open; 15 s by default.
	OpenTimeout time.Duration
	// PublishTimeout bounds one Publish whose context has more time; 30 s by default.
	PublishTimeout time.Duration
	// SessionTimeout is how long a consumer that does not answer keeps its partitions;
	// 10 s by default. Brokers accept 6 s to 30 min unless they are told otherwise.
	SessionTimeout time.Duration
	// UnackedMax bounds, for each partition, the messages between the oldest that is not
	// acknowledged and the newest that is delivered; 10,000 by default. The partition
	// rests while there are more.
	UnackedMax int
}

const (
	// headerID is the record's header that carries Message.ID.
	headerID = "id"
	// commitTimeout bounds one commit of offsets. A Receive may outlast its context by two of
	// them when a broker hangs in the middle of a rebalance.
	commitTimeout = 2 * time.Second
	// closeTimeout bounds the farewell to the group. Without one, the group finds out by
	// itself when SessionTimeout is over.
	closeTimeout = 3 * time.Second
)

// Queue is a topic and a group. It may be used concurrently.
type Queue struct {
	o      Options
	place  place
	client *kgo.Client
	admin  *kadm.Client
	log    *troubles
	// batchMax is the topic's limit for a batch, in bytes.
	batchMax atomic.Int32
	oldest   oldest

	mu     sync.Mutex
	subs   map[*subscription]struct{}
	closed bool
}

// Open connects, creates the topic if it is not there, and checks what would otherwise
// fail in the middle of a sale: rights, and settings of the topic. It does not wait for
// brokers that refuse connections.
func Open(ctx context.Context, o Options) (*Queue, error) {
	p, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	q := &Queue{o: o, place: p, log: newTroubles(o.Log), subs: map[*subscription]struct{}{}}
	q.batchMax.Store(batchMaxDefault)
	if p.clear {
		q.log.warn("the password for Kafka goes over the wire as it is: use kafkas://, or sasl=scram-sha-512")
	}
	q.client, err = kgo.NewClient(append(q.common(),
		kgo.DefaultProduceTopic(p.topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchMaxBytesFn(func(string) int32 { return q.batchMax.Load() }),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		// A Publish that was given up is given up here, too. That it may be there twice
		// afterwards is in the contract.
		kgo.AllowIdempotentProduceCancellation(),
	)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	q.admin = kadm.NewClient(q.client)
	ctx, cancel := context.WithTimeout(ctx, q.o.OpenTimeout)
	defer cancel()
	if err := q.check(ctx); err != nil {
		q.client.Close()
		return nil, err
	}
	return q, nil
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&o.OpenTimeout, 15 * time.Second},
		{&o.PublishTimeout, 30 * time.Second},
		{&o.SessionTimeout, 10 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	if o.UnackedMax <= 0 {
		o.UnackedMax = 10_000
	}
	return o
}

// common is what the producer's client and each consumer's have in common.
func (q *Queue) common() []kgo.Opt {
	return append(q.place.client(),
		kgo.ClientID("seckill"),
		kgo.WithLogger(q.log),
		kgo.DialTimeout(3*time.Second),
		kgo.RequestTimeoutOverhead(5*time.Second),
		// Five seconds, the usual, is for how long a moved partition would stand still.
		kgo.MetadataMinAge(100*time.Millisecond),
		// Five minutes, the usual, is for how long nobody would read a partition that was added.
		kgo.MetadataMaxAge(30*time.Second),
		kgo.RetryBackoffFn(backoff),
		kgo.DisableClientMetrics(),
	)
}

// backoff is 50 ms, doubled up to a second, with jitter: a broker that is back is used
// again soon.
func backoff(failures int) time.Duration {
	d := 50 * time.Millisecond << min(max(failures-1, 0), 5)
	return min(d, time.Second)/2 + rand.N(min(d, time.Second)/2)
}

// Traits of Kafka. It keeps no count of deliveries.
func (q *Queue) Traits() queue.Traits {
	return queue.Traits{Durable: true, OrderedByKey: true}
}

// Publish implements [queue.Queue].
func (q *Queue) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, q.o.PublishTimeout)
	// Records that are still waiting when this returns are given up.
	defer cancel()
	answers := make(chan error, len(msgs))
	for _, r := range records(msgs) {
		q.client.Produce(ctx, r, func(_ *kgo.Record, err error) { answers <- err })
	}
	for i := range msgs {
		// The client does not let go of records that are on their way to a broker that
		// hangs, so this does not wait for it.
		select {
		case err := <-answers:
			switch {
			case errors.Is(err, kgo.ErrClientClosed):
				return ErrClosed
			case err != nil:
				return fmt.Errorf("publish %d messages, of which %d are safe: %w", len(msgs), i, err)
			}
		case <-ctx.Done():
			return fmt.Errorf("publish %d messages, of which %d are safe: %w", len(msgs), i, ctx.Err())
		}
	}
	return nil
}

// records makes copies, because the client may still read a record after a Publish that
// was given up.
func records(msgs []queue.Message) []*kgo.Record {
	size := 0
	for _, m := range msgs {
		size += len(m.Body)
	}
	bodies := make([]byte, 0, size)
	rs := make([]*kgo.Record, len(msgs))
	for i, m := range msgs {
		start := len(bodies)
		bodies = append(bodies, m.Body...)
		rs[i] = &kgo.Record{
			Value:   bodies[start:len(bodies):len(bodies)],
			Headers: []kgo.RecordHeader{{Key: headerID, Value: []byte(m.ID)}},
		}
		if m.Key != "" { // A record without a key goes to any partition.
			rs[i].Key = []byte(m.Key)
		}
	}
	return rs
}

func message(r *kgo.Record) queue.Message {
	m := queue.Message{Key: string(r.Key), Body: r.Value}
	for _, h := range r.Headers {
		if h.Key == headerID {
			m.ID = string(h.Value)
		}
	}
	return m
}

// Close closes the subscriptions, too. Twice is harmless.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	var open []*subscription
	for s := range q.subs {
		open = append(open, s)
	}
	q.mu.Unlock()
	errs := make([]error, len(open))
	var all sync.WaitGroup
	for i, s := range open {
		all.Go(func() { errs[i] = s.Close() })
	}
	all.Wait()
	q.client.Close()
	return errors.Join(errs...)
}
