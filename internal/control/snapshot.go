package control

import (
	"net/netip"
	"slices"
	"time"

	"seckill"
)

// Snapshot is the whole control state at one moment, as one node knows it. It is never
// changed, and reading it waits for nobody.
type Snapshot struct {
	// Switches is what holds now.
	Switches seckill.Switches

	states    []seckill.SwitchState // As the database has them, plans whose time has come included.
	next      time.Time             // When the next plan's time comes; zero if there is none.
	due       bool                  // Whether a plan's time has come that is still in the database.
	blocks    *blocks
	audiences map[int64]*audience
	listless  map[int64]bool // Activities that were looked for in the database, and have no list.
}

// audience is a list of buyers, or that there is one.
type audience struct {
	version int64
	updated time.Time
	list    *list // Nil while it was not read yet.
}

// Blocked returns the block that holds for a buyer, or nil. ip is the zero Addr, and device
// is "", if they are not known.
func (s *Snapshot) Blocked(ip netip.Addr, user, device string) *Block {
	if ip.Is4In6() {
		ip = ip.Unmap()
	}
	if ip.Is6() && ip.Zone() != "" {
		ip = ip.WithZone("")
	}
	return s.blocks.find(ip, user, device)
}

// Eligible tells whether a buyer may buy of an activity: it is for everyone, or the buyer is
// on its list. While the list is not Known, nobody is.
func (s *Snapshot) Eligible(a *seckill.Activity, buyer string) bool {
	if a.Audience != seckill.AudienceListed {
		return true
	}
	l := s.audiences[a.ID]
	return l != nil && l.list != nil && l.list.has(buyer)
}

// Known tells whether Eligible can be believed. If not, the activity has a list that this node is still reading for
// the first time, or nobody has looked yet whether it has one (see [Board.Known]). A buyer must not hear a
// definite no then.
func (s *Snapshot) Known(a *seckill.Activity) bool {
	if a.Audience != seckill.AudienceListed {
		return true
	}
	if l := s.audiences[a.ID]; l != nil {
		return l.list != nil
	}
	return s.listless[a.ID]
}

// Blocks is how many blocks there are of each kind; such as have just ended may be among them.
func (s *Snapshot) Blocks() map[seckill.BlockKind]int { return s.blocks.counts() }

// States is how each switch stands at a moment, in the order in which they are shown.
func (s *Snapshot) States(now time.Time) []seckill.SwitchState {
	all := seckill.AllSwitches()
	shown := make([]seckill.SwitchState, len(all))
	for i, known := range all {
		shown[i] = seckill.SwitchState{Name: known.Name, Value: known.Default}
		if at := slices.IndexFunc(s.states, func(o seckill.SwitchState) bool { return o.Name == known.Name }); at >= 0 {
			shown[i], _ = carriedOut(s.states[at], now)
		}
	}
	return shown
}

// carriedOut is how a switch stands once the plans whose time has come are carried out.
func carriedOut(s seckill.SwitchState, now time.Time) (_ seckill.SwitchState, due bool) {
	plans := s.Scheduled
	for len(plans) > 0 && !plans[0].At.After(now) {
		if p := plans[0]; p.Value != s.Value {
			s.Value, s.ChangedAt, s.ChangedBy = p.Value, p.At, p.By
		}
		plans, due = plans[1:], true
	}
	s.Scheduled = plans
	return s, due
}

// settle works out what holds at a moment, and when that changes by itself.
func (s *Snapshot) settle(now time.Time) {
	s.Switches, s.next, s.due = seckill.DefaultSwitches(), time.Time{}, false
	for _, stored := range s.states {
		is, due := carriedOut(stored, now)
		s.due = s.due || due
		if len(is.Scheduled) > 0 && (s.next.IsZero() || is.Scheduled[0].At.Before(s.next)) {
			s.next = is.Scheduled[0].At
		}
		switch is.Name {
		case seckill.SwitchIntake:
			s.Switches.Intake = is.Value != 0
		case seckill.SwitchConsumers:
			s.Switches.Consumers = is.Value != 0
		case seckill.SwitchChallenge:
			s.Switches.Challenge = is.Value != 0
		case seckill.SwitchAdmissionPercent:
			s.Switches.AdmissionPercent = int(min(max(is.Value, 0), 100))
		}
	}
}
