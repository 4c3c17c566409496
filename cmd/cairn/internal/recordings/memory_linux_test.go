package recordings

import (
	"os"
	"syscall"
)

// residentMB is the most memory that a process had, in MB.
func residentMB(s *os.ProcessState) float64 {
	usage, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return float64(usage.Maxrss) / 1024 // Linux counts in KB
}
