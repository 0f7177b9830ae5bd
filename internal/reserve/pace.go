package reserve

import "time"

// pace is what a lane has learnt of how fast its stock decides under load, and what follows from that: how many
// attempts go in one call, and how many may wait.
//
// A call costs something by itself (a way there and back, a write to a disk) and something for each attempt in it.
// Where the former is most of it, calls have to be large, or less is decided; where the latter is, a large call
// decides no more than small ones in the same time, and everybody in it waits for all of it. So both are learnt, from
// calls of different sizes. A call is then as large as keeps those under way near Options.WaitTarget, or as large as it
// takes to lose no more than one part in costParts to what a call costs by itself, as long as that is not too long either.
//
// By Little's law, as many may wait and be under way as are decided in twice WaitTarget, or as it takes to keep calls
// whole.
//
// The zero pace knows nothing. Then nobody is refused for the line's sake: a crowd that comes at once is what a sale
// is about. Calls begin small and double, so that even the first ones at a slow stock are soon back. A
// lane's lock is held for all of it.
type pace struct {
	most    int       // Attempts in one call.
	known   bool      // It has been found out how many those should be.
	at      time.Time // When something was learnt last.
	refused bool      // Somebody was, in the round under way.

	// The weighted means of the rounds so far, newer ones count more: attempts of a call, the time from one
	// answer to the next in seconds, and what their line is fitted from.
	rounds              int
	n, took, nSq, nTook float64
	roundCalls, roundN  int
	roundTook           time.Duration
	perCall, perAttempt float64 // Seconds, as fitted.
}

const (
	// mostFirst is how many attempts a call has as long as nothing is known.
	mostFirst = 16
	// costParts is the part of the stock's time that may be lost to calls that are not larger: one in eight.
	costParts = 8
	// paceRounds is how many rounds the means are about, or fewer if those took longer than paceMemory.
	paceRounds = 32
	paceMemory = time.Second
	// roundsLeast is how many rounds it takes to know anything.
	roundsLeast = 4
	// paceFor is how long it is believed. A crowd is not refused for what was learnt in the one before.
	paceFor = 10 * time.Second
	// spreadLeast is how much sizes have to differ, squared and relative, to tell much. Where they do less, attempts are
	// taken for what costs; then calls become smaller, and so differ.
	spreadLeast = 0.005
)

// fill tells how many attempts may go in the next call.
func (p *pace) fill(o *Options) int {
	if p.most == 0 {
		p.most = min(mostFirst, o.BatchMax)
	}
	return p.most
}

// target is how long the stock should be at one call, in seconds: at those of all flights it is WaitTarget.
func target(o *Options, flights int) float64 {
	return o.WaitTarget.Seconds() / float64(flights)
}

// answered takes in a call that was as large as it might be, and how long after the answer before it came (or after
// the stock had nothing to do). The calls of all flights are taken together: they may be answered in pairs.
func (p *pace) answered(o *Options, flights, attempts int, took time.Duration, now time.Time) {
	p.roundCalls, p.roundN, p.roundTook = p.roundCalls+1, p.roundN+attempts, p.roundTook+took
	if p.roundCalls < flights {
		return
	}
	calls := float64(p.roundCalls)
	n, t := float64(p.roundN)/calls, p.roundTook.Seconds()/calls
	weight := max(1/float64(p.rounds+1), 1./paceRounds, min(p.roundTook.Seconds()/paceMemory.Seconds(), 0.5))
	p.skip()
	p.rounds = min(p.rounds+1, paceRounds)
	mean := func(m *float64, v float64) { *m += (v - *m) * weight }
	mean(&p.n, n)
	mean(&p.took, t)
	mean(&p.nSq, n*n)
	mean(&p.nTook, n*t)
	p.fit()
	best := p.best(o, flights)
	if best <= p.most || best < 2*p.most && p.spread() < spreadLeast {
		enough := p.rounds >= roundsLeast && p.spread() >= spreadLeast || p.most == o.BatchMax
		if p.known = p.known || enough; !p.known {
			best = 0 // Something to compare it with.
		}
	}
	// Calls grow faster than they shrink: whatever else makes them slow now and then (there is no processor, a disk is
	// busy) must not make them ever smaller. A call that is too large soon shows what attempts cost.
	least := p.most - (p.most+7)/8
	if !p.known {
		least = (p.most + 1) / 2
	}
	p.most = max(1, min(max(best, least), 2*p.most))
	p.at = now
}

// starved is for a call in which this process waited for a processor: that says nothing of the stock. To refuse takes a
// processor as well, and so nobody is refused for the line's sake; calls become larger, which costs the least.
func (p *pace) starved(o *Options) {
	p.skip()
	p.known = false
	p.most = min(2*p.fill(o), o.BatchMax)
}

// skip forgets the round under way.
func (p *pace) skip() { p.roundCalls, p.roundN, p.roundTook, p.refused = 0, 0, 0, false }

// spread is how much the sizes of calls differ, squared and relative.
func (p *pace) spread() float64 { return p.nSq/(p.n*p.n) - 1 }

// fit draws the line through the rounds: took = perCall + n × perAttempt.
func (p *pace) fit() {
	each := p.took / p.n
	slope := (p.nTook - p.n*p.took + spreadLeast*p.n*p.took) / (p.n * p.n * (p.spread() + spreadLeast))
	p.perAttempt = min(max(slope, 0), each)
	p.perCall = p.took - p.n*p.perAttempt
}

// best is how many attempts a call should have: those that the stock decides in its target, or in what it takes
// to spread what a call costs by itself.
func (p *pace) best(o *Options, flights int) int {
	spread := min(costParts*p.perCall, 2*p.perCall+o.WaitTarget.Seconds())
	long := max(target(o, flights), spread)
	if n := (long - p.perCall) / p.perAttempt; n < float64(o.BatchMax) {
		return max(1, int(n))
	}
	return o.BatchMax
}

// decides is how many attempts the stock decides in a time.
func (p *pace) decides(d time.Duration) int {
	n := d.Seconds() * float64(p.most) / (p.perCall + float64(p.most)*p.perAttempt)
	return int(min(n, 1<<30))
}

// room is how many attempts may wait and be under way, for WaitTarget each: or enough that no flight has to wait for
// attempts.
func (p *pace) room(o *Options, flights int) int {
	return max((flights+1)*p.most, p.decides(2*o.WaitTarget))
}

// forget forgets what is too old.
func (p *pace) forget(now time.Time) {
	if p.rounds > 0 && now.Sub(p.at) > paceFor {
		*p = pace{}
	}
}
