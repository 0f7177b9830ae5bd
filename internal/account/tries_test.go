package account

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
)

// login tells what comes of a try.
func (d *Desk) login(t *testing.T, name, given, from string) seckill.Reason {
	t.Helper()
	_, _, err := d.Login(t.Context(), name, given, from)
	return reasonOf(err)
}

// A name is tried few times from an address, then seldom, by however many at once; whoever knows the password is free again.
func TestGuessesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDesk(t)
		try := func(name, given string) seckill.Reason { t.Helper(); return d.login(t, name, given, "192.0.2.1") }
		var all sync.WaitGroup
		var mu sync.Mutex
		count := map[seckill.Reason]int{}
		burst := atNameFromAddress.burst
		for range 3 * burst {
			all.Go(func() {
				got := try("ann", "wrong")
				mu.Lock()
				defer mu.Unlock()
				count[got]++
			})
		}
		all.Wait()
		if count[seckill.Unauthenticated] != burst || count[seckill.RateLimited] != 2*burst {
			t.Errorf("of %d at once: %v; want %d tried", 3*burst, count, burst)
		}
		if got := try("ann", password); got != seckill.RateLimited {
			t.Errorf("the right one then: %v", got)
		}
		if got := try("eve", password); got != seckill.Unauthenticated {
			t.Errorf("another name: %v", got)
		}
		<-time.After(atNameFromAddress.every + time.Millisecond)
		if got := try("ANN ", password); got != seckill.NoReason {
			t.Errorf("the right one later: %v", got)
		}
		for i := range burst {
			if got := try("ann", "wrong"); got != seckill.Unauthenticated {
				t.Errorf("guess %d after the right one: %v", i, got)
			}
		}
	})
}

// Whoever goes from name to name is slowed down by his address, of IPv6 by his network, and comes no further with names
// that are no account's; others go on. Who knows his password pays nothing for having it right.
func TestGuessesAtManyNamesAreSlowed(t *testing.T) {
	for _, c := range [][3]string{{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::ffff:1%eth0", "2001:db8:0:1::1"}} {
		d, _ := newDesk(t)
		now := time.Now()
		tried := 0
		for i := range 5000 {
			if d.tries.try(fmt.Sprint("name", i), c[i%2], now) == 0 {
				tried++
			}
		}
		if tried != fromAddress.burst {
			t.Errorf("from %s: %d names were tried at once, want %d", c[0], tried, fromAddress.burst)
		}
		if wait := d.tries.try("ann", c[0], now); wait <= 0 || wait > fromAddress.every {
			t.Errorf("from %s: the next may come in %v, want up to %v", c[0], wait, fromAddress.every)
		}
		if wait := d.tries.try("ann", c[2], now); wait > 0 {
			t.Errorf("%s has to wait %v for what %s did", c[2], wait, c[0])
		}
	}
	d, _ := newDesk(t)
	now := time.Now()
	for i := range 2 * atName.burst {
		for _, from := range []string{"192.0.2.1", fmt.Sprintf("198.51.100.%d", i)} {
			if wait := d.tries.try("ann", from, now); wait > 0 {
				t.Fatalf("login %d from %s: wait %v", i, from, wait)
			}
			d.tries.forgive("ann", from, now)
		}
	}
}

// One stranger does not lock a person out, however long he goes on. Many do, where the person was never before, and for as
// long as they go on; where he has come in from he comes in again.
func TestStrangersLockNobodyOut(t *testing.T) {
	d, _ := newDesk(t)
	now := time.Now()
	for range 1000 {
		for range 5 {
			d.tries.try("ann", "198.51.100.1", now)
		}
		now = now.Add(time.Second)
	}
	if wait := d.tries.try("ann", "192.0.2.1", now); wait > 0 {
		t.Errorf("after one stranger's tries the person has to wait %v", wait)
	}
	d.tries.forgive("ann", "192.0.2.1", now)

	tried := 0
	for i := range 200 {
		if d.tries.try("ann", fmt.Sprintf("203.0.113.%d", i), now) == 0 {
			tried++
		}
	}
	if tried >= 200 || tried < atName.burst/2 {
		t.Errorf("200 addresses tried %d times, want fewer than all, about %d", tried, atName.burst)
	}
	if wait := d.tries.try("ann", "192.0.2.9", now); wait <= 0 || wait > atName.every {
		t.Errorf("at another desk the person may come in %v, want up to %v", wait, atName.every)
	}
	if wait := d.tries.try("ann", "192.0.2.1", now); wait > 0 {
		t.Errorf("where the person was before he has to wait %v", wait)
	}
	if wait := d.tries.try("bob", "192.0.2.1", now); wait > 0 {
		t.Errorf("another person has to wait %v", wait)
	}
	if wait := d.tries.try("ann", "192.0.2.9", now.Add(time.Minute)); wait > 0 {
		t.Errorf("a minute after the last of them: %v", wait)
	}
	now = now.Add(welcomeFor + time.Second)
	for i := range 200 {
		d.tries.try("ann", fmt.Sprintf("203.0.113.%d", i), now)
	}
	if d.tries.try("ann", "192.0.2.1", now) <= 0 {
		t.Error("an address is welcome for ever")
	}
}

// The desk itself knows who came in from where.
func TestWhoCameInIsWelcome(t *testing.T) {
	d, _ := newDesk(t)
	if got := d.login(t, "ann", password, "192.0.2.1"); got != seckill.NoReason {
		t.Fatalf("login: %v", got)
	}
	for i := range 2 * atName.burst {
		d.tries.try("ann", fmt.Sprintf("203.0.113.%d", i), time.Now().Add(time.Minute))
	}
	if got := d.login(t, "ann", password, "198.51.100.7"); got != seckill.RateLimited {
		t.Errorf("from elsewhere: got %v, want %v", got, seckill.RateLimited)
	}
	if got := d.login(t, "ann", password, "192.0.2.1"); got != seckill.NoReason {
		t.Errorf("from where she was: got %v, want a session", got)
	}
}

// However many names and addresses are tried, few are remembered.
func TestTriesAreBounded(t *testing.T) {
	tr, now := newTries(), time.Now()
	for i := range 3 * triedMax {
		name, from := fmt.Sprint("name", i), fmt.Sprintf("10.0.%d.%d", i>>8&255, i&255)
		tr.try(name, from, now)
		tr.forgive(fmt.Sprint("other", i), from, now)
	}
	for what, got := range map[string]int{"pairs": len(tr.pairs), "addresses": len(tr.from), "names": len(tr.names), "welcome": len(tr.welcome)} {
		if got > triedMax || got == 0 {
			t.Errorf("%d %s are remembered, want up to %d", got, what, triedMax)
		}
	}
}
