package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/telemetry"
	"seckill/stock"
)

// market is the program without its listeners, under the fake clock of synctest.
type market struct {
	*App
	t    *testing.T
	jobs sync.WaitGroup
	stop context.CancelFunc
}

func openMarket(t *testing.T) *market {
	t.Helper()
	m := newMarket(t)
	m.work()
	return m
}

// newMarket is a market in which nobody works yet.
func newMarket(t *testing.T) *market {
	t.Helper()
	m := &market{t: t, App: &App{config: testConfig(t), log: slog.New(slog.DiscardHandler), metrics: telemetry.New("test"), id: "node", adminListener: nowhere{}}}
	must(t, m.open(t.Context()))
	must(t, m.wire())
	must(t, m.registry.Refresh(t.Context()))
	return m
}

func (m *market) work() {
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	m.startJobs(func(name string, run func(context.Context) error) {
		// These look at the database several times a second, which a day has many of, and have no
		// part in a sale.
		if slices.Contains([]string{"live", "control", "webhooks"}, name) {
			return
		}
		m.jobs.Go(func() {
			if err := run(ctx); err != nil {
				m.t.Errorf("%s: %v", name, err)
			}
		})
	})
}

func (m *market) close() {
	m.stop()
	m.jobs.Wait()
	must(m.t, m.App.close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// click is one purchase as the door would make it.
func (m *market) click(id int64, buyer string) stock.Decision {
	m.t.Helper()
	a, ok := m.registry.Activity(id)
	if !ok {
		m.t.Fatalf("activity %d is not known", id)
	}
	d, err := m.reserver.Reserve(m.t.Context(), a, seckill.Attempt{Ticket: seckill.NewTicket(a.RunID()), Buyer: buyer, Quantity: 1})
	must(m.t, err)
	return d
}

// order waits for a ticket's order.
func (m *market) order(buyer, ticket string) *seckill.Order {
	m.t.Helper()
	for range 1000 {
		o, err := m.stock.Outcome(m.t.Context(), buyer, ticket)
		must(m.t, err)
		if o.Progress == seckill.Confirmed {
			return o.Order
		}
		<-time.After(10 * time.Millisecond)
	}
	m.t.Fatalf("ticket %s has no order", ticket)
	return nil
}

// books wants the present run's books to balance and to be as given.
func (m *market) books(id int64, when string, want seckill.Books) {
	m.t.Helper()
	a, _ := m.registry.Activity(id)
	got, err := m.reconciler.Books(m.t.Context(), a.RunID())
	must(m.t, err)
	want.Balanced = true
	if got != want {
		m.t.Errorf("%s: books %+v, want %+v", when, got, want)
	}
}

func (m *market) state(id int64) seckill.State {
	a, _ := m.registry.Activity(id)
	left, known := m.registry.Available(a.RunID())
	return a.State(time.Now(), known && left == 0)
}

var operator = seckill.Actor{Who: "test"}

// A day of one shop under a fake clock: an activity that runs three times. Each run
// preloads by itself five minutes before its start, opens to the second, sells out, has its
// unpaid orders expire, sells those units again to buyers who
// come back, ends, and is run again for the same buyers. (The hours between are left out.)
func TestADayOfSales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openMarket(t)
		defer m.close()
		const units, buyers = 41, 100
		opens := time.Now().Add(8 * time.Minute).Truncate(time.Second)
		a, err := m.operator.Create(t.Context(), seckill.Activity{
			Name: "daily", Total: units, PriceCents: 100, StartsAt: opens, EndsAt: opens.Add(8 * time.Minute), LimitPerUser: 1,
			SubStocks: 1, PreloadBefore: 5 * time.Minute, PaymentWindow: 2 * time.Minute, Audience: seckill.AudienceEveryone,
		}, operator)
		must(t, err)
		for run := 1; run <= 3; run++ {
			if run > 1 {
				opens = opens.Add(15 * time.Minute)
				a, err = m.operator.Rerun(t.Context(), a.ID, opens, opens.Add(8*time.Minute), units, operator)
				must(t, err)
			}
			m.day(a.ID, run, opens, units, buyers)
		}
		late, err := m.database.Orders(t.Context(), "buyer-0", "", 100)
		must(t, err)
		runs := map[int]bool{}
		for _, o := range late {
			runs[o.Run.Run] = true
		}
		if len(runs) != 3 {
			t.Errorf("the first buyer has orders of the runs %v, want all three", runs)
		}
	})
}

func (m *market) day(id int64, run int, opens time.Time, units int64, buyers int) {
	t := m.t
	until := func(at time.Time) { <-time.After(time.Until(at)) }
	until(opens.Add(-6 * time.Minute))
	if got := m.state(id); got != seckill.StateScheduled {
		t.Errorf("run %d, six minutes before: %s", run, got)
	}
	until(opens.Add(-4 * time.Minute))
	if got := m.state(id); got != seckill.StateReady {
		t.Errorf("run %d, four minutes before: %s", run, got)
	}
	until(opens.Add(-time.Millisecond))
	if got := m.click(id, "early"); got.Verdict != stock.NotStarted {
		t.Errorf("run %d, a millisecond early: verdict %d", run, got.Verdict)
	}
	until(opens)
	tickets := map[string]string{}
	for i := range buyers {
		buyer := fmt.Sprintf("buyer-%d", i)
		if d := m.click(id, buyer); d.Verdict == stock.Taken {
			tickets[buyer] = d.Ticket
		} else if d.Verdict != stock.Short || len(tickets) != int(units) {
			t.Errorf("run %d: %s heard verdict %d after %d were sold", run, buyer, d.Verdict, len(tickets))
		}
	}
	<-time.After(time.Second)
	if got := m.state(id); got != seckill.StateSoldOut {
		t.Errorf("run %d, sold out: %s", run, got)
	}
	paid := int64(0)
	for buyer, ticket := range tickets {
		if o := m.order(buyer, ticket); paid < units/2 {
			_, err := m.desk.Pay(t.Context(), buyer, o.ID, "ref")
			must(t, err)
			paid++
		}
	}
	m.books(id, fmt.Sprintf("run %d sold", run), seckill.Books{Total: units, AwaitingPayment: units - paid, Paid: paid})

	until(opens.Add(3 * time.Minute))
	m.books(id, fmt.Sprintf("run %d expired", run), seckill.Books{Total: units, Available: units - paid, Paid: paid})
	if got := m.state(id); got != seckill.StateOpen {
		t.Errorf("run %d, with units back: %s", run, got)
	}
	again := int64(0)
	for i := range buyers {
		if d := m.click(id, fmt.Sprintf("buyer-%d", i)); d.Verdict == stock.Taken {
			again++
		}
	}
	<-time.After(time.Second)
	m.books(id, fmt.Sprintf("run %d sold again", run), seckill.Books{Total: units, AwaitingPayment: again, Paid: paid})

	until(opens.Add(8 * time.Minute))
	if got := m.click(id, "late"); got.Verdict != stock.Ended {
		t.Errorf("run %d, at its end: verdict %d", run, got.Verdict)
	}
	until(opens.Add(9 * time.Minute))
	m.books(id, fmt.Sprintf("run %d over", run), seckill.Books{Total: units, Available: again, Paid: paid})
	report, err := m.reconciler.Report(t.Context(), id, false, operator)
	must(t, err)
	if len(report.Findings) > 0 {
		t.Errorf("run %d: findings %+v", run, report.Findings)
	}
}

// Messages of a run that are still on their way when the next run is open become orders of
// their own run, and take nothing from the next.
func TestLateMessageOfAnEarlierRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t) // No order writer: the messages wait.
		now := time.Now()
		a, err := m.operator.Create(t.Context(), seckill.Activity{
			Name: "late", Total: 5, StartsAt: now, EndsAt: now.Add(time.Hour), LimitPerUser: 1,
			SubStocks: 1, PaymentWindow: time.Hour, Audience: seckill.AudienceEveryone,
		}, operator)
		must(t, err)
		first := a.RunID()
		tickets := map[string]string{}
		for i := range 5 {
			buyer := fmt.Sprintf("buyer-%d", i)
			tickets[buyer] = m.click(a.ID, buyer).Ticket
		}
		_, err = m.operator.Close(t.Context(), a.ID, operator)
		must(t, err)
		_, err = m.operator.Rerun(t.Context(), a.ID, now, now.Add(2*time.Hour), 3, operator)
		must(t, err)
		if d := m.click(a.ID, "buyer-0"); d.Verdict != stock.Taken {
			t.Errorf("a buyer of the first run heard verdict %d in the second", d.Verdict)
		}

		m.work()
		defer m.close()
		for buyer, ticket := range tickets {
			if o := m.order(buyer, ticket); o.Run != first {
				t.Errorf("the ticket %s became an order of %v", ticket, o.Run)
			}
		}
		<-time.After(time.Second)
		m.books(a.ID, "second run", seckill.Books{Total: 3, Available: 2, AwaitingPayment: 1})
		u, err := m.database.Units(t.Context(), first)
		must(t, err)
		if u.AwaitingPayment != 5 || u.Available != 0 {
			t.Errorf("units of the first run %+v, want all 5 sold", u)
		}
	})
}

// nowhere is a listener of a market that has no doors.
type nowhere struct{ net.Listener }

func (nowhere) Addr() net.Addr { return &net.TCPAddr{} }
