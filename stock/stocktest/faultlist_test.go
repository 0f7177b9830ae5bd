package stocktest

import (
	"context"
	"maps"
	"slices"
	"time"

	"seckill"
	"seckill/queue"
	"seckill/stock"
)

// fault is one way to be wrong.
type fault struct {
	fails   string // The claims that have to notice.
	durable bool   // It needs a stock that outlives its handle.
	apply   func(b *broken, right stock.Stock, m *memory)
}

// faults are all there are, by name.
func faults() map[string]fault {
	all := map[string]fault{}
	for _, list := range []map[string]fault{
		decidingFaults(), rememberingFaults(), batchFaults(), settlingFaults(), outcomeFaults(), runFaults(),
		levelFaults(), durabilityFaults(), subscriptionFaults(), deliveryFaults(), watchFaults(), bindingFaults(),
	} {
		maps.Copy(all, list)
	}
	return all
}

// answers makes a fault of what is wrong with the answer to an attempt.
func answers(fails string, spoil func(m *memory, id seckill.RunID, a seckill.Attempt, d *stock.Decision)) fault {
	return fault{fails: fails, apply: func(b *broken, right stock.Stock, m *memory) {
		b.reserve = func(id seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
			ds, err := right.Reserve(context.Background(), id, epoch, attempts)
			for i := range ds {
				spoil(m, id, attempts[i], &ds[i])
			}
			return ds, err
		}
	}}
}

// questions makes a fault of attempts that are misheard.
func questions(fails string, spoil func(m *memory, id seckill.RunID, a *seckill.Attempt)) fault {
	return fault{fails: fails, apply: func(b *broken, right stock.Stock, m *memory) {
		b.reserve = func(id seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
			attempts = slices.Clone(attempts)
			for i := range attempts {
				spoil(m, id, &attempts[i])
			}
			return right.Reserve(context.Background(), id, epoch, attempts)
		}
	}}
}

// loads makes a fault of a spec that is misread.
func loads(fails string, spoil func(spec *stock.Spec)) fault {
	return fault{fails: fails, apply: func(b *broken, right stock.Stock, _ *memory) {
		b.load = func(spec stock.Spec) error {
			spoil(&spec)
			return right.Load(context.Background(), spec)
		}
	}}
}

func decidingFaults() map[string]fault {
	return map[string]fault{
		"oversells by one": answers("NeverOversells SellsEveryUnit", func(m *memory, id seckill.RunID, a seckill.Attempt, d *stock.Decision) {
			if d.Verdict == stock.Short && a.Quantity == 1 && m.once("oversold") {
				d.Verdict, d.Ticket = stock.Taken, a.Ticket
			}
		}),
		"oversells by a lot":  loads("NeverOversells LevelAddsUp", func(spec *stock.Spec) { spec.Units += 500 }),
		"keeps the last unit": loads("SellsEveryUnit LevelAddsUp", func(spec *stock.Spec) { spec.Units = max(spec.Units-1, 0) }),
		"ignores the limit":   loads("LimitPerBuyer LimitAtOnce AlreadyPurchasedBeforeSoldOut RebuildKeepsBuyers", func(spec *stock.Spec) { spec.Limit = 1 << 30 }),
		"limit off by one":    loads("LimitPerBuyer LimitAtOnce", func(spec *stock.Spec) { spec.Limit++ }),
		"opens too early":     loads("WindowByTheStocksClock OpensByItself", func(spec *stock.Spec) { spec.StartsAt = spec.StartsAt.Add(-2 * time.Hour) }),
		"never ends":          loads("WindowByTheStocksClock", func(spec *stock.Spec) { spec.EndsAt = spec.EndsAt.Add(24 * time.Hour) }),
		"has to be told to open": loads("OpensByItself", func(spec *stock.Spec) {
			if spec.StartsAt.After(time.Now()) {
				spec.StartsAt = spec.StartsAt.Add(time.Hour)
			}
		}),
	}
}

func rememberingFaults() map[string]fault {
	return map[string]fault{
		"forgets keys": questions("OneKeyOneTicket OneKeyAtOnceOneUnit KeyWithAnotherQuantity KnownWhateverTheTime BuyAgainAfterCancel",
			func(_ *memory, _ seckill.RunID, a *seckill.Attempt) { a.Key = "" }),
		"takes again for a ticket": questions("SameTicketSameAnswer", func(m *memory, id seckill.RunID, a *seckill.Attempt) {
			if !m.once(a.Ticket) {
				a.Ticket, a.Key = seckill.NewTicket(id), ""
			}
		}),
		"forgives a mismatch": answers("KeyWithAnotherQuantity", func(_ *memory, _ seckill.RunID, a seckill.Attempt, d *stock.Decision) {
			if d.Verdict == stock.KeyMismatch {
				d.Verdict, d.Ticket = stock.Known, a.Ticket
			}
		}),
		"forgives another key": answers("TicketWithAnotherKey", func(_ *memory, _ seckill.RunID, a seckill.Attempt, d *stock.Decision) {
			if d.Verdict == stock.Replayed {
				d.Verdict, d.Ticket = stock.Known, a.Ticket
			}
		}),
		"shares keys between buyers": answers("KeysAreTheBuyersOwn", func(m *memory, _ seckill.RunID, a seckill.Attempt, d *stock.Decision) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if owner, there := m.any["key "+a.Key]; a.Key != "" && there && owner != a.Buyer {
				d.Verdict = stock.Known
			}
			m.any["key "+a.Key] = a.Buyer
		}),
		"says sold out first": answers("AlreadyPurchasedBeforeSoldOut", func(_ *memory, _ seckill.RunID, _ seckill.Attempt, d *stock.Decision) {
			if d.Verdict == stock.OverLimit && d.Left == 0 {
				d.Verdict, d.Ticket = stock.Short, ""
			}
		}),
		"what is not loaded is sold out": answers("NotLoadedIsNotSoldOut DropForgets", func(_ *memory, _ seckill.RunID, _ seckill.Attempt, d *stock.Decision) {
			if d.Verdict == stock.NotLoaded {
				d.Verdict = stock.Short
			}
		}),
		"remembers whom it refused": answers("RefusedLeaveNoTrace", func(m *memory, _ seckill.RunID, a seckill.Attempt, d *stock.Decision) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if _, there := m.any["refused "+a.Ticket]; there {
				d.Verdict = stock.KeyMismatch
			}
			if d.Verdict == stock.OverLimit {
				m.any["refused "+a.Ticket] = true
			}
		}),
	}
}

func batchFaults() map[string]fault {
	return map[string]fault{
		"mixes up the answers": {fails: "AnswersInOrder", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.reserve = func(id seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
				ds, err := right.Reserve(context.Background(), id, epoch, attempts)
				slices.Reverse(ds)
				return ds, err
			}
		}},
		"gives what is left": {fails: "ShortTakesNothing", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.reserve = func(id seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
				ds, err := right.Reserve(context.Background(), id, epoch, attempts)
				for i, d := range ds {
					if d.Verdict == stock.Short && d.Left > 0 {
						part := attempts[i]
						part.Quantity = int(d.Left)
						_, err = right.Reserve(context.Background(), id, epoch, []seckill.Attempt{part})
					}
				}
				return ds, err
			}
		}},
		"ignores the epoch": {fails: "StaleEpoch LoadReplacesAtomically", apply: func(b *broken, right stock.Stock, m *memory) {
			b.reserve = func(id seckill.RunID, _ int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
				l, _ := right.Level(context.Background(), id)
				return right.Reserve(context.Background(), id, l.Epoch, attempts)
			}
		}},
		"one buyer in all runs": {fails: "RunsAreApart", apply: func(b *broken, right stock.Stock, m *memory) {
			b.reserve = func(id seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
				ds, err := right.Reserve(context.Background(), id, epoch, attempts)
				m.mu.Lock()
				defer m.mu.Unlock()
				for i := range ds {
					if in, there := m.any["in "+attempts[i].Buyer]; there && in != id {
						ds[i].Verdict = stock.OverLimit
					}
					m.any["in "+attempts[i].Buyer] = id
				}
				return ds, err
			}
		}},
	}
}

// settles makes a fault of settlements that are misheard.
func settles(fails string, spoil func(right stock.Stock, m *memory, s *stock.Settlement)) fault {
	return fault{fails: fails, apply: func(b *broken, right stock.Stock, m *memory) {
		b.settle = func(settlements []stock.Settlement) ([]string, error) {
			settlements = slices.Clone(settlements)
			for i := range settlements {
				spoil(right, m, &settlements[i])
			}
			return right.Settle(context.Background(), settlements)
		}
	}}
}

// extra puts units into a run that nobody asked for.
func extra(right stock.Stock, m *memory, s *stock.Settlement) {
	units := int64(1)
	if s.Order != nil {
		units = int64(s.Order.Quantity)
	}
	_, _ = right.Restock(context.Background(), s.Run, -m.count.Add(1), units)
}

func settlingFaults() map[string]fault {
	return map[string]fault{
		"gives back twice": settles("ReleaseGivesBackOnce ReleaseAtOnceOnce", func(right stock.Stock, m *memory, s *stock.Settlement) {
			if s.Frees() && !m.once("freed "+s.Ticket) {
				extra(right, m, s)
			}
		}),
		"gives back what is paid": settles("PaidIsNeverReleased", func(right stock.Stock, m *memory, s *stock.Settlement) {
			if s.Order != nil && s.Order.State == seckill.Paid {
				m.once("paid " + s.Ticket)
			} else if s.Frees() && !m.once("paid "+s.Ticket) {
				extra(right, m, s)
			}
		}),
		"brings back what is written off": settles("WrittenOffDoesNotComeBack LevelAddsUp", func(_ stock.Stock, _ *memory, s *stock.Settlement) { s.WrittenOff = false }),
		"does not understand cancellation": settles("BuyAgainAfterCancel ReleaseGivesBackOnce SlotsLowestFree RunsAreApart", func(_ stock.Stock, _ *memory, s *stock.Settlement) {
			if s.Order != nil && s.Order.State == seckill.Cancelled {
				o := *s.Order
				o.State = seckill.AwaitingPayment
				s.Order = &o
			}
		}),
		"hides unknown tickets": {fails: "TellsUnknownTickets", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.settle = func(settlements []stock.Settlement) ([]string, error) {
				_, err := right.Settle(context.Background(), settlements)
				return nil, err
			}
		}},
	}
}

func outcomeFaults() map[string]fault {
	return map[string]fault{
		"believes the latest news": {fails: "SettleAnyOrder PaidIsNeverReleased FailedStaysFailed", apply: func(b *broken, right stock.Stock, m *memory) {
			b.settle = func(settlements []stock.Settlement) ([]string, error) {
				for _, s := range settlements {
					m.mu.Lock()
					m.any["news "+s.Ticket] = s
					m.mu.Unlock()
				}
				return right.Settle(context.Background(), settlements)
			}
			b.outcome = func(buyer, ticket string) (seckill.Outcome, error) {
				o, err := right.Outcome(context.Background(), buyer, ticket)
				m.mu.Lock()
				defer m.mu.Unlock()
				if s, there := m.any["news "+ticket].(stock.Settlement); there && err == nil && s.Order != nil {
					o.Progress, o.Order = seckill.Confirmed, s.Order
				}
				return o, err
			}
		}},
		"forgets the amount": {fails: "OutcomeFollows RebuildKeepsBuyers", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.outcome = func(buyer, ticket string) (seckill.Outcome, error) {
				o, err := right.Outcome(context.Background(), buyer, ticket)
				if o.Order != nil {
					o.Order.AmountCents = 0
				}
				return o, err
			}
		}},
		"shows outcomes to everybody": {fails: "OutcomeToItsOwnerOnly", apply: func(b *broken, right stock.Stock, m *memory) {
			b.reserve = func(id seckill.RunID, epoch int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
				m.mu.Lock()
				for _, a := range attempts {
					m.any["owner "+a.Ticket] = a.Buyer
				}
				m.mu.Unlock()
				return right.Reserve(context.Background(), id, epoch, attempts)
			}
			b.outcome = func(buyer, ticket string) (seckill.Outcome, error) {
				m.mu.Lock()
				if owner, there := m.any["owner "+ticket].(string); there {
					buyer = owner
				}
				m.mu.Unlock()
				return right.Outcome(context.Background(), buyer, ticket)
			}
		}},
		"every slot is the first": {fails: "SlotsLowestFree RebuildKeepsBuyers", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.queued = func(id seckill.RunID, after string, limit int) ([]seckill.Reservation, error) {
				rs, err := right.Queued(context.Background(), id, after, limit)
				for i := range rs {
					rs[i].Slot = 1
				}
				return rs, err
			}
		}},
	}
}

func runFaults() map[string]fault {
	return map[string]fault{
		"restocks again": {fails: "RestockOnce NegativeRestockAtMostAvailable", apply: func(b *broken, right stock.Stock, m *memory) {
			b.restock = func(id seckill.RunID, _, units int64) (int64, error) {
				return right.Restock(context.Background(), id, -m.count.Add(1), units)
			}
		}},
		"boasts of its restock": {fails: "NegativeRestockAtMostAvailable", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.restock = func(id seckill.RunID, restock, units int64) (int64, error) {
				_, err := right.Restock(context.Background(), id, restock, units)
				return units, err
			}
		}},
		"does not obey": {fails: "PauseAndClose KnownWhateverTheTime", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.control = func(id seckill.RunID, _ stock.Control) error {
				_, err := right.Level(context.Background(), id)
				return err
			}
		}},
		"no run is no error": {fails: "NotLoadedIsAnError DropForgets", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.level = func(id seckill.RunID) (stock.Level, error) {
				l, _ := right.Level(context.Background(), id)
				return l, nil
			}
		}},
		"a load forgets the buyers": loads("RebuildKeepsBuyers LoadReplacesAtomically", func(spec *stock.Spec) { spec.Held = nil }),
		"loads again": {fails: "LoadSameEpochChangesNothing", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.load = func(spec stock.Spec) error {
				_ = right.Drop(context.Background(), spec.Run)
				return right.Load(context.Background(), spec)
			}
		}},
		"does not drop": {fails: "DropForgets", apply: func(b *broken, _ stock.Stock, _ *memory) {
			b.drop = func(seckill.RunID) error { return nil }
		}},
	}
}

func levelFaults() map[string]fault {
	return map[string]fault{
		"loses sight of orders": {fails: "LevelAddsUp RebuildKeepsBuyers", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.level = func(id seckill.RunID) (stock.Level, error) {
				l, err := right.Level(context.Background(), id)
				l.AwaitingPayment = 0
				return l, err
			}
		}},
		"does not count returns": {fails: "ReturnsRise", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.level = func(id seckill.RunID) (stock.Level, error) {
				l, err := right.Level(context.Background(), id)
				l.Returns = 0
				return l, err
			}
		}},
		"pages leave one out": {fails: "QueuedPages QueuedPagesWhileSettling AgreesWithModel", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.queued = func(id seckill.RunID, after string, limit int) ([]seckill.Reservation, error) {
				rs, err := right.Queued(context.Background(), id, after, limit)
				if after != "" && len(rs) > 0 {
					rs = rs[1:]
				}
				return rs, err
			}
		}},
		"pages begin anew": {fails: "QueuedPages", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.queued = func(id seckill.RunID, _ string, limit int) ([]seckill.Reservation, error) {
				return right.Queued(context.Background(), id, "", limit)
			}
		}},
	}
}

func durabilityFaults() map[string]fault {
	return map[string]fault{
		"forgets when it is closed": {fails: "DurableAcrossReopen", durable: true, apply: func(_ *broken, right stock.Stock, m *memory) {
			for id, spec := range m.specs {
				_ = right.Drop(context.Background(), id)
				_ = right.Load(context.Background(), spec)
			}
		}},
		"forgets the outbox when it is closed": {fails: "DurableAcrossReopen", durable: true, apply: func(_ *broken, right stock.Stock, _ *memory) {
			ctx := context.Background()
			sub, _ := right.Outbox().Subscribe(ctx)
			defer func() { _ = sub.Close() }()
			for b, _ := right.Outbox().Backlog(ctx); b.Waiting > 0; b, _ = right.Outbox().Backlog(ctx) {
				ds, _ := sub.Receive(ctx, 9)
				_ = sub.Ack(ctx, ds...)
			}
		}},
	}
}

// outboxes makes a fault of subscriptions.
func outboxes(fails string, spoil func(s *brokenSubscription)) fault {
	return fault{fails: fails, apply: func(b *broken, right stock.Stock, _ *memory) {
		b.outbox = func() queue.Source {
			return brokenSource{Source: right.Outbox(), wrap: func(sub queue.Subscription) queue.Subscription {
				s := &brokenSubscription{Subscription: sub}
				spoil(s)
				return s
			}}
		}
	}}
}

func subscriptionFaults() map[string]fault {
	return map[string]fault{
		"loses every third message": outboxes("OutboxCarriesEach OutboxIsShared OutboxComesBackAfterClose", func(s *brokenSubscription) {
			n := 0
			s.receive = func(ctx context.Context, limit int) ([]queue.Delivery, error) {
				for {
					ds, err := s.Subscription.Receive(ctx, 1)
					if n++; n%3 != 1 || err != nil {
						return ds, err
					}
					_ = s.Subscription.Ack(ctx, ds...)
				}
			}
		}),
		"does not hear acknowledgements": outboxes("OutboxHoldsUntilAcked BacklogCounts", func(s *brokenSubscription) {
			s.ack = func(...queue.Delivery) error { return nil }
		}),
		"loses what was not acknowledged": outboxes("OutboxHoldsUntilAcked OutboxComesBackAfterClose OutboxIsShared", func(s *brokenSubscription) {
			s.receive = func(ctx context.Context, limit int) ([]queue.Delivery, error) {
				ds, err := s.Subscription.Receive(ctx, limit)
				_ = s.Subscription.Ack(ctx, ds...)
				return ds, err
			}
		}),
		"does not close": outboxes("OutboxComesBackAfterClose OutboxWakes", func(s *brokenSubscription) {
			s.close = func() error { return nil }
		}),
		"does not wake": outboxes("OutboxWakes", func(s *brokenSubscription) {
			s.receive = func(ctx context.Context, limit int) ([]queue.Delivery, error) {
				short, cancel := context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
				ds, err := s.Subscription.Receive(short, limit)
				if err != nil {
					<-ctx.Done()
				}
				return ds, err
			}
		}),
	}
}

func deliveryFaults() map[string]fault {
	return map[string]fault{
		"loses what comes as one leaves": outboxes("OutboxCancelLosesNothing", func(s *brokenSubscription) {
			s.receive = func(ctx context.Context, limit int) ([]queue.Delivery, error) {
				ds, err := s.Subscription.Receive(ctx, limit)
				<-time.After(5 * time.Millisecond)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return ds, err
			}
		}),
		"changes the message": outboxes("OutboxCarriesEach", func(s *brokenSubscription) {
			s.receive = func(ctx context.Context, limit int) ([]queue.Delivery, error) {
				ds, err := s.Subscription.Receive(ctx, limit)
				for i := range ds {
					id, rs, _ := queue.DecodeReservations(ds[i].Body)
					rs[0].Quantity++
					ds[i].Body = queue.EncodeReservations(id, rs)
				}
				return ds, err
			}
		}),
	}
}

func watchFaults() map[string]fault {
	return map[string]fault{
		"has no backlog": {fails: "BacklogCounts", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.outbox = func() queue.Source {
				return brokenSource{Source: right.Outbox(), backlog: func(queue.Backlog) queue.Backlog { return queue.Backlog{} }}
			}
		}},
		"tells nobody": {fails: "WatchTells", apply: func(b *broken, _ stock.Stock, _ *memory) {
			b.watch = func(ctx context.Context, _ func(stock.Event)) error {
				<-ctx.Done()
				return nil
			}
		}},
		"does not say that units came": {fails: "WatchTells", apply: func(b *broken, right stock.Stock, _ *memory) {
			b.watch = func(ctx context.Context, notify func(stock.Event)) error {
				return right.Watch(ctx, func(ev stock.Event) {
					if ev.Kind != stock.EventUnits {
						notify(ev)
					}
				})
			}
		}},
	}
}
