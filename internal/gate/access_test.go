package gate

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/entry"
	"seckill/internal/limit"
	"seckill/stock"
)

// controls is what the operators of a test have decided.
type controls struct {
	switches seckill.Switches
	blocked  string // An address, a buyer or a device.
	eligible string
	unknown  bool
}

func (c *controls) Switches() seckill.Switches { return c.switches }

func (c *controls) Blocked(addr netip.Addr, user, device string) bool {
	return c.blocked != "" && (c.blocked == user || c.blocked == device || c.blocked == addr.String())
}

func (c *controls) Eligible(_ *seckill.Activity, buyer string) (eligible, known bool) {
	return buyer == c.eligible, !c.unknown
}

// Who is blocked by address, name or device is told so before anything else, and nobody else is.
func TestBlocked(t *testing.T) {
	c := &controls{switches: seckill.DefaultSwitches()}
	g := open(t, Options{Controls: c})
	r := request(sale(1), "ann", "", 1)
	r.Addr, r.Device = netip.MustParseAddr("192.0.2.1"), "phone"
	for _, who := range []string{"192.0.2.1", "ann", "phone"} {
		c.blocked = who
		expect(t, g, r, "blocked")
		r.Activity = nil
		expect(t, g, r, "blocked")
		r.Activity = sale(1)
	}
	c.blocked = "bob"
	expect(t, g, r, "pass")
}

// The operators' switches: no intake is "paused", a share of none is "busy", and what was bought already is still
// answered with its ticket.
func TestSwitches(t *testing.T) {
	c := &controls{switches: seckill.DefaultSwitches()}
	held := false
	g := open(t, Options{Controls: c, Held: func() bool { return held }})
	a := sale(1)
	tell(t, g, request(a, "ann", "k", 1), stock.Decision{Verdict: stock.Taken, Ticket: "t1", Left: 5})
	for _, step := range []struct {
		set  func()
		want string
	}{
		{func() { c.switches.Intake = false }, "paused"},
		{func() { c.switches.Intake, c.switches.AdmissionPercent = true, 0 }, "busy"},
		{func() { c.switches.AdmissionPercent, held = 100, true }, "busy"},
		{func() { held = false }, "pass"},
		{func() { c.switches.Challenge = true }, "challenge_required"},
	} {
		step.set()
		expect(t, g, request(a, "bob", "", 1), step.want)
		expect(t, g, request(a, "ann", "k", 1), "ticket t1")
	}
}

// About the share that operators say is let through.
func TestAdmission(t *testing.T) {
	c := &controls{switches: seckill.DefaultSwitches()}
	c.switches.AdmissionPercent = 30
	g := open(t, Options{Controls: c})
	passed := 0
	for range 10_000 {
		if says(g.Check(request(sale(1), "ann", "", 1))) == "pass" {
			passed++
		}
	}
	if passed < 2600 || passed > 3400 { // More than eight standard deviations on each side.
		t.Errorf("%d of 10000 were let through, want about 3000", passed)
	}
}

func limiter(t *testing.T, name string, rate float64, burst int) *limit.Limiter {
	t.Helper()
	l, err := limit.New(limit.Options{Name: name, Rate: rate, Burst: burst, Cells: 1024})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Each limit counts what it is about, says how long to wait, and shows in the headers.
func TestRateLimits(t *testing.T) {
	g := open(t, Options{Limits: Limits{
		Keys: limit.NewKeys(nil), IP: limiter(t, "ip", 1, 5), User: limiter(t, "user", 1, 3), Device: limiter(t, "device", 1, 2),
	}})
	at := time.Now()
	from := func(addr, user, device string) *Request {
		r := request(sale(1), user, "", 1)
		r.Device, r.Now = device, at
		r.Activity.StartsAt, r.Activity.EndsAt = at.Add(-time.Hour), at.Add(time.Hour)
		if addr != "" {
			r.Addr = netip.MustParseAddr(addr)
		}
		return r
	}
	for _, step := range []struct{ addr, user, device, want string }{
		{"192.0.2.1", "ann", "phone", "pass"}, {"192.0.2.1", "bob", "phone", "pass"}, {"192.0.2.1", "eve", "phone", "rate_limited"}, // The device.
		{"192.0.2.2", "ann", "", "pass"}, {"192.0.2.3", "ann", "", "pass"}, {"192.0.2.4", "ann", "", "rate_limited"}, // The buyer.
		{"192.0.2.1", "joe", "", "pass"}, {"192.0.2.1", "jim", "", "pass"}, {"192.0.2.1", "jon", "", "rate_limited"}, // The address.
		{"", "new", "", "pass"}, {"2001:db8::1", "six", "", "pass"},
	} {
		r := from(step.addr, step.user, step.device)
		a := g.Check(r)
		if says(a) != step.want {
			t.Errorf("%+v: got %s", step, says(a))
		}
		policy, state := g.AppendLimits(nil, nil, r)
		if !strings.Contains(string(policy), `"user";q=3;w=3`) && step.want == "pass" || len(state) == 0 {
			t.Errorf("%+v: policy %s, state %s", step, policy, state)
		}
		if a.Refusal != nil && (a.Refusal.RetryAfter <= 0 || a.Refusal.RetryAfter > 5*time.Second || !strings.Contains(string(state), "r=0")) {
			t.Errorf("%+v: wait %v, state %s", step, a.Refusal.RetryAfter, state)
		}
	}
}

// Who goes on clicking though he is refused is handed over, once he has been for long, and under his own name.
func TestGrossAbuseIsHandedOver(t *testing.T) {
	var punished []string
	g := open(t, Options{Limits: Limits{
		Keys: limit.NewKeys(nil), User: limiter(t, "user", 1, 1), Abuse: limiter(t, "abuse", 1, 50), Punish: func(buyer string) { punished = append(punished, buyer) },
	}})
	at := time.Now()
	name := []byte("bot")
	for range 60 {
		r := request(sale(1), string(name), "", 1)
		r.Now = at
		g.Check(r)
	}
	r := request(sale(1), "ann", "", 1)
	r.Now = at
	g.Check(r)
	if len(punished) != 9 || punished[0] != "bot" {
		t.Errorf("handed over: %q, want the bot for each of 9 clicks beyond 1 and 50", punished)
	}
}

func door(t *testing.T, o entry.Options) *entry.Door {
	t.Helper()
	ring, err := entry.NewRing(entry.NewKey(now.Add(-time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	o.Ring = ring
	d, err := entry.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// An activity that asks for tokens lets in who has one, for one purchase; it is used up by the purchase and not by a
// try that gets nothing.
func TestEntryTokens(t *testing.T) {
	d := door(t, entry.Options{})
	g := open(t, Options{Entry: d})
	a := sale(3)
	a.EntryToken = true
	token, _, ref := d.Admit(a, "ann", "", false, now)
	if ref != nil {
		t.Fatal(ref)
	}
	with := func(buyer, token, key string) *Request {
		r := request(a, buyer, key, 1)
		r.Token = token
		return r
	}
	expect(t, g, with("ann", "", ""), "challenge_required")
	expect(t, g, with("ann", "made-up", ""), "challenge_required")
	expect(t, g, with("bob", token.Text, ""), "challenge_required")
	tell(t, g, with("ann", token.Text, "k"), stock.Decision{Verdict: stock.Short, Left: 1})
	r := with("ann", token.Text, "k")
	tell(t, g, r, stock.Decision{Verdict: stock.Taken, Ticket: "t1", Left: 1})
	if first, second := r.Ticket(), r.Ticket(); first != second || r.AttemptKey() != "k" {
		t.Errorf("an entry with two tickets, or with the key %q", r.AttemptKey())
	}
	expect(t, g, with("ann", token.Text, ""), "replayed")
	expect(t, g, with("ann", token.Text, "other"), "replayed")
	expect(t, g, with("ann", token.Text, "k"), "ticket t1")

	keyless := with("ann", token.Text, "")
	g.Check(keyless)
	if first, second := keyless.AttemptKey(), keyless.AttemptKey(); first == "" || first == second {
		t.Error("two requests without a key are one")
	}

	// With a challenge the token has to have cost a proof.
	a.Challenge = true
	fresh, _, _ := d.Admit(a, "bob", "", false, now)
	expect(t, g, with("bob", fresh.Text, ""), "challenge_required")
	// An activity that asks for nothing does not look at tokens.
	plain := request(sale(1), "ann", "", 1)
	plain.Token = "whatever"
	expect(t, g, plain, "pass")
	if first, second := plain.Ticket(), plain.Ticket(); first == second || plain.AttemptKey() != "" {
		t.Error("a request without an entry has one ticket, or a key")
	}
}

// The way in has its own order, and who is not known yet is asked nothing that needs a name.
func TestCheckEntry(t *testing.T) {
	c := &controls{switches: seckill.DefaultSwitches(), eligible: "ann", blocked: "eve"}
	g := open(t, Options{Controls: c, Limits: Limits{Keys: limit.NewKeys(nil), User: limiter(t, "user", 1, 2)}})
	a := sale(1)
	a.Audience = seckill.AudienceListed
	for _, step := range []struct {
		buyer string
		a     *seckill.Activity
		want  seckill.Reason
	}{
		{"eve", nil, seckill.Blocked}, {"bob", nil, seckill.NotFound}, {"bob", a, seckill.NotEligible}, {"bob", a, seckill.RateLimited},
		{"", a, seckill.NoReason}, {"ann", a, seckill.NoReason}, {"ann", a, seckill.NoReason},
	} {
		r := request(step.a, step.buyer, "", 1)
		r.Now = time.Now()
		got := seckill.NoReason
		if ref := g.CheckEntry(r); ref != nil {
			got = ref.Reason
		}
		if got != step.want {
			t.Errorf("buyer %q, activity there: %v: got %s, want %s", step.buyer, step.a != nil, got, step.want)
		}
	}
	// Who has used up his entries may still buy: that is another budget.
	r := request(a, "ann", "", 1)
	r.Now = time.Now()
	if a := g.Check(r); a.Refusal != nil && a.Refusal.Reason == seckill.RateLimited {
		t.Error("entries count as purchases")
	}
}
