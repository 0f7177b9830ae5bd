package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"seckill"
)

func (b *run) booksBefore(ctx context.Context) error {
	a, err := b.Admin.Activity(ctx, b.Activity)
	if err != nil {
		return fmt.Errorf("read the books of activity %d: %w", b.Activity, err)
	}
	if a.Books == nil {
		return errors.New("the server tells no books of the activity")
	}
	b.report.Books = &Books{Run: a.Run, Before: *a.Books}
	return nil
}

// booksAfter waits until nothing is in motion, for a while, and keeps the last it has read.
func (b *run) booksAfter(ctx context.Context) error {
	wait := b.FollowFor
	if wait < 0 {
		wait = 5 * time.Second
	}
	deadline := time.Now().Add(wait)
	for {
		a, err := b.Admin.Activity(ctx, b.Activity)
		if err != nil {
			return fmt.Errorf("read the books of activity %d: %w", b.Activity, err)
		}
		if a.Books == nil || a.Run != b.report.Books.Run {
			return errors.New("the activity's run changed meanwhile: its books cannot be compared")
		}
		b.report.Books.After = *a.Books
		settled := a.Books.Queued == 0 && a.Books.Balance().Balanced
		if settled || time.Now().After(deadline) {
			return nil
		}
		if !sleepUntil(ctx, time.Now().Add(200*time.Millisecond)) {
			return nil
		}
	}
}

// violations lists the promises that were seen broken, in words.
func (b *run) violations() []string {
	list := []string{}
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if n := b.report.Tickets.Unknown; n > 0 {
		say("lost: %d accepted tickets are unknown to the server", n)
	}
	if buyer, units := b.overLimit(); units > 0 {
		say("sold past the limit: buyer %s holds %d units, and may hold %d", buyer, units, b.report.LimitPerUser)
	}
	if b.report.Books == nil || b.report.Interrupted {
		return list
	}
	k := b.report.Books.After
	taken := k.Queued + k.AwaitingPayment + k.Paid + k.Dead
	if taken > k.Total {
		say("oversold: %d units are taken of %d", taken, k.Total)
	}
	if k.Available < 0 {
		say("oversold: %d units are available", k.Available)
	}
	if sum := taken + k.Available; sum < k.Total {
		say("lost: the books know of %d units of %d", sum, k.Total)
	} else if sum > k.Total && taken <= k.Total {
		say("out of balance: the books know of %d units of %d", sum, k.Total)
	}
	return list
}

// overLimit finds a buyer who held more units at one moment than the limit allows, as
// far as the tickets that were kept tell. A unit is held from the purchase until its
// order may have expired.
func (b *run) overLimit() (buyer string, units int) {
	type holding struct {
		from, until time.Time
		units       int
	}
	held := map[string][]holding{}
	for _, a := range b.tickets.kept {
		if a.ended == nil || a.ended.State != "confirmed" {
			continue
		}
		h := holding{from: a.at, until: time.Now().Add(24 * time.Hour), units: b.Quantity}
		if o := a.ended.Order; o != nil {
			if !o.PayBefore.IsZero() {
				h.until = o.PayBefore
			}
			if o.Quantity > 0 {
				h.units = o.Quantity
			}
		}
		held[a.buyer] = append(held[a.buyer], h)
	}
	if b.report.LimitPerUser < 1 {
		return "", 0
	}
	worst := 0
	for who, list := range held {
		slices.SortFunc(list, func(a, b holding) int { return cmp.Compare(a.from.UnixNano(), b.from.UnixNano()) })
		for i, at := range list {
			sum := 0
			for _, h := range list[:i+1] {
				if h.until.After(at.from) {
					sum += h.units
				}
			}
			if sum > b.report.LimitPerUser && sum > worst {
				buyer, worst = who, sum
			}
		}
	}
	return buyer, worst
}

// Books of the activity's run, before the load and after it.
type Books struct {
	Run    int           `json:"run"`
	Before seckill.Books `json:"before"`
	After  seckill.Books `json:"after"`
}
