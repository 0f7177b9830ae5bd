// Package testenv starts real services for tests, each on a free port of the loopback
// interface, in a folder of its own, and ends them with the test. It is imported
// by tests only, and knows nothing of the product.
package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// needs finds a program by one of its names, or fails the test with what to do.
func needs(tb testing.TB, names ...string) string {
	tb.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		// Servers live where not everybody looks.
		for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
				return path
			}
		}
	}
	tb.Fatalf("%s is not installed: run scripts/setup-tests.sh", names[0])
	return ""
}

// FreePort returns host:port of a port on the loopback interface that nobody listens on.
func FreePort(tb testing.TB) string {
	tb.Helper()
	return FreePorts(tb, 1)[0]
}
