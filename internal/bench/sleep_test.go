package bench

import (
	"context"
	"testing"
	"time"
)

// A sleep is over when its time has come, and not before; or when its context ends, as are all that follow.
func TestSleeper(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sleep, stop := sleeper(ctx)
	defer stop()
	for _, wait := range []time.Duration{-time.Hour, 0, time.Nanosecond, 50 * time.Microsecond, 3 * time.Millisecond, time.Microsecond} {
		at := time.Now().Add(wait)
		if !sleep(at) {
			t.Errorf("%v: ended", wait)
		}
		if early := time.Until(at); early > 0 {
			t.Errorf("%v: %v too early", wait, early)
		}
	}
	ended := make(chan bool, 1)
	go func() { ended <- sleep(time.Now().Add(time.Hour)) }()
	cancel()
	if <-ended || sleep(time.Now().Add(time.Hour)) || sleep(time.Now().Add(-time.Hour)) {
		t.Error("it sleeps on")
	}
}
