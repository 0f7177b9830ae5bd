//go:build unix

package api

import "syscall"

const writesNow = true

// writeNow writes to a socket what it has room for.
func writeNow(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
