package api

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/internal/entry"
	"seckill/stock"
	"seckill/stock/embedded"
)

// clock is a time that a test sets; nodes see it, each with its own error.
type clock struct{ now atomic.Int64 }

func (c *clock) set(t time.Time) { c.now.Store(t.UnixNano()) }

func (c *clock) off(by time.Duration) func() time.Time {
	return func() time.Time { return time.Unix(0, c.now.Load()).Add(by) }
}

// shared is one stock behind several nodes.
type shared struct{ *embedded.Engine }

func (s shared) Reserve(ctx context.Context, a *seckill.Activity, at seckill.Attempt) (stock.Decision, error) {
	d, err := s.Engine.Reserve(ctx, a.RunID(), a.Epoch, []seckill.Attempt{at})
	if err != nil {
		return stock.Decision{}, err
	}
	return d[0], nil
}

// nodes are a fast one and a slow one, ten seconds apart, and one that is right. They have one stock and one ring of keys.
func nodes(t *testing.T, c *clock, a *seckill.Activity) map[string]*world {
	t.Helper()
	engine, err := embedded.Open(t.Context(), embedded.Options{Now: c.off(0)})
	must(t, err)
	t.Cleanup(func() { must(t, engine.Close()) })
	must(t, engine.Load(t.Context(), stock.Spec{Run: a.RunID(), Epoch: a.Epoch, Units: 100, Limit: 1, SubStocks: 1, StartsAt: a.StartsAt, EndsAt: a.EndsAt}))
	ring, err := entry.NewRing(entry.NewKey(a.StartsAt.Add(-24 * time.Hour)))
	must(t, err)
	made := map[string]*world{}
	for name, by := range map[string]time.Duration{"fast": 5 * time.Second, "right": 0, "slow": -5 * time.Second} {
		made[name] = open(t, func(o *Options) {
			door, err := entry.New(entry.Options{Ring: ring, Difficulty: entry.DifficultyMin})
			must(t, err)
			o.Now, o.Reserver, o.Gate.Entry = c.off(by), shared{engine}, door
		})
		made[name].list = []*seckill.Activity{a}
	}
	return made
}

// With clocks ten seconds apart nobody buys before the start by the stock's clock, whichever node he asks, and once it has come
// to a node by its own clock as well, its buyers buy.
func TestNoEarlyPurchaseWithClocksApart(t *testing.T) {
	a := sale(1)
	a.StartsAt = time.Now().Truncate(time.Second).Add(time.Minute)
	c := &clock{}
	c.set(a.StartsAt.Add(-time.Minute))
	made := nodes(t, c, a)
	for _, step := range []struct {
		at   time.Duration // From the start, by the stock's clock.
		buys map[string]bool
	}{
		{-time.Minute, nil}, {-6 * time.Second, nil}, {-4 * time.Second, nil}, {-time.Millisecond, nil},
		{0, map[string]bool{"fast": true, "right": true}}, {4 * time.Second, map[string]bool{"fast": true, "right": true}},
		{5 * time.Second, map[string]bool{"fast": true, "right": true, "slow": true}},
	} {
		c.set(a.StartsAt.Add(step.at))
		for name, w := range made {
			got := w.buy(fmt.Sprint(name, step.at))
			if bought := got.status == 202; bought != step.buys[name] || !bought && got.json["reason"] != "not_started" {
				t.Errorf("%v from the start, the %s node: %d %s", step.at, name, got.status, got.body)
			}
		}
	}
}

// A token, and a proof, of any node is good on any other from the moment that it is given to the end of its life, though their
// clocks are ten seconds apart; and it is not good for much longer.
func TestNoValidTokenIsRefusedWithClocksApart(t *testing.T) {
	a := sale(3)
	a.StartsAt, a.EndsAt = time.Now().Truncate(time.Second), time.Now().Add(24*time.Hour)
	a.EntryToken, a.Challenge = true, true
	c := &clock{}
	c.set(a.StartsAt.Add(time.Minute))
	made := nodes(t, c, a)
	begin := a.StartsAt.Add(time.Minute)
	const proofLife, tokenLife = 2 * time.Minute, 3 * time.Minute
	n := 0
	for from, giver := range made {
		for to, taker := range made {
			for _, age := range []time.Duration{0, tokenLife - 2*time.Second, tokenLife + 21*time.Second} {
				n++
				who := fmt.Sprint("X-User-Id: buyer", n)
				c.set(begin)
				challenge := giver.do("GET", "/v1/activities/3/challenge", "", who)
				proof := `{"proof":` + solve(t, challenge.json) + `}`
				c.set(begin.Add(min(age, proofLife-2*time.Second)))
				entered := taker.do("POST", entryPath, proof, who)
				if entered.status != 200 {
					t.Errorf("a challenge of the %s node on the %s one: %d %s", from, to, entered.status, entered.body)
					continue
				}
				given := begin.Add(min(age, proofLife-2*time.Second))
				c.set(given.Add(age))
				got := giver.do("POST", "/v1/activities/3/purchases", fmt.Sprintf(`{"entry_token":%q}`, entered.json["entry_token"]), who)
				if good := age < tokenLife; good != (got.status == 202) {
					t.Errorf("a token of the %s node on the %s one after %v: %d %s", to, from, age, got.status, got.body)
				}
			}
		}
	}
}
