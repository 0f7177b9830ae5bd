package redisstock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"seckill"
	"seckill/stock"
)

// Answers of control.lua.
const (
	controlNotLoaded = iota
	controlOtherSplit
	controlSame
	controlChanged
)

// Answers of restock.lua.
const (
	restockNotLoaded = iota
	restockOtherSplit
	restockDone
	restockMore
)

// Control implements [stock.Stock]. A zero EndsAt leaves the end where it is. It goes
// over the sub-stocks one by one; whoever is interrupted calls again.
func (s *Stock) Control(ctx context.Context, run seckill.RunID, c stock.Control) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	ends := ""
	if !c.EndsAt.IsZero() {
		ends = micros(c.EndsAt)
	}
	for try := 1; ; try++ {
		sp, err := s.split(ctx, run)
		if err != nil {
			return err
		}
		err = s.control(ctx, sp, bit(c.Paused), ends)
		if err != nil {
			s.known.forget(run)
		}
		if !errors.Is(err, errOtherSplit) || try == 3 {
			return err
		}
	}
}

func (s *Stock) control(ctx context.Context, sp *split, paused, ends string) error {
	changed := false
	// The first one last, since that is where the event comes from.
	for sub := sp.subs - 1; sub >= 0; sub-- {
		channel := ""
		if sub == 0 {
			channel = s.eventsChannel()
		}
		a, err := s.do(ctx, call{
			controlScript, []string{runKey(s.tag(place{sp.run, sub}))},
			[]string{strconv.Itoa(sp.subs), paused, ends, channel, runName(sp.run) + "\nR"},
		})
		if err != nil {
			return err
		}
		switch code, err := a.AsInt64(); {
		case err != nil:
			return err
		case code == controlNotLoaded:
			return stock.ErrNotLoaded
		case code == controlOtherSplit:
			return errOtherSplit
		case code == controlChanged:
			changed = true
		case code == controlSame && sub == 0 && changed:
			return s.announce(ctx, sp.run) // An earlier call got as far as the others only.
		}
		if err := s.interrupt("controlled"); err != nil {
			return err
		}
	}
	return nil
}

// Restock implements [stock.Stock]. Ids are remembered as long as the run is, each at the
// sub-stock that it belongs to. Units that are taken away are brought there first.
func (s *Stock) Restock(ctx context.Context, run seckill.RunID, id, units int64) (int64, error) {
	if units < -unitsMax || units > unitsMax {
		return 0, fmt.Errorf("restock %d: %d units are too many", id, units)
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	for try := 1; ; try++ {
		sp, err := s.split(ctx, run)
		if err != nil {
			return 0, err
		}
		did, err := s.restock(ctx, sp, id, units)
		if err == nil {
			return did, nil
		}
		s.known.forget(run)
		if !errors.Is(err, errOtherSplit) || try == 3 {
			return 0, err
		}
	}
}

func (s *Stock) restock(ctx context.Context, sp *split, id, units int64) (int64, error) {
	sub := int(uint64(id) % uint64(sp.subs))
	tag := s.tag(place{sp.run, sub})
	most := int64(unitsMax) // As many as there are, as far as is known.
	for all := sp.subs == 1; ; {
		a, err := s.do(ctx, call{restockScript, []string{runKey(tag), restocksKey(tag)}, []string{
			strconv.Itoa(sp.subs), strconv.FormatInt(id, 10), strconv.FormatInt(units, 10), bit(all),
			s.eventsChannel(), runName(sp.run) + "\nU",
		}})
		if err != nil {
			return 0, err
		}
		numbers, err := a.AsIntSlice()
		switch {
		case err != nil:
			return 0, err
		case len(numbers) == 1 && numbers[0] == restockNotLoaded:
			return 0, stock.ErrNotLoaded
		case len(numbers) == 1 && numbers[0] == restockOtherSplit:
			return 0, errOtherSplit
		case len(numbers) != 3:
			return 0, fmt.Errorf("restock answers %v", numbers)
		}
		sp.set(sub, numbers[2])
		if numbers[0] == restockDone {
			return numbers[1], nil
		}
		if err := s.interrupt("took away a part"); err != nil {
			return 0, err
		}
		// What can be had is brought here; when there is none anywhere, that is all.
		f, err := s.fetch(ctx, sp, sub, min(numbers[1]-units, most), time.Now())
		if err != nil {
			return 0, err
		}
		if f.proven {
			most, all = max(f.total, 1), f.total == 0
		}
	}
}

// Drop implements [stock.Stock]. The first sub-stock goes last, and then the run is taken off
// the list, so that whoever is interrupted finds the rest when he calls again.
func (s *Stock) Drop(ctx context.Context, run seckill.RunID) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	subs, _, err := s.listed(ctx, run)
	if err != nil {
		return err
	}
	first, err := s.statuses(ctx, run, 1)
	if err != nil {
		return err
	}
	if err := s.dropSubs(ctx, run, 0, max(subs, first[0].subs, 1)); err != nil {
		return err
	}
	s.known.forget(run)
	s.hub.unlist(run)
	_, err = s.plain(ctx, s.client.B().Hdel().Key(s.listKey()).Field(runName(run)).Build())
	return err
}

// dropSubs drops the sub-stocks of a run from one number to before another, the last first.
func (s *Stock) dropSubs(ctx context.Context, run seckill.RunID, from, to int) error {
	for sub := to - 1; sub >= from; sub-- {
		channel := ""
		if sub == 0 {
			channel = s.eventsChannel()
		}
		if _, err := s.do(ctx, call{dropScript, allKeys(s.tag(place{run, sub})), []string{channel, runName(run) + "\nR"}}); err != nil {
			return err
		}
		if err := s.interrupt("dropped"); err != nil {
			return err
		}
	}
	return nil
}

// announce tells that a run was loaded or changed, and that there may be units.
func (s *Stock) announce(ctx context.Context, run seckill.RunID) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	_, err := s.plain(ctx, s.client.B().Publish().Channel(s.eventsChannel()).Message(runName(run)+"\nR\nU").Build())
	return err
}

// plain sends one command that is no script, and repeats it like one: each of those used
// here may be done twice.
func (s *Stock) plain(ctx context.Context, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	cmd = cmd.Pin()
	begin := time.Now()
	for try := 0; ; try++ {
		results, err := s.deliver(ctx, []rueidis.Completed{cmd})
		var m rueidis.RedisMessage
		if err == nil {
			m, err = results[0].ToMessage()
		}
		if rueidis.IsRedisNil(err) {
			return m, nil
		}
		again := passes(err) && time.Since(begin) < repeatFor || brokenOff(err) && try < reconnectsMax
		if err == nil || ctx.Err() != nil || !again {
			return m, err
		}
		select {
		case <-time.After(pauseMost / 4):
		case <-ctx.Done():
		}
	}
}
