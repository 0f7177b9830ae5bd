package testenv

import (
	"runtime"
	"testing"
)

// A port is given out once.
func TestClaim(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // Nothing is claimed elsewhere.
	}
	const low = 45 // No port that FreePorts gives.
	if !claim(low) || claim(low) || !claim(low+1) {
		t.Error("claimed twice, or not at all")
	}
}
