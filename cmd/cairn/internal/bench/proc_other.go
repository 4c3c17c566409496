//go:build !linux

package bench

import (
	"errors"
	"time"
)

var errNotLinux = errors.New("servers are measured on Linux, which tells what another process has used")

func processorTime(int) (time.Duration, error) { return 0, errNotLinux }

func memoryOf(int) (Memory, error) { return Memory{}, errNotLinux }
