package testenv

import "syscall"

// childAttr has the system kill a child when the test dies without a word.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
