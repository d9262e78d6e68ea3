package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the user and system time of a process so far, including its
// threads that have ended. The files in /proc have it only in steps of 10 ms.
func processTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED of include/linux/posix-timers.h
	var used unix.Timespec
	// clock_getcpuclockid(3) makes the id of the clock in this way.
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &used); err != nil {
		return 0, err
	}
	return time.Duration(used.Nano()), nil
}
