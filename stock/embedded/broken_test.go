package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/stock"
)

// faulty is a log that can be made to hang or to fail.
type faulty struct {
	storage
	mu      sync.Mutex
	err     error         // Of each commit.
	late    bool          // The commit happens, and then fails.
	gate    chan struct{} // A commit waits until it is closed.
	begun   chan struct{} // Told of each commit that begins.
	commits int
}

func (f *faulty) commit(rows []row) error {
	f.mu.Lock()
	err, late, gate := f.err, f.late, f.gate
	f.commits++
	f.mu.Unlock()
	signal(f.begun)
	if gate != nil {
		<-gate
	}
	if err != nil && !late {
		return err
	}
	return errors.Join(err, f.storage.commit(rows))
}

func (f *faulty) set(err error, late bool, gate chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.late, f.gate = err, late, gate
}

var (
	run1    = seckill.RunID{Activity: 1, Run: 1}
	run2    = seckill.RunID{Activity: 2, Run: 1}
	errDisk = errors.New("no space left on device")
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// onFaulty is an engine on a file under a faulty log, with two runs of ten units.
func onFaulty(t *testing.T) (*Engine, *faulty) {
	t.Helper()
	file, err := openFile(t.Context(), filepath.Join(t.TempDir(), "stock.db"))
	must(t, err)
	f := &faulty{storage: file, begun: make(chan struct{}, 1)}
	e, err := open(t.Context(), Options{}, f)
	must(t, err)
	e.workers.Go(e.commit)
	e.workers.Go(e.maintain)
	t.Cleanup(func() { _ = e.Close() })
	for _, id := range []seckill.RunID{run1, run2} {
		must(t, e.Load(t.Context(), testSpec(id, 10, 5)))
	}
	f.drain()
	return e, f
}

func (f *faulty) drain() {
	select {
	case <-f.begun:
	default:
	}
}

func testSpec(id seckill.RunID, units int64, limit int) stock.Spec {
	now := time.Now()
	return stock.Spec{Run: id, Epoch: 1, Units: units, Limit: limit, SubStocks: 1, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour)}
}

func attempt(id seckill.RunID, buyer, key string) seckill.Attempt {
	return seckill.Attempt{Ticket: seckill.NewTicket(id), Buyer: buyer, Quantity: 1, Key: key}
}

func ask(ctx context.Context, e *Engine, id seckill.RunID, a seckill.Attempt) (stock.Decision, error) {
	ds, err := e.Reserve(ctx, id, 1, []seckill.Attempt{a})
	if err != nil {
		return stock.Decision{}, err
	}
	return ds[0], nil
}

// soon is a context for what must not answer, but is given the time to.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func wantDeadline(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: got %v, want the deadline to pass", what, err)
	}
}

// While a reservation is not on disk nobody sees it: not its buyer, nor the outbox, nor
// a watcher; and a refusal that saw it waits with it. Others do not.
func TestNothingIsSeenBeforeItIsOnDisk(t *testing.T) {
	e, f := onFaulty(t)
	sub, err := e.Outbox().Subscribe(t.Context())
	must(t, err)
	events := make(chan stock.Event, 10)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = e.Watch(t.Context(), func(ev stock.Event) { events <- ev })
	}()
	awaitTrue(t, func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.watch) == 1 })
	gate := make(chan struct{})
	f.set(nil, false, gate)
	a := attempt(run1, "ann", "key")
	answered := make(chan stock.Decision, 1)
	go func() {
		d, _ := ask(t.Context(), e, run1, a)
		answered <- d
	}()
	<-f.begun

	_, err = e.Outcome(soon(t), "ann", a.Ticket)
	wantDeadline(t, "outcome", err)
	_, err = e.Level(soon(t), run1)
	wantDeadline(t, "level", err)
	_, err = e.Queued(soon(t), run1, "", 1)
	wantDeadline(t, "queued", err)
	_, err = sub.Receive(soon(t), 1)
	wantDeadline(t, "outbox", err)
	many := attempt(run1, "bob", "")
	many.Quantity = 6
	_, err = ask(soon(t), e, run1, many)
	wantDeadline(t, "a refusal that saw the reservation", err)
	settled := stock.Settlement{Run: run1, Ticket: a.Ticket, Buyer: "ann", Failed: seckill.SoldOut}
	_, err = e.Settle(soon(t), []stock.Settlement{settled})
	wantDeadline(t, "its settlement", err)
	if b, err := e.Outbox().Backlog(t.Context()); err != nil || b.Waiting != 0 {
		t.Errorf("backlog: got %+v, %v; want none", b, err)
	}
	select {
	case ev := <-events:
		t.Errorf("told of %+v, which is not on disk", ev)
	case <-answered:
		t.Error("answered before it was on disk")
	default:
	}
	many.Ticket, many.Quantity = seckill.NewTicket(run2), 6
	if d, err := ask(soon(t), e, run2, many); err != nil || d.Verdict != stock.OverLimit {
		t.Errorf("a refusal that saw nothing of it: got %+v, %v", d, err)
	}

	f.set(nil, false, nil)
	close(gate)
	if d := <-answered; d.Verdict != stock.Taken {
		t.Errorf("got %+v, want taken", d)
	}
	if o, err := e.Outcome(t.Context(), "ann", a.Ticket); err != nil || o.Reason != seckill.SoldOut {
		t.Errorf("got %+v, %v; want failed, sold_out", o, err)
	}
	if ev := <-events; ev.Kind != stock.EventSettled || ev.Ticket != a.Ticket {
		t.Errorf("told of %+v, want the settlement", ev)
	}
	must(t, e.Close())
	<-watching
}

// Nor does anybody hear that a run is gone before that is on disk.
func TestDropIsNotSeenBeforeItIsOnDisk(t *testing.T) {
	e, f := onFaulty(t)
	gate := make(chan struct{})
	f.set(nil, false, gate)
	dropped := make(chan error, 1)
	go func() { dropped <- e.Drop(t.Context(), run1) }()
	<-f.begun
	_, err := ask(soon(t), e, run1, attempt(run1, "ann", ""))
	wantDeadline(t, "a refusal that saw the drop", err)
	_, err = e.Level(soon(t), run1)
	wantDeadline(t, "level", err)
	f.set(nil, false, nil)
	close(gate)
	must(t, <-dropped)
}

func (e *Engine) broken() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failure != nil
}

func awaitTrue(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
		<-time.After(time.Millisecond)
	}
}

// A log that cannot be written sells nothing, answers at once, takes no memory, and
// goes on by itself; what was decided before is then true, under the same key.
func TestBrokenLogAcknowledgesNothingAndRecovers(t *testing.T) {
	for _, late := range []bool{false, true} {
		e, f := onFaulty(t)
		before, err := ask(t.Context(), e, run1, attempt(run1, "bob", "k"))
		must(t, err)
		f.set(errDisk, late, nil)
		a := attempt(run1, "ann", "key")
		_, err = ask(soon(t), e, run1, a)
		wantDeadline(t, "the reservation that met the fault", err)
		awaitTrue(t, e.broken)
		e.mu.Lock()
		bytes := e.waiting
		e.mu.Unlock()
		for range 1000 {
			if _, err := ask(t.Context(), e, run1, attempt(run1, "cyd", "")); !errors.Is(err, errDisk) {
				t.Fatalf("got %v, want the fault at once", err)
			}
		}
		if _, err := e.Outcome(t.Context(), "ann", a.Ticket); !errors.Is(err, errDisk) {
			t.Errorf("outcome: got %v, want the fault", err)
		}
		if o, err := e.Outcome(t.Context(), "bob", before.Ticket); err != nil || o.Progress != seckill.Queued {
			t.Errorf("what is on disk cannot be seen: %+v, %v", o, err)
		}
		if _, err := e.Restock(t.Context(), run1, 1, 1); !errors.Is(err, errDisk) {
			t.Errorf("restock: got %v, want the fault", err)
		}
		e.mu.Lock()
		if e.waiting != bytes {
			t.Errorf("%d bytes wait for the disk, before it was %d", e.waiting, bytes)
		}
		e.mu.Unlock()

		f.set(nil, false, nil)
		again := attempt(run1, "ann", "key")
		var d stock.Decision
		awaitTrue(t, func() bool { d, err = ask(t.Context(), e, run1, again); return err == nil })
		if d.Verdict != stock.Known || d.Ticket != a.Ticket {
			t.Errorf("the key got %+v, want ticket %s", d, a.Ticket)
		}
		if l, err := e.Level(t.Context(), run1); err != nil || l.Available != 8 || l.Queued != 2 {
			t.Errorf("got %+v, %v; want 8 available, 2 queued", l, err)
		}
		e.mu.Lock()
		if e.waiting != 0 {
			t.Errorf("%d bytes wait for the disk, and all is written", e.waiting)
		}
		e.mu.Unlock()
	}
}

// What waits for a disk that hangs is bounded.
func TestHangingDiskIsBounded(t *testing.T) {
	e, f := onFaulty(t)
	must(t, e.Load(t.Context(), stock.Spec{Run: run1, Epoch: 2, Units: 1 << 30, Limit: 5, SubStocks: 1, StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour)}))
	e.pendingMax = 64 << 10
	gate := make(chan struct{})
	f.set(nil, false, gate)
	patient, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	refused := make(chan error, 10_000)
	for i := range 2000 {
		callers.Go(func() {
			_, err := e.Reserve(patient, run1, 2, []seckill.Attempt{attempt(run1, fmt.Sprint("buyer-", i), "")})
			refused <- err
		})
	}
	select { // All but those that fit are refused at once.
	case err := <-refused:
		if err == nil || !strings.Contains(err.Error(), "wait for the disk") {
			t.Errorf("got %v, want that too much waits", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody is refused")
	}
	cancel()
	callers.Wait()
	e.mu.Lock()
	if e.waiting > e.pendingMax+1024 {
		t.Errorf("%d bytes wait", e.waiting)
	}
	e.mu.Unlock()
	f.set(nil, false, nil)
	close(gate)
}

// A Close that cannot write says so, and whoever waits hears it.
func TestCloseOfABrokenLogEnds(t *testing.T) {
	e, f := onFaulty(t)
	f.set(errDisk, false, nil)
	failed := make(chan error, 1)
	go func() {
		_, err := ask(t.Context(), e, run1, attempt(run1, "ann", ""))
		failed <- err
	}()
	<-f.begun
	if err := e.Close(); !errors.Is(err, errDisk) {
		t.Errorf("close: got %v, want the fault", err)
	}
	if err := <-failed; !errors.Is(err, ErrClosed) && !errors.Is(err, errDisk) {
		t.Errorf("the waiting call: got %v, want ErrClosed", err)
	}
}

// A Close writes what waits; afterwards every call fails.
func TestCallsAfterCloseFail(t *testing.T) {
	e, _ := onFaulty(t)
	sub, err := e.Outbox().Subscribe(t.Context())
	must(t, err)
	received := make(chan error, 1)
	go func() {
		_, err := sub.Receive(t.Context(), 1)
		received <- err
	}()
	must(t, e.Close())
	must(t, e.Close())
	ctx := t.Context()
	_, reserve := ask(ctx, e, run1, attempt(run1, "ann", ""))
	_, settle := e.Settle(ctx, nil)
	_, restock := e.Restock(ctx, run1, 1, 1)
	_, outcome := e.Outcome(ctx, "ann", seckill.NewTicket(run1))
	_, level := e.Level(ctx, run1)
	_, queued := e.Queued(ctx, run1, "", 1)
	_, subscribe := e.Outbox().Subscribe(ctx)
	_, backlog := e.Outbox().Backlog(ctx)
	for name, err := range map[string]error{
		"reserve": reserve, "settle": settle, "restock": restock, "outcome": outcome, "level": level,
		"queued": queued, "subscribe": subscribe, "backlog": backlog, "receive": <-received,
		"load": e.Load(ctx, testSpec(run1, 1, 1)), "control": e.Control(ctx, run1, stock.Control{}),
		"drop": e.Drop(ctx, run1), "watch": e.Watch(ctx, func(stock.Event) {}), "ack": sub.Ack(ctx),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", name, err)
		}
	}
	must(t, sub.Close())
}
