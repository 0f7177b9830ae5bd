package kafkaqueue

// window is what one consumer knows of one partition that is assigned to it: what was
// delivered and not yet committed, in the order of offsets. Kafka keeps one number for a
// partition and a group, below which all is done; what is acknowledged above a message
// that is not waits here. The subscription's lock guards it.
type window struct {
	partition int32
	marks     []*mark // From the oldest delivery that is not acknowledged on.
	next      int64   // All below is acknowledged.
	epoch     int32   // Of the leader that the record before next came from.
	committed int64   // What the broker knows of next.
	paused    bool
}

// mark is one delivery, and its queue.Delivery's Handle.
type mark struct {
	window *window
	offset int64
	epoch  int32
	acked  bool
}

func newWindow(partition int32, first int64) *window {
	return &window{partition: partition, next: first, committed: first, epoch: -1}
}

// deliver notes a delivery.
func (w *window) deliver(offset int64, epoch int32) *mark {
	if n := len(w.marks); n > 0 && offset <= w.marks[n-1].offset || offset < w.next {
		// The partition has lost its end, and goes on from before. Nothing known of it
		// counts any more.
		w.marks, w.next, w.committed = nil, offset, offset
	}
	m := &mark{window: w, offset: offset, epoch: epoch}
	w.marks = append(w.marks, m)
	return m
}

// ack notes an acknowledgement, and moves on as far as there is no gap.
func (w *window) ack(m *mark) {
	m.acked = true
	done := 0
	for done < len(w.marks) && w.marks[done].acked {
		w.next, w.epoch = w.marks[done].offset+1, w.marks[done].epoch
		done++
	}
	clear(w.marks[:done])
	w.marks = w.marks[done:]
}
