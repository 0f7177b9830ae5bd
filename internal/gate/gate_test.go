package gate

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"seckill"
	"seckill/stock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 11, 11, 12, 30, 0, 0, time.UTC)

func open(tb testing.TB, o Options) *Gate {
	tb.Helper()
	g, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// sale is an open activity with a limit.
func sale(limit int) *seckill.Activity {
	return &seckill.Activity{
		ID: 1, Run: 1, Epoch: 1, Phase: seckill.PhaseLoaded, Total: 10, LimitPerUser: limit, Audience: seckill.AudienceEveryone,
		StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour),
	}
}

func request(a *seckill.Activity, buyer, key string, quantity int) *Request {
	return &Request{Activity: a, Buyer: buyer, Key: key, Quantity: quantity, Now: now}
}

// says puts an answer in a word: a reason, "ticket …", or "pass".
func says(a Answer) string {
	switch {
	case a.Refusal != nil:
		return a.Refusal.Reason.String()
	case a.Ticket != "":
		return "ticket " + a.Ticket
	}
	return "pass"
}

// tell lets the gate learn a decision on a request that it let through.
func tell(t *testing.T, g *Gate, r *Request, d stock.Decision) {
	t.Helper()
	a := g.Check(r)
	if says(a) != "pass" {
		t.Fatalf("got %s, want pass", says(a))
	}
	g.Learn(r, a.Mark, d)
}

func expect(t *testing.T, g *Gate, r *Request, want string) {
	t.Helper()
	if got := says(g.Check(r)); got != want {
		t.Errorf("buyer %s, key %q, quantity %d: got %s, want %s", r.Buyer, r.Key, r.Quantity, got, want)
	}
}

// The checks stand in the order of the contract, which is that of the reasons.
func TestTheOrderIsTheContracts(t *testing.T) {
	last := seckill.NoReason
	for _, c := range order {
		if c.reason == seckill.NoReason {
			continue
		}
		if c.reason <= last {
			t.Errorf("%s comes after %s", c.reason, last)
		}
		last = c.reason
	}
}

// Of all refusals that hold, the first is said; when its cause goes, the next.
func TestTheFirstRefusalThatHoldsIsSaid(t *testing.T) {
	g := open(t, Options{})
	a := sale(1)
	tell(t, g, request(a, "ann", "", 1), stock.Decision{Verdict: stock.OverLimit, Ticket: "t"})
	tell(t, g, request(a, "bob", "", 1), stock.Decision{Verdict: stock.Short})
	a.Paused, a.Phase, a.StartsAt, a.EndsAt, a.Audience = true, seckill.PhaseRebuilding, now.Add(time.Hour), now, seckill.AudienceListed
	r := request(nil, "ann", "", 1)
	for _, step := range []struct {
		want string
		next func()
	}{
		{"not_found", func() { r.Activity = a }},
		{"paused", func() { a.Paused = false }},
		{"busy", func() { a.Phase = seckill.PhaseLoaded }},
		{"not_started", func() { a.StartsAt = now }},
		{"ended", func() { a.EndsAt = now.Add(1) }},
		{"not_eligible", func() { a.Audience = seckill.AudienceEveryone }},
		{"already_purchased", func() { r.Buyer = "bob" }},
		{"sold_out", func() { g.Notify(stock.Event{Kind: stock.EventUnits, Run: a.RunID()}) }},
		{"pass", func() {}},
	} {
		expect(t, g, r, step.want)
		step.next()
	}
}

func TestTheWindow(t *testing.T) {
	g := open(t, Options{})
	for name, c := range map[string]struct {
		set  func(a *seckill.Activity)
		key  string
		want string
	}{
		"open":                                 {func(*seckill.Activity) {}, "", "pass"},
		"one tick early":                       {func(a *seckill.Activity) { a.StartsAt = now.Add(1) }, "", "not_started"},
		"at the start":                         {func(a *seckill.Activity) { a.StartsAt = now }, "", "pass"},
		"at the end":                           {func(a *seckill.Activity) { a.EndsAt = now }, "", "ended"},
		"just ended, maybe a retry":            {func(a *seckill.Activity) { a.EndsAt = now }, "k", "pass"},
		"long ended":                           {func(a *seckill.Activity) { a.EndsAt = now.Add(-replayGrace) }, "k", "ended"},
		"closed":                               {func(a *seckill.Activity) { a.Phase, a.EndsAt = seckill.PhaseClosed, now }, "", "ended"},
		"just closed, maybe a retry":           {func(a *seckill.Activity) { a.Phase, a.EndsAt = seckill.PhaseClosed, now }, "k", "pass"},
		"long closed":                          {func(a *seckill.Activity) { a.Phase, a.EndsAt = seckill.PhaseClosed, now.Add(-replayGrace) }, "k", "ended"},
		"closed before it started":             {func(a *seckill.Activity) { a.Phase, a.StartsAt = seckill.PhaseClosed, now.Add(1) }, "", "ended"},
		"not loaded, before the start":         {func(a *seckill.Activity) { a.Phase, a.StartsAt = seckill.PhaseScheduled, now.Add(1) }, "", "not_started"},
		"not loaded in time":                   {func(a *seckill.Activity) { a.Phase = seckill.PhaseScheduled }, "", "busy"},
		"never loaded, and over":               {func(a *seckill.Activity) { a.Phase, a.EndsAt = seckill.PhaseScheduled, now }, "k", "ended"},
		"listed buyers only, and no such list": {func(a *seckill.Activity) { a.Audience = seckill.AudienceListed }, "", "not_eligible"},
	} {
		a := sale(1)
		c.set(a)
		r := request(a, "ann", c.key, 1)
		if got := g.Check(r); says(got) != c.want || got.Refusal != nil && got.Refusal.Reason == seckill.NotStarted && !got.Refusal.StartsAt.Equal(a.StartsAt) {
			t.Errorf("%s: got %s %+v, want %s", name, says(got), got.Refusal, c.want)
		}
	}
}

func TestListedBuyers(t *testing.T) {
	c := &controls{switches: seckill.DefaultSwitches(), eligible: "ann"}
	g := open(t, Options{Controls: c})
	a := sale(1)
	a.Audience = seckill.AudienceListed
	expect(t, g, request(a, "ann", "", 1), "pass")
	expect(t, g, request(a, "bob", "", 1), "not_eligible")
	c.unknown = true // Nobody may hear a definite no from a node that has not read the list.
	expect(t, g, request(a, "ann", "", 1), "busy")
	expect(t, g, request(a, "bob", "", 1), "busy")
}

// A buyer at the limit is refused with their ticket, the same request gets its ticket again, and what
// may be a request whose answer was lost goes to the stock.
func TestBuyersWhoAreKnown(t *testing.T) {
	g := open(t, Options{})
	one, three := sale(1), sale(3)
	three.ID = 3
	tell(t, g, request(one, "ann", "k", 1), stock.Decision{Verdict: stock.Taken, Ticket: "t1", Left: 5})
	expect(t, g, request(one, "ann", "k", 1), "ticket t1")
	expect(t, g, request(one, "ann", "", 1), "already_purchased")
	expect(t, g, request(one, "ann", "", 2), "already_purchased")
	expect(t, g, request(one, "ann", "other", 1), "pass")
	expect(t, g, request(one, "bob", "k", 1), "pass")
	expect(t, g, request(three, "ann", "k", 1), "pass")
	if ref := g.Check(request(one, "ann", "", 1)).Refusal; ref.Ticket != "t1" {
		t.Errorf("the refusal has ticket %q", ref.Ticket)
	}

	tell(t, g, request(three, "ann", "a", 2), stock.Decision{Verdict: stock.Taken, Ticket: "t3", Left: 5})
	expect(t, g, request(three, "ann", "", 1), "pass") // 2 + 1 is within 3.
	expect(t, g, request(three, "ann", "", 2), "already_purchased")
	expect(t, g, request(three, "ann", "a", 1), "pass") // The stock says "mismatch".
	tell(t, g, request(three, "ann", "b", 1), stock.Decision{Verdict: stock.OverLimit, Ticket: "t4"})
	expect(t, g, request(three, "ann", "b", 1), "already_purchased")
	expect(t, g, request(three, "ann", "", 1), "already_purchased")

	// An order over the limit by itself says nothing about what the buyer holds.
	tell(t, g, request(three, "bob", "", 4), stock.Decision{Verdict: stock.OverLimit})
	expect(t, g, request(three, "bob", "", 1), "pass")
	// A ticket that was given long ago may have been cancelled since.
	tell(t, g, request(one, "carl", "k", 1), stock.Decision{Verdict: stock.Known, Ticket: "old"})
	expect(t, g, request(one, "carl", "k", 1), "ticket old")
	expect(t, g, request(one, "carl", "", 1), "pass")
}

// What is known of a buyer goes with a release, with a new load of the run, with time, and is of one run.
func TestBuyersAreForgotten(t *testing.T) {
	a := sale(1)
	for name, forget := range map[string]func(g *Gate, r *Request){
		"release": func(g *Gate, _ *Request) {
			g.Notify(stock.Event{Kind: stock.EventSettled, Run: a.RunID(), Buyer: "ann", Released: true})
		},
		"load":     func(g *Gate, _ *Request) { g.Notify(stock.Event{Kind: stock.EventRun, Run: a.RunID()}) },
		"time":     func(_ *Gate, r *Request) { r.Now = now.Add(32 * time.Second) },
		"next run": func(_ *Gate, r *Request) { next := *a; next.Run = 2; r.Activity = &next },
	} {
		g := open(t, Options{})
		tell(t, g, request(a, "ann", "", 1), stock.Decision{Verdict: stock.Taken, Ticket: "t", Left: 1})
		r := request(a, "ann", "", 1)
		expect(t, g, r, "already_purchased")
		g.Notify(stock.Event{Kind: stock.EventSettled, Run: a.RunID(), Buyer: "ann"})                 // Paid, say.
		g.Notify(stock.Event{Kind: stock.EventSettled, Run: a.RunID(), Buyer: "bob", Released: true}) // Somebody else's.
		expect(t, g, r, "already_purchased")
		forget(g, r)
		if got := says(g.Check(r)); got != "pass" {
			t.Errorf("after %s: got %s", name, got)
		}
	}
}

// Sold out is said without the stock to requests without a key, and to those that the stock has answered;
// a key that it may know goes on, once.
func TestSoldOut(t *testing.T) {
	g := open(t, Options{})
	a, many := sale(1), sale(3)
	many.ID = 2
	tell(t, g, request(a, "ann", "", 3), stock.Decision{Verdict: stock.Short, Left: 2})
	expect(t, g, request(a, "ann", "", 1), "pass") // There are two.
	tell(t, g, request(a, "ann", "", 1), stock.Decision{Verdict: stock.Short})
	expect(t, g, request(a, "ann", "", 1), "sold_out")
	expect(t, g, request(a, "bob", "", 1), "sold_out")
	tell(t, g, request(a, "bob", "k", 1), stock.Decision{Verdict: stock.Short})
	expect(t, g, request(a, "bob", "k", 1), "sold_out")
	expect(t, g, request(a, "bob", "other", 1), "sold_out") // With a limit of one, "short" says that bob holds nothing.
	expect(t, g, request(a, "carl", "k", 1), "pass")

	// Units came back and went again: bob may have got one of them with that key, elsewhere.
	g.Notify(stock.Event{Kind: stock.EventUnits, Run: a.RunID()})
	tell(t, g, request(a, "ann", "", 1), stock.Decision{Verdict: stock.Short})
	expect(t, g, request(a, "bob", "k", 1), "pass")

	tell(t, g, request(many, "bob", "k", 1), stock.Decision{Verdict: stock.Short})
	expect(t, g, request(many, "bob", "k", 1), "sold_out")
	expect(t, g, request(many, "bob", "other", 1), "pass") // bob may hold one under that key.
}

// Each sign that units may be back opens the gate again; a level without any does not.
func TestSoldOutOpensAgain(t *testing.T) {
	a := sale(1)
	id := a.RunID()
	for name, c := range map[string]struct {
		happen func(g *Gate)
		want   string
	}{
		"units":         {func(g *Gate) { g.Notify(stock.Event{Kind: stock.EventUnits, Run: id}) }, "pass"},
		"load":          {func(g *Gate) { g.Notify(stock.Event{Kind: stock.EventRun, Run: id}) }, "pass"},
		"release":       {func(g *Gate) { g.Notify(stock.Event{Kind: stock.EventSettled, Run: id, Released: true}) }, "pass"},
		"level":         {func(g *Gate) { g.Level(id, stock.Level{Available: 1, Returns: 5}) }, "pass"},
		"returns alone": {func(g *Gate) { g.Level(id, stock.Level{Returns: 6}) }, "pass"},
		"fewer returns": {func(g *Gate) { g.Level(id, stock.Level{Returns: 1}) }, "pass"},
		"same level":    {func(g *Gate) { g.Level(id, stock.Level{Returns: 5}) }, "sold_out"},
		"settled":       {func(g *Gate) { g.Notify(stock.Event{Kind: stock.EventSettled, Run: id}) }, "sold_out"},
		"another run": {func(g *Gate) {
			g.Notify(stock.Event{Kind: stock.EventUnits, Run: seckill.RunID{Activity: 1, Run: 9}})
			g.Level(seckill.RunID{Activity: 9, Run: 1}, stock.Level{Available: 5})
		}, "sold_out"},
	} {
		g := open(t, Options{})
		expect(t, g, request(a, "ann", "", 1), "pass")
		g.Level(id, stock.Level{Returns: 5})
		tell(t, g, request(a, "ann", "k", 1), stock.Decision{Verdict: stock.Short})
		c.happen(g)
		if got := says(g.Check(request(a, "ann", "k", 1))); got != c.want || g.SoldOut(id) != (c.want == "sold_out") {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// An answer that is older than a return, but is heard after it, is not believed.
func TestAnOldAnswerIsNotBelieved(t *testing.T) {
	a := sale(1)
	g := open(t, Options{})
	r, s := request(a, "ann", "", 1), request(a, "bob", "", 1)
	asked, askedToo := g.Check(r), g.Check(s)
	g.Notify(stock.Event{Kind: stock.EventSettled, Run: a.RunID(), Buyer: "bob", Released: true})
	g.Learn(r, asked.Mark, stock.Decision{Verdict: stock.Short})
	g.Learn(s, askedToo.Mark, stock.Decision{Verdict: stock.Taken, Ticket: "t"})
	expect(t, g, request(a, "ann", "", 1), "pass")
	expect(t, g, request(a, "bob", "", 1), "pass")
	r = request(a, "ann", "k", 1)
	asked = g.Check(r)
	g.Notify(stock.Event{Kind: stock.EventRun, Run: a.RunID()})
	g.Learn(r, asked.Mark, stock.Decision{Verdict: stock.Taken, Ticket: "t"})
	expect(t, g, request(a, "ann", "k", 1), "pass")
}

// Whatever races: once all is quiet, the gate never says "sold out" of what has units, nor "already
// purchased" of who holds nothing. Buyers buy and give back; events and answers overtake one another.
func TestNothingStaleSticks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	a := sale(1)
	g := open(t, Options{})
	var mu sync.Mutex // The stock.
	units, holds := 3, map[string]bool{}
	var events sync.WaitGroup
	var stale atomic.Int64

	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			buyer := fmt.Sprint("b", i)
			for range 3000 {
				r := request(a, buyer, "", 1)
				answer := g.Check(r)
				if says(answer) == "pass" {
					mu.Lock()
					d := stock.Decision{Verdict: stock.Short}
					switch {
					case holds[buyer]:
						d = stock.Decision{Verdict: stock.OverLimit, Ticket: "t"}
					case units > 0:
						units--
						holds[buyer] = true
						d = stock.Decision{Verdict: stock.Taken, Ticket: "t", Left: int64(units)}
					}
					mu.Unlock()
					g.Learn(r, answer.Mark, d)
				}
				mu.Lock()
				release := holds[buyer] && rnd.IntN(3) == 0
				if release {
					holds[buyer] = false
					units++
				}
				mu.Unlock()
				if release {
					events.Go(func() {
						g.Notify(stock.Event{Kind: stock.EventSettled, Run: a.RunID(), Buyer: buyer, Released: true})
					})
				}
			}
		})
	}
	clients.Wait()
	events.Wait()
	for i := range 8 {
		buyer := fmt.Sprint("b", i)
		got := says(g.Check(request(a, buyer, "", 1)))
		if got == "sold_out" && units > 0 || got == "already_purchased" && !holds[buyer] {
			stale.Add(1)
			t.Errorf("%s hears %s; %d units, holds %v", buyer, got, units, holds[buyer])
		}
	}
}

// What is remembered is bounded, and runs that are over are dropped.
func TestKnowledgeIsBounded(t *testing.T) {
	g := open(t, Options{BuyersMax: 1000})
	a := sale(1)
	for i := range 20_000 {
		r := request(a, fmt.Sprint("b", i), "k", 1)
		g.Learn(r, g.Check(r).Mark, stock.Decision{Verdict: stock.Taken, Ticket: "t", Left: 1})
	}
	g.buyers.CleanUp()
	if n := g.buyers.EstimatedSize(); n > 1000 {
		t.Errorf("%d buyers", n)
	}
	for id := range int64(100) {
		b := *a
		b.ID = id + 1
		expect(t, g, request(&b, "x", "", 1), "pass")
	}
	g.Keep(func(id seckill.RunID) bool { return id.Activity == 7 })
	if n := len(*g.runs.Load()); n != 1 {
		t.Errorf("%d runs", n)
	}
	if _, err := New(Options{BuyersMax: 10}); err == nil {
		t.Error("too small a bound is taken")
	}
}

// What is answered from knowledge costs no memory.
func TestKnownAnswersAllocateNothing(t *testing.T) {
	g := open(t, Options{})
	a := sale(1)
	tell(t, g, request(a, "ann", "k", 1), stock.Decision{Verdict: stock.Taken, Ticket: "t", Left: 1})
	tell(t, g, request(a, "bob", "", 1), stock.Decision{Verdict: stock.Short})
	var r Request
	for want, c := range map[string][2]string{"already_purchased": {"ann", ""}, "ticket t": {"ann", "k"}, "sold_out": {"bob", ""}} {
		if n := testing.AllocsPerRun(100, func() {
			r.Activity, r.Buyer, r.Key, r.Quantity, r.Now = a, c[0], c[1], 1, now
			if answer := g.Check(&r); answer.Refusal == nil && answer.Ticket == "" {
				t.Fatalf("%s: passed", want)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", want, n)
		}
	}
}

func BenchmarkSoldOut(b *testing.B) {
	g := open(b, Options{})
	a := sale(1)
	r := request(a, "550e8400-e29b-41d4-a716-446655440000", "", 1)
	g.Learn(r, g.Check(r).Mark, stock.Decision{Verdict: stock.Short})
	b.ReportAllocs()
	for b.Loop() {
		g.Check(r)
	}
}
