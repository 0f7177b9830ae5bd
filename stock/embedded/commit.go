package embedded

import (
	"fmt"
	"log/slog"
	"time"

	"seckill"
	"seckill/stock"
)

const (
	backoffFirst = 10 * time.Millisecond
	backoffLast  = time.Second
	// closeTries is how often a Close tries to write what is pending.
	closeTries = 3
	// spareBytesMax is the largest buffer that is kept for the next batch.
	spareBytesMax = 4 << 20
)

// storage keeps rows of the log and parts of snapshots. Each method is one step that
// happens wholly or not at all, and may be repeated after an error. The committer
// and the maintainer call it at the same time.
type storage interface {
	// runs lists the runs that have anything, and the highest number that a row ever had.
	runs() (ids []seckill.RunID, last uint64, err error)
	// read hands over the snapshot of a run, part by part, and the rows after it up to
	// one: part is -1 for a row, and seq is that of the snapshot for a part.
	read(id seckill.RunID, upTo uint64, visit func(part int, seq uint64, body []byte) error) error
	// commit makes rows durable, together.
	commit(rows []row) error
	// putPart writes part n of a snapshot that does not count yet.
	putPart(id seckill.RunID, seq uint64, n int, body []byte) error
	// install makes the snapshot of that many parts the one that counts.
	install(id seckill.RunID, seq uint64, parts int) error
	// forget removes what the snapshot at seq has made useless; or, with dropped, all
	// of the run up to seq. It may stop half way, and is repeated then.
	forget(id seckill.RunID, seq uint64, dropped bool) error
	// bind ties the storage to a database unless it is tied to one, and tells to which it is.
	bind(database string) (bound string, err error)
	close() error
}

// row is a row of the log of one run.
type row struct {
	id   seckill.RunID
	seq  uint64 // Of its last entry.
	body []byte
}

// stream is the log of one run.
type stream struct {
	id      seckill.RunID
	run     *run   // Nil once it is dropped.
	lsn     uint64 // Of its last entry.
	prev    uint64 // Its last row, 0 if there is none.
	durable uint64 // Its last row that is on disk.
	buf     []byte // Room for a header, and the pending entries; empty if there are none.
	entries int
	spare   []byte

	stored      int64  // Bytes of rows after the snapshot.
	snapshot    int64  // Bytes of the snapshot.
	compactFrom int64  // Compaction is tried again when stored is above.
	told        *batch // That tells already of units of this run.
}

// batch is what one commit writes.
type batch struct {
	lsn      uint64 // Its last entry.
	bytes    int
	done     chan struct{} // Closed when it is durable.
	streams  []*stream
	messages []*message
	events   []stock.Event
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// append logs an entry. The lock is held.
func (e *Engine) append(s *stream, encode func(b []byte, lsn uint64) []byte) {
	if len(s.buf) == 0 {
		s.buf = append(s.spare[:0], make([]byte, headerBytes)...)
		s.spare = nil
		e.pending.streams = append(e.pending.streams, s)
		if len(e.pending.streams) == 1 && e.flight == nil {
			signal(e.kick)
		}
	}
	before := len(s.buf)
	e.logged++
	s.lsn = e.logged
	s.entries++
	s.buf = encode(s.buf, s.lsn)
	e.pending.lsn = s.lsn
	e.pending.bytes += len(s.buf) - before
	e.waiting += len(s.buf) - before
}

// commit writes batch after batch until the engine closes. What arrives while one
// is being written is the next.
func (e *Engine) commit() {
	for {
		select {
		case <-e.kick:
		case <-e.closing:
		}
		for {
			b, rows, ending := e.cut()
			if b == nil {
				if ending {
					return
				}
				break
			}
			if err := e.write(b, rows); err != nil {
				e.lost = fmt.Errorf("close the stock: what was never acknowledged is lost: %w", err)
				return
			}
		}
	}
}

// cut makes the pending batch the one that is written.
func (e *Engine) cut() (b *batch, rows []row, ending bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b = e.pending
	if len(b.streams) == 0 {
		return nil, nil, e.ending
	}
	e.pending, e.flight = newBatch(), b
	rows = make([]row, len(b.streams))
	for i, s := range b.streams {
		header{s.id, s.prev, s.entries}.put(s.buf)
		rows[i] = row{s.id, s.lsn, s.buf}
		s.prev, s.buf, s.entries = s.lsn, nil, 0
	}
	return b, rows, e.ending
}

// write makes a batch durable, however often it has to try. It gives up when the
// engine is closed.
func (e *Engine) write(b *batch, rows []row) error {
	pause := backoffFirst
	for tries := 1; ; tries++ {
		err := e.store.commit(rows)
		if err == nil {
			e.written(b, rows)
			return nil
		}
		e.failed(err)
		select {
		case <-e.closing:
			if tries >= closeTries {
				return err
			}
		default:
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-e.closing:
			timer.Stop()
		}
		pause = min(2*pause, backoffLast)
	}
}

func (e *Engine) failed(err error) {
	e.mu.Lock()
	first := e.failure == nil
	e.failure = err
	e.mu.Unlock()
	if first {
		e.log.Error("the stock cannot write its log and decides nothing until it can", slog.Any("error", err))
	}
}

// written lets everybody see a batch that is durable.
func (e *Engine) written(b *batch, rows []row) {
	e.mu.Lock()
	recovered := e.failure != nil
	e.failure, e.flight = nil, nil
	e.durable = b.lsn
	e.waiting -= b.bytes
	due := false
	for i, s := range b.streams {
		s.durable = rows[i].seq
		s.stored += int64(len(rows[i].body))
		due = due || e.due(s)
		if len(s.buf) == 0 && cap(rows[i].body) <= spareBytesMax {
			s.spare = rows[i].body
		}
	}
	e.outbox.show(b.messages)
	e.watch.show(b.events)
	e.mu.Unlock()
	close(b.done)
	if due {
		signal(e.upkeep)
	}
	if recovered {
		e.log.Info("the stock can write its log again")
	}
}
