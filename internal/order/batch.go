package order

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"seckill"
	"seckill/internal/tracing"
	"seckill/queue"
	"seckill/stock"
)

// load is one delivery on its way through the writer. It is acknowledged when each of
// its reservations is settled or dead.
type load struct {
	delivery queue.Delivery
	run      seckill.RunID
	tasks    []*task
	unread   error // Why it could not be read.
	open     int   // Tasks that are neither settled nor dead.
}

// task is one reservation.
type task struct {
	load    *load
	r       seckill.Reservation
	tries   int
	err     error // Of the last try.
	due     time.Time
	written Written
}

// portions reads deliveries and cuts them into what one transaction takes.
func (s *session) portions(ds []queue.Delivery) (portions [][]*load) {
	size := 0
	for _, d := range ds {
		l := &load{delivery: d}
		var rs []seckill.Reservation
		l.run, rs, l.unread = queue.DecodeReservations(d.Body)
		for _, r := range rs {
			l.tasks = append(l.tasks, &task{load: l, r: r})
		}
		l.open = len(rs)
		s.size += (max(float64(len(rs)), 1) - s.size) / 8
		if len(portions) == 0 || size+len(rs) > s.BatchMax {
			portions, size = append(portions, nil), 0
		}
		last := len(portions) - 1
		portions[last] = append(portions[last], l)
		size += len(rs)
	}
	return portions
}

// handle takes a portion through database, stock and queue, in this order.
func (s *session) handle(loads []*load) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err() // Handed back, untouched.
	}
	var runs []seckill.RunID
	byRun := map[seckill.RunID][]*task{}
	var unread []seckill.DeadLetter
	for _, l := range loads {
		if l.unread != nil {
			unread = append(unread, seckill.DeadLetter{
				Run: l.run, Payload: l.delivery.Body, Reason: l.unread.Error(), Attempts: max(l.delivery.Attempt, 1),
			})
			continue
		}
		if byRun[l.run] == nil {
			runs = append(runs, l.run)
		}
		byRun[l.run] = append(byRun[l.run], l.tasks...)
	}
	if err := s.bury(unread); err != nil {
		return err
	}
	var done []*task
	for _, run := range runs {
		wrote, err := s.write(run, byRun[run])
		if err != nil {
			return err
		}
		done = append(done, wrote...)
	}
	return s.finish(done, loads)
}

// write writes tasks of one run. A batch that the database does not take is halved until the
// culprit stands alone; that one is parked for another try. It returns what was answered.
func (s *session) write(run seckill.RunID, tasks []*task) (done []*task, err error) {
	rs := make([]seckill.Reservation, len(tasks))
	for i, t := range tasks {
		rs[i] = t.r
	}
	var written []Written
	begin := time.Now()
	err = s.call("write orders", unavailable, func(ctx context.Context) error {
		w, err := s.Store.WriteOrders(ctx, run, rs)
		if err == nil && len(w) != len(rs) {
			err = fmt.Errorf("%w: %d answers to %d reservations", ErrUnavailable, len(w), len(rs))
		}
		written = w
		return err
	})
	s.trace(tasks, written, begin, err)
	switch {
	case err == nil:
		for i, t := range tasks {
			t.written = written[i]
		}
		return tasks, nil
	case unavailable(err):
		return nil, err
	case len(tasks) == 1:
		s.park(tasks[0], err)
		return nil, nil
	}
	for _, half := range [][]*task{tasks[:len(tasks)/2], tasks[len(tasks)/2:]} {
		wrote, err := s.write(run, half)
		if err != nil {
			return nil, err
		}
		done = append(done, wrote...)
	}
	return done, nil
}

// trace tells of a transaction for those of its tasks that are traced. Of one that is tried again in halves
// nothing is said: the halves tell.
func (s *session) trace(tasks []*task, written []Written, begin time.Time, err error) {
	if s.Tracer == nil || err != nil && !unavailable(err) && len(tasks) > 1 {
		return
	}
	w := tracing.Write{Begin: begin, End: time.Now(), Batch: len(tasks), Err: err}
	for i, t := range tasks {
		w.Tries, w.Order, w.New = t.tries, "", false
		if err == nil {
			w.New = written[i].New
			if o := written[i].Order; o != nil {
				w.Order = o.ID
			}
		}
		s.Tracer.Wrote(t.r, w)
	}
}

// park puts a reservation aside until its next try, so that the others need not wait.
func (s *session) park(t *task, err error) {
	t.tries++
	t.err = err
	t.due = time.Now().Add(min(s.RetryLeast<<min(t.tries-1, 20), s.RetryMost))
	s.parked = append(s.parked, t)
	s.Log.LogAttrs(s.work, slog.LevelWarn, "a reservation could not be written",
		slog.String("ticket", t.r.Ticket), slog.Int("attempt", t.tries), slog.Any("error", err), s.Tracer.ID(t.r.Ticket))
}

// retryParked tries what is due once more, each alone, and gives up on what was
// tried often enough.
func (s *session) retryParked() error {
	parked := s.parked
	s.parked = nil
	var done, dead []*task
	var loads []*load
	for i, t := range parked {
		if t.tries < s.AttemptsMax && time.Now().Before(t.due) {
			s.parked = append(s.parked, t)
			continue
		}
		if s.ctx.Err() != nil {
			s.parked = append(s.parked, parked[i:]...)
			break
		}
		loads = append(loads, t.load)
		if t.tries >= s.AttemptsMax {
			dead = append(dead, t)
			continue
		}
		wrote, err := s.write(t.load.run, []*task{t})
		if err != nil {
			return err
		}
		done = append(done, wrote...)
	}
	letters := make([]seckill.DeadLetter, len(dead))
	for i, t := range dead {
		letters[i] = seckill.DeadLetter{
			Run: t.r.Run, Ticket: t.r.Ticket, Reservation: &t.r, Reason: t.err.Error(), Attempts: t.tries,
			// Of a message with many reservations, only this one.
			Payload: queue.EncodeReservations(t.r.Run, []seckill.Reservation{t.r}),
		}
		t.load.open--
	}
	if err := s.bury(letters); err != nil {
		return err
	}
	return s.finish(done, loads)
}

func (s *session) bury(letters []seckill.DeadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	err := s.call("bury", always, func(ctx context.Context) error { return s.Store.Bury(ctx, letters...) })
	if err != nil {
		return err
	}
	for _, l := range letters {
		s.Log.LogAttrs(s.work, slog.LevelError, "dead letter", slog.String("ticket", l.Ticket), slog.Int64("activity", l.Run.Activity),
			slog.Int("run", l.Run.Run), slog.String("reason", l.Reason), s.Tracer.ID(l.Ticket))
	}
	if s.Metrics != nil {
		s.Metrics.OrdersWritten.WithLabelValues("dead").Add(float64(len(letters)))
	}
	return nil
}

// finish tells the stock of written tasks, then acknowledges the loads that have nothing open.
func (s *session) finish(done []*task, loads []*load) error {
	var settlements []stock.Settlement
	for _, t := range done {
		t.load.open--
		if t.written.Dead {
			continue // An operator decides, and has the stock told.
		}
		settlements = append(settlements, settlementOf(t.written, stock.Settlement{Run: t.r.Run, Ticket: t.r.Ticket, Buyer: t.r.Buyer}))
	}
	if len(settlements) > 0 {
		err := s.call("settle", always, func(ctx context.Context) error {
			unknown, err := s.Stock.Settle(ctx, settlements)
			if err == nil {
				s.Unknown.hear(unknown)
			}
			return err
		})
		if err != nil {
			return err
		}
		s.count(done)
	}
	var acks []queue.Delivery
	for _, l := range loads {
		// A load stands here once for each of its tasks that were parked.
		if l.open == 0 {
			l.open = -1
			acks = append(acks, l.delivery)
		}
	}
	if len(acks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.work, s.CallTimeout)
	defer cancel()
	if err := s.sub.Ack(ctx, acks...); err != nil {
		return fmt.Errorf("acknowledge %d messages: %w", len(acks), err)
	}
	return nil
}

// count counts what this writer was the first to write: a message that comes again
// does not count again.
func (s *session) count(done []*task) {
	if s.Metrics == nil {
		return
	}
	now := time.Now()
	confirmed, failed := 0, 0
	for _, t := range done {
		switch {
		case t.written.New:
			confirmed++
			s.Metrics.OrderLagSeconds.Observe(max(now.Sub(t.r.ReservedAt), 0).Seconds())
		case t.written.Order == nil && !t.written.Dead:
			failed++
		}
	}
	s.Metrics.OrdersWritten.WithLabelValues("confirmed").Add(float64(confirmed))
	s.Metrics.OrdersWritten.WithLabelValues("failed").Add(float64(failed))
}
