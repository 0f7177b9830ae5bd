// Package redisstock is the stock in Redis (6.2 and later), Valkey, or a Cluster or
// Sentinel group of them. Each decision is one script call, atomic by itself; there are
// no locks, and no process is special.
//
// A run may be split into sub-stocks that lie in different slots of a cluster. A buyer
// belongs to one of them, his home, for ever; units move between them. See spread.go for
// what that means for an answer.
//
// The outbox of a run, which is the queue to the order writers, is a stream or a list, see
// Options.Outbox. That is settled when the run is loaded, and written into the run: each
// process, whatever it is set to itself, fills and empties a run's outbox as that was loaded. So
// the setting may be changed between two starts, or differ between processes, with
// reservations waiting: they are all handed out, and runs that are loaded later are of the new kind.
//
// It is not a queue for others: the outbox carries reservations to this module's own
// consumers, in a form of its own, and hands them out in the form of package queue. Nor is
// it more durable than the Redis behind it; the database is the judge.
//
// internal/app opens it; nothing else knows it.
package redisstock

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"seckill"
	"seckill/queue"
	"seckill/stock"
)

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("the redis stock is closed")

// Options of a Stock. Zero fields take the defaults.
type Options struct {
	// URL says where Redis is: redis://[user:pass@]host:port[/db], rediss:// for TLS,
	// redis-cluster://host:port,…, redis-sentinel://host:port,…/master. Required.
	URL string
	// TLS is used for rediss:// schemes instead of the system's roots.
	TLS *tls.Config
	// Prefix is in front of all keys and channels, so that several shops can share a Redis.
	// Letters, digits, "-" and "_". Default "seckill".
	Prefix string
	// CallTimeout bounds a call whose context has no deadline. Default 2 s.
	CallTimeout time.Duration
	// DialTimeout bounds the making of a connection. Default 500 ms.
	DialTimeout time.Duration
	// KeepFor is how long a run's keys stay after its end. Default 7 days, at least 1 minute.
	KeepFor time.Duration
	// ClaimAfter is how long a message stays with a consumer that gives no sign of life
	// before another takes it. Default 5 s, at least 50 ms.
	ClaimAfter time.Duration
	// Outbox is how the reservations of a run that is loaded are kept until they are taken care
	// of: "stream" or "list". Runs that are loaded already stay as they are. Default "stream".
	Outbox string
	// FlushDelay has connections wait for more commands before they write, at most this
	// long: less work per call under heavy load, more time per call otherwise. Default 0.
	FlushDelay time.Duration
	// ClockOffset is added to Redis's clock, for tests of what a clock that is wrong does.
	ClockOffset time.Duration
	// Log hears of settings of Redis that endanger a sale, and of an outbox that cannot be
	// read. Default: nothing is logged.
	Log *slog.Logger
}

const (
	// attemptsMax is how many attempts one script call decides.
	attemptsMax = 500
	// settlementsMax is how many settlements one script call takes.
	settlementsMax = 500
	// flightsMax is how many calls may be under way at once; more are refused at once. It is
	// below what one connection holds, so that nobody waits for room in it.
	flightsMax = 512
	// bufferBytes is what a connection has for reading, and for writing.
	bufferBytes = 128 << 10
	// group is the consumer group of each outbox.
	group = "orders"
)

// Stock is a stock in Redis.
type Stock struct {
	client  rueidis.Client
	prefix  string
	timeout time.Duration
	keep    time.Duration
	claim   time.Duration
	offset  string // Of the clock, in µs.
	kind    kind   // Of the outboxes of runs that this process loads.
	log     *slog.Logger
	slots   chan struct{} // One in it for each call under way.

	ctx     context.Context // Ends when Close begins.
	cancel  context.CancelFunc
	workers sync.WaitGroup
	closed  sync.Once

	tags    tags
	known   knownRuns
	flights flights
	lanes   lanes
	process string       // Names this process in outboxes.
	batches atomic.Int64 // Counts calls of Reserve.
	hub     hub

	// interrupt is called between the steps of what takes several, in tests; an error ends it there.
	interrupt func(step string) error
}

// Open connects to Redis.
func Open(ctx context.Context, o Options) (*Stock, error) {
	client, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	s := &Stock{
		prefix: o.Prefix, timeout: o.CallTimeout, keep: o.KeepFor, claim: o.ClaimAfter, log: o.Log,
		offset:    fmt.Sprint(o.ClockOffset.Microseconds()),
		process:   rand.Text()[:10],
		slots:     make(chan struct{}, flightsMax),
		interrupt: func(string) error { return nil },
	}
	if s.kind, err = parseKind(o.Outbox); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.tags.of = map[place]string{}
	s.known.runs = map[seckill.RunID]*split{}
	s.lanes.lanes = map[laneKey]*lane{}
	s.flights.under = map[flightKey]*flight{}
	s.hub.start(s)
	if client.TLSConfig != nil && o.TLS != nil {
		client.TLSConfig = o.TLS.Clone()
	}
	if s.client, err = dial(ctx, client, o); err != nil {
		s.cancel()
		return nil, err
	}
	if err := s.examine(ctx, client); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (o Options) withDefaults() (Options, error) {
	for d, def := range map[*time.Duration]time.Duration{
		&o.CallTimeout: 2 * time.Second, &o.DialTimeout: 500 * time.Millisecond,
		&o.KeepFor: 7 * 24 * time.Hour, &o.ClaimAfter: 5 * time.Second,
	} {
		if *d == 0 {
			*d = def
		}
	}
	if o.Prefix == "" {
		o.Prefix = "seckill"
	}
	o.Outbox = cmp.Or(o.Outbox, kindNames[streamKind])
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var errs []error
	if len(o.Prefix) > 64 || strings.Trim(o.Prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		errs = append(errs, fmt.Errorf("prefix %q: accepted are 1 to 64 letters, digits, - and _", o.Prefix))
	}
	if o.KeepFor < time.Minute {
		errs = append(errs, fmt.Errorf("keep for %v: at least 1m", o.KeepFor))
	}
	if o.ClaimAfter < 50*time.Millisecond {
		errs = append(errs, fmt.Errorf("claim after %v: at least 50ms", o.ClaimAfter))
	}
	if o.CallTimeout < 0 || o.DialTimeout < 0 || o.FlushDelay < 0 {
		errs = append(errs, errors.New("a timeout or delay is negative"))
	}
	return o, errors.Join(errs...)
}

// dial makes the client. What the client would do by itself with a write that failed, we
// do, since only we know that the same tickets may be asked again.
func dial(ctx context.Context, c rueidis.ClientOption, o Options) (rueidis.Client, error) {
	c.DisableRetry = true
	c.DisableCache = true
	c.ConnWriteTimeout = time.Second
	c.Dialer.Timeout = o.DialTimeout
	c.MaxFlushDelay = o.FlushDelay
	c.ClientName = "seckill"
	c.ReadBufferEachConn, c.WriteBufferEachConn = bufferBytes, bufferBytes
	c.ShuffleInit = true
	c.ClusterOption.MaxMovedRedirections = 5
	c.ClusterOption.ShardsRefreshInterval = 5 * time.Second
	if c.Sentinel.MasterSet != "" {
		c.Sentinel.TopologyRefreshInterval = time.Second
		c.Sentinel.Username, c.Sentinel.Password = "", ""
		c.Sentinel.TLSConfig, c.Sentinel.Dialer = c.TLSConfig, c.Dialer
	}
	type made struct {
		client rueidis.Client
		err    error
	}
	done := make(chan made, 1)
	go func() {
		client, err := rueidis.NewClient(c)
		done <- made{client, err}
	}()
	select {
	case m := <-done:
		if m.err != nil {
			if m.client != nil {
				m.client.Close()
			}
			return nil, fmt.Errorf("connect to redis: %w", m.err)
		}
		return m.client, nil
	case <-ctx.Done():
		go func() {
			if m := <-done; m.client != nil {
				m.client.Close()
			}
		}()
		return nil, fmt.Errorf("connect to redis: %w", context.Cause(ctx))
	}
}

// examine looks whether this Redis can do what is asked of it.
func (s *Stock) examine(ctx context.Context, o rueidis.ClientOption) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	info, err := s.client.Do(ctx, s.client.B().Info().Build()).ToString()
	var refused *rueidis.RedisError
	switch {
	case errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "NOPERM"):
		return nil // This user may not look; the scripts will tell.
	case err != nil:
		return fmt.Errorf("ask redis for its version: %w", err)
	}
	about := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			about[name] = value
		}
	}
	var major, minor int
	if n, _ := fmt.Sscanf(about["redis_version"], "%d.%d", &major, &minor); n == 2 && (major < 6 || major == 6 && minor < 2) {
		return fmt.Errorf("this Redis is version %s; 6.2 or later is needed", about["redis_version"])
	}
	switch clustered := about["cluster_enabled"] == "1"; {
	case clustered && o.ForceSingleClient:
		return errors.New("this Redis is part of a cluster: name it by redis-cluster://")
	case !clustered && !o.ForceSingleClient && o.Sentinel.MasterSet == "":
		return errors.New("this Redis is not part of a cluster: name it by redis://")
	}
	if policy := about["maxmemory_policy"]; policy != "" && policy != "noeviction" && about["maxmemory"] != "0" {
		s.log.Warn("Redis may drop what buyers hold when its memory is full; set maxmemory-policy to noeviction",
			slog.String("maxmemory_policy", policy))
	}
	return nil
}

// Outbox implements [stock.Stock].
func (s *Stock) Outbox() queue.Source { return source{s} }

// Close hands back what subscriptions have not acknowledged, and ends all calls.
func (s *Stock) Close() error {
	s.closed.Do(func() {
		s.hub.close()
		s.cancel()
		// Whoever starts a worker does so under one of these, and sees that it is over.
		s.flights.mu.Lock()
		s.flights.mu.Unlock() //nolint:staticcheck // See above.
		s.lanes.mu.Lock()
		s.lanes.mu.Unlock() //nolint:staticcheck // See above.
		s.workers.Wait()
		if s.client != nil {
			s.client.Close()
		}
	})
	return nil
}

var _ stock.Stock = (*Stock)(nil)
