package bench

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper makes a sleep until a time, false if ctx ends first, that is over about a tenth of a millisecond later: the runtime's own
// timers are up to a millisecond late in a process that has nothing else to do, which is longer than many an answer takes. stop must be called.
// See timerfd_create(2).
func sleeper(ctx context.Context) (sleep func(at time.Time) bool, stop func()) {
	coarse := func(at time.Time) bool { return sleepUntil(ctx, at) }
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil { // Too many open files: then later.
		return coarse, func() {}
	}
	alarm := os.NewFile(uintptr(fd), "timerfd")
	raw, err := alarm.SyscallConn()
	if err != nil {
		_ = alarm.Close()
		return coarse, func() {}
	}
	forget := context.AfterFunc(ctx, func() { _ = alarm.SetReadDeadline(time.Unix(1, 0)) })
	sleep = func(at time.Time) bool {
		left := time.Until(at)
		if left <= 0 {
			return ctx.Err() == nil
		}
		once := unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}
		var set error
		if raw.Control(func(fd uintptr) { set = unix.TimerfdSettime(int(fd), 0, &once, nil) }) != nil || set != nil {
			return coarse(at)
		}
		var rang [8]byte
		if _, err := alarm.Read(rang[:]); err != nil {
			return coarse(at)
		}
		return true
	}
	return sleep, func() { forget(); _ = alarm.Close() }
}
