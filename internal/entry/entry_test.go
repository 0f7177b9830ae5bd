package entry

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

var start = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

func activity(id int64, run int) *seckill.Activity {
	return &seckill.Activity{ID: id, Run: run, Phase: seckill.PhaseLoaded, StartsAt: start, EndsAt: start.Add(time.Hour)}
}

func secretKey(id string, notBefore time.Time) Key {
	return Key{id, []byte("a secret of " + id + ", for tests"), notBefore}
}

func door(tb testing.TB, o Options) *Door {
	tb.Helper()
	if o.Ring == nil {
		var err error
		o.Ring, err = NewRing(secretKey("k", time.Time{}))
		must(tb, err)
	}
	if o.Difficulty == 0 {
		o.Difficulty = DifficultyMin
	}
	d, err := New(o)
	must(tb, err)
	return d
}

// solve does what the buyer page does.
func solve(tb testing.TB, c Challenge) solution {
	tb.Helper()
	for n := range c.MaxNumber + 1 {
		sum := sha256.Sum256([]byte(c.Salt + strconv.Itoa(n)))
		if hex.EncodeToString(sum[:]) == c.Challenge {
			return solution{c.Algorithm, c.Challenge, int64(n), c.Salt, c.Signature}
		}
	}
	tb.Fatalf("%+v has no solution", c)
	return solution{}
}

// write makes a proof of a solution, with what the page says besides.
func write(s solution) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"algorithm":%q,"challenge":%q,"number":%d,"salt":%q,"signature":%q,"took":12}`, s.Algorithm, s.Challenge, s.Number, s.Salt, s.Signature))
}

func prove(tb testing.TB, d *Door, a *seckill.Activity, buyer string, now time.Time) (proof string, s solution) {
	tb.Helper()
	c, ref := d.Challenge(a, buyer, 0, now)
	if ref != nil {
		tb.Fatal(ref)
	}
	s = solve(tb, c)
	return write(s), s
}

func admit(tb testing.TB, d *Door, a *seckill.Activity, buyer string, now time.Time) string {
	tb.Helper()
	token, _, ref := d.Admit(a, buyer, "", false, now)
	if ref != nil {
		tb.Fatal(ref)
	}
	return token.Text
}

// checks that a token meets with a verdict, and that its refusal has the reason.
func checks(t *testing.T, d *Door, a *seckill.Activity, buyer, token string, challenged bool, now time.Time, want Verdict) Pass {
	t.Helper()
	p, got, ref := d.Check(a, buyer, token, challenged, now)
	if got != want || (ref == nil) != (want == Good) {
		t.Errorf("token: got %v, %v, want %v", got, ref, want)
	}
	if ref != nil && ref.Reason != want.Refusal().Reason {
		t.Errorf("%v: got %v", got, ref)
	}
	return p
}

// A buyer who does the work gets a token, and with it one purchase.
func TestTheWayIn(t *testing.T) {
	d, a := door(t, Options{}), activity(7, 3)
	proof, _ := prove(t, d, a, "ann", start)
	token, v, ref := d.Admit(a, "ann", proof, true, start.Add(time.Second))
	if ref != nil || v != Good || !token.ExpiresAt.Equal(start.Add(time.Second+3*time.Minute)) {
		t.Fatalf("got %+v, %v, %v", token, v, ref)
	}
	p := checks(t, d, a, "ann", token.Text, true, start.Add(2*time.Second), Good)
	if ref := d.Use(p, "key", start); ref != nil {
		t.Errorf("got %v", ref)
	}
	if p.Expires.Before(token.ExpiresAt) {
		t.Errorf("the nonce may be forgotten at %v", p.Expires)
	}
}

// OAT-009, CAPTCHA defeat: a proof counts once, for its buyer and run, in its time, and if its
// challenge was made here and really solved.
func TestOAT009CaptchaDefeat(t *testing.T) {
	d, a := door(t, Options{}), activity(7, 3)
	_, s := prove(t, d, a, "ann", start)
	other := door(t, Options{Ring: func() *Ring { r, _ := NewRing(secretKey("other", time.Time{})); return r }()})
	same := door(t, Options{Ring: func() *Ring {
		k := secretKey("k", time.Time{})
		k.Secret = []byte("guessed, guessed")
		r, _ := NewRing(k)
		return r
	}()})
	foreign, _ := prove(t, other, a, "ann", start)
	forged, _ := prove(t, same, a, "ann", start)
	with := func(change func(*solution)) string {
		changed := s
		change(&changed)
		return write(changed)
	}
	for name, c := range map[string]struct {
		proof string
		a     *seckill.Activity
		buyer string
		now   time.Time
		want  Verdict
	}{
		"none":                    {"", a, "ann", start, Missing},
		"for another activity":    {write(s), activity(8, 3), "ann", start, OtherActivity},
		"for another run":         {write(s), activity(7, 4), "ann", start, OtherRun},
		"for another buyer":       {write(s), a, "bob", start, OtherBuyer},
		"precomputed":             {write(s), a, "ann", start.Add(2*time.Minute + 11*time.Second), Expired},
		"not solved":              {with(func(s *solution) { s.Number++ }), a, "ann", start, WrongNumber},
		"below zero":              {with(func(s *solution) { s.Number = -1 }), a, "ann", start, Malformed},
		"signature alone":         {with(func(s *solution) { s.Number, s.Algorithm = 0, "" }), a, "ann", start, Malformed},
		"another algorithm":       {with(func(s *solution) { s.Algorithm = "SHA-1" }), a, "ann", start, Malformed},
		"other key":               {foreign, a, "ann", start, UnknownKey},
		"forged":                  {forged, a, "ann", start, BadSignature},
		"expiry moved":            {with(func(s *solution) { s.Salt = strings.Replace(s.Salt, "expires=1", "expires=2", 1) }), a, "ann", start, BadSignature},
		"buyer taken out":         {with(func(s *solution) { s.Salt = s.Salt[:strings.Index(s.Salt, "buyer=")+6] + "&" }), a, "ann", start, BadSignature},
		"a parameter more":        {with(func(s *solution) { s.Salt += "expires=9999999999&" }), a, "ann", start, Malformed},
		"digits into the salt":    {splice(s), a, "ann", start, Malformed},
		"signature cut":           {with(func(s *solution) { s.Signature = s.Signature[:62] }), a, "ann", start, Malformed},
		"long":                    {strings.Repeat("A", 4096), a, "ann", start, Malformed},
		"no JSON":                 {"AAAA", a, "ann", start, Malformed},
		"a challenge, not solved": {with(func(s *solution) { s.Challenge = strings.Repeat("0", 64) }), a, "ann", start, BadSignature},
	} {
		token, got, ref := d.Admit(c.a, c.buyer, c.proof, true, c.now)
		if got != c.want || ref == nil || ref.Reason != seckill.ChallengeRequired || token.Text != "" {
			t.Errorf("%s: got %v, %v, want %v", name, got, ref, c.want)
		}
	}

	// Where none is asked for, one that is given has to be good all the same.
	if _, v, ref := d.Admit(a, "ann", "AAAA", false, start); v != Malformed || ref == nil {
		t.Errorf("nonsense that nobody asked for: got %v, %v", v, ref)
	}
}

// OAT-009 once more: a proof counts once, also when it is written in another way.
func TestOAT009ReplayedProof(t *testing.T) {
	d, a := door(t, Options{}), activity(7, 3)
	_, s := prove(t, d, a, "ann", start)
	upper := s
	upper.Challenge, upper.Signature = strings.ToUpper(s.Challenge), strings.ToUpper(s.Signature)
	if _, v, ref := d.Admit(a, "ann", write(s), true, start); ref != nil {
		t.Fatalf("got %v, %v", v, ref)
	}
	for name, proof := range map[string]string{
		"as it was":  write(s),
		"upper case": write(upper),
		"with lines": write(s)[:10] + "\r\n" + write(s)[10:],
	} {
		if _, v, ref := d.Admit(a, "ann", proof, true, start); v != Used || ref == nil || ref.Reason != seckill.Replayed {
			t.Errorf("%s: got %v, %v", name, v, ref)
		}
	}
}

// splice moves the first digit of the number into the salt, as could be done to the first versions of ALTCHA.
func splice(s solution) string {
	digits := strconv.FormatInt(s.Number, 10)
	s.Salt += digits[:1]
	s.Number, _ = strconv.ParseInt("0"+digits[1:], 10, 64)
	return write(s)
}

// OAT-009 over several nodes: one proof that is shown to all of them is worth tokens with one nonce, of which the
// stock takes one.
func TestOAT009OneProofOneNonce(t *testing.T) {
	ring, err := NewRing(secretKey("k", time.Time{}))
	must(t, err)
	one, two, a := door(t, Options{Ring: ring}), door(t, Options{Ring: ring}), activity(1, 1)
	proof, _ := prove(t, one, a, "ann", start)
	var nonces [2]Nonce
	for i, d := range []*Door{one, two} {
		token, _, ref := d.Admit(a, "ann", proof, true, start.Add(time.Duration(i)*time.Second))
		if ref != nil {
			t.Fatal(ref)
		}
		nonces[i] = checks(t, one, a, "ann", token.Text, true, start, Good).Nonce
	}
	if nonces[0] != nonces[1] || nonces[0] == (Nonce{}) {
		t.Errorf("got %x", nonces)
	}
	// Of a proof that nobody could see, none can be guessed.
	plain := checks(t, one, a, "ann", admit(t, one, a, "ann", start), false, start, Good).Nonce
	if again := checks(t, one, a, "ann", admit(t, one, a, "ann", start), false, start, Good).Nonce; plain == again || plain == nonces[0] {
		t.Errorf("got %x twice", plain)
	}
}

// OAT-006, expediting: no entry before its time, no purchase sooner after the entry than is allowed, none without
// the proof that is asked for, none after the end.
func TestOAT006Expediting(t *testing.T) {
	d, a := door(t, Options{Wait: 2 * time.Second}), activity(1, 1)
	for name, c := range map[string]struct {
		now  time.Time
		want seckill.Reason
	}{
		"too early": {start.Add(-61 * time.Second), seckill.NotStarted},
		"just then": {start.Add(-60 * time.Second), seckill.NoReason},
		"running":   {start.Add(time.Minute), seckill.NoReason},
		"over":      {start.Add(time.Hour), seckill.Ended},
	} {
		_, _, ref := d.Admit(a, "ann", "", false, c.now)
		_, ref2 := d.Challenge(a, "ann", 0, c.now)
		for _, ref := range []*seckill.Refusal{ref, ref2} {
			if got := reasonOf(ref); got != c.want || got == seckill.NotStarted && !ref.StartsAt.Equal(start) {
				t.Errorf("%s: got %v", name, ref)
			}
		}
	}
	closed := activity(1, 1)
	closed.Phase = seckill.PhaseClosed
	if _, _, ref := d.Admit(closed, "ann", "", false, start); reasonOf(ref) != seckill.Ended {
		t.Errorf("closed: got %v", ref)
	}

	token := admit(t, d, a, "ann", start)
	_, v, ref := d.Check(a, "ann", token, false, start.Add(500*time.Millisecond))
	if v != TooSoon || ref.Reason != seckill.RateLimited || ref.RetryAfter != 1500*time.Millisecond {
		t.Errorf("too soon: got %v, %+v", v, ref)
	}
	checks(t, d, a, "ann", token, false, start.Add(2*time.Second), Good)
	checks(t, d, a, "ann", token, true, start.Add(2*time.Second), NotProved)
	if TooSoon.Refusal().RetryAfter != 0 {
		t.Error("the refusal of all was changed")
	}
}

func reasonOf(ref *seckill.Refusal) seckill.Reason {
	if ref == nil {
		return seckill.NoReason
	}
	return ref.Reason
}

// A token counts for its buyer, activity and run, in its time, if it was signed here; nothing of it can be
// changed.
func TestTokensAreBound(t *testing.T) {
	d, a := door(t, Options{}), activity(7, 3)
	token := admit(t, d, a, "ann", start)
	checks(t, d, a, "ann", token, false, start.Add(3*time.Minute+10*time.Second), Good)
	checks(t, d, a, "ann", token, false, start.Add(3*time.Minute+11*time.Second), Expired)
	checks(t, d, a, "ann", token, false, start.Add(-11*time.Second), NotYet)
	checks(t, d, activity(8, 3), "ann", token, false, start, OtherActivity)
	checks(t, d, activity(7, 4), "ann", token, false, start, OtherRun)
	checks(t, d, a, "bob", token, false, start, OtherBuyer)
	checks(t, d, a, "", token, false, start, OtherBuyer)
	checks(t, d, a, "ann", "", false, start, Missing)
	for _, bad := range []string{"x", token[1:], token + "A", token[:50] + "\n" + token[51:], strings.Repeat("A", tokenLength), strings.Repeat("é", tokenLength/2)} {
		checks(t, d, a, "ann", bad, false, start, Malformed)
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	must(t, err)
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			if _, v, _ := d.Check(a, "ann", base64.RawURLEncoding.EncodeToString(raw), false, start); v == Good {
				t.Fatalf("bit %d of byte %d can be changed", bit, i)
			}
			raw[i] ^= 1 << bit
		}
	}
}

// A token is used once; the same purchase, by its idempotency key, may be sent again.
func TestTokensAreUsedOnce(t *testing.T) {
	d, a := door(t, Options{}), activity(1, 1)
	p := checks(t, d, a, "ann", admit(t, d, a, "ann", start), false, start, Good)
	for i, c := range []struct {
		key  string
		want seckill.Reason
	}{{"k1", seckill.NoReason}, {"k1", seckill.NoReason}, {"k2", seckill.Replayed}, {"", seckill.Replayed}, {"k1", seckill.NoReason}} {
		if got := reasonOf(d.Use(p, c.key, start.Add(time.Duration(i)*40*time.Second))); got != c.want {
			t.Errorf("use %d with %q: got %v", i, c.key, got)
		}
	}
	p = checks(t, d, a, "ann", admit(t, d, a, "ann", start), false, start, Good)
	if first, second := d.Use(p, "", start), d.Use(p, "", start); first != nil || reasonOf(second) != seckill.Replayed {
		t.Errorf("without a key: got %v, %v", first, second)
	}
}

// Nodes whose clocks are 5 s off to either side take one another's tokens and proofs, from the first moment of
// their lives to the last.
func TestClocksApart(t *testing.T) {
	ring, err := NewRing(secretKey("k", start.Add(-time.Hour)))
	must(t, err)
	a, offsets := activity(1, 1), []time.Duration{-5 * time.Second, 0, 5 * time.Second}
	for _, gives := range offsets {
		for _, checking := range offsets {
			giver, checker := door(t, Options{Ring: ring}), door(t, Options{Ring: ring})
			proof, _ := prove(t, giver, a, "ann", start.Add(gives))
			for _, age := range []time.Duration{0, 2 * time.Minute} {
				if token, v, ref := checker.Admit(a, "ann", proof, true, start.Add(age+checking)); age == 0 && ref != nil || age > 0 && v != Used {
					t.Errorf("proof of %v at %v, after %v: %v, %v, %v", gives, checking, age, token, v, ref)
				}
			}
			token := admit(t, giver, a, "ann", start.Add(gives))
			for _, age := range []time.Duration{0, 3 * time.Minute} {
				checks(t, checker, a, "ann", token, false, start.Add(age+checking), Good)
			}
		}
	}
}

// The buyer page's script and others read these names.
func TestChallengesAreALTCHAs(t *testing.T) {
	d, a := door(t, Options{}), activity(7, 3)
	c, ref := d.Challenge(a, "a&b=c", 4000, start)
	if ref != nil || c.MaxNumber != 4000 {
		t.Fatalf("got %+v, %v", c, ref)
	}
	var got map[string]any
	must(t, json.Unmarshal(c.AppendJSON(nil), &got))
	if got["algorithm"] != "SHA-256" || got["challenge"] != c.Challenge || got["maxnumber"] != 4000.0 || got["salt"] != c.Salt || got["signature"] != c.Signature || len(got) != 5 {
		t.Errorf("got %v", got)
	}
	if want := fmt.Sprintf("?expires=%d&", start.Add(2*time.Minute).Unix()); !strings.Contains(c.Salt, want) || !strings.HasSuffix(c.Salt, "&") || strings.Contains(c.Salt, "a&b") {
		t.Errorf("got %s", c.Salt)
	}
	if _, _, ref := d.Admit(a, "a&b=c", write(solve(t, c)), true, start); ref != nil {
		t.Errorf("got %v", ref)
	}
	// Who was nobody yet when he asked may be anybody, once.
	unknown, _ := prove(t, d, a, "", start)
	if _, _, ref := d.Admit(a, "ann", unknown, true, start); ref != nil {
		t.Errorf("got %v", ref)
	}
	if _, _, ref := d.Admit(a, "bob", unknown, true, start); reasonOf(ref) != seckill.Replayed {
		t.Errorf("got %v", ref)
	}
	for ask, want := range map[int]int{0: DifficultyMin, 1: DifficultyMin, -5: DifficultyMin, 1 << 40: DifficultyMax} {
		if c, _ := d.Challenge(a, "ann", ask, start); c.MaxNumber != want {
			t.Errorf("difficulty %d: got %d", ask, c.MaxNumber)
		}
	}
}

// The longest names and numbers there are fit.
func TestTheLargestFit(t *testing.T) {
	d, a, buyer := door(t, Options{}), activity(1<<63-1, 1<<31-1), strings.Repeat("~", seckill.BuyerBytesMax)
	proof, s := prove(t, d, a, buyer, start)
	if len(proof) > ProofBytesMax/2 || len(s.Salt) > saltBytesMax/2+64 {
		t.Errorf("%d bytes of proof, %d of salt", len(proof), len(s.Salt))
	}
	token, _, ref := d.Admit(a, buyer, proof, true, start)
	if ref != nil {
		t.Fatal(ref)
	}
	checks(t, d, a, buyer, token.Text, true, start, Good)
	checks(t, d, a, buyer[1:], token.Text, true, start, OtherBuyer)
}

func TestOptionsThatAreWrong(t *testing.T) {
	ring, err := NewRing(secretKey("k", start))
	must(t, err)
	for _, o := range []Options{
		{}, {Ring: ring, Before: -1}, {Ring: ring, TokenLife: time.Minute}, {Ring: ring, ProofLife: time.Second}, {Ring: ring, Wait: time.Hour},
		{Ring: ring, Leeway: time.Hour}, {Ring: ring, Difficulty: 1}, {Ring: ring, SeenMax: 1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// Checking the token of a click allocates nothing, except now and then when the pool was emptied.
func TestChecksAllocateNothing(t *testing.T) {
	d, a := door(t, Options{}), activity(1, 1)
	token := admit(t, d, a, "ann", start)
	least := 1e9
	for range 50 {
		least = min(least, testing.AllocsPerRun(1, func() {
			if p, _, ref := d.Check(a, "ann", token, false, start); ref != nil || d.Use(p, "key", start) != nil {
				t.Fatal(ref)
			}
		}))
	}
	if least != 0 {
		t.Errorf("%v allocations", least)
	}
}

// No verdict is without a name, and none but Good without a refusal.
func TestVerdicts(t *testing.T) {
	for v := range verdictCount {
		if v.String() == "" || (v.Refusal() == nil) != (v == Good) {
			t.Errorf("verdict %d: %q, %v", v, v.String(), v.Refusal())
		}
	}
}
