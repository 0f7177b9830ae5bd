package stocktest

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"seckill"
	"seckill/queue"
	"seckill/stock"
	"seckill/stock/embedded"
)

// broken is a right stock with one fault: each function that is set stands in for a
// method.
type broken struct {
	stock.Stock
	load    func(stock.Spec) error
	reserve func(id seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error)
	settle  func([]stock.Settlement) ([]string, error)
	restock func(id seckill.RunID, restock, units int64) (int64, error)
	control func(id seckill.RunID, c stock.Control) error
	outcome func(buyer, ticket string) (seckill.Outcome, error)
	level   func(id seckill.RunID) (stock.Level, error)
	queued  func(id seckill.RunID, after string, limit int) ([]seckill.Reservation, error)
	drop    func(id seckill.RunID) error
	watch   func(ctx context.Context, notify func(stock.Event)) error
	outbox  func() queue.Source
	bind    func(database string) (string, error)
}

func (b *broken) Bind(ctx context.Context, database string) (string, error) {
	if b.bind != nil {
		return b.bind(database)
	}
	return b.Stock.Bind(ctx, database)
}

func (b *broken) Load(ctx context.Context, spec stock.Spec) error {
	if b.load != nil {
		return b.load(spec)
	}
	return b.Stock.Load(ctx, spec)
}

func (b *broken) Reserve(ctx context.Context, id seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
	if b.reserve != nil {
		return b.reserve(id, epoch, attempts)
	}
	return b.Stock.Reserve(ctx, id, epoch, attempts)
}

func (b *broken) Settle(ctx context.Context, settlements []stock.Settlement) ([]string, error) {
	if b.settle != nil {
		return b.settle(settlements)
	}
	return b.Stock.Settle(ctx, settlements)
}

func (b *broken) Restock(ctx context.Context, id seckill.RunID, restock, units int64) (int64, error) {
	if b.restock != nil {
		return b.restock(id, restock, units)
	}
	return b.Stock.Restock(ctx, id, restock, units)
}

func (b *broken) Control(ctx context.Context, id seckill.RunID, c stock.Control) error {
	if b.control != nil {
		return b.control(id, c)
	}
	return b.Stock.Control(ctx, id, c)
}

func (b *broken) Outcome(ctx context.Context, buyer, ticket string) (seckill.Outcome, error) {
	if b.outcome != nil {
		return b.outcome(buyer, ticket)
	}
	return b.Stock.Outcome(ctx, buyer, ticket)
}

func (b *broken) Level(ctx context.Context, id seckill.RunID) (stock.Level, error) {
	if b.level != nil {
		return b.level(id)
	}
	return b.Stock.Level(ctx, id)
}

func (b *broken) Queued(ctx context.Context, id seckill.RunID, after string, limit int) ([]seckill.Reservation, error) {
	if b.queued != nil {
		return b.queued(id, after, limit)
	}
	return b.Stock.Queued(ctx, id, after, limit)
}

func (b *broken) Drop(ctx context.Context, id seckill.RunID) error {
	if b.drop != nil {
		return b.drop(id)
	}
	return b.Stock.Drop(ctx, id)
}

func (b *broken) Watch(ctx context.Context, notify func(stock.Event)) error {
	if b.watch != nil {
		return b.watch(ctx, notify)
	}
	return b.Stock.Watch(ctx, notify)
}

func (b *broken) Outbox() queue.Source {
	if b.outbox != nil {
		return b.outbox()
	}
	return b.Stock.Outbox()
}

// sources make a broken outbox out of a right one.
type brokenSource struct {
	queue.Source
	wrap    func(queue.Subscription) queue.Subscription
	backlog func(queue.Backlog) queue.Backlog
}

func (s brokenSource) Subscribe(ctx context.Context) (queue.Subscription, error) {
	sub, err := s.Source.Subscribe(ctx)
	if err == nil && s.wrap != nil {
		sub = s.wrap(sub)
	}
	return sub, err
}

func (s brokenSource) Backlog(ctx context.Context) (queue.Backlog, error) {
	b, err := s.Source.Backlog(ctx)
	if s.backlog != nil {
		b = s.backlog(b)
	}
	return b, err
}

type brokenSubscription struct {
	queue.Subscription
	receive func(ctx context.Context, limit int) ([]queue.Delivery, error)
	ack     func(...queue.Delivery) error
	close   func() error
}

func (s *brokenSubscription) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	if s.receive != nil {
		return s.receive(ctx, limit)
	}
	return s.Subscription.Receive(ctx, limit)
}

func (s *brokenSubscription) Ack(ctx context.Context, ds ...queue.Delivery) error {
	if s.ack != nil {
		return s.ack(ds...)
	}
	return s.Subscription.Ack(ctx, ds...)
}

func (s *brokenSubscription) Close() error {
	if s.close != nil {
		return s.close()
	}
	return s.Subscription.Close()
}

// memory is what a fault remembers besides the stock; handles of one stock share it.
type memory struct {
	mu    sync.Mutex
	specs map[seckill.RunID]stock.Spec
	count atomic.Int64
	any   map[string]any
}

func (m *memory) once(what string) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, there := m.any[what]
	m.any[what] = true
	return !there
}

// newBroken makes stocks with a fault. They are in memory, but for a durability fault.
func newBroken(f fault) func(t *testing.T) Harness {
	return func(t *testing.T) Harness {
		m := &memory{specs: map[seckill.RunID]stock.Spec{}, any: map[string]any{}}
		var path string
		if f.durable {
			path = filepath.Join(t.TempDir(), "stock.db")
		}
		return Harness{
			Durable: f.durable, Patience: brokenPatience,
			Open: func(t *testing.T) stock.Stock {
				e, err := embedded.Open(t.Context(), embedded.Options{Path: path})
				if err != nil {
					t.Fatal(err)
				}
				b := &broken{Stock: e}
				b.load = func(spec stock.Spec) error {
					m.mu.Lock()
					if m.specs[spec.Run].Epoch < spec.Epoch {
						m.specs[spec.Run] = spec
					}
					m.mu.Unlock()
					return e.Load(context.WithoutCancel(t.Context()), spec)
				}
				f.apply(b, e, m)
				return b
			},
		}
	}
}
