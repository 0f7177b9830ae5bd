// Package gate decides who may try to buy, from what this node knows by itself: no
// check waits for anybody. It never touches the stock, and a yes of it promises
// nothing. The public door owns one.
package gate

import (
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"seckill"
	"seckill/internal/entry"
	"seckill/stock"
)

// replayGrace is how long after the end a request with an idempotency key still goes
// to the stock.
const replayGrace = 10 * time.Minute

// Options of a Gate. Zero fields take the defaults.
type Options struct {
	BuyersMax int           // Buyers of whom something is remembered, 1,000,000; at least 1,000.
	BuyerTTL  time.Duration // How long, as an event may be missed, 30 s.

	Limits Limits // Off by default.
	// Controls is what operators have decided. Default: nothing.
	Controls Controls
	// Held tells whether the program holds purchases back by itself. Nil: never.
	Held func() bool
	// Entry checks the tokens of entries. Nil: who needs one cannot have it.
	Entry *entry.Door
}

// Controls is what operators have decided, as this node knows it.
type Controls interface {
	Switches() seckill.Switches
	// Blocked tells whether somebody is kept out. addr is the zero Addr and device is "" if not known.
	Blocked(addr netip.Addr, user, device string) bool
	// Eligible tells whether a buyer is on the list of an activity that is for listed buyers
	// only. Nothing can be said while the list is not known.
	Eligible(a *seckill.Activity, buyer string) (eligible, known bool)
}

// nothingDecided is what holds without operators.
type nothingDecided struct{}

func (nothingDecided) Switches() seckill.Switches { return seckill.DefaultSwitches() }

func (nothingDecided) Blocked(netip.Addr, string, string) bool { return false }

func (nothingDecided) Eligible(*seckill.Activity, string) (eligible, known bool) { return false, true }

// Gate is the ordered checks and what they know. It may be used concurrently.
type Gate struct {
	knowledge
	limits   Limits
	controls Controls
	held     func() bool
	entry    *entry.Door
}

// New makes a gate that knows nothing yet.
func New(o Options) (*Gate, error) {
	if o.BuyersMax == 0 {
		o.BuyersMax = 1_000_000
	}
	if o.BuyersMax < 1000 {
		return nil, errors.New("BuyersMax must be at least 1000")
	}
	if o.BuyerTTL == 0 {
		o.BuyerTTL = 30 * time.Second
	}
	if o.Controls == nil {
		o.Controls = nothingDecided{}
	}
	if o.Held == nil {
		o.Held = func() bool { return false }
	}
	g := &Gate{limits: o.Limits, controls: o.Controls, held: o.Held, entry: o.Entry}
	if err := g.open(o.BuyersMax, o.BuyerTTL); err != nil {
		return nil, err
	}
	return g, nil
}

// Request is one buyer's wish. It may be used again once Check has answered and
// the answer was dealt with; its strings may be views.
type Request struct {
	Activity *seckill.Activity // Nil if there is none.
	Buyer    string
	Addr     netip.Addr // Where the request came from; the zero Addr if that is not known.
	Device   string     // "" if it says none.
	Quantity int
	Key      string // Idempotency key, "" if none.
	Token    string // Entry token, "" if none.
	Now      time.Time

	refusal  seckill.Refusal // Room for one that says more than its reason.
	switches seckill.Switches
	limited  limited
	budget   uint64     // Of which kind of requests the limits count it.
	pass     entry.Pass // Of a good token.
	entered  bool       // Whether there is a pass.
	run      *run
	buyer    buyer // What is known of the buyer.
	known    bool
	looked   bool // Whether buyer and known are filled in.
	repeated bool
}

// Answer is what the gate says. With neither a refusal nor a ticket, the request goes
// on to the stock.
type Answer struct {
	Refusal *seckill.Refusal // Valid as long as the request is not used again.
	Ticket  string           // The same request got this ticket before.
	Ahead   int64            // What was in front of it then.
	Mark    Mark             // To be handed to Learn with what the stock says.
}

// check refuses a request, or says nil.
type check struct {
	reason seckill.Reason
	refuse func(*Gate, *Request) *seckill.Refusal
}

// order is the order of refusals: of several that hold, the first is said. Nothing
// else decides it. The body and the caller's identity are checked before, as far as a
// door must read both to make a Request (invalid_request, unauthenticated).
var order = [...]check{
	{seckill.Blocked, (*Gate).blocked},
	{seckill.RateLimited, (*Gate).rateLimited},
	{seckill.NotFound, (*Gate).notFound},
	{seckill.NoReason, (*Gate).recall}, // Refuses nothing: a request that was answered before gets the same answer.
	{seckill.Paused, (*Gate).paused},
	{seckill.Busy, (*Gate).busy},
	{seckill.NotStarted, (*Gate).notStarted},
	{seckill.Ended, (*Gate).ended},
	{seckill.NotEligible, (*Gate).notEligible},
	{seckill.ChallengeRequired, (*Gate).challengeRequired},
	{seckill.Replayed, (*Gate).replayed},
	{seckill.AlreadyPurchased, (*Gate).alreadyPurchased},
	{seckill.SoldOut, (*Gate).soldOut},
}

// Check asks the checks in their order.
func (g *Gate) Check(r *Request) Answer {
	r.run, r.buyer, r.known, r.looked, r.repeated, r.entered = nil, buyer{}, false, false, false, false
	r.switches, r.limited, r.budget = g.controls.Switches(), limited{}, 0
	for i := range order {
		if ref := order[i].refuse(g, r); ref != nil {
			return Answer{Refusal: ref}
		}
		if r.repeated {
			return Answer{Ticket: r.buyer.ticket, Ahead: r.buyer.ahead}
		}
	}
	return Answer{Mark: r.run.mark()}
}

// entryOrder is the order of refusals of who wants to enter; what else there is to be said, the
// entry itself says.
var entryOrder = [...]check{
	{seckill.Blocked, (*Gate).blocked},
	{seckill.RateLimited, (*Gate).rateLimited},
	{seckill.NotFound, (*Gate).notFound},
	{seckill.Paused, (*Gate).paused},
	{seckill.Busy, (*Gate).away},
	{seckill.NotStarted, (*Gate).doorClosed}, // Or ended.
	{seckill.NotEligible, (*Gate).notEligible},
}

// CheckEntry asks the checks of an entry in their order. A buyer who is not known yet is "".
func (g *Gate) CheckEntry(r *Request) *seckill.Refusal {
	r.switches, r.limited, r.budget = g.controls.Switches(), limited{}, entries
	for i := range entryOrder {
		if r.Buyer == "" && entryOrder[i].reason == seckill.NotEligible {
			continue
		}
		if ref := entryOrder[i].refuse(g, r); ref != nil {
			return ref
		}
	}
	return nil
}

// Learn takes in what the stock has said of a request that Check let through.
func (g *Gate) Learn(r *Request, m Mark, d stock.Decision) {
	if r.entered && d.Verdict == stock.Taken {
		_ = g.entry.Use(r.pass, r.Key, r.Now) // Whoever was faster, the stock has said who bought.
	}
	g.learn(r, m, d)
}

// plain holds refusals that say nothing but their reason. They must not be changed.
var plain = [...]*seckill.Refusal{
	seckill.Blocked:           seckill.Refuse(seckill.Blocked),
	seckill.NotFound:          seckill.Refuse(seckill.NotFound),
	seckill.Paused:            seckill.Refuse(seckill.Paused),
	seckill.Busy:              seckill.Refuse(seckill.Busy),
	seckill.Ended:             seckill.Refuse(seckill.Ended),
	seckill.NotEligible:       seckill.Refuse(seckill.NotEligible),
	seckill.ChallengeRequired: seckill.Refuse(seckill.ChallengeRequired),
	seckill.SoldOut:           seckill.Refuse(seckill.SoldOut),
}

func (g *Gate) notFound(r *Request) *seckill.Refusal {
	if r.Activity == nil {
		return plain[seckill.NotFound]
	}
	return nil
}

// recall knows a request that it has seen, by its key.
func (g *Gate) recall(r *Request) *seckill.Refusal {
	r.run = g.runOf(r.Activity.RunID())
	if r.Key != "" {
		g.look(r)
		r.repeated = r.known && r.buyer.ticket != "" && r.Key == r.buyer.key && r.Quantity == r.buyer.quantity
	}
	return nil
}

// look finds what is known of the buyer, once, and only for a request that needs it.
func (g *Gate) look(r *Request) {
	if !r.looked {
		r.buyer, r.known = g.buyerOf(r.run, r.Buyer, r.Now)
		r.looked = true
	}
}

func (g *Gate) blocked(r *Request) *seckill.Refusal {
	if g.controls.Blocked(r.Addr, r.Buyer, r.Device) {
		return plain[seckill.Blocked]
	}
	return nil
}

func (g *Gate) paused(r *Request) *seckill.Refusal {
	if r.Activity.Paused || !r.switches.Intake {
		return plain[seckill.Paused]
	}
	return nil
}

// busy holds while there is no stock to ask (it is being rebuilt, or is late in being loaded), while
// the program protects itself, and for the share of purchases that operators do not let through.
func (g *Gate) busy(r *Request) *seckill.Refusal {
	if ref := g.away(r); ref != nil {
		return ref
	}
	if share := r.switches.AdmissionPercent; share < 100 && rand.IntN(100) >= share {
		return plain[seckill.Busy]
	}
	return nil
}

// doorClosed holds before entries are given, and after the end.
func (g *Gate) doorClosed(r *Request) *seckill.Refusal {
	if g.entry == nil {
		return nil
	}
	return g.entry.Closed(r.Activity, r.Now)
}

// away holds while there is no stock to ask, or the program protects itself.
func (g *Gate) away(r *Request) *seckill.Refusal {
	a := r.Activity
	late := a.Phase == seckill.PhaseScheduled && !r.Now.Before(a.StartsAt) && r.Now.Before(a.EndsAt)
	if a.Phase == seckill.PhaseRebuilding || late || g.held() {
		return plain[seckill.Busy]
	}
	return nil
}

func (g *Gate) notStarted(r *Request) *seckill.Refusal {
	a := r.Activity
	if a.Phase == seckill.PhaseClosed || !r.Now.Before(a.StartsAt) {
		return nil
	}
	r.refusal = seckill.Refusal{Reason: seckill.NotStarted, StartsAt: a.StartsAt}
	return &r.refusal
}

// ended leaves a request with a key to the stock for a while: it may be one that got a ticket in
// the last moment, and lost the answer. Such a buyer must not hear a definite no.
func (g *Gate) ended(r *Request) *seckill.Refusal {
	a := r.Activity
	switch {
	case a.Phase != seckill.PhaseClosed && r.Now.Before(a.EndsAt):
		return nil
	case r.Key != "" && a.Phase != seckill.PhaseScheduled && r.Now.Sub(a.EndsAt) < replayGrace:
		return nil
	}
	return plain[seckill.Ended]
}

func (g *Gate) notEligible(r *Request) *seckill.Refusal {
	if r.Activity.Audience != seckill.AudienceListed {
		return nil
	}
	switch eligible, known := g.controls.Eligible(r.Activity, r.Buyer); {
	case !known:
		return plain[seckill.Busy] // A moment later this node knows the list.
	case !eligible:
		return plain[seckill.NotEligible]
	}
	return nil
}

// Challenged tells whether entries of an activity cost a proof now.
func (g *Gate) Challenged(a *seckill.Activity) bool {
	return a.Challenge || g.controls.Switches().Challenge
}

func (r *Request) challenged() bool { return r.Activity.Challenge || r.switches.Challenge }

func (g *Gate) challengeRequired(r *Request) *seckill.Refusal {
	if !r.Activity.EntryToken && !r.challenged() {
		return nil
	}
	if g.entry == nil {
		return plain[seckill.ChallengeRequired]
	}
	pass, _, ref := g.entry.Check(r.Activity, r.Buyer, r.Token, r.challenged(), r.Now)
	if ref == nil {
		r.pass, r.entered = pass, true
	}
	return ref
}

// replayed knows the tokens that bought something on this node; the stock knows them all.
func (g *Gate) replayed(r *Request) *seckill.Refusal {
	if !r.entered {
		return nil
	}
	if g.entry.Spent(r.pass, r.Key, r.Now) == nil {
		return nil
	}
	r.refusal = seckill.Refusal{Reason: seckill.Replayed, Ticket: r.Ticket()}
	return &r.refusal
}

// Ticket is that of an attempt for the request. An entry has one ticket, so that the stock, which takes units
// once for a ticket, lets nobody buy twice with one entry.
func (r *Request) Ticket() string {
	if !r.entered {
		return seckill.NewTicket(r.Activity.RunID())
	}
	return seckill.TicketOf(r.Activity.RunID(), [13]byte(r.pass.Nonce[:13]))
}

// AttemptKey is the idempotency key of an attempt for the request. With an entry there always is one: by it
// the stock tells the same purchase that is sent again from another one with the same entry.
func (r *Request) AttemptKey() string {
	if r.entered && r.Key == "" {
		return madeUpKey + crand.Text()
	}
	return strings.Clone(r.Key)
}

// madeUpKey begins a key that no buyer has sent.
const madeUpKey = "entry "

// alreadyPurchased leaves a request with an unknown key to the stock: it may be one whose
// answer was lost.
func (g *Gate) alreadyPurchased(r *Request) *seckill.Refusal {
	g.look(r)
	if !r.known || r.buyer.over == 0 || r.Quantity < r.buyer.over || r.Key != "" && r.Key != r.buyer.key && r.Key != r.buyer.refused {
		return nil
	}
	r.refusal = seckill.Refusal{Reason: seckill.AlreadyPurchased, Ticket: r.buyer.ticket}
	return &r.refusal
}

// soldOut leaves a request with a key to the stock unless the stock has said already that
// it knows nothing of it: the answer to its first try may have been lost, and
// whoever holds a ticket must not hear "sold out".
func (g *Gate) soldOut(r *Request) *seckill.Refusal {
	word := r.run.word.Load()
	if word&flagSoldOut == 0 {
		return nil
	}
	if r.Key == "" || r.known && r.buyer.short == word && (r.buyer.key == r.Key || r.Activity.LimitPerUser == 1) {
		return plain[seckill.SoldOut]
	}
	return nil
}
