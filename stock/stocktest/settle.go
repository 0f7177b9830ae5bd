package stocktest

import (
	"fmt"

	"seckill"
	"seckill/stock"
)

// Each way out gives the units back once, however often it is told.
func releaseGivesBackOnce(k *kit) {
	k.load(10, 10)
	ends := []func(ticket string) stock.Settlement{
		func(t string) stock.Settlement { return k.failed("ann", t, seckill.SoldOut) },
		func(t string) stock.Settlement { return k.ordered("ann", t, 2, seckill.Cancelled) },
		func(t string) stock.Settlement { return k.ordered("ann", t, 2, seckill.Expired) },
	}
	for i, end := range ends {
		for _, confirmed := range []bool{false, true} {
			ticket := k.buy("ann", 2)
			if confirmed && i > 0 {
				k.settle(k.ordered("ann", ticket, 2, seckill.AwaitingPayment))
				k.wantLevel(8, 0, 2, 0)
			}
			k.settle(end(ticket), end(ticket))
			k.settle(end(ticket))
			k.wantLevel(10, 0, 0, 0)
		}
	}
}

// Also when everybody tells it at once.
func releaseAtOnceOnce(k *kit) {
	k.load(10, 10)
	ticket := k.buy("ann", 3)
	k.rush(8, func(caller int) error {
		s := k.ordered("ann", ticket, 3, seckill.Cancelled)
		if caller%2 == 0 {
			s = k.ordered("ann", ticket, 3, seckill.Expired)
		}
		unknown, err := k.Settle(k.ctx(), []stock.Settlement{s})
		if err == nil && len(unknown) > 0 {
			err = fmt.Errorf("unknown: %q", unknown)
		}
		return err
	})
	k.wantLevel(10, 0, 0, 0)
}

// News may overtake each other: an older one that comes late changes nothing.
func settleAnyOrder(k *kit) {
	k.load(10, 10)
	last := map[seckill.OrderState]string{}
	for _, state := range []seckill.OrderState{seckill.Paid, seckill.Cancelled, seckill.Expired} {
		ticket := k.buy("ann", 1)
		last[state] = ticket
		k.settle(k.ordered("ann", ticket, 1, state), k.ordered("ann", ticket, 1, seckill.AwaitingPayment))
		k.settle(k.ordered("ann", ticket, 1, seckill.AwaitingPayment))
	}
	for state, ticket := range last {
		if o := k.outcome("ann", ticket); o.Order == nil || o.Order.State != state {
			k.Errorf("got %+v, want %s", o, state)
		}
	}
	k.wantLevel(9, 0, 0, 1)
}

// What is paid stays with its buyer.
func paidIsNeverReleased(k *kit) {
	k.load(10, 2)
	ticket := k.buy("ann", 2)
	k.settle(k.ordered("ann", ticket, 2, seckill.Paid))
	for _, late := range []stock.Settlement{
		k.ordered("ann", ticket, 2, seckill.Cancelled), k.ordered("ann", ticket, 2, seckill.Expired),
		k.failed("ann", ticket, seckill.SoldOut),
	} {
		k.settle(late)
		k.wantLevel(8, 0, 0, 2)
		k.refused("ann", 1, stock.OverLimit)
		if o := k.outcome("ann", ticket); o.Order == nil || o.Order.State != seckill.Paid {
			k.Fatalf("got %+v, want paid", o)
		}
	}
}

// What has failed gets no order any more, and what has an order has not failed.
func failedStaysFailed(k *kit) {
	k.load(10, 10)
	gone := k.buy("ann", 2)
	k.settle(k.failed("ann", gone, seckill.SoldOut))
	k.settle(k.ordered("ann", gone, 2, seckill.AwaitingPayment), k.ordered("ann", gone, 2, seckill.Paid))
	if o := k.outcome("ann", gone); o.Progress != seckill.Failed || o.Reason != seckill.SoldOut {
		k.Errorf("got %+v, want failed, sold_out", o)
	}
	k.wantLevel(10, 0, 0, 0)
	there := k.buy("ann", 2)
	k.settle(k.ordered("ann", there, 2, seckill.AwaitingPayment))
	k.settle(k.failed("ann", there, seckill.SoldOut))
	k.wantLevel(8, 0, 2, 0)
}

// Units that an operator wrote off are gone; the buyer is free.
func writtenOffDoesNotComeBack(k *kit) {
	k.load(10, 2)
	ticket := k.buy("ann", 2)
	s := k.failed("ann", ticket, seckill.Internal)
	s.WrittenOff = true
	k.settle(s)
	k.settle(s, k.failed("ann", ticket, seckill.Internal))
	k.wantLevel(8, 0, 0, 0)
	if o := k.outcome("ann", ticket); o.Progress != seckill.Failed {
		k.Errorf("got %+v, want failed", o)
	}
	k.buy("ann", 2)
}

// Who gave his units back may buy again, and his old key still means the old purchase.
func buyAgainAfterCancel(k *kit) {
	k.load(1, 1)
	for _, state := range []seckill.OrderState{seckill.Cancelled, seckill.Expired} {
		a := k.keyed("ann", 1, "key "+state.String())
		k.ask(a, stock.Taken)
		k.settle(k.ordered("ann", a.Ticket, 1, seckill.AwaitingPayment))
		k.refused("ann", 1, stock.OverLimit)
		k.settle(k.ordered("ann", a.Ticket, 1, state))
		if d := k.ask(k.keyed("ann", 1, a.Key), stock.Known); d.Ticket != a.Ticket {
			k.Fatalf("the old key got ticket %q, want %q", d.Ticket, a.Ticket)
		}
	}
	k.buy("ann", 1)
}

// The outcome says how far it has come, and shows the order as it was told.
func outcomeFollows(k *kit) {
	k.load(10, 10)
	ticket := k.buy("ann", 2)
	if o := k.outcome("ann", ticket); o.Progress != seckill.Queued || o.Order != nil || o.Ahead != 0 {
		k.Fatalf("got %+v, want queued, with none ahead", o)
	}
	second := k.buy("bob", 1)
	if o := k.outcome("bob", second); o.Progress != seckill.Queued || o.Ahead < 0 {
		k.Fatalf("got %+v, want queued", o)
	}
	for _, state := range []seckill.OrderState{seckill.AwaitingPayment, seckill.Paid} {
		s := k.ordered("ann", ticket, 2, state)
		k.settle(s)
		o := k.outcome("ann", ticket)
		if o.Progress != seckill.Confirmed || o.Order == nil {
			k.Fatalf("got %+v, want confirmed", o)
		}
		if got := *o.Order; !sameOrder(got, *s.Order) {
			k.Fatalf("got order %+v, want %+v", got, *s.Order)
		}
	}
	k.settle(k.failed("bob", second, seckill.AlreadyPurchased))
	if o := k.outcome("bob", second); o.Progress != seckill.Failed || o.Reason != seckill.AlreadyPurchased || o.Order != nil {
		k.Fatalf("got %+v, want failed, already_purchased", o)
	}
}

// sameOrder compares what the suite's orders say; all their times are whole seconds.
func sameOrder(a, b seckill.Order) bool {
	same := a.CreatedAt.Equal(b.CreatedAt) && a.PayBefore.Equal(b.PayBefore)
	a.CreatedAt, a.PayBefore = b.CreatedAt, b.PayBefore
	return same && a == b
}

// Nobody learns of another buyer's ticket, not even that it is there.
func outcomeToItsOwnerOnly(k *kit) {
	k.load(10, 10)
	ticket := k.buy("ann", 1)
	for range 2 {
		k.outcome("ann", ticket)
		k.noOutcome("bob", ticket)
		k.noOutcome("", ticket)
		k.settle(k.ordered("ann", ticket, 1, seckill.AwaitingPayment))
	}
	k.noOutcome("ann", seckill.NewTicket(k.id))
	k.noOutcome("ann", seckill.NewTicket(someRun()))
	k.noOutcome("ann", "no ticket at all")
}

// A ticket that the stock has never heard of is told, and changes nothing; the others
// of the same call are settled.
func tellsUnknownTickets(k *kit) {
	k.load(10, 10)
	known, lost := k.buy("ann", 1), seckill.NewTicket(k.id)
	unknown, err := k.Settle(k.ctx(), []stock.Settlement{
		k.ordered("bob", lost, 3, seckill.AwaitingPayment), k.ordered("ann", known, 1, seckill.AwaitingPayment),
	})
	k.must(err)
	if len(unknown) != 1 || unknown[0] != lost {
		k.Fatalf("unknown are %q, want %q", unknown, lost)
	}
	k.wantLevel(9, 0, 1, 0)
	k.noOutcome("bob", lost)
}
