package seckill

import "time"

// The names of the switches.
const (
	SwitchIntake           = "intake"            // Whether purchases are let in at all.
	SwitchConsumers        = "consumers"         // Whether reservations become orders.
	SwitchChallenge        = "challenge"         // Whether every activity asks for a proof of work.
	SwitchAdmissionPercent = "admission_percent" // Share of purchases that is let through to the stock.
)

// Switches is what operators turn while a sale is under way, as one value: what holds now.
type Switches struct {
	Intake           bool
	Consumers        bool
	Challenge        bool
	AdmissionPercent int // 0 to 100.
}

// DefaultSwitches is how they stand when nobody has turned one.
func DefaultSwitches() Switches {
	return Switches{Intake: true, Consumers: true, AdmissionPercent: 100}
}

// Switch says what a switch is. A value is kept as a number: of one that is on or off, 1 or 0.
type Switch struct {
	Name    string
	Percent bool // Else it is on or off.
	Default int64
}

// AllSwitches lists them, in the order in which they are shown.
func AllSwitches() []Switch {
	return []Switch{
		{Name: SwitchIntake, Default: 1},
		{Name: SwitchAdmissionPercent, Percent: true, Default: 100},
		{Name: SwitchChallenge, Default: 0},
		{Name: SwitchConsumers, Default: 1},
	}
}

// SwitchNamed finds a switch.
func SwitchNamed(name string) (Switch, bool) {
	for _, s := range AllSwitches() {
		if s.Name == name {
			return s, true
		}
	}
	return Switch{}, false
}

// Max is the greatest value; the least is 0.
func (s Switch) Max() int64 {
	if s.Percent {
		return 100
	}
	return 1
}

// Shown is a value as the API and the audit log show it: a bool, or a number.
func (s Switch) Shown(value int64) any {
	if s.Percent {
		return value
	}
	return value != 0
}

// SwitchState is how one switch stands, and what is planned for it.
type SwitchState struct {
	Name      string
	Value     int64
	ChangedAt time.Time // Zero if nobody has turned it yet.
	ChangedBy Actor
	Scheduled []SwitchPlan // By time.
}

// SwitchPlan is a change of a switch that is to come.
type SwitchPlan struct {
	ID    int64
	Name  string
	Value int64
	At    time.Time
	By    Actor
}

// BlockKind says what a block looks at.
type BlockKind string

// The kinds of blocks.
const (
	BlockIP     BlockKind = "ip"
	BlockCIDR   BlockKind = "cidr"
	BlockUser   BlockKind = "user"
	BlockDevice BlockKind = "device"
)

// BlockKinds lists them.
func BlockKinds() []BlockKind { return []BlockKind{BlockIP, BlockCIDR, BlockUser, BlockDevice} }

// DeviceBytesMax bounds a device's id: 1 to 128 bytes of printable ASCII.
const DeviceBytesMax = 128

// ValidDevice tells whether s can be a device's id.
func ValidDevice(s string) bool { return printable(s, DeviceBytesMax) }

// Block keeps somebody from buying. At most one is active for a kind and a value.
type Block struct {
	ID        int64
	Kind      BlockKind
	Value     string    // In its one canonical form.
	Until     time.Time // Zero if it does not end by itself.
	Automatic bool      // Made by the program itself.
	By        Actor     // With the reason.
	CreatedAt time.Time
}

// AudienceState is what is known of an activity's list of buyers.
type AudienceState struct {
	Activity  int64
	Version   int64 // Rises with each list; 0 if there never was one.
	Count     int64 // Different buyers on it.
	UpdatedAt time.Time
}

// Guard is something that acts by itself to protect the program, and what it does now.
type Guard struct {
	Name   string    // breaker, backlog, …
	Acting bool      // Whether it holds something back now.
	Since  time.Time // When it began to act, or stopped; zero if it never acted.
	Reason string    // One English sentence.
	Figure string    // The figure that it acted on, with its bound.
}
