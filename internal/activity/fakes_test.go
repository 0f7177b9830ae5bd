package activity

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/stock"
)

var (
	ctx     = context.Background()
	by      = seckill.Actor{Who: "test"}
	errAway = errors.New("away")
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// steps lets a test fail, hold or watch a call by its name.
type steps struct {
	mu     sync.Mutex
	before func(name string) error // The call has no effect.
	after  func(name string) error // The call has its effect, and its caller does not hear of it.
	calls  map[string]int
}

func (s *steps) enter(name string) error {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[name]++
	hook := s.before
	s.mu.Unlock()
	if hook != nil {
		return hook(name)
	}
	return nil
}

func (s *steps) leave(name string) error {
	s.mu.Lock()
	hook := s.after
	s.mu.Unlock()
	if hook != nil {
		return hook(name)
	}
	return nil
}

func (s *steps) set(before, after func(name string) error) {
	s.mu.Lock()
	s.before, s.after = before, after
	s.mu.Unlock()
}

func (s *steps) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// away fails every call.
func away(string) error { return errAway }

// memStore is a Store in memory.
type memStore struct {
	steps

	mu         sync.Mutex
	version    int64
	activities map[int64]seckill.Activity
	units      map[seckill.RunID]Units
	orders     map[seckill.RunID][]seckill.Order
	restocks   map[int64]Restock
	nextID     int64
	audit      []string
	reasons    []string // Of changes.
	old        []seckill.RunID
	dropped    map[seckill.RunID]bool
}

func newMemStore() *memStore {
	return &memStore{
		activities: map[int64]seckill.Activity{}, units: map[seckill.RunID]Units{}, orders: map[seckill.RunID][]seckill.Order{},
		restocks: map[int64]Restock{}, dropped: map[seckill.RunID]bool{},
	}
}

// do is one transaction.
func (m *memStore) do(name string, body func() error) error {
	if err := m.enter(name); err != nil {
		return err
	}
	m.mu.Lock()
	err := body()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	return m.leave(name)
}

func (m *memStore) changed(action string) {
	m.version++
	m.audit = append(m.audit, action)
}

func (m *memStore) Version(context.Context) (v int64, err error) {
	err = m.do("version", func() error { v = m.version; return nil })
	return v, err
}

func (m *memStore) Activities(context.Context) (list []seckill.Activity, v int64, err error) {
	err = m.do("activities", func() error {
		for _, id := range slices.Sorted(maps.Keys(m.activities)) {
			list = append(list, m.activities[id])
		}
		v = m.version
		return nil
	})
	return list, v, err
}

func (m *memStore) CreateActivity(_ context.Context, a seckill.Activity, _ seckill.Actor) (seckill.Activity, error) {
	err := m.do("create", func() error {
		m.nextID++
		a.ID = m.nextID
		m.activities[a.ID] = a
		m.units[a.RunID()] = Units{Total: a.Total, Available: a.Total}
		m.changed("activity.create")
		return nil
	})
	return a, err
}

func (m *memStore) ChangeActivity(_ context.Context, id int64, action string, by seckill.Actor, change func(*seckill.Activity) error) (a seckill.Activity, err error) {
	err = m.do(action, func() error {
		was, ok := m.activities[id]
		if !ok {
			return seckill.ErrNotFound
		}
		a = was
		if err := change(&a); err != nil {
			return err
		}
		a.Total, a.Run = was.Total, was.Run
		m.activities[id] = a
		m.changed(action)
		m.reasons = append(m.reasons, by.Reason)
		return nil
	})
	return a, err
}

func (m *memStore) NewRun(_ context.Context, id int64, after int, startsAt, endsAt time.Time, units int64, _ seckill.Actor) (a seckill.Activity, err error) {
	err = m.do("rerun", func() error {
		a = m.activities[id]
		if a.Run != after {
			return seckill.Refuse(seckill.Conflict)
		}
		a.Run++
		a.StartsAt, a.EndsAt, a.Total, a.Phase, a.Paused = startsAt, endsAt, units, seckill.PhaseScheduled, false
		m.activities[id] = a
		m.units[a.RunID()] = Units{Total: units, Available: units}
		m.changed("activity.rerun")
		return nil
	})
	return a, err
}

func (m *memStore) add(run seckill.RunID, units int64) {
	u := m.units[run]
	u.Total += units
	u.Available += units
	m.units[run] = u
	a := m.activities[run.Activity]
	a.Total += units
	m.activities[run.Activity] = a
}

func (m *memStore) BeginRestock(_ context.Context, id, units int64, _ seckill.Actor) (r Restock, err error) {
	err = m.do("begin restock", func() error {
		a := m.activities[id]
		r = Restock{Run: a.RunID(), Units: units}
		if r.Done = a.Phase == seckill.PhaseScheduled; r.Done {
			r.Did = max(units, -m.units[r.Run].Available)
			m.add(r.Run, r.Did)
		} else {
			m.nextID++
			r.ID = m.nextID
			m.restocks[r.ID] = r
			m.add(r.Run, max(units, 0))
		}
		m.changed("activity.restock")
		return nil
	})
	return r, err
}

func (m *memStore) FinishRestock(_ context.Context, r Restock, did int64) error {
	return m.do("finish restock", func() error {
		if _, ok := m.restocks[r.ID]; ok {
			delete(m.restocks, r.ID)
			m.add(r.Run, min(did, 0))
			m.version++
		}
		return nil
	})
}

func (m *memStore) Restocks(context.Context) (list []Restock, err error) {
	err = m.do("restocks", func() error {
		for _, id := range slices.Sorted(maps.Keys(m.restocks)) {
			list = append(list, m.restocks[id])
		}
		return nil
	})
	return list, err
}

func (m *memStore) LiveOrders(_ context.Context, run seckill.RunID, after string, limit int) (page []seckill.Order, err error) {
	err = m.do("live orders", func() error {
		for _, o := range m.orders[run] {
			if o.ID > after && len(page) < limit {
				page = append(page, o)
			}
		}
		return nil
	})
	return page, err
}

func (m *memStore) Units(_ context.Context, run seckill.RunID) (u Units, err error) {
	err = m.do("units", func() error { u = m.units[run]; return nil })
	return u, err
}

func (m *memStore) OldRuns(_ context.Context, before time.Time, _ int) (runs []seckill.RunID, err error) {
	err = m.do("old runs", func() error {
		for _, run := range m.old {
			if !m.dropped[run] && m.activities[run.Activity].EndsAt.Before(before) {
				runs = append(runs, run)
			}
		}
		return nil
	})
	return runs, err
}

func (m *memStore) MarkDropped(_ context.Context, run seckill.RunID) error {
	return m.do("mark dropped", func() error { m.dropped[run] = true; return nil })
}

// order writes an order, as the order writer would.
func (m *memStore) order(o seckill.Order) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.orders[o.Run] = append(m.orders[o.Run], o)
	u := m.units[o.Run]
	u.Available -= int64(o.Quantity)
	u.AwaitingPayment += int64(o.Quantity)
	m.units[o.Run] = u
}

func (m *memStore) get(id int64) seckill.Activity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.activities[id]
}

func (m *memStore) isDropped(run seckill.RunID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped[run]
}

// put changes an activity behind everybody's back.
func (m *memStore) put(id int64, change func(*seckill.Activity)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.activities[id]
	change(&a)
	m.activities[id] = a
	m.version++
}

// fakeStock is as much of a stock as loading, restocking and controlling need.
type fakeStock struct {
	steps

	mu   sync.Mutex
	runs map[seckill.RunID]*fakeRun
}

type fakeRun struct {
	spec     stock.Spec
	control  stock.Control
	level    stock.Level
	buyers   map[string]bool
	restocks map[int64]int64
}

func newFakeStock() *fakeStock { return &fakeStock{runs: map[seckill.RunID]*fakeRun{}} }

func (f *fakeStock) do(name string, body func() error) error {
	if err := f.enter(name); err != nil {
		return err
	}
	f.mu.Lock()
	err := body()
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.leave(name)
}

func (f *fakeStock) with(name string, run seckill.RunID, body func(*fakeRun)) error {
	return f.do(name, func() error {
		r := f.runs[run]
		if r == nil {
			return stock.ErrNotLoaded
		}
		body(r)
		return nil
	})
}

func (f *fakeStock) Load(_ context.Context, spec stock.Spec) error {
	return f.do("load", func() error {
		old := f.runs[spec.Run]
		if old != nil && old.level.Epoch >= spec.Epoch {
			return nil
		}
		r := &fakeRun{
			spec: spec, control: stock.Control{Paused: spec.Paused, EndsAt: spec.EndsAt},
			buyers: map[string]bool{}, restocks: map[int64]int64{},
			level: stock.Level{Epoch: spec.Epoch, Available: spec.Units, Returns: 1},
		}
		for _, o := range spec.Held {
			r.buyers[o.Buyer] = true
			r.level.AwaitingPayment += int64(o.Quantity)
		}
		f.runs[spec.Run] = r
		return nil
	})
}

func (f *fakeStock) Restock(_ context.Context, run seckill.RunID, id, units int64) (did int64, err error) {
	err = f.with("restock", run, func(r *fakeRun) {
		before, again := r.restocks[id]
		if did = before; again {
			return
		}
		did = max(units, -r.level.Available)
		r.restocks[id] = did
		r.level.Available += did
	})
	return did, err
}

func (f *fakeStock) Control(_ context.Context, run seckill.RunID, c stock.Control) error {
	return f.with("control", run, func(r *fakeRun) { r.control = c })
}

func (f *fakeStock) Level(_ context.Context, run seckill.RunID) (l stock.Level, err error) {
	err = f.with("level", run, func(r *fakeRun) { l = r.level })
	return l, err
}

func (f *fakeStock) Drop(_ context.Context, run seckill.RunID) error {
	return f.do("drop", func() error { delete(f.runs, run); return nil })
}

// buy tells whether a buyer got a unit, as a gateway that believes in a would hear it.
func (f *fakeStock) buy(a seckill.Activity, buyer string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[a.RunID()]
	if a.Phase != seckill.PhaseLoaded || r == nil || r.level.Epoch != a.Epoch || r.control.Paused || r.buyers[buyer] || r.level.Available == 0 {
		return false
	}
	r.buyers[buyer] = true
	r.level.Available--
	r.level.Queued++
	return true
}

func (f *fakeStock) run(run seckill.RunID) fakeRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[run]
	if r == nil {
		return fakeRun{}
	}
	c := *r
	c.buyers = maps.Clone(r.buyers)
	return c
}

// lose is what a crash does to a stock that does not keep.
func (f *fakeStock) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.runs)
}

// logged collects the log.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), what)
}

// house is everything that this package runs, over one database and one stock.
type house struct {
	store    *memStore
	stock    *fakeStock
	registry *Registry
	keeper   *Keeper
	operator *Operator
	log      *logged
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return newNode(t, newMemStore(), newFakeStock())
}

// newNode is a node of its own on a database and a stock that others use, too.
func newNode(t *testing.T, store *memStore, s *fakeStock) *house {
	t.Helper()
	h := &house{store: store, stock: s, log: &logged{}}
	log := slog.New(slog.NewTextHandler(h.log, nil))
	var err error
	h.registry, err = NewRegistry(RegistryOptions{Store: h.store, Stock: h.stock, Log: log})
	must(t, err)
	h.keeper, err = NewKeeper(KeeperOptions{Registry: h.registry, Store: h.store, Stock: h.stock, Log: log})
	must(t, err)
	h.operator, err = NewOperator(OperatorOptions{Registry: h.registry, Store: h.store, Stock: h.stock, Log: log})
	must(t, err)
	return h
}

// start runs registry and keeper until the test ends.
func (h *house) start(t *testing.T) {
	t.Helper()
	runs, stop := context.WithCancel(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { _ = h.registry.Run(runs) })
	loops.Go(func() { _ = h.keeper.Run(runs) })
	t.Cleanup(func() {
		stop()
		loops.Wait()
	})
}

// sale is an activity that starts in a while.
func sale(in time.Duration) seckill.Activity {
	now := time.Now()
	return seckill.Activity{
		Name: "sale", Total: 100, StartsAt: now.Add(in), EndsAt: now.Add(in + time.Hour), LimitPerUser: 1, SubStocks: 1,
		PreloadBefore: 5 * time.Minute, PaymentWindow: 15 * time.Minute, Audience: seckill.AudienceEveryone,
	}
}

func (h *house) create(t *testing.T, a seckill.Activity) seckill.Activity {
	t.Helper()
	a, err := h.operator.Create(ctx, a, by)
	must(t, err)
	return a
}
