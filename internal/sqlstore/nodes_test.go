package sqlstore

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"seckill"
	"seckill/internal/entry"
)

// A node is listed as it last said of itself, until it leaves or has been silent for long.
func claimNodes(t *testing.T, p *place) {
	started := time.Now().UTC().Truncate(time.Microsecond)
	a := seckill.Node{
		ID: "a", Address: "h:1", Roles: []string{"gateway", "worker"}, Version: "v1", StartedAt: started, Ready: true, Stock: "embedded", Queue: "q", Database: "d",
	}
	b := seckill.Node{ID: "b", Address: "h:2", Roles: []string{"console"}, StartedAt: started.Add(time.Second), Reason: "the activities were not read yet", Figures: "{}"}
	must(t, p.Beat(t.Context(), a))
	must(t, p.Beat(t.Context(), b))
	must(t, p.Beat(t.Context(), b))
	a.Ready, a.Reason, a.Figures = false, "the process is stopping", `{"o":{"accepted":1}}`
	must(t, p.Beat(t.Context(), a))
	listed := func() []seckill.Node {
		nodes, now, err := p.Nodes(t.Context())
		must(t, err)
		for i := range nodes {
			if since := now.Sub(nodes[i].SeenAt); since < 0 || since > time.Minute {
				t.Errorf("node %s was seen %v ago", nodes[i].ID, since)
			}
			nodes[i].SeenAt = time.Time{}
		}
		return nodes
	}
	same := func(what string, want ...seckill.Node) {
		t.Helper()
		if got := listed(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	same("both nodes", a, b)
	must(t, p.Leave(t.Context(), "b"))
	same("one has left", a)
	p.raw(t, "UPDATE seckill_node SET seen_time = '2020-01-01 00:00:00.000000'")
	equal(t, "one is silent", len(listed()), 0)
	must(t, p.Beat(t.Context(), b))
	var rows int
	must(t, p.reader().row(t.Context(), "SELECT COUNT(*) FROM seckill_node", nil, &rows))
	if rows != 1 {
		t.Errorf("%d nodes are kept, want the silent one forgotten", rows)
	}
}

// Nodes that start together on an empty database get one key, and a change of one of them is the change of all.
func claimSharedKeys(t *testing.T, p *place) {
	first := func(keys []entry.Key) ([]entry.Key, bool) {
		if len(keys) > 0 {
			return keys, false
		}
		return []entry.Key{entry.NewKey(time.Now())}, true
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	var ask []func(context.Context) error
	for range 5 {
		ask = append(ask, func(ctx context.Context) error {
			keys, err := p.SharedKeys(ctx, "entry", first)
			mu.Lock()
			defer mu.Unlock()
			for _, k := range keys {
				seen[k.ID+string(k.Secret)] = true
			}
			return err
		})
	}
	together(t, ask...)
	if len(seen) != 1 {
		t.Errorf("%d keys, want one for all", len(seen))
	}
	next := entry.NewKey(time.Now().Add(time.Hour))
	changed, err := p.SharedKeys(t.Context(), "entry", func(keys []entry.Key) ([]entry.Key, bool) { return append(slices.Clone(keys), next), true })
	must(t, err)
	again, err := p.SharedKeys(t.Context(), "entry", first)
	must(t, err)
	if len(again) != 2 || again[1].ID != next.ID || string(again[1].Secret) != string(next.Secret) || !again[1].NotBefore.Equal(stored(next.NotBefore)) {
		t.Errorf("stored %v, read %v", changed, again)
	}
}

// What one start notes, the next one reads.
func claimNotes(t *testing.T, p *place) {
	none, err := p.Remembered(t.Context(), "queue")
	must(t, err)
	equal(t, "nothing noted", none, "")
	for _, value := range []string{"kafka://a/b", "kafka://a/c"} {
		must(t, p.Remember(t.Context(), "queue", value))
		got, err := p.Remembered(t.Context(), "queue")
		must(t, err)
		equal(t, "noted", got, value)
	}
}
