package order

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/telemetry"
	"seckill/internal/tracing"
	"seckill/queue"
)

// Writer makes orders of the reservations of one queue. Run may be called several
// times at once: each call is a consumer of its own.
type Writer struct {
	Source queue.Source // Required.
	Store  Store        // Required.
	Stock  settler      // Required.

	// BatchMax is how many reservations go into one transaction, at most, unless one
	// message carries more; 500 by default.
	BatchMax int
	// AttemptsMax is how often a reservation that the database does not take is tried
	// before it is a dead letter; 5 by default. A database that is away does not count.
	AttemptsMax int
	// RetryLeast and RetryMost bound the waits between tries; 50 ms and 5 s by default.
	RetryLeast, RetryMost time.Duration
	// CallTimeout bounds one call of the database or the stock; 15 s by default.
	CallTimeout time.Duration
	// Grace is how long a batch that is under way may still take when the context ends;
	// 5 s by default.
	Grace time.Duration

	Metrics *telemetry.Metrics // None by default.
	Tracer  *tracing.Tracer    // Nil, the default: nothing is traced.
	Log     *slog.Logger       // Discards by default.
	Unknown Unknown            // Nobody by default.
}

// parkedMax bounds the reservations that wait for another try apart from the others.
// Beyond it, nothing new is received.
const parkedMax = 1000

// Run works until ctx ends, and then returns nil: the batch under way is finished, and
// what was received besides is handed back.
func (w *Writer) Run(ctx context.Context) error {
	c := w.withDefaults()
	if c.Source == nil || c.Store == nil || c.Stock == nil {
		return errors.New("order writer: Source, Store and Stock are required")
	}
	// Calls go on for a while after ctx has ended.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.Grace, cancel) })()

	again := backoff{least: c.RetryLeast, most: c.RetryMost}
	for ctx.Err() == nil {
		err := c.consume(ctx, work, &again)
		if ctx.Err() != nil {
			break
		}
		c.Log.Warn("the queue failed, joining it again", "error", err)
		wait(ctx, again.after())
	}
	return nil
}

func (w *Writer) withDefaults() *Writer {
	c := *w
	c.BatchMax = orDefault(c.BatchMax, 500)
	c.AttemptsMax = orDefault(c.AttemptsMax, 5)
	c.RetryLeast = orDefault(c.RetryLeast, 50*time.Millisecond)
	c.RetryMost = orDefault(c.RetryMost, 5*time.Second)
	c.CallTimeout = orDefault(c.CallTimeout, 15*time.Second)
	c.Grace = orDefault(c.Grace, 5*time.Second)
	c.Log = logger(c.Log)
	return &c
}

// consume works on one subscription until it fails or ctx ends.
func (w *Writer) consume(ctx, work context.Context, again *backoff) (err error) {
	sub, err := w.Source.Subscribe(ctx)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer func() { err = errors.Join(err, sub.Close()) }()
	s := session{Writer: w, ctx: ctx, work: work, sub: sub, size: float64(w.BatchMax) / firstMessages}
	for {
		ds, err := s.receive()
		if err != nil {
			return err
		}
		again.reset()
		for _, p := range s.portions(ds) {
			if err := s.handle(p); err != nil {
				return err
			}
		}
		if err := s.retryParked(); err != nil {
			return err
		}
	}
}

// session is one subscription and what waits in it.
type session struct {
	*Writer
	ctx  context.Context // Ends when the writer is to stop.
	work context.Context // Ends when calls under way have to stop, too.
	sub  queue.Subscription

	parked []*task
	size   float64 // Reservations in a message, as the latest were.
}

// firstMessages is how many messages are asked for before it is known how much is in one.
const firstMessages = 10

// messages is how many messages fit into one transaction. What is held besides would be kept from
// other consumers, and they would have to wait for it if this one dies.
func (s *session) messages() int {
	const close = 0.1 // The mean of messages that are all alike comes near their size, and never reaches it.
	return min(max(int(float64(s.BatchMax)/s.size+close), 1), s.BatchMax)
}

// receive waits for deliveries, but not longer than parked reservations may wait.
func (s *session) receive() ([]queue.Delivery, error) {
	ctx := s.ctx
	if len(s.parked) > 0 {
		due := s.parked[0].due
		for _, t := range s.parked {
			if t.due.Before(due) {
				due = t.due
			}
		}
		if len(s.parked) >= parkedMax {
			wait(ctx, time.Until(due))
			return nil, ctx.Err()
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, due)
		defer cancel()
	}
	ds, err := s.sub.Receive(ctx, s.messages())
	if err != nil && ctx.Err() != nil && s.ctx.Err() == nil {
		return nil, nil // Only the parked ones are due.
	}
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	return ds, nil
}

// call runs one step with its own time limit. While the writer is to work, it is
// repeated for as long as it fails with what another try may mend.
func (s *session) call(step string, mends func(error) bool, do func(context.Context) error) error {
	again := backoff{least: s.RetryLeast, most: s.RetryMost}
	for {
		ctx, cancel := context.WithTimeout(s.work, s.CallTimeout)
		err := do(ctx)
		cancel()
		if err == nil || !mends(err) {
			return err
		}
		if s.ctx.Err() != nil {
			return fmt.Errorf("stopped while it failed: %w", err)
		}
		s.Log.Warn("order writer waits", "step", step, "error", err)
		wait(s.ctx, again.after())
	}
}

func always(error) bool          { return true }
func unavailable(err error) bool { return errors.Is(err, ErrUnavailable) }
