//go:build !linux

package testenv

import "syscall"

// childAttr is for Linux alone; elsewhere a test that is killed leaves its children behind.
func childAttr() *syscall.SysProcAttr { return nil }
