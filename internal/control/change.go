package control

import (
	"context"
	"errors"
	"time"

	"seckill"
)

func refused(err error) *seckill.Refusal {
	refusal, _ := errors.AsType[*seckill.Refusal](err)
	return refusal
}

// States is how each switch stands, in the order in which they are shown.
func (b *Board) States() []seckill.SwitchState { return b.Snapshot().States(time.Now()) }

// SetSwitch turns a switch now. It holds on this node when SetSwitch returns.
func (b *Board) SetSwitch(ctx context.Context, name string, value int64, by seckill.Actor) (seckill.SwitchState, error) {
	now := time.Now()
	if err := b.o.Store.SetSwitch(ctx, name, value, now, by); err != nil {
		return seckill.SwitchState{}, err
	}
	b.learn(ctx, func(s *Snapshot) {
		states := s.States(now)
		for i := range states {
			if states[i].Name == name && states[i].Value != value {
				states[i].Value, states[i].ChangedAt, states[i].ChangedBy = value, now, by
			}
		}
		s.states = states
	})
	return b.state(name), nil
}

// PlanSwitch turns a switch later.
func (b *Board) PlanSwitch(ctx context.Context, name string, value int64, at time.Time, by seckill.Actor) (seckill.SwitchState, error) {
	if _, err := b.o.Store.PlanSwitch(ctx, name, value, at, by); err != nil {
		return seckill.SwitchState{}, err
	}
	b.learn(ctx, nil)
	return b.state(name), nil
}

// CancelPlan forgets a change that is to come.
func (b *Board) CancelPlan(ctx context.Context, name string, id int64, by seckill.Actor) error {
	if err := b.o.Store.CancelPlan(ctx, name, id, by); err != nil {
		return err
	}
	b.learn(ctx, func(s *Snapshot) {
		states := s.States(time.Now())
		for i := range states {
			var left []seckill.SwitchPlan
			for _, p := range states[i].Scheduled {
				if p.ID != id {
					left = append(left, p)
				}
			}
			states[i].Scheduled = left
		}
		s.states = states
	})
	return nil
}

func (b *Board) state(name string) seckill.SwitchState {
	for _, s := range b.States() {
		if s.Name == name {
			return s
		}
	}
	return seckill.SwitchState{Name: name}
}

// learn takes in a change of this node's own: by reading it back, or, if the database has gone
// meanwhile, by change. The next refresh reads it all the same.
func (b *Board) learn(ctx context.Context, change func(*Snapshot)) {
	if err := b.refresh(ctx); err != nil && change != nil {
		b.publish(change)
		wake(b.scheduled)
	}
}

// Blocks lists those that are active, newest first, ids below before (0 from the newest).
func (b *Board) Blocks(ctx context.Context, before int64, limit int) ([]seckill.Block, error) {
	return b.o.Store.Blocks(ctx, before, limit)
}

// CheckBlock says what is wrong with a block that is to be made, by the API's names.
func (b *Board) CheckBlock(kind seckill.BlockKind, value string) []seckill.FieldError {
	_, wrong := Canonical(kind, value)
	return wrong
}

// AddBlock blocks somebody, until a moment or, if that is zero, until it is removed. It takes the place
// of an active block of the same kind and value, and holds on this node when AddBlock returns.
func (b *Board) AddBlock(ctx context.Context, kind seckill.BlockKind, value string, until time.Time, by seckill.Actor) (seckill.Block, error) {
	value, wrong := Canonical(kind, value)
	if wrong != nil {
		return seckill.Block{}, &seckill.Refusal{Reason: seckill.InvalidRequest, Fields: wrong}
	}
	made, err := b.o.Store.AddBlock(ctx, seckill.Block{Kind: kind, Value: value, Until: until}, by)
	if err != nil {
		return made, err
	}
	b.learn(ctx, func(s *Snapshot) {
		s.blocks = s.blocks.with(map[key]*Block{{kind, value}: {ID: made.ID, Kind: kind, Until: made.Until, value: value}})
	})
	return made, nil
}

// RemoveBlock ends a block; seckill.ErrNotFound if there is none.
func (b *Board) RemoveBlock(ctx context.Context, id int64, by seckill.Actor) error {
	if err := b.o.Store.RemoveBlock(ctx, id, by); err != nil {
		return err
	}
	b.learn(ctx, nil)
	return nil
}
