package seckill_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
)

// A ticket tells its run, cannot be guessed, and nothing else is taken for one.
func TestTickets(t *testing.T) {
	seen := map[string]bool{}
	for _, run := range []seckill.RunID{{Activity: 1, Run: 1}, {Activity: 1 << 62, Run: 1<<31 - 1}} {
		for range 1000 {
			ticket := seckill.NewTicket(run)
			if got, ok := seckill.TicketRun(ticket); !ok || got != run {
				t.Fatalf("%s: got %v, %v, want %v", ticket, got, ok, run)
			}
			if seen[ticket] || len(ticket) > 48 {
				t.Fatalf("%s was made twice, or is long", ticket)
			}
			seen[ticket] = true
		}
	}
	good := seckill.NewTicket(seckill.RunID{Activity: 1, Run: 1})
	for _, bad := range []string{"", "-", "1-1", "1-1-", "0-1" + good[3:], "1-0" + good[3:], "-1-1" + good[3:], good + "0", good[1:], "1-1-" + strings.Repeat("é", 10), "+1" + good[1:], strings.ToUpper(good[:4]) + "ABCDEFGHJKMNPQRSTVWX"} {
		if run, ok := seckill.TicketRun(bad); ok {
			t.Errorf("%q was taken for a ticket of %v", bad, run)
		}
	}
}

// Tickets of one run sort as they were made, as far as they were made in different milliseconds; those of the same one
// differ. Of their 20 digits the first six are time, and from the eighth on each may be any.
func TestTicketsRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := seckill.RunID{Activity: 36, Run: 7}
		const own = len("10-7-")
		seen := map[string]bool{}
		var digits [20]map[byte]bool
		for i := range digits {
			digits[i] = map[byte]bool{}
		}
		last := ""
		for range 100 {
			var time32 [13]byte
			binary.BigEndian.PutUint32(time32[:], uint32(time.Now().UnixMilli()))
			want := seckill.TicketOf(run, time32)[:own+6]
			latest := ""
			for range 100 {
				ticket := seckill.NewTicket(run)
				if ticket <= last || ticket[:own+6] != want {
					t.Fatalf("got %s, want one that begins with %s and sorts behind %s", ticket, want, last)
				}
				latest = max(latest, ticket)
				seen[ticket] = true
				for i := range digits {
					digits[i][ticket[own+i]] = true
				}
			}
			last = latest
			<-time.After(time.Millisecond) // Of the bubble's clock.
		}
		if len(seen) != 100*100 {
			t.Errorf("%d tickets are %d different ones", 100*100, len(seen))
		}
		for i := range digits[7:] {
			if got := len(digits[7+i]); got != 32 {
				t.Errorf("digit %d was one of %d, want any of 32", 7+i, got)
			}
		}
		<-time.After(time.Duration(1<<32-100) * time.Millisecond)
		if again := seckill.NewTicket(run); again >= last {
			t.Errorf("%s, 49 days later, sorts behind %s: its time is longer than 32 bits", again, last)
		}
	})
}

// Each state of an activity, at its moments.
func TestActivityState(t *testing.T) {
	start := time.Date(2026, 11, 11, 20, 0, 0, 0, time.UTC)
	a := seckill.Activity{Phase: seckill.PhaseLoaded, StartsAt: start, EndsAt: start.Add(time.Hour)}
	with := func(change func(*seckill.Activity)) seckill.Activity { b := a; change(&b); return b }
	scheduled := with(func(a *seckill.Activity) { a.Phase = seckill.PhaseScheduled })
	paused := with(func(a *seckill.Activity) { a.Paused = true })
	closed := with(func(a *seckill.Activity) { a.Phase = seckill.PhaseClosed; a.Paused = true })
	for _, c := range []struct {
		a       seckill.Activity
		at      time.Duration
		soldOut bool
		want    seckill.State
	}{
		{scheduled, -time.Hour, false, seckill.StateScheduled},
		{scheduled, time.Minute, false, seckill.StateScheduled},
		{a, -1, false, seckill.StateReady},
		{a, -1, true, seckill.StateReady},
		{a, 0, false, seckill.StateOpen},
		{a, 0, true, seckill.StateSoldOut},
		{a, time.Hour - 1, false, seckill.StateOpen},
		{a, time.Hour, false, seckill.StateEnded},
		{paused, 0, true, seckill.StatePaused},
		{paused, time.Hour, false, seckill.StateEnded},
		{closed, -time.Hour, false, seckill.StateEnded},
	} {
		if got := c.a.State(start.Add(c.at), c.soldOut); got != c.want {
			t.Errorf("phase %d, paused %v, %v from the start, sold out %v: got %s, want %s", c.a.Phase, c.a.Paused, c.at, c.soldOut, got, c.want)
		}
	}
}

// Every reason has a name of its own and a status that is an error.
func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	for r := seckill.NoReason + 1; int(r) < seckill.Reasons; r++ {
		name := r.String()
		if name == "" || seen[name] || r.Status() < 400 || r.Status() > 503 {
			t.Errorf("reason %d: name %q, status %d", r, name, r.Status())
		}
		seen[name] = true
		if got, ok := seckill.ParseReason(name); !ok || got != r {
			t.Errorf("%s: parsed as %d", name, got)
		}
	}
}

// A buyer's id is 1 to 64 bytes of printable ASCII.
func TestValidBuyer(t *testing.T) {
	for _, good := range []string{"1", "a b", "~", strings.Repeat("x", 64), "0d5b1b0e-6ad6-4b0b-8d7e-1f0e4c0b2b0a"} {
		if !seckill.ValidBuyer(good) {
			t.Errorf("%q was refused", good)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", 65), "é", "a\n", "\x00", "\x7f"} {
		if seckill.ValidBuyer(bad) {
			t.Errorf("%q was taken", bad)
		}
	}
}
