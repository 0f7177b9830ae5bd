package control

import (
	"context"
	"time"

	"seckill"
)

// Versions tell what has changed in the database since it was last read. Each rises with
// each change of its part.
type Versions struct {
	Activities int64 // Of the activities, which say whose list is needed.
	Switches   int64
	Blocks     int64
	// BlockFloor is the version of the youngest block that was removed and forgotten. Who has
	// read less than that has to read all blocks.
	BlockFloor int64
	Audiences  int64
}

// AudienceHead is a list that an activity is for, without its buyers.
type AudienceHead struct {
	seckill.AudienceState
	Bytes  int64     // That its buyers take, packed.
	EndsAt time.Time // Of the activity's present run.
}

// Store is what the control state needs of the database. internal/sqlstore implements
// it. A method that changes something also writes the audit log and raises the
// version, in one transaction. What would change nothing leaves no trace.
type Store interface {
	ControlVersions(ctx context.Context) (Versions, error)

	// Switches returns how the switches stand that were ever turned or have plans.
	Switches(ctx context.Context) ([]seckill.SwitchState, error)
	// SetSwitch turns a switch now. Plans whose time has come by the database's clock, or by
	// the caller's, come first.
	SetSwitch(ctx context.Context, name string, value int64, now time.Time, by seckill.Actor) error
	// PlanSwitch turns a switch later, and returns the plan's id. Conflict (a *seckill.Refusal) if there are too many.
	PlanSwitch(ctx context.Context, name string, value int64, at time.Time, by seckill.Actor) (int64, error)
	// CancelPlan forgets a plan; seckill.ErrNotFound if the switch has no such plan.
	CancelPlan(ctx context.Context, name string, id int64, by seckill.Actor) error
	// FoldPlans carries out the plans whose time has come by the database's clock.
	FoldPlans(ctx context.Context) error

	// Blocks lists those that are active, newest first, ids below before (0 from the newest).
	Blocks(ctx context.Context, before int64, limit int) ([]seckill.Block, error)
	// AddBlock makes a block, in place of the active one of the same kind and value if there is
	// one. Conflict (a *seckill.Refusal) if there are too many.
	AddBlock(ctx context.Context, b seckill.Block, by seckill.Actor) (seckill.Block, error)
	// AddAutomaticBlocks makes blocks, but leaves alone those of an operator and those that
	// last as long. Each of the values has a newer version then.
	AddAutomaticBlocks(ctx context.Context, bs []seckill.Block, by seckill.Actor) error
	// RemoveBlock ends an active block; seckill.ErrNotFound if there is none.
	RemoveBlock(ctx context.Context, id int64, by seckill.Actor) error
	// BlocksAfter calls each for every block that was changed after a version, by version; for a
	// negative one, for all that are active.
	BlocksAfter(ctx context.Context, version int64, each func(b seckill.Block, removed bool)) error
	// SweepBlocks forgets blocks that ended, or were removed a while ago.
	SweepBlocks(ctx context.Context) error

	// Audience of an activity; version 0 if it has no list, seckill.ErrNotFound if there is no such activity.
	Audience(ctx context.Context, activity int64) (seckill.AudienceState, error)
	// Audiences returns the lists of all activities that are for listed buyers.
	Audiences(ctx context.Context) ([]AudienceHead, error)
	// AudienceChunks calls each for the parts of a list, in their order.
	AudienceChunks(ctx context.Context, activity, version int64, each func(chunk []byte) error) error
	// PutAudience replaces an activity's list by one of so many buyers.
	PutAudience(ctx context.Context, activity, buyers int64, chunks [][]byte, by seckill.Actor) (seckill.AudienceState, error)
}
