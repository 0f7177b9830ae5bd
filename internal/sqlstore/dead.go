package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"seckill"
	"seckill/internal/order"
)

// The states of a dead letter, as stored.
const (
	stateWaiting  = 1
	stateRetrying = 2
	stateSettled  = 3
	stateDropped  = 4
)

// Bounds of a dead letter's columns; longer ones are cut.
const (
	deadPayloadBytesMax = 1 << 20
	deadReasonBytesMax  = 4 << 10
)

// Bury implements [order.Store].
func (db *DB) Bury(ctx context.Context, letters ...seckill.DeadLetter) error {
	letters = slices.Clone(letters)
	slices.SortFunc(letters, func(a, b seckill.DeadLetter) int {
		return cmp.Or(cmp.Compare(a.Run.Activity, b.Run.Activity), cmp.Compare(a.Run.Run, b.Run.Run), strings.Compare(a.Ticket, b.Ticket))
	})
	return db.fail("keep dead letters", db.inTx(ctx, func(t tx) error {
		for _, l := range letters {
			if err := bury(ctx, t, l); err != nil {
				return err
			}
		}
		return nil
	}))
}

func bury(ctx context.Context, t tx, l seckill.DeadLetter) error {
	var ticket any
	var r seckill.Reservation
	if l.Reservation != nil {
		r, ticket = *l.Reservation, l.Reservation.Ticket
		// From here on no order of this ticket can be committed that was not there before.
		if err := raiseMarks(ctx, t, r.Run); err != nil {
			return err
		}
		answer, err := answerOf(ctx, t, r)
		if err != nil {
			return err
		}
		if answer != nil {
			// Another writer was answered. Whether it lived to tell the stock, nobody knows.
			return storeTodos(ctx, t, []order.Todo{*answer})
		}
		dead, err := deadTickets(ctx, t, []string{r.Ticket}, stateWaiting, stateRetrying, stateSettled, stateDropped)
		if err != nil || dead[r.Ticket] {
			return err
		}
	}
	payload := l.Payload[:min(len(l.Payload), deadPayloadBytesMax)]
	if payload == nil {
		payload = []byte{}
	}
	_, err := t.exec(ctx, `INSERT INTO seckill_dead_letter (state, activity_id, run, ticket, user_id, quantity, slot, reserved_at,
		payload, reason, attempts, create_time, update_time) VALUES (1,?,?,?,?,?,?,?,?,?,?,{now},{now})`,
		l.Run.Activity, l.Run.Run, ticket, buyerID(r.Buyer), r.Quantity, r.Slot, at(r.ReservedAt),
		payload, clip(l.Reason, deadReasonBytesMax), l.Attempts)
	return err
}

// answerOf returns what the stock is to be told of a reservation that was written or
// refused before; nil if it was neither.
func answerOf(ctx context.Context, t tx, r seckill.Reservation) (*order.Todo, error) {
	orders, err := ordersByTicket(ctx, t, []string{r.Ticket})
	if err != nil {
		return nil, err
	}
	refused, err := refusedTickets(ctx, t, []string{r.Ticket})
	if err != nil {
		return nil, err
	}
	todo := order.Todo{ID: t.db.ids.next()}
	todo.Run, todo.Ticket, todo.Buyer, todo.Failed = r.Run, r.Ticket, r.Buyer, refused[r.Ticket]
	if o, ok := orders[r.Ticket]; ok {
		todo.Order = &o
	}
	if todo.Order == nil && todo.Failed == seckill.NoReason {
		return nil, nil
	}
	return &todo, nil
}

// raiseMarks makes writers of the run that are under way look again.
func raiseMarks(ctx context.Context, t tx, run seckill.RunID) error {
	_, err := t.exec(ctx, "UPDATE seckill_stock SET marks = marks + 1 WHERE activity_id = ? AND run = ?", run.Activity, run.Run)
	return err
}

// DeadLetters implements [order.Store].
func (db *DB) DeadLetters(ctx context.Context, before int64, limit int) ([]seckill.DeadLetter, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	letters, err := readLetters(ctx, db.reader(), "WHERE state = 1 AND id < ? ORDER BY id DESC LIMIT ?", before, limit)
	return letters, db.fail("list dead letters", err)
}

// Retrying implements [order.Store].
func (db *DB) Retrying(ctx context.Context, limit int) ([]seckill.DeadLetter, error) {
	letters, err := readLetters(ctx, db.reader(), "WHERE state = 2 ORDER BY id LIMIT ?", limit)
	return letters, db.fail("list dead letters that are being retried", err)
}

// DeadCount is how many dead letters wait for an operator.
func (db *DB) DeadCount(ctx context.Context) (n int64, err error) {
	err = db.reader().row(ctx, "SELECT COUNT(*) FROM seckill_dead_letter WHERE state = 1", nil, &n)
	return n, db.fail("count dead letters", err)
}

// DeadTickets tells which tickets lie among the dead letters, or were written off there:
// no order is to be expected of them.
func (db *DB) DeadTickets(ctx context.Context, tickets []string) (map[string]bool, error) {
	dead, err := deadTickets(ctx, db.reader(), tickets, stateWaiting, stateRetrying, stateDropped)
	return dead, db.fail("look up dead letters by ticket", err)
}

func deadTickets(ctx context.Context, t tx, tickets []string, states ...int) (map[string]bool, error) {
	dead := map[string]bool{}
	err := t.byTicket(ctx, tickets, func(scan func(...any) error) error {
		var ticket string
		var state int
		err := scan(&ticket, &state)
		if slices.Contains(states, state) {
			dead[ticket] = true
		}
		return err
	}, "SELECT ticket, state FROM seckill_dead_letter WHERE ticket IN ")
	return dead, err
}

// RetryDead implements [order.Store].
func (db *DB) RetryDead(ctx context.Context, id int64, by seckill.Actor) (l seckill.DeadLetter, err error) {
	err = db.inTx(ctx, func(t tx) error {
		var state int
		if l, state, err = lockLetter(ctx, t, id); err != nil {
			return err
		}
		switch state {
		case stateRetrying: // The last try has not ended; trying beside it does no harm.
			return nil
		case stateWaiting:
		default:
			return &seckill.Refusal{Reason: seckill.Conflict, Detail: "The dead letter was settled already."}
		}
		if _, err := t.exec(ctx, "UPDATE seckill_dead_letter SET state = 2, update_time = {now} WHERE id = ?", id); err != nil {
			return err
		}
		return t.audit(ctx, by, "dead_letter.retry", fmt.Sprintf("dead_letter/%d", id), detail("ticket", l.Ticket))
	})
	return l, db.fail(fmt.Sprintf("retry dead letter %d", id), err)
}

// RetriedDead implements [order.Store].
func (db *DB) RetriedDead(ctx context.Context, id int64, settled bool, reason string) error {
	state := stateWaiting
	if settled {
		state = stateSettled
	}
	return db.fail(fmt.Sprintf("end the retry of dead letter %d", id), db.inTx(ctx, func(t tx) error {
		l, was, err := lockLetter(ctx, t, id)
		if err != nil || was != stateRetrying {
			return err // Another has ended it.
		}
		if reason == "" {
			reason = l.Reason
		}
		_, err = t.exec(ctx, `UPDATE seckill_dead_letter SET state = ?, reason = ?, attempts = attempts + 1, update_time = {now}
			WHERE id = ?`, state, clip(reason, deadReasonBytesMax), id)
		return err
	}))
}

// DropDead implements [order.Store].
func (db *DB) DropDead(ctx context.Context, id int64, returnStock bool, by seckill.Actor) (todo order.Todo, err error) {
	err = db.inTx(ctx, func(t tx) error {
		todo = order.Todo{}
		l, state, err := lockLetter(ctx, t, id)
		if err != nil {
			return err
		}
		if state != stateWaiting {
			return &seckill.Refusal{Reason: seckill.Conflict, Detail: "The dead letter is being retried, or was settled already."}
		}
		if l.Reservation != nil {
			if todo, err = dropReservation(ctx, t, *l.Reservation, returnStock); err != nil {
				return err
			}
		}
		if _, err := t.exec(ctx, "UPDATE seckill_dead_letter SET state = 4, update_time = {now} WHERE id = ?", id); err != nil {
			return err
		}
		return t.audit(ctx, by, "dead_letter.drop", fmt.Sprintf("dead_letter/%d", id),
			detail("ticket", l.Ticket, "return_stock", returnStock))
	})
	if err != nil {
		return order.Todo{}, db.fail(fmt.Sprintf("drop dead letter %d", id), err)
	}
	return todo, nil
}

func dropReservation(ctx context.Context, t tx, r seckill.Reservation, returnStock bool) (todo order.Todo, err error) {
	if err := raiseMarks(ctx, t, r.Run); err != nil {
		return todo, err
	}
	answer, err := answerOf(ctx, t, r)
	if err != nil {
		return todo, err
	}
	if answer != nil {
		return todo, &seckill.Refusal{Reason: seckill.Conflict, Detail: "The reservation has been written or refused meanwhile; retry the dead letter to settle it."}
	}
	if !returnStock {
		if err := writeOff(ctx, t, r.Run, int64(r.Quantity)); err != nil {
			return todo, err
		}
	}
	todo.ID = t.db.ids.next()
	todo.Run, todo.Ticket, todo.Buyer, todo.Failed, todo.WrittenOff = r.Run, r.Ticket, r.Buyer, seckill.Internal, !returnStock
	if err := storeTodos(ctx, t, []order.Todo{todo}); err != nil {
		return todo, err
	}
	hooks, now, err := t.heard(ctx)
	if err != nil {
		return todo, err
	}
	return todo, t.outbox(ctx, hooks, now, 1, func(int) happening { return reservationFailed(now, &r, todo.Failed) })
}

// writeOff takes units out of a run for good; at most what is available, should the
// stock have believed in more.
func writeOff(ctx context.Context, t tx, run seckill.RunID, units int64) error {
	available, err := lockRun(ctx, t, run)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	units = min(units, available)
	_, err = t.exec(ctx, `UPDATE seckill_stock SET total_stock = total_stock - ?, available_stock = available_stock - ?,
		version = version + 1 WHERE activity_id = ? AND run = ?`, units, units, run.Activity, run.Run)
	if err != nil {
		return err
	}
	return t.raiseVersion(ctx)
}

func lockLetter(ctx context.Context, t tx, id int64) (l seckill.DeadLetter, state int, err error) {
	err = t.row(ctx, "SELECT state FROM seckill_dead_letter WHERE id = ?"+t.db.dialect.lockRow, []any{id}, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return l, 0, seckill.ErrNotFound
	}
	if err != nil {
		return l, 0, err
	}
	letters, err := readLetters(ctx, t, "WHERE id = ?", id)
	if err == nil && len(letters) == 0 {
		err = seckill.ErrNotFound
	}
	if err != nil {
		return l, 0, err
	}
	return letters[0], state, nil
}

func readLetters(ctx context.Context, t tx, where string, args ...any) (letters []seckill.DeadLetter, err error) {
	err = t.rows(ctx, func(scan func(...any) error) error {
		var l seckill.DeadLetter
		var r seckill.Reservation
		var ticket sql.NullString
		var buyer buyerID
		var reservedAt, when stamp
		err := scan(&l.ID, &l.Run.Activity, &l.Run.Run, &ticket, &buyer, &r.Quantity, &r.Slot, &reservedAt,
			&l.Payload, &l.Reason, &l.Attempts, &when)
		l.At = when.Time
		if ticket.Valid {
			l.Ticket = ticket.String
			r.Ticket, r.Run, r.Buyer, r.ReservedAt = l.Ticket, l.Run, string(buyer), reservedAt.Time
			l.Reservation = &r
		}
		letters = append(letters, l)
		return err
	}, `SELECT id, activity_id, run, ticket, user_id, quantity, slot, reserved_at, payload, reason, attempts, create_time
		FROM seckill_dead_letter `+where, args...)
	return letters, err
}
