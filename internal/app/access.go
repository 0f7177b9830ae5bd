package app

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"seckill"
	"seckill/internal/auth"
	"seckill/internal/config"
	"seckill/internal/control"
	"seckill/internal/entry"
	"seckill/internal/gate"
	"seckill/internal/intake"
	"seckill/internal/limit"
)

// openAccess makes what the gate knows of operators' decisions, limits and entries.
func (a *App) openAccess(ctx context.Context) (err error) {
	if a.board, err = control.New(control.Options{Store: a.database, Log: a.log, Metrics: a.metrics}); err != nil {
		return err
	}
	// A node that does not know the blocks would let everybody in.
	if err := a.board.Refresh(ctx); err != nil {
		return fmt.Errorf("read the switches and blocks: %w", err)
	}
	a.backlog = &intake.Backlog{High: a.config.BacklogHigh, Low: a.config.BacklogLow, Waiting: a.waiting, Log: a.log}
	keys, err := a.database.SharedKeys(ctx, "entry", rotated)
	if err != nil {
		return err
	}
	if a.ring, err = entry.NewRing(keys...); err != nil {
		return fmt.Errorf("keys of entries: %w", err)
	}
	if a.door, err = entry.New(entry.Options{Ring: a.ring, Before: a.config.EntryBefore, Wait: a.config.EntryWait, Difficulty: a.config.ChallengeDifficulty}); err != nil {
		return err
	}
	return a.openLimits(ctx)
}

func (a *App) openLimits(ctx context.Context) (err error) {
	// Gateways that settle a limit with one another have to call a buyer the same.
	secret, err := a.database.SharedKeys(ctx, "limit", func(keys []entry.Key) ([]entry.Key, bool) {
		if len(keys) > 0 {
			return keys, false
		}
		return []entry.Key{entry.NewKey(time.Now())}, true
	})
	if err != nil {
		return err
	}
	a.limits.Keys = limit.NewKeys(secret[0].Secret)
	_, shared := a.stock.(settlesLimits)
	open := func(name string, l config.Limit) *limit.Limiter {
		if l.Off() || err != nil {
			return nil
		}
		var made *limit.Limiter
		made, err = limit.New(limit.Options{Name: name, Rate: l.PerSecond, Burst: l.Burst, Shared: shared && name != "abuse", Log: a.log})
		if err == nil {
			a.metrics.Forgotten(name, made.Forgotten)
		}
		return made
	}
	a.limits.IP = open("ip", a.config.LimitIP)
	a.limits.User = open("user", a.config.LimitUser)
	a.limits.Device = open("device", a.config.LimitDevice)
	a.limits.Abuse = open("abuse", a.config.LimitAbuse)
	a.limits.Punish = func(buyer string) {
		a.board.BlockFor(seckill.BlockUser, buyer, a.config.AbuseBlock, "clicked on and on though refused as too fast")
	}
	return err
}

// blockUnpaid keeps a buyer out for a while who lets order after order expire.
func (a *App) blockUnpaid(buyer string, run seckill.RunID, times int) {
	a.board.BlockFor(seckill.BlockUser, buyer, a.config.UnpaidBlock, fmt.Sprintf("let %d orders of activity %d, run %d, expire unpaid", times, run.Activity, run.Run))
}

// settlesLimits is a stock in which gateways can settle limits with one another.
type settlesLimits interface {
	Eval(ctx context.Context, script string, keys, args []string) ([]int64, error)
}

// startLimits settles the limits with other gateways, where there may be some.
func (a *App) startLimits(start func(name string, run func(context.Context) error)) {
	shared, ok := a.stock.(settlesLimits)
	if !ok {
		return
	}
	for name, l := range map[string]*limit.Limiter{"ip": a.limits.IP, "user": a.limits.User, "device": a.limits.Device} {
		if l != nil {
			start("limit "+name, func(ctx context.Context) error { return l.Run(ctx, shared.Eval) })
		}
	}
}

// waiting counts the units that are to become orders, wherever between the stock and the database their
// reservations are: brokers only count messages. Dead letters wait for an operator and are not among them; how many
// those are is what the gauges have read last, so that the database may be away.
func (a *App) waiting(context.Context) (waiting int64, err error) {
	var dead map[seckill.RunID]int64
	if read := a.dead.Load(); read != nil {
		dead = *read
	}
	for _, act := range a.registry.Activities() {
		if l, ok := a.registry.Level(act.RunID()); ok {
			waiting += max(l.Queued-dead[act.RunID()], 0)
		}
	}
	return waiting, nil
}

// gate is what the public door's gate is made of.
func (a *App) gate() gate.Options {
	return gate.Options{Limits: a.limits, Controls: controls{a.board}, Held: a.backlog.Stopped, Entry: a.door}
}

// guards is what acts by itself on this node.
func (a *App) guards() []seckill.Guard {
	s := a.reserver.State()
	breaker := seckill.Guard{Name: "breaker", Acting: s.Open, Since: s.Since, Reason: s.Reason}
	return []seckill.Guard{breaker, a.backlog.Guard()}
}

// controls is the board in the words of the gate.
type controls struct{ board *control.Board }

func (c controls) Switches() seckill.Switches { return c.board.Snapshot().Switches }

func (c controls) Blocked(addr netip.Addr, user, device string) bool {
	return c.board.Snapshot().Blocked(addr, user, device) != nil
}

func (c controls) Eligible(a *seckill.Activity, buyer string) (eligible, known bool) {
	s := c.board.Snapshot()
	return s.Eligible(a, buyer), c.board.Known(s, a)
}

// expectBuyers has the board know whether an activity has a list before a buyer asks: a run is in the stock some time
// before it is sold.
func (a *App) expectBuyers(run seckill.RunID) {
	if act, ok := a.registry.Activity(run.Activity); ok {
		a.board.Known(a.board.Snapshot(), act)
	}
}

// proxies is the setting in the words of the door.
func proxies(c *config.Config) auth.Proxies { return auth.Proxies(c.TrustedProxies) }

// rotated says which keys there have to be now.
func rotated(keys []entry.Key) (next []entry.Key, changed bool) {
	return entry.Rotate(keys, time.Now(), entry.Rotation{})
}

// keysEvery is how often the keys of entries are looked at.
const keysEvery = time.Minute

// rotateKeys keeps the keys of entries as they have to be, until ctx ends.
func (a *App) rotateKeys(ctx context.Context) error {
	for pause(ctx, keysEvery); ctx.Err() == nil; pause(ctx, keysEvery) {
		keys, err := a.database.SharedKeys(ctx, "entry", rotated)
		if err == nil {
			err = a.ring.Set(keys...)
		}
		if err != nil && ctx.Err() == nil {
			a.log.Warn("the keys of entries cannot be read; those known stay", "error", err)
		}
	}
	return nil
}

// whileConsuming runs a consumer for as long as the operators' switch lets it.
func (a *App) whileConsuming(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		turned := make(chan struct{}, 1)
		a.board.Subscribe(func(*control.Snapshot) {
			select {
			case turned <- struct{}{}:
			default:
			}
		})
		for ctx.Err() == nil {
			if !a.board.Snapshot().Switches.Consumers {
				select {
				case <-ctx.Done():
				case <-turned:
				}
				continue
			}
			if err := a.untilTurned(ctx, turned, run); err != nil {
				return err
			}
		}
		return nil
	}
}

// untilTurned runs until the switch is off, or ctx ends.
func (a *App) untilTurned(ctx context.Context, turned <-chan struct{}, run func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-turned:
			if !a.board.Snapshot().Switches.Consumers {
				stop()
			}
		}
	}
}
