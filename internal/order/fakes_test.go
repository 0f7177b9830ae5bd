package order

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"seckill"
	"seckill/queue"
	"seckill/stock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

var run1 = seckill.RunID{Activity: 1, Run: 1}

func reserved(run seckill.RunID, buyers ...string) []seckill.Reservation {
	var rs []seckill.Reservation
	for _, b := range buyers {
		rs = append(rs, seckill.Reservation{
			Ticket: seckill.NewTicket(run), Run: run, Buyer: b, Quantity: 1, Slot: 1, ReservedAt: time.Now().UTC(),
		})
	}
	return rs
}

// MemQueue is a queue in memory: what a closed subscription has not acknowledged comes again.
type MemQueue struct {
	mu      sync.Mutex
	waiting []queue.Delivery
	arrived chan struct{} // Has a value when something waits.

	acked   []string
	Acks    func() error // Called before each Ack; its error fails it.
	joins   func() error // Likewise of Subscribe.
	receive func() error // Likewise of Receive.
	asked   int          // How many were asked for last.
}

func NewMemQueue() *MemQueue { return &MemQueue{arrived: make(chan struct{}, 1)} }

func (q *MemQueue) put(ds ...queue.Delivery) {
	q.mu.Lock()
	q.waiting = append(q.waiting, ds...)
	q.mu.Unlock()
	select {
	case q.arrived <- struct{}{}:
	default:
	}
}

func (q *MemQueue) Send(id string, run seckill.RunID, rs ...seckill.Reservation) {
	q.put(queue.Delivery{Message: queue.Message{ID: id, Body: queue.EncodeReservations(run, rs)}, Attempt: 1})
}

func (q *MemQueue) Acked() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.acked)
}

func (q *MemQueue) Subscribe(context.Context) (queue.Subscription, error) {
	if q.joins != nil {
		if err := q.joins(); err != nil {
			return nil, err
		}
	}
	return &memSubscription{q: q, open: map[string]queue.Delivery{}}, nil
}

func (q *MemQueue) Backlog(context.Context) (queue.Backlog, error) { return queue.Backlog{}, nil }

type memSubscription struct {
	q    *MemQueue
	open map[string]queue.Delivery
}

func (s *memSubscription) Receive(ctx context.Context, max int) ([]queue.Delivery, error) {
	for {
		if s.q.receive != nil {
			if err := s.q.receive(); err != nil {
				return nil, err
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.q.mu.Lock()
		s.q.asked = max
		n := min(max, len(s.q.waiting))
		ds := s.q.waiting[:n:n]
		s.q.waiting = s.q.waiting[n:]
		s.q.mu.Unlock()
		for _, d := range ds {
			s.open[d.ID] = d
		}
		if n > 0 {
			return ds, nil
		}
		select {
		case <-s.q.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *memSubscription) Ack(_ context.Context, ds ...queue.Delivery) error {
	if s.q.Acks != nil {
		if err := s.q.Acks(); err != nil {
			return err
		}
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	for _, d := range ds {
		if _, ok := s.open[d.ID]; ok {
			delete(s.open, d.ID)
			s.q.acked = append(s.q.acked, d.ID)
		}
	}
	return nil
}

func (s *memSubscription) Close() error {
	var back []queue.Delivery
	for _, d := range s.open {
		d.Attempt++
		back = append(back, d)
	}
	s.open = nil
	s.q.put(back...)
	return nil
}

// memStore has what the loops need of a database. Hooks make it fail.
type memStore struct {
	Store // Nil: what is not below must not be called.

	mu       sync.Mutex
	orders   map[string]seckill.Order // By ticket.
	dead     map[string]seckill.DeadLetter
	unread   []seckill.DeadLetter
	todos    []Todo
	due      []Todo
	retrying []seckill.DeadLetter
	calls    int

	before func(ctx context.Context, rs []seckill.Reservation) error // Of WriteOrders.
}

func newMemStore() *memStore {
	return &memStore{orders: map[string]seckill.Order{}, dead: map[string]seckill.DeadLetter{}}
}

// seen is what a test may look at while a loop works.
type seen struct{ calls, orders, dead, todos int }

func (m *memStore) see() seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return seen{m.calls, len(m.orders), len(m.dead), len(m.todos)}
}

func (m *memStore) WriteOrders(ctx context.Context, run seckill.RunID, rs []seckill.Reservation) ([]Written, error) {
	m.mu.Lock()
	m.calls++
	m.mu.Unlock()
	if m.before != nil {
		if err := m.before(ctx, rs); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ws := make([]Written, len(rs))
	for i, r := range rs {
		if r.Run != run {
			return nil, errors.New("a reservation of another run")
		}
		if _, ok := m.dead[r.Ticket]; ok {
			ws[i].Dead = true
			continue
		}
		if r.Buyer == "late" {
			ws[i].Refused = seckill.SoldOut
			continue
		}
		o, known := m.orders[r.Ticket]
		if !known {
			o = seckill.Order{ID: fmt.Sprint(len(m.orders) + 1), Ticket: r.Ticket, Run: run, Buyer: r.Buyer, State: seckill.AwaitingPayment}
			m.orders[r.Ticket] = o
		}
		ws[i].Order, ws[i].New = &o, !known
	}
	return ws, nil
}

func (m *memStore) Bury(_ context.Context, letters ...seckill.DeadLetter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range letters {
		if l.Reservation == nil {
			m.unread = append(m.unread, l)
		} else if _, ok := m.dead[l.Ticket]; !ok {
			m.dead[l.Ticket] = l
		}
	}
	return nil
}

func (m *memStore) Todos(_ context.Context, after int64, max int) ([]Todo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var todos []Todo
	for _, t := range m.todos {
		if t.ID > after && len(todos) < max {
			todos = append(todos, t)
		}
	}
	return todos, nil
}

func (m *memStore) TodosDone(_ context.Context, ids ...int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.todos[:0:0]
	for _, t := range m.todos {
		done := false
		for _, id := range ids {
			done = done || t.ID == id
		}
		if !done {
			left = append(left, t)
		}
	}
	m.todos = left
	return nil
}

func (m *memStore) ExpireOrders(_ context.Context, max int) ([]Todo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	n := min(max, len(m.due))
	due := m.due[:n:n]
	m.due = m.due[n:]
	m.todos = append(m.todos, due...)
	return due, nil
}

func (m *memStore) Retrying(context.Context, int) ([]seckill.DeadLetter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.retrying, nil
}

func (m *memStore) RetriedDead(_ context.Context, id int64, settled bool, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, l := range m.retrying {
		if l.ID == id {
			m.retrying = append(m.retrying[:i:i], m.retrying[i+1:]...)
			if !settled {
				l.Reason = reason
				m.dead[l.Ticket] = l
			}
			return nil
		}
	}
	return nil
}

// MemStock remembers what it was told. A reservation moves to the right only.
type MemStock struct {
	mu      sync.Mutex
	Settled map[string]stock.Settlement // The first word on each ticket.
	Moves   map[string]int              // How often a ticket moved.
	Fail    func() error
	unknown []string
}

func NewMemStock() *MemStock {
	return &MemStock{Settled: map[string]stock.Settlement{}, Moves: map[string]int{}}
}

func (m *MemStock) Settle(ctx context.Context, settlements []stock.Settlement) ([]string, error) {
	if m.Fail != nil {
		if err := m.Fail(); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range settlements {
		if (s.Order == nil) == (s.Failed == seckill.NoReason) || s.Ticket == "" || s.Buyer == "" || s.Run.Activity == 0 {
			return nil, fmt.Errorf("a settlement that says nothing: %+v", s)
		}
		was, known := m.Settled[s.Ticket]
		moves := !known || was.Order != nil && was.Order.State == seckill.AwaitingPayment &&
			s.Order != nil && s.Order.State != seckill.AwaitingPayment
		if moves {
			m.Settled[s.Ticket] = s
			m.Moves[s.Ticket]++
		}
	}
	return m.unknown, nil
}

func (m *MemStock) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.Settled)
}

// running starts a loop in a bubble; the function that it returns ends it and checks its error.
func running(t *testing.T, loop func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop(ctx) }()
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Fatalf("the loop ended with %v", err)
		}
	}
}

// pass lets time go by in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
