package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what a process has used, of all its threads: utime + stime of its
// /proc/PID/stat, from the same counter with a finer unit.
func processorTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED in linux/posix-timers.h
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &used); err != nil {
		return 0, fmt.Errorf("processor time of the server: %w", err)
	}
	return time.Duration(used.Nano()), nil
}

// memoryOf is what a process has in memory now.
func memoryOf(pid int) (memory, error) {
	var m memory
	for file, fields := range map[string]map[string]*int{
		"status":       {"VmHWM:": &m.Peak},
		"smaps_rollup": {"Rss:": &m.RSS, "Anonymous:": &m.Anonymous},
	} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return m, fmt.Errorf("memory of the server: %w", err)
		}
		for line := range strings.Lines(string(b)) {
			if words := strings.Fields(line); len(words) == 3 && fields[words[0]] != nil {
				if _, err := fmt.Sscan(words[1], fields[words[0]]); err != nil {
					return m, fmt.Errorf("memory of the server: %w", err)
				}
			}
		}
	}
	return m, nil
}
