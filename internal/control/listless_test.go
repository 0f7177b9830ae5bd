package control

import (
	"testing"
	"time"

	"seckill"
)

// While the database cannot say whether an activity has a list, nobody hears a definite no and nobody is let in, neither of
// an activity that this node has heard of before its list nor of one that had none until a moment ago. How often
// buyers ask costs the database nothing.
func TestNobodyIsRefusedBeforeTheListsWereLookedAt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *database, bs []*Board, _ *journal) {
		b := bs[0]
		ask := func(id int64) (eligible, known bool) {
			s := b.Snapshot()
			return s.Eligible(listed(id), "ann"), b.Known(s, listed(id))
		}
		expect := func(what string, id int64, eligible, known bool) {
			t.Helper()
			if e, k := ask(id); e != eligible || k != known {
				t.Errorf("%s: got eligible %v, known %v, want %v, %v", what, e, k, eligible, known)
			}
		}
		expect("the first who asks", 3, false, false)
		wait(time.Millisecond)
		expect("no list", 3, false, true)
		if !b.Known(b.Snapshot(), &seckill.Activity{ID: 9, Audience: seckill.AudienceEveryone}) {
			t.Error("an activity for everyone is not known")
		}

		// The activity and its list are made elsewhere; this node's look at the lists fails.
		d.set(func(d *database) { d.headless = true })
		put := func(id int64) {
			_, err := d.PutAudience(t.Context(), id, 1, [][]byte{[]byte("\x03ann")}, operator)
			must(t, err)
		}
		put(4)
		expect("before this node has looked", 4, false, false)
		asked := d.looked()
		for range 1000 {
			expect("while it cannot look", 4, false, false)
		}
		wait(5 * time.Second)
		expect("while it cannot look, later", 4, false, false)
		expect("no list, but lists have changed", 3, false, false)
		if got := d.looked() - asked; got > 10 {
			t.Errorf("the database was asked %d times within 5 s", got)
		}
		d.set(func(d *database) { d.headless = false })
		wait(2 * time.Second)
		expect("the list is read", 4, true, true)
		expect("still no list", 3, false, true)

		// A list that comes while this node reads which lists there are, and cannot do so again.
		d.set(func(d *database) {
			d.meanwhile = func() {
				put(5)
				d.set(func(d *database) { d.headless = true })
				<-time.After(time.Second)
			}
		})
		ask(5)
		wait(10 * time.Second)
		expect("a list that came meanwhile", 5, false, false)
		d.set(func(d *database) { d.headless = false })
		wait(2 * time.Second)
		expect("the list that came meanwhile is read", 5, true, true)
	})
}
