package control

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/telemetry"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	operator = seckill.Actor{Who: "operator", From: "192.0.2.1", Reason: "a test"}
	errAway  = errors.New("the database is away")
)

// database is a store in memory. It is away, or hangs, when a test says so.
type database struct {
	mu    sync.Mutex
	away  bool
	hangs bool
	lists bool // Whether lists cannot be read.

	headless  bool   // Whether it cannot be read which lists there are.
	heard     int    // How often that was asked.
	meanwhile func() // What happens next while that is read.

	versions  Versions
	states    map[string]seckill.SwitchState
	plans     []seckill.SwitchPlan
	rows      []row
	heads     map[int64]AudienceHead
	chunks    map[[2]int64][][]byte
	ids       int64
	folds     int
	asked     int // How often the versions were.
	readWhole int // How often all blocks were.
}

type row struct {
	seckill.Block
	version int64
	removed bool
}

func newDatabase() *database {
	return &database{states: map[string]seckill.SwitchState{}, heads: map[int64]AudienceHead{}, chunks: map[[2]int64][][]byte{}, versions: Versions{1, 1, 1, 0, 1}}
}

// enter begins a call; it holds the mutex if it returns nil.
func (d *database) enter(ctx context.Context) error {
	d.mu.Lock()
	away, hangs := d.away, d.hangs
	if !away && !hangs {
		return nil
	}
	d.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return errAway
}

func (d *database) set(change func(d *database)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (d *database) ControlVersions(ctx context.Context) (Versions, error) {
	if err := d.enter(ctx); err != nil {
		return Versions{}, err
	}
	defer d.mu.Unlock()
	d.asked++
	return d.versions, nil
}

func (d *database) Switches(ctx context.Context) (states []seckill.SwitchState, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	for _, known := range seckill.AllSwitches() {
		s, ok := d.states[known.Name]
		if !ok {
			s = seckill.SwitchState{Name: known.Name, Value: known.Default}
		}
		for _, p := range d.plans {
			if p.Name == s.Name {
				s.Scheduled = append(s.Scheduled, p)
			}
		}
		states = append(states, s)
	}
	return states, nil
}

func (d *database) SetSwitch(ctx context.Context, name string, value int64, now time.Time, by seckill.Actor) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.states[name] = seckill.SwitchState{Name: name, Value: value, ChangedAt: now, ChangedBy: by}
	d.versions.Switches++
	return nil
}

func (d *database) PlanSwitch(ctx context.Context, name string, value int64, at time.Time, by seckill.Actor) (int64, error) {
	if err := d.enter(ctx); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	d.ids++
	d.plans = append(d.plans, seckill.SwitchPlan{ID: d.ids, Name: name, Value: value, At: at, By: by})
	slices.SortFunc(d.plans, func(a, b seckill.SwitchPlan) int { return a.At.Compare(b.At) })
	d.versions.Switches++
	return d.ids, nil
}

func (d *database) CancelPlan(ctx context.Context, name string, id int64, _ seckill.Actor) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.plans = slices.DeleteFunc(d.plans, func(p seckill.SwitchPlan) bool { return p.Name == name && p.ID == id })
	d.versions.Switches++
	return nil
}

func (d *database) FoldPlans(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.plans = slices.DeleteFunc(d.plans, func(p seckill.SwitchPlan) bool {
		if p.At.After(time.Now()) {
			return false
		}
		d.states[p.Name] = seckill.SwitchState{Name: p.Name, Value: p.Value, ChangedAt: p.At, ChangedBy: p.By}
		d.versions.Switches++
		d.folds++
		return true
	})
	return nil
}

func (d *database) Blocks(context.Context, int64, int) ([]seckill.Block, error) { return nil, nil }

// put stores a block in place of another.
func (d *database) put(b seckill.Block) seckill.Block {
	d.ids++
	b.ID = d.ids
	for i := range d.rows {
		if r := &d.rows[i]; !r.removed && r.Kind == b.Kind && r.Value == b.Value {
			r.removed, r.version = true, d.versions.Blocks
		}
	}
	d.rows = append(d.rows, row{Block: b, version: d.versions.Blocks})
	return b
}

func (d *database) AddBlock(ctx context.Context, b seckill.Block, by seckill.Actor) (seckill.Block, error) {
	if err := d.enter(ctx); err != nil {
		return b, err
	}
	defer d.mu.Unlock()
	d.versions.Blocks++
	b.By = by
	return d.put(b), nil
}

func (d *database) AddAutomaticBlocks(ctx context.Context, bs []seckill.Block, _ seckill.Actor) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.versions.Blocks++
	for _, b := range bs {
		d.put(b)
	}
	return nil
}

func (d *database) RemoveBlock(ctx context.Context, id int64, _ seckill.Actor) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	for i := range d.rows {
		if r := &d.rows[i]; r.ID == id && !r.removed {
			d.versions.Blocks++
			r.removed, r.version = true, d.versions.Blocks
			return nil
		}
	}
	return seckill.ErrNotFound
}

func (d *database) BlocksAfter(ctx context.Context, version int64, each func(seckill.Block, bool)) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if version < 0 {
		d.readWhole++
	}
	for _, r := range d.rows {
		if version < 0 && !r.removed || version >= 0 && r.version > version {
			each(r.Block, r.removed)
		}
	}
	return nil
}

func (d *database) SweepBlocks(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	return nil
}

func (d *database) Audience(ctx context.Context, activity int64) (seckill.AudienceState, error) {
	if err := d.enter(ctx); err != nil {
		return seckill.AudienceState{}, err
	}
	defer d.mu.Unlock()
	if activity > 100 {
		return seckill.AudienceState{}, seckill.ErrNotFound
	}
	return d.heads[activity].AudienceState, nil
}

func (d *database) Audiences(ctx context.Context) (heads []AudienceHead, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	d.heard++
	if d.headless {
		return nil, errAway
	}
	for _, h := range d.heads {
		heads = append(heads, h)
	}
	if happens := d.meanwhile; happens != nil {
		d.meanwhile = nil
		d.mu.Unlock()
		happens()
		d.mu.Lock()
	}
	return heads, nil
}

// looked is how often it was asked which lists there are.
func (d *database) looked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heard
}

func (d *database) AudienceChunks(ctx context.Context, activity, version int64, each func([]byte) error) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if d.lists {
		return errAway
	}
	for _, c := range d.chunks[[2]int64{activity, version}] {
		if err := each(c); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) PutAudience(ctx context.Context, activity, buyers int64, chunks [][]byte, _ seckill.Actor) (seckill.AudienceState, error) {
	if err := d.enter(ctx); err != nil {
		return seckill.AudienceState{}, err
	}
	defer d.mu.Unlock()
	h := d.heads[activity]
	if h.EndsAt.IsZero() {
		h.EndsAt = time.Now().Add(time.Hour)
	}
	h.Activity, h.Version, h.Count, h.UpdatedAt, h.Bytes = activity, h.Version+1, buyers, time.Now(), 0
	for _, c := range chunks {
		h.Bytes += int64(len(c))
	}
	d.heads[activity], d.chunks[[2]int64{activity, h.Version}] = h, chunks
	d.versions.Audiences++
	return h.AudienceState, nil
}

// journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// bubble runs a test under a clock of its own, with so many boards that run on one database.
func bubble(t *testing.T, boards int, test func(t *testing.T, d *database, bs []*Board, log *journal)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, log := newDatabase(), &journal{}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var bs []*Board
		for range boards {
			b, err := New(Options{Store: d, Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: telemetry.New("test")})
			must(t, err)
			must(t, b.Refresh(ctx))
			bs = append(bs, b)
			running.Go(func() { _ = b.Run(ctx) }) // It has no error to tell.
		}
		synctest.Wait()
		test(t, d, bs, log)
		cancel()
		running.Wait()
	})
}

// wait lets time go by.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
