package seckill

import "time"

// RunID names one run of an activity. Every key, message, row and ticket
// carries it, so that a late message of one run cannot touch the next.
type RunID struct {
	Activity int64 // From 1.
	Run      int   // From 1.
}

// Phase is how far the operators and the keeper have brought the present run.
// It is what the database stores; what buyers see is [Activity.State].
type Phase int8

// The phases of a run. Their numbers are stored.
const (
	PhaseScheduled  Phase = 0 // Known, but not yet in the stock.
	PhaseLoaded     Phase = 1 // In the stock: units, window and limit.
	PhaseClosed     Phase = 2 // Ended by an operator before its time.
	PhaseRebuilding Phase = 3 // The stock lost it; held until it is put right.
)

// String names the phase for people.
func (p Phase) String() string {
	switch p {
	case PhaseScheduled:
		return "scheduled"
	case PhaseLoaded:
		return "loaded"
	case PhaseClosed:
		return "closed"
	case PhaseRebuilding:
		return "rebuilding"
	}
	return "unknown"
}

// State is what a buyer may know of an activity.
type State string

// The states of an activity.
const (
	StateScheduled State = "scheduled"
	StateReady     State = "ready" // Preloaded, before the start.
	StateOpen      State = "open"
	StatePaused    State = "paused"
	StateSoldOut   State = "sold_out"
	StateEnded     State = "ended"
)

// Audience says who may buy.
type Audience string

// The audiences.
const (
	AudienceEveryone Audience = "everyone"
	AudienceListed   Audience = "listed"
)

// Activity is what is sold, with the run that is present.
type Activity struct {
	ID          int64
	Name        string
	Description string
	PriceCents  int64 // Whole cents, for one unit.

	Run      int
	Epoch    int64 // Raised by each load of the run into the stock; an older one cannot sell.
	Phase    Phase
	Paused   bool
	Total    int64 // Units of the present run.
	StartsAt time.Time
	EndsAt   time.Time

	LimitPerUser  int // Units that one buyer may hold, from 1.
	SubStocks     int // Parts that the stock is spread over, from 1.
	PreloadBefore time.Duration
	PaymentWindow time.Duration
	Challenge     bool
	EntryToken    bool
	Audience      Audience

	CreatedAt time.Time
}

// RunID of the present run.
func (a *Activity) RunID() RunID { return RunID{a.ID, a.Run} }

// State at a moment, given what is known of the stock.
func (a *Activity) State(now time.Time, soldOut bool) State {
	switch {
	case a.Phase == PhaseClosed || !now.Before(a.EndsAt):
		return StateEnded
	case a.Paused || a.Phase == PhaseRebuilding:
		return StatePaused
	case a.Phase == PhaseScheduled:
		return StateScheduled
	case now.Before(a.StartsAt):
		return StateReady
	case soldOut:
		return StateSoldOut
	default:
		return StateOpen
	}
}

// Books of a run: where every unit is. Once nothing is in motion
// Total = Available + Queued + AwaitingPayment + Paid + Dead.
type Books struct {
	Total           int64 `json:"total"`
	Available       int64 `json:"available"`
	Queued          int64 `json:"queued"`
	AwaitingPayment int64 `json:"awaiting_payment"`
	Paid            int64 `json:"paid"`
	Dead            int64 `json:"dead"`
	Balanced        bool  `json:"balanced"`
}

// Balance fills in Balanced and returns the books.
func (b Books) Balance() Books {
	b.Balanced = b.Total == b.Available+b.Queued+b.AwaitingPayment+b.Paid+b.Dead
	return b
}
