//go:build !linux

package bench

import (
	"context"
	"time"
)

// sleeper makes a sleep until a time, false if ctx ends first.
func sleeper(ctx context.Context) (sleep func(at time.Time) bool, stop func()) {
	return func(at time.Time) bool { return sleepUntil(ctx, at) }, func() {}
}
