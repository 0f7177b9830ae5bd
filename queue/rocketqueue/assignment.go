package rocketqueue

import (
	"context"
	"slices"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"seckill/queue"
)

// A server keeps one number for a group and a queue: where to go on reading. So an
// assignment counts only what is acknowledged without a gap; the rest behind a gap is
// remembered here, and would come again if the queue changed hands. The bounds below keep
// that, and what waits in memory, small.
const (
	windowMax    = 8192    // Messages behind the first that is not acknowledged.
	aheadMax     = 256     // Messages that nobody has received yet.
	aheadBytes   = 8 << 20 // Their bodies; one pull may go beyond it.
	pullMessages = 128
)

// assignment is one queue in the hands of one subscription, whose mutex guards what is
// not said to be otherwise.
type assignment struct {
	messageQueue
	of     *subscription   // Not guarded: it never changes.
	ctx    context.Context // Ends when the queue is given up. Not guarded: it never changes.
	cancel context.CancelFunc
	room   chan struct{} // Has an element when there may be room again.

	revoked   bool
	next      int64  // The message to pull next.
	open      []mark // Pulled and not committed, ascending.
	committed int64  // What the server knows.
	waiting   int    // Of these, received by nobody.
	bytes     int    // Their bodies.

	commits sync.Mutex // One commit at a time, so that none overtakes another.
}

// mark is a message that was pulled.
type mark struct {
	offset int64
	acked  bool
}

// arrival is a message that nobody has received yet.
type arrival struct {
	from *assignment
	at   int64
	queue.Message
}

// receipt is the Handle of a delivery.
type receipt struct {
	from *assignment
	at   int64
}

func newAssignment(ctx context.Context, of *subscription, m messageQueue, next int64) *assignment {
	a := &assignment{messageQueue: m, of: of, room: make(chan struct{}, 1), next: next, committed: next}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// take notes what was pulled, and returns it. The server may begin before what it was asked for.
func (a *assignment) take(msgs []*primitive.MessageExt, next int64) []arrival {
	var all []arrival
	for _, m := range msgs {
		if m.QueueOffset < a.next {
			continue
		}
		a.next = m.QueueOffset + 1
		a.open = append(a.open, mark{offset: m.QueueOffset})
		a.waiting++
		a.bytes += len(m.Body)
		all = append(all, arrival{a, m.QueueOffset, queue.Message{
			ID: m.GetKeys(), Key: m.GetShardingKey(), Body: m.Body,
		}})
	}
	a.next = max(a.next, next)
	return all
}

// skip goes on elsewhere, because the server does not have what was asked for.
func (a *assignment) skip(next int64) { a.next = next }

func (a *assignment) full() bool {
	return a.waiting >= aheadMax || a.bytes >= aheadBytes || len(a.open) >= windowMax
}

// received notes that somebody has the message now.
func (a *assignment) received(m arrival) {
	a.waiting--
	a.bytes -= len(m.Body)
	a.roomAgain()
}

func (a *assignment) roomAgain() {
	select {
	case a.room <- struct{}{}:
	default:
	}
}

// ack notes that a message is taken care of.
func (a *assignment) ack(at int64) {
	i, found := slices.BinarySearchFunc(a.open, at, func(m mark, at int64) int {
		return int(min(max(m.offset-at, -1), 1))
	})
	if !found {
		return
	}
	a.open[i].acked = true
	done := 0
	for done < len(a.open) && a.open[done].acked {
		done++
	}
	a.open = a.open[done:]
	a.roomAgain()
}

// position is where somebody else would have to go on.
func (a *assignment) position() int64 {
	if len(a.open) > 0 {
		return a.open[0].offset
	}
	return a.next
}
