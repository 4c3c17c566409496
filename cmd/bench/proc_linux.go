package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what a process has used, of all its threads: utime + stime of its /proc/PID/stat, from the same
// counter with a finer unit.
func processorTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED in linux/posix-timers.h
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &used); err != nil {
		return 0, fmt.Errorf("processor time of the server: %w", err)
	}
	return time.Duration(used.Nano()), nil
}

// memoryOf is what a process has in memory now.
func memoryOf(pid int) (m memory, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		for name, into := range map[string]*int{"VmRSS:": &m.RSS, "RssAnon:": &m.Anonymous, "VmHWM:": &m.Peak} {
			if value, ok := strings.CutPrefix(line, name); ok && err == nil {
				_, err = fmt.Sscan(value, into)
			}
		}
	}
	return m, err
}
