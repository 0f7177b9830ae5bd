package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill"
	"seckill/queue"
	"seckill/stock"
)

// Retried is what became of a dead letter that was tried again.
type Retried struct {
	Letter seckill.DeadLetter
	// Outcomes of its reservations, one as a rule; none if Dead or Pending.
	Outcomes []seckill.Outcome
	Dead     string // Why it is a dead letter again; "" if it is not.
	Pending  bool   // The database or the stock did not answer; the Settler goes on.
}

// retryTimeout bounds how long an operator waits for a retry.
const retryTimeout = 10 * time.Second

// DeadLetters lists what waits for an operator, newest first, ids below before (0 from the newest).
func (d *Desk) DeadLetters(ctx context.Context, before int64, limit int) ([]seckill.DeadLetter, error) {
	return d.Store.DeadLetters(ctx, before, limit)
}

// RetryDead tries to write a dead letter again, at once. Conflict if it was settled or
// dropped already.
func (d *Desk) RetryDead(ctx context.Context, id int64, by seckill.Actor) (Retried, error) {
	letter, err := d.Store.RetryDead(ctx, id, by)
	if err != nil {
		return Retried{}, found(err)
	}
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	result, err := retry(ctx, d.Stock, d.Store, d.Unknown, letter)
	if err != nil {
		// The retry is noted, and so it will be done.
		logger(d.Log).Warn("a dead letter will be retried later", "dead_letter", id, "error", err)
		return Retried{Letter: letter, Pending: true}, nil
	}
	return result, nil
}

// DropDead writes a dead letter off. With returnStock its units are sold again, else they
// leave the run's total.
func (d *Desk) DropDead(ctx context.Context, id int64, returnStock bool, by seckill.Actor) error {
	todo, err := d.Store.DropDead(ctx, id, returnStock, by)
	if err != nil {
		return found(err)
	}
	d.tell(ctx, todo)
	return nil
}

// retry takes a letter that is marked as being retried through database and stock. An
// error means that it is still marked.
func retry(ctx context.Context, s settler, store Store, unknown Unknown, letter seckill.DeadLetter) (Retried, error) {
	result := Retried{Letter: letter}
	run, rs, err := reservations(letter)
	var written []Written
	if err == nil {
		written, err = store.WriteOrders(ctx, run, rs)
	}
	if errors.Is(err, ErrUnavailable) {
		return result, err
	}
	if err != nil {
		result.Dead = err.Error()
		return result, store.RetriedDead(ctx, letter.ID, false, result.Dead)
	}
	if letter.Reservation != nil && written[0].Dead {
		// Another try beside this one has ended it, and an operator has the word again.
		result.Pending = true
		return result, nil
	}
	var settlements []stock.Settlement
	for i, w := range written {
		if w.Dead {
			continue // A letter of its own, by now.
		}
		settlements = append(settlements, settlementOf(w, stock.Settlement{Run: run, Ticket: rs[i].Ticket, Buyer: rs[i].Buyer}))
		if w.Order != nil {
			result.Outcomes = append(result.Outcomes, seckill.Outcome{Progress: seckill.Confirmed, Order: w.Order})
		} else {
			result.Outcomes = append(result.Outcomes, seckill.Outcome{Progress: seckill.Failed, Reason: w.Refused})
		}
	}
	if len(settlements) > 0 {
		lost, err := s.Settle(ctx, settlements)
		if err != nil {
			return result, fmt.Errorf("settle: %w", err)
		}
		unknown.hear(lost)
	}
	return result, store.RetriedDead(ctx, letter.ID, true, "")
}

// reservations of a letter; a message that could not be read may be readable by now.
func reservations(l seckill.DeadLetter) (seckill.RunID, []seckill.Reservation, error) {
	if l.Reservation != nil {
		return l.Reservation.Run, []seckill.Reservation{*l.Reservation}, nil
	}
	return queue.DecodeReservations(l.Payload)
}
