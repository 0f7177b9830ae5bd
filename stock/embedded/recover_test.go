package embedded

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/stock"
)

// image is all that the engine knows, as bytes: one snapshot per run, and the outbox.
func image(e *Engine) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, id := range []seckill.RunID{run1, run2} {
		if s := e.streams[id]; s != nil && s.run != nil {
			fmt.Fprintf(&b, "%v %x\n", id, bytes.Join(snapshot(s.run, 0), nil))
		}
	}
	fmt.Fprintf(&b, "%d wait in", e.outbox.waiting)
	for _, m := range e.outbox.all {
		if !m.gone {
			fmt.Fprintf(&b, " %d", m.lsn)
		}
	}
	return b.String()
}

// random does something at random with an engine that has at most two runs.
type random struct {
	*rand.Rand
	e     *Engine
	epoch int64
	known []stock.Settlement // One per ticket that was taken, to be changed.
}

func (r *random) step(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	id := []seckill.RunID{run1, run2}[r.IntN(2)]
	switch n := r.IntN(100); {
	case n < 40:
		r.reserve(t, id)
	case n < 75 && len(r.known) > 0:
		var list []stock.Settlement
		for range 1 + r.IntN(4) {
			list = append(list, r.settlement())
		}
		_, err := r.e.Settle(ctx, list)
		must(t, err)
	case n < 80:
		_, err := r.e.Restock(ctx, id, r.Int64N(50), r.Int64N(20)-5)
		must(t, ignoreNotLoaded(err))
	case n < 85:
		must(t, ignoreNotLoaded(r.e.Control(ctx, id, stock.Control{Paused: r.IntN(4) == 0, EndsAt: time.Unix(1e10+r.Int64N(9), r.Int64N(1e9))})))
	case n < 92:
		sub, err := r.e.Outbox().Subscribe(ctx)
		must(t, err)
		if b, _ := r.e.Outbox().Backlog(ctx); b.Waiting > 0 {
			ds, err := sub.Receive(ctx, 3)
			must(t, err)
			must(t, sub.Ack(ctx, ds[:r.IntN(len(ds)+1)]...))
		}
		must(t, sub.Close())
	case n < 96:
		r.epoch++
		spec := testSpec(id, r.Int64N(40), 1+r.IntN(30))
		spec.Epoch = r.epoch
		for i := range r.IntN(4) {
			spec.Held = append(spec.Held, seckill.Order{
				ID: fmt.Sprint(i), Ticket: seckill.NewTicket(id), Buyer: fmt.Sprint("buyer-", i), Quantity: 1 + r.IntN(3), Slot: 1 + r.IntN(9),
				State: seckill.OrderState(1 + r.IntN(3)), CreatedAt: time.Unix(r.Int64N(1e9), 5), PaymentRef: "ref",
			})
		}
		must(t, r.e.Load(ctx, spec))
	case n < 97:
		must(t, r.e.Drop(ctx, id))
	}
}

func ignoreNotLoaded(err error) error {
	if errors.Is(err, stock.ErrNotLoaded) {
		return nil
	}
	return err
}

func (r *random) reserve(t *testing.T, id seckill.RunID) {
	t.Helper()
	l, _ := r.e.Level(t.Context(), id)
	var attempts []seckill.Attempt
	for range 1 + r.IntN(6) {
		a := attempt(id, fmt.Sprint("buyer-", r.IntN(4)), "")
		a.Quantity = 1 + r.IntN(3)
		if r.IntN(2) == 0 {
			a.Key = fmt.Sprint("key-", r.IntN(1000))
		}
		attempts = append(attempts, a)
	}
	ds, err := r.e.Reserve(t.Context(), id, l.Epoch, attempts)
	must(t, err)
	for i, d := range ds {
		if d.Verdict == stock.Taken {
			r.known = append(r.known, stock.Settlement{Run: id, Ticket: d.Ticket, Buyer: attempts[i].Buyer})
		}
	}
}

func (r *random) settlement() stock.Settlement {
	s := r.known[max(0, len(r.known)-1-r.IntN(30))]
	if state := r.IntN(5); state > 0 {
		s.Order = &seckill.Order{ID: "7", AmountCents: r.Int64N(100), State: seckill.OrderState(state), PaymentRef: "é", PayBefore: time.Unix(5, 0)}
	} else {
		s.Failed, s.WrittenOff = seckill.SoldOut, r.IntN(3) == 0
	}
	return s
}

// Whatever was done, and wherever compaction stood, a process that opens the file
// finds exactly what the one before had.
func TestReopenFindsEverything(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	path := filepath.Join(t.TempDir(), "stock.db")
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0))}
	for range 60 {
		e, err := Open(t.Context(), Options{Path: path, CompactBytesMin: 1 << r.IntN(14)})
		must(t, err)
		r.e = e
		for range r.IntN(40) {
			r.step(t)
		}
		before := image(e)
		must(t, e.Close())
		e, err = Open(t.Context(), Options{Path: path})
		must(t, err)
		if after := image(e); after != before {
			t.Fatalf("seed %d: reopened, it is\n%s\nit was\n%s", seed, after, before)
		}
		must(t, e.Close())
	}
}

// crashing makes copies of the file between the steps of the storage, as a crash
// would leave it.
type crashing struct {
	*file
	path string
	copy func(step string)
}

func (c *crashing) commit(rows []row) error { return c.after("commit", c.file.commit(rows)) }
func (c *crashing) putPart(id seckill.RunID, seq uint64, n int, body []byte) error {
	return c.after("part", c.file.putPart(id, seq, n, body))
}
func (c *crashing) install(id seckill.RunID, seq uint64, parts int) error {
	return c.after("install", c.file.install(id, seq, parts))
}
func (c *crashing) forget(id seckill.RunID, seq uint64, dropped bool) error {
	if dropped { // The first step of it, by itself.
		if err := c.after("install", c.file.install(id, seq, 0)); err != nil {
			return err
		}
	}
	return c.after("forget", c.file.forget(id, seq, dropped))
}
func (c *crashing) after(step string, err error) error {
	c.copy(step)
	return err
}

// A crash between any two steps of compaction and of dropping finds what was
// committed.
func TestCrashInUpkeepLosesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "stock.db")
	f, err := openFile(t.Context(), path)
	must(t, err)
	c := &crashing{file: f, path: path}
	var e *Engine
	var committed string // What a crash has to leave, while upkeep runs; nothing is committed then.
	steps := map[string]int{}
	var mu sync.Mutex // The committer may still be busy with what changes nothing.
	c.copy = func(step string) {
		mu.Lock()
		defer mu.Unlock()
		if committed == "" {
			return
		}
		steps[step]++
		crashed := filepath.Join(dir, fmt.Sprintf("crash-%s-%d.db", step, steps[step]))
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(path + suffix)
			must(t, err)
			must(t, os.WriteFile(crashed+suffix, data, 0o600))
		}
		again, err := Open(t.Context(), Options{Path: crashed})
		must(t, err)
		if got := image(again); got != committed {
			t.Errorf("after %s %d it is\n%s\nwant\n%s", step, steps[step], got, committed)
		}
		must(t, again.Close())
		must(t, os.Remove(crashed))
	}
	e, err = open(t.Context(), Options{}, c)
	must(t, err)
	e.workers.Go(e.commit) // The maintainer's work is done here.
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0)), e: e}
	for range 8 {
		for range 40 {
			r.step(t)
		}
		for _, id := range []seckill.RunID{run1, run2} {
			r.epoch++
			spec := testSpec(id, 30, 30)
			spec.Epoch = r.epoch
			if r.IntN(2) == 0 {
				must(t, e.Load(t.Context(), spec))
				r.reserve(t, id)
			}
			e.mu.Lock()
			s := e.streams[id]
			e.mu.Unlock()
			if s == nil {
				continue
			}
			expect := func(image string) {
				mu.Lock()
				committed = image
				mu.Unlock()
			}
			expect(image(e))
			must(t, e.tend(s))
			expect("")
		}
	}
	must(t, e.Close())
	if steps["part"] == 0 || steps["install"] == 0 || steps["forget"] == 0 {
		t.Errorf("steps that were crashed after: %v", steps)
	}
}

// written is a closed file with some rows of a run, the last of which is not the only one.
func written(t *testing.T, compact bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stock.db")
	e, err := Open(t.Context(), Options{Path: path})
	must(t, err)
	must(t, e.Load(t.Context(), testSpec(run1, 50, 50)))
	r := &random{Rand: rand.New(rand.NewPCG(1, 2)), e: e}
	for range 5 {
		r.reserve(t, run1)
	}
	if compact {
		must(t, e.tend(e.streams[run1]))
		r.reserve(t, run1)
	}
	must(t, e.Close())
	return path
}

func tamper(t *testing.T, path, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.ExecContext(t.Context(), statement, args...)
	must(t, err)
	must(t, db.Close())
}

// A file that is damaged is refused with an error that says so; nothing of it is
// silently left out.
func TestDamagedFileIsRefused(t *testing.T) {
	last := "seq = (SELECT max(seq) FROM log)"
	for name, statement := range map[string]string{
		"the last row is cut":              "UPDATE log SET body = substr(body, 1, length(body) - 1) WHERE " + last,
		"the last row has only its header": "UPDATE log SET body = substr(body, 1, 32) WHERE " + last,
		"the last row is empty":            "UPDATE log SET body = x'' WHERE " + last,
		"the last row has more":            "UPDATE log SET body = CAST(body || x'00' AS BLOB) WHERE " + last,
		"a row is missing":                 "DELETE FROM log WHERE seq = (SELECT max(seq) - 1 FROM log)",
		"the first row is missing":         "DELETE FROM log WHERE seq = (SELECT min(seq) FROM log)",
		"a row is of another run":          "UPDATE log SET run = 2 WHERE " + last,
		"all rows are of another run":      "UPDATE log SET run = 2",
		"a row is moved":                   "UPDATE log SET seq = seq + 5 WHERE seq = (SELECT max(seq) - 1 FROM log)",
		"a part is missing":                "DELETE FROM part",
		"a part is cut":                    "UPDATE part SET body = substr(body, 1, length(body) - 1)",
		"the snapshot is missing":          "DELETE FROM snapshot",
		"a newer version":                  "PRAGMA user_version = 2",
	} {
		path := written(t, strings.Contains(name, "part") || strings.Contains(name, "snapshot"))
		tamper(t, path, statement)
		e, err := Open(t.Context(), Options{Path: path})
		if err == nil {
			t.Errorf("%s: it opens", name)
			must(t, e.Close())
		} else if name != "a newer version" && !errors.Is(err, errDamaged) {
			t.Errorf("%s: got %v, want that it is damaged", name, err)
		}
	}
}

// Any byte of a row matters: whichever is changed, the file is refused.
func TestEveryFlippedByteIsNoticed(t *testing.T) {
	path := written(t, false)
	f, err := openFile(t.Context(), path)
	must(t, err)
	defer func() { must(t, f.close()) }()
	var rows []row
	must(t, f.read(run1, 1<<62, func(_ int, seq uint64, body []byte) error {
		rows = append(rows, row{run1, seq, body})
		return nil
	}))
	for i, bad := range rows {
		for at := range bad.body {
			rp := replay{id: run1}
			var err error
			for j, r := range rows {
				body := bytes.Clone(r.body)
				if i == j {
					body[at] ^= 1 << (at % 8)
				}
				if err = rp.row(r.seq, body); err != nil {
					break
				}
			}
			if err == nil {
				t.Fatalf("byte %d of row %d was changed, and nobody notices", at, i)
			}
		}
	}
}

// A second process on the same file is told what is wrong.
func TestFileHasOneOwner(t *testing.T) {
	path := written(t, false)
	e, err := Open(t.Context(), Options{Path: path})
	must(t, err)
	if _, err := Open(t.Context(), Options{Path: path}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("got %v, want that it is in use", err)
	}
	if _, err := os.Stat(path + "-shm"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is shared memory, so the lock is not exclusive from the start: %v", err)
	}
	must(t, e.Close())
	e, err = Open(t.Context(), Options{Path: path})
	must(t, err)
	must(t, e.Close())
}

// SQLite is set up to write through before it says that a commit is done.
func TestCommitsAreWrittenThrough(t *testing.T) {
	f, err := openFile(t.Context(), written(t, false))
	must(t, err)
	defer func() { must(t, f.close()) }()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "locking_mode": "exclusive"} {
		var got string
		must(t, f.db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
}

// Message ids are never used twice, not even when the run that had them is gone from the
// file.
func TestNumbersAreNeverUsedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stock.db")
	var highest uint64
	for range 3 {
		e, err := Open(t.Context(), Options{Path: path})
		must(t, err)
		if e.logged < highest {
			t.Fatalf("numbers go on from %d, %d was used", e.logged, highest)
		}
		must(t, e.Load(t.Context(), testSpec(run1, 5, 5)))
		must(t, e.Drop(t.Context(), run1))
		awaitTrue(t, func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.streams) == 0 })
		highest = e.logged
		must(t, e.Close())
	}
}
