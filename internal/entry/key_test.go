package entry

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// While keys change, a token that any node gave is good on every other, whichever of the two has heard
// of the change.
func TestKeysChangeWithoutRefusingAnybody(t *testing.T) {
	old, next := secretKey("old", start.Add(-time.Hour)), secretKey("next", start.Add(time.Minute))
	ring := func(keys ...Key) *Ring {
		r, err := NewRing(keys...)
		must(t, err)
		return r
	}
	a := activity(1, 1)
	behind, ahead, done := door(t, Options{Ring: ring(old)}), door(t, Options{Ring: ring(next, old)}), door(t, Options{Ring: ring(next)})
	// Before its time the next one does not sign, so those that do not have it yet do not miss it.
	token := admit(t, ahead, a, "ann", start)
	checks(t, behind, a, "ann", token, false, start, Good)
	token = admit(t, behind, a, "ann", start)
	checks(t, ahead, a, "ann", token, false, start.Add(2*time.Minute), Good)
	// In its time it signs; who has the clock behind takes it, too.
	token = admit(t, ahead, a, "ann", start.Add(time.Minute))
	checks(t, ahead, a, "ann", token, false, start.Add(55*time.Second), Good)
	checks(t, done, a, "ann", token, false, start.Add(time.Minute), Good)
	checks(t, behind, a, "ann", token, false, start.Add(time.Minute), UnknownKey)
	// A ring can be changed while it is used.
	must(t, behind.o.Ring.Set(next, old))
	checks(t, behind, a, "ann", token, false, start.Add(time.Minute), Good)
	must(t, behind.o.Ring.Set(old))
	checks(t, behind, a, "ann", token, false, start.Add(time.Minute), UnknownKey)
}

// Over a month, rotated every minute, there is always a key that signs, every node has had each for a while
// before it does, and it is believed for as long as what it signed.
func TestRotation(t *testing.T) {
	r := Rotation{Every: 24 * time.Hour, Ahead: 5 * time.Minute, Keep: 2 * time.Hour}
	var keys []Key
	added := map[string]time.Time{}
	signer, since := map[string]time.Time{}, map[string]time.Time{} // When it last signed, and first.
	changes := 0
	for now := start; now.Before(start.Add(30 * 24 * time.Hour)); now = now.Add(time.Minute) {
		next, changed := Rotate(keys, now, r)
		if changed {
			changes++
		} else if len(next) != len(keys) {
			t.Fatal("a change that is none")
		}
		keys = next
		if len(keys) > 3 {
			t.Fatalf("%d keys", len(keys))
		}
		there := map[string]bool{}
		var newest Key
		for _, k := range keys {
			there[k.ID] = true
			if _, known := added[k.ID]; !known {
				added[k.ID] = now
			}
			if !now.Before(k.NotBefore) && k.NotBefore.After(newest.NotBefore) {
				newest = k
			}
		}
		if newest.ID == "" {
			t.Fatalf("at %v nothing signs", now)
		}
		if _, before := signer[newest.ID]; !before && len(signer) > 0 && now.Sub(added[newest.ID]) < r.Ahead {
			t.Fatalf("a key signs %v after it was made", now.Sub(added[newest.ID]))
		}
		if _, known := since[newest.ID]; !known {
			since[newest.ID] = now
		}
		if now.Sub(since[newest.ID]) > r.Every {
			t.Fatalf("a key signs for %v", now.Sub(since[newest.ID]))
		}
		signer[newest.ID] = now
		for id, last := range signer {
			if !there[id] && now.Sub(last) < r.Keep {
				t.Fatalf("a key is gone %v after it signed", now.Sub(last))
			}
		}
	}
	if len(signer) != 30 && len(signer) != 31 || changes < 58 {
		t.Errorf("%d keys signed, %d changes", len(signer), changes)
	}
	// After a long sleep, the next key still waits until all have it.
	next, changed := Rotate(keys, start.Add(90*24*time.Hour), r)
	if newest := next[len(next)-1]; !changed || newest.NotBefore.Before(start.Add(90*24*time.Hour+r.Ahead)) {
		t.Errorf("got %v from %v on", newest, newest.NotBefore)
	}
}

// Secrets of an operator: the first signs, all count, and they are the same on all nodes.
func TestKeysOfSecrets(t *testing.T) {
	const first, second = "first first first", "second second second"
	one, err := NewRing(KeysOf(first, second)...)
	must(t, err)
	two, err := NewRing(KeysOf(second, first)...)
	must(t, err)
	alone, err := NewRing(KeysOf(first)...)
	must(t, err)
	a := activity(1, 1)
	token := admit(t, door(t, Options{Ring: one}), a, "ann", start)
	checks(t, door(t, Options{Ring: two}), a, "ann", token, false, start, Good)
	checks(t, door(t, Options{Ring: alone}), a, "ann", token, false, start, Good)
	token = admit(t, door(t, Options{Ring: two}), a, "ann", start)
	checks(t, door(t, Options{Ring: alone}), a, "ann", token, false, start, UnknownKey)
}

// What is no key is refused, and no secret is ever printed.
func TestKeysThatAreNone(t *testing.T) {
	short := Key{ID: "a", Secret: []byte("hidden")}
	for _, keys := range [][]Key{nil, {short}, {secretKey("a", start), secretKey("a", start)}, make([]Key, KeysMax+1)} {
		if r, err := NewRing(keys...); err == nil || r != nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%v: got %v", keys, err)
		}
	}
	if got := fmt.Sprintf("%v %+v %#v %s", short, short, short, []Key{short}); strings.Contains(got, "hidden") || strings.Contains(got, "104") {
		t.Errorf("got %s", got)
	}
	if a, b := NewKey(start), NewKey(start); a.ID == b.ID || string(a.Secret) == string(b.Secret) || len(a.Secret) < SecretBytesMin {
		t.Errorf("got %v, %v", a, b)
	}
}
