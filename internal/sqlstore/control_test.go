package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill"
)

// stateOf reads how one switch stands.
func (p *place) stateOf(t *testing.T, name string) seckill.SwitchState {
	t.Helper()
	states, err := p.Switches(t.Context())
	must(t, err)
	for _, s := range states {
		if s.Name == name {
			return s
		}
	}
	return seckill.SwitchState{}
}

// lastAudit is the newest line of the audit log.
func (p *place) lastAudit(t *testing.T) string {
	t.Helper()
	entries, err := p.Audit(t.Context(), 0, 1)
	must(t, err)
	if len(entries) == 0 {
		return ""
	}
	e := entries[0]
	return fmt.Sprintf("%s %s by %s from %s: %s %s", e.Action, e.Object, e.Actor.Who, e.Actor.From, e.Actor.Reason, e.Detail)
}

// A switch is turned once for all, with who, from where and why; what turns nothing leaves no trace.
func claimSwitches(t *testing.T, p *place) {
	ctx, now := t.Context(), time.Now()
	before, err := p.ControlVersions(ctx)
	must(t, err)
	equal(t, "a switch that nobody has turned", p.stateOf(t, "intake").Name, "")
	must(t, p.SetSwitch(ctx, "intake", 1, now, operator))
	same, err := p.ControlVersions(ctx)
	must(t, err)
	equal(t, "versions after nothing was turned", same, before)
	equal(t, "audit after nothing was turned", p.lastAudit(t), "")

	must(t, p.SetSwitch(ctx, "intake", 0, now, operator))
	s := p.stateOf(t, "intake")
	if s.Value != 0 || s.ChangedBy != operator || time.Since(s.ChangedAt).Abs() > time.Minute {
		t.Fatalf("after it was turned: %+v", s)
	}
	after, err := p.ControlVersions(ctx)
	must(t, err)
	before.Switches++
	equal(t, "versions", after, before)
	equal(t, "audit", p.lastAudit(t), `switch.set switch/intake by operator from 192.0.2.1: a test {"from":true,"to":false}`)
	must(t, p.SetSwitch(ctx, "admission_percent", 30, now, operator))
	must(t, p.SetSwitch(ctx, "admission_percent", 40, now, operator))
	equal(t, "audit", p.lastAudit(t), `switch.set switch/admission_percent by operator from 192.0.2.1: a test {"from":30,"to":40}`)

	for value, name := range map[int64]string{2: "intake", -1: "challenge", 101: "admission_percent"} {
		var refusal *seckill.Refusal
		if err := p.SetSwitch(ctx, name, value, now, operator); !errors.As(err, &refusal) || refusal.Fields[0].Field != "value" {
			t.Errorf("%s to %d: %v", name, value, err)
		}
	}
	if err := p.SetSwitch(ctx, "nothing", 1, now, operator); !errors.Is(err, seckill.ErrNotFound) {
		t.Errorf("an unknown switch: %v", err)
	}
}

// A plan is carried out once, by whoever comes first, at its time and in order; and before
// what is turned by hand after it.
func claimPlans(t *testing.T, p *place) {
	ctx, now := t.Context(), time.Now()
	late, err := p.PlanSwitch(ctx, "intake", 0, now.Add(time.Hour), operator)
	must(t, err)
	equal(t, "audit of a plan", strings.HasPrefix(p.lastAudit(t), "switch.schedule switch/intake by operator"), true)
	_, err = p.PlanSwitch(ctx, "admission_percent", 20, now.Add(-time.Second), operator)
	must(t, err)
	_, err = p.PlanSwitch(ctx, "admission_percent", 10, now.Add(-2*time.Second), operator)
	must(t, err)
	s := p.stateOf(t, "admission_percent")
	if s.Value != 100 || len(s.Scheduled) != 2 || s.Scheduled[0].Value != 10 || s.Scheduled[1].Value != 20 || s.Scheduled[0].By != operator {
		t.Fatalf("two plans: %+v", s)
	}
	before, err := p.ControlVersions(ctx)
	must(t, err)
	nodes := make([]func(context.Context) error, 5)
	for i := range nodes {
		nodes[i] = p.FoldPlans
	}
	together(t, nodes...)
	s = p.stateOf(t, "admission_percent")
	if s.Value != 20 || len(s.Scheduled) != 0 || !s.ChangedAt.Equal(now.Add(-time.Second).Truncate(time.Microsecond)) {
		t.Fatalf("carried out: %+v", s)
	}
	after, err := p.ControlVersions(ctx)
	must(t, err)
	before.Switches++
	equal(t, "versions after five nodes carried it out", after, before)
	entries, err := p.Audit(ctx, 0, 2)
	must(t, err)
	if !strings.Contains(entries[0].Detail, `"from":10,"scheduled_at":"`) || !strings.Contains(entries[1].Detail, `"from":100,`) {
		t.Fatalf("audit: %+v", entries)
	}

	// The node's clock is ahead of the database's: what the node takes for done comes first.
	if err := p.SetSwitch(ctx, "intake", 1, now.Add(2*time.Hour), operator); err != nil {
		t.Fatal(err)
	}
	if s = p.stateOf(t, "intake"); s.Value != 1 || len(s.Scheduled) != 0 {
		t.Fatalf("turned by hand after a plan: %+v", s)
	}
	if err := p.CancelPlan(ctx, "intake", late, operator); !errors.Is(err, seckill.ErrNotFound) {
		t.Fatalf("a plan that was carried out is taken back: %v", err)
	}
	id, err := p.PlanSwitch(ctx, "challenge", 1, now.Add(time.Hour), operator)
	must(t, err)
	if err := p.CancelPlan(ctx, "intake", id, operator); !errors.Is(err, seckill.ErrNotFound) {
		t.Fatalf("another switch's plan: %v", err)
	}
	must(t, p.CancelPlan(ctx, "challenge", id, operator))
	equal(t, "plans left", len(p.stateOf(t, "challenge").Scheduled), 0)

	for range plansMax {
		_, err := p.PlanSwitch(ctx, "challenge", 1, now.Add(time.Hour), operator)
		must(t, err)
	}
	conflict(t, "one plan too many", func() error { _, err := p.PlanSwitch(ctx, "challenge", 1, now.Add(time.Hour), operator); return err })
}

func ipBlock(value string, until time.Time) seckill.Block {
	return seckill.Block{Kind: seckill.BlockIP, Value: value, Until: until, By: seckill.Actor{Who: "system", Reason: "too fast"}}
}

// changes reads the blocks after a version, as a node does.
func (p *place) changes(t *testing.T, after int64) (list []string) {
	t.Helper()
	must(t, p.BlocksAfter(t.Context(), after, func(b seckill.Block, removed bool) {
		what := "+"
		if removed {
			what = "-"
		}
		list = append(list, what+b.Value)
	}))
	slices.Sort(list)
	return list
}

// There is one block for a kind and a value: a newer one takes its place. What a node has not read
// yet, it finds by its version.
func claimBlocks(t *testing.T, p *place) {
	ctx := t.Context()
	hour := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	first, err := p.AddBlock(ctx, ipBlock("192.0.2.1", time.Time{}), operator)
	must(t, err)
	if first.ID == 0 || first.By != operator || !first.Until.IsZero() || time.Since(first.CreatedAt).Abs() > time.Minute {
		t.Fatalf("made %+v", first)
	}
	equal(t, "audit", p.lastAudit(t), fmt.Sprintf(`block.add block/%d by operator from 192.0.2.1: a test {"kind":"ip","value":"192.0.2.1"}`, first.ID))
	v1, err := p.ControlVersions(ctx)
	must(t, err)
	spaced := seckill.Block{Kind: seckill.BlockUser, Value: "a ", Until: hour}
	for _, b := range []seckill.Block{spaced, {Kind: seckill.BlockUser, Value: "a"}, {Kind: seckill.BlockDevice, Value: "a"}, ipBlock("192.0.2.1", hour)} {
		_, err := p.AddBlock(ctx, b, operator)
		must(t, err)
	}
	list, err := p.Blocks(ctx, 0, 10)
	must(t, err)
	var got []string
	for _, b := range list {
		got = append(got, fmt.Sprintf("%s %q %v", b.Kind, b.Value, b.Until.Equal(hour)))
	}
	equal(t, "blocks", strings.Join(got, ", "), `ip "192.0.2.1" true, device "a" false, user "a" false, user "a " true`)
	page, err := p.Blocks(ctx, list[1].ID, 2)
	must(t, err)
	if len(page) != 2 || page[0] != list[2] || page[1] != list[3] {
		t.Fatalf("a page: %+v", page)
	}
	equal(t, "changes after the first", fmt.Sprintf("%q", p.changes(t, v1.Blocks)), `["+192.0.2.1" "+a" "+a" "+a " "-192.0.2.1"]`)
	equal(t, "all", fmt.Sprintf("%q", p.changes(t, -1)), `["+192.0.2.1" "+a" "+a" "+a "]`)

	if err := p.RemoveBlock(ctx, first.ID, operator); !errors.Is(err, seckill.ErrNotFound) {
		t.Fatalf("a block that was replaced is removed: %v", err)
	}
	v2, err := p.ControlVersions(ctx)
	must(t, err)
	must(t, p.RemoveBlock(ctx, list[3].ID, operator))
	if err := p.RemoveBlock(ctx, list[3].ID, operator); !errors.Is(err, seckill.ErrNotFound) {
		t.Fatalf("twice: %v", err)
	}
	equal(t, "changes", fmt.Sprintf("%q", p.changes(t, v2.Blocks)), `["-a "]`)
}

// The program's own blocks leave alone what an operator made and what lasts longer; nodes read
// the one that holds again.
func claimAutomaticBlocks(t *testing.T, p *place) {
	ctx := t.Context()
	soon, late := time.Now().Add(time.Minute).UTC(), time.Now().Add(time.Hour).UTC()
	_, err := p.AddBlock(ctx, ipBlock("192.0.2.1", soon), operator)
	must(t, err)
	system := seckill.Actor{Who: "system"}
	must(t, p.AddAutomaticBlocks(ctx, []seckill.Block{ipBlock("192.0.2.2", late), ipBlock("192.0.2.3", soon)}, system))
	equal(t, "audit", p.lastAudit(t), `block.add_automatic blocks by system from :  {"count":2,"first":["ip 192.0.2.2: too fast","ip 192.0.2.3: too fast"]}`)
	v, err := p.ControlVersions(ctx)
	must(t, err)
	again := []seckill.Block{ipBlock("192.0.2.1", late), ipBlock("192.0.2.2", soon), ipBlock("192.0.2.3", late)}
	must(t, p.AddAutomaticBlocks(ctx, again, system))
	equal(t, "read again", fmt.Sprintf("%q", p.changes(t, v.Blocks)), `["+192.0.2.1" "+192.0.2.2" "+192.0.2.3" "-192.0.2.3"]`)
	list, err := p.Blocks(ctx, 0, 10)
	must(t, err)
	for i, want := range []struct {
		value     string
		automatic bool
		until     time.Time
		reason    string
	}{{"192.0.2.3", true, late, "too fast"}, {"192.0.2.2", true, late, "too fast"}, {"192.0.2.1", false, soon, "a test"}} {
		if b := list[i]; b.Value != want.value || b.Automatic != want.automatic || !b.Until.Equal(stored(want.until)) || b.By.Reason != want.reason {
			t.Errorf("got %+v, want %+v", b, want)
		}
	}
}

// There are only so many blocks, those that are over aside. What is over, and what was removed long
// ago, goes; a node that has not heard of it has to read all.
func claimBlocksAreBounded(t *testing.T, p *place) {
	ctx := t.Context()
	p.blocksMax = 3
	over, err := p.AddBlock(ctx, ipBlock("192.0.2.9", time.Now().Add(time.Hour)), operator)
	must(t, err)
	p.raw(t, "UPDATE seckill_block SET until_time = ? WHERE id = ?", at(time.Now().Add(-time.Second)), over.ID)
	list, err := p.Blocks(ctx, 0, 10)
	must(t, err)
	equal(t, "blocks that are not over", len(list), 0)
	var last seckill.Block
	for i := range 3 {
		last, err = p.AddBlock(ctx, ipBlock(fmt.Sprint("192.0.2.", i), time.Time{}), operator)
		must(t, err)
	}
	conflict(t, "one too many", func() error { _, err := p.AddBlock(ctx, ipBlock("192.0.2.8", time.Time{}), operator); return err })
	if _, err = p.AddBlock(ctx, ipBlock("192.0.2.0", time.Time{}), operator); err != nil {
		t.Fatalf("in the place of another: %v", err)
	}
	must(t, p.RemoveBlock(ctx, last.ID, operator))
	_, err = p.AddBlock(ctx, ipBlock("192.0.2.8", time.Now().Add(time.Hour)), operator)
	must(t, err)

	v, err := p.ControlVersions(ctx)
	must(t, err)
	equal(t, "floor", v.BlockFloor, 0)
	must(t, p.SweepBlocks(ctx))
	p.raw(t, "UPDATE seckill_block SET until_time = ? WHERE value = '192.0.2.8'", at(time.Now().Add(-time.Second)))
	p.raw(t, "UPDATE seckill_block SET update_time = ? WHERE id = ?", at(time.Now().Add(-2*removedFor)), last.ID)
	equal(t, "before the sweep", fmt.Sprintf("%q", p.changes(t, 0)), `["+192.0.2.0" "+192.0.2.1" "+192.0.2.8" "-192.0.2.0" "-192.0.2.2"]`)
	must(t, p.SweepBlocks(ctx))
	equal(t, "after it", fmt.Sprintf("%q", p.changes(t, 0)), `["+192.0.2.0" "+192.0.2.1" "-192.0.2.0"]`)
	after, err := p.ControlVersions(ctx)
	must(t, err)
	equal(t, "floor", after.BlockFloor, v.Blocks-1) // The version of the removal, one before the last block.
	var count int64
	must(t, p.write.QueryRowContext(ctx, "SELECT value FROM seckill_meta WHERE name = 'block_count'").Scan(&count))
	equal(t, "count", count, 2)
}

// Changes of blocks by many at once are committed in the order of their versions: who reads after
// a version misses none.
func claimBlocksTogether(t *testing.T, p *place) {
	seen := map[string]bool{}
	known := int64(0)
	read := func(ctx context.Context) error {
		v, err := p.ControlVersions(ctx)
		if err != nil {
			return err
		}
		err = p.BlocksAfter(ctx, known, func(b seckill.Block, _ bool) { seen[b.Value] = true })
		known = v.Blocks
		return err
	}
	writers := []func(context.Context) error{func(ctx context.Context) error {
		for range 50 {
			if err := read(ctx); err != nil {
				return err
			}
		}
		return nil
	}}
	for w := range 4 {
		writers = append(writers, func(ctx context.Context) error {
			for i := range 20 {
				if _, err := p.AddBlock(ctx, ipBlock(fmt.Sprintf("10.0.%d.%d", w, i), time.Time{}), operator); err != nil {
					return err
				}
			}
			return nil
		})
	}
	together(t, writers...)
	must(t, read(t.Context()))
	equal(t, "blocks seen", len(seen), 80)
}

// A list is replaced all at once, and read whole; one that was begun before another and
// ends after it does not undo it.
func claimAudiences(t *testing.T, p *place) {
	ctx := t.Context()
	run := p.sale(t, 10, time.Hour)
	read := func(version int64) string {
		t.Helper()
		var all []byte
		must(t, p.AudienceChunks(ctx, run.Activity, version, func(c []byte) error { all = append(all, c...); return nil }))
		return string(all)
	}
	a, err := p.Audience(ctx, run.Activity)
	must(t, err)
	equal(t, "no list", a, seckill.AudienceState{Activity: run.Activity})
	if _, err := p.Audience(ctx, 999); !errors.Is(err, seckill.ErrNotFound) {
		t.Fatalf("no activity: %v", err)
	}
	if _, err := p.PutAudience(ctx, 999, 0, nil, operator); !errors.Is(err, seckill.ErrNotFound) {
		t.Fatalf("no activity: %v", err)
	}
	before, err := p.ControlVersions(ctx)
	must(t, err)
	binary := bytes.Repeat([]byte{0, '\'', '\\', 0xff}, 50_000)
	a, err = p.PutAudience(ctx, run.Activity, 7, [][]byte{binary, []byte("x")}, operator)
	must(t, err)
	if a.Version != 1 || a.Count != 7 || time.Since(a.UpdatedAt).Abs() > time.Minute {
		t.Fatalf("put: %+v", a)
	}
	equal(t, "audit", p.lastAudit(t), fmt.Sprintf(`activity.audience activity/%d by operator from 192.0.2.1: a test {"buyers":7,"version":1}`, run.Activity))
	after, err := p.ControlVersions(ctx)
	must(t, err)
	before.Audiences++
	equal(t, "versions", after, before)
	equal(t, "the list", read(1), string(binary)+"x")

	// Of two that are sent at once, and one that died on its way.
	early, err := p.beginAudience(ctx, run.Activity)
	must(t, err)
	p.raw(t, "INSERT INTO seckill_audience_chunk (activity_id, version, chunk, data) VALUES (?, ?, 0, ?)", run.Activity, early, []byte("dead"))
	equal(t, "the list", read(1), string(binary)+"x")
	a, err = p.PutAudience(ctx, run.Activity, 0, nil, operator)
	must(t, err)
	equal(t, "version", a.Version, 3)
	conflict(t, "the end of the older one", func() error {
		_, err := p.finishAudience(ctx, seckill.AudienceState{Activity: run.Activity, Version: early, Count: 1}, 4, 1, operator)
		return err
	})
	for version := range int64(4) {
		equal(t, "what is left of older lists", read(version), "")
	}
	heads, err := p.Audiences(ctx)
	must(t, err)
	equal(t, "lists of activities that are for everyone", len(heads), 0)
	p.raw(t, "UPDATE seckill_activity SET audience = 'listed'")
	heads, err = p.Audiences(ctx)
	must(t, err)
	if len(heads) != 1 || heads[0].AudienceState != a || time.Until(heads[0].EndsAt) < 30*time.Minute {
		t.Fatalf("heads: %+v", heads)
	}
	stop := errors.New("stop")
	_, err = p.PutAudience(ctx, run.Activity, 1, [][]byte{[]byte("x")}, operator)
	must(t, err)
	if err := p.AudienceChunks(ctx, run.Activity, 4, func([]byte) error { return stop }); !errors.Is(err, stop) || err.Error() != "stop" {
		t.Fatalf("an error of the reader: %v", err)
	}
}
