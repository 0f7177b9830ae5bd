package redisstock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"seckill"
	"seckill/stock"
)

// Answers of load.lua.
const (
	loadDone = iota
	loadOlder
	loadInPlace
	loadLost
)

const (
	// unitsMax bounds the units of a run, so that sums of them stay exact in Lua.
	unitsMax = 1 << 40
	// subsMax bounds the sub-stocks of a run.
	subsMax = 256
	// asidePage is how many buyers are put aside at once.
	asidePage = 500
	// asideFor is how long what is put aside stays if the load never comes.
	asideFor = time.Hour
	// returnsPerEpoch is above what the counter of returns rises by in one epoch, so that it
	// rises from load to load even if Redis lost it.
	returnsPerEpoch = 1_000_000_000
	// timeMost is the latest moment that is told apart, in µs: exact in Lua.
	timeMost = 8_000_000_000_000_000
)

// Load implements [stock.Stock]. Each sub-stock is replaced in one step, and none of them
// sells before the last is in place:
//
//  1. look at all: a later epoch ends it; one that sells under this epoch was loaded.
//  2. put the buyers aside, under names of this load alone.
//  3. put each sub-stock in place. It is not for sale yet.
//  4. open each.
//
// Whoever dies between two of these leaves a run that is not loaded, and the same call does
// it again; from the first open on, there is nothing left but to open the others.
func (s *Stock) Load(ctx context.Context, spec stock.Spec) error {
	held, err := checkSpec(&spec)
	if err != nil {
		return fmt.Errorf("load activity %d, run %d: %w", spec.Run.Activity, spec.Run.Run, err)
	}
	expires := spec.EndsAt.Add(s.keep).UnixMilli()
	// A run of long ago may still be looked at for a while.
	expires = min(max(expires, time.Now().Add(s.keep).UnixMilli()), timeMost/1000)
	if err := s.enlist(ctx, spec.Run, spec.SubStocks, expires); err != nil {
		return err
	}
	all, err := s.statuses(ctx, spec.Run, spec.SubStocks)
	if err != nil {
		return err
	}
	sells := false
	for i := range all {
		if all[i].epoch > spec.Epoch {
			return nil
		}
		sells = sells || all[i].there && all[i].sells && all[i].epoch == spec.Epoch
	}
	if !sells {
		wider, err := s.wider(ctx, spec)
		if err != nil || wider < 0 {
			return err
		}
		overtaken, err := s.prepare(ctx, spec, held, expires)
		if err != nil || overtaken {
			return err
		}
		if err := s.dropSubs(ctx, spec.Run, spec.SubStocks, wider); err != nil {
			return err
		}
	} else {
		for i := range all {
			if !all[i].there || all[i].epoch != spec.Epoch {
				return fmt.Errorf("load: sub-stock %d of %d is lost while others sell: a higher epoch than %d is needed", i, len(all), spec.Epoch)
			}
		}
	}
	if err := s.interrupt("prepared"); err != nil {
		return err
	}
	if err := s.open(ctx, spec); err != nil {
		return err
	}
	s.known.forget(spec.Run)
	return s.announce(ctx, spec.Run)
}

// checkSpec refuses what cannot be, and groups the orders that hold units by home and buyer.
func checkSpec(spec *stock.Spec) ([]map[string][]*seckill.Order, error) {
	spec.SubStocks = max(spec.SubStocks, 1)
	switch {
	case spec.Run.Activity < 1 || spec.Run.Run < 1 || spec.Run.Run > 1<<31-1:
		return nil, errors.New("there is no such run")
	case spec.Epoch < 1 || spec.Epoch >= 1<<53/returnsPerEpoch:
		return nil, fmt.Errorf("epoch %d is not within 1 and %d", spec.Epoch, 1<<53/returnsPerEpoch)
	case spec.Units < 0 || spec.Units > unitsMax:
		return nil, fmt.Errorf("%d units are not within 0 and %d", spec.Units, int64(unitsMax))
	case spec.Limit < 1 || spec.Limit > 1<<31-1:
		return nil, fmt.Errorf("limit %d per buyer is not within 1 and %d", spec.Limit, 1<<31-1)
	case spec.SubStocks > subsMax:
		return nil, fmt.Errorf("%d sub-stocks are more than %d", spec.SubStocks, subsMax)
	}
	held := make([]map[string][]*seckill.Order, spec.SubStocks)
	for i := range held {
		held[i] = map[string][]*seckill.Order{}
	}
	seen := make(map[string]bool, len(spec.Held))
	for i := range spec.Held {
		o := &spec.Held[i]
		switch {
		case !o.State.Live():
			continue // It holds nothing.
		case !seckill.ValidBuyer(o.Buyer) || short(spec.Run, o.Ticket) == foreign || seen[o.Ticket]:
			return nil, fmt.Errorf("order %s: the ticket or the buyer cannot be", o.ID)
		case o.Quantity < 1 || o.Quantity > seckill.QuantityMax || o.Slot < 1 || o.Slot > seckill.QuantityMax:
			return nil, fmt.Errorf("order %s: quantity %d or slot %d is out of bounds", o.ID, o.Quantity, o.Slot)
		}
		seen[o.Ticket] = true
		h := home(o.Buyer, spec.SubStocks)
		held[h][o.Buyer] = append(held[h][o.Buyer], o)
	}
	return held, nil
}

// wider tells into how many sub-stocks an earlier load of the run was split, if that can be
// told; -1 if a later epoch is there.
func (s *Stock) wider(ctx context.Context, spec stock.Spec) (int, error) {
	first, err := s.statuses(ctx, spec.Run, 1)
	if err != nil || !first[0].there {
		return 0, err
	}
	if first[0].epoch > spec.Epoch {
		return -1, nil
	}
	return first[0].subs, nil
}

// prepare puts all sub-stocks in place. It tells whether a later epoch came first.
func (s *Stock) prepare(ctx context.Context, spec stock.Spec, held []map[string][]*seckill.Order, expires int64) (overtaken bool, err error) {
	load := rand.Text()[:10]
	for sub, buyers := range held {
		if err := s.putAside(ctx, asideKey(s.tag(place{spec.Run, sub}), load), buyers); err != nil {
			return false, err
		}
	}
	if err := s.interrupt("put aside"); err != nil {
		return false, err
	}
	calls := make([]call, spec.SubStocks)
	for sub := range calls {
		tag := s.tag(place{spec.Run, sub})
		var awaiting, paid int64
		for _, orders := range held[sub] {
			for _, o := range orders {
				if o.State == seckill.Paid {
					paid += int64(o.Quantity)
				} else {
					awaiting += int64(o.Quantity)
				}
			}
		}
		units := spec.Units / int64(spec.SubStocks)
		if int64(sub) < spec.Units%int64(spec.SubStocks) {
			units++
		}
		returns := int64(0)
		if sub == 0 {
			returns = spec.Epoch * returnsPerEpoch
		}
		args := []string{
			strconv.FormatInt(spec.Epoch, 10), strconv.Itoa(spec.SubStocks), micros(spec.StartsAt), micros(spec.EndsAt),
			strconv.Itoa(spec.Limit), bit(spec.Paused), strconv.FormatInt(units, 10), strconv.FormatInt(awaiting, 10),
			strconv.FormatInt(paid, 10), strconv.FormatInt(returns, 10), strconv.FormatInt(expires, 10), group,
			bit(spec.SubStocks == 1), // One alone needs no second step.
			strconv.Itoa(len(held[sub])), strconv.Itoa(int(s.kind)),
		}
		calls[sub] = call{loadScript, append(allKeys(tag), asideKey(tag, load)), args}
	}
	for sub := range calls {
		a, err := s.do(ctx, calls[sub])
		if err != nil {
			return false, err
		}
		code, err := a.AsInt64()
		switch {
		case err != nil:
			return false, err
		case code == loadOlder:
			return true, nil
		case code == loadLost:
			return false, errors.New("load: buyers that were put aside are gone")
		}
		// loadInPlace: another load of this epoch was quicker, and has opened.
		if err := s.interrupt("put in place"); err != nil {
			return false, err
		}
	}
	return false, nil
}

// putAside stores buyers under a key of this load, page by page.
func (s *Stock) putAside(ctx context.Context, key string, buyers map[string][]*seckill.Order) error {
	args := make([]string, 0, 2*asidePage)
	flush := func() error {
		if len(args) == 0 {
			return nil
		}
		ctx, cancel := s.bound(ctx)
		defer cancel()
		set := s.client.B().Arbitrary("HSET").Keys(key).Args(args...).Build()
		expire := s.client.B().Pexpire().Key(key).Milliseconds(asideFor.Milliseconds()).Build()
		for _, cmd := range []int{0, 1} {
			c := set
			if cmd == 1 {
				c = expire
			}
			if _, err := s.plain(ctx, c); err != nil {
				return fmt.Errorf("put buyers aside: %w", err)
			}
		}
		args = args[:0]
		return nil
	}
	for buyer, orders := range buyers {
		args = append(args, buyer, recordOf(orders))
		if len(args) == 2*asidePage {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// open lets all sub-stocks sell, the first one first: from then on the load is decided.
func (s *Stock) open(ctx context.Context, spec stock.Spec) error {
	for sub := range spec.SubStocks {
		a, err := s.do(ctx, call{openScript, []string{runKey(s.tag(place{spec.Run, sub}))}, []string{strconv.FormatInt(spec.Epoch, 10)}})
		if err != nil {
			return err
		}
		if done, err := a.AsInt64(); err != nil || done == 0 {
			// Later epochs may come at any time, and then this one is over.
			return errors.Join(err, s.superseded(ctx, spec))
		}
		if err := s.interrupt("opened"); err != nil {
			return err
		}
	}
	return nil
}

// superseded is nil if a later epoch has come.
func (s *Stock) superseded(ctx context.Context, spec stock.Spec) error {
	all, err := s.statuses(ctx, spec.Run, spec.SubStocks)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].epoch > spec.Epoch {
			return nil
		}
	}
	return errors.New("load: a sub-stock was lost before it could be opened")
}

// micros is a time in µs for the scripts, rounded up: nothing starts too early, and a whole
// µs is before an end if and only if it is before the end rounded up.
func micros(t time.Time) string {
	us := t.Unix()
	switch {
	case us <= 0:
		return "0"
	case us >= timeMost/1_000_000:
		return strconv.Itoa(timeMost)
	}
	return strconv.FormatInt(us*1_000_000+int64(t.Nanosecond()+999)/1000, 10)
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
