package entry

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"seckill"
)

// Options of a Door. Zero fields take the defaults.
type Options struct {
	Ring       *Ring         // The keys. Needed.
	Before     time.Duration // How long before the start tokens and challenges are given, 60 s; up to 1 h.
	TokenLife  time.Duration // How long a token is good for, Before and 2 min; more than Before, up to 3 h.
	ProofLife  time.Duration // How long a challenge may take to be solved, 2 min; from 10 s to 1 h.
	Wait       time.Duration // The least time between entry and purchase, 0; up to 1 min, and less than TokenLife.
	Leeway     time.Duration // How far the clocks of nodes may be apart, 10 s; up to 1 min.
	Difficulty int           // The number of a challenge is at most this, 50,000; see DifficultyMin and DifficultyMax.
	SeenMax    int           // Uses of tokens, and of proofs, that are remembered, 2^20 of each; from 1024.
}

// The bounds of difficulty. It is the most hashes that a buyer's browser makes, and twice what it makes on average.
const (
	DifficultyMin = 1_000
	DifficultyMax = 10_000_000
)

// Door gives and checks what a buyer needs to come in. It may be used concurrently.
type Door struct {
	o      Options
	tokens *Seen
	proofs *Seen
}

// New makes a door.
func New(o Options) (*Door, error) {
	o.Before = cmp.Or(o.Before, time.Minute)
	o.TokenLife = cmp.Or(o.TokenLife, o.Before+2*time.Minute)
	o.ProofLife = cmp.Or(o.ProofLife, 2*time.Minute)
	o.Leeway = cmp.Or(o.Leeway, 10*time.Second)
	o.Difficulty = cmp.Or(o.Difficulty, 50_000)
	o.SeenMax = cmp.Or(o.SeenMax, 1<<20)
	within := func(ok bool, what string) error {
		if ok {
			return nil
		}
		return errors.New(what)
	}
	err := errors.Join(
		within(o.Ring != nil, "there must be a ring of keys"),
		within(o.Before > 0 && o.Before <= time.Hour, "Before must be up to 1 h"),
		within(o.TokenLife > o.Before && o.TokenLife <= 3*time.Hour, "TokenLife must be more than Before, and up to 3 h"),
		within(o.ProofLife >= 10*time.Second && o.ProofLife <= time.Hour, "ProofLife must be from 10 s to 1 h"),
		within(o.Wait >= 0 && o.Wait <= time.Minute && o.Wait < o.TokenLife, "Wait must be up to 1 min, and less than TokenLife"),
		within(o.Leeway > 0 && o.Leeway <= time.Minute, "Leeway must be up to 1 min"),
		within(o.Difficulty >= DifficultyMin && o.Difficulty <= DifficultyMax, fmt.Sprintf("Difficulty must be from %d to %d", DifficultyMin, DifficultyMax)),
		within(o.SeenMax >= 1024, "SeenMax must be at least 1024"),
	)
	if err != nil {
		return nil, fmt.Errorf("entry: %w", err)
	}
	// What was used is remembered for as long as any clock may take it for good.
	return &Door{o, NewSeen(o.TokenLife+2*o.Leeway, o.SeenMax), NewSeen(o.ProofLife+2*o.Leeway, o.SeenMax)}, nil
}

// Closed refuses who comes before entries are given, or after the end.
func (d *Door) Closed(a *seckill.Activity, now time.Time) *seckill.Refusal {
	switch {
	case a.Phase == seckill.PhaseClosed || !now.Before(a.EndsAt):
		return seckill.Refuse(seckill.Ended)
	case now.Before(a.StartsAt.Add(-d.o.Before)):
		return &seckill.Refusal{Reason: seckill.NotStarted, StartsAt: a.StartsAt}
	}
	return nil
}

// Challenge makes a challenge for a buyer, "" if it is not known who he is. A difficulty of 0 is
// that of the options; another is brought within the bounds.
func (d *Door) Challenge(a *seckill.Activity, buyer string, difficulty int, now time.Time) (Challenge, *seckill.Refusal) {
	if ref := d.Closed(a, now); ref != nil {
		return Challenge{}, ref
	}
	difficulty = min(max(cmp.Or(difficulty, d.o.Difficulty), DifficultyMin), DifficultyMax)
	return d.o.Ring.challenge(a.RunID(), buyer, difficulty, now, now.Add(d.o.ProofLife)), nil
}

// Token is what a buyer gets for an entry.
type Token struct {
	Text      string
	ExpiresAt time.Time
}

// Admit gives a buyer a token. With challenged, that costs a proof; one that is given
// has to be good in any case. The verdict is that on the proof, for metrics: Good if there is none
// and none is needed.
func (d *Door) Admit(a *seckill.Activity, buyer, proof string, challenged bool, now time.Time) (Token, Verdict, *seckill.Refusal) {
	if ref := d.Closed(a, now); ref != nil {
		return Token{}, Good, ref
	}
	p := pass{run: a.RunID(), given: now, life: d.o.TokenLife}
	if challenged || proof != "" {
		id, v := d.o.Ring.proved(proof, p.run, buyer, now, d.o.Leeway)
		if v == Good && !d.proofs.Use(id[:], 0, now) {
			v = Used
		}
		if v != Good {
			return Token{}, v, v.Refusal()
		}
		p.nonce, p.proved = nonceOf(id), true
	} else {
		p.nonce = randomNonce()
	}
	p.buyer = buyerTag(p.nonce[:], buyer)
	return Token{d.o.Ring.sign(p, now), now.Add(p.life)}, Good, nil
}

// Pass is what a good token is worth: one purchase.
type Pass struct {
	Nonce   Nonce     // To go into the reservation, which may have it once.
	Expires time.Time // After this no node takes it for good any more, and the nonce may be forgotten.
}

// Check reads the token of a purchase. With challenged, it must have cost a proof. The refusal
// fits the verdict; it must not be changed. Nothing is used up.
func (d *Door) Check(a *seckill.Activity, buyer, token string, challenged bool, now time.Time) (Pass, Verdict, *seckill.Refusal) {
	if token == "" {
		return Pass{}, Missing, Missing.Refusal()
	}
	p, v := d.o.Ring.read(token)
	if v != Good {
		return Pass{}, v, v.Refusal()
	}
	ends, early := p.given.Add(p.life), p.given.Add(d.o.Wait).Sub(now)
	switch {
	case p.run.Activity != a.ID:
		v = OtherActivity
	case p.run.Run != a.Run:
		v = OtherRun
	case p.buyer != buyerTag(p.nonce[:], buyer):
		v = OtherBuyer
	case p.given.After(now.Add(d.o.Leeway)):
		v = NotYet
	case now.After(ends.Add(d.o.Leeway)):
		v = Expired
	case challenged && !p.proved:
		v = NotProved
	case d.o.Wait > 0 && early > 0:
		ref := *TooSoon.Refusal()
		ref.RetryAfter = early
		return Pass{}, TooSoon, &ref
	}
	return Pass{p.nonce, ends.Add(2 * d.o.Leeway)}, v, v.Refusal()
}

// Use uses a pass up on this node, or refuses it if it was used before, unless by a purchase with
// the same idempotency key ("" is never the same). It comes after all else has been checked.
func (d *Door) Use(p Pass, key string, now time.Time) *seckill.Refusal {
	if !d.tokens.Use(p.Nonce[:], ownerOf(key), now) {
		return Used.Refusal()
	}
	return nil
}

// Forgotten counts uses of tokens and proofs that were forgotten before their time: SeenMax is
// too small.
func (d *Door) Forgotten() int64 { return d.tokens.Forgotten() + d.proofs.Forgotten() }
