package rocketqueue

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func pulled(offsets ...int64) (msgs []*primitive.MessageExt) {
	for _, at := range offsets {
		msgs = append(msgs, &primitive.MessageExt{QueueOffset: at})
	}
	return msgs
}

// The position moves with what is acknowledged without a gap, and never beyond what is open.
func TestPositionStopsAtTheFirstGap(t *testing.T) {
	a := newAssignment(t.Context(), nil, messageQueue{"b", 0}, 10)
	a.take(pulled(10, 11, 12, 13), 14)
	for _, step := range []struct{ ack, want int64 }{{11, 10}, {13, 10}, {10, 12}, {10, 12}, {99, 12}, {12, 14}} {
		a.ack(step.ack)
		if got := a.position(); got != step.want {
			t.Fatalf("position %d after the ack of %d, want %d", got, step.ack, step.want)
		}
	}
}

// A server may send what it was not asked for, and leave offsets out.
func TestTakeSkipsWhatIsKnown(t *testing.T) {
	a := newAssignment(t.Context(), nil, messageQueue{"b", 0}, 5)
	if got := a.take(pulled(3, 4, 5, 8), 9); len(got) != 2 || got[0].at != 5 || got[1].at != 8 {
		t.Fatalf("got %d messages of 3, 4, 5 and 8, want 5 and 8", len(got))
	}
	if got := a.take(pulled(8), 8); len(got) != 0 || a.next != 9 {
		t.Fatalf("got %d messages and next %d, want none and 9", len(got), a.next)
	}
	a.ack(5)
	a.ack(8)
	if got := a.position(); got != 9 {
		t.Fatalf("position %d, want 9", got)
	}
}

// What is held back in memory is bounded, in messages, in bytes and behind a gap.
func TestWindowIsBounded(t *testing.T) {
	upTo := func(n int64) (all []int64) {
		for i := range n {
			all = append(all, i)
		}
		return all
	}
	a := newAssignment(t.Context(), nil, messageQueue{"b", 0}, 0)
	ahead := a.take(pulled(upTo(aheadMax)...), aheadMax)
	if !a.full() {
		t.Fatalf("%d messages that nobody has received are not enough", aheadMax)
	}
	a.received(ahead[0])
	if a.full() {
		t.Fatal("one received makes no room")
	}
	big := newAssignment(t.Context(), nil, messageQueue{"b", 0}, 0)
	m := pulled(0)
	m[0].Body = make([]byte, aheadBytes)
	big.take(m, 1)
	if !big.full() {
		t.Fatalf("%d bytes are not enough", aheadBytes)
	}
	gap := newAssignment(t.Context(), nil, messageQueue{"b", 0}, 0)
	for _, m := range gap.take(pulled(upTo(windowMax)...), windowMax) {
		gap.received(m)
	}
	for at := range int64(windowMax - 1) {
		gap.ack(at + 1)
	}
	if !gap.full() {
		t.Fatalf("%d messages behind one that is not acknowledged are not enough", windowMax)
	}
	gap.ack(0)
	if gap.full() {
		t.Fatal("the gap is closed, and there is no room")
	}
}

// Every queue falls to exactly one member, and no member has more than one more than another.
func TestAllocateDividesEvenly(t *testing.T) {
	for queues := range 20 {
		all := appendQueues(nil, "b", queues)
		for n := 1; n <= 9; n++ {
			members := strings.Split("abcdefghi", "")[:n]
			var given []messageQueue
			for _, m := range members {
				mine := allocate(all, members, m)
				if len(mine) < queues/n || len(mine) > queues/n+1 {
					t.Fatalf("%d of %d queues for one of %d members", len(mine), queues, n)
				}
				given = append(given, mine...)
			}
			if !slices.Equal(given, all) {
				t.Fatalf("%d queues and %d members: given were %v", queues, n, given)
			}
		}
	}
	if got := allocate(appendQueues(nil, "b", 4), []string{"a", "b"}, "c"); got != nil {
		t.Fatalf("a stranger got %v", got)
	}
}

// Name servers before 5 write numbers as names without quotes.
func TestDecodesBareNumbersAsNames(t *testing.T) {
	for _, text := range []string{
		`{"brokerName":"b","brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"}}`,
		`{"brokerName":"b","brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"}}`,
	} {
		var got brokerData
		if err := decode([]byte(text), &got); err != nil || got.Addrs["0"] != "10.0.0.1:10911" || got.Addrs["1"] != "10.0.0.2:10911" {
			t.Errorf("%s: got %v, %v", text, got.Addrs, err)
		}
	}
}
